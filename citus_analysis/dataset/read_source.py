"""Read one source from its bytes to staged parts, in a worker thread.

A large file is read by threads, which spend their time in polars, numpy and decompressors without the interpreter's
lock; frames need not be copied between processes. Many small files are read by processes as well (`workers.py`), each a
whole file, because parsers of little data spend their time in the interpreter.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias, cast

from citus_analysis.dataset.manifest import SourceState, translate_write_errors
from citus_analysis.dataset.parts import PartWriter, StagedPart
from citus_analysis.dataset.recognise import hash_format_registry
from citus_analysis.dataset.run_windows import Tagger
from citus_analysis.dataset.source_files import SourceFile
from citus_analysis.dataset.walk import describe_read_error, display
from citus_analysis.dataset.workers import Stopped
from citus_analysis.errors import CitusAnalysisError, CompiledCodeError, DatasetError, InputError
from citus_analysis.formats import Content, Format, Hints, Parsed, Reject
from citus_analysis.formats.deliveries.delivery import Delivery
from citus_analysis.formats.parsing.delivered import DeliveredParser, Parser
from citus_analysis.formats.parsing.format import reject_rows
from citus_analysis.formats.parsing.log_coverage import LogCoverage
from citus_analysis.redaction import redact

if TYPE_CHECKING:
    import pyarrow as pa

#: The rows of a piece and its rejects by table, with the columns that identify them.
Tag: TypeAlias = "Callable[[Parsed], dict[str, pa.RecordBatch]]"


@dataclass
class ReadOutcome:
    """The result of reading a source, which grows piece by piece; most attributes are columns of `sources`.

    Attributes:
        staged: its parts, not yet in place.
        compression: as of :attr:`Content.compression`.
        note: place and reason of the first reject; None if nothing was rejected.
        problem: reason why the source, or the rest of it, could not be read; None if it was read completely.
        facts: columns of `sources` that say how it was read.
        coverage: how much of a server log was understood.
    """

    staged: list[StagedPart] = field(default_factory=list)
    compression: str = "none"
    content_bytes: int = 0
    parsed_bytes: int = 0
    noise_bytes: int = 0
    rejected_bytes: int = 0
    rejected: int = 0
    note: str | None = None
    problem: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    coverage: LogCoverage | None = None

    @property
    def accounted_bytes(self) -> int:
        """The bytes of all pieces."""
        return self.parsed_bytes + self.noise_bytes + self.rejected_bytes

    def add(self, piece: Parsed) -> None:
        """Count a piece."""
        self.parsed_bytes += piece.parsed_bytes
        self.noise_bytes += piece.noise_bytes
        self.rejected_bytes += piece.rejected_bytes
        self.rejected += len(piece.rejects)
        if "log_events" in piece.tables:
            self.coverage = (self.coverage or LogCoverage()) + LogCoverage.of(piece.tables["log_events"])
        if self.note is None and len(piece.rejects):
            offset, reason = piece.frame("rejects").select("byte_offset", "reason").row(0)
            self.note = f"byte {offset}: {reason}"


class _Counting(io.RawIOBase):
    """A stream that counts the bytes read from it."""

    def __init__(self, stream: BinaryIO, measured: MeasuredContent) -> None:
        self._stream, self._measured, self._count = stream, measured, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._count_bytes(self._stream.read(size), size)

    def read1(self, size: int = -1) -> bytes:
        return self._count_bytes(getattr(self._stream, "read1", self._stream.read)(size), size)

    def _count_bytes(self, data: bytes, size: int) -> bytes:
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
        if self.lengths:
            return max(self.lengths)
        if self.compression == "none":
            size = self.path.stat().st_size
            return min(size, self.end or size) - self.begin
        return sum(block.length for block in self.blocks())


def read_source(
    content: MeasuredContent,
    format_: Parser,
    hints: Hints,
    writer: PartWriter,
    tag: Tag,
    on_bytes: Callable[[int], None],
    stop: Event,
) -> ReadOutcome:
    """Parse a source into staged parts. Defects of the source become rows of `rejects`, never exceptions.

    Raises:
        DatasetError: the parts cannot be written.
        CompiledCodeError: the fault is the installation's.
    """
    outcome = ReadOutcome()

    def stage(piece: Parsed) -> None:
        stage_rows(writer, piece, tag, content.path)
        outcome.add(piece)

    try:
        for piece in format_.parse(content, hints):
            _check(stop)
            stage(piece)
            on_bytes(piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes)
    except (Stopped, DatasetError, CompiledCodeError):
        raise
    except Exception as error:  # noqa: BLE001 - a defect of one format must not cost the other files
        outcome.problem = _describe_parse_error(error, format_)
    _measure(outcome, content)
    known, length = outcome.accounted_bytes, outcome.content_bytes
    if known != length or outcome.problem:
        outcome.problem = outcome.problem or f"format {format_.name} accounts for {known} of {length} bytes"
        # Bytes not accounted for become a reject, so that the sum over a source always equals its length.
        stage(Parsed({}, 0, 0, reject_rows([Reject(known, max(length - known, 0), outcome.problem)])))
    with translate_write_errors(writer.folder, f"rows of {display(content.path)}"):
        outcome.staged = writer.finish()
    outcome.compression = detect_compression(content)
    return outcome


def stage_rows(writer: PartWriter, piece: Parsed, tag: Tag, path: Path) -> None:
    """Write the rows of a piece of a source, with the columns that identify them.

    Raises:
        DatasetError: they cannot be written.
    """
    tables = tag(piece)
    with translate_write_errors(writer.folder, f"rows of {display(path)}"):
        writer.write(tables)


def detect_compression(content: Content) -> str:
    """:attr:`Content.compression`; `none` for a file that cannot be read."""
    try:
        return content.compression
    except InputError:
        return "none"


@contextmanager
def open_delivered_content(
    path: Path, delivery: Delivery, parser: Parser, begin: int, end: int | None
) -> Iterator[tuple[MeasuredContent, Parser]]:
    """What a parser reads of a source, and the parser whose rows have their places in the file.

    Args:
        path: the file.
        delivery: how the text of the source stands in it.
        parser: a format, or the parser of a split.
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
        # Its length is that of the bytes that the source has in its file.
        yield MeasuredContent(text, lengths=[size]), DeliveredParser(parser, places, size)


