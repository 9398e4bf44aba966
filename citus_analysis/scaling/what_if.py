"""What a change would gain, predicted from traced statements, with an interval from configurations that were left out.

1. *Population*: the change says which statements are executed elsewhere. Where they go, each kind of statement needs
   the time that statements of this kind, executed there, needed without waiting.
2. *Throughput*: the closed loop of :mod:`citus_analysis.scaling.closed_loop`, fitted to all comparable configurations.
   The measured throughput of the base is multiplied by the model's ratio.
3. *Interval*: each configuration is predicted from the others by a model that was fitted without its throughput. The
   mean square of the logarithms of these ratios over the measured ones is the error of the model (and of the
   measurements it is held against); to it is added how the prediction varies with the runs that were fitted.
4. *Terms*: the mean response time of the base is divided into segments as traced. What the change takes from each of
   them, and the waiting that follows from the new load, add up to the difference.

References:
    Lazowska, E. D. et al. (1984). Quantitative System Performance, chapter 13 (modification analysis).
    Ousterhout, K. et al. (2015). Making sense of performance in data analytics frameworks. NSDI (blocked time).
    Stone, M. (1974). Cross-validatory choice and assessment of statistical predictions. JRSS B 36.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl
from scipy.stats import norm, t

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import resolve_tables
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import CitusAnalysisError, InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.runs.selection import Question, select_named_runs, split_names
from citus_analysis.scaling.closed_loop import (
    WAITINGS,
    ActiveTimes,
    ClosedLoopModel,
    KindMix,
    Load,
    Waiting,
    describe_load,
    fit_closed_loop,
    pool_active_times,
)
from citus_analysis.scaling.traced_configurations import (
    MOST_MULTI_SHARD,
    TracedConfiguration,
    read_traced_configurations,
)
from citus_analysis.stats.results import Interval
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.words import join_words, pluralize
from citus_analysis.units import US_PER_MS, US_PER_S

#: Changes without a value, and what they do.
PLAIN_CHANGES: Final = {
    "owner-routing": "each statement of one shard arrives at the node of its shard",
    "cached-connections": "no statement makes a connection to another node",
    "coordinator": "clients connect to the coordinator",
    "any-node": "clients connect to all nodes that hold shards",
    "binary": "nodes talk over the binary protocol",
    "text": "nodes talk over the text protocol",
}
#: Changes with a number.
VALUE_CHANGES: Final = {
    "threads": "clients use {} threads",
    "workers": "{} nodes hold shards",
    "node-cpu": "each node has {} times the CPU",
    "pool-size": "a pool before each node has {} connections to its server",
}
#: Sizes and loads are predicted up to this many times beyond those that were measured.
_REACH: Final = 2.0
#: Fewest comparable configurations, if the CPU of single nodes was not sampled.
_FEWEST: Final = 3
#: Error (standard deviation of the logarithm) where no configuration can be left out: that of the demonstration.
MODEL_ERROR: Final = 0.15
SEGMENTS: Final = {
    "parent": "the parent's own work and waiting",
    "connecting": "connections to other nodes",
    "between": "the wait between parent and child",
    "child": "the child's work and waiting",
    "outside": "what is outside traced statements",
    "load": "waiting that follows from the new load",
}
#: Error of the model from which on it hardly describes the system.
_MUCH: Final = 0.35
#: Changes of which and how many nodes work, and with how much CPU.
_OF_NODES: Final = ("coordinator", "any-node", "workers", "node-cpu")
#: Segments named in a sentence.
_NAMED: Final = 3


@dataclass(frozen=True)
class Change:
    """A change, as it is typed.

    Attributes:
        name: one of `PLAIN_CHANGES` or `VALUE_CHANGES`.
        value: its number; 0 for a change without one.
    """

    name: str
    value: float = 0.0

    def __str__(self) -> str:
        if not self.value:
            return self.name
        return f"{self.name}={'x' if self.name == 'node-cpu' else ''}{self.value:g}"


def parse_change(text: str) -> Change:
    """Read a change.

    Raises:
        UnknownNameError: no change is named so.
        UsageError: its number is missing or not positive.

    Example:
        >>> parse_change("node-cpu=x2"), str(parse_change("threads=64"))
        (Change(name='node-cpu', value=2.0), 'threads=64')
    """
    name, equals, value = text.strip().partition("=")
    if name in PLAIN_CHANGES and not equals:
        return Change(name)
    if name not in VALUE_CHANGES:
        known = [*PLAIN_CHANGES, *(f"{one}=N" for one in VALUE_CHANGES)]
        raise UnknownNameError("change", text, known)
    try:
        number = float(value.lower().removeprefix("x"))
    except ValueError:
        number = 0.0
    whole = name == "node-cpu" or number == int(number)
    if not (0 < number < math.inf and whole):
        example = "x2" if name == "node-cpu" else "8"
        raise UsageError(f"{text!r} has no positive number that a change needs", hint=f"write {name}={example}")
    return Change(name, number)


@dataclass(frozen=True, repr=False)
class WhatIf(DisplayMixin):
    """A prediction: what a change would do to a measured configuration.

    Attributes:
        change: as it is typed.
        meaning: the change in words.
        base: name of the configuration.
        operation: what its clients do.
        base_ops_s: its mean throughput.
        base_us: its mean response time.
        ratio: predicted throughput over that of the base.
        throughput_ops_s: predicted.
        response_us: predicted mean response time.
        terms: `segment`, `base_us`, `change_us`, `after_us`: what the response time is made of; adds up to both.
        statements: traced statements of the base.
        counterpart: name of the measured configuration that is the base with the change; empty if there is none.
        measured_ratio: its mean throughput over that of the base; None if there is none.
        left_out: one row per pair of configurations that differ in one axis: `base`, `changed`, `change`, `predicted`,
            `low`, `high`, `measured`, `inside`.
        model_error: standard deviation of the logarithm of predicted over measured ratios.
        assumptions: what the prediction takes for granted.
        warnings: what it cannot say.
    """

    change: str
    meaning: str
    base: str
    operation: str
    base_ops_s: float
    base_us: float
    ratio: Interval
    throughput_ops_s: Interval
    response_us: Interval
    terms: pl.DataFrame
    statements: int
    counterpart: str
    measured_ratio: float | None
    left_out: pl.DataFrame
    model_error: float
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def inside(self) -> bool | None:
        """Whether the measured ratio lies in the predicted interval; None if it was not measured."""
        return None if self.measured_ratio is None else self.ratio.low <= self.measured_ratio <= self.ratio.high

    @property
    def sentences(self) -> tuple[str, ...]:
        """The prediction in words."""
        return tuple(_write_sentences(self))

    def summary_lines(self) -> list[str]:
        """The prediction, what it is made of, and how it was checked."""
        notes = [f"assumed: {text}" for text in self.assumptions] + [f"note: {text}" for text in self.warnings]
        return [*self.sentences, *notes]

    def summary_table(self) -> pl.DataFrame | None:
        """The terms."""
        return self.terms

    def to_study(self) -> WhatIfStudy:
        """This prediction alone, as a study of several."""
        return WhatIfStudy((self,), pl.DataFrame(schema=_REFUSED), self.left_out)

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        names = ("change", "meaning", "base", "operation", "base_ops_s", "base_us", "statements", "counterpart")
        return {
            "kind": "prediction",
            **{name: getattr(self, name) for name in names},
            **self.ratio.record("ratio"),
            **self.throughput_ops_s.record("throughput_ops_s"),
            **self.response_us.record("response_us"),
            "level": self.ratio.level,
            "terms": self.terms.to_dicts(),
            "measured_ratio": self.measured_ratio,
            "inside": self.inside,
            "model_error": self.model_error,
            "left_out": self.left_out.to_dicts(),
            **{name: list(getattr(self, name)) for name in ("sentences", "assumptions", "warnings")},
        }


@dataclass(frozen=True, repr=False)
class WhatIfStudy(DisplayMixin):
    """Predictions of all changes for the configurations of a dataset that have most like them.

    Attributes:
        predictions: one per configuration and change.
        refused: `base`, `change`, `reason`.
        left_out: those of all predictions, each pair once.
    """

    predictions: tuple[WhatIf, ...]
    refused: pl.DataFrame
    left_out: pl.DataFrame

    def summary_lines(self) -> list[str]:
        """How many measured ratios lie in their predicted intervals, and the largest predicted gains."""
        lines = [describe_left_out(self.left_out)] if self.left_out.height else []
        sure = [one for one in self.predictions if one.ratio.low > 1]
        best = sorted(sure, key=lambda one: -one.ratio.estimate)
        if not self.predictions:
            lines = [f"No change is predicted: {reason}." for reason in self.refused["reason"].head(1)]
        return [*lines, *(one.sentence() for one in best[:_NAMED])]

    def summary_table(self) -> pl.DataFrame | None:
        """One row per configuration and change: predicted and, where it was measured, measured."""
        rows = [
            {
                "base": one.base,
                "change": one.change,
                "base_ops_s": one.base_ops_s,
                "predicted_ops_s": one.throughput_ops_s.estimate,
                "ratio": one.ratio.estimate,
                "ratio_low": one.ratio.low,
                "ratio_high": one.ratio.high,
                "base_us": one.base_us,
                "predicted_us": one.response_us.estimate,
                "measured_ratio": one.measured_ratio,
                "inside": one.inside,
            }
            for one in self.predictions
        ]
        return pl.DataFrame(rows, schema_overrides={"measured_ratio": pl.Float64, "inside": pl.Boolean})


def what_if(
    source: object,
    change: str | Change,
    at: str = "",
    *,
    level: float = LEVEL,
    include_status: str | Collection[str] = (),
) -> WhatIf:
    """Predict throughput and mean response time after a change, from traced statements.

    Args:
        source: a dataset, or the path of one or of raw files.
        change: `owner-routing`, `cached-connections`, `coordinator`, `any-node`, `binary`, `text`, `threads=N`,
            `workers=N`, `node-cpu=x2` or `pool-size=N`.
        at: the configuration: a resource (or pattern), set-up, or `column=value,column=value`. May be left out if
            there is only one.
        level: level of the interval.
        include_status: `degraded` to use degraded runs as well.

    Raises:
        UnknownNameError: there is no such change or configuration.
        UsageError: `at` fits several configurations.
        InsufficientDataError: the traces cannot know; the message says why in one sentence.

    Example:
        >>> import citus_analysis as ca
        >>> print(ca.what_if(".cache/dataset", "owner-routing", at="citus-w4-t32-c"))  # doctest: +SKIP
    """
    wanted = parse_change(change) if isinstance(change, str) else change
    question = Question(include_status=split_names(include_status), level=level)
    configurations = read_traced_configurations(resolve_tables(source), question)
    base = choose_configuration(configurations, at)
    return predict_change(base, wanted, configurations, level=level)


def study_what_if(source: object, question: Question) -> WhatIfStudy:
    """Predict all changes for the configurations of a dataset that have most like them, one for each operation.

    Args:
        source: a dataset, or the path of one or of raw files.
        question: the runs that enter, and the level.
    """
    predictions, refused, left_out = [], [], []
    try:
        configurations = read_traced_configurations(resolve_tables(source), question)
    except InsufficientDataError as error:
        return WhatIfStudy((), pl.DataFrame([("", "", error.problem)], schema=_REFUSED, orient="row"), pl.DataFrame())
    if not any(one.workers for one in configurations):
        names = [one.name for one in configurations]
        refused += [{"base": name, "change": "", "reason": _NO_CLUSTER.format(name)} for name in names]
    for base in _choose_bases(configurations):
        alike = _list_comparable(base, configurations)
        check = CrossValidation(alike, pool_active_times(alike))
        for change in _list_changes(base, configurations):
            try:
                found = predict_change(base, change, configurations, level=question.level, check=check)
            except CitusAnalysisError as error:
                refused.append({"base": base.name, "change": str(change), "reason": error.problem})
                continue
            predictions.append(found)
            left_out.append(found.left_out)
    pairs = pl.concat(left_out).unique(maintain_order=True) if left_out else pl.DataFrame()
    return WhatIfStudy(tuple(predictions), pl.DataFrame(refused, schema=_REFUSED), pairs)


_REFUSED: Final = dict.fromkeys(("base", "change", "reason"), pl.String())


def choose_configuration(configurations: Sequence[TracedConfiguration], at: str) -> TracedConfiguration:
    """The one configuration that a text names.

    Raises:
        UnknownNameError: it names none.
        UsageError: it names several.
    """
    if named := [one for one in configurations if one.name == at]:
        return named[0]
    facts = pl.DataFrame(
        [{"name": one.name, "set_up": one.facts["family"], **one.facts, "entry": one.entry} for one in configurations],
        infer_schema_length=None,
    ).with_row_index("place")
    found = select_named_runs(facts, at) if at else facts
    if found.height > 1:
        names = join_words([str(name) for name in found["name"]], most=6)
        raise UsageError(
            f"{found.height} configurations have traced statements{f' and fit {at}' if at else ''}: {names}",
            hint="choose one with --at (at=)",
        )
    return configurations[int(found["place"].item())]


def _choose_bases(configurations: Sequence[TracedConfiguration]) -> list[TracedConfiguration]:
    """For each operation, the configuration with most configurations that differ from it in one axis."""
    found: dict[object, tuple[int, TracedConfiguration]] = {}
    for one in configurations:
        near = sum(len(_find_changed_axes(one, other)) == 1 for other in _list_comparable(one, configurations))
        if near > found.get(one.held, (0, one))[0]:
            found[one.held] = (near, one)
    return [one for _, one in found.values()]


def _list_changes(base: TracedConfiguration, configurations: Sequence[TracedConfiguration]) -> list[Change]:
    """Changes without a value, those that were measured, and twice of each size."""
    alike = _list_comparable(base, configurations)
    entry = "coordinator" if base.entry == "any node" else "any-node"
    plain = [
        Change(name) for name in (*(["owner-routing"] if base.entry != "owner" else []), "cached-connections", entry)
    ]
    plain.append(Change("text" if base.protocol == "binary" else "binary"))
    sizes: dict[str, list[float]] = {
        "threads": [*(one.threads for one in alike), 2 * base.threads],
        "workers": [*(one.workers for one in alike), 2 * base.workers],
        "node-cpu": [*(one.cores / base.cores for one in alike), 2.0],
        "pool-size": [1, 4, 16],
    }
    now = {"threads": base.threads, "workers": base.workers, "node-cpu": 1.0}
    values = [(name, value) for name, some in sizes.items() for value in sorted(set(some)) if value != now.get(name)]
    return [*plain, *(Change(name, float(value)) for name, value in values)]


def _list_comparable(
    base: TracedConfiguration, configurations: Sequence[TracedConfiguration]
) -> list[TracedConfiguration]:
    """The comparable configurations, the base among them, that can be modelled.

    Of several set-ups that differ in their name alone, the base's is taken, or the one with most configurations.
    """
    usable = [one for one in configurations if one.workers and one.multi_shard <= MOST_MULTI_SHARD]
    near = [one for one in usable if one.is_comparable(base)]
    names = Counter((one.named_after, one.facts["family"]) for one in near)
    usual: dict[object, object] = {}
    for (axes, family), _ in names.most_common():
        usual.setdefault(axes, family)
    usual[base.named_after] = base.facts["family"]
    return [one for one in near if usual[one.named_after] == one.facts["family"]]


def _find_changed_axes(one: TracedConfiguration, other: TracedConfiguration) -> list[str]:
    return [name for name, value in one.axes.items() if other.axes[name] != value]


def predict_change(
    base: TracedConfiguration,
    change: Change,
    configurations: Sequence[TracedConfiguration],
    *,
    level: float = LEVEL,
    check: CrossValidation | None = None,
) -> WhatIf:
    """The prediction of a change of a configuration; see :func:`what_if`.

    Args:
        base: the configuration.
        change: the change.
        configurations: all that were measured.
        level: level of the interval.
        check: what was left out for another change of this base, which need not be done again.

    Raises:
        InsufficientDataError: the traces cannot know.
    """
    if base.workers < 1:
        raise InsufficientDataError(_NO_CLUSTER.format(base.name))
    if base.multi_shard > MOST_MULTI_SHARD:
        raise InsufficientDataError(
            f"{base.multi_shard:.0%} of the statements of {base.name} have tasks on several shards, whose waiting for "
            "one another traces of single statements do not predict"
        )
    if base.is_shared and change.name in _OF_NODES:
        raise InsufficientDataError(
            f"the nodes of {base.name} share the processors of a machine, which no stated limit divides: what {change} "
            "would be with processors of their own is not known"
        )
    if base.facts.get("limit"):
        raise InsufficientDataError(
            f"the clients of {base.name} send at a rate of their own: a closed loop does not describe them"
        )
    alike = check.alike if check else _list_comparable(base, configurations)
    active = check.active if check else pool_active_times(alike)
    load = change_load(base, change)
    _refuse_unknown(base, change, load, alike, active)
    counterpart = _find_counterpart(base, load, change, alike)
    check = check or CrossValidation(alike, active)
    model = check.fit_without(counterpart)
    ratio = model.predict(load) / model.predict(describe_load(base))
    sampling = _estimate_sampling_variance(model, load, base, [one for one in alike if one is not counterpart])
    error, targets = check.estimate_error(counterpart)
    factor = _compute_factor(error, targets, sampling, level)
    method = "left-out configurations" if targets else "error of the demonstration"
    base_ops_s, base_us = float(np.mean(base.throughput_ops_s)), float(np.mean(base.response_us))
    predicted = Interval(ratio, ratio / factor, ratio * factor, level, len(alike), method)
    throughput = predicted.scaled(base_ops_s)
    threads = base.threads if change.name == "pool-size" else load.threads
    least_us = min(max(_client_time(one), 0.0) for one in alike)
    in_system = base_us / (base.threads / base_ops_s * US_PER_S - least_us)

    def respond(rate: float) -> float:
        return max(in_system * (threads / rate * US_PER_S - least_us), 0.0)

    response = Interval(
        respond(throughput.estimate), respond(throughput.high), respond(throughput.low), level, len(alike), method
    )
    terms, notes = _divide_response(base, load, active, response.estimate)
    if targets and error > _MUCH:
        notes.append(
            f"the model misses what was measured by {math.expm1(error):.0%}: nodes may share processors, or something "
            "else than processors is the limit"
        )
    return WhatIf(
        change=str(change),
        meaning=_describe_change(change),
        base=base.name,
        operation=base.operation,
        base_ops_s=base_ops_s,
        base_us=base_us,
        ratio=predicted,
        throughput_ops_s=throughput,
        response_us=response,
        terms=terms,
        statements=sum(one.local + one.remote for one in base.statements),
        counterpart=counterpart.name if counterpart else "",
        measured_ratio=float(np.mean(counterpart.throughput_ops_s)) / base_ops_s if counterpart else None,
        left_out=check.tabulate(level),
        model_error=error,
        assumptions=tuple(_list_assumptions(base, change, model)),
        warnings=tuple(notes if targets else [*notes, _NOT_LEFT_OUT]),
    )


_NOT_LEFT_OUT: Final = (
    "no configuration could be left out: the interval takes the error of the model from the demonstration "
    f"({MODEL_ERROR:.0%})"
)


def _compute_factor(error: float, targets: int, sampling: float, level: float) -> float:
    """What the estimate is divided and multiplied by for the ends of its interval."""
    place = 0.5 + level / 2
    reach = t.ppf(place, max(targets - 1, 1)) if targets else norm.ppf(place)
    return math.exp(min(float(reach) * math.sqrt(error**2 + sampling), 50.0))


def _client_time(one: TracedConfiguration) -> float:
    """Time of a thread outside the response times that the client measured, µs per operation."""
    return float(np.mean(one.threads / one.throughput_ops_s * US_PER_S - one.response_us))


def change_load(base: TracedConfiguration, change: Change) -> Load:
    """The load of a configuration after a change.

    Raises:
        InsufficientDataError: the change changes nothing.
    """
    before = describe_load(base)
    changed = _SIZED[change.name](before, change.value) if change.value else _PLAIN[change.name](before)
    if changed == before:
        raise InsufficientDataError(f"{change} changes nothing: {base.name} was measured so")
    return changed


def _execute_locally(load: Load, share: float) -> tuple[KindMix, ...]:
    """Statements of which this share is executed by the node that receives them."""
    return tuple(replace(one, local_share=min(1.0, share)) for one in load.statements)


def _change_workers(load: Load, workers: float) -> Load:
    """With more nodes, fewer statements arrive at the node of their shard."""
    mix = load.statements if load.entry != "any node" else tuple(
        replace(one, local_share=min(1.0, one.local_share * load.workers / workers)) for one in load.statements
    )  # fmt: skip
    return replace(load, workers=int(workers), statements=mix)


def _pool_sessions(load: Load, size: float) -> Load:
    """Only so many threads are in a node at once; the others wait outside."""
    entered = 1 if load.entry == "coordinator" else load.workers
    return replace(load, threads=min(load.threads, int(size) * entered))


def _enter_anywhere(load: Load) -> Load:
    if load.entry == "any node":
        return load
    return replace(load, entry="any node", statements=_execute_locally(load, 1 / load.workers))


_PLAIN: Final[dict[str, Callable[[Load], Load]]] = {
    "owner-routing": lambda load: replace(load, entry="owner", statements=_execute_locally(load, 1.0)),
    "cached-connections": lambda load: replace(load, connects=False, reconnects=0.0),
    "coordinator": lambda load: replace(load, entry="coordinator", statements=_execute_locally(load, 0.0)),
    "any-node": _enter_anywhere,
    "binary": lambda load: replace(load, protocol="binary"),
    "text": lambda load: replace(load, protocol="text"),
}
_SIZED: Final[dict[str, Callable[[Load, float], Load]]] = {
    "threads": lambda load, value: replace(load, threads=int(value)),
    "workers": _change_workers,
    "node-cpu": lambda load, value: replace(load, cores=load.cores * value),
    "pool-size": _pool_sessions,
}


_NO_CLUSTER: Final = "{} is no cluster: it has no worker whose shards could be asked"


def _has_local_commits(kind: str, configurations: Sequence[TracedConfiguration]) -> bool:
    """Whether the traced times of local statements of a kind contain commits in some configuration."""
    return any(one.local_commits for each in configurations for one in each.statements if one.kind == kind)


def _refuse_unknown(
    base: TracedConfiguration,
    change: Change,
    load: Load,
    alike: Sequence[TracedConfiguration],
    active: ActiveTimes,
) -> None:
    """Refuse what the traces cannot know."""
    for one in load.statements:
        needed = [("local", one.local_share > 0), ("parent", one.local_share < 1)]
        needed.append((f"child {load.protocol}", one.local_share < 1))
        for place, is_needed in needed:
            if is_needed and (one.kind, place) not in active:
                where = {"local": "by the node that received it", "parent": "on another node"}.get(place)
                how = where or f"on another node over the {load.protocol} protocol"
                raise InsufficientDataError(
                    f"no {one.kind.upper()} that was executed {how} was traced in a configuration like {base.name}: "
                    "how long it takes there is not known"
                )
    moved = [
        one for one, after in zip(base.statements, load.statements, strict=True) if one.local_share != after.local_share
    ]
    dear = next((one for one in moved if one.writes and _has_local_commits(one.kind, (base, *alike))), None)
    if dear is not None:
        raise InsufficientDataError(
            f"the traced times of {dear.kind.upper()}s that a node executed itself contain their commits (simple "
            "queries), which wait for the WAL: how much of them is work of the processor is not known",
            hint="trace clients that use the extended protocol, such as prepared statements",
        )
    if change.name in ("binary", "text") and any(one.writes for one in base.statements):
        raise InsufficientDataError(
            "over the text protocol a child's duration contains the commit, over the binary one it does not: what the "
            "protocol itself costs a statement that writes is not known"
        )
    if len(alike) < _FEWEST and base.busy is None:
        raise InsufficientDataError(
            f"{pluralize(len(alike), 'configuration')} like {base.name} {'was' if len(alike) == 1 else 'were'} "
            "measured, and the CPU of single nodes was not sampled: how much of the response time is waiting for "
            "processors is not known",
            hint="measure it with other numbers of threads, or sample the nodes' CPU",
        )
    if change.name == "node-cpu" and base.facts.get("cpu_per_node") is None and base.busy is None:
        raise InsufficientDataError(f"the CPU of the nodes of {base.name} was neither stated nor sampled")
    for name in ("threads", "workers", "cores"):
        measured = [getattr(one, name) for one in alike]
        wanted = getattr(load, name)
        if change.name != "pool-size" and not min(measured) / _REACH <= wanted <= max(measured) * _REACH:
            raise InsufficientDataError(
                f"{name}={wanted:g} is more than {_REACH:g} times beyond what was measured "
                f"({min(measured):g} to {max(measured):g})"
            )


def _find_counterpart(
    base: TracedConfiguration, load: Load, change: Change, alike: Sequence[TracedConfiguration]
) -> TracedConfiguration | None:
    """The measured configuration that is the base with the change."""
    if change.name in ("cached-connections", "pool-size"):
        return None
    axes = {name: getattr(load, name) for name in base.axes}
    return next((one for one in alike if one.axes == axes and one is not base), None)


class CrossValidation:
    """Models fitted without each configuration, and how far they miss the ratios that were measured."""

    def __init__(self, alike: Sequence[TracedConfiguration], active: ActiveTimes) -> None:
        self.alike, self.active = alike, active
        self.possible = len(alike) >= _FEWEST
        self._tables: dict[float, pl.DataFrame] = {}
        candidates: list[tuple[float, Waiting, dict[str, ClosedLoopModel]]] = []
        for waiting in WAITINGS if self.possible else WAITINGS[:1]:
            models = {
                one.name: fit_closed_loop([other for other in alike if other is not one], waiting, active)
                for one in (alike if self.possible else ())
            }
            missed = [self._miss(models[one.name], one) for one in alike if models]
            candidates.append((float(np.sum(np.square(missed))), waiting, models))
        _, self.waiting, self.models = min(candidates, key=lambda one: one[0])
        self.pairs = [
            (base, target, self._predict_ratio(self.models[target.name], base, target))
            for target in alike
            for base in alike
            if self.models and len(_find_changed_axes(base, target)) == 1
        ]

    @staticmethod
    def _predict_ratio(model: ClosedLoopModel, base: TracedConfiguration, target: TracedConfiguration) -> float:
        return model.predict(describe_load(target)) / model.predict(describe_load(base))

    @staticmethod
    def _miss(model: ClosedLoopModel, one: TracedConfiguration) -> float:
        return math.log(model.predict(describe_load(one)) / float(np.mean(one.throughput_ops_s)))

    def fit_without(self, counterpart: TracedConfiguration | None) -> ClosedLoopModel:
        """The model of a prediction, which knows nothing of the throughput that it predicts."""
        if counterpart is not None and counterpart.name in self.models:
            return self.models[counterpart.name]
        return fit_closed_loop([one for one in self.alike if one is not counterpart], self.waiting, self.active)

    def estimate_error(self, without: TracedConfiguration | None = None) -> tuple[float, int]:
        """Root mean square of log ratios over measured ones, and the number of configurations that were predicted."""
        kept = [pair for pair in self.pairs if without is None or without not in pair[:2]]
        if not kept:
            return MODEL_ERROR, 0
        missed = [math.log(ratio / measure_ratio(base, target)) for base, target, ratio in kept]
        return float(np.sqrt(np.mean(np.square(missed)))), len({target.name for _, target, _ in kept})

    def tabulate(self, level: float) -> pl.DataFrame:
        """All pairs: predicted, with the interval that the other pairs give, and measured."""
        if level not in self._tables:
            self._tables[level] = self._compare_pairs(level)
        return self._tables[level]

    def _compare_pairs(self, level: float) -> pl.DataFrame:
        rows = []
        for base, target, ratio in self.pairs:
            error, targets = self.estimate_error(target)
            others = [one for one in self.alike if one is not target]
            sampling = _estimate_sampling_variance(self.models[target.name], describe_load(target), base, others)
            factor = _compute_factor(error, targets, sampling, level)
            measured = measure_ratio(base, target)
            (axis,) = _find_changed_axes(base, target)
            value = target.axes[axis]
            rows.append(
                {
                    "base": base.name,
                    "changed": target.name,
                    "change": f"{axis}: {base.axes[axis]} to {value}",
                    "predicted": ratio,
                    "low": ratio / factor,
                    "high": ratio * factor,
                    "measured": measured,
                    "inside": ratio / factor <= measured <= ratio * factor,
                }
            )
        return pl.DataFrame(rows, schema=_LEFT_OUT)


_LEFT_OUT: Final = {
    **dict.fromkeys(("base", "changed", "change"), pl.String()),
    **dict.fromkeys(("predicted", "low", "high", "measured"), pl.Float64()),
    "inside": pl.Boolean(),
}


def measure_ratio(base: TracedConfiguration, target: TracedConfiguration) -> float:
    """Mean throughput of a configuration over that of another."""
    return float(np.mean(target.throughput_ops_s) / np.mean(base.throughput_ops_s))


def _estimate_sampling_variance(
    model: ClosedLoopModel, load: Load, base: TracedConfiguration, fitted: Sequence[TracedConfiguration]
) -> float:
    """Variance of the logarithm of the predicted ratio, from the spread of the runs that were fitted.

    The runs of each configuration are resampled to first order (infinitesimal jackknife, Efron 1982, chapter 6).
    """
    slopes = model.differentiate(load) - model.differentiate(describe_load(base))
    logs = [np.log(one.throughput_ops_s) for one in fitted]
    variances: Floats = np.array([float(np.var(one, ddof=1)) / len(one) if len(one) > 1 else 0.0 for one in logs])
    return float(np.square(slopes[: len(variances)]) @ variances)


def _divide_response(
    base: TracedConfiguration, load: Load, active: ActiveTimes, response_us: float
) -> tuple[pl.DataFrame, list[str]]:
    """The terms of the response time before and after, and what is to be said of them."""
    measured = float(np.mean(base.response_us))
    before = _sum_segments(base, describe_load(base), active)
    after = _sum_segments(base, load, active)
    notes = []
    traced = sum(before.values())
    if traced > measured:
        notes.append(
            f"sampled statements took {format_number(traced / US_PER_MS)} ms, longer than the client's operations: "
            "their segments are scaled to these"
        )
        before, after = ({name: value * measured / traced for name, value in one.items()} for one in (before, after))
        traced = measured
    if any(one.writes for one in base.statements):
        notes.append(
            "the commit of a statement that another node executes is in the wait between parent and child (over the "
            "text protocol: in the child's work); that of others is "
            + (
                "in their own work"
                if any(one.local_commits for one in base.statements)
                else "outside traced statements"
            )
        )
    before["outside"] = after["outside"] = measured - traced
    before["load"], after["load"] = 0.0, response_us - sum(after.values())
    rows = {
        "segment": list(SEGMENTS),
        "base_us": [before[name] for name in SEGMENTS],
        "change_us": [after[name] - before[name] for name in SEGMENTS],
        "after_us": [after[name] for name in SEGMENTS],
    }
    return pl.DataFrame(rows), notes


def _sum_segments(base: TracedConfiguration, load: Load, active: ActiveTimes) -> dict[str, float]:
    """Segments of an operation with the waiting of the base, if its statements are executed as the load has it."""
    found = dict.fromkeys(("parent", "connecting", "between", "child"), 0.0)
    remote = 0.0
    for mix, times in zip(load.statements, base.statements, strict=True):
        here, away = mix.per_operation * mix.local_share, mix.per_operation * (1 - mix.local_share)
        local_us, parent_us = times.mean_us["local"], times.mean_us["parent"]
        if here and not np.isfinite(local_us):
            local_us = parent_us * active[mix.kind, "local"] / active[mix.kind, "parent"]
        if away and not np.isfinite(parent_us):
            parent_us = local_us * active[mix.kind, "parent"] / active[mix.kind, "local"]
        found["parent"] += (here * local_us if here else 0.0) + (away * parent_us if away else 0.0)
        for name in ("between", "child"):
            value = times.mean_us[name]
            found[name] += away * value if away and np.isfinite(value) else 0.0
        remote += away
    if remote and load.connects:
        peers = load.workers if load.entry == "coordinator" else load.workers - 1
        found["connecting"] = base.connections_us * load.threads * peers * load.connections_per_peer / base.operations
    found["connecting"] += base.connections_us * load.reconnects * remote
    return found


def _list_assumptions(base: TracedConfiguration, change: Change, model: ClosedLoopModel) -> Iterable[str]:
    yield "tables and working memory fit into the nodes' memory as before, and keys are spread evenly over the nodes"
    yield (f"nodes' processors are what operations queue for, by {model.waiting}; the network and disks wait as before")
    if change.name == "owner-routing":
        yield "as many sessions as before, spread over the nodes; a client knows the node of each key at no cost"
    if change.name == "pool-size":
        yield "a pool before each node hands a free connection on at no cost; what waits for one takes no processor"
    if change.name == "any-node" or (change.name == "coordinator" and base.entry != "coordinator"):
        yield "the coordinator has as much CPU as a worker"
    if change.name in ("threads", "workers", "pool-size"):
        yield "client threads are spread evenly over the nodes that they connect to"


def _describe_change(change: Change) -> str:
    return VALUE_CHANGES[change.name].format(f"{change.value:g}") if change.value else PLAIN_CHANGES[change.name]


def _format_ms(value_us: float) -> str:
    return f"{format_number(value_us / US_PER_MS)} ms"


def _format_range(interval: Interval, divisor: float = 1.0) -> str:
    values = [format_number(value / divisor) for value in (interval.estimate, interval.low, interval.high)]
    return f"{values[0]} [{values[1]}, {values[2]}]"


def _write_sentences(found: WhatIf) -> Iterable[str]:
    base = found.base if found.base.startswith(found.operation) else f"{found.operation} of {found.base}"
    known = (
        "not measured"
        if found.measured_ratio is None
        else f"where {format_number(found.measured_ratio)} times as much was measured"
    )
    yield (
        f"Predicted, {known}: if {found.meaning}, {base} would have a throughput of "
        f"{_format_range(found.throughput_ops_s)} operations/s instead of {format_number(found.base_ops_s)}, "
        f"{_format_range(found.ratio)} times as much."
    )
    yield (
        f"Its mean response time would be {_format_range(found.response_us, US_PER_MS)} ms instead of "
        f"{_format_ms(found.base_us)}."
    )
    terms = found.terms.filter(pl.col("change_us").abs() > 0.005 * found.base_us).sort(
        pl.col("change_us").abs(), descending=True
    )
    parts = [
        f"{SEGMENTS[str(row['segment'])]}: {'+' if row['change_us'] > 0 else '-'}{_format_ms(abs(row['change_us']))}"
        + (f" of {_format_ms(row['base_us'])}" if row["base_us"] else "")
        for row in terms.iter_rows(named=True)
    ]
    if parts:
        yield f"The difference is made of {'; '.join(parts)}."
    if found.measured_ratio is not None:
        where = "inside" if found.inside else "outside"
        yield (
            f"Measured, with {found.counterpart}: {format_number(found.measured_ratio)} times as much, {where} the "
            "predicted interval; the model does not know this throughput."
        )
    if found.left_out.height:
        yield describe_left_out(found.left_out)


def describe_left_out(pairs: pl.DataFrame) -> str:
    """How many measured ratios lie in the intervals that were predicted without them.

    Args:
        pairs: `left_out` of a prediction.
    """
    inside = int(pairs["inside"].sum())
    missed = (pairs["predicted"] / pairs["measured"]).log().to_numpy()
    typical = math.expm1(float(np.sqrt(np.mean(np.square(missed)))))
    return (
        f"Of {pluralize(pairs.height, 'measured ratio')} of configurations that were left out, {inside} are inside "
        f"the predicted interval; the typical error is {100 * typical:.0f} %."
    )
