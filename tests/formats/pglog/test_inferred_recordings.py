"""The prefix of a recorded log is inferred, and what it gives is what the csvlog of the same records says."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from citus_analysis.formats import Content, detect_format
from citus_analysis.formats.pglog import FORMAT

from .logs import read
from .true_records import FOLDER, Judged, Row, records_alone, true_rows

PREFIXES: dict[str, str] = json.loads((FOLDER / "prefixes.json").read_text())
#: Values that are not decided: no one can tell where an application with blanks ends beside another text.
NULL = {
    "named-13": {"database", "application"},
    "varied-09": {"application", "user"},
    "varied-13": {"application", "user"},
}


def paired(name: str) -> tuple[list[Mapping[str, object]], list[Row]]:
    """Rows of the log and of csvlog that are of the same records: at the ends, one of them has up to two more."""
    path = FOLDER / f"{name}.log.zst"
    with Content(path).open() as stream:
        data = stream.read()
    events = records_alone(read(path).events.rows(named=True))
    places = [(int(str(event["byte_offset"])), int(str(event["byte_length"]))) for event in events]
    texts = [data[begin : begin + length].decode() for begin, length in places]
    rows = true_rows(name)
    said = [f"{row['severity']}:  {row['message'].splitlines()[0]}" for row in rows]
    shifts = [shift for shift in range(-3, 4) if all(_same(texts, said, at, shift) for at in range(len(said)))]
    assert len(shifts) == 1
    pairs = [(events[at + shifts[0]], row) for at, row in enumerate(rows) if 0 <= at + shifts[0] < len(events)]
    assert len(pairs) >= len(events) - 3
    return [event for event, _ in pairs], [row for _, row in pairs]


def _same(texts: list[str], said: list[str], at: int, shift: int) -> bool:
    return not 0 <= at + shift < len(texts) or said[at] in texts[at + shift]


@pytest.mark.parametrize("name", PREFIXES)
def test_values_are_those_of_csvlog(name: str) -> None:
    judged = Judged().compare(*paired(name), PREFIXES[name])
    assert judged.wrong == []
    assert set(judged.null) == NULL.get(name, set())


@pytest.mark.parametrize("name", PREFIXES)
def test_every_line_is_read(name: str) -> None:
    path = FOLDER / f"{name}.log.zst"
    log = read(path)
    assert log.rejects.height == 0
    with Content(path).open() as stream:
        assert log.parsed == len(stream.read())
    assert detect_format(Content(path)) is FORMAT
    assert FORMAT.detect("any", Content(path).head) >= 0.9


@pytest.mark.parametrize("name", [name for name, prefix in PREFIXES.items() if "%l" in prefix])
def test_lines_count_details_which_csvlog_does_not(name: str) -> None:
    events, rows = paired(name)
    assert all(int(str(event["session_line"])) >= int(row["line"]) for event, row in zip(events, rows, strict=True))
    by_process: dict[object, list[int]] = {}
    for event in read(FOLDER / f"{name}.log.zst").events.rows(named=True):
        by_process.setdefault(event["pid"], []).append(event["session_line"])
    assert all(lines == list(range(lines[0], lines[0] + len(lines))) for lines in by_process.values())
