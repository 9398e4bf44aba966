"""The design of a study, read off a table of runs that somebody made: what each column is.

A dataset's table `runs` says what its columns are. Any other frame is read here, as the reader of CSV files reads its
headers (:mod:`citus_analysis.formats.results_table`): `clients` is the number of threads, `rep` numbers the
repetitions, `tps` is a throughput. A column with few levels that is no metric is a factor: runs that differ in it are
compared on request only. Where a column may be a factor or a measured value, nothing is chosen: the caller says it.

Example:
    >>> runs = pl.DataFrame({"version": ["a", "b"] * 4, "clients": [1, 1, 8, 8] * 2, "tps": [9.1, 9, 7, 6, 9, 8, 7, 5]})
    >>> design = read_design(runs)
    >>> design.factors, design.metrics, design.runs.columns
    (('version', 'threads'), ('tps',), ['version', 'threads', 'tps'])
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

from citus_analysis.errors import UsageError, join_first_names
from citus_analysis.runs.set_ups import CONFIGURATION
from citus_analysis.schema import STATUSES, TABLES
from citus_analysis.texts.words import SUCCESS_WORDS, is_round_number, join_words, pluralize
from citus_analysis.units import better_direction

if TYPE_CHECKING:
    from citus_analysis.formats.results_table import Named

#: Facts of a header that a column of `runs` states, and whether its values are whole numbers.
_FACTS: Final = {
    **dict.fromkeys(("threads", "workers", "records", "scale_factor"), True),
    **dict.fromkeys(("system", "phase", "workload", "query_mode"), False),
}
#: Columns that tables of runs have besides those of the schema.
_DESCRIBED: Final = frozenset({*CONFIGURATION, "variant", "experiment", "arrivals", "operation", "entry", "tool"})
_KNOWN: Final = _DESCRIBED | {column.name for column in TABLES["runs"]}
#: Columns of `runs` that are measured.
_MEASURED: Final = frozenset({"throughput_ops_s", "runtime_ms", "operations_done", "failed_operations"})
_FAILURES: Final = frozenset(
    ["failed", "failures", "error", "errors", "aborts", "aborted", "timeouts", "deadlocks", "retries", "misses"]
)
_NUMBER: Final = re.compile(r"\D*(\d{1,9})")


@dataclass(frozen=True)
class Design:
    """What the columns of a table of runs are.

    Attributes:
        runs: the runs; columns that state a known fact have its name (`threads` for `clients`).
        names: name of such a column -> the caller's name for it.
        factors: columns that vary and are no result, by the names in `runs`.
        metrics: measured columns.
        repeat: column that numbers the repetitions; empty if there is none.
        constant: columns with one value.
        remarks: columns with another text in each run, or moments; they are not held equal.
        unclear: columns that may be factors or measured.
    """

    runs: pl.DataFrame
    names: Mapping[str, str] = field(default_factory=dict)
    factors: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    repeat: str = ""
    constant: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()

    @property
    def own_factors(self) -> tuple[str, ...]:
        """Factors that are no column of a configuration, which the caller's table alone has."""
        return tuple(name for name in self.factors if name not in CONFIGURATION)

    def callers_name(self, column: str) -> str:
        """The caller's name of a column."""
        return self.names.get(column, column)

    def find_column(self, name: str) -> str:
        """The column that a caller names: by its name, by its old name, or by a synonym; the name itself if none is.

        Example:
            >>> design = read_design(pl.DataFrame({"clients": [1, 2], "tps": [3.5, 4.5]}))
            >>> design.find_column("clients"), design.find_column("throughput_ops_s"), design.find_column("colour")
            ('threads', 'tps', 'colour')
        """
        if name in self.runs.columns:
            return name
        old = {theirs: ours for ours, theirs in self.names.items()}
        if name in old:
            return old[name]
        return find_synonym(name, self.runs.columns) or name

    def require_clear(self, said: Collection[str]) -> None:
        """Refuse columns that have two readings, unless the caller says what they are.

        Args:
            said: columns that the call names.

        Raises:
            UsageError: a column has two readings.
        """
        for name in self.unclear:
            if name not in said:
                theirs = self.callers_name(name)
                raise UsageError(
                    f"{theirs!r} may be a setting of the runs or a measured value",
                    hint=f"leave it out of the table where it is measured, name it in factors=[{theirs!r}] "
                    f"(or within=) to hold it equal, or in pool=[{theirs!r}] to pool it",
                )

    def notes(self, used: Collection[str]) -> tuple[str, ...]:
        """What a reader must know of columns that do not enter."""
        texts = [
            name for name in self.remarks if name not in used and self.runs.schema[name] == pl.String and len(self.runs)
        ]
        other = [name for name in texts if not _parse_header(name).is_moment]
        if not other:
            return ()
        return (f"{join_words(other)} differ{'s' if len(other) == 1 else ''} in each run and cannot be held equal",)


