r"""The bytes of a source: opened once, decompressed on the way, handed out in bounded blocks.

Offsets always count decompressed bytes. A block ends where a line ends, so that a parser can work on whole
lines in columns; a line longer than :data:`LINE_CAP` is handed out as an *oversized* block that contains only
its beginning, so that memory stays bounded for any file.

Example:
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two-lines.log"
    >>> _ = path.write_bytes(b"one\ntwo\n")
    >>> [(block.offset, block.data) for block in Content(path).blocks(block_bytes=4)]
    [(0, b'one\n'), (4, b'two\n')]
"""

from __future__ import annotations

import codecs
import io
import os
import sys
import weakref
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, TypeAlias, cast

from citus_analysis.errors import InputError

# Detection of UTF-16 and UTF-32, which Windows shells and editors write.

#: UTF-32 first, because its little-endian mark begins with that of UTF-16.
MARKS: Final = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
#: Number of bytes examined, and the minimum for a decision.
_LOOKED_AT: Final = 1024
_LEAST: Final = 16
_TEXT: Final = frozenset({*range(0x20, 0x7F), *b"\t\r\n"})
#: Minimum share of ASCII text in the output of tools.
_MOST: Final = 0.9


def detect_wide_encoding(head: bytes) -> str | None:
    """UTF-16 or UTF-32, as `iconv` names it, if a text is in one of these encodings; None for other encodings.

    Without a byte order mark, a text is UTF-16 if every other byte is NUL and the bytes between them are ASCII text,
    and UTF-32 if three of four bytes are NUL.

    Args:
        head: the first bytes of the file.

    Example:
        >>> detect_wide_encoding("LOG:  duration".encode("utf-16-le")), detect_wide_encoding(b"LOG:  duration: 1.0 ms")
        ('UTF-16LE', None)
    """
    marked = next((name for mark, name in MARKS.items() if head.startswith(mark)), None)
    if marked is not None:
        return marked
    even, odd = head[:_LOOKED_AT:2], head[1:_LOOKED_AT:2]
    if len(odd) * 2 < _LEAST or b"\0" not in head[:_LOOKED_AT]:
        return None
    if _is_wide(head[:_LOOKED_AT:4], odd + head[2:_LOOKED_AT:4]):
        return "UTF-32LE"
    if _is_wide(head[3:_LOOKED_AT:4], even + head[1:_LOOKED_AT:4]):
        return "UTF-32BE"
    return "UTF-16LE" if _is_wide(even, odd) else "UTF-16BE" if _is_wide(odd, even) else None


def _is_wide(letters: bytes, zeros: bytes) -> bool:
    share = sum(letter in _TEXT for letter in letters) / len(letters)
    return share > _MOST and zeros.count(0) > _MOST * len(zeros)


# Compressed files as streams of their decompressed bytes, which can only be read forwards.
#
# The data before a damaged place are returned, a truncated file is distinguished from a complete one, and memory stays
# bounded for any rate of expansion.

if TYPE_CHECKING:
    import bz2
    import lzma

    import zstandard
    from isal import isal_zlib
    from lz4.frame import LZ4FrameDecompressor

    from citus_analysis.core.type_aliases import Integers

    Decompressor: TypeAlias = bz2.BZ2Decompressor | lzma.LZMADecompressor | LZ4FrameDecompressor

#: Compressed bytes that are read at once.
_COMPRESSED_READ_BYTES: Final = 256 * 2**10
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
            self._packed, self._fed = self._file.read(_COMPRESSED_READ_BYTES), 0
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


def open_decompressed(file: BinaryIO, compression: str) -> PackedStream:
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


BLOCK_BYTES: Final = 16 * 2**20
LINE_CAP: Final = 10 * 2**20
#: Size of one read; data from several reads are copied once more.
_READ_BYTES: Final = 32 * 2**20
#: Unit of `st_blocks`.
_STAT_BLOCK_BYTES: Final = 512
HEAD_BYTES: Final = 64 * 2**10
EXCERPT_BYTES: Final = 4096
LOOK_BYTES: Final = 64 * 2**10

