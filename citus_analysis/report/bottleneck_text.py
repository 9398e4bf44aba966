"""Sentences of the bottleneck report, and what-if analyses in words, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import plotly.graph_objects as go
import polars as pl

from citus_analysis.bottleneck.evidence.node_loads import MEASURES
from citus_analysis.bottleneck.first_limits import Verdict
from citus_analysis.bottleneck.study import BottleneckStudy
from citus_analysis.core.defaults import LEVEL, UNTIL_TIME_IS_UP
from citus_analysis.plots import plot_nodes, plot_throughput_curves
from citus_analysis.runs.setups import operation_name, repeats_system, setting_text, stratum_text
from citus_analysis.scaling.queueing.system_changes import (
    Predicted,
    change_table,
    predicted_changes,
    throughput_curves,
)
from citus_analysis.scaling.queueing.whatif_results import WhatIf
from citus_analysis.texts.counted_words import counted, listed, size_text
from citus_analysis.texts.number_text import readable

__all__ = [
    "balance_sentences",
    "bottleneck_sentences",
    "curve_figures",
    "curve_sentences",
    "curve_table",
    "demand_sentences",
    "generator_sentence",
    "node_load_figures",
    "run_variance_sentences",
    "shown_run",
    "what_if_sentences",
    "what_if_table",
]

#: Configurations with a sentence of their own; the table has all.
_MOST: Final = 4
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
_GENERATOR: Final = "load generator"
#: Units of the predicted quantities, as names of columns have them.
_UNITS: Final = {"throughput": "ops_s", "response": "us"}


def bottleneck_sentences(study: BottleneckStudy, most: int = _MOST) -> list[str]:
    """The number of configurations by first limit, then a sentence for at most `most` of them, the surest first.

    If there are more configurations, one of each limit is described; the table has the others.
    """
    counts: dict[str, int] = {}
    for one in study.verdicts:
        counts[one.limit] = counts.get(one.limit, 0) + 1
    head = _counted_limits(counts)
    rank = {"high": 0, "medium": 1, "low": 2, "none": 3}
    certain = sorted(study.verdicts, key=lambda one: rank[one.confidence])
    if len(certain) > most:
        certain = list({one.limit: one for one in reversed(certain)}.values())[::-1]
    return [head, generator_sentence(study), *(_sentence(one) for one in certain[:most])]


def _counted_limits(counts: Mapping[str, int]) -> str:
    """The number of configurations in which each limit comes first."""
    number = sum(counts.values())
    only = next(iter(counts), None)
    if len(counts) == 1 and only in _WORDS and number > 1:
        return f"In all {number} configurations the first limit is {_WORDS[only]}."
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return (
        f"First limits of {counted(number, 'configuration')}: {listed([f'{one} ({many})' for one, many in ordered])}."
    )


def _sentence(verdict: Verdict) -> str:
    named = (verdict.configuration.get(name) for name in ("resource", "operation"))
    who = ", ".join(str(name) for name in named if name is not None)
    where = "" if verdict.node is None else f" (node {verdict.node})"
    evidence = "; ".join(verdict.evidence)
    if verdict.limit in ("none found", "undecided"):
        first = f"{who}: {'no limit was found' if verdict.limit == 'none found' else 'undecided'}: {evidence}."
    else:
        limit = f"{_WORDS[verdict.limit]}{where}"
        first = f"{who}: the first limit is {limit}, confidence {verdict.confidence}: {evidence}."
    advice = "; ".join(verdict.decide)
    return f"{first} {advice[0].upper()}{advice[1:]}." if advice else first


def generator_sentence(study: BottleneckStudy) -> str:
    """Whether the load generator is the limit, in one sentence."""
    mine = [one for one in study.verdicts if one.limit == _GENERATOR]
    of = counted(len(study.verdicts), "configuration")
    if mine:
        names = listed([str(one.configuration["resource"]) for one in mine[:_MOST]])
        return f"The load generator is the first limit in {len(mine)} of {of}: {names}."
    among = "" if len(study.verdicts) == 1 else f" in any of {of}"
    unknown = study.matrix.filter((pl.col("part") == _GENERATOR) & pl.col("not_measured").is_not_null())
    asked = unknown.filter(pl.col("aspect") == "utilisation")["resource"].n_unique()
    if asked:
        return (
            f"There is no sign that the load generator is the first limit{among}, but "
            f"{counted(asked, 'resource')} {'has' if asked == 1 else 'have'} no snapshots of sessions, "
            "which would decide."
        )
    return f"The load generator is not the first limit{among}."


def demand_sentences(first: pl.DataFrame) -> list[str]:
    """One sentence on the configuration that is closest to its bound.

    Args:
        first: result of :func:`citus_analysis.scaling.queueing.resource_demands.first_to_saturate`.
    """
    if first.is_empty():
        return ["No utilisation was recorded together with a throughput: demands of operations are not known."]
    row = first.sort("of_bound_percent", descending=True).row(0, named=True)
    where = "" if row["node"] is None else f" of node {row['node']}"
    return [
        f"{row['resource']} is closest to its bound: {row['demand']}{where} would be used up at "
        f"{readable(row['bound_ops_s'])} operations/s; {readable(row['throughput_ops_s'])} were measured, "
        f"{row['of_bound_percent']:.0f} % of that, at {readable(row['per_operation'])} {row['unit']} an operation."
    ]


def balance_sentences(study: BottleneckStudy) -> list[str]:
    """The least even spread over nodes for each measure, and the run with the least even use of shards."""
    even = study.node_balance.drop_nulls("jain_index")
    found = [
        _uneven(rows, words)
        for measure, words in MEASURES.items()
        if (rows := even.filter(pl.col("measure") == measure).sort("jain_index", "resource")).height
    ]
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
        plot_nodes(part.rename({"value": "load"}), metric="load", title=f"{part['resource'][0]}: {words}").update_yaxes(
            title_text=""
        )
        for measure, words in MEASURES.items()
        if (part := rows.filter(pl.col("measure") == measure)).height
    ]


def shown_run(study: BottleneckStudy) -> str:
    """The first run of the least even configuration; empty if no measurement covers several nodes."""
    even = study.node_balance.drop_nulls("jain_index")
    for measure in MEASURES:
        rows = even.filter(pl.col("measure") == measure).sort("jain_index", "resource")
        if rows.height:
            mine = study.node_loads.filter((pl.col("measure") == measure) & (pl.col("resource") == rows["resource"][0]))
            return str(mine["run_id"].min())
    return ""


def run_variance_sentences(study: BottleneckStudy) -> list[str]:
    """Run-to-run variance by source with the runs needed, or the reason why it was not split."""
    found = study.run_variance
    if found is None:
        return ["There are too few repeated runs to find the causes of their differences."]
    left_out = f" Left out: {'; '.join(found.warnings)}." if found.warnings else ""
    return [f"{found.sentence()}{left_out}"]


def what_if_sentences(found: Sequence[WhatIf], most: int = _MOST) -> list[str]:
    """The number of set-ups with a validated network; then the gains of at most `most`, validated ones first."""
    if not found:
        return ["No prediction: no run has both traced statements and the client's latencies."]
    ordered = _ordered(found)
    return [_validated(ordered), *(f"{_name(one)}: {_what_if(one)}" for one in ordered[:most])]


def _ordered(found: Sequence[WhatIf]) -> list[WhatIf]:
    """Set-ups with a prediction first, then by the number of thread counts."""
    return sorted(found, key=lambda one: (one.refused is not None, -len(one.thread_counts)))


def _name(one: WhatIf) -> str:
    """A set-up in words: its operation, size, and other distinctions."""
    empty = {None, ("operations", UNTIL_TIME_IS_UP), ("records", 0)}
    rest = {name: value for name, value in one.configuration.items() if empty.isdisjoint({value, (name, value)})}
    phase, workload = (str(rest.pop(name)) if name in rest else None for name in ("phase", "workload"))
    operation = operation_name(phase, workload) or "unknown operation"
    size, system = rest.pop("workers", None), str(rest.pop("system", ""))
    family, held, drivers = str(rest.pop("family", "")), rest.pop("cpu_per_node", ""), rest.pop("drivers", 1)
    parts = [
        f"{operation} on {size_text(size)}" if isinstance(size, int) else operation,
        "" if repeats_system(system, family) else system,
        setting_text("family", family),
        f"{held} cores per node" if held else "",
        f"{drivers} load generators" if drivers != 1 else "",
        stratum_text(rest),
    ]
    return ", ".join(part for part in parts if part)


def _validated(found: Sequence[WhatIf]) -> str:
    passed = sum(one.refused is None for one in found)
    if not passed:
        set_ups = counted(len(found), "set-up")
        return f"No queueing network predicted thread counts that it was not fitted to ({set_ups} with traces)."
    head = f"Queueing networks predicted thread counts that they were not fitted to in {passed} of "
    return f"{head}{counted(len(found), 'set-up')}; only these have predictions by a network."


def _what_if(one: WhatIf) -> str:
    changes = predicted_changes(one)
    if one.refused is None:
        known = [(change.factor, change) for change in changes if change.factor is not None]
        best = max(known, key=lambda pair: pair[0], default=None)
        return "the runs do not decide the effect of any change." if best is None else _largest(one, best[1])
    least = min(changes, key=_response, default=None)
    return f"no network predicts this set-up ({one.refused}).{'' if least is None else _blocked(one, least)}"


def _response(change: Predicted) -> float:
    return math.inf if change.response_us is None else change.response_us.estimate


def _largest(one: WhatIf, change: Predicted) -> str:
    rate = change.throughput_ops_s
    ends = "" if rate is None else f" [{readable(rate.low)}, {readable(rate.high)}]"
    middle = "" if rate is None else f"{readable(rate.estimate)}{ends} operations/s, "
    return f"at {one.threads} threads the largest gain is that of {change.change}: {middle}{change.factor:.2f}-fold."


def _blocked(one: WhatIf, change: Predicted) -> str:
    now, rate = one.response_us.estimate, change.throughput_ops_s
    part = change.change.removesuffix(" time halved")
    said = (
        f" With half the {part} time and all other times unchanged, at {one.threads} threads an operation would take "
    )
    said += f"{readable(_response(change) / 1000)} ms instead of {readable(now / 1000)} ms"
    if rate is None:
        return f"{said}."
    return f"{said}, and throughput would be {readable(rate.estimate)} instead of {_rate(one)} operations/s."


def _rate(one: WhatIf) -> str:
    return readable(one.throughput_ops_s.estimate)


def what_if_table(found: Sequence[WhatIf]) -> pl.DataFrame:
    """One row per set-up and change, validated set-ups first: the effect of the change, or why it is unknown."""
    parts = [
        change_table(predicted_changes(one)).select(
            pl.lit(_name(one)).alias("set_up"), pl.lit(one.threads).alias("threads"), pl.all()
        )
        for one in _ordered(found)
    ]
    ends = {f"{name}_{end}": f"{name}_{unit}_{end}" for name, unit in _UNITS.items() for end in ("low", "high")}
    return pl.concat(parts).rename(ends) if parts else pl.DataFrame()


def curve_sentences(found: Sequence[WhatIf]) -> list[str]:
    """The number of set-ups with a curve of a queueing network, and the reasons why the others have none."""
    if not found:
        return ["No queueing network: no run has both traced statements and the client's latencies."]
    reasons: dict[str, int] = {}
    for one in found:
        if one.refused is not None:
            kind = _reason(one.refused)
            reasons[kind] = reasons.get(kind, 0) + 1
    listing = [f"{counted(number, 'set-up')}: {reason}" for reason, number in reasons.items()]
    return [_validated(found), *([f"No curve: {'; '.join(listing)}."] if listing else [])]


def _reason(refused: str) -> str:
    """The kind of a refusal, without the numbers of one set-up."""
    if "are needed" in refused:
        return "fewer thread counts than the three that a validation needs"
    if "throughput falls" in refused:
        return "throughput falls with more threads, which no queueing network with constant demands can predict"
    if "sampling slows" in refused:
        return "the sampled statements take longer than the client's cycle, because sampling slows them down"
    if "misses" in refused:
        return "the best network misses a thread count that it was not fitted to by more than the tolerance"
    return refused


def curve_table(found: Sequence[WhatIf], *, level: float = LEVEL) -> pl.DataFrame:
    """Throughput against threads of each set-up with a validated network, with curves of Amdahl's law and the USL."""
    parts = [
        throughput_curves(one, level=level).select(pl.lit(_name(one)).alias("set_up"), pl.all())
        for one in _ordered(found)
        if one.refused is None
    ]
    return pl.concat(parts) if parts else pl.DataFrame()


def curve_figures(curves: pl.DataFrame, most: int = _MOST) -> list[go.Figure]:
    """A figure for each set-up of :func:`curve_table`, at most `most`."""
    if curves.is_empty():
        return []
    parts = curves.partition_by("set_up", as_dict=True, maintain_order=True)
    return [plot_throughput_curves(part, title=str(name)) for (name,), part in list(parts.items())[:most]]
