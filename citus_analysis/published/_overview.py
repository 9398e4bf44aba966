"""An overview of published results: the systems, and the numbers with their places in the publications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.core.shipped_files import shipped
from citus_analysis.defaults import METRIC
from citus_analysis.operations import OVERALL

#: Checks whose red finding means that the rate itself is wrong, not another number of its row.
_OF_RATES: Final = ("littles_law", "per_day", "product", "units_plausible", "throughput_identity")
_EXTRAPOLATED: Final = r"extrapolated|multiplication"
_REPEATED: Final = r"^stated again"
#: Metrics that are sizes of the system -> the words after the number.
_SIZES: Final = {"workers": "workers", "servers": "servers", "connections": "connections"}


@in_callers_kind
def published_systems(published: Frame) -> pl.DataFrame:
    """Per system in the publications: its number of published numbers, and the range of its throughputs."""
    throughput = pl.col("value").filter(pl.col("metric") == METRIC)
    return (
        as_polars(published)
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


@in_callers_kind
def published_numbers(published: Frame, metrics: Sequence[str] = (METRIC, "latency_ms", "nopm")) -> pl.DataFrame:
    """The published rates and latencies with their places; they never enter a computed number."""
    columns = ["system", "source", "table", "row", "metric", "value", "unit", "n", "note"]
    stated = as_polars(published).filter(pl.col("metric").is_in(list(metrics)))
    return stated.select(columns).sort("system", "source", "table", "row")


@in_callers_kind
def new_orders(client_metrics: Frame, published: Frame) -> pl.DataFrame:
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
        >>> found = new_orders(pl.DataFrame([run | {"value": 20569.0}]), published("hammerdb_talk"))
        >>> found.select("known_from", "system", "new_orders_min").head(2).rows()
        [('recorded', 'w2', 20569.0), ('published', 'citus (managed)', 1750000.0)]
    """
    metrics = as_polars(client_metrics).with_columns(pl.col("resource", "run_id", "role").cast(pl.String))
    counted = metrics.filter(pl.col("role") == "main", pl.col("section") == OVERALL, pl.col("metric") == "NOPM")
    columns = ("known_from", "system", "source", "row", "new_orders_min", "note")
    recorded = counted.select(
        known_from=pl.lit("recorded"), system="resource", source=pl.lit(None, pl.String), row="run_id",
        new_orders_min="value", note=pl.lit(None, pl.String),
    )  # fmt: skip
    others = published_numbers(as_polars(published), ("nopm",)).select(
        "system", "source", "row", "note", known_from=pl.lit("published"), new_orders_min="value"
    )
    parts = [
        part.select(columns).sort("new_orders_min", "row", descending=[True, False]) for part in (recorded, others)
    ]
    return pl.concat(parts if recorded.height else [recorded])


@in_callers_kind
def measured_rates(published: Frame, red: Frame) -> pl.DataFrame:
    """The published throughputs that were measured, each with its workload and the size of the system.

    Args:
        published: rows of :func:`published`.
        red: the red findings of :func:`audit` on them.

    Returns:
        Columns `system`, `source`, `table`, `label` (workload and size in words), `value`, `note`, sorted by system and
        value. :func:`rates_not_measured` has the others.

    Example:
        >>> from citus_analysis.published import audit, published
        >>> rates = measured_rates(published(), audit().findings.filter(severity="red"))
        >>> rates.filter(system="aurora")["label"].to_list()
        ['Aurora, INSERT, 700 connections', 'Aurora, SELECT, without loadBalanceHosts, 1 instance', \
'Aurora, SELECT, 700 connections']
    """
    stated = as_polars(published)
    rates = _judged(stated, as_polars(red)).filter(pl.col("reason").is_null())
    return (
        rates.join(_sizes(stated), on=["source", "table", "row"], how="left", maintain_order="left")
        .with_columns(label=_label(), system=pl.col("system").fill_null("unnamed"))
        .select("system", "source", "table", "label", "value", "note")
        .unique(["system", "source", "label", "value"], keep="first", maintain_order=True)
        .sort("system", "value", maintain_order=True)
    )


@in_callers_kind
def rates_not_measured(published: Frame, red: Frame) -> pl.DataFrame:
    """The published throughputs that were not measured, with the reason: claims, extrapolations, contradictions."""
    judged = _judged(as_polars(published), as_polars(red)).filter(
        pl.col("reason").is_not_null(), pl.col("reason") != _AGAIN
    )
    return judged.select("system", "source", "table", "row", "stated", "reason")


_AGAIN: Final = "stated again"


def _judged(published: pl.DataFrame, red: pl.DataFrame) -> pl.DataFrame:
    """The throughputs with the reason why each is not a measurement, null for measurements."""
    place = ["source", "table", "row"]
    wrong = red.filter(pl.col("check").is_in(_OF_RATES)).select(*place, check=pl.col("check")).unique(place)
    # Statements that the publication bases on no measurement of its own: promised capacities, and quotations.
    claims = pl.read_csv(shipped("published") / "notes" / "not_measured.csv", infer_schema=False)
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


def _sizes(published: pl.DataFrame) -> pl.DataFrame:
    """The size of each row's system as text: its number of workers, servers, or else connections."""
    sized = published.filter(pl.col("metric").is_in(list(_SIZES)), pl.col("value").is_not_null())
    rank = pl.col("metric").replace_strict({name: place for place, name in enumerate(_SIZES)}, return_dtype=pl.Int8)
    words = pl.format("{} {}", pl.col("value").cast(pl.Int64), pl.col("metric").replace_strict(_SIZES))
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
