"""Zstandard streams that notice when their file was cut off.

The reader of the `zstandard` package takes the end of the file for the end of the stream, wherever it comes.
"""

from __future__ import annotations

import io
from typing import BinaryIO, Final

import zstandard

__all__ = ["ZstdStream"]

#: Compressed bytes per read, and per step: a hostile file expands these by a factor of up to 32,000 at once.
_READ_BYTES: Final = 64 * 2**10
_STEP_BYTES: Final = 512


class ZstdStream(io.RawIOBase):
    """The decompressed bytes of a file of one or more frames, forwards only.

    Raises:
        EOFError: (by reading) the file ends within a frame.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._packed, self._fed = b"", 0
        self._ready = memoryview(b"")
        self._position = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """`size` bytes, fewer only at the end; all that is left without a size."""
        pieces: list[bytes] = []
        while size and (piece := self.read1(size if size > 0 else _READ_BYTES)):
            pieces.append(piece)
            size -= len(piece) if size > 0 else 0
        return b"".join(pieces)

    def read1(self, size: int) -> bytes:
        """At least one byte and at most `size`, unless the stream is at its end."""
        while not self._ready and self._step():
            pass
        piece, self._ready = bytes(self._ready[:size]), self._ready[size:]
        self._position += len(piece)
        return piece

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Skip forwards to an offset."""
        if whence != io.SEEK_SET or offset < self._position:
            raise io.UnsupportedOperation("a zstd stream can only be read forwards")
        while self._position < offset and self.read1(offset - self._position):
            pass
        return self._position

    def close(self) -> None:
        """Close the file too."""
        self._file.close()
        super().close()

    def _step(self) -> bool:
        """Decompress a little more; false at the end."""
        if self._fed == len(self._packed):
            self._packed, self._fed = self._file.read(_READ_BYTES), 0
        if not self._packed:
            if self._frame is not None:
                raise EOFError("compressed file ended within a frame")
            return False
        self._frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
        piece = self._packed[self._fed : self._fed + _STEP_BYTES]
        self._fed += len(piece)
        self._ready = memoryview(self._frame.decompress(piece))
        if self._frame.eof:
            self._fed -= len(self._frame.unused_data)
            self._frame = None
        return True
