"""Sentences and figures of the bottleneck report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.bottleneck.balance import MEASURES
from citus_analysis.bottleneck.limits import Verdict
from citus_analysis.bottleneck.machine_work import place_text
from citus_analysis.bottleneck.study import BottleneckStudy
from citus_analysis.plots import plot_nodes
from citus_analysis.plots.bottleneck_figures import plot_throughput_curves
from citus_analysis.runs.set_ups import USUAL_SET_UP
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.words import join_words, pluralize

#: Configurations with a sentence of their own; the table has all.
_MOST: Final = 4
#: Counters of `citus_stat_counters`: connections that were made, taken over, and not to be had.
_CONNECTIONS: Final = ("connection_establishment_succeeded", "connection_reused", "connection_establishment_failed")
_WORDS: Final = {
    "connections": "the number of connections",
    "CPU quota": "the CPU quota of the servers",
    "load generator": "the load generator",
    "locks": "locks",
    "checkpoints": "frequent checkpoints",
    "WAL": "writing WAL",
    "one node": "the one node that has all sessions",
    "CPU": "the CPU",
    "device": "a device",
    "network": "the network",
}
_NO_LIMITS: Final = {"none found": "not found", "undecided": "undecided"}
_NAMES: Final = ("resource", "operation")
_GENERATOR: Final = "load generator"


def write_bottleneck_sentences(study: BottleneckStudy, most: int = _MOST) -> list[str]:
    """The number of configurations by first limit, then a sentence for at most `most` of them, the surest first.

    If there are more configurations, one of each limit is described, of those with the most runs; the table has the
    others.
    """
    head = _count_limits(Counter(one.limit for one in study.verdicts))
    ranks = ("high", "medium", "low", "none")
    certain = sorted(study.verdicts, key=lambda one: (ranks.index(one.confidence), -one.n))
    if len(certain) > most:
        certain = list({one.limit: one for one in reversed(certain)}.values())[::-1]
    return [
        head,
        write_generator_sentence(study),
        *(_write_verdict_sentence(one, study.verdicts) for one in certain[:most]),
    ]


def _count_limits(counts: Mapping[str, int]) -> str:
    """The number of configurations in which each limit comes first."""
    number = sum(counts.values())
    only = next(iter(counts), None)
    if len(counts) == 1 and only in _WORDS and number > 1:
        return f"In all {number} configurations the first limit is {_WORDS[only]}."
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    limits = [f"{_WORDS.get(one, _NO_LIMITS.get(one, one))} in {many}" for one, many in ordered]
    return f"Of {pluralize(number, 'configuration')}, the first limit is {join_words(limits)}."


def _name_configuration(verdict: Verdict, verdicts: Sequence[Verdict]) -> str:
    """A configuration by its resource and operation, and by what else tells it from the others that have these."""
    known = verdict.configuration
    alike = [one.configuration for one in verdicts if all(one.configuration.get(n) == known.get(n) for n in _NAMES)]
    names = [known.get(name) for name in _NAMES]
    if len({one.get("set_up") for one in alike}) > 1:
        names.insert(1, known.get("set_up"))
    threads = known.get("threads")
    if isinstance(threads, int) and len({one.get("threads") for one in alike}) > 1:
        names.append(pluralize(threads, "thread"))
    return ", ".join(str(name) for name in names if name is not None)


def _write_verdict_sentence(verdict: Verdict, verdicts: Sequence[Verdict]) -> str:
    where = "" if verdict.node is None else f" ({place_text(verdict.node)})"
    found = {"none found": "no limit was found", "undecided": "undecided"}.get(verdict.limit)
    found = found or f"the first limit is {_WORDS[verdict.limit]}{where}, confidence {verdict.confidence}"
    first = f"{_name_configuration(verdict, verdicts)}: {found}: {'; '.join(verdict.evidence)}."
    advice = "; ".join(verdict.decide)
    return f"{first} {advice[0].upper()}{advice[1:]}." if advice else first


def write_generator_sentence(study: BottleneckStudy) -> str:
    """Whether the load generator is the limit, in one sentence."""
    mine = [one for one in study.verdicts if one.limit == _GENERATOR]
    of = pluralize(len(study.verdicts), "configuration")
    if mine:
        names = list(dict.fromkeys(", ".join(_names_of_system(one.configuration)) for one in mine))
        return f"The load generator is the first limit in {len(mine)} of {of}: {join_words(names, _MOST)}."
    among = "" if len(study.verdicts) == 1 else f" in any of {of}"
    unknown = study.matrix.filter((pl.col("part") == _GENERATOR) & pl.col("not_measured").is_not_null())
    asked = unknown.filter(pl.col("aspect") == "utilisation")["resource"].n_unique()
    if asked:
        unseen = f"{pluralize(asked, 'resource')} {'has' if asked == 1 else 'have'} no snapshots of sessions"
        return f"There is no sign that the load generator is the first limit{among}, but {unseen}, which would decide."
    return f"The load generator is not the first limit{among}."


def _names_of_system(configuration: Mapping[str, object]) -> list[str]:
    """The resource, and the set-up where it is not in its name."""
    resource, set_up = str(configuration["resource"]), configuration.get("set_up")
    is_named = set_up is None or set_up == USUAL_SET_UP or str(set_up) in resource
    return [resource] if is_named else [resource, str(set_up)]


def demand_sentences(first: pl.DataFrame) -> list[str]:
    """One sentence on the configuration that is closest to its bound.

    Args:
        first: result of :func:`citus_analysis.scaling.demands.find_first_to_saturate`.
    """
    if first.is_empty():
        return [
            "No CPU time of a single node was recorded together with a throughput, so the demands of operations on "
            "nodes, and the throughputs at which nodes would be used up, are not known: samples of a machine that "
            "nodes or clients share are none of a node. CPU time of each node's control group (cpu.stat of version 2) "
            "or pidstat of its processes would show them."
        ]
    row = first.sort("of_bound_percent", descending=True).row(0, named=True)
    where = "" if row["node"] is None else f" of {place_text(row['node'])}"
    return [
        f"{row['resource']} is closest to its bound: {row['demand']}{where} would be used up at "
        f"{format_number(row['bound_ops_s'])} operations/s; {format_number(row['throughput_ops_s'])} were measured, "
        f"{row['of_bound_percent']:.0f} % of that, at {format_number(row['per_operation'])} {row['unit']} an operation."
    ]


def balance_sentences(study: BottleneckStudy) -> list[str]:
    """The least even spread over nodes for each measure, and the run with the least even use of shards."""
    found = [_describe_imbalance(rows, MEASURES[measure]) for measure, rows in _sort_by_imbalance(study)]
    tested = study.shard_skew.drop_nulls("p_value").sort("p_value")
    if tested.height:
        row = tested.row(0, named=True)
        test = f"p = {row['p_value']:.2g}, {row['method']}; {pluralize(tested.height, 'run')} tested"
        found.append(
            f"Least even over shards: {row['run_id']}; shard {row['most_used']} has {row['most']} of "
            f"{row['executions']:,} executions over {row['shards']} shards, {row['most_over_mean']:.1f} times "
            f"the mean, shard {row['least_used']} has {row['least']} ({test})."
        )
    return found or ["No measurement covers several nodes."]


def write_connection_sentences(counters: pl.DataFrame, most: int = _MOST) -> list[str]:
    """How many connections nodes of Citus made to one another in the runs of a resource, and how many they reused.

    Args:
        counters: rows of the table `server_counters`; those of `citus_stat_counters` (Citus 13.1) are used.
        most: number of resources that are named, those with the largest share of new connections first.
    """
    of_runs = pl.col("run_id").is_not_null() & pl.col("value").is_not_null() & (pl.col("view") == "citus_stat_counters")
    numbers = {name: pl.col("value").filter(pl.col("counter") == name).sum().cast(pl.Int64) for name in _CONNECTIONS}
    sums = (
        counters.with_columns(pl.col("view", "counter", "resource").cast(pl.String))
        .filter(of_runs)
        .group_by("resource")
        .agg(**numbers, runs=pl.col("run_id").n_unique())
        .with_columns(uses=pl.sum_horizontal(_CONNECTIONS[:2]))
        .filter(pl.col("uses") > 0)
        .sort(pl.col(_CONNECTIONS[0]) / pl.col("uses"), "resource", descending=[True, False])
    )
    return [
        f"{resource}: in {pluralize(runs, 'run')} nodes used connections to one another {uses:,} times, and made "
        f"{made:,} of them anew ({100 * made / uses:.2g} %)" + (f"; {failed:,} attempts failed." if failed else ".")
        for resource, made, _, failed, runs, uses in sums.head(most).rows()
    ]


def _describe_imbalance(rows: pl.DataFrame, words: str) -> str:
    first = rows.filter(pl.col("resource") == rows["resource"][0]).sort("share_percent", descending=True)
    row = first.row(0, named=True)
    return (
        f"Least even in {words}: {row['resource']}, Jain's index {row['jain_index']:.2f}; "
        f"node {row['node']} has {row['share_percent']:.0f} % of the sum over {first.height} nodes."
    )


def plot_node_loads(study: BottleneckStudy) -> list[go.Figure]:
    """Load of each node over time in one run of the configuration whose clients' connections are least even."""
    run_id = choose_shown_run(study)
    rows = study.node_loads.filter(pl.col("run_id") == run_id)
    return [
        plot_nodes(part, metric="value", title=f"{part['resource'][0]}: {words}").update_yaxes(title_text="")
        for measure, words in MEASURES.items()
        if (part := rows.filter(pl.col("measure") == measure)).height
    ]


