"""Throughput after changes and curves of networks, held against simulated systems that share no code with them."""

from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pytest

from citus_analysis import scaling
from citus_analysis.scaling.network_what_if import Placement, Predicted, RunTimes, WhatIf, change_table
from tests.scaling.closed_networks import SYSTEMS, MeasurementResult, System, simulate

THREADS = (1, 4, 16, 32, 64)
SHARED = SYSTEMS["shared 8 cores"]


def halved(system: System, part: str) -> System:
    route = (replace(step, mean_us=step.mean_us / 2) if step.part == part else step for step in system.route)
    return replace(system, route=tuple(route))


def with_twice_the_cores(system: System) -> System:
    return replace(system, servers={name: 2 * n for name, n in system.servers.items()})


#: The change in words, what it does to the system, and to the number of threads.
CHANGES: dict[str, tuple[Callable[[System], System], int]] = {
    "twice the servers of parent and child": (with_twice_the_cores, 1),
    "half the parent work": (lambda system: halved(system, "parent"), 1),
    "half the child work": (lambda system: halved(system, "child"), 1),
    "no time between parent and child (L)": (lambda system: system.without("network"), 1),
    "128 client threads": (lambda system: system, 2),
}


@pytest.fixture(scope="module")
def runs() -> list[MeasurementResult]:
    return [simulate(SHARED, threads) for threads in THREADS]


@pytest.fixture(scope="module")
def found(runs: list[MeasurementResult]) -> WhatIf:
    cores = Placement(("parent", "child"), utilisation={run.threads: run.utilisation["cpu"] for run in runs})
    return scaling.what_if([RunTimes(run.threads, run.throughput_ops_s, run.parts_us) for run in runs], [cores])


@pytest.fixture(scope="module")
def changes(found: WhatIf) -> dict[str, Predicted]:
    return {one.change: one for one in scaling.predicted_changes(found)}


@pytest.mark.parametrize("name", CHANGES)
def test_predictions_contain_what_the_changed_system_does(changes: dict[str, Predicted], name: str) -> None:
    change, threads = CHANGES[name]
    truth, predicted = simulate(change(SHARED), 64 * threads), changes[name]
    assert predicted.throughput_ops_s is not None
    assert predicted.response_us is not None
    assert predicted.throughput_ops_s.estimate == pytest.approx(truth.throughput_ops_s, rel=0.02)
    assert predicted.throughput_ops_s.low < truth.throughput_ops_s < predicted.throughput_ops_s.high
    assert predicted.response_us.low < sum(truth.parts_us.values()) < predicted.response_us.high
    assert "one run" in predicted.throughput_ops_s.warnings[0]


def test_the_curve_contains_thread_counts_that_were_not_measured(found: WhatIf) -> None:
    curves = scaling.throughput_curves(found)
    curve = curves.filter(pl.col("model") == "mva").drop_nulls("threads")
    assert curve["threads"].max() == 128
    assert curves.filter(pl.col("model") == "measured").height == len(THREADS)
    for row in curve.filter(pl.col("threads").is_in([2, 21, 128])).iter_rows(named=True):
        truth = simulate(SHARED, row["threads"]).throughput_ops_s
        assert row["low"] < truth < row["high"]
        assert row["throughput_ops_s"] == pytest.approx(truth, rel=0.05)
    assert {"amdahl", "usl"} <= set(curves["model"])


def test_a_prediction_draws_its_curves_through_what_was_measured(runs: list[MeasurementResult], found: WhatIf) -> None:
    drawn = {trace.name: trace for trace in found.plot().data if trace.name}
    assert {"queueing network (MVA)", "Amdahl", "USL", "runs"} <= set(drawn)
    measured = drawn["runs"]
    assert dict(zip(measured.x, measured.y, strict=True)) == {run.threads: run.throughput_ops_s for run in runs}
    curve = dict(zip(drawn["queueing network (MVA)"].x, drawn["queueing network (MVA)"].y, strict=True))
    assert curve[64] == pytest.approx(runs[-1].throughput_ops_s, rel=0.05)


def test_servers_whose_capacity_was_never_reached_are_not_doubled(runs: list[MeasurementResult]) -> None:
    few = [run for run in runs if run.threads <= 16]
    found = scaling.what_if([RunTimes(run.threads, run.throughput_ops_s, run.parts_us) for run in few[:2] + few[-1:]])
    for one in scaling.predicted_changes(found):
        assert one.refused is not None or one.factor is not None
        if one.refused is None and one.change.startswith("twice") and one.factor is not None:
            truth = simulate(with_twice_the_cores(SHARED), found.threads).throughput_ops_s
            assert one.factor <= 1.15 * truth / few[-1].throughput_ops_s


def test_where_no_network_is_validated_only_blocked_time_is_left() -> None:
    runs = [RunTimes(8, 1_000.0, {"parent": 4_000.0, "child": 2_000.0}) for _ in range(2)]
    found = scaling.what_if(runs)
    parent, child = scaling.predicted_changes(found)
    assert (parent.change, child.change) == ("parent time halved", "child time halved")
    # A cycle of 8 ms of which 2 ms are saved; 6 ms of response time of which 2 ms are saved.
    assert parent.factor == pytest.approx(8 / 6)
    assert parent.response_us is not None
    assert parent.response_us.estimate == pytest.approx(4_000)
    assert parent.basis.startswith("blocked time")
    assert [trace.name for trace in found.plot().data] == ["runs"]
    curves = scaling.throughput_curves(found)
    network = curves.filter(pl.col("model") == "mva")
    assert network["threads"].to_list() == [None]
    assert "at least 3 are needed" in network["refused"].item()
    assert change_table([parent, child])["throughput_low"].to_list() == pytest.approx([4_000 / 3, 8_000 / 7])


def test_statements_slower_than_the_client_say_nothing_of_throughput() -> None:
    found = scaling.what_if([RunTimes(n, 1_000.0 * n, {"parent": 700.0, "child": 600.0}) for n in (1, 2, 4)])
    for one in scaling.predicted_changes(found):
        assert one.throughput_ops_s is None
        assert one.response_us is not None
        assert "says nothing about throughput" in str(one.refused)
