"""Operational laws, exact MVA and what follows from them: textbook tables and identities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from citus_analysis import scaling
from citus_analysis.errors import UsageError
from citus_analysis.scaling.cost import compute_cost_figures
from citus_analysis.scaling.queueing import compute_service_demand_us
from citus_analysis.stats.intervals import estimate_mean_from_summary
from tests.shards import count_examples

#: Jain (1991), table 34.1: N, response times per visit of CPU and disks A and B, R, X, queue lengths.
JAIN_34_1 = [
    (1, 0.125, 0.300, 0.200, 6.000, 0.100, 0.200, 0.300, 0.100),
    (2, 0.150, 0.390, 0.220, 7.400, 0.175, 0.421, 0.684, 0.193),
    (3, 0.178, 0.505, 0.239, 9.088, 0.229, 0.651, 1.158, 0.273),
    (4, 0.206, 0.647, 0.255, 11.051, 0.266, 0.878, 1.721, 0.338),
    (5, 0.235, 0.816, 0.268, 13.256, 0.290, 1.088, 2.365, 0.388),
    (17, 0.370, 3.962, 0.300, 47.045, 0.333, 1.974, 13.195, 0.499),
    (20, 0.373, 4.854, 0.300, 56.016, 0.333, 1.991, 16.177, 0.500),
]
JAIN = {"cpu": 16 * 0.125, "disk a": 10 * 0.3, "disk b": 5 * 0.2}


@pytest.mark.parametrize("row", JAIN_34_1)
def test_mva_is_jains_table(row: tuple[float, ...]) -> None:
    solved = scaling.mva(JAIN, int(row[0]), think=4.0)
    visits = np.array([16, 10, 5])
    assert solved.residence_time / visits == pytest.approx(row[1:4], abs=6e-4)
    assert solved.response_time == pytest.approx(row[4], abs=6e-4)
    assert solved.throughput == pytest.approx(row[5], abs=6e-4)
    assert solved.queue_length == pytest.approx(row[6:9], abs=6e-4)


def test_mva_is_the_database_server_of_menasce() -> None:
    # Menascé, Almeida and Dowdy (2004), section 12.2: CPU 10 s, fast disk 7.5 s, slow disk 15 s, two customers.
    solved = scaling.mva({"cpu": 10, "fast disk": 7.5, "slow disk": 15}, 2)
    assert solved.queue_length == pytest.approx([0.5913, 0.4174, 0.9913], abs=5e-5)
    assert solved.bottleneck == "slow disk"


@settings(max_examples=count_examples(40), deadline=None)
@given(
    st.lists(st.floats(0.1, 10), min_size=1, max_size=4),
    st.integers(1, 30),
    st.floats(0, 20),
)
def test_mva_obeys_littles_law_and_the_asymptotic_bounds(demands: list[float], customers: int, think: float) -> None:
    named = {f"r{i}": demand for i, demand in enumerate(demands)}
    solved = scaling.mva(named, customers, think)
    throughput = solved.throughput
    assert solved.queue_length.sum() + throughput * think == pytest.approx(customers)
    bounds = scaling.asymptotic_bounds(named, customers, think)
    assert bounds.throughput_low_ops_s[0] <= throughput * 1e6 * (1 + 1e-9)
    assert throughput * 1e6 <= bounds.throughput_high_ops_s[0] * (1 + 1e-9)
    assert bounds.response_low_us[0] <= solved.response_time * (1 + 1e-9)


def test_a_delay_resource_has_no_queue() -> None:
    solved = scaling.mva({"cpu": 1.0, "network": 10.0}, 50, delays=["network"])
    assert solved.residence_time[1] == 10.0
    assert solved.throughput == pytest.approx(1.0, rel=1e-6)


def test_networks_that_cannot_be_solved_are_refused() -> None:
    with pytest.raises(UsageError, match="delays net"):
        scaling.mva({"cpu": 1}, 3, delays=["net"])
    with pytest.raises(UsageError, match="not negative"):
        scaling.mva({"cpu": -1}, 3)
    for demands in ({"cpu": 0.0}, {}):
        with pytest.raises(UsageError, match="infinite"):
            scaling.mva(demands, 3)


def test_little_on_the_studys_equation() -> None:
    # Equation 5.2 divides by 11 ms but forgets that 800 connections work at once: 800 / 11 ms, not 1.1 million.
    assert pytest.approx(73_000, rel=0.01) == 800 / 11e-3
    run = scaling.little(1_100_000, 11_000, 800)
    assert run.in_system == pytest.approx(12_100)
    assert "contradict each other" in run.warnings[0]


def test_little_accounts_for_every_thread() -> None:
    run = scaling.little(5_000, 2_000, 16, think_us=500)
    assert run.in_system + run.thinking + run.unaccounted == pytest.approx(16)
    assert run.share_in_system == pytest.approx(10 / 16)
    assert run.client_time_us == pytest.approx(16 / 5_000 * 1e6 - 2_000)
    assert run.warnings == ()
    with pytest.raises(UsageError, match="must be positive"):
        scaling.little(0, 1, 1)


def test_utilisation_and_demand_are_inverse() -> None:
    demand = compute_service_demand_us([0.5, 0.25], 1_000, [1, 4])
    assert demand == pytest.approx([500, 1_000])
    assert scaling.utilisation(1_000, demand, [1, 4]) == pytest.approx([0.5, 0.25])


def test_bounds_of_jains_example() -> None:
    # The same timesharing system: D = 6 s, D_max = 3 s, Z = 4 s.
    bounds = scaling.asymptotic_bounds({k: v * 1e6 for k, v in JAIN.items()}, [1, 20], think_us=4e6)
    assert bounds.throughput_high_ops_s == pytest.approx([0.1, 1 / 3])
    assert bounds.response_low_us / 1e6 == pytest.approx([6, 56])
    assert bounds.knee == pytest.approx(10 / 3)
    assert bounds.bottleneck == "disk a"
    with pytest.raises(UsageError):
        scaling.asymptotic_bounds({}, 1)


def test_cost_figures() -> None:
    mean = estimate_mean_from_summary(100_000, 2_000, 5)
    figures = compute_cost_figures(mean, nodes=17, vcpus_per_node=16, price_per_node_hour=1.2, currency="EUR")
    assert figures.vcpus == 272
    assert figures.ops_s_per_vcpu.estimate == pytest.approx(100_000 / 272)
    price = figures.price_per_million_ops
    assert price is not None
    assert price.estimate == pytest.approx(17 * 1.2 / 3_600 * 10)
    assert price.low == pytest.approx(17 * 1.2 / 3_600 * 1e6 / mean.high)
    assert compute_cost_figures(mean, nodes=1, vcpus_per_node=2).price_per_million_ops is None
    unsure = estimate_mean_from_summary(10, 20, 3)
    assert (
        compute_cost_figures(unsure, nodes=1, vcpus_per_node=1, price_per_node_hour=1).price_per_million_ops is not None
    )
    with pytest.raises(UsageError):
        compute_cost_figures(mean, nodes=0, vcpus_per_node=1)