def choose_shown_run(study: BottleneckStudy) -> str:
    """The first run of the least even configuration; empty if no measurement covers several nodes."""
    for measure, rows in _sort_by_imbalance(study):
        return str(study.node_loads.filter(measure=measure, resource=rows["resource"][0])["run_id"].min())
    return ""


def _sort_by_imbalance(study: BottleneckStudy) -> Iterator[tuple[str, pl.DataFrame]]:
    """Each measure of several nodes with its balance, the least even configuration first."""
    even = study.node_balance.drop_nulls("jain_index").sort("jain_index", "resource")
    yield from ((measure, rows) for measure in MEASURES if (rows := even.filter(measure=measure)).height)


def run_variance_sentences(study: BottleneckStudy) -> list[str]:
    """Run-to-run variance by source with the runs needed, or the reason why it was not split."""
    found = study.run_variance
    if found is None:
        return ["There are too few repeated runs to find the causes of their differences."]
    left_out = f" Left out: {'; '.join(found.warnings)}." if found.warnings else ""
    return [f"{found.sentence()}{left_out}"]


def plot_curves_by_set_up(curves: pl.DataFrame, most: int = _MOST) -> list[go.Figure]:
    """A figure for each set-up of :func:`~citus_analysis.report.tabulate_curves`, at most `most`."""
    if curves.is_empty():
        return []
    parts = list(curves.group_by("set_up", maintain_order=True))[:most]
    return [plot_throughput_curves(part, title=str(name)) for (name,), part in parts]


