"""Operations nested in runs: the runs decide how precise a statistic is."""

import numpy as np
import pytest
from numpy.typing import NDArray

from citus_analysis import stats
from citus_analysis.errors import InsufficientDataError
from citus_analysis.stats.run_percentiles import estimate_nested_interval

Groups = list[NDArray[np.float64]]


def nested(rng: np.random.Generator, runs: int, size: int = 200) -> Groups:
    """Runs whose levels spread by 5 % and whose operations spread by 30 %."""
    return [rng.normal(100 * (1 + 0.05 * rng.normal()), 30, size) for _ in range(runs)]


def test_it_is_t_on_the_runs_means() -> None:
    groups = nested(np.random.default_rng(2), 5)
    ours, theirs = estimate_nested_interval(groups, method="t"), stats.mean_interval([group.mean() for group in groups])
    assert (ours.estimate, ours.low, ours.high, ours.n) == (theirs.estimate, theirs.low, theirs.high, 5)
    assert ours.half_width > 1.5 * stats.mean_interval(np.concatenate(groups)).half_width


def test_a_percentile_is_taken_in_each_run() -> None:
    groups = nested(np.random.default_rng(4), 3)
    by_number = estimate_nested_interval(groups, 95)
    by_function = estimate_nested_interval(groups, lambda x: np.quantile(x, 0.95, method="median_unbiased"))
    assert by_number == by_function
    assert by_number.method == "Student t on the log scale over runs"


def test_what_the_runs_cannot_give_is_refused() -> None:
    with pytest.raises(InsufficientDataError, match="at least 2 are needed"):
        estimate_nested_interval([[1, 2, 3]])
    with pytest.raises(InsufficientDataError, match=r"a run of 200 values has no 99\.9th percentile"):
        estimate_nested_interval(nested(np.random.default_rng(1), 3), 99.9)


@pytest.mark.slow
@pytest.mark.parametrize("statistic", [50.0, 95.0])
@pytest.mark.parametrize("runs", [3, 5, 10])
def test_it_covers_as_stated(runs: int, statistic: float) -> None:
    rng, sizes = np.random.default_rng(runs), 400
    # What a run's own percentile is on average over runs, by simulation of many runs of this size.
    truth = float(np.mean([np.quantile(group, statistic / 100) for group in nested(rng, 40_000, sizes)]))
    held = [truth in estimate_nested_interval(nested(rng, runs, sizes), statistic) for _ in range(4_000)]
    assert 0.935 < np.mean(held) < 0.965
