"""Speedup, efficiency and psi: definitions, published numbers and refusals."""

import pytest

from citus_analysis import scaling
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.scaling.relative import compute_relative_scaling, estimate_psi

#: Means of table 5.7 of the study (16 vCPU nodes, 100 million inserts, 3,600 connections).
WORKERS = [2, 4, 8, 16, 32]
THROUGHPUT = [62479, 111322, 160498, 246396, 292447]


def test_definitions_on_the_published_means() -> None:
    points = compute_relative_scaling(WORKERS, THROUGHPUT)
    assert [p.speedup.estimate for p in points] == pytest.approx([x / 62479 for x in THROUGHPUT])
    assert points[-1].efficiency.estimate == pytest.approx(292447 / 62479 * 2 / 32)
    assert points[-1].psi is not None
    assert points[-1].psi.estimate == pytest.approx(292447 / 246396 / 2)
    assert points[0].psi is None
    # One value per size has no spread: the speedup has no interval, it is not exact.
    assert not points[1].speedup.exists


def test_base_can_be_any_size() -> None:
    gains = scaling.speedup(WORKERS, THROUGHPUT, base=8)
    assert gains[8.0].estimate == gains[8.0].low == gains[8.0].high == 1.0
    assert gains[2.0].estimate == pytest.approx(62479 / 160498)
    assert scaling.efficiency(WORKERS, THROUGHPUT, base=8)[2.0].estimate == pytest.approx(62479 / 160498 * 4)


def test_psi_is_the_ratio_of_efficiencies() -> None:
    shares = scaling.efficiency(WORKERS, THROUGHPUT)
    assert estimate_psi(WORKERS, THROUGHPUT, 4, 16).estimate == pytest.approx(
        shares[16.0].estimate / shares[4.0].estimate
    )


def test_intervals_enclose_the_estimate_and_carry_the_number_of_runs() -> None:
    points = compute_relative_scaling([1, 1, 1, 2, 2, 2], [100, 104, 98, 171, 180, 176])
    gain = points[1].speedup
    assert gain.low < 1.745 < gain.high
    assert (gain.n, gain.method) == (3, "Welch t on the log ratio")
    assert points[1].runs == (171, 180, 176)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="do not belong together"):
        scaling.speedup([1, 2], [1])
    with pytest.raises(UsageError, match="leave failed runs out"):
        scaling.speedup([1, 2], [1, 0])
    with pytest.raises(UnknownNameError, match="no size is named '3'"):
        scaling.speedup([1, 2], [1, 2], base=3)
    with pytest.raises(InsufficientDataError):
        scaling.speedup([], [])
