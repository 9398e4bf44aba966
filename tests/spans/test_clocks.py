"""Clock offsets are bounded by causality, and the bounds hold."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from citus_analysis.spans import build_traces
from citus_analysis.spans.clocks import (
    MAX_DRIFT,
    ClockLine,
    OffsetBounds,
    _compute_feasible_extent,
    _find_smallest_offset,
    find_most_agreed_offset,
    fit_clock,
)
from citus_analysis.spans.traces import Traces
from tests.shards import count_examples
from tests.spans.recordings import load, traces_of

PPM = 1e-6
STEP_US = 1000


def simulated(offset: float, drift: float, pairs: int = 300, seed: int = 1) -> OffsetBounds:
    """Pairs of tasks and children over 30 s whose clocks differ as given; times are truncated to milliseconds."""
    random = np.random.default_rng(seed)
    begin = np.sort(random.uniform(0, 30e6, pairs))
    there, run, back = (random.exponential(scale, pairs) for scale in (200.0, 800.0, 100.0))

    def other_clock(time: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return time + offset + drift * (time - 15e6)

    wait = there + run + back
    ends = np.floor((begin + wait) / 1000) * 1000
    child_ends = np.floor(other_clock(begin + there + run) / 1000) * 1000
    return OffsetBounds(ends, child_ends - ends - 1000, child_ends - run - (ends - wait) + 1000)


@pytest.mark.parametrize(("offset", "drift"), [(0.0, 0.0), (3e6, 50 * PPM), (-3e6, -50 * PPM), (123_456.0, 400 * PPM)])
@pytest.mark.parametrize("seed", range(5))
def test_bounds_hold_and_are_narrow(offset: float, drift: float, seed: int) -> None:
    line = fit_clock(simulated(offset, drift, seed=seed))
    at_reference = offset + drift * (line.reference - 15e6)
    assert line.offset_low <= at_reference <= line.offset_high
    assert line.drift_low <= drift <= line.drift_high
    assert line.offset_high - line.offset_low < 2000
    assert line.offset == pytest.approx(at_reference, abs=300)


@settings(max_examples=count_examples(150), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    pairs=st.integers(1, 60),
    span=st.sampled_from([0.0, 10.0, 1e6, 3e7, 1e9]),
    late=st.floats(0, 0.9),
    grid=st.booleans(),
)
def test_the_extent_is_that_of_a_linear_programme(seed: int, pairs: int, span: float, late: float, grid: bool) -> None:
    """Corners of the polygon of lines against the solver's, with times that coincide and bounds on one side only."""
    random = np.random.default_rng(seed)
    time = random.uniform(-span * (1 - late), span, pairs)
    time = np.round(time / max(span / 8, 1)) * max(span / 8, 1) if grid else time
    slope = random.uniform(-MAX_DRIFT, MAX_DRIFT)
    inside = ClockLine(0.0, 5e5, 5e5, 5e5, slope, slope, slope, pairs, 0)
    low = inside.at(time) - random.exponential(800, pairs)
    high = inside.at(time) + random.exponential(800, pairs)
    high[1:][random.uniform(size=pairs - 1) < 0.2] = np.inf
    scale = max(float(np.abs(time).max()), 1.0)
    columns = np.column_stack([np.ones(pairs), time / scale])
    rows = np.concatenate([-columns, columns[np.isfinite(high)]])
    limits = np.concatenate([-(low - 5e5), high[np.isfinite(high)] - 5e5])
    box = [(None, None), (-MAX_DRIFT * scale, MAX_DRIFT * scale)]
    ends = [
        float(linprog(np.array(cost), A_ub=rows, b_ub=limits, bounds=box).fun or 0.0) * sum(cost)
        for cost in ([1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0])
    ]
    found = _compute_feasible_extent(OffsetBounds(time, low, high), inside)
    assert np.array(found[:2]) - 5e5 == pytest.approx(ends[:2], abs=1e-3)
    assert np.array(found[2:]) * scale == pytest.approx(ends[2:], abs=1e-3)


def exactly_lowest(time: list[float], low: list[float], least: float, most: float) -> Fraction:
    """The same in fractions: the least of the largest bounds, at each slope where that can be."""
    points = [(Fraction(t), Fraction(bound)) for t, bound in zip(time, low, strict=True)]
    ends = Fraction(least), Fraction(most)
    crossings = [(b - d) / (a - c) for a, b in points for c, d in points if a != c]
    slopes = [*ends, *(slope for slope in crossings if ends[0] <= slope <= ends[1])]
    return min(max(bound - slope * t for t, bound in points) for slope in slopes)


#: Smaller numbers have fewer digits.
SMALLEST = Fraction(np.finfo(np.float64).tiny)
SCALES = st.sampled_from([1e-150, 1e-9, 1.0, 1 / 3, 0.1, 1e6 / 3, 1e12, 1e150])
NUMBERS = st.one_of(
    st.builds(lambda whole, scale: whole * scale, st.integers(-4, 4), SCALES), st.floats(-1e150, 1e150), st.just(0.0)
)


