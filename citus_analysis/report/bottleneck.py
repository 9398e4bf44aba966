"""Findings, figures and tables of the bottleneck report."""

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
from citus_analysis.runs.set_ups import USUAL_SET_UP
from citus_analysis.stats.findings import (
    FindingNumber,
    ReportFinding,
    state,
)
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
#: Kind of finding -> its words. Parts of sentences have the name of the sentence and their own.
TEMPLATES: Final = {
    "limits": "Of {configurations}, the first limit is {limits}.",
    "one limit": "In all {number} configurations the first limit is {limit}.",
    "limit": "{configuration}: {found}: {evidence}.{advice}",
    "limit: found": "the first limit is {limit}{where}, confidence {confidence}",
    "limit: none found": "no limit was found",
    "limit: undecided": "undecided",
    "generator": "The load generator is the first limit in {number} of {configurations}: {names}.",
    "not the generator": "The load generator is not the first limit{among}.",
    "generator not seen": "There is no sign that the load generator is the first limit{among}, but {resources} no "
    "snapshots of sessions, which would decide.",
    "demand": "{resource} is closest to its bound: {demand}{where} would be used up at {bound} operations/s; "
    "{measured} were measured, {percent:.0f} % of that, at {cost} {unit} an operation.",
    "no demand": "No CPU time of a single node was recorded together with a throughput, so the demands of operations "
    "on nodes, and the throughputs at which nodes would be used up, are not known: samples of a machine that nodes "
    "or clients share are none of a node. CPU time of each node's control group (cpu.stat of version 2) or pidstat "
    "of its processes would show them.",
    "balance": "Least even in {measure}: {resource}, Jain's index {jain:.2f}; node {node} has {percent:.0f} % of the "
    "sum over {nodes} nodes.",
    "shards": "Least even over shards: {run_id}; shard {most_used} has {most} of {executions:,} executions over "
    "{shards} shards, {times:.1f} times the mean, shard {least_used} has {least} (p = {p_value:.2g}, {method}; "
    "{runs} tested).",
    "no balance": "No measurement covers several nodes.",
    "connections": "{resource}: in {runs} nodes used connections to one another {uses:,} times, and made {made:,} of "
    "them anew ({percent:.2g} %){failed}.",
    "connections: failed": "; {failed:,} attempts failed",
    "variance": "{sentence}{left_out}",
    "variance: left out": " Left out: {warnings}.",
    "no variance": "There are too few repeated runs to find the causes of their differences.",
}
_NAMES: Final = ("resource", "operation")
_GENERATOR: Final = "load generator"


def state_limits(study: BottleneckStudy, most: int = _MOST) -> list[ReportFinding]:
    """The number of configurations by first limit, then a finding for at most `most` of them, the surest first.

    If there are more configurations, one of each limit is described, of those with the most runs; the table has the
    others.
    """
    head = _state_limit_counts(Counter(one.limit for one in study.verdicts))
    ranks = ("high", "medium", "low", "none")
    certain = sorted(study.verdicts, key=lambda one: (ranks.index(one.confidence), -one.n))
    if len(certain) > most:
        certain = list({one.limit: one for one in reversed(certain)}.values())[::-1]
    return [head, state_generator(study), *(_state_limit(one, study.verdicts) for one in certain[:most])]


def _state_limit_counts(counts: Mapping[str, int]) -> ReportFinding:
    """The number of configurations in which each limit comes first."""
    number = sum(counts.values())
    only = next(iter(counts), None)
    if len(counts) == 1 and only in _WORDS and number > 1:
        return state(TEMPLATES, "one limit", number=number, limit=_WORDS[only])
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    limits = [f"{_WORDS.get(one, _NO_LIMITS.get(one, one))} in {many}" for one, many in ordered]
    return state(TEMPLATES, "limits", configurations=pluralize(number, "configuration"), limits=join_words(limits))


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


def _state_limit(verdict: Verdict, verdicts: Sequence[Verdict]) -> ReportFinding:
    where = "" if verdict.node is None else f" ({place_text(verdict.node)})"
    kind = verdict.limit if verdict.limit in _NO_LIMITS else "found"
    limit, name = _WORDS.get(verdict.limit, ""), _name_configuration(verdict, verdicts)
    advice = "; ".join(verdict.decide)
    return state(
        TEMPLATES,
        "limit",
        [FindingNumber(name, n=verdict.n, verdict=verdict.limit, warnings=verdict.decide)],
        configuration=name,
        found=TEMPLATES[f"limit: {kind}"].format(limit=limit, where=where, confidence=verdict.confidence),
        evidence="; ".join(verdict.evidence),
        advice=f" {advice[0].upper()}{advice[1:]}." if advice else "",
    )