def _parse_header(name: str) -> Named:
    from citus_analysis.formats.results_table import parse_header_columns

    return parse_header_columns([name])[0]


def find_synonym(name: str, columns: Iterable[str]) -> str | None:
    """The one column that means the same as a name: `threads` for `clients`, `tps` for `throughput_ops_s`.

    Example:
        >>> find_synonym("clients", ["threads", "tps"]), find_synonym("throughput", ["threads", "tps"])
        ('threads', 'tps')
    """
    from citus_analysis.formats.results_table import is_throughput

    wanted = _parse_header(name)
    found = []
    for column in columns:
        other = _parse_header(column)
        alike = wanted.fact is not None and other.fact == wanted.fact
        if alike or (is_throughput(wanted) and is_throughput(other)):
            found.append(column)
    return found[0] if len(found) == 1 else None


def read_design(frame: pl.DataFrame, factors: Collection[str] = (), metrics: Collection[str] = ()) -> Design:
    """What the columns of a frame are.

    Args:
        frame: one row for each run.
        factors: columns that the caller says are factors.
        metrics: columns that the caller says are measured.

    Raises:
        UsageError: the rows are means of several runs, not runs.
    """
    runs, names = _rename_facts(frame, {*factors, *metrics})
    ours = {theirs: fact for fact, theirs in names.items()}
    stated = {ours.get(name, name) for name in factors}
    roles: dict[str, list[str]] = {
        role: [] for role in ("factor", "metric", "constant", "remark", "repeat", "number", "aside")
    }
    for name in runs.columns:
        role = "metric" if name in metrics else "factor" if name in stated else _choose_role(runs, name)
        roles[role].append(name)
    unclear: list[str] = []
    for name in roles["number"]:
        role = _judge_numbers(runs, name, roles["factor"], roles["repeat"][:1])
        (unclear if role == "unclear" else roles[role]).append(name)
    varying = tuple(name for name in roles["factor"] if runs[name].n_unique() > 1)
    repeat = next(iter(roles["repeat"]), "")
    _refuse_means(runs, names, varying, repeat)
    return Design(
        runs,
        names,
        tuple(name for name in runs.columns if name in varying),
        tuple(name for name in runs.columns if name in roles["metric"]),
        repeat,
        tuple(roles["constant"]) + tuple(name for name in roles["factor"] if name not in varying),
        tuple(roles["remark"]),
        tuple(unclear),
    )


def _rename_facts(frame: pl.DataFrame, said: Collection[str]) -> tuple[pl.DataFrame, dict[str, str]]:
    """The frame with the names of `runs` for columns that state one of its facts, and the callers' names of these."""
    names: dict[str, str] = {}
    for theirs in frame.columns:
        if theirs in _KNOWN:
            continue
        named = _parse_header(theirs)
        fact = named.fact
        if fact is None or fact in frame.columns or fact in names:
            continue
        column = frame[theirs]
        if fact == "iteration":
            numbers = _number_repetitions(column)
            if numbers is not None:
                frame = frame.with_columns(numbers.alias(theirs))
                names[fact] = theirs
        elif fact == "status" or (fact in _FACTS and theirs not in said and _fits_fact(column, fact)):
            names[fact] = theirs
    renamed = frame.rename({theirs: fact for fact, theirs in names.items()})
    if "status" in renamed.columns:
        renamed = renamed.with_columns(_convert_status(renamed["status"]))
    return renamed, names


