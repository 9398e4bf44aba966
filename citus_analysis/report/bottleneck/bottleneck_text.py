"""Sentences and figures of the bottleneck report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.bottleneck.evidence.node_loads import MEASURES
from citus_analysis.bottleneck.first_limits import Verdict
from citus_analysis.bottleneck.machine_work import place_text
from citus_analysis.bottleneck.study import BottleneckStudy
from citus_analysis.plots import plot_nodes
from citus_analysis.plots.bottleneck_figures import plot_throughput_curves
from citus_analysis.runs.setups import USUAL_SET_UP
from citus_analysis.texts.counted_words import counted, listed
from citus_analysis.texts.number_text import readable

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


def bottleneck_sentences(study: BottleneckStudy, most: int = _MOST) -> list[str]:
    """The number of configurations by first limit, then a sentence for at most `most` of them, the surest first.

    If there are more configurations, one of each limit is described, of those with the most runs; the table has the
    others.
    """
    head = _counted_limits(Counter(one.limit for one in study.verdicts))
    ranks = ("high", "medium", "low", "none")
    certain = sorted(study.verdicts, key=lambda one: (ranks.index(one.confidence), -one.n))
    if len(certain) > most:
        certain = list({one.limit: one for one in reversed(certain)}.values())[::-1]
    return [head, generator_sentence(study), *(_sentence(one, study.verdicts) for one in certain[:most])]


def _counted_limits(counts: Mapping[str, int]) -> str:
    """The number of configurations in which each limit comes first."""
    number = sum(counts.values())
    only = next(iter(counts), None)
    if len(counts) == 1 and only in _WORDS and number > 1:
        return f"In all {number} configurations the first limit is {_WORDS[only]}."
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    limits = [f"{_WORDS.get(one, _NO_LIMITS.get(one, one))} in {many}" for one, many in ordered]
    return f"Of {counted(number, 'configuration')}, the first limit is {listed(limits)}."


def _named(verdict: Verdict, verdicts: Sequence[Verdict]) -> str:
    """A configuration by its resource and operation, and by what else tells it from the others that have these."""
    known = verdict.configuration
    alike = [one.configuration for one in verdicts if all(one.configuration.get(n) == known.get(n) for n in _NAMES)]
    names = [known.get(name) for name in _NAMES]
    if len({one.get("set_up") for one in alike}) > 1:
        names.insert(1, known.get("set_up"))
    threads = known.get("threads")
    if isinstance(threads, int) and len({one.get("threads") for one in alike}) > 1:
        names.append(counted(threads, "thread"))
    return ", ".join(str(name) for name in names if name is not None)


def _sentence(verdict: Verdict, verdicts: Sequence[Verdict]) -> str:
    where = "" if verdict.node is None else f" ({place_text(verdict.node)})"
    found = {"none found": "no limit was found", "undecided": "undecided"}.get(verdict.limit)
    found = found or f"the first limit is {_WORDS[verdict.limit]}{where}, confidence {verdict.confidence}"
    first = f"{_named(verdict, verdicts)}: {found}: {'; '.join(verdict.evidence)}."
    advice = "; ".join(verdict.decide)
    return f"{first} {advice[0].upper()}{advice[1:]}." if advice else first


def generator_sentence(study: BottleneckStudy) -> str:
    """Whether the load generator is the limit, in one sentence."""
    mine = [one for one in study.verdicts if one.limit == _GENERATOR]
    of = counted(len(study.verdicts), "configuration")
    if mine:
        names = list(dict.fromkeys(", ".join(_names_of_system(one.configuration)) for one in mine))
        return f"The load generator is the first limit in {len(mine)} of {of}: {listed(names, _MOST)}."
    among = "" if len(study.verdicts) == 1 else f" in any of {of}"
    unknown = study.matrix.filter((pl.col("part") == _GENERATOR) & pl.col("not_measured").is_not_null())
    asked = unknown.filter(pl.col("aspect") == "utilisation")["resource"].n_unique()
    if asked:
        unseen = f"{counted(asked, 'resource')} {'has' if asked == 1 else 'have'} no snapshots of sessions"
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
        first: result of :func:`citus_analysis.scaling.queueing.resource_demands.first_to_saturate`.
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
        f"{readable(row['bound_ops_s'])} operations/s; {readable(row['throughput_ops_s'])} were measured, "
        f"{row['of_bound_percent']:.0f} % of that, at {readable(row['per_operation'])} {row['unit']} an operation."
    ]


def balance_sentences(study: BottleneckStudy) -> list[str]:
    """The least even spread over nodes for each measure, and the run with the least even use of shards."""
    found = [_uneven(rows, MEASURES[measure]) for measure, rows in _least_even_first(study)]
    tested = study.shard_skew.drop_nulls("p_value").sort("p_value")
    if tested.height:
        row = tested.row(0, named=True)
        test = f"p = {row['p_value']:.2g}, {row['method']}; {counted(tested.height, 'run')} tested"
        found.append(
            f"Least even over shards: {row['run_id']}; shard {row['most_used']} has {row['most']} of "
            f"{row['executions']:,} executions over {row['shards']} shards, {row['most_over_mean']:.1f} times "
            f"the mean, shard {row['least_used']} has {row['least']} ({test})."
        )
    return found or ["No measurement covers several nodes."]


def connection_sentences(counters: pl.DataFrame, most: int = _MOST) -> list[str]:
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
        f"{resource}: in {counted(runs, 'run')} nodes used connections to one another {uses:,} times, and made "
        f"{made:,} of them anew ({100 * made / uses:.2g} %)" + (f"; {failed:,} attempts failed." if failed else ".")
        for resource, made, _, failed, runs, uses in sums.head(most).rows()
    ]


def _uneven(rows: pl.DataFrame, words: str) -> str:
    first = rows.filter(pl.col("resource") == rows["resource"][0]).sort("share_percent", descending=True)
    row = first.row(0, named=True)
    return (
        f"Least even in {words}: {row['resource']}, Jain's index {row['jain_index']:.2f}; "
        f"node {row['node']} has {row['share_percent']:.0f} % of the sum over {first.height} nodes."
    )


def node_load_figures(study: BottleneckStudy) -> list[go.Figure]:
    """Load of each node over time in one run of the configuration whose clients' connections are least even."""
    run_id = shown_run(study)
    rows = study.node_loads.filter(pl.col("run_id") == run_id)
    return [
        plot_nodes(part, metric="value", title=f"{part['resource'][0]}: {words}").update_yaxes(title_text="")
        for measure, words in MEASURES.items()
        if (part := rows.filter(pl.col("measure") == measure)).height
    ]


def shown_run(study: BottleneckStudy) -> str:
    """The first run of the least even configuration; empty if no measurement covers several nodes."""
    for measure, rows in _least_even_first(study):
        return str(study.node_loads.filter(measure=measure, resource=rows["resource"][0])["run_id"].min())
    return ""


def _least_even_first(study: BottleneckStudy) -> Iterator[tuple[str, pl.DataFrame]]:
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


def curve_figures(curves: pl.DataFrame, most: int = _MOST) -> list[go.Figure]:
    """A figure for each set-up of :func:`~citus_analysis.report.curve_table`, at most `most`."""
    if curves.is_empty():
        return []
    parts = list(curves.group_by("set_up", maintain_order=True))[:most]
    return [plot_throughput_curves(part, title=str(name)) for (name,), part in parts]
