"""Pieces made ahead of their use."""

import threading
from collections.abc import Iterator

import pytest

from citus_analysis.ahead import work_ahead


def test_the_next_piece_is_made_while_one_is_used() -> None:
    made = [threading.Event() for _ in range(3)]

    def pieces() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    for number in work_ahead(pieces(), "test"):
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
        got.extend(work_ahead(pieces(), "test"))
    assert got == [1]


def test_nothing_at_all_and_things_that_count_as_nothing() -> None:
    assert list(work_ahead(iter(()), "test")) == []
    assert list(work_ahead(iter([None, 0, None]), "test")) == [None, 0, None]


def test_who_stops_early_ends_the_maker() -> None:
    ended = threading.Event()

    def pieces() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            ended.set()

    for number in (using := work_ahead(pieces(), "test")):
        if number == 3:
            break
    using.close()
    assert ended.is_set()
    assert not any(thread.name.startswith("test") for thread in threading.enumerate())
