"""Cost figures: throughput per vCPU and per price.

Reference:
    Jogalekar, P. and Woodside, M. (2000). Evaluating the scalability of distributed systems. IEEE TPDS 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.defaults import LEVEL, METRIC
from citus_analysis.errors import UsageError
from citus_analysis.stats import Interval, mean_interval

_SECONDS_PER_HOUR = 3_600
_MILLION = 1_000_000


@dataclass(frozen=True, repr=False)
class CostFigures(DisplayMixin):
    """The cost of a throughput.

    Attributes:
        vcpus: vCPUs of all nodes that were paid for.
        ops_s_per_vcpu: throughput per vCPU.
        price_per_hour: price of the whole system per hour; None if not given.
        price_per_million_ops: price of a million operations at this throughput; None without a price.
        currency: unit of the prices.
    """

    vcpus: float
    ops_s_per_vcpu: Interval
    price_per_hour: float | None
    price_per_million_ops: Interval | None
    currency: str


def compute_cost_figures(
    throughput_ops_s: Interval,
    *,
    nodes: int,
    vcpus_per_node: float,
    price_per_node_hour: float | None = None,
    currency: str = "USD",
) -> CostFigures:
    """Throughput per vCPU, and the price of a million operations if a price is given.

    Args:
        throughput_ops_s: mean throughput with its interval.
        nodes: nodes that are paid for, coordinator included.
        vcpus_per_node: vCPUs of each node.
        price_per_node_hour: price of a node per hour.
        currency: unit of the price.

    Raises:
        UsageError: values that are not positive.

    Example:
        >>> from citus_analysis.stats.intervals import estimate_mean_from_summary
        >>> mean = estimate_mean_from_summary(292_447, 19_700.41, 4)
        >>> figures = compute_cost_figures(mean, nodes=33, vcpus_per_node=16, price_per_node_hour=1.0)
        >>> round(figures.ops_s_per_vcpu.estimate), round(figures.price_per_million_ops.estimate, 4)
        (554, 0.0313)
    """
    if nodes < 1 or vcpus_per_node <= 0 or (price_per_node_hour is not None and price_per_node_hour < 0):
        raise UsageError("nodes and vCPUs must be positive, a price not negative")
    if not throughput_ops_s.estimate > 0:
        raise UsageError("a cost per operation needs a positive throughput")
    vcpus = nodes * vcpus_per_node
    per_vcpu = throughput_ops_s.scaled(1 / vcpus)
    if price_per_node_hour is None:
        return CostFigures(vcpus, per_vcpu, None, None, currency)
    hourly = nodes * price_per_node_hour
    return CostFigures(vcpus, per_vcpu, hourly, _invert_interval(throughput_ops_s, hourly), currency)


def _invert_interval(throughput: Interval, hourly: float) -> Interval:
    """The interval of a reciprocal: the ends swap; if the throughput may be 0, the price is unbounded."""
    per_ops = hourly / _SECONDS_PER_HOUR * _MILLION
    high = per_ops / throughput.low if throughput.low > 0 else float("inf")
    return replace(throughput, estimate=per_ops / throughput.estimate, low=per_ops / throughput.high, high=high)


#: Columns that identify a configuration in `configuration_costs`, besides the resource.
_CONFIGURATION: Final = ("operation", "workers", "threads")
_RANGE: Final = ("_low", "_high")


@return_callers_frame_kind
def configuration_costs(
    runs: Frame, nodes: Frame, *, price_per_node_hour: float = 0.0, currency: str = "USD", level: float = LEVEL
) -> pl.DataFrame:
    """Throughput per vCPU of each configuration whose nodes and cores are known, and its price if one is given.

    Args:
        runs: runs with `resource`, `operation`, `workers`, `threads`, `cpu_per_node` (cores that a node may use, from
            the resource's description) and `throughput_ops_s`, such as :func:`citus_analysis.runs.select_runs` returns.
        nodes: the table `nodes`; all nodes of a resource are paid for, the coordinator included. A system without
            workers is one node, whether the table lists it or not.
        price_per_node_hour: price of a node per hour; 0: not known.
        currency: unit of the price.
        level: confidence level of the intervals over runs (Student's t on the log scale, as for means of throughput).

    Returns:
        Per resource and configuration: `runs`, `nodes`, `vcpus`, `ops_s_per_vcpu` with `_low` and `_high`, and with a
        price `price_per_million_ops` with `_low` and `_high` and `currency`. Ends are null for a single run.

    Example:
        >>> one = {"resource": "w2", "operation": "INSERT", "workers": 2, "threads": 4, "cpu_per_node": "0.5"}
        >>> runs = pl.DataFrame([one | {"throughput_ops_s": rate} for rate in (290.0, 300.0, 310.0)])
        >>> nodes = pl.DataFrame({"resource": ["w2"] * 3, "node": ["0", "1", "2"]})
        >>> configuration_costs(runs, nodes).select("vcpus", "ops_s_per_vcpu").row(0)
        (1.5, 200.0)
    """
    counts = convert_to_polars(nodes).group_by("resource").agg(nodes=pl.col("node").n_unique())
    known = convert_to_polars(runs)
    if "cpu_per_node" not in known.columns:
        known = known.with_columns(cpu_per_node=pl.lit(None, pl.String))
    cores = pl.col("cpu_per_node").cast(pl.String).str.extract(r"^([\d.]+)").cast(pl.Float64, strict=False)
    counted = known.with_columns(cores=cores).join(counts, on="resource", how="left", maintain_order="left")
    single = pl.when(pl.col("workers") == 0).then(pl.lit(1))
    counted = counted.with_columns(pl.coalesce("nodes", single)).drop_nulls("nodes")
    known = counted.filter((pl.col("cores") > 0) & (pl.col(METRIC) > 0))
    rows = [
        {"resource": key[0], **dict(zip(_CONFIGURATION, key[1:], strict=True)), "runs": group.height}
        | _build_cost_row(group, price_per_node_hour, currency, level)
        for key, group in known.group_by("resource", *_CONFIGURATION, maintain_order=True)
    ]
    schema = {name: known.schema[name] for name in ("resource", *_CONFIGURATION)} | dict(
        _list_cost_columns(price_per_node_hour)
    )
    return pl.DataFrame(rows, schema=schema).sort("resource", *_CONFIGURATION, nulls_last=True)


def _list_cost_columns(price: float) -> Mapping[str, type[pl.DataType]]:
    named = ("ops_s_per_vcpu", "price_per_million_ops") if price else ("ops_s_per_vcpu",)
    ends = {f"{name}{end}": pl.Float64 for name in named for end in ("", *_RANGE)}
    counts = {"runs": pl.Int64, "nodes": pl.Int64, "vcpus": pl.Float64}
    return {**counts, **ends, **({"currency": pl.String} if price else {})}


def _build_cost_row(runs: pl.DataFrame, price: float, currency: str, level: float) -> dict[str, object]:
    nodes = int(runs["nodes"][0])
    figures = compute_cost_figures(
        mean_interval(runs[METRIC].to_numpy(), level, "log-t"),
        nodes=nodes,
        vcpus_per_node=float(runs["cores"][0]),
        price_per_node_hour=price or None,
        currency=currency,
    )
    row: dict[str, object] = {"nodes": nodes, "vcpus": figures.vcpus, **figures.ops_s_per_vcpu.record("ops_s_per_vcpu")}
    if figures.price_per_million_ops is None:
        return row
    return {**row, **figures.price_per_million_ops.record("price_per_million_ops"), "currency": currency}
