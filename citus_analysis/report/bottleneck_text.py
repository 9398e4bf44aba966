"""Sentences of the bottleneck report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.bottleneck.first_limits import Verdict
from citus_analysis.bottleneck.study import BottleneckStudy
from citus_analysis.scaling.queueing.whatif_results import WhatIf
from citus_analysis.texts.counted_words import counted, listed
from citus_analysis.texts.number_text import readable

__all__ = ["bottleneck_sentences", "demand_sentences", "generator_sentence", "what_if_sentences"]

#: So many configurations get a sentence of their own; the table has all.
_MOST: Final = 4
_WORDS: Final = {
    "connections": "the number of connections",
    "CPU quota": "the CPU quota of the servers",
    "load generator": "the load generator",
    "locks": "locks",
    "checkpoints": "frequent checkpoints",
    "WAL": "writing WAL",
    "one node": "that all sessions are on one node",
    "CPU": "the CPU",
    "device": "a device",
}
_GENERATOR: Final = "load generator"


def bottleneck_sentences(study: BottleneckStudy, most: int = _MOST) -> list[str]:
    """How often which limit came first, then a sentence for at most `most` configurations, the surest first."""
    counts: dict[str, int] = {}
    for one in study.verdicts:
        counts[one.limit] = counts.get(one.limit, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    head = f"First limits of {counted(len(study.verdicts), 'configuration')}: "
    head += f"{listed([f'{limit} ({number})' for limit, number in ordered])}."
    rank = {"high": 0, "medium": 1, "low": 2, "none": 3}
    certain = sorted(study.verdicts, key=lambda one: rank[one.confidence])
    return [head, generator_sentence(study), *(_sentence(one) for one in certain[:most])]


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
    return f"{first} What would decide: {'; '.join(verdict.decide)}." if verdict.decide else first


def generator_sentence(study: BottleneckStudy) -> str:
    """Whether it is the load generator, in one sentence."""
    mine = [one for one in study.verdicts if one.limit == _GENERATOR]
    of = counted(len(study.verdicts), "configuration")
    if mine:
        names = listed([str(one.configuration["resource"]) for one in mine[:_MOST]])
        return f"Is it the load generator? Yes in {len(mine)} of {of}: {names}."
    unknown = study.matrix.filter((pl.col("part") == _GENERATOR) & pl.col("not_measured").is_not_null())
    asked = unknown.filter(pl.col("aspect") == "utilisation")["resource"].n_unique()
    if asked:
        return (
            f"Is it the load generator? Nothing says so in any of {of}, but {counted(asked, 'resource')} "
            f"{'has' if asked == 1 else 'have'} no snapshots of sessions, which would decide."
        )
    return f"Is it the load generator? In none of {of}."


def demand_sentences(first: pl.DataFrame) -> list[str]:
    """Where the nearest bound is: the configuration that is closest to it.

    Args:
        first: what :func:`citus_analysis.scaling.queueing.resource_demands.first_to_saturate` returned.
    """
    if first.is_empty():
        return ["No utilisation was recorded together with a throughput: demands of operations are not known."]
    row = first.sort("of_bound_percent", descending=True).row(0, named=True)
    where = "" if row["node"] is None else f" of node {row['node']}"
    return [
        f"Closest to its bound is {row['resource']}: {row['demand']}{where} would be used up at "
        f"{readable(row['bound_ops_s'])} operations/s; {readable(row['throughput_ops_s'])} were measured, "
        f"{row['of_bound_percent']:.0f} % of that, at {row['per_operation']:.3g} {row['unit']} an operation."
    ]


def what_if_sentences(found: Sequence[WhatIf]) -> list[str]:
    """What each set-up would gain, or why there is no prediction."""
    if not found:
        return ["No prediction: no run has both traced statements and the client's latencies."]
    return [
        f"{', '.join(str(value) for value in one.configuration.values() if value is not None)}: "
        f"{one.sentence() if one.refused is None else f'no prediction: {one.refused}.'}"
        for one in found[:_MOST]
    ]
