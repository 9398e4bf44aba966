"""Claims judged: supported, contradicted, undecided, as stated only, or not covered by the data."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final, Literal, NamedTuple

import polars as pl
import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from citus_analysis.bottleneck.resources import compute_connection_balance, count_connections_over_time
from citus_analysis.bottleneck.samples import NODE, RUN, align_to_runs, select_cpu_over_time, select_one_source
from citus_analysis.bottleneck.waits import select_client_sessions
from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import Frame, TableSource, convert_to_polars, return_callers_frame_kind
from citus_analysis.core.shipped_files import find_shipped_folder
from citus_analysis.defaults import LEVEL, METRIC, POWER, SKIP_FIRST
from citus_analysis.errors import CitusAnalysisError, FormatError, InputError, InsufficientDataError, UnknownNameError
from citus_analysis.published.summaries import summarise_published_rows
from citus_analysis.published.tables import published
from citus_analysis.runs.selection import find_closest_difference, select_runs
from citus_analysis.runs.set_ups import CONFIGURATION, format_configuration, format_setup_value, list_varying_columns
from citus_analysis.schema import TABLES
from citus_analysis.spans.profile import select_statements
from citus_analysis.stats._validate import check_level
from citus_analysis.stats.distributions import compute_t_quantile, find_smallest_n
from citus_analysis.stats.drift import build_block_layout
from citus_analysis.stats.intervals import compute_sample_moments, compute_welch_error, log_ratio_interval
from citus_analysis.stats.run_comparisons import ComparisonQuestion, ask
from citus_analysis.stats.start_up import steady_runs
from citus_analysis.stats.studied_runs import (
    check_columns,
    get_metric_values,
    iterate_groups,
    read_runs_with_metric,
    select_measured_runs,
)
from citus_analysis.stats.verdicts import Evidence, bound_spread
from citus_analysis.texts.documents import YAML_LIMIT_BYTES, describe_validation_error, parse_yaml
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.words import pluralize

# The form of a claim: one line, parts split by commas.
#
# ::
#
#     ratio throughput_ops_s, workers 8 over 1, workload c, at least 6
#     difference throughput_ops_s, monitored true over false, between -500 and 500
#     mean latency_ms, row "INSERT, 2 workers", at most 30
#
# The first part is a quantity (`ratio` or `difference` of two means, or `mean`) and a metric. `COLUMN A over B` names
# the two sides, `COLUMN VALUE` what both have; a value with a comma or the word `over` is in double quotes. The last
# part is the bound: `at least X`, `at most X`, `between X and Y`, `about X within P %`, or `higher` and `lower`, which
# are above and below a ratio of 1 or a difference of 0.

QUANTITIES: Final = ("ratio", "difference", "mean")
_PART: Final = re.compile(r'(?:"[^"]*"|[^",])+')
_VALUE: Final = r'"[^"]*"|[^",]+?'
_NUMBER: Final = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_COLUMN: Final = r"\w[\w.]*"
_HEAD: Final = re.compile(rf"({'|'.join(QUANTITIES)})\s+({_COLUMN})")
_AXIS: Final = re.compile(rf"({_COLUMN})\s+({_VALUE})\s+over\s+({_VALUE})")
_CONDITION: Final = re.compile(rf"({_COLUMN})\s+({_VALUE})")
#: First words of a bound -> the bound.
_BOUNDS: Final = {
    "at least": "at least {}",
    "at most": "at most {}",
    "between": "between {} and {}",
    "about": "about {} within {} %",
    "higher": "higher",
    "lower": "lower",
}
_WAY_OUT: Final = "write: ratio METRIC, COLUMN A over B, COLUMN VALUE, at least X; docs/claims.md has all forms"


@dataclass(frozen=True)
class Bound:
    """The values that a claim allows.

    Attributes:
        kind: word that begins it.
        numbers: its numbers as written.
    """

    kind: str
    numbers: tuple[float, ...] = ()

    def ends(self, quantity: str) -> tuple[float, float]:
        """Lowest and highest allowed value.

        Example:
            >>> Bound("about", (1.0, 25.0)).ends("ratio"), Bound("higher").ends("difference")
            ((0.8, 1.25), (0.0, inf))
        """
        first, *rest = *self.numbers, 1.0 if quantity == "ratio" else 0.0
        match self.kind:
            case "between":
                return first, rest[0]
            case "about":
                factor = 1 + rest[0] / 100
                return first / factor, first * factor
        return (first, math.inf) if self.kind in ("at least", "higher") else (-math.inf, first)

    @property
    def low(self) -> float:
        """Lowest allowed ratio."""
        return self.ends("ratio")[0]

    def __str__(self) -> str:
        # Without an exponent: `at least 1000000`.
        shown = [f"{number:.17g}" if number != float(f"{number:.15g}") else f"{number:.15g}" for number in self.numbers]
        return _BOUNDS[self.kind].format(*shown)


@dataclass(frozen=True)
class RunsQuantity:
    """A quantity of runs: what, and of which of them.

    Attributes:
        quantity: `ratio`, `difference` or `mean`.
        metric: the measured metric.
        axes: column, value of the first side, value of the second; none for a mean.
        conditions: column and value that the runs have.
    """

    quantity: str
    metric: str
    axes: tuple[tuple[str, str, str], ...]
    conditions: tuple[tuple[str, str], ...]

    def side(self, which: int) -> dict[str, str]:
        """Column -> value of the first (0) or second (1) side."""
        return dict(self.conditions) | {axis[0]: axis[1 + which] for axis in self.axes}

    def __str__(self) -> str:
        axes = [f"{name} {quote_value(a)} over {quote_value(b)}" for name, a, b in self.axes]
        same = [f"{name} {quote_value(value)}" for name, value in self.conditions]
        return ", ".join([f"{self.quantity} {self.metric}", *axes, *same])


@dataclass(frozen=True)
class Form(RunsQuantity):
    """A parsed form: a quantity, and the values that a claim allows.

    Attributes:
        bound: the allowed values.
    """

    bound: Bound

    def __str__(self) -> str:
        return f"{super().__str__()}, {self.bound}"


def split_form(text: str) -> list[str]:
    """The parts of a form, split by commas outside of double quotes.

    Raises:
        FormatError: a part is empty, or a quotation is open.

    Example:
        >>> split_form('mean latency_ms, row "INSERT, 2 workers", at most 30')
        ['mean latency_ms', 'row "INSERT, 2 workers"', 'at most 30']
    """
    parts = [part.strip() for part in _PART.findall(text)]
    commas = re.sub(r'"[^"]*"', "", text).count(",")
    if text.count('"') % 2 or not all(parts) or len(parts) != commas + 1:
        raise FormatError(f"{text!r} has an empty part or an open quotation", hint=_WAY_OUT)
    return parts


def parse_quantity(parts: Sequence[str]) -> RunsQuantity:
    """The quantity of runs in the parts of a form, without a bound.

    Raises:
        FormatError: a part is wrong; the message names it.

    Example:
        >>> parse_quantity(["ratio throughput_ops_s", "workers 8 over 1", "workload c"]).side(0)
        {'workload': 'c', 'workers': '8'}
    """
    head = _HEAD.fullmatch(parts[0]) if parts else None
    if head is None:
        said = parts[0] if parts else ""
        raise FormatError(f"{said!r} does not begin with {' or '.join(QUANTITIES)} and a metric", hint=_WAY_OUT)
    axes, conditions = _parse_selection(list(parts[1:]))
    found = RunsQuantity(head[1], head[2], axes, conditions)
    _check_sides(found)
    return found


def parse_form(text: str) -> Form:
    """The form in a line of text.

    Raises:
        FormatError: the text has no form; the message names the part that is wrong.
    """
    parts = split_form(text)
    if _HEAD.fullmatch(parts[0]) and len(parts) < 2:
        raise FormatError(f"{text!r} states no bound", hint=_WAY_OUT)
    if len(parts) < 2:
        raise FormatError(f"{parts[0]!r} does not begin with {' or '.join(QUANTITIES)} and a metric", hint=_WAY_OUT)
    bound, found = _bound(parts[-1]), parse_quantity(parts[:-1])
    _check_bound(found.quantity, bound)
    return Form(found.quantity, found.metric, found.axes, found.conditions, bound)


def _parse_selection(parts: list[str]) -> tuple[tuple[tuple[str, str, str], ...], tuple[tuple[str, str], ...]]:
    axes, conditions, seen = [], [], set()
    for part in parts:
        axis, condition = _AXIS.fullmatch(part), _CONDITION.fullmatch(part)
        found = axis or condition
        if found is None:
            raise FormatError(f"{part!r} is neither COLUMN VALUE nor COLUMN A over B", hint=_WAY_OUT)
        if found[1] in seen:
            raise FormatError(f"{found[1]} occurs twice", hint="name each column once")
        seen.add(found[1])
        if axis:
            axes.append((axis[1], axis[2].strip('"'), axis[3].strip('"')))
        elif condition:
            conditions.append((condition[1], condition[2].strip('"')))
    return tuple(axes), tuple(conditions)


def _bound(part: str) -> Bound:
    for kind, words in _BOUNDS.items():
        pattern = words.replace(" %", " ?%").format(f"({_NUMBER})", f"({_NUMBER})")
        if found := re.fullmatch(pattern, " ".join(part.split())):
            return Bound(kind, tuple(map(float, found.groups())))
    raise FormatError(f"{part!r} is no bound", hint=f"end with one of: {', '.join(_BOUNDS)}, with its numbers")


def _check_sides(found: RunsQuantity) -> None:
    if bool(found.axes) == (found.quantity == "mean"):
        wanted = "no COLUMN A over B" if found.axes else "COLUMN A over B"
        raise FormatError(f"a {found.quantity} needs {wanted}", hint=_WAY_OUT)
    if same := next((name for name, a, b in found.axes if a == b), None):
        raise FormatError(f"both sides have the same {same}", hint="name two values")


def _check_bound(quantity: str, bound: Bound) -> None:
    low, high = bound.ends(quantity)
    if not all(map(math.isfinite, bound.numbers)) or low >= high:
        raise FormatError(f"'{bound}' allows no value", hint="write the smaller number first")
    if bound.kind == "about" and (bound.numbers[0] <= 0 or bound.numbers[1] <= 0):
        raise FormatError(f"'{bound}' is no range of positive values", hint="write: about 1 within 5 %")
    if quantity == "ratio" and high <= 0:
        raise FormatError(f"a ratio is never '{bound}'", hint="compare a difference instead")
    if quantity == "mean" and bound.kind in ("higher", "lower"):
        raise FormatError(f"a mean is not '{bound}' than anything", hint="write: at least X, at most X")


def quote_value(value: str) -> str:
    """A value of a form, in quotation marks where it needs them.

    Example:
        >>> quote_value("query from any node"), quote_value("INSERT, 2 workers")
        ('query from any node', '"INSERT, 2 workers"')
    """
    plain = value and value == value.strip() and "," not in value and not re.search(r"\sover\s", value)
    return value if plain else f'"{value}"'


# Files of claims: YAML, a list of claims with their sources, places and forms.

_FILE_WAY_OUT: Final = "docs/claims.md describes the file"


class StatedClaim(BaseModel):
    """One claim of a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim: str = Field(min_length=1, description="the sentence")
    source: str = Field(min_length=1, description="who claims it; the key of a publication if it is one of ours")
    place: str = Field(min_length=1, description="page, section, table or figure")
    form: str | None = Field(None, max_length=1_000, description="what runs are judged by")
    printed: str | None = Field(
        None, max_length=1_000, description="what the publication's own printed numbers are judged by"
    )

    @field_validator("form", "printed")
    @classmethod
    def _has_a_form(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                parse_form(text)
            except FormatError as error:
                raise ValueError(f"{error.problem} ({error.hint})") from error
        return text

    @model_validator(mode="after")
    def _can_be_judged(self) -> StatedClaim:
        if self.form is None and self.printed is None:
            raise ValueError("neither form nor printed is stated")
        return self


@dataclass(frozen=True)
class Claim:
    """A claim with its parsed forms.

    Attributes:
        stated: the claim as written.
        form: its form over runs; None if only printed numbers bear on it.
        printed: its form over the printed numbers of its source.
        path: the file.
        line: where it begins in the file.
    """

    stated: StatedClaim
    form: Form | None
    printed: Form | None
    path: Path
    line: int

    def make_error(self, error: CitusAnalysisError) -> InputError:
        """An error about this claim, with its place."""
        return InputError(error.problem, path=self.path, place=f"line {self.line}", hint=error.hint or _FILE_WAY_OUT)


def read_claims(path: str | PathLike[str] | None = None) -> tuple[Claim, ...]:
    """The claims of a file; by default those that ship with the library.

    Raises:
        InputError: the file cannot be read, or is no list of claims; the message names file, line and field.

    Example:
        >>> len({claim.stated.source for claim in read_claims()})
        5
    """
    file = find_shipped_folder("published") / "claims.yml" if path is None else Path(path)
    try:
        with file.open("rb") as opened:
            data = opened.read(YAML_LIMIT_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=file, hint="check the path") from error
    try:
        document = parse_yaml(data)
    except FormatError as error:
        raise InputError(error.problem, path=file, place=error.place, hint="check the indentation") from error
    if not isinstance(document, list) or not document:
        raise InputError("is not a list of claims", path=file, hint=_FILE_WAY_OUT)
    root = yaml.compose(data, yaml.SafeLoader)
    assert isinstance(root, yaml.SequenceNode)  # noqa: S101 - the document is a list
    lines = [node.start_mark.line + 1 for node in root.value]
    try:
        stated = TypeAdapter(list[StatedClaim]).validate_python(document)
    except ValidationError as error:
        raise _make_invalid_file_error(error, file, lines) from error
    return tuple(
        Claim(one, _parse_optional_form(one.form), _parse_optional_form(one.printed), file, line)
        for one, line in zip(stated, lines, strict=True)
    )


def _parse_optional_form(text: str | None) -> Form | None:
    return None if text is None else parse_form(text)


def _make_invalid_file_error(error: ValidationError, file: Path, lines: list[int]) -> InputError:
    problem, (number, *fields) = describe_validation_error(error)
    named = f", field '{'.'.join(map(str, fields))}'" if fields else ""
    line = lines[number] if isinstance(number, int) else 1
    return InputError(problem, path=file, place=f"line {line}{named}", hint=_FILE_WAY_OUT)


# Estimates of ratios, differences and means, with one interval and one plan for all three.
#
# A ratio and a positive mean are judged by their logarithm, a difference as it is. Each is an estimate on a straight
# scale, with the standard error and the degrees of freedom of Student's t.
#
# References:
#     Welch, B. L. (1947). The generalization of `Student's' problem. Biometrika 34.
#     Browne, R. H. (1995). On the use of a pilot sample for sample size determination. Statistics in Medicine 14.

_MOST_RUNS: Final = 100_000


class ClaimSample(NamedTuple):
    """One side: its mean and, where they are known, standard deviation and n."""

    mean: float
    sd: float = math.nan
    n: int = 1


@dataclass(frozen=True)
class ClaimEstimate:
    """An estimate on a straight scale.

    Attributes:
        value: the estimate, of a ratio or mean its logarithm.
        error: its standard error; inf if a side has one run.
        df: degrees of freedom of the error; 0 if there is none.
        n: runs of the smaller side, or blocks.
        spread: standard deviation that one run of each side contributes.
        sets: sets of runs whose spread is known independently.
        logarithm: whether `value` is a logarithm.
        method: how the interval is computed.
    """

    value: float
    error: float
    df: float
    n: int
    spread: float
    sets: int
    logarithm: bool
    method: str

    @classmethod
    def from_ratio(cls, evidence: Evidence) -> ClaimEstimate:
        """The estimate of a comparison."""
        method = log_ratio_interval(1.0, 0.0, 1.0, evidence.n, design=evidence.design).method
        sets = 2 if evidence.design == "unpaired" else 1
        value, error, df = math.log(evidence.ratio), evidence.error, evidence.df
        return cls(value, error, df, evidence.n, evidence.spread, sets, True, method)

    @classmethod
    def from_ratio_of_means(cls, a: ClaimSample, b: ClaimSample) -> ClaimEstimate:
        """The ratio of two printed means.

        Raises:
            InsufficientDataError: a mean is not positive.
        """
        if min(a.mean, b.mean) <= 0:
            raise InsufficientDataError("a ratio needs positive means")
        return cls.from_ratio(Evidence.from_summaries(a, b))

    @classmethod
    def from_mean(cls, side: ClaimSample) -> ClaimEstimate:
        """A mean, by its logarithm if it is positive."""
        positive = side.mean > 0
        value, sd = (math.log(side.mean), side.sd / side.mean) if positive else (side.mean, side.sd)
        method = "Student t on the log scale" if positive else "Student t"
        known = side.n > 1
        error = sd / math.sqrt(side.n) if known else math.inf
        return cls(value, error, side.n - 1.0, side.n, sd, 1, positive, method)

    @classmethod
    def from_difference(cls, a: ClaimSample, b: ClaimSample | None = None) -> ClaimEstimate:
        """The difference of two sides, or the mean of differences within blocks."""
        if b is None:
            return cls(a.mean, a.sd / math.sqrt(a.n), a.n - 1.0, a.n, a.sd, 1, False, "paired t, block by block")
        value, n, spread = a.mean - b.mean, min(a.n, b.n), math.hypot(a.sd, b.sd)
        return cls(value, *compute_welch_error((a.sd, a.n), (b.sd, b.n)), n, spread, 2, False, "Welch t")

    @property
    def shown(self) -> float:
        """The estimate as a ratio, mean or difference."""
        # To twelve digits, because a logarithm and its exponential do not give 1,000,000 back exactly.
        return float(f"{self._format_value(self.value):.12g}")

    def ends(self, tail: float) -> tuple[float, float] | None:
        """The ends of the interval that leaves `tail` on each side; None without a spread."""
        if not self.df:
            return None
        reach = compute_t_quantile(1 - tail, self.df) * self.error
        return self._format_value(self.value - reach), self._format_value(self.value + reach)

    def _format_value(self, value: float) -> float:
        return math.exp(min(value, 700.0)) if self.logarithm else value

    def _straight(self, bound: float) -> float:
        """A bound on the scale of the value."""
        return bound if not self.logarithm else math.log(bound) if bound > 0 else -math.inf

    def runs_missing(self, low: float, high: float, tail: float) -> int | None:
        """Further runs of each side until the interval likely lies within, or outside of, some bounds.

        The estimate is assumed to stay the same; the spread is taken at its upper limit. None if it is not known, or if
        more than 100,000 runs would be needed.
        """
        if not self.df or not self.spread:
            return None
        gaps = [self.value - self._straight(low), self._straight(high) - self.value]
        inside = min(gaps) >= 0
        gap = min(gaps) if inside else -min(gaps)
        # Between two bounds, the interval must keep away from both.
        power = (1 + POWER) / 2 if inside and all(map(math.isfinite, gaps)) else POWER
        spread = bound_spread(self.spread, self.df)

        def decides(n: int) -> bool:
            df = (n - 1.0) * self.sets
            return (compute_t_quantile(1 - tail, df) + compute_t_quantile(power, df)) * spread / math.sqrt(n) <= gap

        needed = find_smallest_n(decides, 2, _MOST_RUNS)
        return None if needed is None else max(1, needed - self.n)


# Measures of a run that claims are about, beside the columns of `runs`: from traces, snapshots, samples and profiles.
#
# A measure is one number for each run, so that its interval is that of the runs. It is null where the dataset cannot
# give it: samples of a machine that several nodes share are never those of a node.

#: A sample of a CPU that is busier than this is at its limit.
_BUSY_PERCENT: Final = 90.0
#: What a session does while it needs its own node.
_AT_WORK: Final = ("working", "WAL", "I/O", "lock", "other wait")


class RunMeasure(NamedTuple):
    """A measure of runs.

    Attributes:
        meaning: what it is, in words.
        needs: the tables that it is computed from, in words.
        values: a function of the dataset and its runs, which gives `resource`, `run_id` and `value`.
    """

    meaning: str
    needs: str
    values: Callable[[TableSource, pl.DataFrame], pl.DataFrame]


def is_run_measure(name: str) -> bool:
    """Whether a metric is one of :data:`RUN_MEASURES`, or the lead of a function.

    Example:
        >>> is_run_measure("parent_share"), is_run_measure("lead.memcpy"), is_run_measure("throughput_ops_s")
        (True, True, False)
    """
    return name in RUN_MEASURES or name.startswith(_LEAD)


def add_run_measure(source: TableSource, runs: pl.DataFrame, name: str) -> pl.DataFrame:
    """The runs with a measure as a column of its name.

    Args:
        source: a dataset.
        runs: its runs.
        name: one of :data:`RUN_MEASURES`, or `lead.FUNCTION`.
    """
    is_lead = name.startswith(_LEAD)
    found = (
        _compute_function_lead(source, name.removeprefix(_LEAD)) if is_lead else RUN_MEASURES[name].values(source, runs)
    )
    values = found.select(pl.col(RUN).cast(pl.String), pl.col("value").cast(pl.Float64).alias(name))
    keyed = runs.with_columns(pl.col(RUN).cast(pl.String))
    return keyed.join(values, on=RUN, how="left", maintain_order="left")


def describe_measure_inputs(name: str) -> str:
    """What a measure is computed from, in words."""
    return _NEEDS_OF_LEAD if name.startswith(_LEAD) else RUN_MEASURES[name].needs


def _read_source_table(source: TableSource, name: str) -> pl.DataFrame:
    return convert_to_polars(source.table(name))


def _steady_throughput(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Throughput of the steady part; runs of one configuration have one start-up, and runs that did not settle none."""
    by = ["resource", "phase", *(name for name in CONFIGURATION if name in runs.columns)]
    steady = steady_runs(runs, _read_source_table(source, "client_series"), by).filter("settled")
    return steady.select(*RUN, value="steady_ops_s")


def _compute_parent_share(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Of the time of remote statements in the steady state, those of the page on profiles, the share of the parent."""
    try:
        steady = select_statements(select_runs(source), source, skip_first=SKIP_FIRST).steady
    except InsufficientDataError:
        return runs.clear().select(*RUN, value=pl.lit(None, pl.Float64))
    remote = steady.filter(
        pl.col("executed").cast(pl.String) == "remote", pl.col("parent_us").is_not_null() & (pl.col("total_us") > 0)
    )
    sums = remote.group_by(RUN, maintain_order=True).agg(pl.col("parent_us", "total_us").sum())
    return sums.select(*RUN, value=pl.col("parent_us") / pl.col("total_us"))


def _compute_wal_wait_share(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Of the snapshots of sessions that work on their node, the share of those that wait for WAL."""
    sessions = select_client_sessions(_read_source_table(source, "activity_samples"), runs)
    at_work = sessions.filter(pl.col("doing").is_in(_AT_WORK)).group_by(RUN, maintain_order=True)
    return at_work.agg(value=(pl.col("doing") == "WAL").mean())


def _compute_cpu_limited_share(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Of the node that has it most: the share of time in which it used all the CPU that it may.

    Where control groups have a quota, the share of periods in which it was used up; else the share of samples in which
    the CPU was busy, if every node has a machine of its own.
    """
    keys = [*NODE, "control_group"]
    quotas = select_one_source(align_to_runs(_read_source_table(source, "throttle_samples"), runs), keys)
    periods = quotas.group_by(keys, maintain_order=True).agg(pl.col("throttled_periods", "periods").sum())
    # Periods in which a group was idle are not counted: a run has as many as its busiest group.
    used = periods.filter(pl.col("periods").max().over(RUN) > 0).with_columns(
        value=pl.col("throttled_periods") / pl.col("periods").max().over(RUN)
    )
    by_quota = used.group_by(RUN, maintain_order=True).agg(pl.col("value").max())
    shares = (
        _own_machines(source, runs)
        .group_by(NODE, maintain_order=True)
        .agg(value=(pl.col("busy_percent") >= _BUSY_PERCENT).mean())
    )
    by_machine = shares.group_by(RUN, maintain_order=True).agg(pl.col("value").max())
    return pl.concat([by_quota, by_machine.join(by_quota, on=RUN, how="anti")], how="vertical_relaxed")


def _own_machines(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """CPU samples of runs in which every worker has some: their machines are not shared."""
    cpu = select_cpu_over_time(_read_source_table(source, "cpu_samples"), runs)
    nodes = cpu.group_by(RUN).agg(machines=pl.col("node").n_unique()).join(runs.select(*RUN, "workers"), on=RUN)
    own = nodes.filter(pl.col("machines") >= pl.max_horizontal("workers", pl.lit(1)))
    return cpu.join(own, on=RUN, how="semi", maintain_order="left")


def _compute_uneven_cpu_ratio(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """CPU use of the node with the most connections of clients over that of the node with the fewest."""
    cpu = _own_machines(source, runs).group_by(NODE, maintain_order=True).agg(pl.col("busy_percent").mean())
    sessions = compute_connection_balance(
        count_connections_over_time(_read_source_table(source, "activity_samples"), runs)
    )
    both = cpu.join(sessions, on=NODE).filter(pl.col("client") + pl.col("internal") > 0)
    ends = (
        both.sort("client")
        .group_by(RUN, maintain_order=True)
        .agg(
            pl.col("client").first().alias("few"),
            pl.col("client").last().alias("many"),
            value=pl.col("busy_percent").last() / pl.col("busy_percent").first(),
        )
    )
    return ends.filter(pl.col("many") > pl.col("few"))


def _compute_checkpoint_await_ratio(source: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    """Of the device that is written to most: mean await during checkpoints over that at other times."""
    samples = _read_source_table(source, "device_samples").remove(pl.col("is_group")).drop_nulls("await_ms")
    devices = select_one_source(align_to_runs(samples, runs), [*NODE, "device"])
    written = devices.group_by(*NODE, "device", maintain_order=True).agg(pl.col("write_kb_s").mean().fill_null(0))
    main = written.sort("write_kb_s", descending=True).group_by(RUN, maintain_order=True).first()
    total = pl.duration(milliseconds=(pl.col("total_s") * 1_000).round().cast(pl.Int64))
    begin = pl.coalesce("start_time", pl.col("end_time") - total, "end_time")
    marks = _read_source_table(source, "checkpoints").select(*RUN, "end_time", begin_time=begin)
    kept = devices.join(main, on=[*NODE, "device"], how="semi").with_row_index("_row")
    paired = kept.select(*RUN, "_row", "sample_time", "await_ms").join(marks, on=RUN)
    during = pl.col("sample_time").is_between("begin_time", "end_time")
    marked = paired.group_by(*RUN, "_row", maintain_order=True).agg(pl.col("await_ms").first(), during=during.any())
    means = marked.group_by(RUN, maintain_order=True).agg(
        inside=pl.col("await_ms").filter("during").mean(), outside=pl.col("await_ms").filter(~pl.col("during")).mean()
    )
    return means.filter(pl.col("outside") > 0).select(*RUN, value=pl.col("inside") / pl.col("outside")).drop_nulls()


#: Prefix of the lead of a function: `lead.finish_task_switch`.
_LEAD: Final = "lead."
_NEEDS_OF_LEAD: Final = "reports of perf (table `perf_symbols`)"


def _compute_function_lead(source: TableSource, function: str) -> pl.DataFrame:
    """Of a run's recordings by perf: the function's share of samples over the largest share of another, on average."""
    symbols = _read_source_table(source, "perf_symbols").drop_nulls(["run_id", "self_percent"])
    recording = [*RUN, "source_id", "event"]
    mine = pl.col("symbol") == function
    shares = symbols.group_by(*recording, "symbol", maintain_order=True).agg(pl.col("self_percent").sum())
    leads = shares.group_by(recording, maintain_order=True).agg(
        own=pl.col("self_percent").filter(mine).sum(), other=pl.col("self_percent").filter(~mine).max()
    )
    return (
        leads.filter(pl.col("other") > 0)
        .group_by(RUN, maintain_order=True)
        .agg(value=(pl.col("own") / pl.col("other")).mean())
    )


#: Name -> measure.
RUN_MEASURES: Final = {
    "steady_throughput_ops_s": RunMeasure(
        "throughput of a run without its start-up",
        "status lines of the clients (table `client_series`)",
        _steady_throughput,
    ),
    "parent_share": RunMeasure(
        "share of the parent in the time of remote statements of the steady state",
        "traces of sampled statements (table `statements`)",
        _compute_parent_share,
    ),
    "wal_wait_share": RunMeasure(
        "of the sessions that work on their node, the share that waits for WAL",
        "snapshots of sessions (table `activity_samples`)",
        _compute_wal_wait_share,
    ),
    "cpu_limited_share": RunMeasure(
        "share of time in which a node used all the CPU that it may, of the node that has it most",
        "control groups with a quota (table `throttle_samples`), or CPU samples of every node's own machine",
        _compute_cpu_limited_share,
    ),
    "uneven_cpu_ratio": RunMeasure(
        "CPU use of the node with the most connections of clients over that of the node with the fewest",
        "CPU samples of every node's own machine, and snapshots of sessions that are spread unevenly",
        _compute_uneven_cpu_ratio,
    ),
    "checkpoint_await_ratio": RunMeasure(
        "await of the device that is written to most, during checkpoints over that at other times",
        "samples of devices, and checkpoints in the servers' logs within the run",
        _compute_checkpoint_await_ratio,
    ),
}

# What the form of a claim selects: runs of a dataset, like with like, or the printed numbers of its publication.

_SIDE: Final = "side"
_FIRST: Final = "first"
_SECOND: Final = "second"
_OF_RUNS: Final = frozenset({*CONFIGURATION, *(column.name for column in TABLES["runs"].columns)})
_OF_OPERATIONS: Final = frozenset(column.name for column in TABLES["operation_latencies"].columns) - _OF_RUNS
#: Facts of resources whose names have no dot; all others are those of a section (`settings.shared_buffers`).
_FACTS: Final = ("hardware", "citus_version")
_NAMES: Final = ("table", "row", "system", "workload")


@dataclass(frozen=True)
class ClaimSelection:
    """The runs, or the printed numbers, that a form selects in one configuration.

    Attributes:
        configuration: the columns that all runs share, or the printed rows, in words.
        estimate: the estimate; None if there is none.
        reason: why there is none.
        warnings: caveats.
        is_own: whether a printed number is known from the claim's own sentence only.
    """

    configuration: str
    estimate: ClaimEstimate | None
    reason: str = ""
    warnings: tuple[str, ...] = ()
    is_own: bool = False


def select_claim_runs(source: TableSource | Frame, form: RunsQuantity) -> list[ClaimSelection]:
    """The configurations of a dataset that a form selects; one without an estimate if there is none.

    Raises:
        UnknownNameError: there is no such metric or column.
    """
    if not isinstance(source, TableSource) and form.metric in _OF_OPERATIONS:
        return [ClaimSelection("", None, f"{form.metric} is in the table operation_latencies: pass a dataset")]
    if is_run_measure(form.metric):
        if not isinstance(source, TableSource):
            return [ClaimSelection("", None, f"{form.metric} needs more tables than runs: pass a dataset")]
        measured = add_run_measure(source, read_runs_with_metric(source, METRIC), form.metric)
        if measured[form.metric].is_null().all():
            return [
                ClaimSelection(
                    "", None, f"not covered by this dataset: {form.metric} needs {describe_measure_inputs(form.metric)}"
                )
            ]
    else:
        measured = read_runs_with_metric(source, form.metric)
    frame = _add_resource_facts(source, measured, [*form.side(0)])
    if absent := [name for name in form.side(0) if name not in frame.columns and (name in _OF_RUNS or _is_fact(name))]:
        return [ClaimSelection("", None, f"not covered by this dataset: no run has a {absent[0]}")]
    check_columns(frame, list(form.side(0)))
    try:
        found = list(_means(frame, form) if form.quantity == "mean" else _iterate_claim_pairs(frame, form))
    except InsufficientDataError as error:
        return [ClaimSelection("", None, error.problem)]
    return found or [ClaimSelection("", None, "no two runs agree in all that the form leaves open")]


def _is_fact(name: str) -> bool:
    """Whether a name is one of the descriptions of resources, and of no column."""
    return "." in name or name in _FACTS


def _add_resource_facts(source: TableSource | Frame, frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The runs with what the description of their resource states under these names, unless it contradicts itself."""
    if not isinstance(source, TableSource):
        return frame
    wanted = [name for name in names if name not in frame.columns]
    stated = convert_to_polars(source.table("settings")).filter(pl.col("name").is_in(wanted))
    for (name,), rows in stated.group_by("name", maintain_order=True):
        value = pl.when(pl.col("value").n_unique() == 1).then(pl.col("value").first()).alias(str(name))
        frame = frame.join(rows.group_by("resource").agg(value), on="resource", how="left", maintain_order="left")
    return frame


def filter_claim_runs(frame: pl.DataFrame, values: Mapping[str, str]) -> pl.DataFrame:
    """The runs with these values, as they are displayed, in any case; `*` in a fact of a resource is any text."""
    for name, value in values.items():
        wanted = re.escape(value.casefold())
        fits = re.compile(wanted.replace(r"\*", ".*") if _is_fact(name) else wanted, re.DOTALL).fullmatch
        shown = [
            () if one is None and _is_fact(name) else (format_setup_value(name, one).casefold(), str(one).casefold())
            for one in frame[name]
        ]
        frame = frame.filter(pl.Series([any(map(fits, texts)) for texts in shown], dtype=pl.Boolean))
        if frame.is_empty():
            raise InsufficientDataError(f"not covered by this dataset: no run has {name} {value} as well as the rest")
    return frame


def _means(frame: pl.DataFrame, form: RunsQuantity) -> Iterator[ClaimSelection]:
    runs, notes = select_measured_runs(filter_claim_runs(frame, form.side(0)), form.metric, ())
    varying = list_varying_columns(runs)
    for stratum, part in iterate_groups(runs, varying):
        side = ClaimSample(*compute_sample_moments(get_metric_values(part, form.metric)))
        yield ClaimSelection(format_configuration(stratum), ClaimEstimate.from_mean(side), warnings=notes)


def _iterate_claim_pairs(frame: pl.DataFrame, form: RunsQuantity) -> Iterator[ClaimSelection]:
    sides = [
        filter_claim_runs(frame, form.side(which)).with_columns(pl.lit(name).alias(_SIDE))
        for which, name in enumerate((_FIRST, _SECOND))
    ]
    columns = tuple(name for name, _, _ in form.axes)
    question = ComparisonQuestion(metric=form.metric, by=_SIDE, base=_SECOND, pool=columns)
    asked = ask(pl.concat(sides), question)
    strata = asked.question.strata
    parts = [(stratum, part) for stratum, part in iterate_groups(asked.runs, strata) if part[_SIDE].n_unique() > 1]
    if asked.runs[_SIDE].n_unique() < 2:
        raise InsufficientDataError("only one of the two sides has runs")
    if not parts:
        closest = ", ".join(find_closest_difference(asked.runs, _SIDE, strata))
        raise InsufficientDataError(
            f"the two sides differ in {closest} as well: state it in the form (COLUMN A over B)"
        )
    for stratum, part in parts:
        comparison = next(asked.question.compare(part, stratum))
        estimate = ClaimEstimate.from_ratio(comparison.evidence)
        if form.quantity == "difference":
            estimate = _estimate_difference(part, form.metric)
        stated = tuple(f"differs in {name}" for name in columns)
        notes = [note for note in comparison.warnings if not note.startswith(stated)]
        yield ClaimSelection(format_configuration(stratum), estimate, warnings=(*asked.notes, *notes))


def _estimate_difference(part: pl.DataFrame, metric: str) -> ClaimEstimate:
    a, b = (part.filter(pl.col(_SIDE) == name) for name in (_FIRST, _SECOND))
    layout = build_block_layout(a, b, metric)
    if layout.paired:
        return ClaimEstimate.from_difference(ClaimSample(*compute_sample_moments(layout.a - layout.b)))
    return ClaimEstimate.from_difference(
        ClaimSample(*compute_sample_moments(layout.a)), ClaimSample(*compute_sample_moments(layout.b))
    )


def select_printed_numbers(source: str, form: Form, place: str = "") -> ClaimSelection:
    """The printed numbers of a publication that a form selects.

    Args:
        source: key of the publication.
        form: a form over its numbers.
        place: where the claim is stated.

    Raises:
        UnknownNameError: there is no such publication, metric or column.
    """
    numbers = published(source)
    known = numbers["metric"].unique().to_list()
    if form.metric not in known:
        raise UnknownNameError("published metric", form.metric, known)
    for name in form.side(0):
        if name not in (*_NAMES, *known):
            raise UnknownNameError("column or metric", name, [*_NAMES, *known])
    wanted = [form.side(0)] if form.quantity == "mean" else [form.side(0), form.side(1)]
    try:
        rows = [_find_printed_row(numbers, form.metric, values) for values in wanted]
        estimate = _estimate_from_printed(
            form.quantity, [_build_printed_sample(numbers, row, form.metric) for row in rows]
        )
    except InsufficientDataError as error:
        return ClaimSelection("", None, error.problem)
    own = any(_is_stated_only_in(numbers, row, form.metric, get_sentence_lines(place)) for row in rows)
    return ClaimSelection(" against ".join(f"{row['table']}, {row['row']}" for row in rows), estimate, is_own=own)


#: Lines in the place of a claim: `line 872`, `lines 121 and 177`, `lines 132 to 135`.
_LINES: Final = re.compile(r"\blines? (?P<first>\d+)(?:(?P<to> to | and )(?P<last>\d+))?")
#: The parts of a place; a part that begins with a table is no sentence.
_PARTS: Final = re.compile(r",? and (?=(?:table|figure|section|chapter)s?\b)")


def get_sentence_lines(place: str) -> set[int]:
    """The lines of a publication's text that a claim's place names as its sentence; lines of tables are none.

    Example:
        >>> sorted(get_sentence_lines("section 3, lines 4 to 6, and table 1, line 377"))
        [4, 5, 6]
    """
    found = set[int]()
    for part in _PARTS.split(place):
        for lines in _LINES.finditer(part if not part.startswith("table") else ""):
            first, last = int(lines["first"]), int(lines["last"] or lines["first"])
            found |= set(range(first, last + 1)) if lines["to"] == " to " else {first, last}
    return found


def _is_stated_only_in(numbers: pl.DataFrame, row: Mapping[str, object], metric: str, lines: set[int]) -> bool:
    """Whether a printed number is stated in these lines only, so that it cannot confirm what they say."""
    same = (pl.col("table") == row["table"]) & (pl.col("row") == row["row"]) & (pl.col("metric") == metric)
    places = numbers.filter(same)["location"].str.extract(r"line (\d+)").cast(pl.Int64)
    return bool(lines) and places.is_in(list(lines)).all()


def _estimate_from_printed(quantity: str, sides: Sequence[ClaimSample]) -> ClaimEstimate:
    if quantity == "mean":
        return ClaimEstimate.from_mean(sides[0])
    return ClaimEstimate.from_ratio_of_means(*sides) if quantity == "ratio" else ClaimEstimate.from_difference(*sides)


def _find_printed_row(numbers: pl.DataFrame, metric: str, values: Mapping[str, str]) -> dict[str, object]:
    """The one row of the publication that states the metric and has these values."""
    place = ["table", "row"]
    found = numbers.filter(pl.col("metric") == metric, pl.col("value").is_not_null())
    found = found.unique(place, keep="first", maintain_order=True)
    for name, value in values.items():
        if name in _NAMES:
            found = found.filter(pl.col(name) == value)
        else:
            stated = numbers.filter(pl.col("metric") == name, pl.col("value") == _number(value))
            found = found.join(stated.select(place).unique(), on=place, how="semi", maintain_order="left")
    said = ", ".join(f"{name} {value}" for name, value in values.items())
    if found.height != 1:
        what = "no printed row" if found.is_empty() else f"{found.height} printed rows, not one,"
        raise InsufficientDataError(f"{what} with {said} and a {metric}")
    return found.row(0, named=True)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _build_printed_sample(numbers: pl.DataFrame, row: Mapping[str, object], metric: str) -> ClaimSample:
    """A printed value, with standard deviation and n where both are known."""
    value = float(str(row["value"]))
    same = numbers.filter(pl.col("table") == row["table"], pl.col("row") == row["row"])
    if metric == "throughput_ops_s" and same["metric"].is_in(["workers"]).any():
        for found in summarise_published_rows(same).iter_rows(named=True):
            return ClaimSample(value, found["sd"], found["n"])
    return ClaimSample(value)


ClaimVerdict = Literal["supported", "contradicted", "undecided", "as stated", "no data"]
VERDICTS: Final[tuple[ClaimVerdict, ...]] = ("supported", "contradicted", "undecided", "as stated", "no data")
_JUDGES: Final = ("runs", "printed numbers")
#: An interval whose ends are further apart than this factor says nothing; it is not shown.
_WIDEST: Final = 1_000.0
#: Suffix of metrics that are at most 1.
_SHARE: Final = "_share"
_SCHEMA: Final = {
    **dict.fromkeys(("claim", "source", "place", "judged_by", "verdict"), pl.String),
    **dict.fromkeys(("estimate", "low", "high"), pl.Float64),
    "n": pl.Int64,
    "method": pl.String,
    "runs_needed": pl.Int64,
    **dict.fromkeys(("form", "configuration", "explanation", "warnings"), pl.String),
}


@dataclass(frozen=True, repr=False, eq=False)
class JudgedClaims(DisplayMixin):
    """Claims with their verdicts.

    Attributes:
        claims: one row per claim and configuration that it is about: claim, source, place, judged_by (`runs` or
            `printed numbers`), verdict, estimate with low and high, n, method, runs_needed (further runs of each side),
            form, configuration, explanation, warnings.
        level: confidence level of all intervals together.
    """

    claims: pl.DataFrame
    level: float

    @property
    def _rows(self) -> pl.DataFrame:
        # The caller's frame may be one of pandas or Arrow.
        return convert_to_polars(self.claims)

    def count(self, verdict: ClaimVerdict, judged_by: str | None = None) -> int:
        """The number of rows with a verdict."""
        rows = self._rows if judged_by is None else self._rows.filter(pl.col("judged_by") == judged_by)
        return int((rows["verdict"] == verdict).sum())

    @property
    def exit_code(self) -> int:
        """0: all supported, or only stated; 1: one contradicted; 4: none contradicted, but not all supported.

        Rows judged by runs count if there are any, else those judged by printed numbers.
        """
        by = next(judge for judge in _JUDGES if (self._rows["judged_by"] == judge).any())
        if self.count("contradicted", by):
            return 1
        return 4 if self.count("undecided", by) or self.count("no data", by) else 0

    def summary_lines(self) -> list[str]:
        """The number of rows by verdict."""
        counts = Counter(self._rows["verdict"])
        words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
        claims = self._rows["claim"].n_unique()
        # A claim about several configurations, or by runs and by printed numbers, has several verdicts.
        verdicts = f", {pluralize(self._rows.height, 'verdict')}" if self._rows.height != claims else ""
        return [f"{pluralize(claims, 'claim')}{verdicts}: {words}"]

    def summary_table(self) -> pl.DataFrame | None:
        """The verdicts."""
        return self._rows.select("claim", "source", "place", "judged_by", "verdict", "estimate", "low", "high", "n")

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        counts: dict[str, object] = {verdict: self.count(verdict) for verdict in VERDICTS}
        return {"level": self.level, "verdicts": counts, "claims": self._rows.to_dicts()}


@return_callers_frame_kind
def judge_claims(
    source: TableSource | Frame | None = None,
    files: Sequence[str | PathLike[str]] = (),
    level: float = LEVEL,
) -> JudgedClaims:
    """Judge claims by runs, and by the printed numbers of their publications.

    A claim is supported if the whole interval of its ratio, difference or mean fulfils its form, contradicted if the
    whole interval lies outside, and undecided otherwise. A printed number that is known from the claim's own sentence
    only confirms nothing: the claim is `as stated`. All intervals of a call hold together at the level
    (Bonferroni: each claim has the same share of the error, and divides it among its configurations). `about` is
    judged by two one-sided tests. Printed numbers without standard deviation and n have no interval.

    Args:
        source: a dataset, or a frame of the table `runs`; None: printed numbers only.
        files: files of claims (docs/claims.md); by default the claims that ship with the library.
        level: confidence level.

    Raises:
        InputError: a file is unusable, or a form names an unknown metric or column.

    Example:
        >>> found = judge_claims()
        >>> found.claims.height >= 24
        True
    """
    check_level(level)
    claims = [claim for file in files for claim in read_claims(file)] if files else list(read_claims())
    cases = [one for claim in claims for one in _iterate_claim_cases(claim, source)]
    rows: list[dict[str, object]] = []
    for by in _JUDGES:
        those = [one for one in cases if one.by == by]
        tested = (one for one in those if one.selected.estimate is not None and one.selected.estimate.df > 0)
        intervals = Counter(id(one.claim) for one in tested)
        # Each claim has the same share of the error, and divides it among its configurations.
        rows += [_judge_case(one, len(intervals) * intervals[id(one.claim)] or 1, level) for one in those]
    return JudgedClaims(pl.DataFrame(rows, schema=_SCHEMA), level)


@dataclass(frozen=True)
class _Case:
    """A claim in one configuration, and what judges it."""

    claim: Claim
    form: Form | None
    by: Literal["runs", "printed numbers"]
    selected: ClaimSelection


def _iterate_claim_cases(claim: Claim, source: TableSource | Frame | None) -> Iterator[_Case]:
    try:
        if source is not None and claim.form is not None:
            yield from (_Case(claim, claim.form, "runs", one) for one in select_claim_runs(source, claim.form))
        if claim.printed is not None:
            found = select_printed_numbers(claim.stated.source, claim.printed, claim.stated.place)
            yield _Case(claim, claim.printed, "printed numbers", found)
        elif source is None:
            reason = "no printed number bears on it: name a dataset"
            yield _Case(claim, claim.form, "printed numbers", ClaimSelection("", None, reason))
    except UnknownNameError as error:
        raise claim.make_error(error) from error


def _judge_case(one: _Case, family: int, level: float) -> dict[str, object]:
    stated, estimate = one.claim.stated, one.selected.estimate
    row: dict[str, object] = {
        "claim": stated.claim,
        "source": stated.source,
        "place": stated.place,
        "judged_by": one.by,
        "verdict": "no data",
        "form": None if one.form is None else str(one.form),
        "configuration": one.selected.configuration,
        "explanation": one.selected.reason,
        "warnings": "; ".join(one.selected.warnings),
    }
    if estimate is None or one.form is None:
        return row
    low, high = one.form.bound.ends(one.form.quantity)
    # The two one-sided tests of an equivalence leave the whole error probability on each side.
    equivalence = one.form.bound.kind == "about"
    tail = (1 - level) / family / (1 if equivalence else 2)
    ends = estimate.ends(tail)
    if ends is not None and one.form.metric.endswith(_SHARE):
        ends = min(ends[0], 1.0), min(ends[1], 1.0)
    row |= {"estimate": estimate.shown, "n": estimate.n}
    if ends is None:
        return row | _judge_without_interval(one, estimate.shown, low, high)
    verdict = "supported" if low <= ends[0] and ends[1] <= high else "undecided"
    verdict = "contradicted" if ends[1] < low or ends[0] > high else verdict
    verdict = "as stated" if verdict == "supported" and one.selected.is_own else verdict
    missing = estimate.runs_missing(low, high, tail) if verdict == "undecided" else None
    several = f", simultaneous over {family}" if family > 1 else ""
    method = estimate.method + (", two one-sided tests" if equivalence else "") + several
    each = "" if one.form.quantity == "mean" else " of each side"
    advice = "" if missing is None else f"; about {pluralize(missing, 'more run')}{each} would decide"
    shown: tuple[float | None, float | None] = ends
    if estimate.logarithm and ends[1] > _WIDEST * ends[0]:
        shown = (None, None)
        words = f"{format_number(estimate.shown)}; {pluralize(estimate.n, 'run')}{each} are too few for an interval"
    else:
        words = (
            f"{format_number(estimate.shown)} [{format_number(ends[0])}, {format_number(ends[1])}] for "
            f"'{one.form.bound}'"
        )
    return row | {
        "verdict": verdict,
        "low": shown[0],
        "high": shown[1],
        "method": method,
        "runs_needed": missing,
        "explanation": words + advice,
    }


def _judge_without_interval(one: _Case, value: float, low: float, high: float) -> dict[str, object]:
    """The verdict without a spread: printed values are taken as they are, one run decides nothing."""
    if one.by == "runs":
        return {"verdict": "undecided", "explanation": "one run has no spread: two of each side at least are needed"}
    verdict = "supported" if low <= value <= high and not math.isnan(value) else "contradicted"
    words = f"{verdict} by the printed values ({format_number(value)}), without interval"
    if verdict == "supported" and one.selected.is_own:
        verdict, words = "as stated", f"the sentence itself states {format_number(value)}; no other number bears on it"
    return {"verdict": verdict, "method": "printed values, without interval", "explanation": words}
