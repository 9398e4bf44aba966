"""Data of the report on published results: reproduced tables, speedups and fits of one table, findings."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Literal

import polars as pl

from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.core.shipped_files import find_shipped_folder
from citus_analysis.defaults import LEVEL, MARGIN, METRIC
from citus_analysis.errors import InsufficientDataError
from citus_analysis.operations import OVERALL
from citus_analysis.published.auditing import AuditResult, audit
from citus_analysis.published.summaries import make_runs_with_moments, summarise_published_rows
from citus_analysis.published.tables import published
from citus_analysis.scaling import fit
from citus_analysis.scaling.fitting import ScalingFit
from citus_analysis.stats import Comparison
from citus_analysis.stats.intervals import estimate_ratio_from_summaries
from citus_analysis.stats.verdicts import compare_summaries

_SEVERITY_ROWS: Final = ("severity", "source", "table", "row", "check", "expected", "stated", "explanation")


@dataclass(frozen=True, eq=False)
class PublishedStudy:
    """One published table, computed again, and the audit of all of them.

    Attributes:
        numbers: every transcribed number.
        summaries: rows of the table with mean, sd, n, stated and t interval.
        relative: speedup and efficiency of each size against the smallest, with t intervals.
        fit: models fitted to values that have the published means and standard deviations.
        audit: findings on all published tables.
        size: the quantity that grows along the table.
    """

    numbers: pl.DataFrame
    summaries: pl.DataFrame
    relative: pl.DataFrame
    fit: ScalingFit
    audit: AuditResult
    size: str

    def findings(self, *severities: str) -> pl.DataFrame:
        """The findings of some severities, columns in reading order."""
        return self.audit.findings.filter(pl.col("severity").cast(pl.String).is_in(severities)).select(_SEVERITY_ROWS)

    def panel(self, quantity: Literal["speedup", "efficiency"]) -> pl.DataFrame:
        """Speedup or efficiency as mean, low and high, for a figure."""
        return self.relative.select(
            self.size, mean=quantity, low=f"{quantity}_low", high=f"{quantity}_high", series=pl.lit("Welch's t")
        )

    def models(self) -> pl.DataFrame:
        """Parameters of each model with their bootstrap intervals, and the model's weight."""
        rows = [
            {
                "model": one.model,
                "parameter": name,
                "estimate": value,
                "low": one.intervals[name].low,
                "high": one.intervals[name].high,
                "weight": weight if math.isfinite(weight := self.fit.weights[one.model]) else None,
                "rejected": self.fit.rejected.get(one.model),
            }
            for one in self.fit.fits.values()
            for name, value in one.parameters.items()
        ]
        return pl.DataFrame(rows)


def study_published(source: str, table: str, size: str = "workers", level: float = LEVEL) -> PublishedStudy:
    """Compute a published table again and audit all transcribed tables.

    Args:
        source: publication, such as `thesis`.
        table: its table, such as `5.7`.
        size: metric of the table that grows from row to row.
        level: confidence level.

    Raises:
        UnknownNameError: there is no such publication or table.
        InsufficientDataError: the table states no standard deviations, or too few sizes for a model.
    """
    summaries = summarise_published_rows(published(source, table), size, level)
    if summaries.is_empty():
        raise InsufficientDataError(
            f"table {table} of {source} states no mean with standard deviation and known n by {size}",
            hint="choose table 5.7 of thesis",
        )
    values = [
        (row[size], x)
        for row in summaries.iter_rows(named=True)
        for x in make_runs_with_moments(*_get_mean_sd_n(row)).tolist()
    ]
    sizes, throughputs = zip(*values, strict=True)
    fitted = fit(sizes, throughputs, level=level)
    return PublishedStudy(
        published(), summaries, _compute_relative_scaling(summaries, size, level), fitted, audit(), size
    )


def _compute_relative_scaling(summaries: pl.DataFrame, size: str, level: float) -> pl.DataFrame:
    base = summaries.row(0, named=True)
    rows = []
    for row in summaries.iter_rows(named=True):
        growth = row[size] / base[size]
        speedup = estimate_ratio_from_summaries(_get_mean_sd_n(row), _get_mean_sd_n(base), level)
        ends = (1.0, 1.0, 1.0) if growth == 1 else (speedup.estimate, speedup.low, speedup.high)
        speedups = dict(zip(("speedup", "speedup_low", "speedup_high"), ends, strict=True))
        shares = {name.replace("speedup", "efficiency"): end / growth for name, end in speedups.items()}
        rows.append({size: row[size], "n": row["n"], **speedups, **shares})
    return pl.DataFrame(rows)


def _get_mean_sd_n(row: dict[str, float]) -> tuple[float, float, int]:
    return row["mean"], row["sd"], int(row["n"])


