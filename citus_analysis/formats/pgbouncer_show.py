r"""Tables of PgBouncer's administration console, as psql prints them, to `pooler_samples`.

Read are `SHOW STATS`, `POOLS`, `CLIENTS`, `SERVERS`, `DATABASES`, `LISTS` and `MEM` of PgBouncer 1.8 to 1.24, aligned,
unaligned or as CSV, several in one file too. For example::

     database  |   user    | cl_active | cl_waiting | sv_active | ... | maxwait | maxwait_us |  pool_mode
    -----------+-----------+-----------+------------+-----------+-----+---------+------------+-------------
     bench     | app       |         8 |          5 |         3 | ... |       1 |     317000 | transaction
    (1 row)

Each table is a sample; the time that `\watch` prints above it is its time, in the zone of the option `timezone`. Each
number is a row: counters (`total_query_time`) since PgBouncer began, and means (`avg_query_time`) over its last
`stats_period`. `maxwait` and `wait` are whole, with their microseconds. Not kept: texts, ports and processes, of
connections all but their waiting time and state.

The tables of `SHOW STATS_TOTALS` and `SHOW STATS_AVERAGES` have the same columns and are rejected: `SHOW STATS` has
both, under different names.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.format import TIMEZONE, Format, Hints, Parsed, Reject, reject_rows
from citus_analysis.formats.parsing.lines import take_first_lines
from citus_analysis.formats.parsing.time_zones import get_timezone
from citus_analysis.formats.parsing.times import time_expr
from citus_analysis.schema import TABLES

_LIMIT_BYTES: Final = 16 * 2**20
#: Report -> columns that its table has, and no other one.
_SIGNS: Final[Mapping[str, frozenset[str]]] = {
    "STATS": frozenset(["database", "total_received", "total_sent", "avg_recv", "avg_sent"]),
    "POOLS": frozenset(["database", "user", "cl_active", "cl_waiting", "sv_active", "maxwait"]),
    "CLIENTS": frozenset(["type", "user", "database", "state", "addr", "connect_time", "request_time", "ptr", "link"]),
    "DATABASES": frozenset(["name", "host", "port", "database", "force_user", "pool_size"]),
    "LISTS": frozenset(["list", "items"]),
    "MEM": frozenset(["name", "size", "used", "free", "memtotal"]),
    "STATS_TOTALS or STATS_AVERAGES": frozenset(["database", "query_count", "bytes_received", "bytes_sent"]),
}
#: Reports whose headers alone say little, and a word in their tables.
_WORDS: Final = {"LISTS": b"used_clients", "MEM": b"_cache"}
_UNDECIDED: Final = "STATS_TOTALS or STATS_AVERAGES"
_SIDES: Final = {"C": "CLIENTS", "S": "SERVERS"}
#: Columns of numbers that measure nothing.
_NO_MEASURES: Final = frozenset(["port", "local_port", "remote_pid", "tls", "close_needed", "link", "ptr"])
#: Whole seconds -> the column with their microseconds.
_WAITS: Final = {"maxwait": "maxwait_us", "wait": "wait_us"}
_UNITS: Final = (
    (re.compile(r"(?:total|avg)_\w*time|(?:max)?wait"), "us"),
    (re.compile(r"avg_(?:recv|sent)"), "B/s"),
    (re.compile(r"total_(?:received|sent)|size|memtotal"), "B"),
    (re.compile(r"avg_\w+"), "1/s"),
)
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,9})?")
_STAMP: Final = re.compile(
    r"(?:[^\t]*\t)?(?:[A-Z][a-z]{2} )?(?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>[0-9]{1,2}) (?P<time>[0-9:]{8})"
    r" (?P<year>[0-9]{4})(?: \(every [0-9.]+s\))?"
)
_NOISE: Final = re.compile(r"[-+]+|\([0-9]+ rows?\)|Time: [0-9.,]+ ms.*|Output format is .*")
_FIRST_LINES: Final = 5
_US_PER_S: Final = 1_000_000.0


class PgBouncerShow(Format):
    """Tables of PgBouncer's administration console: SHOW STATS, POOLS, CLIENTS ..."""

    name: ClassVar[str] = "pgbouncer_show"
    version: ClassVar[int] = 1
    tables = ("pooler_samples",)
    noise = "headers, rules, numbers of rows, the times of `\\watch`, empty lines"
    options = (TIMEZONE,)

    def detect(self, name: str, head: bytes) -> float:
        """By a header with columns of one of the reports."""
        for line in take_first_lines(head, _FIRST_LINES).splitlines():
            report = _report(_cells(line.decode("utf-8", "replace"))[0])
            if report is not None and _WORDS.get(report, b"") in head:
                return 0.95
        return 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece.

        Raises:
            FormatError: the content has no table of PgBouncer.
        """
        data = content.read(_LIMIT_BYTES)
        reading = _Reading()
        for line in data.split(b"\n"):
            reading.take(line, min(len(line) + 1, len(data) - reading.offset))
        if not reading.tables:
            raise FormatError("has no table of PgBouncer", path=content.path, hint="choose another --format")
        yield Parsed(
            {"pooler_samples": reading.frame(get_timezone(hints.options))},
            reading.parsed,
            reading.noise,
            reject_rows(reading.rejects),
        )


def _cells(line: str) -> tuple[list[str], str]:
    """The cells of a line and the mark between them."""
    mark = "|" if "|" in line else ","
    if mark == "|":
        return [cell.strip() for cell in line.split("|")], mark
    try:
        return next(csv.reader([line.strip()], strict=True), []), mark
    except csv.Error:
        return [], mark


def _report(header: Sequence[str]) -> str | None:
    names = set(header)
    for report, sign in _SIGNS.items():
        if sign <= names and (report not in _WORDS or len(header) == len(sign)):
            return report
    return None


_COLUMNS: Final = ("sample", "time", "report", "database", "user", "item", "state", "measure", "value", "unit")


@dataclass
class _Reading:
    """The state of reading a file.

    Attributes:
        offset: of the next line.
        tables: tables so far.
    """

    offset: int = 0
    tables: int = 0
    parsed: int = 0
    noise: int = 0
    rows: list[tuple[object, ...]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    _header: list[str] = field(default_factory=list)
    _mark: str = ""
    _report: str = ""
    #: Time of this table, and the time above the next one.
    _time: str | None = None
    _above: str | None = None

    def take(self, line: bytes, length: int) -> None:
        """Read the next line."""
        text = line.decode("utf-8", "replace").strip(" \r\ufeff")
        cells, mark = _cells(text)
        report = _report(cells)
        if report is not None:
            self._begin(report, cells, mark)
            self.noise += length
        elif not text or _NOISE.fullmatch(text) or self._is_stamp(text):
            self.noise += length
        elif self._report and self._report != _UNDECIDED and mark == self._mark and len(cells) == len(self._header):
            row = dict(zip(self._header, cells, strict=True))
            damaged = next((name for name in _WAITS.values() if not _NUMBER.fullmatch(row.get(name) or "0")), None)
            if damaged is None:
                self._add(row)
                self.parsed += length
            else:
                self.rejects.append(Reject(self.offset, length, f"{damaged} is not a number", text))
        else:
            undecided = self._report == _UNDECIDED and len(cells) == len(self._header)
            reason = f"the columns are those of {_UNDECIDED}" if undecided else "not a line of a table of PgBouncer"
            self.rejects.append(Reject(self.offset, length, reason, text))
        self.offset += length

    def _begin(self, report: str, header: list[str], mark: str) -> None:
        self._header, self._mark, self._report = header, mark, report
        self.tables += 1
        self._time, self._above = self._above, None

    def _is_stamp(self, text: str) -> bool:
        found = _STAMP.fullmatch(text)
        if found is None:
            return False
        said = f"{found['month']} {found['day']} {found['time']} {found['year']}"
        try:
            self._above = datetime.strptime(said, "%b %d %H:%M:%S %Y").isoformat(" ")
        except ValueError:
            return False
        return True

    def _add(self, cells: Mapping[str, str]) -> None:
        """The numbers of a row."""
        report = _SIDES.get(cells["type"], "CLIENTS") if self._report == "CLIENTS" else self._report
        database = cells.get("name") if report == "DATABASES" else cells.get("database")
        item = cells.get("ptr") or cells.get("list") or (cells.get("name") if report == "MEM" else None)
        place = (self.tables - 1, self._time, report, database, cells.get("user"), item, cells.get("state"))
        for name, text in cells.items():
            skipped = name in _NO_MEASURES or name in _WAITS.values()
            if skipped or not _NUMBER.fullmatch(text) or (report in _SIDES.values() and name not in _WAITS):
                continue
            value = float(text)
            if name in _WAITS:
                value = value * _US_PER_S + float(cells.get(_WAITS[name]) or 0)
            unit = next((unit for pattern, unit in _UNITS if pattern.fullmatch(name)), None)
            self.rows.append((*place, name, value, None if report in ("POOLS", "DATABASES") and unit != "us" else unit))

    def frame(self, timezone: str) -> pl.DataFrame:
        """The table."""
        kinds = dict.fromkeys(_COLUMNS, pl.String) | {"sample": pl.Int32, "value": pl.Float64}
        frame = pl.DataFrame(self.rows, schema=kinds, orient="row")
        frame = frame.with_columns(sample_time=time_expr(pl.col("time"), timezone)).drop("time")
        return TABLES["pooler_samples"].parsed().conform(frame)


FORMAT: Final = PgBouncerShow()
