"""Determine the first limit of a configuration's throughput; "none found" and "undecided" are verdicts, too.

The rules are applied in this order, and the first that is true determines the limit:

1. the server refused connections, or fewer threads connected than were requested;
2. a control group's quota stopped the servers or the load generator;
3. the client was limited to a rate and reached it;
4. the clients' sessions waited for locks, or for WAL (for checkpoints if these follow each other closely);
5. all clients' sessions were on one of several nodes;
6. a CPU, a device or a network interface was saturated;
7. tasks were stalled for a CPU that had idle time (they may use some of its processors only), or whose use is unknown;
8. the clients' sessions had nothing to do most of the time: the load generator, or the network to it.

Waits come before utilisation, because a session that waits for a lock needs no CPU time, even if other programs use the
CPU. Quotas come before both, because they also stop the program that takes the snapshots of sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import polars as pl

from citus_analysis.bottleneck.balance import Balance
from citus_analysis.bottleneck.machine_work import place_text
from citus_analysis.bottleneck.measurements import ProgramShares, Thresholds
from citus_analysis.core.displays import DisplayMixin

Confidence = Literal["high", "medium", "low", "none"]


@dataclass(frozen=True)
class RunFacts:
    """The facts about the runs of one configuration.

    Attributes:
        values: mean over runs of each (part, metric), at the node with the largest value.
        nodes: the node of each of these values; None if the value belongs to no node.
        balance: the client's sessions over the nodes; None for a single node, or without snapshots.
        rate_limited: whether the client was limited to a rate.
        reached_share: throughput over that rate; None if the rate is not known.
        missing_threads: number of threads that never connected.
        programs: the programs that used the nodes; None without samples of programs.
    """

    values: dict[tuple[str, str], float]
    nodes: dict[tuple[str, str], str | None]
    balance: Balance | None = None
    rate_limited: bool = False
    reached_share: float | None = None
    missing_threads: int = 0
    programs: ProgramShares | None = None

    def value(self, part: str, metric: str) -> float | None:
        """A value; None if it was not measured."""
        return self.values.get((part, metric))

    def at(self, part: str, metric: str) -> str:
        """` of node N`, ` of the machine of nodes N to M`, or nothing."""
        node = self.nodes.get((part, metric))
        return "" if node is None else f" of {place_text(node)}"

    def users(self, part: str, metric: str) -> list[str]:
        """The programs that used the part of a value's node, in words; empty if they are not known."""
        words = None if self.programs is None else self.programs.words(part, self.nodes.get((part, metric)))
        return [] if words is None else [words]


@dataclass(frozen=True, repr=False)
class Verdict(DisplayMixin):
    """The first limit of one configuration.

    Attributes:
        configuration: columns that identify it.
        limit: one of a CPU, a device, memory, an interface, waits, the load generator or none.
        node: the node of the limit; None if it belongs to no node.
        evidence: the measurements that it is based on, in words.
        confidence: `high`, `medium` or `low`; `none` if no limit is claimed.
        decide: measurements that would decide, or confirm, the verdict.
        n: number of runs.
    """

    limit: str
    evidence: tuple[str, ...]
    confidence: Confidence
    node: str | None = None
    decide: tuple[str, ...] = ()
    configuration: dict[str, object] = field(default_factory=dict)
    n: int = 0

    def __str__(self) -> str:
        where = "" if self.node is None else f" ({place_text(self.node)})"
        return f"{self.limit}{where}, confidence {self.confidence}: {'; '.join(self.evidence)}"


_Rule = Callable[[RunFacts, Thresholds], Verdict | None]
_QUOTA: Final = "periods stopped by a quota"
_OUTSIDE: Final = ("load generator", "session time outside the servers")
_LITTLE: Final = ("load generator", "threads outside operations (Little)")


def judge(facts: RunFacts, limits: Thresholds, configuration: dict[str, object], n: int) -> Verdict:
    """The verdict on one configuration by the rules of this module.

    Example:
        >>> busy = RunFacts({("CPU", "busy"): 97.0}, {("CPU", "busy"): "1"})
        >>> print(judge(busy, Thresholds(), {"resource": "w2"}, 3))
        CPU (node 1), confidence medium: the CPU of node 1 was busy 97 % of the time
    """
    judged = (found for rule in _RULES if (found := rule(facts, limits)) is not None)
    return replace(next(judged, None) or _make_no_limit_verdict(facts, limits), configuration=configuration, n=n)


