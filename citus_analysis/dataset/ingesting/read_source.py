"""Read one source from its bytes to staged parts, in a worker thread.

A large file is read by threads, which spend their time in polars, numpy and decompressors without the interpreter's
lock; frames need not be copied between processes. Many small files are read by processes as well (`pool.py`), each a
whole file, because parsers of little data spend their time in the interpreter.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, cast

from citus_analysis.dataset.discover.walk import display, unreadable
from citus_analysis.dataset.ingesting.workers.pool import Stopped
from citus_analysis.dataset.storage.parts import PartWriter, Staged
from citus_analysis.dataset.storage.write_errors import writing
from citus_analysis.errors import CitusAnalysisError, DatasetError, InputError
from citus_analysis.formats import Content, Hints, Parsed, Reject
from citus_analysis.formats.api.delivered import DeliveredParser, Parser
from citus_analysis.formats.api.format import reject_rows
from citus_analysis.formats.api.log_coverage import LogCoverage
from citus_analysis.formats.deliveries.delivery import Delivery
from citus_analysis.redaction import redact

if TYPE_CHECKING:
    import pyarrow as pa

#: The rows of a piece and its rejects by table, with the columns that identify them.
Tag: TypeAlias = "Callable[[Parsed], dict[str, pa.RecordBatch]]"


@dataclass(frozen=True)
class Outcome:
    """The result of reading a source.

    Attributes:
        staged: its parts, not yet in place.
        compression: as of :attr:`Content.compression`.
        first_reject: place and reason of the first reject; None if nothing was rejected.
        problem: reason why the source, or the rest of it, could not be read; None if it was read completely.
        facts: columns of `sources` that say how it was read.
        coverage: how much of a server log was understood.
    """

    staged: list[Staged]
    compression: str
    content_bytes: int
    parsed_bytes: int
    noise_bytes: int
    rejected_bytes: int
    rejected: int
    first_reject: str | None
    problem: str | None
    facts: Mapping[str, str] = field(default_factory=dict)
    coverage: LogCoverage | None = None


class _Counting(io.RawIOBase):
    """A stream that counts the bytes read from it."""

    def __init__(self, stream: BinaryIO, measured: MeasuredContent) -> None:
        self._stream, self._measured, self._count = stream, measured, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._counted(self._stream.read(size), size)

    def read1(self, size: int = -1) -> bytes:
        return self._counted(getattr(self._stream, "read1", self._stream.read)(size), size)

    def _counted(self, data: bytes, size: int) -> bytes:
        self._count += len(data)
        if not data and size:
            self._measured.lengths.append(self._count)
        return data

    def close(self) -> None:
        self._stream.close()
        super().close()


@dataclass(frozen=True)
class MeasuredContent(Content):
    """Content that learns its decompressed length while a parser reads it to the end."""

    lengths: list[int] = field(default_factory=list, compare=False)

    def open(self) -> BinaryIO:
        """A stream of the decompressed bytes; the caller closes it."""
        stream = super().open()
        return stream if self.compression == "none" else cast(BinaryIO, _Counting(stream, self))

    def length(self) -> int:
        """Decompressed length; reads the content again if no parser reached its end."""
        if self.compression == "none":
            size = self.path.stat().st_size
            return min(size, self.end or size) - self.begin
        if not self.lengths:
            return sum(block.length for block in self.blocks())
        return max(self.lengths)


@dataclass
class _Account:
    parsed: int = 0
    noise: int = 0
    rejected: int = 0
    rejects: int = 0
    first_reject: str | None = None
    coverage: LogCoverage | None = None

    def add(self, piece: Parsed) -> None:
        self.parsed += piece.parsed_bytes
        self.noise += piece.noise_bytes
        self.rejected += piece.rejected_bytes
        self.rejects += len(piece.rejects)
        if "log_events" in piece.tables:
            self.coverage = (self.coverage or LogCoverage()) + LogCoverage.of(piece.tables["log_events"])
        if self.first_reject is None and len(piece.rejects):
            offset, reason = piece.frame("rejects").select("byte_offset", "reason").row(0)
            self.first_reject = f"byte {offset}: {reason}"

    @property
    def total(self) -> int:
        return self.parsed + self.noise + self.rejected


def read_source(
    content: MeasuredContent,
    format_: Parser,
    hints: Hints,
    writer: PartWriter,
    tag: Tag,
    on_bytes: Callable[[int], None],
    stop: Event,
) -> Outcome:
    """Parse a source into staged parts. Defects of the source become rows of `rejects`, never exceptions.

    Raises:
        DatasetError: the parts cannot be written.
    """
    account, place = _Account(), f"rows of {display(content.path)}"

    def stage(piece: Parsed) -> None:
        stage_rows(writer, piece, tag, content.path)
        account.add(piece)

    problem = None
    try:
        for piece in format_.parse(content, hints):
            _check(stop)
            stage(piece)
            on_bytes(piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes)
    except (Stopped, DatasetError):
        raise
    except Exception as error:  # noqa: BLE001 - a defect of one format must not cost the other files
        problem = _problem_of(error, format_)
    length, problem = _checked_length(content, account, problem)
    missing = length - account.total
    if missing or problem:
        problem = problem or f"format {format_.name} accounts for {account.total} of {length} bytes"
        # Bytes not accounted for become a reject, so that the sum over a source always equals its length.
        stage(Parsed({}, 0, 0, reject_rows([Reject(account.total, max(missing, 0), problem)])))
    with writing(writer.folder, place):
        staged = writer.finish()
    counts = (account.parsed, account.noise, account.rejected, account.rejects, account.first_reject)
    return Outcome(staged, compression_of(content), length, *counts, problem, coverage=account.coverage)


def stage_rows(writer: PartWriter, piece: Parsed, tag: Tag, path: Path) -> None:
    """Write the rows of a piece of a source, with the columns that identify them.

    Raises:
        DatasetError: they cannot be written.
    """
    tables = tag(piece)
    with writing(writer.folder, f"rows of {display(path)}"):
        writer.write(tables)


def compression_of(content: Content) -> str:
    """:attr:`Content.compression`; `none` for a file that cannot be read."""
    try:
        return content.compression
    except InputError:
        return "none"


@dataclass(frozen=True)
class DeliveredContent(MeasuredContent):
    """The undone text of a source, whose length is that of the bytes that it has in its file."""

    file_bytes: int = 0

    def length(self) -> int:
        """Bytes of the file that are the source's."""
        return self.file_bytes


