"""Start-up of runs: what is cut, what is left, and whether a finding on scaling holds without it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from citus_analysis.errors import InsufficientDataError
from citus_analysis.stats.start_up import find_start_up, interval_rates, steady_runs

#: Throughput per second of two recorded runs: 64 clients whose sessions start one after the other, and one server.
STARTING = [12, 62, 133, 205, 389, 459, 492, 750, 899, 892, 964, 1044, 1103, 1153, 1203, 1175, 1199, 1242, 1135, 1195]
STARTING += [1062, 1018, 1095, 1054, 914, 1003, 1020, 955, 940, 950, 930]
AGAIN = [16, 72, 123, 229, 384, 593, 738, 862, 947, 1026, 985, 973, 1050, 1044, 1074, 1082, 1110, 1056, 1016, 1068]
AGAIN += [1106, 960, 1012, 1098, 1192, 1160, 1273, 1203, 1198, 1268, 1195]
STEADY = [6121, 6727, 7016, 7206, 7272, 6257, 5987, 6326, 6199, 6773, 6230, 7100, 6905, 6632, 6732, 6143]
STEADY += [6580, 5898, 6480, 6444, 6998, 6415, 6544, 6482, 6875, 6533, 6372]


def test_repeated_runs_show_the_start_of_their_sessions_together() -> None:
    found = find_start_up([STARTING, AGAIN])
    assert found.settled
    assert 7 <= found.cut <= 12
    assert found.share == pytest.approx(-0.2, abs=0.05)
    assert find_start_up(STEADY).cut == 0


def test_few_steady_series_are_cut_and_most_starts_are_found() -> None:
    rng = np.random.default_rng(5)

    def runs(length: int) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
        level = np.where(np.arange(31) < length, 0.5, 1.0)
        noise = rng.normal(size=(5, 32))
        return list(1_000 * level * (1 + 0.1 * (0.8 * noise[:, 1:] + 0.6 * noise[:, :-1])))

    assert np.mean([find_start_up(runs(0)).cut > 0 for _ in range(100)]) <= 0.08
    assert np.mean([abs(find_start_up(runs(8)).cut - 8) <= 2 for _ in range(100)]) >= 0.8


def test_a_start_up_that_hardly_moves_the_mean_is_left_in() -> None:
    series = np.r_[1_500.0, 1_000 + np.random.default_rng(1).normal(0, 5, 300)]
    assert find_start_up(series).cut == 0


def test_runs_that_never_settle_are_said_to() -> None:
    assert not find_start_up(np.linspace(100, 1_000, 40) ** 1.5).settled
    with pytest.raises(InsufficientDataError, match="5 intervals"):
        find_start_up([1, 2, 3, 4, 5])


def lines(run_id: str, rates: list[float], part: int = 0) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "resource": "r",
            "run_id": run_id,
            "role": "main",
            "part": part,
            "section": pl.Series([None] * (len(rates) + 1), dtype=pl.String),
            "elapsed_s": [float(second) for second in range(len(rates) + 1)],
            "operations_total": [0, *np.cumsum(rates).astype(int).tolist()],
            "throughput_ops_s": [None, *map(float, rates)],
        }
    )


def test_the_rates_of_parallel_clients_are_summed_and_the_end_is_left_out() -> None:
    rates = interval_rates(pl.concat([lines("a", [100.0] * 20 + [5.0]), lines("a", [50.0] * 20 + [3.0], part=1)]))
    assert rates["throughput_ops_s"].to_list() == [150.0] * 20


def test_one_configuration_has_one_start_up() -> None:
    series = pl.concat([lines("a", [*map(float, STARTING)]), lines("b", [*map(float, AGAIN)])])
    runs = pl.DataFrame({"resource": "r", "run_id": ["a", "b"], "threads": 64})
    found = steady_runs(runs, series, ["threads"])
    assert found["cut_s"].n_unique() == 1
    cut = int(found["cut_s"][0])
    assert found["steady_ops_s"].to_list() == pytest.approx([np.mean(STARTING[cut:]), np.mean(AGAIN[cut:])])
