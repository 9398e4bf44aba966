"""The alignment is the largest there is, and says where another is as large."""

from itertools import pairwise, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from citus_analysis.spans.pairing import Intervals, align_streams, find_compatible_pairs
from tests.shards import count_examples

TOLERANCE = 100.0


def intervals(begins: list[float], lengths: list[float], first: list[int] | None = None) -> Intervals:
    begin, length = np.array(begins, dtype=float), np.array(lengths, dtype=float)
    none = np.zeros(len(begins), np.int32)
    return Intervals(np.array(first or [0, len(begins)], dtype=np.int64), begin, begin + length, length, none)


def all_alignments(pairs: set[tuple[int, int]], tasks: int, children: int) -> list[frozenset[tuple[int, int]]]:
    """Every order-preserving set of compatible pairs, by trying each child (or none) for each task."""
    found = []
    for choice in product([*range(children), None], repeat=tasks):
        chosen = [(task, child) for task, child in enumerate(choice) if child is not None]
        ordered = all(a[1] < b[1] for a, b in pairwise(chosen))
        if ordered and set(chosen) <= pairs:
            found.append(frozenset(chosen))
    return found


sequences = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), min_size=1, max_size=5)


@settings(max_examples=count_examples(150), deadline=None)
@given(sequences, sequences)
def test_alignment_is_the_largest(tasks: list[tuple[int, int]], children: list[tuple[int, int]]) -> None:
    one = intervals(sorted(1000.0 * b for b, _ in tasks), [1000.0 * n + 500 for _, n in tasks])
    other = intervals(sorted(1000.0 * b for b, _ in children), [1000.0 * n for _, n in children])
    one = Intervals(one.first, one.begin, np.maximum.accumulate(one.end), one.length, one.values)
    other = Intervals(other.first, other.begin, np.maximum.accumulate(other.end), other.length, other.values)
    task, child, _ = find_compatible_pairs(one, other, TOLERANCE)
    pairs = set(zip(task.tolist(), child.tolist(), strict=True))
    alignments = all_alignments(pairs, len(tasks), len(children))
    largest = max(map(len, alignments))
    best = [alignment for alignment in alignments if len(alignment) == largest]

    result = align_streams(one, other, TOLERANCE)
    chosen = {(t, c) for t, c in enumerate(result.child.tolist()) if c >= 0}
    aligned = chosen & pairs
    assert frozenset(aligned) in best
    certain = {pair for pair in aligned if all(pair in alignment for alignment in best)}
    assert {t for t, _ in certain} == {t for t, _ in aligned if not result.ambiguous[t]}


def test_compatible_pairs_are_those_inside_and_short_enough() -> None:
    tasks = intervals([0, 10_000], [5_000, 5_000])
    children = intervals([1_000, 9_500, 16_500, 20_000], [4_900, 5_200, 10, 10])
    task, child, contradiction = find_compatible_pairs(tasks, children, TOLERANCE)
    # Ends 900 us late, within the resolution. The second child runs longer than its task waited; the third begins
    # 500 us beyond task and resolution.
    assert list(zip(task, child, contradiction, strict=True)) == [(0, 0, 900.0)]


def test_between_two_pairs_the_order_decides_when_nothing_is_missing() -> None:
    """The middle child's record is 30 ms late: it contradicts the clocks, but it can only be the middle task's."""
    tasks = intervals([0, 50_000, 100_000], [5_000] * 3)
    children = intervals([1_000, 85_000, 101_000], [1_000] * 3)
    assert align_streams(tasks, children, TOLERANCE).child.tolist() == [0, 1, 2]


def test_streams_do_not_mix() -> None:
    tasks = intervals([0, 0], [5_000, 5_000], [0, 1, 2])
    children = intervals([1_000, 1_000, 1_500], [100, 100, 100], [0, 0, 3])
    result = align_streams(tasks, children, TOLERANCE)
    assert result.child[0] == -1
    assert result.child[1] in (0, 1, 2)
    assert result.ambiguous.tolist() == [False, True]
