"""Gains of parts that are infinitely fast, held against simulated systems that share no code with the models."""

import math
from collections.abc import Mapping

import numpy as np
import pytest

from citus_analysis import scaling
from citus_analysis.errors import UnknownNameError, UsageError
from citus_analysis.scaling.network_what_if import TOLERATED_PERCENT, Placement, RunTimes, WhatIf
from tests.scaling.closed_networks import INF, PARTS, SYSTEMS, MeasurementResult, Step, System, simulate

THREADS = (1, 4, 16, 32, 64)
#: What the simulation itself may be off by.
NOISE = 1.02


def times(measured: MeasurementResult) -> RunTimes:
    return RunTimes(measured.threads, measured.throughput_ops_s, measured.parts_us)


def queues_of(system: System) -> dict[str, tuple[str, ...]]:
    """The stations whose servers serve one customer each, with their parts; parts with a second station left out."""
    parts: dict[str, list[str]] = {}
    for step in system.route:
        parts.setdefault(step.station, []).append(step.part)
    flushed = {p for name, served in parts.items() if system.servers[name] == 0 for p in served}
    return {
        name: tuple(dict.fromkeys(served))
        for name, served in parts.items()
        if 0 < system.servers[name] < INF and not flushed & set(served)
    }


def known(system: System, runs: list[MeasurementResult], what: str) -> list[Placement]:
    if what == "times":
        return []
    if what == "cores":
        return [Placement(parts, servers=system.servers[name]) for name, parts in queues_of(system).items()]
    return [
        Placement(parts, utilisation={run.threads: run.utilisation[name] for run in runs})
        for name, parts in queues_of(system).items()
    ]


def true_gains(system: System, runs: list[MeasurementResult]) -> dict[str, float]:
    now = runs[-1].throughput_ops_s
    return {part: simulate(system.without(part), runs[-1].threads).throughput_ops_s / now for part in PARTS}


def check(found: WhatIf, truth: Mapping[str, float]) -> int:
    """Every gain within 15 % or refused, no limit exceeded; how many there are above 1.05."""
    predicted = 0
    for part, true in truth.items():
        gain = found.gain(part)
        if gain.limit is not None:
            assert true <= gain.limit * NOISE, f"{part}: {true:.2f} exceeds the limit of {gain.limit:.2f}"
        if gain.factor is None:
            assert gain.refused
            continue
        assert gain.factor == pytest.approx(true, rel=0.15), f"{part}: {true:.2f}, predicted {gain}"
        predicted += true > 1.05
    return predicted


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_gains_of_simulated_systems_are_right_or_refused(name: str) -> None:
    system = SYSTEMS[name]
    runs = [simulate(system, threads) for threads in THREADS]
    truth = true_gains(system, runs)
    assert max(truth.values()) > 1.4
    predicted = {
        what: check(scaling.what_if([times(run) for run in runs], known(system, runs, what)), truth)
        for what in ("times", "utilisation", "cores")
    }
    if name in ("single servers", "shared 8 cores", "16 + 16 cores"):
        assert min(predicted["utilisation"], predicted["cores"]) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_gains_of_random_systems_are_right_or_refused(seed: int) -> None:
    random = np.random.default_rng(seed)
    cores = {"a": float(random.integers(1, 17)), "b": float(random.integers(1, 17))}
    child = "a" if random.random() < 0.5 else "b"
    mean = random.uniform(50, 1_000, 5)
    route = (
        Step("client", "delay", mean[0] / 10),
        Step("outside", "delay", mean[1] / 4),
        Step("parent", "a", mean[2], int(random.integers(1, 4))),
        Step("network", "delay", mean[3] / 4),
        Step("child", child, mean[4], int(random.integers(1, 4))),
        Step("parent", "a", mean[2] / 3),
    )
    system = System(route, {**cores, "delay": INF})
    runs = [simulate(system, threads, seed=seed) for threads in THREADS]
    truth = true_gains(system, runs)
    for what in ("times", "utilisation", "cores"):
        check(scaling.what_if([times(run) for run in runs], known(system, runs, what)), truth)