@st.composite
def on_a_line(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Bounds that touch one line but for rounding, some of them well below it."""
    scale, slope, base = draw(SCALES), draw(st.sampled_from([1e-4, 0.1, 1 / 3, -0.5])), draw(NUMBERS)
    times = [place * scale for place in draw(st.lists(st.integers(-4, 4), min_size=1, max_size=8))]
    return [(time, slope * time + base - draw(st.sampled_from([0.0, 0.0, 1.0]))) for time in times]


@settings(max_examples=count_examples(500), deadline=5000)
@given(
    bounds=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8) | on_a_line(),
    least=st.floats(-1, 0) | st.sampled_from([-1e-3, 0.0]),
    most=st.floats(0, 1) | st.sampled_from([1e-3, 0.0]),
)
def test_the_lowest_offset_of_any_bounds_is_found(bounds: list[tuple[float, float]], least: float, most: float) -> None:
    time, low = [t for t, _ in bounds], [bound for _, bound in bounds]
    found = _find_smallest_offset(np.array(time), np.array(low), least, most)
    size = max(abs(bound) for bound in low) + max(abs(t) for t in time)
    assert abs(Fraction(found) - exactly_lowest(time, low, least, most)) <= Fraction(size) * Fraction(1e-14) + SMALLEST


def test_bounds_on_one_line_lead_nobody_in_circles() -> None:
    """Rounding puts one or the other of these above the cut of the others, by turns."""
    time = np.array([333333.3333333333, -666666.6666666666, -333333.3333333333, 1000000.0, -1000000.0])
    low = np.array(
        [111111.2111111111, -222222.12222222218, -111111.01111111109, 333333.4333333333, -333333.23333333334]
    )
    assert _find_smallest_offset(time, low, -1.0, 1.0) == pytest.approx(0.1, abs=1e-6)


def test_late_records_and_wrong_pairs_are_left_out() -> None:
    bounds = simulated(5e5, 20 * PPM)
    high, low = bounds.high.copy(), bounds.low.copy()
    high[::29] -= 20_000  # the task's record was written 20 ms late
    low[::31] += 4e6  # not a pair at all
    high[::31] += 4e6
    line = fit_clock(OffsetBounds(bounds.time, low, high))
    assert line.contradicting == len(set(range(0, 300, 29)) | set(range(0, 300, 31)))
    assert line.offset_low <= 5e5 + 20 * PPM * (line.reference - 15e6) <= line.offset_high


def test_one_pair_is_enough_for_bounds() -> None:
    line = fit_clock(OffsetBounds(np.array([0.0]), np.array([-1000.0]), np.array([2000.0])))
    assert (line.offset_low, line.offset_high, line.pairs) == (-1000.0, 2000.0, 1)


def test_the_line_seen_from_the_other_node() -> None:
    line = fit_clock(simulated(3e6, 50 * PPM))
    other = line.reversed()
    assert other.offset == -line.offset
    assert (other.offset_low, other.offset_high) == (-line.offset_high, -line.offset_low)
    assert other.reference == line.reference + line.offset


def test_votes_elsewhere_show_how_sure_an_offset_is() -> None:
    low = np.array([0.0, 100.0, 200.0, 50_000.0, 50_100.0])
    offset, votes, others = find_most_agreed_offset(OffsetBounds(np.zeros(5), low, low + 1000))
    assert 200 <= offset <= 1000
    assert (votes, others) == (3, 2)


@pytest.fixture(params=[(3_000_000, 50), (-3_000_000, -50)], ids=["+3s +50ppm", "-3s -50ppm"], scope="module")
def skewed(request: pytest.FixtureRequest) -> tuple[Traces, int, float]:
    """A recording of two nodes with one clock, with node 2's clock moved and made to run fast or slow.

    Times are recorded in whole milliseconds, so the clock that runs fast does so in steps of one: it is up to
    `STEP_US` / 2 beside the line.
    """
    offset, ppm = request.param
    recording = load("w2-t4-insert")
    time = pl.col("log_time").cast(pl.Datetime("us", "UTC"))
    elapsed = (time - time.min()).dt.total_microseconds()
    shift = ((offset + elapsed * ppm * PPM) / STEP_US).round().cast(pl.Int64) * STEP_US
    moved = (time + pl.duration(microseconds=shift)).cast(pl.Datetime("ms", "UTC"))
    events = recording.log_events.with_columns(
        log_time=pl.when(pl.col("node") == "2").then(moved).otherwise("log_time")
    )
    return build_traces(events, recording.nodes), offset, ppm * PPM


def test_a_skewed_clock_is_found_within_the_bounds(skewed: tuple[Traces, int, float]) -> None:
    traces, offset, drift = skewed
    start = load("w2-t4-insert").log_events["log_time"].min()
    for row in traces.clock_offsets.iter_rows(named=True):
        sign = 1 if row["child_node"] == "2" else -1
        # The reference is on the parent's clock, whichever node that is.
        elapsed = (row["reference_time"] - start).total_seconds() * 1e6 - (offset if sign < 0 else 0)
        expected = sign * (offset + drift * elapsed)
        assert row["offset_low_us"] - STEP_US / 2 <= expected <= row["offset_high_us"] + STEP_US / 2
        assert row["drift_low_ppm"] <= sign * drift * 1e6 <= row["drift_high_ppm"]
        assert row["pairs"] in (487, 501)


def test_skew_does_not_change_pairs_or_raw_times(skewed: tuple[Traces, int, float]) -> None:
    traces, offset, _ = skewed
    assert traces.match_quality["exact"].sum() == 988
    original = traces_of("w2-t4-insert").spans
    key = ["span_id", "end_time"]
    both = original.select(*key, "node").join(traces.spans.select(key), on="span_id", suffix="_skewed")
    moved = (pl.col("end_time_skewed") - pl.col("end_time")).dt.total_seconds().alias("moved")
    assert both.filter(pl.col("node") == "1").select(moved).unique().item() == 0
    assert both.filter(pl.col("node") == "2").select(moved)["moved"].mean() == pytest.approx(offset / 1e6, abs=0.01)


def test_nodes_that_share_a_clock_show_no_offset() -> None:
    offsets = traces_of("w4-t4-insert").clock_offsets
    assert offsets.height == 12
    assert offsets.filter(~pl.lit(0.0).is_between("offset_low_us", "offset_high_us")).height == 0
