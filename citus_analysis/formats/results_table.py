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

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, count, pairwise
from typing import ClassVar, Final

import numpy as np
import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.client_reports import MetricCell, make_metric_frame
from citus_analysis.formats.parsing.format import Format, Hints, Parsed, Reject, reject_rows
from citus_analysis.operations import OVERALL
from citus_analysis.texts.metric_names import COUNTS, Metric, parse_metric, parse_percentile
from citus_analysis.texts.numbers import parse_stated_numbers
from citus_analysis.texts.words import SUCCESS_WORDS, is_round_number
from citus_analysis.units import SECONDS_PER_UNIT

# Separated values with a header, each line with its place, and the style in which their numbers are printed.

#: Cells without a value.
MISSING: Final = frozenset({"", "-", "–", "—", "n/a", "na", "nan", "null", "none", "\\n"})
_MOST_COLUMNS: Final = 200
_LONGEST: Final = 100
_SEPARATORS: Final = ("\t", ";", ",")
#: The line in which spreadsheets state the separator.
_STATED: Final = re.compile(r'"?sep=.{1,3}"?')
_COMMENT: Final = "# "
#: A number with a mark in it.
_NUMBER: Final = re.compile(r"\d*[.,]\d[\d.,]*")
_GROUP: Final = 3


@dataclass(frozen=True)
class Line:
    """One line below the header.

    Attributes:
        number: its number in the file, from 1.
        offset: of its first byte in the source.
        length: its bytes, line end included.
        cells: its cells without blanks around them.
    """

    number: int
    offset: int
    length: int
    cells: Sequence[str]


@dataclass(frozen=True)
class TextSheet:
    """A table of text cells.

    Attributes:
        header: names of the columns.
        separator: mark between cells.
        lines: the lines with as many cells as the header.
        rejects: the other ones.
        noise_bytes: bytes of the header, of empty lines and of comments above the header.
    """

    header: Sequence[str]
    separator: str
    lines: Sequence[Line]
    rejects: Sequence[Reject]
    noise_bytes: int

    def column(self, at: int) -> list[str]:
        """The cells of a column."""
        return [line.cells[at] for line in self.lines]


def read_sheet(data: bytes) -> TextSheet | None:
    r"""The table of a text; None if its first line is no header of at least two distinct names.

    Example:
        >>> sheet = read_sheet(b"clients;tps\n8;1234,5\n")
        >>> sheet.header, sheet.separator, sheet.column(1)
        (['clients', 'tps'], ';', ['1234,5'])
    """
    lines = _iterate_sheet_lines(data)
    found_header = _find_header(lines)
    if found_header is None:
        return None
    header, separator, noise = found_header
    found: list[Line] = []
    rejects: list[Reject] = []
    for number, offset, length, text in lines:
        cells = _split_cells(text, separator)
        if cells is not None and not any(cells):
            noise += length
            continue
        # Spreadsheets and scripts end lines with separators.
        if cells is not None and len(cells) > len(header) and not any(cells[len(header) :]):
            cells = cells[: len(header)]
        if cells is not None and len(cells) == len(header):
            found.append(Line(number, offset, length, cells))
        else:
            rejects.append(Reject(offset, length, f"the header announces {len(header)} cells", text))
    return TextSheet(header, separator, found, rejects, noise)


def _find_header(lines: Iterator[tuple[int, int, int, str]]) -> tuple[list[str], str, int] | None:
    """The names in the header, the mark between them, and the bytes up to its end; the lines after it are left."""
    noise = 0
    for _, _, length, text in lines:
        noise += length
        if text and not text.startswith(_COMMENT) and not _STATED.fullmatch(text):
            break
    else:
        return None
    separator = next((mark for mark in _SEPARATORS if mark in text), ",")
    header = _split_cells(text.rstrip(f"{separator} "), separator)
    names = {name.lower() for name in header or () if 0 < len(name) <= _LONGEST}
    if header is None or not 2 <= len(names) == len(header) <= _MOST_COLUMNS:
        return None
    return header, separator, noise


def _iterate_sheet_lines(data: bytes) -> Iterator[tuple[int, int, int, str]]:
    """Number, offset, length with the line end, and text of each line."""
    offset = number = 0
    while offset < len(data):
        end = data.find(b"\n", offset)
        end = len(data) if end < 0 else end + 1
        number += 1
        line = data[offset:end].removesuffix(b"\n")
        yield number, offset, end - offset, _decode_line(line).removeprefix("\ufeff").strip(" \r\v\f\0")
        offset = end