def _fits_fact(column: pl.Series, fact: str) -> bool:
    if not _FACTS[fact]:
        words = {"phase": {"load", "run"}, "query_mode": {"simple", "extended", "prepared"}}.get(fact)
        texts = {str(value).lower() for value in column.drop_nulls().unique()}
        return not column.dtype.is_numeric() and (words is None or texts <= words)
    known = column.drop_nulls()
    return known.dtype.is_integer() or (known.dtype.is_float() and bool((known == known.floor()).all()))


def _number_repetitions(column: pl.Series) -> pl.Series | None:
    """The numbers of the repetitions; None if the column does not number them."""
    if column.dtype.is_integer():
        return column
    if column.dtype.is_float() and bool((column.drop_nulls() == column.drop_nulls().floor()).all()):
        return column.cast(pl.Int64)
    if column.dtype != pl.String:
        return None
    found = [_NUMBER.fullmatch(str(text)) for text in column]
    return None if any(one is None for one in found) else pl.Series([int(one[1]) for one in found if one])


def _convert_status(column: pl.Series) -> pl.Series:
    """The status as `runs` has it: other words of success are `ok`, all else `failed`."""
    texts = column.cast(pl.String).str.to_lowercase()
    if set(texts.drop_nulls().unique()) <= set(STATUSES):
        return texts.alias("status")
    done = SUCCESS_WORDS
    return pl.Series("status", ["ok" if text is None or text in done else "failed" for text in texts])


def _choose_role(runs: pl.DataFrame, name: str) -> str:
    """The role of a column by its name and type; `number` where its values must decide."""
    from citus_analysis.formats.results_table import is_measure

    column, named = runs[name], _parse_header(name)
    levels = column.drop_nulls().n_unique()
    if name in ("status", "start_time", "end_time", "run_id", "status_reason", "inferred"):
        return "aside"
    if name == "iteration":
        return "repeat"
    if name in CONFIGURATION:
        return "factor" if levels else "aside"
    if name in _MEASURED or (column.dtype.is_numeric() and (is_measure(named) or _is_result(name))):
        return "metric"
    if levels <= 1 and column.null_count() in (0, runs.height):
        return "constant"
    if column.dtype.is_temporal() or column.dtype.is_nested():
        return "remark"
    if column.dtype.is_numeric():
        return "aside" if name in _KNOWN else "number"
    if named.is_moment or (levels == runs.height and not named.names_set_up):
        return "remark"
    return "factor" if name not in _KNOWN or named.names_set_up else "aside"


def _is_result(name: str) -> bool:
    """Whether a name is that of a rate or of failures; a time may be a setting, such as a timeout."""
    direction = better_direction(name)
    return direction == "higher" or (
        direction == "lower" and bool(_FAILURES & set(re.split(r"[^a-z0-9]+", name.lower())))
    )


def _judge_numbers(runs: pl.DataFrame, name: str, factors: Sequence[str], repeat: Sequence[str]) -> str:
    """Whether a column of numbers is a factor or measured, by its values; `unclear` if neither is certain."""
    groups = runs.group_by(factors) if factors else runs.with_columns(_all=pl.lit(0)).group_by("_all")
    own = groups.agg(pl.col(name).n_unique().alias("levels"), pl.len().alias("runs"), pl.col(name).unique().sort())
    alone = bool((own["runs"] == 1).all())
    if not alone and bool((own["levels"] == 1).all()):
        return "factor"
    values = runs[name].drop_nulls()
    fewest = values.value_counts()["count"].min()
    # Measured values differ from one repetition to the next, and few of them occur twice.
    if not alone and repeat and fewest == 1 and runs.select(*factors, *repeat).is_unique().all():
        return "metric"
    distinct = values.n_unique() == runs.height
    if distinct and not _has_round_numbers(values):
        return "metric"
    if isinstance(fewest, int) and fewest > 1 and (alone or own[name].n_unique() == 1):
        return "factor"
    if values.dtype.is_float() and not _has_round_numbers(values):
        return "metric"
    return "metric" if better_direction(name) else "unclear"


