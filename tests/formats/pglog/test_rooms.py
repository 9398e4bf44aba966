"""Memory that is used again, but never while somebody still has it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.formats.serverlog.pglog.compiled.reused_memory import Rooms


def test_memory_is_used_again_once_nobody_has_it() -> None:
    rooms = Rooms()
    room = rooms.room(1000)
    address = room.ctypes.data
    buffer = pa.py_buffer(room[100:200])
    array = pa.Array.from_buffers(pa.uint8(), 100, [None, buffer])
    del room, buffer
    assert rooms.room(1000).ctypes.data != address
    del array
    assert address in {rooms.room(1000).ctypes.data, rooms.room(1000).ctypes.data}


def test_the_next_one_may_be_somewhat_larger_or_smaller() -> None:
    rooms = Rooms()
    address = rooms.room(1000).ctypes.data
    assert rooms.room(1100).ctypes.data == address
    assert rooms.room(300).ctypes.data == address


def test_what_does_not_fit_is_given_back_to_the_system() -> None:
    rooms = Rooms()
    for size in (1000, 2000, 100):
        assert len(rooms.room(size)) == size
        assert len(rooms._free) == 1


@given(sizes=st.lists(st.tuples(st.integers(0, 5000), st.booleans()), max_size=30))
def test_what_is_held_stays_as_it_is(sizes: list[tuple[int, bool]]) -> None:
    rooms = Rooms()
    held = []
    for number, (size, keep) in enumerate(sizes):
        room = rooms.room(size)
        room[:] = number % 256
        if keep:
            held.append((number, room))
        del room
    for number, room in held:
        assert (room == number % 256).all()


def test_threads_never_get_the_same_memory() -> None:
    rooms = Rooms()

    def work(number: int) -> bool:
        room = rooms.room(2**16).view(np.int64)
        room[:] = number
        return bool((room == number).all())

    with ThreadPoolExecutor(4) as workers:
        assert all(workers.map(work, range(2_000)))
    assert len(rooms._free) <= 4
