"""Tables of the bottleneck report for readers: one row per configuration, few columns.

The CSV files of the report contain the long tables of the analyses, with one row per node or measure.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.bottleneck.evidence.node_loads import MEASURES
from citus_analysis.bottleneck.study import BottleneckStudy
from citus_analysis.texts.number_text import readable

#: Systems named in a row; of more, the number is given.
_NAMED: Final = 3
_SWITCHES: Final = "switches"
#: Share of a node's CPU time or disk traffic from which a program has a row.
_LEAST_PERCENT: Final = 1.0

#: Fewest configurations with the same limit that share a row.
_MANY_ALIKE: Final = 5


def configuration_columns(rows: pl.DataFrame) -> list[str]:
    """Columns that name a configuration: with the set-up where a resource has several."""
    several = "set_up" in rows.columns and rows.select("resource", "set_up").n_unique() > rows["resource"].n_unique()
    return ["resource", *(["set_up"] if several else []), "operation", "threads"]


def shown_verdicts(verdicts: pl.DataFrame) -> pl.DataFrame:
    """The first limits for readers: of those that most configurations share for sure, the one with the most runs.

    Args:
        verdicts: a row per configuration, with `first_limit` and `confidence`.

    Example:
        >>> limits = {"first_limit": ["CPU"] * 6 + ["WAL"], "confidence": ["high"] * 7}
        >>> shown_verdicts(pl.DataFrame(limits))["first_limit"].to_list()
        ['CPU', 'WAL']
    """
    usual = verdicts["first_limit"].mode().sort().first() if verdicts.height else None
    alike = (pl.col("first_limit") == usual) & (pl.col("confidence") == "high")
    if verdicts.filter(alike).height < _MANY_ALIKE:
        return verdicts
    own = verdicts.filter(alike)
    best = own.sort("runs", descending=True, maintain_order=True) if "runs" in own.columns else own
    return pl.concat([best.head(1), verdicts.filter(~alike)])


def threshold_rows(thresholds: pl.DataFrame) -> pl.DataFrame:
    """Thresholds with their values as text: they have different units, so no common number of decimals."""
    values = [readable(value) for value in thresholds["value"]]
    return thresholds.with_columns(pl.Series("value", values, pl.String))


def absent_measurements(matrix: pl.DataFrame) -> pl.DataFrame:
    """Missing measurements, one row each, with the systems that lack them.

    Args:
        matrix: `resource`, `part`, `aspect`, `not_measured` (null where it was measured).

    Returns:
        `part`, `aspect`, `not_measured` and `systems`; measurements that most systems lack come first.

    Example:
        >>> parts = {"part": "memory", "aspect": "errors", "not_measured": "logs"}
        >>> matrix = pl.DataFrame({"resource": ["a", "b"], **parts})
        >>> absent_measurements(matrix).rows()
        [('memory', 'errors', 'logs', 'all 2')]
    """
    everything = matrix["resource"].n_unique()
    names = pl.col("resource").unique(maintain_order=True)
    found = (
        matrix.drop_nulls("not_measured")
        .group_by("part", "aspect", "not_measured", maintain_order=True)
        .agg(names.alias("names"), number=pl.col("resource").n_unique())
        .sort("number", descending=True, maintain_order=True)
    )
    systems = [_systems(row["names"], everything) for row in found.iter_rows(named=True)]
    return found.select("part", "aspect", "not_measured", pl.Series("systems", systems, pl.String))


def _systems(names: list[str], everything: int) -> str:
    if len(names) == everything:
        return f"all {everything}"
    listed = ", ".join(names[:_NAMED])
    return listed if len(names) <= _NAMED else f"{len(names)} of {everything}, such as {listed}"


def demand_rows(demands: pl.DataFrame) -> pl.DataFrame:
    """The cost of an operation: one row per configuration and node, one column per demand, with its unit.

    Args:
        demands: result of :func:`citus_analysis.scaling.resource_demands`.
    """
    unit = pl.when(pl.col("unit") == _SWITCHES).then(pl.lit("")).otherwise(pl.format(" [{}]", "unit"))
    named = demands.with_columns(demand=pl.col("demand") + unit)
    keys = [*configuration_columns(demands), "node", "throughput_ops_s", "runs"]
    return named.pivot("demand", index=keys, values="per_operation", maintain_order=True)


def program_rows(programs: pl.DataFrame) -> pl.DataFrame:
    """Programs of each configuration's nodes, without those that hardly used the CPU or the disks.

    Args:
        programs: result of :func:`citus_analysis.bottleneck.program_loads` by the columns of a configuration.
    """
    used = pl.max_horizontal("cpu_share_percent", "disk_share_percent") >= _LEAST_PERCENT
    columns = programs.columns[programs.columns.index("node") :]
    return programs.filter(used).select(*configuration_columns(programs), *columns)


def node_spread(balance: pl.DataFrame) -> pl.DataFrame:
    """Balance of the nodes' loads: one row per configuration and measure, with the extreme nodes.

    Args:
        balance: `resource`, `operation`, `threads`, `measure`, `node`, `share_percent`, `jain_index`,
            `most_uneven_second`, `runs`.
    """
    keys = [*configuration_columns(balance), "measure"]
    rest = pl.col("jain_index", "most_uneven_second", "runs").first()
    rows = balance.group_by(keys, maintain_order=True).agg(*_extremes("share_percent", " %"), rest)
    named = rows.with_columns(measure=pl.col("measure").cast(pl.String).replace(MEASURES))
    return named.sort("jain_index", nulls_last=True, maintain_order=True)


def session_spread(balance: pl.DataFrame) -> pl.DataFrame:
    """Balance of client sessions over nodes: one row per configuration, the least even first.

    Args:
        balance: `resource`, `operation`, `threads`, `node`, `sessions`, `jain_index`, `p_value`, `method`.
    """
    rest = pl.col("jain_index", "p_value", "method").first()
    sessions = [pl.col("sessions").sum(), *_extremes("sessions", "")]
    rows = balance.group_by(configuration_columns(balance), maintain_order=True).agg(*sessions, rest)
    return rows.sort("jain_index", nulls_last=True, maintain_order=True)


def _extremes(value: str, unit: str) -> list[pl.Expr]:
    """Number of nodes, and the nodes with the smallest and the largest value as `node 3 (27 %)`."""

    def named(position: pl.Expr) -> pl.Expr:
        number = pl.col(value).get(position).round(0).cast(pl.Int64)
        return pl.format("node {} ({}{})", pl.col("node").cast(pl.String).get(position), number, pl.lit(unit))

    places = {"least": pl.col(value).arg_min(), "most": pl.col(value).arg_max()}
    return [pl.len().alias("nodes"), *(named(position).alias(name) for name, position in places.items())]


def shard_spread(skew: pl.DataFrame) -> pl.DataFrame:
    """Executions over shards with the most used one, the least even run first."""
    columns = ["shards", "executions", "mean", "most_used", "most", "most_over_mean", "jain_index", "p_value", "method"]
    shown = skew.select(*configuration_columns(skew), *columns)
    return shown.sort("p_value", "jain_index", nulls_last=True, maintain_order=True)


def separator_rows(separators: pl.DataFrame) -> pl.DataFrame:
    """Properties that separate slow statements, the largest effects first."""
    columns = ["property", "n_with", "n_without", "median_with_us", "median_without_us", "cliffs_delta", "p_value"]
    rows = separators.select("resource", "threads", "statement_kind", *columns)
    return rows.sort(pl.col("cliffs_delta").abs(), descending=True, nulls_last=True, maintain_order=True)


def variance_rows(study: BottleneckStudy) -> pl.DataFrame:
    """Run-to-run variance by source, shares in per cent; no rows if it was not split."""
    if study.run_variance is None:
        return pl.DataFrame()
    shares = [(pl.col(name) * 100).alias(f"{name}_percent") for name in ("share", "by_chance")]
    rest = ["sd_percent", "effect_percent", "p_value", "runs_to_decide"]
    return study.run_variance.sources.select("source", *shares, *rest)