def test_a_station_beyond_what_was_reached_must_be_known() -> None:
    system = SYSTEMS["one client core"]
    runs = [simulate(system, threads) for threads in (1, 4, 16, 64)]
    truth = true_gains(system, runs)
    alone = scaling.what_if([times(run) for run in runs], known(system, runs, "cores"))
    check(alone, truth)
    assert alone.gain("outside").refused is not None
    assert "network and client showed no queue" in alone.warnings[0]
    stated = [*known(system, runs, "cores"), Placement(("network",), servers=INF), Placement(("client",), servers=INF)]
    assert check(scaling.what_if([times(run) for run in runs], stated), truth) == 1


def test_throughput_that_no_network_explains_is_refused() -> None:
    # Throughput grows faster with threads than they do: nothing that is shared does that.
    runs = [RunTimes(n, x, {"parent": 0.6 * n / x * 1e6}) for n, x in ((4, 1_000), (16, 1_050), (64, 9_000))]
    found = scaling.what_if(runs)
    assert found.refused is not None
    assert "misses a thread count that it was not fitted to" in found.refused
    assert found.held_out_error_percent is not None
    assert found.held_out_error_percent > TOLERATED_PERCENT
    assert {one.threads for one in found.held_out} == {4, 16, 64}
    assert "no prediction" in str(found.gain("parent"))


@pytest.mark.parametrize(("last", "refused"), [(9_500, True), (10_000, False)])
def test_throughput_that_falls_is_refused_before_anything_is_fitted(last: float, refused: bool) -> None:
    # 10 % of both are tolerated: 12,000 x 0.9 = 10,800 and 9,500 x 1.1 = 10,450 do not meet.
    runs = [RunTimes(n, x, {"parent": 0.6 * n / x * 1e6}) for n, x in ((4, 11_000), (16, 12_000), (64, last))]
    found = scaling.what_if(runs)
    assert ("falls from 12,000 operations/s at 16 threads" in str(found.refused)) == refused
    assert (found.held_out == ()) == refused


@pytest.mark.slow
def test_any_division_of_the_cycle_is_not_reproduced() -> None:
    # A network fitted to one run reproduces its throughput whatever the parts are; held-out runs do not forgive that.
    random = np.random.default_rng(5)
    refused = 0
    for _ in range(6):
        runs = []
        for threads in (2, 8, 32):
            rate = random.uniform(1_000, 10_000)
            shares = random.dirichlet(np.ones(4)) * threads / rate * 1e6
            runs.append(RunTimes(threads, rate, dict(zip(PARTS, shares.tolist(), strict=True))))
        refused += scaling.what_if(runs).refused is not None
    assert refused >= 5


def test_statements_slower_than_the_client_are_refused() -> None:
    runs = [RunTimes(n, 1_000.0 * n, {"parent": 700.0, "child": 600.0}) for n in (1, 2, 4)]
    assert "130 % of the client's cycle: sampling slows" in str(scaling.what_if(runs).refused)


def test_what_cannot_be_asked() -> None:
    runs = [RunTimes(n, 1_000.0 * n, {"parent": 700.0}) for n in (1, 2)]
    with pytest.raises(UsageError, match="needs runs"):
        scaling.what_if([])
    with pytest.raises(UnknownNameError, match="thread count"):
        scaling.what_if(runs, threads=7)
    with pytest.raises(UsageError, match="two stations"):
        scaling.what_if(runs, [Placement(("parent",)), Placement(("parent", "child"))])
    with pytest.raises(UnknownNameError, match="no part of an operation is named 'disk'"):
        Placement(("disk",))
    with pytest.raises(UsageError, match="from 0 to 1"):
        Placement(("parent",), utilisation={4: 97.0})
    with pytest.raises(UsageError, match=r"0\.5 servers"):
        Placement(("parent",), servers=0.5)
    with pytest.raises(UsageError, match="positive throughput"):
        RunTimes(4, math.nan, {})
    with pytest.raises(UsageError, match="not negative"):
        RunTimes(4, 1.0, {"parent": -1.0})
