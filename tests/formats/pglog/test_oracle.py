"""The compiled code gives the rows and traces that the oracle gives; where it is missing, an error says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple
from pathlib import Path

import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

from citus_analysis.cli import commands
from citus_analysis.dataset import ingest
from citus_analysis.errors import CompiledCodeError
from citus_analysis.formats import Content, Hints, format_named
from citus_analysis.formats.parsing import sampler_lines
from citus_analysis.formats.pglog import compiled
from citus_analysis.spans import build_traces
from citus_analysis.spans.traces import Traces
from tests.formats.pglog.logs import Read, gathered
from tests.formats.pglog.oracle import use_oracle
from tests.recordings import RECORDED
from tests.spans.recordings import Cut, load
from tests.spans.test_damaged_logs import DAMAGES, in_pieces

SERVERS = Path(__file__).parents[2] / "data" / "servers"
MPSTAT = SERVERS.parent / "samplers" / "sysstat" / "mpstat-P.out"
LOGS = {
    "stderr": ("pglog", next((RECORDED / "w2-multishard" / "pglogs").glob("PGLOG-0-1.log*"))),
    "syslog": ("pglog", SERVERS.parent / "syslog" / "numbered.syslog"),
    "csvlog": ("pgcsvlog", SERVERS / "debian.csv"),
    "jsonlog": ("pgjsonlog", SERVERS / "debian.json"),
}


def read(form: str, path: Path) -> Read:
    return gathered(list(format_named(form).parse(Content(path), Hints(path.name, {}, 1))))


@pytest.mark.parametrize(("form", "path"), LOGS.values(), ids=LOGS)
def test_rows_are_the_same(form: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = read(form, path)
    use_oracle(monkeypatch)
    slow = read(form, path)
    assert fast.events.height > 20
    assert_frame_equal(slow.events, fast.events, categorical_as_str=True)
    for one, other in zip(astuple(slow)[1:], astuple(fast)[1:], strict=True):
        assert one.equals(other) if hasattr(one, "equals") else one == other


@pytest.mark.parametrize(
    ("resource", "cut"),
    [("w2-multishard", None), ("w2-txn-update", None), ("w2-binary-t16-insert", None), ("w2-t4-insert", "first")],
)
def test_traces_are_the_same(resource: str, cut: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = load(resource, (1,), Cut("1", cut)) if cut else load(resource, (1,))
    same_traces(lambda: build_traces(recording.log_events, recording.nodes), monkeypatch)


@pytest.mark.parametrize("damage", ["rotated", "overlapping copies", "lines twice"])
def test_traces_of_sorted_records_are_the_same(damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = in_pieces("w2-t4-insert", DAMAGES[damage])
    same_traces(lambda: build_traces(recording.log_events, recording.nodes), monkeypatch)


def same_traces(build: Callable[[], Traces], monkeypatch: pytest.MonkeyPatch) -> None:
    fast = build()
    use_oracle(monkeypatch)
    slow = build()
    assert fast.spans.height > 200
    for name in vars(fast):
        assert_frame_equal(getattr(slow, name), getattr(fast, name), categorical_as_str=True)


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation without compiled code."""
    for module in (compiled, sampler_lines):
        monkeypatch.setattr(module, "LIBRARY", module.LIBRARY.with_name(f"absent{module.LIBRARY.name}"))
    loaded = (compiled.load_scanner_library, sampler_lines._load_field_library)
    for library in loaded:
        library.cache_clear()
    yield
    for library in loaded:
        library.cache_clear()


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("path", "library"),
    [(LOGS["stderr"][1], "_scanner"), (SERVERS.parent / "samplers" / "sysstat" / "mpstat-P.out", "_fields")],
)
def test_an_installation_without_compiled_code_reads_neither_logs_nor_samplers(
    path: Path, library: str, tmp_path: Path
) -> None:
    with pytest.raises(
        CompiledCodeError, match=rf"absent{library}.*no compiled code \(install citus-analysis"
    ) as raised:
        ingest(path, tmp_path / "out")
    assert raised.value.exit_code == 3
    assert not (tmp_path / "out" / "log_events").exists()


@pytest.mark.parametrize("missing", [False, True])
def test_doctor_says_what_it_costs(missing: bool, request: pytest.FixtureRequest) -> None:
    if missing:
        request.getfixturevalue("uncompiled")
    said = CliRunner().invoke(commands, ["doctor"]).output
    assert ("this installation has no compiled code" in said) == missing
