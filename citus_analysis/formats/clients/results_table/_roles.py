"""The part of each column in a table of results, decided by its header and its values; undecidable tables are refused.

A number of unknown meaning is part of the set-up or a measured value. It is measured where repetitions differ in it, or
where its values are those of no choice, such as 10321 or 71.8. It is part of the set-up where repetitions agree in it,
or where its values are combined with all others as a design combines them. If neither is certain, the table is refused:
pooling runs of different set-ups would be wrong in silence.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from typing import Final

from citus_analysis.errors import FormatError
from citus_analysis.formats.api.format import Reject
from citus_analysis.formats.clients.results_table._columns import (
    AGGREGATES,
    COUNTED,
    FACTS,
    Named,
    is_latency,
    is_measure,
    is_throughput,
    named,
)
from citus_analysis.formats.clients.results_table._sheet import MISSING, Line, Sheet, decimal_mark, numbers_of
from citus_analysis.texts.metric_names import COUNTS

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
        return [_given(line.cells[column.at]) for line in self.lines]

    def set_ups(self) -> list[tuple[object, ...]]:
        """What tells the set-ups of the runs apart, load included."""
        columns = [column for fact, column in self.facts.items() if fact not in _OF_ONE_RUN]
        cells = [self.numbers.get(column.at) or self.texts(column) for column in (*columns, *self.set_up)]
        return list(zip(*cells, strict=True)) if cells else [()] * len(self.lines)


def _given(cell: str) -> str:
    return "" if cell.lower() in MISSING else cell


def roles_of(sheet: Sheet) -> Roles:
    """The part of each column.

    Raises:
        FormatError: the table has no throughput and no latency, several throughputs, or columns that cannot be
            understood; it states means of several runs, or is a series in time.
    """
    if len(sheet.lines) > _MOST_LINES:
        raise FormatError(f"has {len(sheet.lines)} lines: that many runs are not in one table", way_out=NO_RUNS)
    columns = [_with_certain_fact(column, sheet) for column in named(sheet.header)]
    measures = [column for column in columns if is_measure(column)]
    if not measures:
        raise FormatError("no column is a throughput or latency", place="line 1", way_out="name one tps or latency_ms")
    throughputs = [column for column in columns if is_throughput(column)]
    if len(throughputs) > 1:
        both = " and ".join(repr(column.header) for column in throughputs[:2])
        raise FormatError(f"{both} are both throughputs", place="line 1", way_out="keep that of the operations")
    for column in columns:
        if column.metric.stem in AGGREGATES and column.metric.dimension != "time":
            raise FormatError(f"{column.header!r} is of several runs: these are means", place="line 1", way_out=NO_RUNS)
    roles = _whole_lines(sheet, columns, measures)
    if not roles.lines:
        raise FormatError("no line states a run", way_out=NO_RUNS)
    roles.throughput = next(iter(throughputs), None)
    roles.latencies = [column for column in measures if is_latency(column)]
    _take_facts(roles, columns)
    _take_others(roles, [column for column in columns if column not in measures])
    _check_repetitions(roles)
    return roles


#: The way out where a table states no runs.
NO_RUNS: Final = "give one line for each run; the command audit reads tables of means"


def _with_certain_fact(column: Named, sheet: Sheet) -> Named:
    """The column without a fact that only whole numbers can be: `scale` may be 0.1, and `errors` a share."""
    if column.fact not in (*_SIZES, "failed_operations", "operations_done"):
        return column
    whole = all(_WHOLE.fullmatch(cell) for cell in sheet.column(column.at) if _given(cell))
    return column if whole else replace(column, fact=None)


def _whole_lines(sheet: Sheet, columns: Sequence[Named], measures: Sequence[Named]) -> Roles:
    """The lines whose numbers can be read, and the numbers of all columns that have some."""
    counted = [column for column in columns if column.fact in COUNTED and column.fact != "iteration"]
    mark = decimal_mark((cell for c in (*measures, *counted) for cell in sheet.column(c.at)), sheet.separator)
    numbers = {column.at: numbers_of(sheet, column.at, mark) for column in columns}
    for column in measures:
        if any(len(cell) > 1 for cell in numbers[column.at]):
            raise FormatError(f"{column.header!r} has numbers with ±: these are means", way_out=NO_RUNS)
    faults = [
        _fault(((one, _given(line.cells[one.at]), numbers[one.at][row]) for one in columns), measures)
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


def _fault(cells: Iterable[tuple[Named, str, tuple[float, ...]]], measures: Sequence[Named]) -> str | None:
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
            roles.facts["threads"], other = _connections(roles, first, column)
            roles.set_up.append(other)
        elif column.fact in _OF_ONE_RUN:
            raise FormatError(f"{first.header!r} and {column.header!r} mean the same", place="line 1")
        else:
            roles.set_up.append(column)
    _check_modes(roles)


def _connections(roles: Roles, first: Named, second: Named) -> tuple[Named, Named]:
    """The column of the connections, and that of the threads that serve them."""
    more, fewer = (first, second) if second.metric.stem == "threads" else (second, first)
    pairs = zip(roles.numbers[more.at], roles.numbers[fewer.at], strict=True)
    if more.metric.stem == "threads" or any(n is None or j is None or j > n for n, j in pairs):
        text = f"{first.header!r} and {second.header!r}: which is the number of connections is not certain"
        raise FormatError(text, place="line 1", way_out="keep one of them, over all load generators")
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
        elif column.metric.stem in AGGREGATES or (column.is_moment and _are_distinct(roles.numbers[column.at])):
            roles.values.append(column)
        else:
            unknown.append(column)
    if _is_series(roles):
        raise FormatError("is a series in time, not one line for each run", way_out=NO_RUNS)
    for column in unknown:
        (roles.set_up if _is_of_set_up(roles, column) else roles.values).append(column)


def _is_series(roles: Roles) -> bool:
    """Whether rows of one set-up are equally far apart in time: samples of one run, not runs."""
    groups: defaultdict[object, list[int]] = defaultdict(list)
    iterations: Sequence[int | None] = _iterations(roles) or [None] * len(roles.lines)
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
    keys, iterations = roles.set_ups(), _iterations(roles)
    own: defaultdict[object, set[float | None]] = defaultdict(set)
    for key, value in zip(keys, values, strict=True):
        own[key].add(value)
    alone = len(own) == len(keys)
    # Measured values differ from one repetition to the next.
    if len(set(values)) == 1 or (not alone and all(len(found) == 1 for found in own.values())):
        return True
    if not alone and iterations is not None and len(set(zip(keys, iterations, strict=True))) == len(keys):
        return False
    if _are_distinct(values) and not _are_chosen(values):
        return False
    # All values come with all others: a factor of the design.
    if min(Counter(values).values()) > 1 and (alone or len(set(map(frozenset, own.values()))) == 1):
        return True
    if alone and column.metric.dimension:
        # No runs are pooled that differ in it, and most columns with a unit are measured.
        return False
    text = f"{column.header!r} may be part of the set-up or a measured value"
    raise FormatError(text, place="line 1", way_out="number the repetitions (rep), or leave it out")


def _are_distinct(values: Sequence[float | None]) -> bool:
    return len(set(values)) == len(values)


def _are_chosen(values: Sequence[float | None]) -> bool:
    """Whether most numbers are such as people choose: powers of two, or of one or two digits before zeros."""
    known = [value for value in values if value]
    whole = [int(value) for value in known if value == int(value)]
    chosen = [number for number in whole if not number & (number - 1) or number == float(f"{number:.1e}")]
    return 2 * len(chosen) > len(known)


def _iterations(roles: Roles) -> list[int] | None:
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
    numbers = _iterations(roles)
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
            raise FormatError(text, way_out="add the column in which they differ")
    if len(set(keys)) == len(keys) and len(set(numbers)) == 1 and numbers[0] > 1:
        raise FormatError(f"{column.header} {numbers[0]} in each line: these are means", way_out=NO_RUNS)


def repetitions(roles: Roles) -> list[int]:
    """The number of each run among those of its set-up: as stated, or else in the order of the lines."""
    numbers: defaultdict[object, count[int]] = defaultdict(lambda: count(1))
    return _iterations(roles) or [next(numbers[key]) for key in roles.set_ups()]
