"""What-if analyses in words and tables: the predictions of queueing networks for each set-up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import polars as pl

from citus_analysis.dataset import open_dataset
from citus_analysis.defaults import LEVEL, UNTIL_TIME_IS_UP
from citus_analysis.runs.selection import Question
from citus_analysis.runs.set_ups import format_configuration, format_operation_name, format_setup_value, repeats_system
from citus_analysis.scaling.demands import predict_blocked_time
from citus_analysis.scaling.network_what_if import Predicted, WhatIf, change_table, predicted_changes, throughput_curves
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.words import format_cluster_size, pluralize

#: Set-ups with a sentence of their own; the table has all.
_MOST: Final = 4
#: Units of the predicted quantities, as names of columns have them.
_UNITS: Final = {"throughput": "ops_s", "response": "us"}

#: Words of a refusal -> its kind.
_REASONS: Final = {
    "are needed": "fewer thread counts than the three that a validation needs",
    "throughput falls": "throughput falls with more threads, "
    "which no queueing network with constant demands can predict",
    "sampling slows": "the sampled statements take longer than the client's cycle, because sampling slows them down",
    "misses": "the best network misses a thread count that it was not fitted to by more than the tolerance",
}

#: A set-up, and the predicted effects of changes of it.
Effects: TypeAlias = tuple[WhatIf, tuple[Predicted, ...]]


@dataclass(frozen=True)
class Predictions:
    """What a page shows of the predictions for a dataset's set-ups.

    Attributes:
        reasons: the number of set-ups with a validated network, and why the others have none.
        sentences: the number of set-ups with a validated network, and the largest gains; empty if not asked for.
        changes: one row per set-up and change; empty if not asked for.
        curves: throughput against threads of the set-ups with a validated network.
    """

    reasons: list[str]
    sentences: list[str]
    changes: pl.DataFrame
    curves: pl.DataFrame


def predict_with_networks(dataset: str, question: Question, *, changes: bool = False) -> Predictions:
    """Predictions for the set-ups of a dataset, as far as a page shows them.

    Args:
        dataset: folder of the dataset.
        question: the runs that enter, and the level.
        changes: also predict the effects of changes.
    """
    content = open_dataset(dataset).content_hash
    place = question.resources, question.phase, question.workload
    found, curves = _fit_networks(dataset, content, *place, question.level, question.include_status)
    effects = list_what_if_effects(found) if changes else []
    sentences = write_what_if_sentences(effects) if changes else []
    return Predictions(write_curve_sentences(found), sentences, tabulate_what_if_effects(effects), curves.clone())


@lru_cache(maxsize=2)
def _fit_networks(
    dataset: str,
    content: str,  # noqa: ARG001 - the same folder with other content has other networks
    resources: str,
    phase: str,
    workload: str,
    level: float,
    include_status: tuple[str, ...],
) -> tuple[tuple[WhatIf, ...], pl.DataFrame]:
    """The networks and curves, which two reports show; a process that makes both computes them once."""
    question = Question(resources, phase, workload, include_status, level=level)
    found = predict_blocked_time(open_dataset(dataset), question)
    return found, tabulate_curves(found, level=level)


def list_what_if_effects(found: Sequence[WhatIf]) -> list[Effects]:
    """The predicted effects of changes of each set-up, validated set-ups first."""
    return [(one, predicted_changes(one)) for one in _sort_what_ifs(found)]


def write_what_if_sentences(effects: Sequence[Effects], most: int = _MOST) -> list[str]:
    """The number of set-ups with a validated network; then the gains of at most `most`, in the order given."""
    if not effects:
        return ["No prediction: no run has both traced statements and the client's latencies."]
    head = _count_validated_networks([one for one, _ in effects])
    return [head, *(f"{_name(one)}: {_describe_what_if(one, changes)}" for one, changes in effects[:most])]


def _sort_what_ifs(found: Sequence[WhatIf]) -> list[WhatIf]:
    """Set-ups with a prediction first, then by the number of thread counts."""
    return sorted(found, key=lambda one: (one.refused is not None, -len(one.thread_counts)))


def _name(one: WhatIf) -> str:
    """A set-up in words: its operation, size, and other distinctions."""
    empty = {None, ("operations", UNTIL_TIME_IS_UP), ("records", 0)}
    rest = {name: value for name, value in one.configuration.items() if empty.isdisjoint({value, (name, value)})}
    phase, workload = (str(rest.pop(name)) if name in rest else None for name in ("phase", "workload"))
    operation = format_operation_name(phase, workload) or "unknown operation"
    size, system = rest.pop("workers", None), str(rest.pop("system", ""))
    family, held, drivers = str(rest.pop("family", "")), rest.pop("cpu_per_node", ""), rest.pop("drivers", 1)
    parts = [
        f"{operation} on {format_cluster_size(size)}" if isinstance(size, int) else operation,
        "" if repeats_system(system, family) else system,
        format_setup_value("family", family),
        f"{held} cores per node" if held else "",
        f"{drivers} load generators" if drivers != 1 else "",
        format_configuration(rest),
    ]
    return ", ".join(filter(None, parts))


def _count_validated_networks(found: Sequence[WhatIf]) -> str:
    passed, set_ups = sum(one.refused is None for one in found), pluralize(len(found), "set-up")
    if not passed:
        return f"No queueing network predicted thread counts that it was not fitted to ({set_ups} with traces)."
    head = f"Queueing networks predicted thread counts that they were not fitted to in {passed} of {set_ups}"
    return f"{head}; only these have predictions by a network."


def _describe_what_if(one: WhatIf, changes: Sequence[Predicted]) -> str:
    if one.refused is None:
        known = [(change.factor, change) for change in changes if change.factor is not None]
        best = max(known, key=lambda pair: pair[0], default=None)
        return (
            "the runs do not decide the effect of any change." if best is None else _describe_largest_gain(one, best[1])
        )
    least = min(changes, key=_get_response_time, default=None)
    return (
        "no network predicts this set-up "
        f"({one.refused}).{'' if least is None else _describe_blocked_change(one, least)}"
    )


def _get_response_time(change: Predicted) -> float:
    return math.inf if change.response_us is None else change.response_us.estimate


def _describe_largest_gain(one: WhatIf, change: Predicted) -> str:
    rate, middle = change.throughput_ops_s, ""
    if rate is not None:
        middle = (
            f"{format_number(rate.estimate)} [{format_number(rate.low)}, {format_number(rate.high)}] operations/s, "
        )
    return f"at {one.threads} threads the largest gain is that of {change.change}: {middle}{change.factor:.2f}-fold."


def _describe_blocked_change(one: WhatIf, change: Predicted) -> str:
    now, rate = one.response_us.estimate, change.throughput_ops_s
    part, then = change.change.removesuffix(" halved"), format_number(_get_response_time(change) / 1000)
    said = f" With half the {part} and all other times unchanged, at {one.threads} threads an operation would"
    said += f" take {then} ms instead of {format_number(now / 1000)} ms"
    if rate is None:
        return f"{said}."
    before = format_number(one.throughput_ops_s.estimate)
    return f"{said}, and throughput would be {format_number(rate.estimate)} instead of {before} operations/s."


def tabulate_what_if_effects(effects: Sequence[Effects]) -> pl.DataFrame:
    """One row per set-up and change: the effect of the change, or why it is unknown."""
    parts = [
        change_table(changes).select(pl.lit(_name(one)).alias("set_up"), pl.lit(one.threads).alias("threads"), pl.all())
        for one, changes in effects
    ]
    ends = {f"{name}_{end}": f"{name}_{unit}_{end}" for name, unit in _UNITS.items() for end in ("low", "high")}
    return pl.concat(parts).rename(ends) if parts else pl.DataFrame()


def write_curve_sentences(found: Sequence[WhatIf]) -> list[str]:
    """The number of set-ups with a curve of a queueing network, and the reasons why the others have none."""
    if not found:
        return ["No queueing network: no run has both traced statements and the client's latencies."]
    reasons = Counter(_simplify_refusal(one.refused) for one in found if one.refused is not None)
    listing = [f"{pluralize(number, 'set-up')}: {reason}" for reason, number in reasons.items()]
    return [_count_validated_networks(found), *([f"No curve: {'; '.join(listing)}."] if listing else [])]


def _simplify_refusal(refused: str) -> str:
    """The kind of a refusal, without the numbers of one set-up."""
    return next((kind for said, kind in _REASONS.items() if said in refused), refused)


def tabulate_curves(found: Sequence[WhatIf], *, level: float = LEVEL) -> pl.DataFrame:
    """Throughput against threads of each set-up with a validated network, with curves of Amdahl's law and the USL."""
    parts = [
        throughput_curves(one, level=level).select(pl.lit(_name(one)).alias("set_up"), pl.all())
        for one in _sort_what_ifs(found)
        if one.refused is None
    ]
    return pl.concat(parts) if parts else pl.DataFrame()