# Tables of the bottleneck report for readers: one row per configuration, few columns.
#
# The CSV files of the report contain the long tables of the analyses, with one row per node or measure.

#: Systems named in a row; of more, the number is given.
_NAMED: Final = 3
_SWITCHES: Final = "switches"
#: Share of a node's CPU time or disk traffic from which a program has a row.
_LEAST_PERCENT: Final = 1.0

#: Fewest configurations with the same limit that share a row.
_MANY_ALIKE: Final = 5


def list_configuration_columns(rows: pl.DataFrame) -> list[str]:
    """Columns that name a configuration: with the set-up where a resource has several."""
    several = "set_up" in rows.columns and rows.select("resource", "set_up").n_unique() > rows["resource"].n_unique()
    return ["resource", *(["set_up"] if several else []), "operation", "threads"]


def select_shown_verdicts(verdicts: pl.DataFrame) -> pl.DataFrame:
    """The first limits for readers: of those that most configurations share for sure, the one with the most runs.

    Args:
        verdicts: a row per configuration, with `first_limit` and `confidence`.

    Example:
        >>> limits = {"first_limit": ["CPU"] * 6 + ["WAL"], "confidence": ["high"] * 7}
        >>> select_shown_verdicts(pl.DataFrame(limits))["first_limit"].to_list()
        ['CPU', 'WAL']
    """
    usual = verdicts["first_limit"].mode().sort().first() if verdicts.height else None
    alike = (pl.col("first_limit") == usual) & (pl.col("confidence") == "high")
    if verdicts.filter(alike).height < _MANY_ALIKE:
        return verdicts
    own = verdicts.filter(alike)
    best = own.sort("runs", descending=True, maintain_order=True) if "runs" in own.columns else own
    return pl.concat([best.head(1), verdicts.filter(~alike)])


def tabulate_thresholds(thresholds: pl.DataFrame) -> pl.DataFrame:
    """Thresholds with their values as text: they have different units, so no common number of decimals."""
    values = [format_number(value) for value in thresholds["value"]]
    return thresholds.with_columns(pl.Series("value", values, pl.String))


