"""Data of the report on published results: reproduced tables, speedups and fits of one table, findings."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Literal

import polars as pl

from citus_analysis.core.shipped_files import shipped
from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.errors import InsufficientDataError
from citus_analysis.published._audit import AuditResult, audit
from citus_analysis.published._load import published
from citus_analysis.published._summaries import published_summaries, runs_like
from citus_analysis.scaling import fit
from citus_analysis.scaling.fits import ScalingFit
from citus_analysis.stats import Comparison
from citus_analysis.stats.compare.verdicts import compare_summaries
from citus_analysis.stats.estimate.intervals import ratio_interval_from_summaries

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
    summaries = published_summaries(published(source, table), size, level)
    if summaries.is_empty():
        raise InsufficientDataError(
            f"table {table} of {source} states no mean with standard deviation and known n by {size}",
            way_out="choose table 5.7 of thesis",
        )
    values = [(row[size], x) for row in summaries.iter_rows(named=True) for x in runs_like(*_triple(row)).tolist()]
    sizes, throughputs = zip(*values, strict=True)
    fitted = fit(sizes, throughputs, level=level)
    return PublishedStudy(published(), summaries, _relative(summaries, size, level), fitted, audit(), size)


def _relative(summaries: pl.DataFrame, size: str, level: float) -> pl.DataFrame:
    base = summaries.row(0, named=True)
    rows = []
    for row in summaries.iter_rows(named=True):
        growth = row[size] / base[size]
        speedup = ratio_interval_from_summaries(_triple(row), _triple(base), level)
        ends = (1.0, 1.0, 1.0) if growth == 1 else (speedup.estimate, speedup.low, speedup.high)
        speedups = dict(zip(("speedup", "speedup_low", "speedup_high"), ends, strict=True))
        shares = {name.replace("speedup", "efficiency"): end / growth for name, end in speedups.items()}
        rows.append({size: row[size], "n": row["n"], **speedups, **shares})
    return pl.DataFrame(rows)


def _triple(row: dict[str, float]) -> tuple[float, float, int]:
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
        return _slug(f"scaling of {self.source} {self.table} {self.system}")


def published_fits(level: float = LEVEL) -> list[PublishedFit]:
    """Fits to every published series of three or more sizes that states one value for each and no spread.

    Args:
        level: confidence level of the parameters, which rest on the residuals alone.

    Example:
        >>> [(one.source, one.table) for one in published_fits()]
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
                found.append(_published_fit((str(source), str(table), str(system)), size, metric, series, level))
    return sorted(found, key=lambda one: (one.source, one.table))


_SIZES: Final = ("workers", "servers")
_RATES: Final = ("throughput_ops_s", "nopm")
_SERIES: Final = ("source", "table", "system", "workload")


def _published_fit(
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


def monitoring_comparison(margin: float = MARGIN, level: float = LEVEL) -> Comparison:
    """Table 5.3 of the thesis as a comparison of throughput with and without monitoring, four runs each."""
    rows = published_summaries(published("thesis", "5.3"), level=level).iter_rows(named=True)
    stated = {row["row"]: _triple(row) for row in rows}
    on, off = "monitored", "not monitored"
    return compare_summaries(stated[on], stated[off], margin, level=level, label_a=on, label_b=off)


def reproduced(numbers: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """The transcribed tables as printed: a name for the file, a caption, and a frame of printed texts.

    A table has one row per printed row and one column per metric; a number that the publication repeats elsewhere is
    listed once. Numbers in the text of a publication form one list.
    """
    in_text = pl.col("table").str.contains(_IN_TEXT)
    for (source, table), part in numbers.filter(~in_text).group_by("source", "table", maintain_order=True):
        once = part.unique(["row", "metric"], keep="first", maintain_order=True)
        printed = once.pivot("metric", index="row", values="stated", maintain_order=True)
        words = f"table {table}" if str(table)[:1].isdigit() else table
        yield _slug(f"{source} {table}"), f"{source}, {words}", printed
    for (source,), part in numbers.filter(in_text).group_by("source", maintain_order=True):
        printed = part.select("table", "row", "metric", "stated", "unit", "note")
        yield _slug(f"{source} text"), f"{source}, numbers stated in the text", printed


_IN_TEXT: Final = r"^(?:section|figure|equation) "


def _slug(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def published_identity() -> str:
    """The identity of the published tables by the hash of their content, like a dataset's in the footer."""
    digest = blake2b(digest_size=16)
    paths = sorted(shipped("published").glob("*.csv"))
    for path in paths:
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return f"{len(paths)} published tables, BLAKE2b {digest.hexdigest()}"


def reconciled_rows() -> pl.DataFrame:
    """Published tables whose single runs are known, row by row: `table`, `row`, `stated`, `expected`, `explanation`.

    Example:
        >>> reconciled_rows()["row"].item(0)
        'INSERT, 4000 connections, 16 workers of 32 vCPUs'
    """
    parts = []
    for path in sorted((shipped("published") / "single_runs").glob("*.csv")):
        source, _, table = path.stem.rpartition("_")
        found = audit(published(source, table), runs=path).findings
        mine = found.filter(pl.col("check").str.starts_with("runs_"))
        parts.append(
            mine.select(pl.lit(f"{source}, {table}").alias("table"), "row", "stated", "expected", "explanation")
        )
    return pl.concat(parts)
