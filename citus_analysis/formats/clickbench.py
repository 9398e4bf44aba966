"""Result of ClickBench: one file for each system, machine and date (`SYSTEM/results/DATE/MACHINE.json`).

Tables: `stated_runs` (one row), `clients`, `client_metrics`. For example, in short::

    {"system": "Citus", "date": "2026-05-10", "machine": "c6a.4xlarge", "cluster_size": 1, "tuned": "no",
     "tags": ["C", "PostgreSQL compatible"], "load_time": 1529, "data_size": 18982258549,
     "result": [[5.308, 4.338, 4.339], [5.833, 4.547, null], ...]}

Each line of `result` is a query, and its three numbers are seconds: of the cold execution, whose caches were emptied,
and of two warm ones, which follow at once. **They are not three repetitions**: the first measures another state, and
the warm ones come from one session of one installation. Each position is an operation of its own (`Q1 cold`,
`Q1 warm 1`, `Q1 warm 2`; queries are numbered from 0, as the site does), so that nothing pools them; a file is one run,
and only another file of the same system and machine repeats it.

- null is an execution that failed, or was not tried: it has no row, and is counted in `failed_operations`;
- 0 is kept: the time was below the resolution of the clock;
- system, machine, size of the cluster and tuning are the set-up (`stated_runs.set_up`); a database that is not
  restarted before the cold execution says so by the tag `lukewarm-cold-run`, which belongs to the set-up as well;
- files of 2024 and before may state `time` instead of `date`, and no system: they compare machines, not systems;
- a run has no throughput: 43 different queries do not add up to a rate.

Refused are the results of ClickBench's other benchmark, of versions (`kind`), with six executions of 344 queries, and
files that state an error instead of results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.client_reports import MetricCell, make_metric_frame
from citus_analysis.formats.parsing.format import Format, Hints, Parsed
from citus_analysis.formats.parsing.json_records import convert_to_finite_number, parse_json_document
from citus_analysis.operations import OVERALL

#: The executions of a query, in their order.
POSITIONS: Final = ("cold", "warm 1", "warm 2")
_LIMIT_BYTES: Final = 2**20
_KEYS: Final = (b'"result"', b'"machine"', b'"tags"')
#: Facts that make two results of a system comparable, or not.
_SET_UP: Final = ("system", "machine", "cluster_size", "hardware", "tuned")
_LUKEWARM: Final = "lukewarm-cold-run"
#: Numbers of the whole run -> metric and unit.
_TOTALS: Final = {
    "load_time": ("load time", "s"),
    "data_size": ("data size", "bytes"),
    "concurrent_qps": ("concurrent queries", "1/s"),
}
#: A time that no query takes: a year.
_MOST_SECONDS: Final = 366 * 86_400.0

Times = tuple[float | None, float | None, float | None]


@dataclass(frozen=True)
class ClickbenchResult:
    """One result as its file states it.

    Attributes:
        system: name of the system; None in files that compare machines.
        date: date as stated (YYYY-MM-DD, or with a time); None if there is none.
        set_up: system, machine, size of the cluster and so on, by name: what results of one set-up have in common.
        tags: tags of the system.
        comment: remark of the submitter; empty if there is none.
        totals: numbers of the whole run (`load_time` in s, `data_size` in bytes), by the file's name.
        times: of each query the seconds of its cold and its two warm executions; None for one that failed.
    """

    system: str | None
    date: str | None
    set_up: Mapping[str, str]
    tags: tuple[str, ...]
    comment: str
    totals: Mapping[str, float]
    times: tuple[Times, ...]


def read_clickbench(data: bytes, path: Path | None = None) -> ClickbenchResult:
    """A result of ClickBench from the bytes of its file.

    Raises:
        FormatError: the bytes are no such result; the message names the query that is not three times.

    Example:
        >>> found = read_clickbench(b'{"machine": "m", "tags": [], "result": [[0.2, 0.1, null]]}')
        >>> found.times, found.system
        (((0.2, 0.1, None),), None)
    """
    document = parse_json_document(data, "a result of ClickBench", path)
    if isinstance(document, dict) and isinstance(reason := document.get("error"), str):
        raise FormatError(f"states an error instead of results: {reason[:200]}", path=path)
    if not isinstance(document, dict) or not isinstance(lines := document.get("result"), list) or not lines:
        raise FormatError("is not a result of ClickBench: it has no list of times under 'result'", path=path)
    machine, tags = document.get("machine"), document.get("tags")
    if not isinstance(machine, str) or not isinstance(tags, list):
        raise FormatError("is not a result of ClickBench: it lacks 'machine' or 'tags'", path=path)
    named = {name: value for name in _SET_UP if (value := document.get(name)) not in (None, "")}
    return ClickbenchResult(
        system=_text(document.get("system")),
        date=_text(document.get("date")) or _text(document.get("time")),
        set_up={name: str(value) for name, value in named.items()}
        | ({"cold": "lukewarm"} if _LUKEWARM in tags else {}),
        tags=tuple(str(tag) for tag in tags),
        comment=_text(document.get("comment")) or "",
        totals={name: value for name in _TOTALS if (value := convert_to_finite_number(document.get(name))) is not None},
        times=tuple(_times(line, query, path) for query, line in enumerate(lines)),
    )


def _times(line: object, query: int, path: Path | None) -> Times:
    place = f"query {query}"
    if not isinstance(line, list) or len(line) != len(POSITIONS):
        raise FormatError("is not a cold and two warm times", path=path, place=place)
    seconds = [convert_to_finite_number(value) for value in line]
    for value, second in zip(line, seconds, strict=True):
        if value is not None and (second is None or not 0 <= second < _MOST_SECONDS):
            raise FormatError(f"{str(value)[:40]} is not a time in seconds", path=path, place=place)
    return seconds[0], seconds[1], seconds[2]


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


class Clickbench(Format):
    """Result of ClickBench as JSON: a cold and two warm executions of each query."""

    name: ClassVar[str] = "clickbench"
    version: ClassVar[int] = 1
    tables: ClassVar[tuple[str, ...]] = ("stated_runs", "clients", "client_metrics")
    dropped: ClassVar[str] = "whether the system is proprietary, the share of errors of its concurrent queries"
    measures: ClassVar[Mapping[str, str]] = {"Time": "mean_us", "Operations": "operations"}

    def detect(self, name: str, head: bytes) -> float:
        """By the whole document: other tools have results of machines, too."""
        if not all(key in head for key in _KEYS):
            return 0.0
        try:
            read_clickbench(head)
        except FormatError:
            return 0.0
        return 0.95

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece: a file has some kilobytes.

        Raises:
            FormatError: the content is no such result.
        """
        data = content.read(_LIMIT_BYTES)
        found = read_clickbench(data, content.path)
        tables = {
            "stated_runs": _read_stated_facts(found),
            "clients": _client(found),
            "client_metrics": _metrics(found),
        }
        yield Parsed(tables, len(data))