#: A shorter file is opened once and stays in memory: opening takes as long as reading.
_SMALL_BYTES: Final = 64 * 2**10

_MAGIC: Final = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
}
_DAMAGE: Final = (EOFError, zlib.error, OSError)
#: Modules of decompressors with an error class of their own: importing one only to name it would slow every start.
_DECOMPRESSORS: Final = ("zstandard", "_lzma", "_frame")


@dataclass(frozen=True)
class Block:
    """A chunk of whole lines (the last block of a file may lack its line end).

    Attributes:
        offset: where it begins in the decompressed source.
        data: its bytes; for an oversized block, only the first :data:`EXCERPT_BYTES`.
        length: number of bytes of the source that it covers.
        oversized: the block is one line longer than :data:`LINE_CAP`.
        unfinished: the block ends at a line end where a record may continue: no record ended in :data:`LINE_CAP` bytes.
    """

    offset: int
    data: bytes
    length: int
    oversized: bool = False
    unfinished: bool = False


class OpenFile:
    """A file that stays open as long as something refers to it."""

    def __init__(self, stream: io.FileIO) -> None:
        self.number = os.dup(stream.fileno())
        weakref.finalize(self, os.close, self.number)


@dataclass(frozen=True)
class Unread:
    """A block of an uncompressed file that is not yet read; the thread that parses it reads it into its own memory.

    Attributes:
        offset: where it begins in the source.
        length: number of bytes, unless the file is truncated meanwhile.
        path: path of the file.
        file: the file.
    """

    offset: int
    length: int
    path: Path
    file: OpenFile

    def read_into(self, memory: memoryview) -> int:
        """Read the block to the beginning of `memory`; return the number of bytes read.

        Raises:
            InputError: the file cannot be read.
        """
        room, done = memory[: self.length], 0
        try:
            while more := os.preadv(self.file.number, [room[done:]], self.offset + done):
                done += more
        except OSError as error:
            raise _make_read_error(self.path, error) from error
        return done

    def read(self) -> Block:
        """Read the block into new memory.

        Raises:
            InputError: the file cannot be read.
        """
        memory = bytearray(self.length)
        done = self.read_into(memoryview(memory))
        return Block(self.offset, bytes(memoryview(memory)[:done]), done)


class Cut(Protocol):
    """A function that decides where a block may end."""

    def __call__(self, data: bytes, *, lines_only: bool) -> int:
        """The end of a block, at most the end of the last line; 0 if there is none yet.

        Args:
            data: the bytes read.
            lines_only: `data` is only the last lines of the block; the result is 0 if more bytes are needed.
        """


def find_line_starts(data: bytes) -> Integers:
    r"""Offset of each line, and after them the length of `data`.

    Example:
        >>> find_line_starts(b"a\nb").tolist(), find_line_starts(b"").tolist()
        ([0, 2, 3], [0])
    """
    import numpy as np

    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1
    whole = len(ends) > 0 and ends[-1] == len(data)
    last = [] if whole or not data else [len(data)]
    return np.concatenate([[0], ends, last]).astype(np.int64)


def find_last_line_end(data: bytes, *, lines_only: bool = False) -> int:  # noqa: ARG001 - the signature of `Cut`
    """The end of the last whole line; 0 if there is none."""
    return data.rfind(b"\n") + 1