def _decode_line(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        # Spreadsheets write the code page of western Windows.
        return line.decode("cp1252", "replace")


def _split_cells(text: str, separator: str) -> list[str] | None:
    try:
        return [cell.strip() for cell in next(csv.reader([text], strict=True, delimiter=separator), [])]
    except csv.Error:
        return None


def parse_column_numbers(sheet: TextSheet, at: int, mark: str) -> list[tuple[float, ...]]:
    """The numbers of each cell of a column: none, one, or two (`12.3 ± 0.4`)."""
    swapped = {ord("."): ",", ord(","): "."} if mark == "," else {}
    return [parse_stated_numbers(cell.translate(swapped)) for cell in sheet.column(at)]


def infer_decimal_mark(cells: Iterable[str], separator: str) -> str:
    """The one decimal mark of a file, inferred from all numbers: `1.234,5`, `4,1` and `1.234.567` have one reading.

    Args:
        cells: cells of columns of numbers.
        separator: mark between cells.

    Raises:
        FormatError: numbers contradict each other, or each has two readings (`1,234` and `12,345` where cells are
            separated by semicolons).

    Example:
        >>> infer_decimal_mark(["1.234", "4,1"], ";"), infer_decimal_mark(["12.345"], ",")
        (',', '.')
    """
    #: A mark, and whether it is proven, -> the first cell that shows it.
    examples: dict[tuple[str, bool], str] = {}
    for cell in cells:
        if number := _NUMBER.search(cell):
            examples.setdefault(_mark(number[0]), cell)
    proven = [mark for mark, is_proven in examples if is_proven]
    if len(proven) > 1:
        both = f"both {examples['.', True]!r} and {examples[',', True]!r} are numbers"
        raise FormatError(both, hint=_WAY_OUT)
    if proven:
        return proven[0]
    # In values that are separated by commas, a point is the decimal mark: 12.345 ms has three digits after it.
    if examples and (separator == ";" or (separator != "," and (",", False) in examples)):
        example = next(iter(examples.values()))
        raise FormatError(f"{example!r} may have a decimal mark or one of thousands", hint=_WAY_OUT)
    return "."


_WAY_OUT: Final = "write all numbers with a decimal point and without marks of thousands"


def _mark(number: str) -> tuple[str, bool]:
    """A decimal mark, and whether the number proves it: else it may be one of thousands."""
    marks = re.findall("[.,]", number)
    last = marks[-1]
    if len(set(marks)) > 1:
        return last, True
    if len(marks) > 1:
        return "," if last == "." else ".", True
    before, _, after = number.partition(last)
    return last, not (len(after) == _GROUP and 1 <= len(before) <= _GROUP and before != "0")


# The meaning of each column of a table of results: a fact about the run, a measured value, or a part of the set-up.
#
# Headers are read by :func:`citus_analysis.texts.metric_names.parse_metric`, as the audit of published tables reads
# them.

_NAMES: Final = {
    "threads": "threads connections client num_clients nclients conns sessions vus active_virtual_users",
    "workers": "workers num_workers n_workers worker_nodes worker_count",
    "records": "records record_count recordcount",
    "iteration": "rep reps repetition repetitions repeat repeats iteration iterations iter trial trials round attempt"
    " run runs run_number run_no n n_runs num_runs",
    "system": "system database db dbms engine product backend",
    "phase": "phase",
    "workload": "workload workload_name benchmark bench test test_name operation op query script scenario",
    "query_mode": "query_mode protocol",
    "scale_factor": "scale_factor scale scaling scaling_factor",
    "status": "status result outcome exit_code return_code success completed",
    "failed_operations": "failed failures errors error_count failed_operations failed_transactions",
    "operations_done": "operations operations_done",
    "operations": "operation_count operationcount planned_operations",
    "target_ops_s": "target",
    "runtime_ms": "runtime",
}
#: Name of a column, or stem of its metric -> fact about the run, column of `clients`.
FACTS: Final = {name: fact for fact, names in _NAMES.items() for name in names.split()}
_COUNTS: Final = "threads workers records iteration scale_factor failed_operations operations_done operations"
#: Facts that are whole numbers.
COUNTED: Final = frozenset(_COUNTS.split())
#: Fact -> the dimensions that it may have; a `time` without a unit may be a moment.
_DIMENSIONS: Final = {"runtime_ms": ("time",), "target_ops_s": ("", "rate"), **dict.fromkeys(COUNTED, ("",))}
#: A time with this name is the mean latency of an operation: `read avg (us)`.
_MEAN_OF_OPERATION: Final = re.compile(r"(?:(?:read|insert|update|scan|delete|select|write)_)?(?:mean|avg|average)")
#: Names of a moment, or of one run: they tell runs apart but are no part of the set-up.
_TIMES: Final = re.compile(
    r"(?:^|_)(?:time|times?tamp|ts|date|datetime|day|start|started|end|ended|finished|elapsed|second|seconds|sec|secs|t|s"
    r"|interval|epoch|id|uuid|file|filename|log|path|url|comment|comments|note|notes|remark|remarks)$"
)
#: A name alone means the set-up.
_SET_UP: Final = frozenset(
    ["set_up", "setup", "config", "configuration", "variant", "label", "name", "case", "resource", "family"]
)
#: Stems of values that describe several runs.
AGGREGATES: Final = frozenset(
    ["sigma", "interval_low", "interval_high", "interval_half", "standard_error", "variation"]
)


@dataclass(frozen=True)
class Named:
    """A column by its header.

    Attributes:
        at: its number, from 0.
        header: its name as printed.
        plain: the name in lower case with `_` for blanks and signs.
        metric: the quantity that the name denotes.
        fact: fact about the run or column of `clients`; None if it is none of :data:`FACTS`.
    """

    at: int
    header: str
    plain: str
    metric: Metric
    fact: str | None

    @property
    def is_moment(self) -> bool:
        """Whether the values may be moments, or names of single runs."""
        return _TIMES.search(self.metric.stem if self.metric.dimension else self.plain) is not None

    @property
    def names_set_up(self) -> bool:
        """Whether the values are names of set-ups by themselves: `variant`, `config`."""
        return self.plain in _SET_UP


def parse_header_columns(header: Sequence[str]) -> list[Named]:
    """The columns of a header.

    Example:
        >>> [(column.fact, column.metric.stem) for column in parse_header_columns(["clients", "rep", "latency (ms)"])]
        [('threads', 'connections'), ('iteration', 'rep'), (None, 'latency')]
    """
    found = []
    for at, name in enumerate(header):
        metric = parse_metric(name)
        plain = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", name).lower()).strip("_")
        of_stem = FACTS.get(metric.stem) if metric.dimension in ("", "rate", "time") else None
        fact = FACTS.get(plain) or of_stem
        is_fact = fact not in _DIMENSIONS or metric.dimension in _DIMENSIONS[fact]
        found.append(Named(at, name, plain, metric, fact if is_fact else None))
    return found


def is_throughput(column: Named) -> bool:
    """Whether the column is the throughput of the run, in operations a second."""
    return column.metric.stem == "throughput" and column.metric.dimension == "rate"


def is_latency(column: Named) -> bool:
    """Whether the column is a response time, its mean, a percentile or an extreme of it."""
    metric = column.metric
    if metric.dimension not in ("", "time") or column.fact is not None:
        return False
    stem = re.sub(r"_(?:min|max)$", "", metric.stem)
    named_so = stem == "latency" or stem.endswith("_latency") or parse_percentile(stem) is not None
    return named_so or (metric.dimension == "time" and _MEAN_OF_OPERATION.fullmatch(stem) is not None)


def is_measure(column: Named) -> bool:
    """Whether the column is a throughput or a latency."""
    return is_throughput(column) or is_latency(column)


# The part of each column in a table of results, decided by its header and its values; undecidable tables are refused.
#
# A number of unknown meaning is part of the set-up or a measured value. It is measured where repetitions differ in it,
# or where its values are those of no choice, such as 10321 or 71.8. It is part of the set-up where repetitions agree in
# it, or where its values are combined with all others as a design combines them. If neither is certain, the table is
# refused: pooling runs of different set-ups would be wrong in silence.

#: Values of one run: runs that differ in them are not of different set-ups.
_OF_ONE_RUN: Final = frozenset(["iteration", "runtime_ms", "operations_done", "failed_operations", "status"])
_MOST_COUNT: Final = 10**15
_MOST_THREADS: Final = 2**31 - 1
_SUMMARY: Final = re.compile(
    r"(?:mean|average|avg|median|total|totals|sum|geomean|std ?dev|min|max|aggregated|overall)\.?:?", re.IGNORECASE
)
_NUMBERED: Final = re.compile(r"(?P<word>[A-Za-z][A-Za-z _#.-]*)?(?P<number>\d{1,9})")
_WHOLE: Final = re.compile(r"[0-9]{1,3}(?:[., ][0-9]{3})+|[0-9]{1,15}(?:[.,]0+)?")
#: Facts that are part of the set-up also where they are no whole numbers.
_SIZES: Final = ("records", "operations", "scale_factor")
_FEWEST: Final = 3
_MOST_LINES: Final = 20_000
#: End of the reason to reject a line that states no run but a mean or total of some.
IS_SUMMARY: Final = "is no run but a summary of others"


@dataclass
class Roles:
    """What the columns of a sheet are.

    Attributes:
        lines: lines that state a run.
        rejects: other lines.
        numbers: the numbers of the lines by column; None for a cell without a value.
        facts: fact -> its column.
        throughput: the column of the throughput.
        latencies: columns of response times.
        set_up: columns whose values are part of the set-up.
        values: other measured values.
        remarks: columns of texts that only describe one run.
    """

    lines: list[Line]
    rejects: list[Reject]
    numbers: dict[int, list[float | None]] = field(default_factory=dict)
    facts: dict[str, Named] = field(default_factory=dict)
    throughput: Named | None = None
    latencies: list[Named] = field(default_factory=list)
    set_up: list[Named] = field(default_factory=list)
    values: list[Named] = field(default_factory=list)
    remarks: list[Named] = field(default_factory=list)

    def texts(self, column: Named) -> list[str]:
        """The cells of a column, empty where no value is given."""
        return [_blank_missing_cell(line.cells[column.at]) for line in self.lines]

    def set_ups(self) -> list[tuple[object, ...]]:
        """What tells the set-ups of the runs apart, load included."""
        columns = [column for fact, column in self.facts.items() if fact not in _OF_ONE_RUN]
        cells = [self.numbers.get(column.at) or self.texts(column) for column in (*columns, *self.set_up)]
        return list(zip(*cells, strict=True)) if cells else [()] * len(self.lines)


def _blank_missing_cell(cell: str) -> str:
    return "" if cell.lower() in MISSING else cell


def assign_column_roles(sheet: TextSheet) -> Roles:
    """The part of each column.

    Raises:
        FormatError: the table has no throughput and no latency, several throughputs, or columns that cannot be
            understood; it states means of several runs, or is a series in time.
    """
    if len(sheet.lines) > _MOST_LINES:
        raise FormatError(f"has {len(sheet.lines)} lines: that many runs are not in one table", hint=NO_RUNS)
    columns = [_drop_uncertain_fact(column, sheet) for column in parse_header_columns(sheet.header)]
    measures = [column for column in columns if is_measure(column)]
    if not measures:
        raise FormatError("no column is a throughput or latency", place="line 1", hint="name one tps or latency_ms")
    throughputs = [column for column in columns if is_throughput(column)]
    if len(throughputs) > 1:
        both = " and ".join(repr(column.header) for column in throughputs[:2])
        raise FormatError(f"{both} are both throughputs", place="line 1", hint="keep that of the operations")
    for column in columns:
        if column.metric.stem in AGGREGATES and column.metric.dimension != "time":
            raise FormatError(f"{column.header!r} is of several runs: these are means", place="line 1", hint=NO_RUNS)
    roles = _select_readable_lines(sheet, columns, measures)
    if not roles.lines:
        raise FormatError("no line states a run", hint=NO_RUNS)
    roles.throughput = next(iter(throughputs), None)
    roles.latencies = [column for column in measures if is_latency(column)]
    _take_facts(roles, columns)
    _take_others(roles, [column for column in columns if column not in measures])
    _check_repetitions(roles)
    return roles


#: The way out where a table states no runs.
NO_RUNS: Final = "give one line for each run; the command audit reads tables of means"


def _drop_uncertain_fact(column: Named, sheet: TextSheet) -> Named:
    """The column without a fact that only whole numbers can be: `scale` may be 0.1, and `errors` a share."""
    if column.fact not in (*_SIZES, "failed_operations", "operations_done"):
        return column
    whole = all(_WHOLE.fullmatch(cell) for cell in sheet.column(column.at) if _blank_missing_cell(cell))
    return column if whole else replace(column, fact=None)


def _select_readable_lines(sheet: TextSheet, columns: Sequence[Named], measures: Sequence[Named]) -> Roles:
    """The lines whose numbers can be read, and the numbers of all columns that have some."""
    counted = [column for column in columns if column.fact in COUNTED and column.fact != "iteration"]
    mark = infer_decimal_mark((cell for c in (*measures, *counted) for cell in sheet.column(c.at)), sheet.separator)
    numbers = {column.at: parse_column_numbers(sheet, column.at, mark) for column in columns}
    for column in measures:
        if any(len(cell) > 1 for cell in numbers[column.at]):
            raise FormatError(f"{column.header!r} has numbers with ±: these are means", hint=NO_RUNS)
    faults = [
        _find_line_fault(
            ((one, _blank_missing_cell(line.cells[one.at]), numbers[one.at][row]) for one in columns), measures
        )
        for row, line in enumerate(sheet.lines)
    ]
    kept = [row for row, fault in enumerate(faults) if fault is None]
    rejects = [
        Reject(line.offset, line.length, fault, ", ".join(line.cells))
        for line, fault in zip(sheet.lines, faults, strict=True)
        if fault is not None
    ]
    roles = Roles([sheet.lines[row] for row in kept], [*sheet.rejects, *rejects])
    for column in columns:
        values = [next(iter(numbers[column.at][row]), None) for row in kept]
        cells = roles.texts(column)
        if all((value is None) == (not cell) for value, cell in zip(values, cells, strict=True)) and any(cells):
            roles.numbers[column.at] = values
    return roles


def _find_line_fault(cells: Iterable[tuple[Named, str, tuple[float, ...]]], measures: Sequence[Named]) -> str | None:
    """Why a line states no run, by its cells and the numbers in them."""
    for column, cell, found in cells:
        if _SUMMARY.fullmatch(cell):
            return f"{cell!r} {IS_SUMMARY}"
        if cell and column in measures and not (found and found[0] >= 0):
            return f"{column.header} is not a number of at least 0"
        if cell and column.fact in COUNTED and column.fact != "iteration":
            most = _MOST_THREADS if column.fact in ("threads", "workers") else _MOST_COUNT
            if not (len(found) == 1 and found[0] == int(found[0]) and 0 <= found[0] <= most):
                return f"{column.header} is not a whole number"
    return None


def _take_facts(roles: Roles, columns: Sequence[Named]) -> None:
    """The facts about the runs; of two columns for one, the second is part of the set-up."""
    for column in columns:
        if column.fact is None or not any(roles.texts(column)):
            continue
        first = roles.facts.get(column.fact)
        if first is None:
            roles.facts[column.fact] = column
        elif column.fact == "threads":
            roles.facts["threads"], other = _distinguish_connections(roles, first, column)
            roles.set_up.append(other)
        elif column.fact in _OF_ONE_RUN:
            raise FormatError(f"{first.header!r} and {column.header!r} mean the same", place="line 1")
        else:
            roles.set_up.append(column)
    _check_modes(roles)


def _distinguish_connections(roles: Roles, first: Named, second: Named) -> tuple[Named, Named]:
    """The column of the connections, and that of the threads that serve them."""
    more, fewer = (first, second) if second.metric.stem == "threads" else (second, first)
    pairs = zip(roles.numbers[more.at], roles.numbers[fewer.at], strict=True)
    if more.metric.stem == "threads" or any(n is None or j is None or j > n for n, j in pairs):
        text = f"{first.header!r} and {second.header!r}: which is the number of connections is not certain"
        raise FormatError(text, place="line 1", hint="keep one of them, over all load generators")
    return more, fewer


def _check_modes(roles: Roles) -> None:
    """Facts with few possible words; a column with other words is part of the set-up."""
    for fact, words in (("query_mode", {"simple", "extended", "prepared"}), ("phase", {"load", "run"})):
        column = roles.facts.get(fact)
        if column is not None and not set(map(str.lower, roles.texts(column))) <= {*words, ""}:
            roles.set_up.append(roles.facts.pop(fact))


def _take_others(roles: Roles, columns: Sequence[Named]) -> None:
    unknown = []
    for column in columns:
        if column.fact is not None or not any(roles.texts(column)):
            continue
        if column.names_set_up:
            roles.set_up.append(column)
        elif column.at not in roles.numbers:
            (roles.remarks if column.is_moment or column.metric.dimension else roles.set_up).append(column)
        elif column.metric.stem in COUNTS or FACTS.get(column.plain) in _SIZES:
            roles.set_up.append(column)
        elif column.metric.stem in AGGREGATES or (column.is_moment and _has_distinct_values(roles.numbers[column.at])):
            roles.values.append(column)
        else:
            unknown.append(column)
    if _is_series(roles):
        raise FormatError("is a series in time, not one line for each run", hint=NO_RUNS)
    for column in unknown:
        (roles.set_up if _is_of_set_up(roles, column) else roles.values).append(column)


def _is_series(roles: Roles) -> bool:
    """Whether rows of one set-up are equally far apart in time: samples of one run, not runs."""
    groups: defaultdict[object, list[int]] = defaultdict(list)
    iterations: Sequence[int | None] = _get_stated_iterations(roles) or [None] * len(roles.lines)
    for row, key in enumerate(zip(roles.set_ups(), iterations, strict=True)):
        groups[key].append(row)
    long = [rows for rows in groups.values() if len(rows) >= _FEWEST]
    moments = [column for column in (*roles.values, *roles.remarks) if column.is_moment]
    moments += [roles.facts["runtime_ms"]] if "runtime_ms" in roles.facts else []
    numbered = [roles.numbers[column.at] for column in moments if column.at in roles.numbers]
    if any(_is_even([values[row] for row in rows]) for values in numbered for rows in long):
        return True
    texts = [roles.texts(column) for column in moments if column.at not in roles.numbers]
    growing = (all(cells[a] < cells[b] for a, b in pairwise(rows)) for cells in texts for rows in long)
    return "iteration" not in roles.facts and any(growing)


def _is_even(values: Sequence[float | None]) -> bool:
    """Whether values grow in equal steps that are as large as they are themselves."""
    known = [value for value in values if value is not None]
    steps = [b - a for a, b in pairwise(known)]
    if len(known) < len(values) or min(steps) <= 0:
        return False
    return max(steps) <= 1.1 * min(steps) and (known[0] <= 2 * steps[0] or known[0] > 1e8)


def _is_of_set_up(roles: Roles, column: Named) -> bool:
    """Whether a number of unknown meaning is part of the set-up.

    Raises:
        FormatError: neither that nor the opposite is certain.
    """
    values = roles.numbers[column.at]
    keys, iterations = roles.set_ups(), _get_stated_iterations(roles)
    own: defaultdict[object, set[float | None]] = defaultdict(set)
    for key, value in zip(keys, values, strict=True):
        own[key].add(value)
    alone = len(own) == len(keys)
    # Measured values differ from one repetition to the next.
    if len(set(values)) == 1 or (not alone and all(len(found) == 1 for found in own.values())):
        return True
    if not alone and iterations is not None and len(set(zip(keys, iterations, strict=True))) == len(keys):
        return False
    if _has_distinct_values(values) and not _has_round_numbers(values):
        return False
    # All values come with all others: a factor of the design.
    if min(Counter(values).values()) > 1 and (alone or len(set(map(frozenset, own.values()))) == 1):
        return True
    if alone and column.metric.dimension:
        # No runs are pooled that differ in it, and most columns with a unit are measured.
        return False
    text = f"{column.header!r} may be part of the set-up or a measured value"
    raise FormatError(text, place="line 1", hint="number the repetitions (rep), or leave it out")


def _has_distinct_values(values: Sequence[float | None]) -> bool:
    return len(set(values)) == len(values)


def _has_round_numbers(values: Sequence[float | None]) -> bool:
    """Whether most numbers are such as people choose."""
    known = [value for value in values if value]
    whole = [int(value) for value in known if value == int(value)]
    return 2 * sum(map(is_round_number, whole)) > len(known)


def _get_stated_iterations(roles: Roles) -> list[int] | None:
    """The numbers of the repetitions, from 1; None if the table has none."""
    column = roles.facts.get("iteration")
    if column is None:
        return None
    found = [_NUMBERED.fullmatch(text) for text in roles.texts(column)]
    if any(one is None for one in found) or len({one["word"] for one in found if one}) > 1:
        return None
    numbers = [int(one["number"]) for one in found if one]
    return [number + 1 for number in numbers] if min(numbers) == 0 else numbers


def _check_repetitions(roles: Roles) -> None:
    """Refuse two lines for one repetition, and a number of repetitions in place of their numbers."""
    column = roles.facts.get("iteration")
    if column is None:
        return
    numbers = _get_stated_iterations(roles)
    if numbers is None:
        # Words that tell runs apart.
        roles.set_up.append(roles.facts.pop("iteration"))
        return
    seen: dict[object, int] = {}
    keys = roles.set_ups()
    for key, number, line in zip(keys, numbers, roles.lines, strict=True):
        first = seen.setdefault((key, number), line.number)
        if first != line.number:
            text = f"lines {first} and {line.number} are of one set-up and both have {column.header} {number}"
            raise FormatError(text, hint="add the column in which they differ")
    if len(set(keys)) == len(keys) and len(set(numbers)) == 1 and numbers[0] > 1:
        raise FormatError(f"{column.header} {numbers[0]} in each line: these are means", hint=NO_RUNS)


def number_repetitions(roles: Roles) -> list[int]:
    """The number of each run among those of its set-up: as stated, or else in the order of the lines."""
    numbers: defaultdict[object, count[int]] = defaultdict(lambda: count(1))
    return _get_stated_iterations(roles) or [next(numbers[key]) for key in roles.set_ups()]


# The rows of a table of results as rows of `stated_runs`, `clients` and `client_metrics`.

#: `clients.tool` of these runs.
TOOL: Final = "table of results"
#: Section of the latencies of all operations.
ALL: Final = "all operations"
_MS_PER_S: Final = 1_000
_FACTS: Final = ("workers", "records", "threads", "operations")
_OF_CLIENT: Final = ("threads", "operations_done", "failed_operations", "scale_factor")
_WORDS: Final = ("system", "workload", "phase")
#: Factor of a unit of time -> its name.
_UNITS: Final = {SECONDS_PER_UNIT[name]: name for name in ("ns", "us", "ms", "s", "min", "h")}
_POSSIBLE: Final = ("us", "ms", "s")
_DONE: Final = frozenset(["", *SUCCESS_WORDS])
#: A percentile as a part of the mean: a unit that is wrong by 1000 gives another size.
_LEAST_OF_MEAN, _MOST_OF_MEAN, _MOST_MAX_OF_MEAN = 0.1, 100.0, 1000.0
#: Response time as a part of connections / throughput: clients also wait for their own work.
_LEAST_OF_LITTLE, _MOST_OF_LITTLE = 0.3, 1.1
_BASE_UNIT: Final = {"percent": "%", "rate": "1/s", "data_rate": "B/s"}


def build_tables(roles: Roles) -> tuple[dict[str, pl.DataFrame], list[int]]:
    """The tables, and how many metrics each line has.

    Raises:
        FormatError: the unit of a latency is not certain, or two columns are the same latency.
    """
    seen: dict[tuple[str, str], str] = {}
    for column in roles.latencies:
        first = seen.setdefault(_parse_latency_name(column.metric.stem), column.header)
        if first != column.header:
            raise FormatError(f"{first!r} and {column.header!r} are the same latency", place="line 1")
    columns = list(_iterate_metric_columns(roles))
    metrics: list[list[MetricCell]] = [
        [(section, name, unit, value) for section, name, unit, values in columns if (value := values[row]) is not None]
        for row in range(len(roles.lines))
    ]
    frame = make_metric_frame([*chain(*metrics)])
    return {"stated_runs": _build_stated_runs(roles), "clients": _build_clients(roles), "client_metrics": frame}, [
        *map(len, metrics)
    ]


def _build_stated_runs(roles: Roles) -> pl.DataFrame:
    columns: dict[str, Sequence[object]] = {
        "line": [line.number for line in roles.lines],
        "iteration": list(number_repetitions(roles)),
        "set_up": _join_named_values(roles, roles.set_up, bare=True),
        "remarks": _join_named_values(roles, roles.remarks),
    }
    for name, column in roles.facts.items():
        if name in _WORDS:
            texts = roles.texts(column)
            columns[name] = [(text.lower() if name == "phase" else text) or None for text in texts]
        elif name in _FACTS:
            columns[name] = roles.numbers[column.at]
    return pl.DataFrame(columns, strict=False)


def _join_named_values(roles: Roles, columns: Sequence[Named], *, bare: bool = False) -> list[str | None]:
    """`name=value, ...` of each line; a value alone where its column has a name without a meaning, such as variant."""
    texts = [
        [text and (text if bare and column.names_set_up else f"{column.header}={text}") for text in roles.texts(column)]
        for column in columns
    ]
    rows = zip(*texts, strict=True) if texts else [()] * len(roles.lines)
    return [", ".join(filter(None, row)) or None for row in rows]


def _build_clients(roles: Roles) -> pl.DataFrame:
    number = {name: roles.numbers[column.at] for name, column in roles.facts.items() if column.at in roles.numbers}
    measured = [_scale_to_base_unit(roles, column) for column in (roles.throughput, *roles.latencies) if column]
    stated = roles.texts(roles.facts["status"]) if "status" in roles.facts else [""] * len(roles.lines)
    targets = number.get("target_ops_s") or [None] * len(roles.lines)
    columns: dict[str, Sequence[object]] = {
        "tool": [TOOL] * len(roles.lines),
        "completed": [
            text.lower() in _DONE and any(values[row] is not None for values in measured)
            for row, text in enumerate(stated)
        ],
        "rate_limited": [bool(target) for target in targets],
        "target_ops_s": [target or None for target in targets],
    }
    columns |= {fact: number[fact] for fact in _OF_CLIENT if fact in number}
    if "operations" in number:
        columns["operations_planned"] = number["operations"]
    if roles.throughput:
        columns["throughput_ops_s"] = measured[0]
    if "runtime_ms" in roles.facts:
        seconds = _scale_to_base_unit(roles, roles.facts["runtime_ms"])
        columns["runtime_ms"] = [None if value is None else value * _MS_PER_S for value in seconds]
    if "query_mode" in roles.facts:
        columns["query_mode"] = [text.lower() or None for text in roles.texts(roles.facts["query_mode"])]
    return pl.DataFrame(columns, strict=False)


def _scale_to_base_unit(roles: Roles, column: Named) -> list[float | None]:
    """The values of a column in its base unit."""
    factor = column.metric.factor
    values = roles.numbers.get(column.at) or [None] * len(roles.lines)
    return [None if value is None else float(f"{value * factor:.15g}") for value in values]


def _iterate_metric_columns(roles: Roles) -> Iterator[tuple[str, str, str | None, list[float | None]]]:
    """Section, metric and unit of each column of measured values, and its values."""
    if roles.throughput:
        yield OVERALL, "Throughput", "ops/sec", _scale_to_base_unit(roles, roles.throughput)
    for column in roles.latencies:
        of_latency = _infer_latency_unit(roles, column)
        yield (
            *_parse_latency_name(column.metric.stem),
            of_latency,
            roles.numbers.get(column.at) or _scale_to_base_unit(roles, column),
        )
    for column in (*roles.values, *(roles.facts[name] for name in ("status",) if name in roles.facts)):
        if column.at in roles.numbers:
            timed = column.metric.dimension == "time"
            unit = _UNITS.get(column.metric.factor) if timed else _BASE_UNIT.get(column.metric.dimension)
            values = roles.numbers[column.at] if timed and unit else _scale_to_base_unit(roles, column)
            yield OVERALL, column.header, unit, values


def _parse_latency_name(stem: str) -> tuple[str, str]:
    """Section and metric of a latency.

    Example:
        >>> _parse_latency_name("read_latency_p99"), _parse_latency_name("latency"), _parse_latency_name("latency_p999")
        (('READ', 'p99'), ('all operations', 'AverageLatency'), ('all operations', 'p99.9'))
    """
    of, name = stem, "AverageLatency"
    if found := parse_percentile(stem):
        of, name = found[0], f"p{found[1]:g}"
    elif stem.endswith(("_min", "_max")):
        of, name = stem[:-4], f"{stem[-3:].capitalize()}Latency"
    words = re.sub(r"_?(?:latency|mean|avg|average)$", "", of)
    return words.upper() if words else ALL, name


def _infer_latency_unit(roles: Roles, column: Named) -> str:
    """The unit of a latency: as stated, or the only one that fits the other columns.

    Raises:
        FormatError: none or several fit.
    """
    if column.metric.dimension == "time":
        return _UNITS[column.metric.factor]
    mean = next((one for one in roles.latencies if one.metric.stem in ("latency", "mean")), None)
    timed = [one for one in roles.latencies if one.metric.dimension == "time"]
    if len({one.metric.factor for one in timed}) == 1:
        beside = mean if mean in timed else timed[0]
        if _fits(roles, column, beside):
            return _UNITS[beside.metric.factor]
    elif not timed and mean is not None:
        units = [unit for unit in _POSSIBLE if _satisfies_littles_law(roles, mean, SECONDS_PER_UNIT[unit])]
        if len(units) == 1 and (column is mean or _fits(roles, column, mean)):
            return units[0]
    raise FormatError(
        f"the unit of {column.header!r} is not certain", place="line 1", hint=f"name it {column.header} (ms)"
    )


def _fits(roles: Roles, column: Named, beside: Named) -> bool:
    """Whether values are of the size of others if both have one unit."""
    most = _MOST_MAX_OF_MEAN if column.metric.stem.endswith("_max") else _MOST_OF_MEAN
    pairs = zip(roles.numbers.get(column.at, []), roles.numbers.get(beside.at, []), strict=False)
    parts = [value / other for value, other in pairs if value is not None and other]
    return bool(parts) and all(_LEAST_OF_MEAN <= part < most for part in parts)


def _satisfies_littles_law(roles: Roles, mean: Named, factor: float) -> bool:
    """Whether response times of a unit agree with Little's law: connections = throughput x response time."""
    if roles.throughput is None or "threads" not in roles.facts:
        return False
    rows = zip(
        _scale_to_base_unit(roles, roles.throughput),
        roles.numbers[roles.facts["threads"].at],
        roles.numbers.get(mean.at, []),
        strict=True,
    )
    parts = [value * factor * rate / threads for rate, threads, value in rows if rate and threads and value is not None]
    return bool(parts) and all(_LEAST_OF_LITTLE <= part <= _MOST_OF_LITTLE for part in parts)


__all__ = ["FORMAT", "ResultsTable"]

#: Bytes at the beginning that show what the columns are.
_SHOWN_BYTES: Final = 16 * 2**10
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
    measures: ClassVar[Mapping[str, str]] = {
        "AverageLatency": "mean_us",
        "MinLatency": "min_us",
        "MaxLatency": "max_us",
        "p50": "p50_us",
        "p90": "p90_us",
        "p95": "p95_us",
        "p99": "p99_us",
        "p99.9": "p999_us",
    }

    def detect(self, name: str, head: bytes) -> float:
        """By a header with a throughput or latency and a fact about runs, above numbers only."""
        whole = head if len(head) < _SHOWN_BYTES else head[: head.rfind(b"\n", 0, _SHOWN_BYTES) + 1]
        header = _find_header(_iterate_sheet_lines(whole))
        # Most tables have no such columns; their lines need not be divided into cells.
        if header is None or not _may_have_runs(header[0]):
            return 0.0
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
        roles = assign_column_roles(sheet)
        tables, counts = build_tables(roles)
        lengths = [line.length for line in roles.lines]
        rows = np.arange(len(lengths) + 1)
        bounds = {"stated_runs": rows, "clients": rows, "client_metrics": np.array([0, *accumulate(counts)])}
        yield from Parsed(tables, sum(lengths)).divide(bounds, lengths, [0] * len(lengths))
        yield Parsed({}, 0, sheet.noise_bytes, reject_rows(roles.rejects))


def _may_have_runs(header: Sequence[str]) -> bool:
    """Whether columns of these names state runs."""
    columns = parse_header_columns(header)
    facts = {column.fact for column in columns}
    # It states facts about files that are read themselves, or is an export of the table `runs`.
    is_of_files = "file" in header or {"run_id", "resource"} <= set(header)
    of_set_ups = facts & _EVIDENCE or any(column.names_set_up for column in columns)
    # A column of latencies alone is common in logs of single operations.
    sure = any(map(is_throughput, columns)) or {"iteration", "threads", "workers"} & facts
    return bool(not is_of_files and of_set_ups and sure and any(map(is_measure, columns)))


def _has_runs(sheet: TextSheet) -> bool:
    if sheet.rejects:
        return False
    try:
        roles = assign_column_roles(sheet)
    except FormatError as error:
        return error.hint != NO_RUNS
    return all(reject.reason.endswith(IS_SUMMARY) for reject in roles.rejects)


FORMAT: Final = ResultsTable()