def _read_stated_facts(found: ClickbenchResult) -> pl.DataFrame:
    remarks = {"date": found.date, "tags": " ".join(found.tags), "comment": found.comment}
    stated = {
        "line": 1,
        "system": found.system,
        "set_up": ", ".join(f"{name}={value}" for name, value in found.set_up.items()),
        "phase": "run",
        "workload": "ClickBench",
        "remarks": ", ".join(f"{name}={value}" for name, value in remarks.items() if value) or None,
    }
    return pl.DataFrame([stated])


def _client(found: ClickbenchResult) -> pl.DataFrame:
    seconds = [second for times in found.times for second in times]
    done = sum(second is not None for second in seconds)
    facts = {
        "tool": "ClickBench",
        "threads": 1,
        "operations_planned": len(seconds),
        "operations_done": done,
        "failed_operations": len(seconds) - done,
        "completed": True,
    }
    return pl.DataFrame([facts])


def _metrics(found: ClickbenchResult) -> pl.DataFrame:
    rows: list[MetricCell] = [(OVERALL, *_TOTALS[name], value) for name, value in found.totals.items()]
    for query, times in enumerate(found.times):
        for position, second in zip(POSITIONS, times, strict=True):
            if second is not None:
                name = f"Q{query} {position}"
                rows += [(name, "Time", "s", second), (name, "Operations", None, 1.0)]
    return make_metric_frame(rows)


FORMAT: Final = Clickbench()