@dataclass(frozen=True)
class Content:
    r"""The decompressed content of one file, or a split of an uncompressed one.

    Attributes:
        path: the file.
        begin: where the split begins. Only blocks are limited to the split; :attr:`head` is the file's.
        end: where the split ends; None for the end of the file.

    Raises:
        InputError: the file cannot be opened or read, or its compressed stream is damaged.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "three-lines.log"
        >>> _ = path.write_bytes(b"one\ntwo\nthree\n")
        >>> [(block.offset, block.data) for block in Content(path, begin=4, end=8).blocks()]
        [(4, b'two\n')]
    """

    path: Path
    begin: int = 0
    end: int | None = None

    @cached_property
    def start(self) -> bytes:
        """The first bytes on disk, all of a small file."""
        try:
            with self.path.open("rb") as file:
                return file.read(_SMALL_BYTES)
        except OSError as error:
            raise _make_read_error(self.path, error) from error

    @cached_property
    def compression(self) -> str:
        """`none`, `gzip`, `zstd`, `bzip2`, `xz` or `lz4`, detected from the first bytes, not from the name."""
        return next((name for magic, name in _MAGIC.items() if self.start.startswith(magic)), "none")

    @cached_property
    def head(self) -> bytes:
        """The first :data:`HEAD_BYTES` of the content, for detection; without a byte order mark."""
        return self._first.removeprefix(codecs.BOM_UTF8)

    @cached_property
    def _first(self) -> bytes:
        with closing(self.open()) as stream:
            return StreamReader(stream, self.path).read(HEAD_BYTES)

    @cached_property
    def encoding(self) -> str | None:
        """UTF-16 or UTF-32, or `UTF-8` for a text with a byte order mark; None for other texts, read as they are."""
        marked = self._first.startswith(codecs.BOM_UTF8)
        return "UTF-8" if marked else detect_wide_encoding(self._first)

    def open(self) -> BinaryIO:
        """A stream of the decompressed bytes; the caller closes it."""
        try:
            whole = io.BytesIO(self.start) if len(self.start) < _SMALL_BYTES else None
            file = whole or self.path.open("rb", buffering=0)
            return file if self.compression == "none" else cast(BinaryIO, open_decompressed(file, self.compression))
        except OSError as error:
            raise _make_read_error(self.path, error) from error

    def read(self, limit: int) -> bytes:
        """The whole content, for formats that are one document (JSON).

        Raises:
            InputError: it is longer than `limit` bytes, or damaged.
        """
        with closing(self.open()) as stream:
            reader = StreamReader(stream, self.path)
            data = reader.read(limit + 1)
            reader.raise_damage()
        if len(data) > limit:
            raise InputError(
                f"longer than {limit} bytes, the limit for this format, which is read into memory at once",
                path=self.path,
                hint="split the file",
            )
        return data

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
        """The content in order as blocks of whole lines of about `block_bytes` each.

        Raises:
            InputError: the stream is damaged; the whole lines before the damage were handed out.
        """
        for piece in self.pieces(block_bytes):
            block = piece.read() if isinstance(piece, Unread) else piece
            if block.length:
                yield block

    def pieces(
        self, block_bytes: int, cut: Cut = find_last_line_end, *, first_bytes: int | None = None
    ) -> Iterator[Block | Unread]:
        """The content in order as blocks of about `block_bytes` each, read only if needed to find their ends.

        Args:
            block_bytes: size of a block.
            cut: decides where a block may end.
            first_bytes: size of the first block, which then doubles up to `block_bytes`, so that other threads can
                begin earlier.

        Raises:
            InputError: the stream is damaged; the whole lines before the damage were handed out.
        """
        with closing(self.open()) as stream:
            if self.begin:
                stream.seek(self.begin)
            length = None if self.end is None else self.end - self.begin
            reader, offset, held = StreamReader(stream, self.path, length), self.begin, b""
            size = min(first_bytes or block_bytes, block_bytes)
            while True:
                unread = None if held else reader.unread(size, cut)
                more = b"" if unread else reader.read(size)
                size = min(2 * size, block_bytes)
                if unread:
                    yield unread
                    offset += unread.length
                    continue
                data = held + more if held else more
                if not more:
                    if data:
                        yield Block(offset, data, len(data))
                    return
                end = cut(data, lines_only=False)
                if end and reader.ended:
                    # No record continues, so that the last one need not be a block of its own.
                    end = len(data)
                unfinished = not end and len(data) > LINE_CAP
                if unfinished:
                    end = find_last_line_end(data)
                if end:
                    yield Block(offset, data[:end], end, unfinished=unfinished)
                    offset, held = offset + end, data[end:]
                elif unfinished:
                    rest, held = _skip_line(reader)
                    length = len(data) + rest
                    yield Block(offset, data[:EXCERPT_BYTES], length, oversized=True)
                    offset += length
                else:
                    held = data


