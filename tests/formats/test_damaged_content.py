"""A damaged compressed file gives the lines before the damage, then an error; never wrong lines."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from citus_analysis.errors import InputError
from citus_analysis.formats import Content

TEXT = b"".join(b"line %d: %d\n" % (number, number * 7919 % 10_007) for number in range(30_000))

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def read(path: Path) -> tuple[bytes, InputError | None]:
    handed_out = b""
    try:
        for block in Content(path).blocks(block_bytes=10_000):
            assert block.offset == len(handed_out)
            handed_out += block.data
    except InputError as error:
        return handed_out, error
    return handed_out, None


@pytest.mark.parametrize("kind", PACK)
def test_an_intact_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(PACK[kind](TEXT))
    assert Content(path).compression == kind
    assert read(path) == (TEXT, None)
    assert Content(path).read(len(TEXT)) == TEXT


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize("share", [0.3, 0.7, 0.999])
def test_a_truncated_file(tmp_path: Path, kind: str, share: float) -> None:
    packed = PACK[kind](TEXT)
    path = tmp_path / "a.log"
    path.write_bytes(packed[: int(len(packed) * share)])
    handed_out, error = read(path)
    assert TEXT.startswith(handed_out)
    assert handed_out == b"" or handed_out.endswith(b"\n")
    assert error is not None
    assert "cannot be read" in str(error)
    with pytest.raises(InputError, match="cannot be read"):
        Content(path).read(len(TEXT))


def test_a_truncated_gzip_keeps_most_of_its_lines(tmp_path: Path) -> None:
    packed = gzip.compress(TEXT)
    path = tmp_path / "a.log"
    path.write_bytes(packed[: len(packed) // 2])
    handed_out, _ = read(path)
    assert len(handed_out) > len(TEXT) / 3
    assert TEXT.startswith(Content(path).head)


@pytest.mark.parametrize("kind", PACK)
def test_a_file_with_a_flipped_byte(tmp_path: Path, kind: str) -> None:
    packed = bytearray(PACK[kind](TEXT))
    packed[len(packed) // 2] ^= 0xFF
    path = tmp_path / "a.log"
    path.write_bytes(packed)
    # Lines before the checksum may be wrong (bzip2 has one per 900 kB), but the file is reported.
    assert read(path)[1] is not None


def test_zstd_of_several_frames_and_reading_on_from_an_offset(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"".join(PACK["zstd"](TEXT[start : start + 50_000]) for start in range(0, len(TEXT), 50_000)))
    assert read(path) == (TEXT, None)
    with Content(path).open() as stream:
        assert stream.seek(123_456) == 123_456
        assert stream.read(0) == b""
        assert stream.read(10) == TEXT[123_456:123_466]
        assert stream.read(100_000) == TEXT[123_466:223_466]
        assert stream.read() == TEXT[223_466:]
        with pytest.raises(OSError, match="only be read forwards"):
            stream.seek(0)
