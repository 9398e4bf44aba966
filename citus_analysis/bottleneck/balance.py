"""Balance of load over nodes: Jain's index, and a multinomial test against an even split.

References:
    Jain, R., Chiu, D. and Hawe, W. (1984). A quantitative measure of fairness and discrimination. DEC-TR-301.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from citus_analysis.bottleneck.resources import count_connections_over_time
from citus_analysis.bottleneck.samples import (
    NODE,
    RUN,
    add_configuration_columns,
    align_to_runs,
    build_run_windows,
    select_cpu_over_time,
    select_in_range_samples,
)
from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.errors import UsageError
from citus_analysis.stats.distributions import compute_chi2_tail

#: Most ways to divide the counts for which the test enumerates all of them.
_EXACT_UP_TO: Final = 20_000


@dataclass(frozen=True)
class Balance:
    """The balance of counts over nodes.

    Attributes:
        nodes: names of the nodes.
        counts: count of each node.
        jain: Jain's index, from 1/k (one of k nodes has all) to 1 (even).
        p_value: p-value of the multinomial test against an even split.
        n: sum of the counts.
        method: method of the p-value.
    """

    nodes: tuple[str, ...]
    counts: tuple[int, ...]
    jain: float
    p_value: float
    n: int
    method: str

    def __str__(self) -> str:
        shares = ", ".join(f"{count} on node {node}" for node, count in zip(self.nodes, self.counts, strict=True))
        return f"{shares} (Jain's index {self.jain:.2f}, p = {self.p_value:.2g}, {self.method})"


def jain_index(loads: ArrayLike) -> float:
    """Jain's index of fairness: (sum x)^2 / (k sum x^2).

    Raises:
        UsageError: no load is positive, or one is negative.

    Example:
        >>> jain_index([5, 5, 5]), round(jain_index([9, 0, 0]), 3)
        (1.0, 0.333)
    """
    values = np.asarray(loads, float)
    if values.size == 0 or values.min() < 0 or values.max() <= 0:
        raise UsageError("Jain's index needs loads that are not negative, and one that is positive")
    return float(values.sum() ** 2 / (values.size * (values**2).sum()))


def balance(counts: Sequence[int], nodes: Sequence[str]) -> Balance:
    """The balance of counts of independent items (sessions, statements) over nodes.

    The test is exact if the counts can be divided in at most 20,000 ways, otherwise Pearson's chi-squared test.

    Raises:
        UsageError: fewer than two nodes, or no count.

    Example:
        Eight sessions are all on the first of three nodes; two other outcomes are equally unlikely.

        >>> one_sided = balance([8, 0, 0], ["0", "1", "2"])
        >>> one_sided.p_value == 3 / 3**8
        True
        >>> print(one_sided)
        8 on node 0, 0 on node 1, 0 on node 2 (Jain's index 0.33, p = 0.00046, exact multinomial)
    """
    if len(counts) < 2 or len(counts) != len(nodes):
        raise UsageError("balance needs the counts of at least two nodes")
    total, k = sum(counts), len(counts)
    if math.comb(total + k - 1, k - 1) <= _EXACT_UP_TO:
        p_value, method = _compute_exact_p_value(counts), "exact multinomial"
    else:
        expected = total / k
        statistic = sum((count - expected) ** 2 for count in counts) / expected
        p_value, method = compute_chi2_tail(statistic, k - 1), "chi-squared"
    return Balance(tuple(nodes), tuple(counts), jain_index(counts), p_value, total, method)


def _compute_exact_p_value(counts: Sequence[int]) -> float:
    """Summed probability of all divisions that are at most as likely as the observed one."""
    seen, total, parts = _count_arrangements(counts), sum(counts), len(counts)
    likely = 0
    for shares in _list_integer_partitions(total, parts, total):
        ways = _count_arrangements(shares)
        if ways <= seen:
            # The number of orders in which the nodes can have these shares.
            likely += ways * math.factorial(parts) // math.prod(map(math.factorial, Counter(shares).values()))
    return float(likely / parts**total)


def _count_arrangements(counts: Sequence[int]) -> int:
    return math.factorial(sum(counts)) // math.prod(map(math.factorial, counts))


def _list_integer_partitions(total: int, parts: int, most: int) -> Iterator[tuple[int, ...]]:
    """All divisions of a total into parts in descending order, none above `most`."""
    if parts == 1:
        yield (total,)
        return
    for first in range(min(total, most), -(-total // parts) - 1, -1):
        for rest in _list_integer_partitions(total - first, parts - 1, first):
            yield (first, *rest)


# The distribution of load over nodes, in total and over time, and over shards: connections, statements, bytes, CPU.

#: Measure of load -> its name with the unit.
MEASURES: Final = {
    "connections": "connections of clients",
    "statements": "sampled statements per second",
    "network": "received and sent [kB/s]",
    "CPU": "CPU busy [%]",
}
#: Fewest executions per shard, on average, for which chi-squared approximates the distribution of the test.
_TESTABLE: Final = 5


def compute_node_loads(
    tables: Mapping[str, pl.DataFrame], statements: pl.DataFrame, runs: pl.DataFrame
) -> pl.DataFrame:
    """Load of each node over time, by measure.

    Statements are counted per second of their begin at the node that received them; a study that logs only sampled
    sessions counts only these. Samplers that share a host measure its whole CPU and network.

    Args:
        tables: `activity_samples`, `net_samples` and `cpu_samples`.
        statements: the table `statements`, with `start_time`.
        runs: the runs.

    Returns:
        `resource`, `run_id`, `node`, `elapsed_s` (since the measured time began), `measure` (of :data:`MEASURES`),
        `value`.
    """
    connections = count_connections_over_time(tables["activity_samples"], runs, margin_s=0.0)
    network = select_in_range_samples(
        align_to_runs(tables["net_samples"], runs), ("receive_kb_s", "transmit_kb_s")
    ).with_columns(value=pl.col("receive_kb_s") + pl.col("transmit_kb_s"))
    parts = {
        "connections": connections.with_columns(value="client"),
        "statements": _count_statements_per_second(statements, runs),
        "network": network.group_by(*NODE, "elapsed_s", maintain_order=True).agg(pl.col("value").sum()),
        "CPU": select_cpu_over_time(tables["cpu_samples"], runs).with_columns(value="busy_percent"),
    }
    number = pl.col("elapsed_s", "value").cast(pl.Float64)
    place = pl.col(NODE).cast(pl.String)
    whole = pl.concat(part.select(place, number, measure=pl.lit(name)) for name, part in parts.items())
    shown = whole.select(*NODE, "elapsed_s", "measure", "value").drop_nulls(["node", "value"])
    return shown.sort(*RUN, "measure", "node", "elapsed_s")


def _count_statements_per_second(statements: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Statements that began in each full second of a run, 0 included, at each node that received any in some run."""
    length = (pl.col("until") - pl.col("begin")).dt.total_seconds().cast(pl.Int64)
    window = build_run_windows(runs).with_columns(seconds=length)
    second = (pl.col("start_time") - pl.col("begin")).dt.total_milliseconds() // 1000
    received = statements.filter(pl.col("executed").is_not_null()).join(window, on=RUN)
    counts = received.group_by(*NODE, second=second, maintain_order=True).agg(value=pl.len())
    seen = received.select(*RUN, "seconds").unique().filter(pl.col("seconds") > 0)
    every = seen.join(received.select("resource", "node").unique(), on="resource")
    grid = every.with_columns(second=pl.int_ranges(0, pl.col("seconds"))).explode("second").drop("seconds")
    filled = grid.join(counts, on=[*NODE, "second"], how="left").with_columns(pl.col("value").fill_null(0))
    return filled.with_columns(elapsed_s=pl.col("second") + 0.5)


def balance_of_nodes(loads: pl.DataFrame, runs: pl.DataFrame, configuration: Sequence[str]) -> pl.DataFrame:
    """Mean load of each node, its share of all nodes, and Jain's index, for each configuration with several nodes.

    Args:
        loads: result of :func:`compute_node_loads`.
        runs: the runs, with the columns of `configuration`.
        configuration: columns that identify a configuration.

    Returns:
        `configuration`, `measure`, `node`, `mean` (over time, then over runs), `share_percent`, `jain_index` (null
        if all loads are 0), `most_uneven_second` (the lowest Jain's index of any second of the runs), `runs`.
    """
    placed = add_configuration_columns(loads, runs, configuration)
    keys = [*configuration, "measure"]
    per_run = placed.group_by(*keys, "run_id", "node", maintain_order=True).agg(pl.col("value").mean())
    means = per_run.group_by(*keys, "node", maintain_order=True).agg(mean=pl.col("value").mean(), runs=pl.len())
    several = means.filter(pl.len().over(keys) > 1)
    total, squares = pl.col("mean").sum().over(keys), (pl.col("mean") ** 2).sum().over(keys)
    index = pl.when(squares > 0).then(total**2 / (pl.len().over(keys) * squares))
    worst = _find_worst_second(placed, keys)
    share = pl.when(total > 0).then(100 * pl.col("mean") / total)
    measured = several.with_columns(share_percent=share, jain_index=index)
    found = measured.join(worst, on=keys, how="left", nulls_equal=True)
    shown = ("node", "mean", "share_percent", "jain_index", "most_uneven_second", "runs")
    return found.select(*keys, *shown).sort(*keys, "node", nulls_last=True)


def _find_worst_second(placed: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The lowest Jain's index of a second in which every node of the configuration has a value."""
    second = pl.col("elapsed_s").floor().alias("second")
    nodes = placed.group_by(keys, maintain_order=True).agg(nodes=pl.col("node").n_unique())
    each = placed.group_by(*keys, "run_id", second, "node", maintain_order=True).agg(pl.col("value").mean())
    sums = each.group_by(*keys, "run_id", "second", maintain_order=True).agg(
        total=pl.col("value").sum(), squares=(pl.col("value") ** 2).sum(), seen=pl.len()
    )
    whole = sums.join(nodes, on=keys, nulls_equal=True).filter(pl.col("seen") == pl.col("nodes"), pl.col("squares") > 0)
    index = pl.col("total") ** 2 / (pl.col("nodes") * pl.col("squares"))
    return whole.group_by(keys, maintain_order=True).agg(most_uneven_second=index.min())


@return_callers_frame_kind
def compute_shard_skew(statements: Frame, runs: Frame, configuration: Sequence[str] = ("resource",)) -> pl.DataFrame:
    """Executions of each run over shards, with the most and the least used one.

    Runs are not combined, because each may have created its table again, with other shards. Statements show only the
    shards that were used; unused shards of a table are not counted.

    Args:
        statements: the table `statements`.
        runs: the runs, with the columns of `configuration`.
        configuration: columns that identify a configuration.

    Returns:
        `configuration`, `run_id`, `shards` (used), `executions`, `mean`, `most_used` (shard) and `most` (its
        executions), `least_used` and `least`, `most_over_mean`, `jain_index`, `p_value` and `method` (of the test
        against an even split over the used shards, statements being independent; null where a shard has fewer than
        five executions on average).
    """
    placed = add_configuration_columns(
        convert_to_polars(statements).drop_nulls("shard_id"), convert_to_polars(runs), configuration
    )
    keys = [*configuration, "run_id"]
    counts = placed.group_by(*keys, "shard_id", maintain_order=True).agg(n=pl.len())
    counts = counts.sort(*keys, "shard_id", nulls_last=True)
    rows = list(_iterate_shard_skews(counts, keys))
    numbers = {"mean": pl.Float64(), "most_used": pl.Int64(), "most": pl.Int64(), "least_used": pl.Int64()}
    numbers |= {"least": pl.Int64(), **dict.fromkeys(("most_over_mean", "jain_index", "p_value"), pl.Float64())}
    schema = {name: counts.schema[name] for name in keys} | {"shards": pl.Int64(), "executions": pl.Int64()}
    return pl.DataFrame(rows, schema={**schema, **numbers, "method": pl.String()})


def _iterate_shard_skews(counts: pl.DataFrame, keys: Sequence[str]) -> Iterator[dict[str, object]]:
    for key, group in counts.group_by(keys, maintain_order=True):
        if group.height < 2:
            continue
        ordered = group.sort("n", "shard_id", descending=[True, False])
        shards, numbers = ordered["shard_id"].to_list(), [int(n) for n in ordered["n"]]
        mean = sum(numbers) / len(numbers)
        tested = balance(numbers, [str(one) for one in shards]) if mean >= _TESTABLE else None
        yield {
            **dict(zip(keys, key, strict=True)),
            "shards": len(numbers),
            "executions": sum(numbers),
            "mean": mean,
            "most_used": shards[0],
            "most": numbers[0],
            "least_used": shards[-1],
            "least": numbers[-1],
            "most_over_mean": numbers[0] / mean,
            "jain_index": jain_index(numbers),
            "p_value": None if tested is None else tested.p_value,
            "method": None if tested is None else tested.method,
        }