def _has_round_numbers(values: pl.Series) -> bool:
    """Whether most numbers are such as people choose: round ones, and parts of 1 with one digit."""
    known = [float(value) for value in values.unique() if value]
    whole = [int(value) for value in known if value == int(value)]
    chosen = list(filter(is_round_number, whole))
    tenths = [value for value in known if value != int(value) and value == float(f"{value:.1g}")]
    return 2 * (len(chosen) + len(tenths)) > len(known)


def _refuse_means(runs: pl.DataFrame, names: Mapping[str, str], factors: Sequence[str], repeat: str) -> None:
    """Refuse a number of repetitions in place of their numbers: each row is a mean then."""
    if not repeat or runs.height < 2 or repeat not in names:
        return
    numbers = runs[repeat].drop_nulls().unique()
    alone = bool(runs.select(factors).is_unique().all()) if factors else False
    if len(numbers) == 1 and numbers[0] > 1 and alone:
        raise UsageError(
            f"{names[repeat]} is {numbers[0]} in each row: these are means of runs", hint="pass one row for each run"
        )


def describe_design(design: Design) -> list[str]:
    """The design in a few lines: factors with their levels, repetitions, metrics with their better direction.

    Example:
        >>> repeats, rates = [1, 1, 2, 2, 3, 3], [9.1, 8, 9, 8.5, 9.2, 8.1]
        >>> runs = pl.DataFrame({"version": ["a", "b"] * 3, "rep": repeats, "tps": rates})
        >>> describe_design(read_design(runs))
        ['2 versions x 3 repeats: 6 runs', 'version: a, b', 'tps: higher is better']
    """
    runs, factors = design.runs, design.factors
    parts = [_count_levels(design.callers_name(name), runs[name].n_unique()) for name in factors]
    per_cell = runs.group_by(factors).len()["len"] if factors else pl.Series([runs.height])
    low, high = per_cell.min(), per_cell.max()
    if isinstance(high, int) and high > 1:
        parts.append(pluralize(high, "repeat") if low == high else f"{low!s} to {high} repeats")
    lines = [f"{' x '.join(parts) or 'one set'}: {pluralize(runs.height, 'run')}"]
    for name in factors:
        levels = [str(value) for value in runs[name].unique().sort().to_list()]
        lines.append(f"{design.callers_name(name)}: {join_first_names(levels, 6)}")
    directions = {
        "higher": "higher is better",
        "lower": "lower is better",
        None: "neither direction is known as better",
    }
    lines += [f"{name}: {directions[better_direction(name)]}" for name in design.metrics]
    if same := [name for name in design.constant if runs[name].drop_nulls().len()]:
        lines.append(
            "the same in all runs: " + ", ".join(f"{design.callers_name(n)} {runs[n].drop_nulls()[0]}" for n in same)
        )
    if design.remarks:
        lines.append(f"not used: {join_words([design.callers_name(name) for name in design.remarks])}")
    if design.unclear:
        unclear = join_words([design.callers_name(name) for name in design.unclear])
        lines.append(f"unclear, a setting or measured: {unclear} (factors= or metrics= says it)")
    return lines


def _count_levels(name: str, levels: int) -> str:
    noun = name.replace("_", " ")
    return f"{levels} {noun}" if levels == 1 or noun.endswith("s") else f"{levels} {noun}s"
