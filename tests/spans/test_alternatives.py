"""Other offsets that would pair two nodes' statements as well."""

import numpy as np

from citus_analysis.spans.match.alternatives import LogSpan, Paired, doubtful_streams
from citus_analysis.spans.match.clocks import Bounds, ClockLine

_MS = 1000.0


def _paired(ends: list[list[float]], length_us: float) -> Paired:
    """Streams of tasks that end at these times, each with a child in its middle, by one clock."""
    time = np.concatenate([np.asarray(one, np.float64) for one in ends])
    streams = np.repeat(np.arange(len(ends)), [len(one) for one in ends])
    length = np.full(len(time), length_us)
    bounds = Bounds(time, np.full(len(time), -length_us / 4), np.full(len(time), length_us / 4))
    return Paired(streams, bounds, length, np.zeros(len(ends), np.bool_))


def test_a_stream_of_two_statements_at_the_beginning_of_a_log() -> None:
    """Few statements for each of many shards: the shortest stream in which a time between two can be looked at."""
    irregular = np.cumsum(np.random.default_rng(1).exponential(50 * _MS, 30)) + 200 * _MS
    part = _paired([[10 * _MS, 90 * _MS], irregular.tolist()], length_us=2 * _MS)
    line = ClockLine(0.0, 0.0, -_MS, _MS, 0.0, 0.0, 0.0, 32, 0)
    (found,) = doubtful_streams([part], line, LogSpan(child_begins=0.0, parent_ends=float(irregular[-1])))
    assert found.tolist() == [False, False]