def state_generator(study: BottleneckStudy) -> ReportFinding:
    """Whether the load generator is the limit."""
    mine = [one for one in study.verdicts if one.limit == _GENERATOR]
    of = pluralize(len(study.verdicts), "configuration")
    if mine:
        names = list(dict.fromkeys(", ".join(_list_system_names(one.configuration)) for one in mine))
        return state(TEMPLATES, "generator", number=len(mine), configurations=of, names=join_words(names, _MOST))
    among = "" if len(study.verdicts) == 1 else f" in any of {of}"
    unknown = study.matrix.filter((pl.col("part") == _GENERATOR) & pl.col("not_measured").is_not_null())
    asked = unknown.filter(pl.col("aspect") == "utilisation")["resource"].n_unique()
    if asked:
        resources = f"{pluralize(asked, 'resource')} {'has' if asked == 1 else 'have'}"
        return state(TEMPLATES, "generator not seen", among=among, resources=resources)
    return state(TEMPLATES, "not the generator", among=among)


def _list_system_names(configuration: Mapping[str, object]) -> list[str]:
    """The resource, and the set-up where it is not in its name."""
    resource, set_up = str(configuration["resource"]), configuration.get("set_up")
    is_named = set_up is None or set_up == USUAL_SET_UP or str(set_up) in resource
    return [resource] if is_named else [resource, str(set_up)]


def state_demands(first: pl.DataFrame) -> ReportFinding:
    """The configuration that is closest to its bound.

    Args:
        first: result of :func:`citus_analysis.scaling.demands.find_first_to_saturate`.
    """
    if first.is_empty():
        return state(TEMPLATES, "no demand")
    row = first.sort("of_bound_percent", descending=True).row(0, named=True)
    return state(
        TEMPLATES,
        "demand",
        [FindingNumber(row["resource"], estimate=row["bound_ops_s"])],
        resource=row["resource"],
        demand=row["demand"],
        where="" if row["node"] is None else f" of {place_text(row['node'])}",
        bound=format_number(row["bound_ops_s"]),
        measured=format_number(row["throughput_ops_s"]),
        percent=row["of_bound_percent"],
        cost=format_number(row["per_operation"]),
        unit=row["unit"],
    )


def state_balance(study: BottleneckStudy) -> list[ReportFinding]:
    """The least even spread over nodes for each measure, and the run with the least even use of shards."""
    found = [_state_imbalance(rows, MEASURES[measure]) for measure, rows in _sort_by_imbalance(study)]
    tested = study.shard_skew.drop_nulls("p_value").sort("p_value")
    if tested.height:
        row = tested.row(0, named=True)
        names = ("run_id", "most_used", "most", "executions", "shards", "least_used", "least", "p_value", "method")
        runs, words = pluralize(tested.height, "run"), {name: row[name] for name in names}
        found.append(
            ReportFinding("shards", TEMPLATES["shards"].format(times=row["most_over_mean"], runs=runs, **words))
        )
    return found or [state(TEMPLATES, "no balance")]


def state_connections(counters: pl.DataFrame, most: int = _MOST) -> list[ReportFinding]:
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
        state(
            TEMPLATES,
            "connections",
            resource=resource,
            runs=pluralize(runs, "run"),
            uses=uses,
            made=made,
            percent=100 * made / uses,
            failed=TEMPLATES["connections: failed"].format(failed=failed) if failed else "",
        )
        for resource, made, _, failed, runs, uses in sums.head(most).rows()
    ]


def _state_imbalance(rows: pl.DataFrame, words: str) -> ReportFinding:
    first = rows.filter(pl.col("resource") == rows["resource"][0]).sort("share_percent", descending=True)
    row = first.row(0, named=True)
    return state(
        TEMPLATES,
        "balance",
        [FindingNumber(row["resource"], estimate=row["jain_index"])],
        measure=words,
        resource=row["resource"],
        jain=row["jain_index"],
        node=row["node"],
        percent=row["share_percent"],
        nodes=first.height,
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


def state_run_variance(study: BottleneckStudy) -> ReportFinding:
    """Run-to-run variance by source with the runs needed, or the reason why it was not split."""
    found = study.run_variance
    if found is None:
        return state(TEMPLATES, "no variance")
    warnings = "; ".join(found.warnings)
    left_out = TEMPLATES["variance: left out"].format(warnings=warnings) if warnings else ""
    return state(TEMPLATES, "variance", sentence=found.sentence(), left_out=left_out)


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

    def format_node(position: pl.Expr) -> pl.Expr:
        number = pl.col(value).get(position).round(0).cast(pl.Int64)
        return pl.format("node {} ({}{})", pl.col("node").cast(pl.String).get(position), number, pl.lit(unit))

    places = {"least": pl.col(value).arg_min(), "most": pl.col(value).arg_max()}
    return [pl.len().alias("nodes"), *(format_node(position).alias(name) for name, position in places.items())]


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
    share = (pl.col("share") * 100).alias("share_percent")
    rest = ["sd_percent", "effect_percent", "p_value", "runs_to_decide", "goes_with"]
    return study.run_variance.sources.select("source", share, *rest)
