"""Closed networks with several servers, delays and batches: closed forms, MVA and limits."""

import math
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize._numdiff import approx_derivative

from citus_analysis import scaling
from citus_analysis.core.type_aliases import Floats
from citus_analysis.errors import UsageError
from citus_analysis.scaling import Station, solve_closed
from citus_analysis.scaling.network_what_if import compute_residuals_and_slopes
from citus_analysis.scaling.queueing import build_station_array, compute_network_throughputs, solve_networks
from tests.scaling.closed_networks import INF, Step, System, simulate
from tests.shards import count_examples


def repaired(machines: int, repairers: int, repair: float, run: float) -> float:
    """Repairs per time unit of M/M/m//N, the machine repairman, from its balance equations."""
    ratio = repair / run
    weights = [
        math.comb(machines, n)
        * ratio**n
        * (1 if n <= repairers else math.factorial(n) / math.factorial(repairers) / repairers ** (n - repairers))
        for n in range(machines + 1)
    ]
    return sum((machines - n) * weight for n, weight in enumerate(weights)) / sum(weights) / run


@pytest.mark.parametrize("machines", [1, 3, 20, 60])
@pytest.mark.parametrize("repairers", [1, 2, 5])
def test_the_machine_repairman(machines: int, repairers: int) -> None:
    solved = solve_closed([Station(2.0, servers=repairers), Station(9.0, servers=INF)], [machines])
    assert solved.throughput[0] == pytest.approx(repaired(machines, repairers, 2.0, 9.0), rel=1e-9)


@settings(max_examples=count_examples(40), deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=4), st.integers(1, 40), st.just(0.0) | st.floats(1e-6, 20))
def test_single_servers_are_solved_as_by_mva(demands: list[float], customers: int, think: float) -> None:
    exact = scaling.mva({f"r{i}": demand for i, demand in enumerate(demands)}, customers, think)
    stations = [*(Station(demand) for demand in demands), Station(think, servers=INF)]
    solved = solve_closed(stations, [customers])
    assert solved.throughput[0] == pytest.approx(exact.throughput[0], rel=1e-9)
    assert solved.residence_time[0, :-1] == pytest.approx(exact.residence_time[0], rel=1e-7)


@settings(max_examples=count_examples(40), deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.1, 10), st.floats(1, 20), st.floats(-0.9, 0.9)), min_size=1, max_size=4),
    st.integers(1, 60),
)
def test_littles_law_holds_whatever_the_stations(stations: list[tuple[float, float, float]], customers: int) -> None:
    solved = solve_closed([Station(d, servers=m, calm=c) for d, m, c in stations], [customers])
    assert solved.throughput[0] * solved.residence_time[0].sum() == pytest.approx(customers)


def test_many_and_few_customers_at_once() -> None:
    stations = [Station(400.0, servers=8), Station(300_000.0, servers=INF)]
    together = solve_closed(stations, [1, 10, 300, 5_000])
    alone = np.array([solve_closed(stations, [n]).throughput[0] for n in (1, 10, 300, 5_000)])
    assert together.throughput == pytest.approx(alone, rel=1e-9)
    assert together.throughput[0] == pytest.approx(1 / 300_400)


def test_as_many_servers_as_customers_are_a_delay() -> None:
    for customers in (1, 7, 30):
        servers, delay = (
            solve_closed([Station(5.0, servers=m), Station(2.0)], [customers]) for m in (float(customers), INF)
        )
        assert servers.throughput == pytest.approx(delay.throughput)


def test_group_commits_are_as_simulated() -> None:
    system = System((Step("client", "think", 1_500), Step("child", "wal", 1_000, 16)), {"think": INF, "wal": 0})
    for threads in (1, 4, 16, 64):
        seen = simulate(system, threads)
        solved = solve_closed([Station(1_000.0, servers=INF, batch_wait=0.5), Station(1_500.0, servers=INF)], [threads])
        assert solved.throughput[0] * 1e6 == pytest.approx(seen.throughput_ops_s, rel=0.08)


def test_what_cannot_be_solved() -> None:
    with pytest.raises(UsageError, match="without customers"):
        solve_closed([Station(1.0)], [])
    with pytest.raises(UsageError, match="without demand"):
        solve_closed([Station(0.0)], [1])
    with pytest.raises(UsageError, match="finite and not negative"):
        solve_closed([Station(-1.0)], [1])


def test_networks_solved_together_are_those_solved_alone() -> None:
    """To the last bit, because fits that solve their networks together must not depend on it."""
    first = [Station(100.0, servers=2.5), Station(40.0, servers=INF, batch_wait=0.5), Station(300.0, servers=INF)]
    second = [Station(80.0, calm=0.3), Station(0.0), Station(10.0, servers=4)]
    for customers in ([1, 2, 4, 64], [3], [1, 900, 1_000]):
        throughput, residence = solve_networks(build_station_array([first, second, first]), customers)
        for place, network in enumerate((first, second, first)):
            alone = solve_closed(network, customers)
            assert throughput[place].tolist() == alone.throughput.tolist()
            assert residence[place].tolist() == alone.residence_time.tolist()
    rates = [solve_closed(network, [7]).throughput[0] for network in (first, second)]
    assert compute_network_throughputs(build_station_array([first, second]), 7).tolist() == rates


def test_differences_of_a_fit_are_scipys_also_at_bounds() -> None:
    def residuals(points: Floats) -> Floats:
        return np.column_stack([points[:, 0] ** 2, points[:, 0] * points[:, 1], np.exp(points[:, 1])])

    low, high = np.array([-2.0, -1.0]), np.array([3.0, 1.0])
    for point in ([0.5, 0.5], [3.0, 1.0], [-2.0, -1.0], [3.0 - 1e-9, -1.0 + 1e-9]):
        at = np.array(point)
        known = cast(Any, approx_derivative)(
            lambda x: residuals(x[None, :])[0], at, method="2-point", bounds=(low, high)
        )
        found, differences = compute_residuals_and_slopes(residuals, at, low, high)
        assert found.tolist() == residuals(at[None, :])[0].tolist()
        assert differences.tolist() == known.tolist()
