"""Cost figures: throughput per vCPU and per price.

Reference:
    Jogalekar, P. and Woodside, M. (2000). Evaluating the scalability of distributed systems. IEEE TPDS 11.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from citus_analysis.core.displays import Shown
from citus_analysis.errors import UsageError
from citus_analysis.stats import Interval

__all__ = ["CostFigures", "cost_figures"]

_SECONDS_PER_HOUR = 3_600
_MILLION = 1_000_000


@dataclass(frozen=True, repr=False)
class CostFigures(Shown):
    """What a throughput costs.

    Attributes:
        vcpus: vCPUs of all nodes that were paid for.
        ops_s_per_vcpu: throughput per vCPU.
        price_per_hour: price of the whole system per hour; None where not given.
        price_per_million_ops: price of a million operations at this throughput; None without a price.
        currency: unit of the prices.
    """

    vcpus: float
    ops_s_per_vcpu: Interval
    price_per_hour: float | None
    price_per_million_ops: Interval | None
    currency: str


def cost_figures(
    throughput_ops_s: Interval,
    *,
    nodes: int,
    vcpus_per_node: float,
    price_per_node_hour: float | None = None,
    currency: str = "USD",
) -> CostFigures:
    """Throughput per vCPU, and the price of a million operations where a price is given.

    Args:
        throughput_ops_s: mean throughput with its interval.
        nodes: nodes that are paid for, coordinator included.
        vcpus_per_node: vCPUs of each.
        price_per_node_hour: price of a node per hour.
        currency: unit of the price.

    Raises:
        UsageError: values that are not positive.

    Example:
        >>> from citus_analysis.stats import mean_interval_from_summary
        >>> mean = mean_interval_from_summary(292_447, 19_700.41, 4)
        >>> figures = cost_figures(mean, nodes=33, vcpus_per_node=16, price_per_node_hour=1.0)
        >>> round(figures.ops_s_per_vcpu.estimate), round(figures.price_per_million_ops.estimate, 4)
        (554, 0.0313)
    """
    if nodes < 1 or vcpus_per_node <= 0 or (price_per_node_hour is not None and price_per_node_hour < 0):
        raise UsageError("nodes and vCPUs must be positive, a price not negative")
    if not throughput_ops_s.estimate > 0:
        raise UsageError("a cost per operation needs a positive throughput")
    vcpus = nodes * vcpus_per_node
    per_vcpu = _map(throughput_ops_s, 1 / vcpus)
    if price_per_node_hour is None:
        return CostFigures(vcpus, per_vcpu, None, None, currency)
    hourly = nodes * price_per_node_hour
    return CostFigures(vcpus, per_vcpu, hourly, _price(throughput_ops_s, hourly), currency)


def _map(interval: Interval, factor: float) -> Interval:
    return replace(
        interval, estimate=interval.estimate * factor, low=interval.low * factor, high=interval.high * factor
    )


def _price(throughput: Interval, hourly: float) -> Interval:
    """The interval of a reciprocal: ends swap; a throughput that may be 0 has no bounded price."""
    per_ops = hourly / _SECONDS_PER_HOUR * _MILLION
    high = per_ops / throughput.low if throughput.low > 0 else float("inf")
    return replace(throughput, estimate=per_ops / throughput.estimate, low=per_ops / throughput.high, high=high)