def _describe_parse_error(error: Exception, format_: Parser) -> str:
    """The reason for which a format ended before the end of a source."""
    if isinstance(error, CitusAnalysisError):
        where = "" if error.place is None else f"{error.place}: "
        hint = "" if error.hint is None else f" ({error.hint})"
        return f"{where}{error.problem}{hint}"
    if isinstance(error, OSError):
        return describe_read_error(error)
    return redact(f"format {format_.name} failed: {type(error).__name__}: {error}")


def _measure(outcome: ReadOutcome, content: MeasuredContent) -> None:
    """Set the decompressed length of a source; an earlier problem comes before a damaged stream."""
    # The length of a damaged stream is that of the bytes it yielded.
    outcome.content_bytes = outcome.accounted_bytes
    try:
        outcome.content_bytes = content.length()
    except InputError as error:
        outcome.problem = outcome.problem or error.problem
    except OSError as error:
        outcome.problem = describe_read_error(error)


def _check(stop: Event) -> None:
    if stop.is_set():
        raise Stopped


# A source to be read, and its resulting manifest entry.

_OF_OUTCOME: Final = ("content_bytes", "parsed_bytes", "noise_bytes", "rejected_bytes", "rejected", "note", "problem")


@dataclass(frozen=True)
class Task:
    """A source to be read.

    Attributes:
        file: the file.
        tagger: assigns its rows to runs.
        key: hash over everything that its rows depend on.
    """

    file: SourceFile
    tagger: Tagger
    key: str

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return self.file.bytes

    @property
    def format(self) -> Format:
        """What reads it."""
        assert self.file.format is not None  # noqa: S101 - a source without one is not read
        return self.file.format

    def unread_state(self) -> SourceState:
        """The entry of a source that is not parsed: unrecognised, unreadable or a duplicate."""
        file, content = self.file, Content(self.file.path)
        state = self._state(detect_compression(content))
        if file.problem or not file.delivery.is_part:
            return state
        return replace(state, bytes=file.delivery.file_bytes(content))

    def _state(self, compression: str) -> SourceState:
        file = self.file
        note = f"same content as {file.same_as}" if file.same_as else None
        return SourceState(
            source_id=file.source_id,
            resource=file.identity.resource,
            path=file.relative,
            location=file.recorded,
            state_key=self.key,
            content_hash=file.hash,
            bytes=file.bytes,
            format=file.format.name if file.format else None,
            parser_version=file.format.version if file.format else None,
            delivery=file.delivery.words,
            delivered=file.delivery.stored(),
            compression=compression,
            identity=file.identity.to_dict(),
            run_id=self.tagger.run_id,
            recognised_by=self._recognised_by(),
            note=note,
            problem=file.problem,
            stated=self._read_stated_facts(),
        )

    def kept(self, old: SourceState) -> SourceState:
        """The entry of an unchanged source, with its present location and the formats that were tried; mostly equal."""
        path = old.path if old.location == self.file.recorded else self.file.relative
        recognised_by, stated = self._recognised_by(), self._read_stated_facts()
        return replace(old, location=self.file.recorded, path=path, recognised_by=recognised_by, stated=stated)

    def _read_stated_facts(self) -> dict[str, str]:
        return {name: redact(value) for name, value in self.file.stated.items()}

    def _recognised_by(self) -> str:
        return "" if self.file.forced or self.file.problem else hash_format_registry()

    def read_state(self, outcome: ReadOutcome) -> SourceState:
        """The entry of a source that was parsed."""
        # A given option that config.yml states has that origin.
        configured = {f"{name}_origin" for name in self.file.configured}
        given = {name for name, value in outcome.facts.items() if name in configured and value == "given"}
        notes = outcome.coverage.notes() if outcome.coverage else []
        unread = {"log_unread": "; ".join(notes)} if notes else {}
        return replace(
            self._state(outcome.compression),
            bytes=outcome.content_bytes if self.file.delivery.is_part else self.file.bytes,
            is_client=self.file.is_client,
            read_as=dict(outcome.facts) | dict.fromkeys(given, "config") | unread,
            parts=tuple(staged.part for staged in outcome.staged),
            **{name: getattr(outcome, name) for name in _OF_OUTCOME},
        )
