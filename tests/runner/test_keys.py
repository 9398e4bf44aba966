"""Keys are YCSB's, and every record goes to exactly one load generator."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.errors import UsageError
from citus_analysis.runner.workloads import build_key_names, hash_record_numbers, partition, share_threads

#: Pairs of record number and key as YCSB 0.17.0 printed them in recorded runs.
RECORDED = {60_000: "user2771187526451399223", 60_001: "user2226954984092788546"}


@pytest.mark.parametrize(("number", "key"), RECORDED.items())
def test_key_is_what_ycsb_inserts(number: int, key: str) -> None:
    assert build_key_names(number, number + 1) == [key]


def test_keys_do_not_depend_on_where_the_range_begins() -> None:
    assert np.array_equal(hash_record_numbers(0, 100)[40:], hash_record_numbers(40, 100))


@given(start=st.integers(0, 10**12), count=st.integers(1, 10**6), parts=st.integers(1, 64))
def test_parts_cover_every_record_once(start: int, count: int, parts: int) -> None:
    if count < parts:
        with pytest.raises(UsageError, match="cannot be divided"):
            partition(start, count, parts=parts)
        return
    ranges = partition(start, count, parts=parts)
    assert ranges[0].start == start
    assert ranges[-1].stop == start + count
    assert all(one.stop == following.start for one, following in pairwise(ranges))
    assert all(one.count >= 1 for one in ranges)


@given(threads=st.integers(1, 4000), parts=st.integers(1, 16))
def test_threads_are_all_given_out(threads: int, parts: int) -> None:
    if threads >= parts:
        assert sum(share_threads(threads, parts=parts)) == threads
