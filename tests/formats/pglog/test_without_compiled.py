"""Without compiled code, Python reads the same rows and traces, and says once that it is slower."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import astuple
from pathlib import Path

import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

from citus_analysis.cli import commands
from citus_analysis.cli.errors import print_short_warnings
from citus_analysis.errors import SlowReaderWarning
from citus_analysis.formats import Content, Hints, format_named
from citus_analysis.formats.pglog import compiled as library
from citus_analysis.formats.pglog import reader as chosen_reader
from citus_analysis.spans import build_traces
from citus_analysis.spans.traces import Traces
from tests.formats.pglog.logs import Read, gathered
from tests.recordings import RECORDED
from tests.spans.recordings import Cut, load
from tests.spans.test_damaged_logs import DAMAGES, in_pieces

SERVERS = Path(__file__).parents[2] / "data" / "servers"
LOGS = {
    "stderr": ("pglog", next((RECORDED / "w2-multishard" / "pglogs").glob("PGLOG-0-1.log*"))),
    "syslog": ("pglog", SERVERS.parent / "syslog" / "numbered.syslog"),
    "csvlog": ("pgcsvlog", SERVERS / "debian.csv"),
    "jsonlog": ("pgjsonlog", SERVERS / "debian.json"),
}


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Take the compiled code away."""
    chosen_reader._warn.cache_clear()
    yield lambda: monkeypatch.setattr(library, "LIBRARY", library.LIBRARY.with_name("no_scanner"))
    chosen_reader._warn.cache_clear()


def read(form: str, path: Path) -> Read:
    return gathered(list(format_named(form).parse(Content(path), Hints(path.name, {}, 1))))


@pytest.mark.parametrize(("form", "path"), LOGS.values(), ids=LOGS)
def test_rows_are_the_same(form: str, path: Path, uncompiled: Callable[[], None]) -> None:
    fast = read(form, path)
    uncompiled()
    with pytest.warns(SlowReaderWarning, match=r"by Python, which takes about [0-9]+ times as long") as said:
        slow = read(form, path)
    assert len(said) == 1
    assert fast.events.height > 20
    assert_frame_equal(slow.events, fast.events, categorical_as_str=True)
    for one, other in zip(astuple(slow)[1:], astuple(fast)[1:], strict=True):
        assert one.equals(other) if hasattr(one, "equals") else one == other
    # Said once, not for every log.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(form, path)


@pytest.mark.parametrize(
    ("resource", "cut"),
    [("w2-multishard", None), ("w2-txn-update", None), ("w2-binary-t16-insert", None), ("w2-t4-insert", "first")],
)
def test_traces_are_the_same(resource: str, cut: str | None, uncompiled: Callable[[], None]) -> None:
    recording = load(resource, (1,), Cut("1", cut)) if cut else load(resource, (1,))
    same_traces(lambda: build_traces(recording.log_events, recording.nodes), uncompiled)


@pytest.mark.parametrize("damage", ["rotated", "overlapping copies", "lines twice"])
def test_traces_of_sorted_records_are_the_same(damage: str, uncompiled: Callable[[], None]) -> None:
    recording = in_pieces("w2-t4-insert", DAMAGES[damage])
    same_traces(lambda: build_traces(recording.log_events, recording.nodes), uncompiled)


def same_traces(build: Callable[[], Traces], uncompiled: Callable[[], None]) -> None:
    fast = build()
    uncompiled()
    with pytest.warns(SlowReaderWarning):
        slow = build()
    assert fast.spans.height > 200
    for name in vars(fast):
        assert_frame_equal(getattr(slow, name), getattr(fast, name), categorical_as_str=True)


@pytest.mark.parametrize("compiled", [True, False])
def test_doctor_says_what_it_costs(compiled: bool, uncompiled: Callable[[], None]) -> None:
    if not compiled:
        uncompiled()
    said = CliRunner().invoke(commands, ["doctor"]).output
    assert ("missing: no fast reading of server logs" in said) != compiled


def warn_of_both() -> None:
    with print_short_warnings():
        warnings.warn(SlowReaderWarning("by Python"), stacklevel=1)
        warnings.warn("of another package", stacklevel=1)


def test_a_command_says_it_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(UserWarning, match="of another package") as others:
        warn_of_both()
    assert capsys.readouterr().err == "warning: by Python\n"
    assert len(others) == 1
