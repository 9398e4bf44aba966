"""Pieces made, and worked on, ahead of their use."""

import threading
import time
from collections.abc import Iterator

import pytest

from citus_analysis.core.parallel import map_in_order, prefetch_in_thread


def a_hundred(ended: threading.Event) -> Iterator[int]:
    """Numbers, and a word when they are not wanted any more."""
    try:
        yield from range(100)
    finally:
        ended.set()


def test_the_next_piece_is_made_while_one_is_used() -> None:
    made = [threading.Event() for _ in range(3)]

    def pieces() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    for number in prefetch_in_thread(pieces(), "test"):
        if number < 2:
            assert made[number + 1].wait(10)
        if number == 0:
            assert not made[2].is_set()


def test_a_failure_comes_where_its_piece_would_have() -> None:
    def pieces() -> Iterator[int]:
        yield 1
        raise ValueError("no second")

    got: list[int] = []
    with pytest.raises(ValueError, match="no second"):
        got.extend(prefetch_in_thread(pieces(), "test"))
    assert got == [1]


def test_nothing_at_all_and_things_that_count_as_nothing() -> None:
    assert list(prefetch_in_thread(iter(()), "test")) == []
    assert list(prefetch_in_thread(iter([None, 0, None]), "test")) == [None, 0, None]


def test_who_stops_early_ends_the_maker() -> None:
    ended = threading.Event()
    for number in (using := prefetch_in_thread(a_hundred(ended), "test")):
        if number == 3:
            break
    using.close()
    assert ended.is_set()
    assert not any(thread.name.startswith("test") for thread in threading.enumerate())


@pytest.mark.parametrize("ahead", [1, 3])
def test_so_many_are_made_ahead_and_no_more(ahead: int) -> None:
    made = 0
    enough = threading.Semaphore(0)

    def pieces() -> Iterator[int]:
        nonlocal made
        for made in range(1, 11):
            enough.release()
            yield made

    for number in prefetch_in_thread(pieces(), "test", ahead):
        for _ in range(1 if number > 1 else ahead + 1):
            assert number > 10 - ahead or enough.acquire(timeout=10)
        assert made <= number + ahead


def test_a_result_is_handed_on_while_the_next_piece_is_being_made() -> None:
    taken = threading.Event()

    def pieces() -> Iterator[int]:
        yield 1
        assert taken.wait(10)
        yield 2

    got = []
    for result in map_in_order(pieces(), lambda number: 10 * number, 2, "test"):
        got.append(result)
        taken.set()
    assert got == [10, 20]


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_no_more_pieces_are_made_than_there_are_workers(jobs: int) -> None:
    made: list[int] = []

    def pieces() -> Iterator[int]:
        for number in range(20):
            made.append(number)
            yield number

    taken = 0
    for _ in map_in_order(pieces(), abs, jobs, "test"):
        taken += 1
        # Time for whoever would make more.
        time.sleep(0.005)
        assert len(made) <= taken - 1 + jobs
    assert taken == len(made) == 20


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_results_come_in_order_and_a_failure_in_its_place(jobs: int) -> None:
    def work(number: int) -> int:
        if number == 7:
            raise ValueError("seven")
        return -number

    got: list[int] = []
    with pytest.raises(ValueError, match="seven"):
        got.extend(map_in_order(iter(range(20)), work, jobs, "test"))
    assert got == [-number for number in range(7)]
    assert not any(thread.name.startswith("test") for thread in threading.enumerate())


def test_who_stops_early_ends_the_workers() -> None:
    ended = threading.Event()
    working = map_in_order(a_hundred(ended), abs, 2, "test")
    assert [next(working), next(working)] == [0, 1]
    working.close()
    assert ended.is_set()
    assert not any(thread.name.startswith("test") for thread in threading.enumerate())