@dataclass(frozen=True, eq=False)
class PublishedFit:
    """Models of scalability fitted to the printed values of a series without standard deviations.

    Attributes:
        source: publication.
        table: its table.
        system: what grows.
        size: the quantity that grows, such as `workers`.
        metric: what is printed for each size.
        values: the size, `mean`, `low` and `high` (null: nothing states a spread), `speedup` and `efficiency` against
            the smallest size.
        fit: the fitted models.
    """

    source: str
    table: str
    system: str
    size: str
    metric: str
    values: pl.DataFrame
    fit: ScalingFit

    @property
    def name(self) -> str:
        """A name for files."""
        return _make_file_slug(f"scaling of {self.source} {self.table} {self.system}")


def fit_published_series(level: float = LEVEL) -> list[PublishedFit]:
    """Fits to every published series of three or more sizes that states one value for each and no spread.

    Args:
        level: confidence level of the parameters, which rest on the residuals alone.

    Example:
        >>> [(one.source, one.table) for one in fit_published_series()]
        [('hammerdb_talk', '2000 users'), ('postgres_xc', '1')]
    """
    numbers = published().drop_nulls("value")
    place = ["source", "table", "row"]
    spread = numbers.filter(pl.col("metric").str.starts_with("sigma")).select("source", "table").unique()
    plain = numbers.join(spread, on=["source", "table"], how="anti", maintain_order="left")
    found = []
    for size, metric in itertools.product(_SIZES, _RATES):
        sizes = plain.filter(metric=size).unique(place, keep="first").select(*place, pl.col("value").alias(size))
        rates = plain.filter(metric=metric).unique(place, keep="first", maintain_order=True)
        joined = rates.join(sizes, on=place, maintain_order="left")
        for (source, table, system, _), rows in joined.group_by(_SERIES, maintain_order=True):
            series = rows.sort(size).select(size, mean="value")
            if series.height > 2 and series[size].n_unique() == series.height:
                found.append(_fit_one_series((str(source), str(table), str(system)), size, metric, series, level))
    return sorted(found, key=lambda one: (one.source, one.table))


_SIZES: Final = ("workers", "servers")
_RATES: Final = ("throughput_ops_s", "nopm")
_SERIES: Final = ("source", "table", "system", "workload")


def _fit_one_series(
    of: tuple[str, str, str], size: str, metric: str, series: pl.DataFrame, level: float
) -> PublishedFit:
    speedup = pl.col("mean") / pl.col("mean").first()
    values = series.with_columns(
        low=pl.lit(None, pl.Float64),
        high=pl.lit(None, pl.Float64),
        speedup=speedup,
        efficiency=speedup * pl.col(size).first() / pl.col(size),
    )
    return PublishedFit(*of, size, metric, values, fit(series[size].to_list(), series["mean"].to_list(), level=level))


def compare_monitoring(margin: float = MARGIN, level: float = LEVEL) -> Comparison:
    """Table 5.3 of the thesis as a comparison of throughput with and without monitoring, four runs each."""
    rows = summarise_published_rows(published("thesis", "5.3"), level=level).iter_rows(named=True)
    stated = {row["row"]: _get_mean_sd_n(row) for row in rows}
    on, off = "monitored", "not monitored"
    return compare_summaries(stated[on], stated[off], margin, level=level, label_a=on, label_b=off)


