"""Summary of an experiment of bexhoma, which runs load generators on Kubernetes: `..._summary.md`, logs, its docs.

Tables: `stated_runs`, `clients`, `client_metrics`. For example, in short::

    ## Show Summary
    ### Workload
    HammerDB Workload SF=16 (warehouses for TPC-C)
    * Code: 1781936803
      * Experiment uses bexhoma version 0.9.16.
      * Experiment is run 2 times.
    ### Connections
    * PostgreSQL-1-1-1-1 uses docker image postgres:18.3
      * node:cl-worker36
    ### Execution
    #### Per Phase
    | DBMS             |   experiment_run |   vusers |   client |   pod_count |     NOPM |      TPM |   errors |
    |:-----------------|-----------------:|---------:|---------:|------------:|---------:|---------:|---------:|
    | PostgreSQL-1-1-1 |                1 |       16 |        1 |           1 | 10168.00 | 23498.00 |        0 |

A line of the last table below `Execution` is a run: all pods of one phase together, as bexhoma sums them up (it adds
throughputs of YCSB and BenchBase, and averages NOPM, which each HammerDB counts for the whole database). A page with
several summaries, as in its documentation, has the runs of all of them.

- The run of the experiment (`experiment_run`) is the iteration. The set-up is the rest: the experiment's code, the
  database with its image and node, and the columns client, pods, target and so on. **Phases of one experiment
  (`client`) follow one another on the same database**, the first with cold caches: they are no repetitions, also where
  their settings are equal;
- vusers, terminals and threads are `threads`. TPC-C in HammerDB has `new_orders_per_min`, and TPM / 60 as throughput;
- all numbers are metrics of `OVERALL` under their headings. Percentiles of several pods are the largest one of a pod,
  and therefore no percentiles of operations;
- for TPC-H and TPC-DS, each query's time is a metric of a section of its own, for each connection.

Tables of version 0.8 are aligned by blanks, which is read as well; its summaries of TPC-H have no such table and are
refused.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.client_reports import MetricCell, make_metric_frame
from citus_analysis.formats.parsing.format import Format, Hints, Parsed, Reject, reject_rows
from citus_analysis.operations import OVERALL

_LIMIT_BYTES: Final = 4 * 2**20
_SUMMARY: Final = re.compile(rb"^## Show Summary\s*$", re.MULTILINE)
#: The heading of the results, and a table below it.
_RESULTS: Final = re.compile(
    rb"^### Execution[ \t]*\r?\n(?:(?:#### [^\n]*|[ \t]*\r?)\n)*(?:\|| {2,}experiment_run )", re.MULTILINE
)
#: What separates the columns of a table of version 0.8, which is aligned by blanks.
_BLANKS: Final = re.compile(r" {2,}")
_VERSION: Final = b"bexhoma version"
_RULE: Final = re.compile(r"[|:\- ]+")
_NUMBER: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:e[+-]?[0-9]{1,2})?")
_TIMES: Final = "Latency of Timer Execution"
_THREADS: Final = ("threads", "terminals", "vusers")
_THROUGHPUT: Final = ("[OVERALL].Throughput(ops/sec)", "Throughput (requests/second)")
#: Column with the run time -> its unit in milliseconds.
_RUN_TIMES: Final = {"[OVERALL].RunTime(ms)": 1.0, "time": 1_000.0, "time [s]": 1_000.0, "duration": 60_000.0}
_ERRORS: Final = ("errors", "exceptions", "num_errors")
#: Columns of settings; those without a value are left out.
_SETTINGS: Final = ("pod_count", "target", "benchmark_run", "tenant_id", "type_tenants", "num_tenants")
#: Columns without a measured value.
_COUNTED: Final = frozenset(
    [*_THREADS, *_SETTINGS, "", "phase", "configuration", "job", "pod", "experiment_run", "client"]
)
_PER_MINUTE: Final = 60.0


@dataclass(frozen=True)
class BexhomaRun:
    """One line of a table of runs.

    Attributes:
        line: its number in the file, from 1.
        length: its bytes.
        name: the phase, as bexhoma names it.
        workload: title of the experiment, with its scale factor.
        code: number of the experiment.
        system: database system.
        iteration: run of the experiment.
        settings: image, node, client, pods and so on, by name.
        threads: threads, terminals or virtual users of all pods.
        numbers: all measured values, by heading.
        queries: query and connection -> milliseconds.
    """

    line: int
    length: int
    name: str
    workload: str
    code: str
    system: str
    iteration: int | None
    settings: Mapping[str, str]
    threads: int | None
    numbers: Mapping[str, float]
    queries: Mapping[tuple[str, str], float]

    @property
    def throughput_ops_s(self) -> float | None:
        """Operations per second; for HammerDB transactions, as the database counts them."""
        found = next((self.numbers[name] for name in _THROUGHPUT if name in self.numbers), None)
        return self.numbers["TPM"] / _PER_MINUTE if found is None and "TPM" in self.numbers else found

    @property
    def target_ops_s(self) -> float | None:
        """The rate that its clients were limited to, over all pods; None without a limit."""
        return _number(self.settings.get("target", "")) or None


@dataclass
class _Summary:
    """What was read of one summary so far."""

    workload: str = ""
    code: str = ""
    images: dict[str, dict[str, str]] = field(default_factory=dict)
    rows: list[tuple[int, int, dict[str, str]]] = field(default_factory=list)
    queries: list[dict[str, str]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


def names_bexhoma(head: bytes) -> bool:
    r"""Whether a text has a summary that names bexhoma's version; that of a load has no table of runs.

    Example:
        >>> names_bexhoma(b"## Show Summary\n  * Experiment uses bexhoma version 0.9.4.\n### Execution\n| DBMS |")
        True
    """
    begins = _SUMMARY.search(head) if _VERSION in head else None
    return begins is not None and _VERSION in head[begins.start() :]


def read_bexhoma(data: bytes) -> tuple[list[BexhomaRun], list[Reject]]:
    """The runs of all summaries of a text, and lines of their tables that are damaged.

    Raises:
        FormatError: there is no summary with a table of runs.
    """
    starts = [found.start() for found in _SUMMARY.finditer(data)]
    summaries = [
        _summary(data[begin:end], begin, 1 + data.count(b"\n", 0, begin))
        for begin, end in pairwise([*starts, len(data)])
    ]
    runs = [run for summary in summaries for run in _runs(summary)]
    if not runs:
        raise FormatError(
            "has no summary of bexhoma with a table of runs",
            hint="of loads alone, and of TPC-H before version 0.9, there is none",
        )
    return runs, [reject for summary in summaries for reject in summary.rejects]


def _summary(text: bytes, offset: int, line: int) -> _Summary:
    found, section, connection = _Summary(), "", ""
    header: list[str] = []
    for number, raw in enumerate(text.splitlines(keepends=True), line):
        words = raw.decode("utf-8", "replace").rstrip()
        if words.startswith("#"):
            level, _, title = words.partition(" ")
            section = title if len(level) < len("####") else section
            header = []
            if title == "Execution":
                found.rows.clear()
        elif words.startswith("|") or (words and section == "Execution"):
            header = _table_line(found, section, header, words, (number, offset, len(raw)))
        elif words.strip():
            header, connection = [], _fact(found, section, words, connection)
        offset += len(raw)
    return found


def _table_line(found: _Summary, section: str, header: list[str], words: str, place: tuple[int, int, int]) -> list[str]:
    """The header after a line of a table, which is added to the tables that are read."""
    wanted = section == "Execution" or section.startswith(_TIMES)
    ruled = words.startswith("|")
    cells = [cell.strip() for cell in words.strip("|").split("|")] if ruled else _BLANKS.split(words)
    if not wanted or _RULE.fullmatch(words) or (not ruled and len(cells) == 1):
        return header
    if not header:
        if section == "Execution":
            # The last table has the runs; those before it have their pods.
            found.rows.clear()
            found.rejects.clear()
        return ["", *cells[1:]]
    if len(cells) != len(header):
        reason = f"{len(cells)} cells below a header of {len(header)}"
        found.rejects.append(Reject(place[1], place[2], reason, words))
    elif section == "Execution":
        found.rows.append((place[0], place[2], dict(zip(header, cells, strict=True))))
    else:
        found.queries.append(dict(zip(header, cells, strict=True)))
    return header


def _fact(found: _Summary, section: str, words: str, connection: str) -> str:
    """The connection that the next lines describe, after a line of text."""
    bare = words.strip().lstrip("* ")
    if section == "Workload":
        if not found.workload:
            found.workload = bare
        elif bare.startswith("Code:"):
            found.code = bare.removeprefix("Code:").strip()
    elif section == "Connections":
        name, _, image = bare.partition(" uses docker image ")
        if image:
            found.images[name] = {"image": image}
            return name
        # Deeper lines are about workers of the database.
        if words.startswith(("  * node:", "    node:")) and connection:
            found.images[connection]["node"] = bare.removeprefix("node:")
    return connection


def _runs(summary: _Summary) -> Iterator[BexhomaRun]:
    """The lines of the last table, with what is said elsewhere of their connections."""
    # The first connection of a phase comes last, so that its facts stay.
    known = reversed(summary.images.items())
    facts = {phase: stated for connection, stated in known for phase in _phases(connection)}
    times: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    for row in summary.queries:
        for connection, cell in row.items():
            if connection and (value := _number(cell)) is not None:
                for phase in _phases(connection):
                    times[phase][row[""], connection] = value
    repeated = any(_whole(cells.get("experiment_run")) not in (None, 1) for _, _, cells in summary.rows)
    for line, length, cells in summary.rows:
        # Of several tenants, the first column adds the tenant to the phase.
        name = cells.get("phase") or cells[""]
        settings = _settings(name, cells, facts.get(name, {}), repeated=repeated)
        numbers = {heading: _number(cell) for heading, cell in cells.items() if heading not in _COUNTED}
        yield BexhomaRun(
            line=line,
            length=length,
            name=name,
            workload=summary.workload,
            code=summary.code,
            system=settings["system"],
            iteration=_whole(cells.get("experiment_run")),
            settings=settings,
            threads=next((_whole(cells[column]) for column in _THREADS if column in cells), None),
            numbers={heading: value for heading, value in numbers.items() if value is not None},
            queries=times.get(name, {}),
        )


def _phases(connection: str) -> Iterator[str]:
    """A connection, and the job and the phase that it may be of: names grow by the number of the part."""
    for _ in range(3):
        yield connection
        connection = connection.rpartition("-")[0]


def _settings(name: str, cells: Mapping[str, str], known: Mapping[str, str], *, repeated: bool) -> dict[str, str]:
    configuration, _, last = name.rpartition("-")
    return {
        "system": re.split(r"-(?=\d|BHT-)", name)[0],
        **known,
        "configuration": configuration.removesuffix(f"-{cells['experiment_run']}") if repeated else configuration,
        "client": cells.get("client") or last,
        **{setting: cells[setting] for setting in _SETTINGS if cells.get(setting) not in (None, "", "None")},
    }


def _number(text: str) -> float | None:
    """A number as pandas prints it; None for `nan`, and for words."""
    return float(text) if _NUMBER.fullmatch(text) else None


def _whole(text: str | None) -> int | None:
    value = _number(text or "")
    return int(value) if value is not None and value == int(value) and 0 <= value < 2**31 else None


class Bexhoma(Format):
    """Summary of an experiment of bexhoma (0.8 and later): runs of YCSB, BenchBase, HammerDB, TPC-H and TPC-DS."""

    name: ClassVar[str] = "bexhoma"
    version: ClassVar[int] = 1
    tables: ClassVar[tuple[str, ...]] = ("stated_runs", "clients", "client_metrics")
    noise: ClassVar[str] = "text, and the tables of single pods, of loading and of monitoring"

    def detect(self, name: str, head: bytes) -> float:
        """By the heading of a summary, the version that it names, and a table of results."""
        return 0.95 if names_bexhoma(head) and _RESULTS.search(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """A piece for each run, and one for the rest.

        Raises:
            FormatError: the content has no such summary.
        """
        data = content.read(_LIMIT_BYTES)
        runs, rejects = read_bexhoma(data)
        yield from (Parsed(_tables(run), run.length) for run in runs)
        rest = len(data) - sum(run.length for run in runs) - sum(reject.byte_length for reject in rejects)
        yield Parsed({}, 0, rest, reject_rows(rejects))


def _tables(run: BexhomaRun) -> dict[str, pl.DataFrame]:
    stated = {
        "line": run.line,
        "iteration": run.iteration,
        "system": run.system,
        "set_up": ", ".join(f"{name}={value}" for name, value in {**run.settings, "experiment": run.code}.items()),
        "phase": "run",
        "workload": run.workload,
        "threads": run.threads,
        "remarks": run.name,
    }
    client = {
        "tool": "bexhoma",
        "threads": run.threads,
        "throughput_ops_s": run.throughput_ops_s,
        "target_ops_s": run.target_ops_s,
        "rate_limited": run.target_ops_s is not None,
        "new_orders_per_min": run.numbers.get("NOPM"),
        "runtime_ms": next((run.numbers[name] * ms for name, ms in _RUN_TIMES.items() if name in run.numbers), None),
        "reported_errors": next((run.numbers[name] for name in _ERRORS if name in run.numbers), None),
        "completed": run.throughput_ops_s is not None or bool(run.queries) or "Geo Times [s]" in run.numbers,
    }
    one = len({connection for _, connection in run.queries}) == 1
    metrics: list[MetricCell] = [
        *((OVERALL, heading, None, value) for heading, value in run.numbers.items()),
        *((query, "time" if one else f"time, {of}", "ms", value) for (query, of), value in run.queries.items()),
    ]
    return {
        "stated_runs": pl.DataFrame([stated]),
        "clients": pl.DataFrame([client]),
        "client_metrics": make_metric_frame(metrics),
    }


FORMAT: Final = Bexhoma()
