"""`pidstat -o JSON` (sysstat 12.7 and later), complete or cut while it was being written.

Table and columns are those of the text (`pidstat.py`): the reports of a process are rows of their own with the same
`sample`, a thread's row has no process, and reports of children, stacks, priorities and kernel tables have no columns.
Times follow the rules of `mpstat_json.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.format import Hints, Parsed
from citus_analysis.formats.parsing.json_records import SysstatJson, convert_latin1_to_utf8, read_reports
from citus_analysis.formats.parsing.sysstat import combine_table_rows, map_report_columns
from citus_analysis.formats.parsing.sysstat_json import JsonDays, Moment, build_rows_of_objects

#: An identifier, which is a number of any size.
_DIGITS: Final = re.compile("[0-9]{1,300}")
_KINDS: Final = ("task-cpu-load", "task-memory", "io", "context-switch")
#: The names of the text without `%`, except for two names that would be the same.
_PLACES: Final = {
    **{name.removeprefix("%"): place[0] for name, place in map_report_columns("process_samples", "PID").items()},
    "cpu": "cpu_percent",
    "cpu_nr": "cpu",
}
#: Names of objects that occur next to the name of a process.
_SIGNATURE: Final = (
    *(b'"task-cpu-load"', b'"child-cpu-load"', b'"task-memory"', b'"child-memory"', b'"context-switch"'),
    *(b'"io"', b'"stack"', b'"kernel"', b'"realtime"'),
)


class PidstatJson(SysstatJson):
    """Output of `pidstat -o JSON`."""

    name: ClassVar[str] = "pidstat_json"
    version: ClassVar[int] = 2
    tables = ("process_samples",)
    signature = ((b'"PID": "', b'"TGID": "'), _SIGNATURE)

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Reports in the order of the file."""
        days = JsonDays.of(content, hints)
        yield from read_reports(content, False, lambda reports: _build_pidstat_tables(days.moments(reports)))


def _build_pidstat_tables(moments: Sequence[Moment]) -> dict[str, pl.DataFrame]:
    rows = [row for kind in _KINDS for moment in moments for row in _iterate_pidstat_rows(moment, kind)]
    return combine_table_rows([build_rows_of_objects(rows, "process_samples", "PID", "pidstat")])


def _iterate_pidstat_rows(moment: Moment, kind: str) -> Iterator[dict[str, object]]:
    content, place = moment
    found = content.get(kind)
    for thing in found if isinstance(found, list) else ():
        if isinstance(thing, dict) and (row := _parse_pidstat_row(thing)):
            yield {**place, **row}


def _parse_pidstat_row(thing: Mapping[str, object]) -> dict[str, object]:
    """The columns of one object, whose identifiers are texts."""
    thread = _parse_identifier(thing.get("TID"))
    process = _parse_identifier(thing.get("PID", thing.get("TGID"))) if thread is None else None
    values = {_PLACES[name]: value for name, value in thing.items() if name in _PLACES and isinstance(value, float)}
    if not values or (thread is None and process is None):
        return {}
    texts = {"user": thing.get("UID", thing.get("USER")), "command": thing.get("cmd")}
    read = {name: convert_latin1_to_utf8(text) for name, text in texts.items() if isinstance(text, str)}
    absent = dict.fromkeys((*texts, *_PLACES.values()))
    return absent | {"pid": process, "thread": thread} | read | values


def _parse_identifier(text: object) -> float | None:
    return float(text) if isinstance(text, str) and _DIGITS.fullmatch(text) else None


FORMAT: Final = PidstatJson()
