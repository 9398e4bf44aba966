"""The journal keeps whole lines and shrugs off a torn one."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from citus_analysis.redaction import redact_values
from citus_analysis.runner.journal import Journal


def test_what_is_appended_is_read_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "new" / "journal.jsonl")
    journal.append("a", "prepared", attempt=1)
    journal.append("b", "prepared")
    journal.append("a", "verified", throughput_ops_s=1.5)
    assert [(entry.subject, entry.state) for entry in journal.entries()] == [
        ("a", "prepared"),
        ("b", "prepared"),
        ("a", "verified"),
    ]
    last = journal.last("a")
    assert last is not None
    assert last.detail == {"throughput_ops_s": 1.5}
    assert journal.last("c") is None


def test_no_byte_is_read_twice(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append("a", "prepared")
    with journal.path.open("rb+") as file:
        file.write(b"?" * (journal.path.stat().st_size - 1))  # reading this again would fail
    journal.append("b", "prepared")
    assert [entry.subject for entry in journal.entries()] == ["a", "b"]
    assert [entry.state for entry in journal.of("a")] == ["prepared"]


def test_what_another_process_appends_is_seen(tmp_path: Path) -> None:
    mine, theirs = Journal(tmp_path / "journal.jsonl"), Journal(tmp_path / "journal.jsonl")
    assert list(mine.entries()) == []
    theirs.append("a", "prepared")
    assert [entry.subject for entry in mine.entries()] == ["a"]
    mine.append("b", "prepared")
    assert [entry.subject for entry in theirs.entries()] == ["a", "b"]


def test_a_disk_without_room_names_the_journal(tmp_path: Path, no_file_grows_beyond: Callable[[int], None]) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append("a", "prepared")
    no_file_grows_beyond(journal.path.stat().st_size + 10)
    with pytest.raises(OSError, match=r"File too large: .*journal\.jsonl"):
        journal.append("b", "prepared")
    assert [entry.subject for entry in journal.entries()] == ["a"]


@pytest.fixture
def no_file_grows_beyond() -> Iterator[Callable[[int], None]]:
    """A limit of the process stands for a full disk: writing fails in the same place."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@settings(deadline=None)  # every append waits for the disk
@given(kept=st.integers(0, 200))
def test_a_line_cut_off_by_a_crash_is_ignored_and_overwritten(kept: int) -> None:
    with TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "journal.jsonl")
        journal.append("a", "prepared")
        whole = journal.path.stat().st_size
        journal.append("b", "prepared")
        torn = journal.path.read_bytes()[: whole + kept]
        journal.path.write_bytes(torn)
        complete = torn.endswith(b"\n")
        assert [entry.subject for entry in journal.entries()] == (["a", "b"] if complete and kept else ["a"])
        journal.append("c", "prepared")
        assert [entry.subject for entry in journal.entries()][-1] == "c"


@pytest.mark.parametrize(
    "detail",
    [
        {"driver": {"properties": {"db.passwd": "Tr0ub4dor"}}},
        {"driver": {"properties": {"db.url": "jdbc:postgresql://bench:Tr0ub4dor@worker1/ycsb"}}},
        {"driver": {"java_options": ["-Xmx1g", "-Dapi_key=Tr0ub4dor"]}},
        {"reason": "FATAL: ALTER USER bench PASSWORD 'Tr0ub4dor' failed"},
    ],
)
def test_secrets_stay_out_of_it(tmp_path: Path, detail: dict[str, Any]) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append("experiment", "begun", **detail)
    assert "Tr0ub4dor" not in journal.path.read_text()
    assert "***" in journal.path.read_text()
    assert redact_values(detail) == next(iter(journal.entries())).detail