def _check_connection_limit(facts: RunFacts, _limits: Thresholds) -> Verdict | None:
    key = ("connections", "refused connections")
    refused = facts.values.get(key, 0.0)
    if not refused and not facts.missing_threads:
        return None
    evidence = []
    if refused:
        evidence.append(f"the server{facts.at(*key)} refused connections ({refused:.3g} a run)")
    if facts.missing_threads:
        evidence.append(f"{facts.missing_threads} client threads never connected")
    return Verdict("connections", tuple(evidence), "high" if refused else "medium", facts.nodes.get(key))


def _check_cpu_quota(facts: RunFacts, limits: Thresholds) -> Verdict | None:
    for part, limit, who in (("CPU", "CPU quota", "the servers"), ("load generator", "load generator", "the clients")):
        share = facts.value(part, _QUOTA)
        if share is not None and share >= limits.throttled_percent:
            host = facts.at(part, _QUOTA)
            text = f"a quota stopped a control group of {who}{host} in {share:.0f} % of the periods"
            return Verdict(limit, (text,), "high", facts.nodes.get((part, _QUOTA)))
    return None


def _check_rate_limit(facts: RunFacts, limits: Thresholds) -> Verdict | None:
    if not facts.rate_limited:
        return None
    outside = facts.values.get(_OUTSIDE)
    if facts.reached_share is not None:
        if facts.reached_share < limits.reached_share:
            return None
        text = f"the client was limited to a rate and reached {facts.reached_share * 100:.0f} % of it"
    elif outside is None or outside < limits.outside_percent:
        return None
    else:
        text = f"the client was limited to a rate, and its sessions had nothing to do {outside:.0f} % of the time"
    return Verdict("none found", (text,), "high", decide=("a run without a rate limit shows the limit",))


def _check_lock_waits(facts: RunFacts, limits: Thresholds) -> Verdict | None:
    share = facts.value("locks", "session time in lock waits")
    if share is None or share < limits.waiting_percent:
        return None
    evidence = [f"sessions waited for locks {share:.0f} % of their time"]
    logged = facts.value("locks", "lock waits longer than deadlock_timeout")
    if logged:
        evidence.append(f"the logs report {logged:.0f} long lock waits a run")
    return Verdict("locks", tuple(evidence), "high" if logged else "medium")


def _check_wal_waits(facts: RunFacts, limits: Thresholds) -> Verdict | None:
    part = "WAL and checkpoints"
    share = facts.value(part, "session time in WAL waits")
    if share is None or share < limits.waiting_percent:
        return None
    waited = f"sessions waited for WAL {share:.0f} % of their time"
    apart = (part, "between checkpoints for WAL")
    distance = facts.value(*apart)
    if distance is not None and distance < limits.checkpoint_distance_s:
        close = f"checkpoints that WAL requested began every {distance:.1f} s"
        under_way = facts.value(part, "time with a checkpoint under way") or 0.0
        decide = ("a run with a larger max_wal_size shows what the checkpoints cost",)
        evidence = (close, f"one was under way {under_way:.0f} % of the time", waited)
        return Verdict("checkpoints", evidence, "medium", facts.nodes.get(apart), decide)
    return Verdict("WAL", (waited,), "medium", decide=("a run with synchronous_commit = off shows what commits cost",))


def _check_single_node(facts: RunFacts, limits: Thresholds) -> Verdict | None:
    split = facts.balance
    if split is None or split.jain > limits.jain_index or split.p_value > limits.uneven_p:
        return None
    if max(split.counts) < split.n:
        return None
    node = split.nodes[split.counts.index(max(split.counts))]
    decide = ("the same load over all nodes, and CPU samples of each node's own host, show what it costs",)
    return Verdict("one node", (f"client sessions: {split}",), "medium", node, decide)


_HOSTS: Final = (
    ("CPU", "busy", "the CPU{at} was busy {share:.0f} % of the time"),
    ("device", "busy (busiest device)", "the busiest device{at} was busy {share:.0f} % of the time"),
    ("network", "of its speed (busiest interface)", "the busiest interface{at} was used to {share:.0f} % of its speed"),
)


