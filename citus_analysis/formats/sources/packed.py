"""Compressed files as streams of their decompressed bytes, which can only be read forwards.

The data before a damaged place are returned, a truncated file is distinguished from a complete one, and memory stays
bounded for any rate of expansion.
"""

from __future__ import annotations

import io
import zlib
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias

if TYPE_CHECKING:
    import bz2
    import lzma

    import zstandard
    from isal import isal_zlib
    from lz4.frame import LZ4FrameDecompressor

    Decompressor: TypeAlias = bz2.BZ2Decompressor | lzma.LZMADecompressor | LZ4FrameDecompressor

#: Compressed bytes that are read at once.
_READ_BYTES: Final = 256 * 2**10
#: Decompressed bytes that are produced at once, or returned at once by a read without a size.
_PIECE_BYTES: Final = 4 * 2**20
#: The largest window, and the flag for a stream with gzip's header and checksum.
_GZIP: Final = zlib.MAX_WBITS | 16


class PackedStream(io.RawIOBase):
    """The decompressed bytes of a file.

    Raises:
        EOFError: (by reading) the file ends before its content does.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        #: Compressed bytes, and how many of them the decompressor has been fed.
        self._packed, self._fed = b"", 0
        self._ready, self._given = b"", 0
        self._position = 0

    @abstractmethod
    def _step(self) -> bytes | None:
        """The next few bytes, perhaps none yet; None at the end."""

    def _begins(self) -> bool:
        """Whether bytes follow the last member: zeros may come first, because tapes are written in blocks."""
        self._packed, self._fed = self._packed[self._fed :].lstrip(b"\0"), 0
        return bool(self._packed)

    def _refill(self) -> bool:
        """Ensure that there are compressed bytes to feed; false at the end of the file."""
        if self._fed == len(self._packed):
            self._packed, self._fed = self._file.read(_READ_BYTES), 0
        return bool(self._packed)

    def readable(self) -> bool:
        """Always true."""
        return True

    def read(self, size: int = -1) -> bytes:
        """`size` bytes, fewer only at the end; without a size, all remaining bytes."""
        pieces: list[bytes] = []
        while size and (piece := self.read1(size if size > 0 else _PIECE_BYTES)):
            pieces.append(piece)
            size -= len(piece) if size > 0 else 0
        return b"".join(pieces)

    def read1(self, size: int) -> bytes:
        """At least one byte and at most `size`, unless the stream is at its end."""
        while self._given == len(self._ready) and (more := self._step()) is not None:
            self._ready, self._given = more, 0
        # A slice of all bytes is not a copy.
        piece = self._ready[self._given : self._given + size]
        self._given += len(piece)
        self._position += len(piece)
        return piece

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Skip forwards to an offset."""
        if whence != io.SEEK_SET or offset < self._position:
            raise io.UnsupportedOperation("a compressed stream can only be read forwards")
        while self._position < offset and self.read1(offset - self._position):
            pass
        return self._position

    def close(self) -> None:
        """Close the stream and the file."""
        self._file.close()
        super().close()


