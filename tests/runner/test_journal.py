"""The journal keeps whole lines and shrugs off a torn one."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

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