@contextmanager
def delivered_content(
    path: Path, delivery: Delivery, parser: Parser, begin: int, end: int | None
) -> Iterator[tuple[MeasuredContent, Parser]]:
    """What a parser reads of a source, and the parser whose rows have their places in the file.

    Args:
        path: the file.
        delivery: how the text of the source stands in it.
        parser: a format, or the parser of a stretch.
        begin: first byte that is read, of a file that holds the text as it is.
        end: end of the bytes that are read; None: the end of the file.

    Raises:
        InputError: the file cannot be read.
    """
    if not delivery.is_undone:
        yield MeasuredContent(path, begin, end), parser
        return
    with tempfile.TemporaryDirectory(prefix="citus-analysis-") as folder:
        text = Path(folder) / path.name
        places = delivery.write(Content(path), text)
        size = places.file_bytes if delivery.is_part else MeasuredContent(path).length()
        yield DeliveredContent(text, file_bytes=size), DeliveredParser(parser, places, size)


def _problem_of(error: Exception, format_: Parser) -> str:
    """The reason for which a format ended before the end of a source."""
    if isinstance(error, CitusAnalysisError):
        where = "" if error.place is None else f"{error.place}: "
        way_out = "" if error.way_out is None else f" ({error.way_out})"
        return f"{where}{error.problem}{way_out}"
    if isinstance(error, OSError):
        return unreadable(error)
    return redact(f"format {format_.name} failed: {type(error).__name__}: {error}")


def _checked_length(content: MeasuredContent, account: _Account, problem: str | None) -> tuple[int, str | None]:
    """Decompressed length of a source, and the problem with it; an earlier problem comes before a damaged stream."""
    try:
        return content.length(), problem
    except InputError as error:
        # The length of a damaged stream is that of the bytes it yielded.
        return account.total, problem or error.problem
    except OSError as error:
        return account.total, unreadable(error)


def _check(stop: Event) -> None:
    if stop.is_set():
        raise Stopped