def reproduce_tables(numbers: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """The transcribed tables as printed: a name for the file, a caption, and a frame of printed texts.

    A table has one row per printed row and one column per metric; a number that the publication repeats elsewhere is
    listed once. Numbers in the text of a publication form one list.
    """
    in_text = pl.col("table").str.contains(_IN_TEXT)
    for (source, table), part in numbers.filter(~in_text).group_by("source", "table", maintain_order=True):
        once = part.unique(["row", "metric"], keep="first", maintain_order=True)
        printed = once.pivot("metric", index="row", values="stated", maintain_order=True)
        words = f"table {table}" if str(table)[:1].isdigit() else table
        yield _make_file_slug(f"{source} {table}"), f"{source}, {words}", printed
    for (source,), part in numbers.filter(in_text).group_by("source", maintain_order=True):
        printed = part.select("table", "row", "metric", "stated", "unit", "note")
        yield _make_file_slug(f"{source} text"), f"{source}, numbers stated in the text", printed


_IN_TEXT: Final = r"^(?:section|figure|equation) "


def _make_file_slug(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def compute_published_identity() -> str:
    """The identity of the published tables by the hash of their content, like a dataset's in the footer."""
    digest = blake2b(digest_size=16)
    paths = sorted(find_shipped_folder("published").glob("*.csv"))
    for path in paths:
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return f"{len(paths)} published tables, BLAKE2b {digest.hexdigest()}"


def reconcile_published_rows() -> pl.DataFrame:
    """Published tables whose single runs are known, row by row: `table`, `row`, `stated`, `expected`, `explanation`.

    Example:
        >>> reconcile_published_rows()["row"].item(0)
        'INSERT, 4000 connections, 16 workers of 32 vCPUs'
    """
    parts = []
    for path in sorted((find_shipped_folder("published") / "single_runs").glob("*.csv")):
        source, _, table = path.stem.rpartition("_")
        found = audit(published(source, table), runs=path).findings
        mine = found.filter(pl.col("check").str.starts_with("runs_"))
        parts.append(
            mine.select(pl.lit(f"{source}, {table}").alias("table"), "row", "stated", "expected", "explanation")
        )
    return pl.concat(parts)


# An overview of published results: the systems, and the numbers with their places in the publications.

#: Checks whose red finding means that the rate itself is wrong, not another number of its row.
_OF_RATES: Final = ("littles_law", "per_day", "product", "units_plausible", "throughput_identity")
_EXTRAPOLATED: Final = r"extrapolated|multiplication"
_REPEATED: Final = r"^stated again"
#: Metrics that are sizes of the system -> the words after the number.
_OVERVIEW_SIZES: Final = {"workers": "workers", "servers": "servers", "connections": "connections"}


@return_callers_frame_kind
def published_systems(published: Frame) -> pl.DataFrame:
    """Per system in the publications: its number of published numbers, and the range of its throughputs."""
    throughput = pl.col("value").filter(pl.col("metric") == METRIC)
    return (
        convert_to_polars(published)
        .with_columns(pl.col("system").fill_null("several"))
        .group_by("system")
        .agg(
            pl.len().alias("numbers"),
            pl.col("source").unique().sort().str.join(", ").alias("sources"),
            throughput.len().alias("throughputs"),
            throughput.min().alias("smallest_throughput_ops_s"),
            throughput.max().alias("largest_throughput_ops_s"),
        )
        .sort("system")
    )


@return_callers_frame_kind
def list_published_numbers(published: Frame, metrics: Sequence[str] = (METRIC, "latency_ms", "nopm")) -> pl.DataFrame:
    """The published rates and latencies with their places; they never enter a computed number."""
    columns = ["system", "source", "table", "row", "metric", "value", "unit", "n", "note"]
    stated = convert_to_polars(published).filter(pl.col("metric").is_in(list(metrics)))
    return stated.select(columns).sort("system", "source", "table", "row")


@return_callers_frame_kind
def combine_new_orders(client_metrics: Frame, published: Frame) -> pl.DataFrame:
    """New orders a minute of recorded runs of HammerDB, followed by published ones.

    Args:
        client_metrics: the table of that name.
        published: rows of :func:`published`.

    Returns:
        Columns `known_from` (`recorded` or `published`), `system` (of a recorded run its resource), `source` (of a
        published number), `row` (run, or row of a published table), `new_orders_min` and `note`, the largest first;
        empty if no run has new orders.

    Example:
        >>> from citus_analysis.published import published
        >>> run = {"resource": "w2", "run_id": "w2/a", "role": "main", "section": "OVERALL", "metric": "NOPM"}
        >>> found = combine_new_orders(pl.DataFrame([run | {"value": 20569.0}]), published("hammerdb_talk"))
        >>> found.select("known_from", "system", "new_orders_min").head(2).rows()
        [('recorded', 'w2', 20569.0), ('published', 'citus (managed)', 1750000.0)]
    """
    metrics = convert_to_polars(client_metrics).with_columns(pl.col("resource", "run_id", "role").cast(pl.String))
    counted = metrics.filter(pl.col("role") == "main", pl.col("section") == OVERALL, pl.col("metric") == "NOPM")
    columns = ("known_from", "system", "source", "row", "new_orders_min", "note")
    recorded = counted.select(
        known_from=pl.lit("recorded"), system="resource", source=pl.lit(None, pl.String), row="run_id",
        new_orders_min="value", note=pl.lit(None, pl.String),
    )  # fmt: skip
    others = list_published_numbers(convert_to_polars(published), ("nopm",)).select(
        "system", "source", "row", "note", known_from=pl.lit("published"), new_orders_min="value"
    )
    parts = [
        part.select(columns).sort("new_orders_min", "row", descending=[True, False]) for part in (recorded, others)
    ]
    return pl.concat(parts if recorded.height else [recorded])


@return_callers_frame_kind
def select_measured_rates(published: Frame, red: Frame) -> pl.DataFrame:
    """The published throughputs that were measured, each with its workload and the size of the system.

    Args:
        published: rows of :func:`published`.
        red: the red findings of :func:`audit` on them.

    Returns:
        Columns `system`, `source`, `table`, `label` (workload and size in words), `value`, `note`, sorted by system and
        value. :func:`select_unmeasured_rates` has the others.

    Example:
        >>> from citus_analysis.published import audit, published
        >>> rates = select_measured_rates(published(), audit().findings.filter(severity="red"))
        >>> rates.filter(system="aurora")["label"].to_list()
        ['Aurora, INSERT, 700 connections', 'Aurora, SELECT, without loadBalanceHosts, 1 instance', \
'Aurora, SELECT, 700 connections']
    """
    stated = convert_to_polars(published)
    rates = _add_exclusion_reasons(stated, convert_to_polars(red)).filter(pl.col("reason").is_null())
    return (
        rates.join(_format_system_sizes(stated), on=["source", "table", "row"], how="left", maintain_order="left")
        .with_columns(label=_label(), system=pl.col("system").fill_null("unnamed"))
        .select("system", "source", "table", "label", "value", "note")
        .unique(["system", "source", "label", "value"], keep="first", maintain_order=True)
        .sort("system", "value", maintain_order=True)
    )


@return_callers_frame_kind
def select_unmeasured_rates(published: Frame, red: Frame) -> pl.DataFrame:
    """The published throughputs that were not measured, with the reason: claims, extrapolations, contradictions."""
    judged = _add_exclusion_reasons(convert_to_polars(published), convert_to_polars(red)).filter(
        pl.col("reason").is_not_null(), pl.col("reason") != _AGAIN
    )
    return judged.select("system", "source", "table", "row", "stated", "reason")


_AGAIN: Final = "stated again"


def _add_exclusion_reasons(published: pl.DataFrame, red: pl.DataFrame) -> pl.DataFrame:
    """The throughputs with the reason why each is not a measurement, null for measurements."""
    place = ["source", "table", "row"]
    wrong = red.filter(pl.col("check").is_in(_OF_RATES)).select(*place, check=pl.col("check")).unique(place)
    # Statements that the publication bases on no measurement of its own: promised capacities, and quotations.
    claims = pl.read_csv(find_shipped_folder("published") / "notes" / "not_measured.csv", infer_schema=False)
    note, row = pl.col("note").fill_null(""), pl.col("row")
    reason = (
        pl.when(pl.col("check").is_not_null())
        .then(pl.format("contradicted by the rest of the publication ({})", pl.col("check").str.replace_all("_", " ")))
        .when(pl.col("claim").is_not_null())
        .then(pl.col("claim"))
        .when(row.str.contains(_EXTRAPOLATED) | note.str.contains(_EXTRAPOLATED))
        .then(pl.lit("extrapolated, not measured"))
        .when(note.str.contains(_REPEATED))
        .then(pl.lit(_AGAIN))
    )
    return (
        published.filter(pl.col("metric") == METRIC, pl.col("value") > 0)
        .join(wrong, on=place, how="left", maintain_order="left")
        .join(claims, on=["source", "table"], how="left", maintain_order="left")
        .with_columns(reason=reason)
    )


def _format_system_sizes(published: pl.DataFrame) -> pl.DataFrame:
    """The size of each row's system as text: its number of workers, servers, or else connections."""
    sized = published.filter(pl.col("metric").is_in(list(_OVERVIEW_SIZES)), pl.col("value").is_not_null())
    rank = pl.col("metric").replace_strict(
        {name: place for place, name in enumerate(_OVERVIEW_SIZES)}, return_dtype=pl.Int8
    )
    words = pl.format("{} {}", pl.col("value").cast(pl.Int64), pl.col("metric").replace_strict(_OVERVIEW_SIZES))
    first = sized.sort(rank, maintain_order=True).unique(["source", "table", "row"], keep="first", maintain_order=True)
    return first.select("source", "table", "row", size=words)


def _label() -> pl.Expr:
    """Workload and size of a rate, unless the row's words already name them."""
    row, workload = pl.col("row"), pl.col("workload").fill_null("")
    named = row.str.to_lowercase().str.contains(workload.str.to_lowercase(), literal=True)
    what = pl.when(named).then(row).otherwise(pl.format("{}, {}", row, workload.str.to_uppercase()))
    instance = pl.when(pl.col("note").fill_null("").str.contains("one instance")).then(pl.lit("1 instance"))
    size = pl.coalesce(pl.col("size"), instance, pl.lit("size not stated"))
    sized = row.str.contains(r"\d+ (?:workers|servers?|connections)")
    return pl.when(sized).then(what).otherwise(pl.format("{}, {}", what, size))
