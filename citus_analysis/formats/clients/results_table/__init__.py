"""Tables of results with one line for each run, as people and scripts write them.

Tables: `stated_runs` (the facts about the run of each line), `clients`, `client_metrics`. For example::

    variant,clients,rep,tps,latency avg (ms)
    hash,8,1,4512.3,1.77
    hash,8,2,4498.0,1.78

    threads;workload;throughput (ops/s);avg latency (ms);p99
    16;C;12345,6;1,29;3,1

Cells are separated by commas, semicolons or tabs. A file has one decimal mark, inferred from all its numbers. Headers
are read as the audit of published tables reads them (docs/published.md); the columns are

- facts: threads or clients, workers, records, the number of the repetition (`rep`, `run`, `iteration`),
  system, phase, workload, scale factor, pgbench's protocol, target rate, run time, operations, failed operations,
  status;
- one throughput, and latencies: mean, extremes, percentiles, also of operations (`read p99 (us)`). The unit of a
  latency is that of its header; without one, the only unit in which it fits the other latencies or Little's law;
- all other texts and settings (`shards`, `nodes`, `drivers`) become the set-up, as `name=value`, so that runs of
  different set-ups are never pooled. The values of columns such as `variant` and `config` are names of set-ups
  themselves;
- all other measured values become metrics of `OVERALL` under their header; dates, files and comments are in
  `stated_runs.remarks`.

Where the table does not number the repetitions, lines with equal facts are repetitions in their order. The phase is
`run` unless a column or `--meta phase=` says otherwise. A line with a status other than success, or without a measured
value, is a failed run; a line that summarises others (mean, total) is rejected.

Refused are tables that cannot be decided: several throughputs, no certain unit or decimal mark, numbers that may be
settings or measured, two lines for one repetition, means of several runs, and series in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import ClassVar, Final

import numpy as np

from citus_analysis.errors import FormatError
from citus_analysis.formats.api.format import Format, Hints, Parsed, reject_rows
from citus_analysis.formats.clients._report_lines import measures_named
from citus_analysis.formats.clients.results_table._columns import is_measure, is_throughput, named
from citus_analysis.formats.clients.results_table._roles import IS_SUMMARY, NO_RUNS, roles_of
from citus_analysis.formats.clients.results_table._runs import tables_of
from citus_analysis.formats.clients.results_table._sheet import Sheet, read_sheet
from citus_analysis.formats.sources.content import HEAD_BYTES, Content

__all__ = ["FORMAT", "ResultsTable"]

#: Some ten thousand runs.
_LIMIT_BYTES: Final = 4 * 2**20
_EVIDENCE: Final = frozenset(["threads", "workers", "iteration", "system", "workload"])
_SURE: Final = 0.9


class ResultsTable(Format):
    """Table of results: separated values, one line for each run."""

    name: ClassVar[str] = "results_table"
    version: ClassVar[int] = 1
    tables = ("stated_runs", "clients", "client_metrics")
    noise = "the header, empty lines, comments above the header"
    measures = measures_named("AverageLatency|MinLatency|MaxLatency", "p{}", "50 90 95 99 99.9")

    def detect(self, name: str, head: bytes) -> float:
        """By a header with a throughput or latency and a fact about runs, above numbers only."""
        whole = head if len(head) < HEAD_BYTES else head[: head.rfind(b"\n") + 1]
        sheet = read_sheet(whole)
        return _SURE if sheet is not None and _has_runs(sheet) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """A piece for each run, and one for the rest.

        Raises:
            FormatError: the content is not such a table, or it cannot be decided what it means.
        """
        data = content.read(_LIMIT_BYTES)
        sheet = read_sheet(data)
        if sheet is None:
            raise FormatError("the first line is not a header of distinct names", path=content.path, place="line 1")
        roles = roles_of(sheet)
        tables, counts = tables_of(roles)
        lengths = [line.length for line in roles.lines]
        rows = np.arange(len(lengths) + 1)
        bounds = {"stated_runs": rows, "clients": rows, "client_metrics": np.array([0, *accumulate(counts)])}
        yield from Parsed(tables, sum(lengths)).divided(bounds, lengths, [0] * len(lengths))
        yield Parsed({}, 0, sheet.noise_bytes, reject_rows(roles.rejects))


def _has_runs(sheet: Sheet) -> bool:
    columns = named(sheet.header)
    facts = {column.fact for column in columns}
    # It states facts about files that are read themselves, or is an export of the table `runs`.
    is_of_files = "file" in sheet.header or {"run_id", "resource"} <= set(sheet.header)
    of_set_ups = facts & _EVIDENCE or any(column.names_set_up for column in columns)
    # A column of latencies alone is common in logs of single operations.
    sure = any(map(is_throughput, columns)) or {"iteration", "threads", "workers"} & facts
    if is_of_files or sheet.rejects or not (of_set_ups and sure and any(map(is_measure, columns))):
        return False
    try:
        roles = roles_of(sheet)
    except FormatError as error:
        return error.way_out != NO_RUNS
    return all(reject.reason.endswith(IS_SUMMARY) for reject in roles.rejects)


FORMAT: Final = ResultsTable()
