"""The distribution of load over nodes, in total and over time, and over shards: connections, statements, bytes, CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import polars as pl

from citus_analysis.bottleneck.connection_counts import connections_over_time
from citus_analysis.bottleneck.evidence.balance import balance, jain_index
from citus_analysis.bottleneck.samples_in_runs import NODE, RUN, align_to_runs, windows_of, with_configuration
from citus_analysis.bottleneck.timeline import cpu_over_time
from citus_analysis.core.frames import Frame, as_polars, in_callers_kind
from citus_analysis.core.possible_values.doubtful_values import sound_moments

#: Measure of load -> its name with the unit.
MEASURES: Final = {
    "connections": "connections of clients",
    "statements": "sampled statements per second",
    "network": "received and sent [kB/s]",
    "CPU": "CPU busy [%]",
}
#: Fewest executions per shard, on average, for which chi-squared approximates the distribution of the test.
_TESTABLE: Final = 5


def node_loads(tables: Mapping[str, pl.DataFrame], statements: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
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
    connections = connections_over_time(tables["activity_samples"], runs, margin_s=0.0)
    network = sound_moments(align_to_runs(tables["net_samples"], runs), ("receive_kb_s", "transmit_kb_s")).with_columns(
        value=pl.col("receive_kb_s") + pl.col("transmit_kb_s")
    )
    parts = {
        "connections": connections.with_columns(value="client"),
        "statements": _statements(statements, runs),
        "network": network.group_by(*NODE, "elapsed_s", maintain_order=True).agg(pl.col("value").sum()),
        "CPU": cpu_over_time(tables["cpu_samples"], runs).with_columns(value="busy_percent"),
    }
    number = pl.col("elapsed_s", "value").cast(pl.Float64)
    place = pl.col(NODE).cast(pl.String)
    whole = pl.concat(part.select(place, number, measure=pl.lit(name)) for name, part in parts.items())
    shown = whole.select(*NODE, "elapsed_s", "measure", "value").drop_nulls(["node", "value"])
    return shown.sort(*RUN, "measure", "node", "elapsed_s")


def _statements(statements: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Statements that began in each full second of a run, 0 included, at each node that received any in some run."""
    length = (pl.col("until") - pl.col("begin")).dt.total_seconds().cast(pl.Int64)
    window = windows_of(runs).with_columns(seconds=length)
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
        loads: result of :func:`node_loads`.
        runs: the runs, with the columns of `configuration`.
        configuration: columns that identify a configuration.

    Returns:
        `configuration`, `measure`, `node`, `mean` (over time, then over runs), `share_percent`, `jain_index` (null
        if all loads are 0), `most_uneven_second` (the lowest Jain's index of any second of the runs), `runs`.
    """
    placed = with_configuration(loads, runs, configuration)
    keys = [*configuration, "measure"]
    per_run = placed.group_by(*keys, "run_id", "node", maintain_order=True).agg(pl.col("value").mean())
    means = per_run.group_by(*keys, "node", maintain_order=True).agg(mean=pl.col("value").mean(), runs=pl.len())
    several = means.filter(pl.len().over(keys) > 1)
    total, squares = pl.col("mean").sum().over(keys), (pl.col("mean") ** 2).sum().over(keys)
    index = pl.when(squares > 0).then(total**2 / (pl.len().over(keys) * squares))
    worst = _worst_second(placed, keys)
    share = pl.when(total > 0).then(100 * pl.col("mean") / total)
    measured = several.with_columns(share_percent=share, jain_index=index)
    found = measured.join(worst, on=keys, how="left", nulls_equal=True)
    shown = ("node", "mean", "share_percent", "jain_index", "most_uneven_second", "runs")
    return found.select(*keys, *shown).sort(*keys, "node", nulls_last=True)


def _worst_second(placed: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
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


@in_callers_kind
def shard_skew(statements: Frame, runs: Frame, configuration: Sequence[str] = ("resource",)) -> pl.DataFrame:
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
    placed = with_configuration(as_polars(statements).drop_nulls("shard_id"), as_polars(runs), configuration)
    keys = [*configuration, "run_id"]
    counts = placed.group_by(*keys, "shard_id", maintain_order=True).agg(n=pl.len())
    counts = counts.sort(*keys, "shard_id", nulls_last=True)
    rows = list(_skews(counts, keys))
    numbers = {"mean": pl.Float64(), "most_used": pl.Int64(), "most": pl.Int64(), "least_used": pl.Int64()}
    numbers |= {"least": pl.Int64(), **dict.fromkeys(("most_over_mean", "jain_index", "p_value"), pl.Float64())}
    schema = {name: counts.schema[name] for name in keys} | {"shards": pl.Int64(), "executions": pl.Int64()}
    return pl.DataFrame(rows, schema={**schema, **numbers, "method": pl.String()})


def _skews(counts: pl.DataFrame, keys: Sequence[str]) -> Iterator[dict[str, object]]:
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