def _check_host_resources(facts: RunFacts, limits: Thresholds) -> Verdict | None:
    for part, metric, words in _HOSTS:
        value = facts.value(part, metric)
        if value is None or value < limits.saturated_percent:
            continue
        evidence = [words.format(at=facts.at(part, metric), share=value)]
        stalled = facts.value(part, "stalled")
        if stalled is not None:
            evidence.append(f"tasks were stalled for it {stalled:.0f} % of the time")
        users = facts.users(part, metric)
        evidence += users
        outside = facts.values.get(_OUTSIDE)
        strong = stalled is not None and stalled >= limits.stalled_percent and part == "CPU"
        decide: tuple[str, ...] = ()
        if outside is not None and outside >= limits.outside_percent:
            evidence.append(f"the clients' sessions had nothing to do {outside:.0f} % of the time")
            beside = "" if users or part == "network" else ", or pidstat beside it,"
            alone = f"the load generator on a host of its own{beside}"
            decide = (f"{alone} shows whether it or the servers need the {part}",)
        confidence: Confidence = "high" if strong and not decide else "medium"
        return Verdict(part, tuple(evidence), confidence, facts.nodes[part, metric], decide)
    return None


def _check_busy_processors(facts: RunFacts, limits: Thresholds) -> Verdict | None:
    key = ("CPU", "stalled")
    stalled, busy = facts.value(*key), facts.value("CPU", "busy")
    if stalled is None or stalled < limits.stalled_percent:
        return None
    waited = f"tasks were stalled for the CPU{facts.at(*key)} {stalled:.0f} % of the time"
    users = facts.users(*key)
    if busy is None:
        confirm = ("samples of the CPU show whether all of it was busy",)
        return Verdict("CPU", (waited, *users), "low", facts.nodes.get(key), confirm)
    evidence = (
        f"{waited}, though only {busy:.0f} % of it was in use: they may use some of its processors only, or one "
        "process has the work",
        *users,
    )
    decide = ("samples of each processor (mpstat -P ALL) show which is busy, and with what",)
    return Verdict("CPU", evidence, "medium", facts.nodes.get(key), decide)


def _load_generator(facts: RunFacts, limits: Thresholds) -> Verdict | None:
    signs: tuple[tuple[tuple[str, str], str, Confidence], ...] = (
        (_OUTSIDE, "the clients' sessions had nothing to do", "medium"),
        (_LITTLE, "client threads were outside operations (start-up included)", "low"),
    )
    for key, words, confidence in signs:
        share = facts.values.get(key)
        if share is not None and share >= limits.outside_percent:
            decide = ("CPU samples of the load generator's host, or a second load generator, confirm it",)
            return Verdict("load generator", (f"{words} {share:.0f} % of the time",), confidence, decide=decide)
    return None


def _make_no_limit_verdict(facts: RunFacts, limits: Thresholds) -> Verdict:
    needed = {"CPU": ("CPU", "busy"), "devices": ("device", "busy (busiest device)"), "sessions": _OUTSIDE}
    missing = [name for name, key in needed.items() if key not in facts.values]
    if missing:
        decide = tuple(f"samples of {name} would decide" for name in missing)
        logged = facts.value("locks", "lock waits longer than deadlock_timeout")
        if logged and _OUTSIDE not in facts.values:
            return Verdict("locks", (f"the logs report {logged:.0f} long lock waits a run",), "low", decide=decide)
        text = f"nothing measured is at a limit; {', '.join(missing)} not measured"
        return Verdict("undecided", (text,), "none", decide=decide)
    busy = facts.values[needed["CPU"]]
    text = f"CPU {busy:.0f} % busy, no class of waits above {limits.waiting_percent:.0f} % of the session time"
    return Verdict("none found", (text,), "medium", decide=("more client threads show which limit comes first",))


_RULES: Final[Sequence[_Rule]] = (
    _check_connection_limit,
    _check_cpu_quota,
    _check_rate_limit,
    _check_lock_waits,
    _check_wal_waits,
    _check_single_node,
    _check_host_resources,
    _check_busy_processors,
    _load_generator,
)


def tabulate_limit_verdicts(verdicts: Sequence[Verdict]) -> pl.DataFrame:
    """Verdicts as a frame, one row per configuration."""
    rows = [
        {
            **verdict.configuration,
            "first_limit": verdict.limit,
            "node": verdict.node,
            "confidence": verdict.confidence,
            "evidence": "; ".join(verdict.evidence),
            "would_decide": "; ".join(verdict.decide),
            "runs": verdict.n,
        }
        for verdict in verdicts
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
