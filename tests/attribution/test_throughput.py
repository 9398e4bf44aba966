"""Terms of throughput add up to its difference, cover what is true, and are refused where Little's law gives none."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import citus_analysis as ca
from citus_analysis.attribution.decomposition import (
    ClosedLoop,
    build_closed_loops,
    compute_throughput_terms,
    estimate_jackknife_spread,
)
from citus_analysis.attribution.explanation import explain
from citus_analysis.attribution.observed import Observed, read_observations
from citus_analysis.dataset import Dataset
from citus_analysis.runs.selection import USUAL_QUESTION
from tests.shards import count_examples

TIME_US = st.floats(1, 1e7)
RUNS = st.lists(st.tuples(TIME_US, TIME_US), min_size=2, max_size=6)


def _loop(threads: float, times: list[tuple[float, float]]) -> ClosedLoop:
    """Runs with their response times and times between operations."""
    response, between = np.array(times).T
    return ClosedLoop(np.full(len(times), threads), threads / (response + between) * 1e6, response)


def _even(loop: ClosedLoop) -> np.ndarray:
    return np.full(loop.response_us.size, 1 / loop.response_us.size)


def _terms(base: ClosedLoop, other: ClosedLoop, shares: np.ndarray) -> np.ndarray:
    difference = float(other.response_us.mean() - base.response_us.mean())
    return compute_throughput_terms((base, other), _even(base), _even(other), difference * shares)


@given(RUNS, RUNS, st.integers(1, 99), st.integers(1, 99))
@settings(max_examples=count_examples(200), deadline=None)
def test_terms_add_up_and_change_their_signs_with_the_sides(
    base_times: list[tuple[float, float]], other_times: list[tuple[float, float]], before: int, after: int
) -> None:
    base, other, shares = _loop(before, base_times), _loop(after, other_times), np.array([0.7, -0.2, 0.5])
    found, mirrored = _terms(base, other, shares), _terms(other, base, shares)
    size = float(base.throughput_ops_s.mean() + other.throughput_ops_s.mean())
    difference = float(other.throughput_ops_s.mean() - base.throughput_ops_s.mean())
    assert found.sum() == pytest.approx(difference, abs=1e-9 * size * max(before, after))
    np.testing.assert_allclose(found, -mirrored, rtol=1e-6, atol=1e-9 * size * max(before, after))


def test_threads_and_the_clients_own_time_have_terms_of_their_own() -> None:
    base, other = _loop(8, [(1000.0, 0.0)] * 2), _loop(16, [(1000.0, 1000.0)] * 2)
    response, concurrency, client, uneven = _terms(base, other, np.ones(1))
    assert (response, uneven) == pytest.approx((0, 0))
    assert concurrency == pytest.approx(-client) == pytest.approx(8000 * np.log(2))
    assert (base.in_system, other.in_system) == pytest.approx((8, 8))


def test_intervals_cover_a_known_shift() -> None:
    """Eight threads, 0.2 ms between operations, and 0.4 ms more in one of two segments."""
    random = np.random.default_rng(3)
    segments, shift, runs, rounds = np.array([600.0, 900.0]), np.array([0.0, 400.0]), 5, 1500
    true = [_loop(8, [(float(times.sum()), 200.0)] * 2) for times in (segments, segments + shift)]
    truth = compute_throughput_terms((true[0], true[1]), np.full(2, 0.5), np.full(2, 0.5), shift)
    inside = np.zeros((rounds, 2))
    for i in range(rounds):
        times = [mean * random.normal(1, 0.06, size=(runs, 2)) for mean in (segments, segments + shift)]
        between = [random.normal(200, 10, runs) for _ in times]
        loops = [
            _loop(8, list(zip(side.sum(axis=1).tolist(), pause.tolist(), strict=True)))
            for side, pause in zip(times, between, strict=True)
        ]

        def terms(
            base: np.ndarray, other: np.ndarray, times: list[np.ndarray] = times, loops: list[ClosedLoop] = loops
        ) -> np.ndarray:
            return compute_throughput_terms(loops, base, other, other @ times[1] - base @ times[0])

        found = terms(*(np.full(runs, 1 / runs),) * 2)
        half, _, _ = estimate_jackknife_spread(terms, (runs, runs), paired=False).intervals(found, 0.95)
        inside[i] = (np.abs(found - truth) <= half)[:2]
    assert inside.mean(axis=0) == pytest.approx(0.95, abs=0.02)


@pytest.fixture(scope="module")
def grown(recorded_dataset: Dataset) -> Observed:
    return read_observations(
        recorded_dataset, recorded_dataset, ("w1-t16-select", "w4-t16-select"), ("", ""), USUAL_QUESTION
    )


def test_recorded_throughput_is_accounted_for(recorded_dataset: Dataset) -> None:
    found = ca.why(recorded_dataset, "w1-t16-select", "w4-t16-select")
    account = found.throughput_account
    assert account is not None
    assert sum(part.estimate_ops_s for part in account.parts) == pytest.approx(account.difference_ops_s)
    assert found.throughput is not None
    assert account.other_ops_s / account.base_ops_s == pytest.approx(found.throughput.ratio.estimate, rel=0.05)
    assert set(account.threads) == {16}
    assert all(14 < busy < 16.4 for busy in account.in_system)
    named = {part.cause.effect for part in account.parts}
    assert {"client", "uneven"} < named
    assert "concurrency" not in named
    assert any("by Little's law (" in text and "of 16 threads" in text for text in found.sentences)
    sure = {part.cause.effect for part in account.parts if part.decided and part.cause.decided}
    assert sure <= {cause.effect for cause in found.named}
    places = next(cause for cause in found.causes if cause.effect == "place")
    assert places.top_contributors is not None
    assert places.top_contributors.selection["executed"] == "remote"
    throughput = found.to_dict()["throughput"]
    assert isinstance(throughput, dict)
    assert throughput["difference_ops_s"] == account.difference_ops_s


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"arrivals": pl.lit("partly open")}, "a rate of their own"),
        ({"threads": pl.lit(8)}, "more operations of w4-t16-select were under way than its client has threads"),
        ({"threads": pl.lit(None, pl.Int32)}, "threads of w4-t16-select are not known"),
    ],
)
def test_throughput_that_does_not_follow_is_refused(grown: Observed, changed: dict[str, pl.Expr], words: str) -> None:
    side = replace(grown.other, table=grown.other.table.with_columns(**changed))
    loops, notes = build_closed_loops(replace(grown, other=side))
    assert loops is None
    assert notes[0].startswith("no account of throughput: ")
    assert words in notes[0]


def test_response_times_of_other_operations_are_refused(grown: Observed) -> None:
    side = replace(grown.base, response_us=grown.base.response_us * 1.1)
    loops, notes = build_closed_loops(replace(grown, base=side))
    assert loops is None
    assert "are of other operations than its throughput" in notes[0]


def test_a_client_with_a_pause_is_told(grown: Observed) -> None:
    side = replace(grown.other, table=grown.other.table.with_columns(threads=pl.lit(32)))
    loops, notes = build_closed_loops(replace(grown, other=side))
    assert loops is not None
    assert "also depends on the client's own time" in notes[0]


def test_what_both_sides_do_not_show_alike_has_one_name(grown: Observed) -> None:
    """The part of throughput that follows from it is said in the words of the part of the response time."""
    both = [replace(side, unseen_us=side.response_us / 10) for side in grown.both]
    found = explain(replace(grown, base=both[0], other=both[1], unseen="in what one side hides"))
    assert found.throughput_account is not None
    assert all(part.cause.words for part in found.throughput_account.parts)
    by_effect = {part.cause.effect: part.cause.words for part in found.throughput_account.parts}
    assert by_effect["unseen"] == "in what one side hides"