def tabulate_missing_measurements(matrix: pl.DataFrame) -> pl.DataFrame:
    """Missing measurements, one row each, with the systems that lack them.

    Args:
        matrix: `resource`, `part`, `aspect`, `not_measured` (null where it was measured).

    Returns:
        `part`, `aspect`, `not_measured` and `systems`; measurements that most systems lack come first.

    Example:
        >>> parts = {"part": "memory", "aspect": "errors", "not_measured": "logs"}
        >>> matrix = pl.DataFrame({"resource": ["a", "b"], **parts})
        >>> tabulate_missing_measurements(matrix).rows()
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
    systems = [_format_system_names(row["names"], everything) for row in found.iter_rows(named=True)]
    return found.select("part", "aspect", "not_measured", pl.Series("systems", systems, pl.String))


def _format_system_names(names: list[str], everything: int) -> str:
    if len(names) == everything:
        return f"all {everything}"
    listed = ", ".join(names[:_NAMED])
    return listed if len(names) <= _NAMED else f"{len(names)} of {everything}, such as {listed}"


def demand_rows(demands: pl.DataFrame) -> pl.DataFrame:
    """The cost of an operation: one row per configuration and node, one column per demand, with its unit.

    Args:
        demands: result of :func:`citus_analysis.scaling.compute_resource_demands`.
    """
    unit = pl.when(pl.col("unit") == _SWITCHES).then(pl.lit("")).otherwise(pl.format(" [{}]", "unit"))
    named = demands.with_columns(demand=pl.col("demand") + unit)
    keys = [*list_configuration_columns(demands), "node", "throughput_ops_s", "runs"]
    return named.pivot("demand", index=keys, values="per_operation", maintain_order=True)


def tabulate_programs(programs: pl.DataFrame) -> pl.DataFrame:
    """Programs of each configuration's nodes, without those that hardly used the CPU or the disks.

    Args:
        programs: result of :func:`citus_analysis.bottleneck.resources` by the columns of a configuration.
    """
    used = pl.max_horizontal("cpu_share_percent", "disk_share_percent") >= _LEAST_PERCENT
    columns = programs.columns[programs.columns.index("node") :]
    return programs.filter(used).select(*list_configuration_columns(programs), *columns)


def tabulate_node_balance(balance: pl.DataFrame) -> pl.DataFrame:
    """Balance of the nodes' loads: one row per configuration and measure, with the extreme nodes.

    Args:
        balance: `resource`, `operation`, `threads`, `measure`, `node`, `share_percent`, `jain_index`,
            `most_uneven_second`, `runs`.
    """
    keys = [*list_configuration_columns(balance), "measure"]
    rest = pl.col("jain_index", "most_uneven_second", "runs").first()
    rows = balance.group_by(keys, maintain_order=True).agg(*_make_extreme_node_exprs("share_percent", " %"), rest)
    named = rows.with_columns(measure=pl.col("measure").cast(pl.String).replace(MEASURES))
    return named.sort("jain_index", nulls_last=True, maintain_order=True)


def tabulate_session_balance(balance: pl.DataFrame) -> pl.DataFrame:
    """Balance of client sessions over nodes: one row per configuration, the least even first.

    Args:
        balance: `resource`, `operation`, `threads`, `node`, `sessions`, `jain_index`, `p_value`, `method`.
    """
    rest = pl.col("jain_index", "p_value", "method").first()
    sessions = [pl.col("sessions").sum(), *_make_extreme_node_exprs("sessions", "")]
    rows = balance.group_by(list_configuration_columns(balance), maintain_order=True).agg(*sessions, rest)
    return rows.sort("jain_index", nulls_last=True, maintain_order=True)


def _make_extreme_node_exprs(value: str, unit: str) -> list[pl.Expr]:
    """Number of nodes, and the nodes with the smallest and the largest value as `node 3 (27 %)`."""

    def named(position: pl.Expr) -> pl.Expr:
        number = pl.col(value).get(position).round(0).cast(pl.Int64)
        return pl.format("node {} ({}{})", pl.col("node").cast(pl.String).get(position), number, pl.lit(unit))

    places = {"least": pl.col(value).arg_min(), "most": pl.col(value).arg_max()}
    return [pl.len().alias("nodes"), *(named(position).alias(name) for name, position in places.items())]


def tabulate_shard_balance(skew: pl.DataFrame) -> pl.DataFrame:
    """Executions over shards with the most used one, the least even run first."""
    columns = ["shards", "executions", "mean", "most_used", "most", "most_over_mean", "jain_index", "p_value", "method"]
    shown = skew.select(*list_configuration_columns(skew), *columns)
    return shown.sort("p_value", "jain_index", nulls_last=True, maintain_order=True)


def tabulate_separators(separators: pl.DataFrame) -> pl.DataFrame:
    """Properties that separate slow statements, the largest effects first."""
    columns = ["property", "n_with", "n_without", "median_with_us", "median_without_us", "cliffs_delta", "p_value"]
    rows = separators.select("resource", "threads", "statement_kind", *columns)
    return rows.sort(pl.col("cliffs_delta").abs(), descending=True, nulls_last=True, maintain_order=True)


def tabulate_variance_sources(study: BottleneckStudy) -> pl.DataFrame:
    """Run-to-run variance by source, shares in per cent; no rows if it was not split."""
    if study.run_variance is None:
        return pl.DataFrame()
    shares = [(pl.col(name) * 100).alias(f"{name}_percent") for name in ("share", "by_chance")]
    rest = ["sd_percent", "effect_percent", "p_value", "runs_to_decide"]
    return study.run_variance.sources.select("source", *shares, *rest)