class GzipStream(PackedStream):
    """A gzip file of one or more members.

    The package `isal` decompresses nearly twice as fast as zlib, which the module `gzip` uses. It loses the output that
    precedes a damaged place; a file found to be damaged or cut off is therefore read again from its beginning by zlib.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self._member: isal_zlib.Decompress | None = None
        self._made_bytes = 0
        self._careful: _CarefulGzipStream | None = None

    def _step(self) -> bytes | None:
        from isal import igzip_lib, isal_zlib

        if self._careful is not None:
            return self._careful.read1(_PIECE_BYTES) or None
        at_end = not self._refill()
        if self._member is None:
            if not self._begins():
                return None if at_end else b""
            self._member = isal_zlib.decompressobj(_GZIP)
        member = self._member
        try:
            data = member.decompress(self._packed[self._fed :], _PIECE_BYTES)
        except igzip_lib.IsalError:  # type: ignore[misc] # its stub declares an instance
            self._careful = self._read_again()
            return b""
        if at_end and not data and not member.eof:
            # The file is cut off, or has another fault, which zlib names.
            self._careful = self._read_again()
            return b""
        self._fed = len(self._packed) - len(member.unused_data if member.eof else member.unconsumed_tail)
        self._member = None if member.eof else member
        self._made_bytes += len(data)
        return data

    def _read_again(self) -> _CarefulGzipStream:
        """The stream that zlib reads, at the position after the bytes already returned."""
        self._file.seek(0)
        careful = _CarefulGzipStream(self._file)
        careful.seek(self._made_bytes)
        return careful


class _CarefulGzipStream(PackedStream):
    """A damaged gzip file: every byte before the damaged place is returned, then the error is raised."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self._member: zlib._Decompress | None = None
        self._careful = False

    def _step(self) -> bytes | None:
        at_end = not self._refill()
        if self._member is None:
            if not self._begins():
                return None if at_end else b""
            self._member = zlib.decompressobj(_GZIP)
        member = self._member
        # Near a damaged place, feed byte by byte: the output of bytes that are fed together with it is lost.
        fed = self._packed[self._fed : self._fed + 1 if self._careful else None]
        before = None if self._careful else member.copy()
        try:
            data = member.decompress(fed, _PIECE_BYTES)
        except zlib.error:
            if before is None:
                raise
            self._member, self._careful = before, True
            return b""
        if at_end and not data and not member.eof:
            raise EOFError("the compressed file is cut off")
        self._fed += len(fed) - len(member.unused_data if member.eof else member.unconsumed_tail)
        self._member = None if member.eof else member
        return data


class ZstdStream(PackedStream):
    """A zstd file of one or more frames.

    This class replaces the reader of the package `zstandard`, which does not report a file that is cut off.
    """

    #: Compressed bytes fed at once: a hostile file expands these by a factor of up to 32,000.
    _FED_BYTES: Final = 2 * 2**10

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self._frame: zstandard.ZstdDecompressionObj | None = None

    def _step(self) -> bytes | None:
        import zstandard

        if not self._refill():
            if self._frame is not None:
                raise EOFError("the compressed file is cut off")
            return None
        self._frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
        fed = self._packed[self._fed : self._fed + self._FED_BYTES]
        data = self._frame.decompress(fed)
        self._fed += len(fed) - len(self._frame.unused_data)
        self._frame = None if self._frame.eof else self._frame
        return data


class FramedStream(PackedStream):
    """A file of one or more streams of bzip2, xz or lz4.

    Args:
        file: the compressed file.
        new: makes the decompressor of a stream.
    """

    #: Bytes fed at once: the output of those that precede a damaged place among them is lost.
    _FED_BYTES: Final = 4 * 2**10

    def __init__(self, file: BinaryIO, new: Callable[[], Decompressor]) -> None:
        super().__init__(file)
        self._new = new
        self._stream: Decompressor | None = None

    def _step(self) -> bytes | None:
        # What a stream did not use is counted back from what it was fed, so that nothing else may be read before.
        at_end = (self._stream is None or self._stream.needs_input) and not self._refill()
        if self._stream is None:
            if not self._begins():
                return None if at_end else b""
            self._stream = self._new()
        if at_end:
            raise EOFError("the compressed file is cut off")
        stream = self._stream
        fed = self._packed[self._fed : self._fed + self._FED_BYTES] if stream.needs_input else b""
        data = stream.decompress(fed, _PIECE_BYTES)
        self._fed += len(fed)
        if stream.eof:
            self._fed -= len(stream.unused_data or b"")
            self._stream = None
        return data


def unpacked(file: BinaryIO, compression: str) -> PackedStream:
    """The decompressed bytes of a file that is compressed by `gzip`, `zstd`, `bzip2`, `xz` or `lz4`."""
    if compression == "gzip":
        return GzipStream(file)
    if compression == "zstd":
        return ZstdStream(file)
    if compression == "bzip2":
        import bz2

        return FramedStream(file, bz2.BZ2Decompressor)
    if compression == "xz":
        import lzma

        return FramedStream(file, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ))
    from lz4.frame import LZ4FrameDecompressor

    return FramedStream(file, LZ4FrameDecompressor)