class StreamReader:
    """Reads a stream; the data before a damaged place are returned before its error is raised.

    Args:
        stream: the stream, at the place where reading begins.
        path: path of the file.
        most: maximum number of bytes to read; None for all.

    Attributes:
        ended: the stream has no more bytes, and is not damaged.
    """

    def __init__(self, stream: BinaryIO, path: Path, most: int | None = None) -> None:
        # read1 of a decompressor returns the data that it has; read would lose them at a later damaged place.
        self._more: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self._stream = stream
        self._path = path
        self._damage: InputError | None = None
        self.ended = False
        self._left = sys.maxsize if most is None else most
        self._file = OpenFile(stream) if isinstance(stream, io.FileIO) and stream.seekable() else None

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end or before a damaged place."""
        self.raise_damage()
        pieces: list[bytes] = []
        size = min(size, self._left)
        try:
            while size > 0 and (piece := self._more(min(size, _READ_BYTES))):
                pieces.append(piece)
                size -= len(piece)
            self.ended = size > 0
        except Exception as error:
            lz4 = isinstance(error, RuntimeError) and "LZ4F" in str(error)
            if not (isinstance(error, _DAMAGE) or lz4 or type(error).__module__.partition(".")[0] in _DECOMPRESSORS):
                raise
            self._damage = _make_read_error(self._path, error)
            if not pieces:
                raise self._damage from error
        data = b"".join(pieces)
        self._left -= len(data)
        return data

    def unread(self, size: int, cut: Cut) -> Unread | None:
        """The next block of about `size` bytes, which count as read; None if only reading it can find its end.

        Examining only the block's end avoids a copy into new memory, which takes longer than the reading. The output
        of decompressors and pipes cannot be examined in advance.
        """
        if self._file is None or size <= LOOK_BYTES or size > self._left:
            return None
        begin = self._stream.tell()
        end = os.pread(self._file.number, LOOK_BYTES, begin + size - LOOK_BYTES)
        first = end.find(b"\n") + 1
        found = cut(end[first:], lines_only=True) if first and len(end) == LOOK_BYTES else 0
        if not found:
            return None
        length = size - LOOK_BYTES + first + found
        self._left -= length
        self._stream.seek(begin + length)
        return Unread(begin, length, self._path, self._file)

    def skip_hole(self) -> int:
        """Skip what was never written of a sparse file at this place, which reads as zeros; the number of bytes."""
        if self._file is None:
            return 0
        begin = self._stream.tell()
        try:
            data = os.lseek(self._file.number, begin, os.SEEK_DATA)
        except OSError:
            # Nothing was written from here to the end, or the file system does not tell.
            size = os.fstat(self._file.number).st_size
            sparse = os.fstat(self._file.number).st_blocks * _STAT_BLOCK_BYTES < size
            data = size if sparse else begin
        skipped = max(0, min(data - begin, self._left))
        self._stream.seek(begin + skipped)
        self._left -= skipped
        return skipped

    def raise_damage(self) -> None:
        """Raise the error that followed the last returned bytes."""
        if self._damage is not None:
            raise self._damage


def _skip_line(reader: StreamReader) -> tuple[int, bytes]:
    """Number of bytes skipped up to and including the next line end, and the bytes read after it."""
    # A log that was truncated while its writer kept its place begins with a hole of any size.
    skipped = reader.skip_hole()
    while piece := reader.read(BLOCK_BYTES):
        cut = piece.find(b"\n") + 1
        if cut:
            return skipped + cut, piece[cut:]
        skipped += len(piece) + reader.skip_hole()
    return skipped, b""


def _make_read_error(path: Path, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return InputError(f"cannot be read: {reason}", path=path, hint="check the file and its permissions")
