"""Compressed files as streams, against the module `gzip` and the package `zstandard`."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from citus_analysis.formats.deliveries import content as _packed
from citus_analysis.formats.deliveries.content import GzipStream, PackedStream, ZstdStream
from tests.shards import count_examples

TEXT = b"".join(b"line %d: %d\n" % (number, number * 7919 % 10_007) for number in range(3_000))
STREAMS: dict[type[PackedStream], Callable[[bytes], bytes]] = {
    GzipStream: gzip.compress,
    ZstdStream: zstandard.ZstdCompressor(write_checksum=True).compress,
}
each_stream = pytest.mark.parametrize("stream", STREAMS)
DAMAGE = (EOFError, zlib.error, zstandard.ZstdError)


def handed_out(stream: PackedStream, sizes: list[int]) -> tuple[bytes, Exception | None]:
    """All that comes, read in steps of these sizes again and again, and the error that ends it."""
    found = b""
    try:
        while True:
            for size in sizes:
                piece = stream.read1(size)
                assert len(piece) <= size
                if not piece:
                    return found, None
                found += piece
    except DAMAGE as error:
        return found, error


@each_stream
@settings(max_examples=count_examples(40), deadline=None)
@given(
    pieces=st.lists(st.binary(max_size=300) | st.just(TEXT) | st.just(bytes(100_000)), max_size=4),
    sizes=st.lists(st.integers(1, 200_000), min_size=1, max_size=3),
    piece_bytes=st.sampled_from([1_000, 65_536, 2**22]),
)
def test_members_and_frames_follow_each_other(
    stream: type[PackedStream], pieces: list[bytes], sizes: list[int], piece_bytes: int
) -> None:
    packed = b"".join(map(STREAMS[stream], pieces))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_packed, "_PIECE_BYTES", piece_bytes)
        assert handed_out(stream(io.BytesIO(packed)), sizes) == (b"".join(pieces), None)
        assert stream(io.BytesIO(packed)).read() == b"".join(pieces)


@each_stream
@settings(max_examples=count_examples(60), deadline=None)
@given(end=st.integers(1, 10**6))
def test_of_a_file_that_was_cut_off_comes_what_there_is(stream: type[PackedStream], end: int) -> None:
    packed = STREAMS[stream](TEXT)
    found, error = handed_out(stream(io.BytesIO(packed[: end % len(packed)])), [10_000])
    assert TEXT.startswith(found)
    assert isinstance(error, EOFError) or end % len(packed) == 0


@settings(max_examples=count_examples(60), deadline=None)
@given(place=st.integers(10, 10**6), flip=st.integers(1, 255))
def test_what_stands_before_a_damage_is_handed_out(place: int, flip: int) -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[place % len(packed)] ^= flip
    found, error = handed_out(GzipStream(io.BytesIO(bytes(packed))), [10_000])
    # As much as the decompressor gives when it is fed byte by byte.
    told, wanted = zlib.decompressobj(31), b""
    try:
        for number in range(len(packed)):
            wanted += told.decompress(bytes(packed[number : number + 1]))
    except zlib.error:
        assert error is not None
    assert found == wanted
    assert found == TEXT or error is not None


def test_zeros_behind_a_member_are_no_content_but_other_bytes_are_a_damage() -> None:
    padded = gzip.compress(b"one\n") + bytes(600_000) + gzip.compress(b"two\n") + bytes(3)
    assert gzip.decompress(padded) == b"one\ntwo\n"
    assert handed_out(GzipStream(io.BytesIO(padded)), [100]) == (b"one\ntwo\n", None)
    found, error = handed_out(GzipStream(io.BytesIO(gzip.compress(b"one\n") + b"what")), [100])
    assert found == b"one\n"
    assert isinstance(error, zlib.error)


def test_a_wrong_checksum_is_a_damage_behind_all_content() -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[-6] ^= 1
    found, error = handed_out(GzipStream(io.BytesIO(bytes(packed))), [10_000])
    assert found == TEXT
    assert "incorrect data check" in str(error)


@each_stream
def test_reading_on_from_an_offset(stream: type[PackedStream]) -> None:
    with stream(io.BytesIO(STREAMS[stream](TEXT))) as opened:
        assert opened.seek(12_345) == 12_345
        assert opened.read(0) == b""
        assert opened.read(10) == TEXT[12_345:12_355]
        assert opened.read(10_000) == TEXT[12_355:22_355]
        with pytest.raises(io.UnsupportedOperation, match="only be read forwards"):
            opened.seek(0)
        assert opened.read() == TEXT[22_355:]
        assert opened.seek(10**9) == len(TEXT)


def test_a_hostile_file_expands_step_by_step() -> None:
    stream = GzipStream(io.BytesIO(gzip.compress(bytes(64 * 2**20))))
    largest = 0
    while piece := stream.read1(2**30):
        largest = max(largest, len(piece))
    assert 0 < largest <= _packed._PIECE_BYTES
