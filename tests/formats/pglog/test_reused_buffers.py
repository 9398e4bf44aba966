"""Memory that is used again, but never while somebody still has it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.formats.pglog.filled_columns import ReusedBuffers


def test_memory_is_used_again_once_nobody_has_it() -> None:
    buffers = ReusedBuffers()
    memory = buffers.buffer(1000)
    address = memory.ctypes.data
    buffer = pa.py_buffer(memory[100:200])
    array = pa.Array.from_buffers(pa.uint8(), 100, [None, buffer])
    del memory, buffer
    assert buffers.buffer(1000).ctypes.data != address
    del array
    assert address in {buffers.buffer(1000).ctypes.data, buffers.buffer(1000).ctypes.data}


def test_the_next_one_may_be_somewhat_larger_or_smaller() -> None:
    buffers = ReusedBuffers()
    address = buffers.buffer(1000).ctypes.data
    assert buffers.buffer(1100).ctypes.data == address
    assert buffers.buffer(300).ctypes.data == address


def test_what_does_not_fit_is_given_back_to_the_system() -> None:
    buffers = ReusedBuffers()
    for size in (1000, 2000, 100):
        assert len(buffers.buffer(size)) == size
        assert len(buffers._free) == 1


@given(sizes=st.lists(st.tuples(st.integers(0, 5000), st.booleans()), max_size=30))
def test_what_is_held_stays_as_it_is(sizes: list[tuple[int, bool]]) -> None:
    buffers = ReusedBuffers()
    held = []
    for number, (size, keep) in enumerate(sizes):
        memory = buffers.buffer(size)
        memory[:] = number % 256
        if keep:
            held.append((number, memory))
        del memory
    for number, memory in held:
        assert (memory == number % 256).all()


def test_threads_never_get_the_same_memory() -> None:
    buffers = ReusedBuffers()

    def work(number: int) -> bool:
        memory = buffers.buffer(2**16).view(np.int64)
        memory[:] = number
        return bool((memory == number).all())

    with ThreadPoolExecutor(4) as workers:
        assert all(workers.map(work, range(2_000)))
    assert len(buffers._free) <= 4
