"""Blocks that were only looked at, and are read by whoever works on them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.errors import InputError
from citus_analysis.formats import Content
from citus_analysis.formats.deliveries.content import LOOK_BYTES, Block, Unread

LINE = b"a line of a log, which is neither short nor long\n"
SIZE = 2 * LOOK_BYTES
LENGTHS = [1, 50, LOOK_BYTES - 1, LOOK_BYTES + 1]


def written(path: Path, data: bytes) -> Content:
    path.write_bytes(data)
    return Content(path)


def read(piece: Block | Unread) -> Block:
    return piece.read() if isinstance(piece, Unread) else piece


def test_a_plain_file_is_looked_at_and_a_compressed_one_is_not(tmp_path: Path) -> None:
    data = LINE * 30_000
    plain = list(written(tmp_path / "a.log", data).pieces(SIZE))
    packed = list(written(tmp_path / "a.log.gz", gzip.compress(data, 1)).pieces(SIZE))
    assert sum(isinstance(piece, Unread) for piece in plain) > 5
    assert not any(isinstance(piece, Unread) for piece in packed)
    for pieces in (plain, packed):
        blocks = [read(piece) for piece in pieces]
        assert b"".join(block.data for block in blocks) == data
        assert all(block.data.endswith(b"\n") and block.length == len(block.data) for block in blocks)


@given(
    lines=st.lists(
        st.tuples(st.sampled_from([1, 50, LOOK_BYTES - 1, LOOK_BYTES + 1]), st.integers(1, 40)), max_size=12
    ),
    ended=st.booleans(),
    size=st.sampled_from([5_000, LOOK_BYTES, LOOK_BYTES + 1, SIZE]),
    first=st.sampled_from([None, 1, LOOK_BYTES + 7]),
)
def test_nothing_is_lost_wherever_blocks_end(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[int, int]], ended: bool, size: int, first: int | None
) -> None:
    data = b"".join((b"x" * (length - 1) + b"\n") * count for length, count in lines)
    data = data if ended else data[:-1]
    content = written(tmp_path_factory.mktemp("any") / "a.log", data)
    place = 0
    for piece in content.pieces(size, first_bytes=first):
        block = read(piece)
        assert (block.offset, block.data) == (place, data[place : place + block.length])
        place += block.length
    assert place == len(data)


def test_blocks_may_be_read_in_any_order_when_the_file_is_at_its_end_and_even_gone(tmp_path: Path) -> None:
    data = LINE * 20_000
    content = written(tmp_path / "a.log", data)
    pieces = list(content.pieces(SIZE))
    content.path.unlink()
    content.path.write_bytes(b"another file\n")
    found = {piece.offset: read(piece).data for piece in reversed(pieces)}
    assert b"".join(found[offset] for offset in sorted(found)) == data


def test_what_the_file_loses_meanwhile_is_missing(tmp_path: Path) -> None:
    content = written(tmp_path / "a.log", LINE * 20_000)
    pieces = content.pieces(SIZE)
    first, second = next(pieces), next(pieces)
    assert isinstance(first, Unread)
    assert isinstance(second, Unread)
    os.truncate(content.path, second.offset + 10)
    assert second.read() == Block(second.offset, LINE[:10], 10)
    assert first.read().length == first.length
    assert list(pieces) == []


def test_what_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = written(tmp_path / "a.log", LINE * 20_000)
    piece = next(content.pieces(SIZE))

    def broken(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(InputError, match=r"a\.log: cannot be read: Input/output error"):
        read(piece)
