"""A delivery: all that stands between a file and the text that a format reads."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from citus_analysis.core.parallel import prefetch_in_thread
from citus_analysis.core.type_aliases import Integers
from citus_analysis.formats.deliveries.content import (
    BLOCK_BYTES,
    LINE_CAP,
    MARKS,
    Content,
    StreamReader,
    find_line_starts,
)
from citus_analysis.formats.deliveries.line_prefixes import LinePrefix
from citus_analysis.formats.deliveries.log_services import Export
from citus_analysis.formats.deliveries.placed_lines import (
    WHOLE,
    OutOfOrderError,
    PlacedLines,
    Places,
    Step,
    split_blocks_into_lines,
    write_undone,
)

# The lines of a file in UTF-16 or UTF-32, or with a byte order mark, as UTF-8.

_UTF8_MARK: Final = "UTF-8"


def decode_encoded_lines(content: Content, encoding: str | None, *, anywhere: bool = False) -> Iterator[PlacedLines]:
    """The lines of a file as UTF-8; characters that the encoding does not have become replacement characters.

    Args:
        content: the file.
        encoding: `UTF-16`, `UTF-16LE`, `UTF-16BE`, `UTF-32`, `UTF-8` (a byte order mark is left out), or None.
        anywhere: chunks need not end where lines end, so that lines of any length are whole.

    Raises:
        InputError: the file cannot be read.
    """
    if encoding in {None, _UTF8_MARK}:
        texts = _cut_anywhere(content) if anywhere else split_blocks_into_lines(content.blocks())
        yield from texts if encoding is None else _strip_byte_order_mark(texts)
    else:
        yield from _recode_lines(content, _get_codec(content, encoding))


def _cut_anywhere(content: Content) -> Iterator[PlacedLines]:
    with closing(content.open()) as stream:
        reader, offset = StreamReader(stream, content.path), 0
        while data := reader.read(BLOCK_BYTES):
            yield PlacedLines.from_file(data, offset)
            offset += len(data)


def _strip_byte_order_mark(texts: Iterator[PlacedLines]) -> Iterator[PlacedLines]:
    mark = len(codecs.BOM_UTF8)
    for text in texts:
        if len(text) and text.begins[0] == 0 and text.data.startswith(codecs.BOM_UTF8):
            starts = np.maximum(text.starts - mark, 0)
            yield PlacedLines(text.data[mark:], starts, text.begins, text.ends)
        else:
            yield text


def _get_codec(content: Content, encoding: str) -> tuple[str, int]:
    """Name of the codec with its byte order, and the bytes of a unit."""
    marked = next((mark for mark in MARKS if content.start.startswith(mark)), b"")
    unit = 4 if encoding.startswith("UTF-32") else 2
    big = encoding.endswith("BE") or marked in {codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE}
    return f"utf-{8 * unit}-{'be' if big else 'le'}", unit


def _recode_lines(content: Content, codec: tuple[str, int]) -> Iterator[PlacedLines]:
    name, unit = codec
    with closing(content.open()) as stream:
        reader, held, offset = StreamReader(stream, content.path), b"", 0
        while True:
            more = reader.read(BLOCK_BYTES)
            data = held + more
            bounds = _find_encoded_line_ends(data, codec)
            if not more:
                bounds = np.union1d(bounds, [len(data)])
            elif not len(bounds) and len(data) > 4 * LINE_CAP:
                # A line beyond the cap is cut into pieces, so that memory stays bounded.
                bounds = np.array([len(data) // unit * unit])
            end = int(bounds[-1]) if len(bounds) else 0
            if end:
                yield _convert_to_utf8(data[:end], np.concatenate([[0], bounds]), offset, name)
            offset, held = offset + end, data[end:]
            if not more:
                return


def _find_encoded_line_ends(data: bytes, codec: tuple[str, int]) -> Integers:
    """Offsets after the line ends in a chunk that begins with a whole unit."""
    name, unit = codec
    order = ">" if name.endswith("be") else "<"
    units = np.frombuffer(data[: len(data) // unit * unit], f"{order}u{unit}")
    return (np.flatnonzero(units == ord("\n")) + 1) * unit


def _convert_to_utf8(data: bytes, bounds: Integers, offset: int, codec: str) -> PlacedLines:
    text = data.decode(codec, "replace")
    utf8 = text.removeprefix("\ufeff").encode() if offset == 0 else text.encode()
    starts = find_line_starts(utf8)
    if len(starts) != len(bounds):
        # Only a piece of a line that is longer than the cap has no line end of its own.
        starts = np.array([0, len(utf8)], np.int64)
    return PlacedLines(utf8, starts, offset + bounds[:-1], offset + bounds[1:])


#: Threads that undo a delivery of which all is needed.
JOBS: Final = 2
_STEPS: Final[Mapping[str, type[Step]]] = {"line_prefix": LinePrefix, "export": Export}


@dataclass(frozen=True)
class Delivery:
    """How the text of a source stands in its file.

    Attributes:
        archive: kind of the archive that the file is a member of (`tar.gz`); empty if it is in none.
        encoding: UTF-16 or UTF-32, or `UTF-8` for a text with a byte order mark; None for any other text.
        steps: undone in this order.
        begin: offset in the undone text where the source begins; lines before it belong to another source.
        end: offset where it ends; None: at the end of the text.
        before: bytes of a transcript at the beginning of the source.
        after: bytes of a transcript at its end.
        name: distinguishes the sources of one file: `2` for the second output, the name of a container; empty if the
            file is one source.
        node: the host, pod or container that it is of; None if the delivery names none.
        preceding_text: the transcript before the source, redacted.

    Example:
        >>> Delivery(archive="tar.gz", encoding="UTF-16").words
        'tar.gz, UTF-16'
    """

    archive: str = ""
    encoding: str | None = None
    steps: tuple[Step, ...] = ()
    begin: int = 0
    end: int | None = None
    before: int = 0
    after: int = 0
    name: str = ""
    node: str | None = None
    preceding_text: str = ""

    @property
    def words(self) -> str | None:
        """What people call it, for `sources.delivery`; None for a file that holds the text as it is."""
        mark = "byte order mark" if self.encoding == "UTF-8" else self.encoding
        output = f"output {self.name}" if self.is_part and self.name.isdecimal() else None
        transcript = "transcript" if (self.before or self.after) and output is None else None
        words = [self.archive, mark, *(step.words for step in self.steps), output, transcript]
        return ", ".join(word for word in words if word) or None

    @property
    def is_part(self) -> bool:
        """Whether the source is one of several in its file."""
        return bool(self.name)

    @property
    def is_undone(self) -> bool:
        """Whether the text differs from the bytes of the file."""
        return self.encoding is not None or bool(self.steps) or self.is_part or bool(self.before or self.after)

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """Where the source, and in it what is no transcript, begins in the undone text, and where these end."""
        end = WHOLE[-1] if self.end is None else self.end
        return self.begin, self.begin + self.before, end - self.after, end

    def lines(self, content: Content, most_steps: int | None = None, *, jobs: int = 1) -> Iterator[PlacedLines]:
        """The undone text of the whole file.

        Args:
            content: the file.
            most_steps: number of steps to undo; None: all.
            jobs: threads that undo each step; with more than one, blocks are read in advance.

        Raises:
            InputError: the file cannot be read.
        """
        is_document = any(isinstance(step, Export) and step.any_line for step in self.steps[:1])
        texts: Iterator[PlacedLines] = decode_encoded_lines(content, self.encoding, anywhere=is_document)
        for step in self.steps[:most_steps]:
            texts = step.undo(prefetch_in_thread(texts, "reading", jobs - 1), jobs)
        return texts

    def head(self, content: Content, size: int) -> bytes:
        """The first bytes of the undone text of the whole file."""
        data = b""
        for text in self.lines(content):
            data += text.data
            if len(data) >= size:
                break
        return data[:size]

    def own_head(self, content: Content, size: int) -> bytes:
        """The first bytes of the text of the source, which may be one of several in its file."""
        return self.head(content, self.begin + size)[self.begin : self.end]

    def write(self, content: Content, path: Path) -> Places:
        """Write the text of the source to a file, and return where its lines stand in the file of the source.

        Raises:
            InputError: the file of the source cannot be read.
        """
        try:
            return write_undone(self.lines(content, jobs=JOBS), path, self.bounds)
        except OutOfOrderError:
            doubted = replace(self, steps=tuple(step.believe(ordered=False) for step in self.steps))
            for place in range(len(self.steps)):
                (doubted,) = doubted.views(content, place)
            return doubted.write(content, path)

    def views(self, content: Content, place: int) -> Iterator[Delivery]:
        """A delivery for each name that one of the steps finds in the whole file; each knows whether to sort.

        Raises:
            InputError: the file cannot be read.
        """
        before, step, after = self.steps[:place], self.steps[place], self.steps[place + 1 :]
        texts = prefetch_in_thread(self.lines(content, place, jobs=JOBS), "reading", JOBS - 1)
        for view in step.views(texts, JOBS):
            yield replace(self, steps=(*before, view, *after))

    def file_bytes(self, content: Content) -> int:
        """Bytes of the file that the source is made of."""
        with TemporaryDirectory(prefix="citus-analysis-") as folder:
            return self.write(content, Path(folder) / "text").file_bytes

    def stored(self) -> dict[str, object]:
        """The delivery as it is stored with a source: what differs from that of a plain file."""
        facts = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "steps"}
        known = {name: value for name, value in facts.items() if value != getattr(PLAIN, name)}
        kinds = {kind: name for name, kind in _STEPS.items()}
        # The type checker does not know that every class of a step is a dataclass.
        steps = [{"step": kinds[type(step)], **asdict(step)} for step in self.steps]  # type: ignore[call-overload]
        return {**known, "steps": steps} if steps else known

    @classmethod
    def of(cls, stored: Mapping[str, object]) -> Delivery:
        """The delivery of a stored one."""
        # What was stored is JSON: the values of :meth:`stored`, whose types no checker knows.
        steps = [_step(facts) for facts in stored.get("steps", ())]  # type: ignore[attr-defined]
        return cls(**{**stored, "steps": tuple(steps)})  # type: ignore[arg-type]


def _step(stored: Mapping[str, object]) -> Step:
    return _STEPS[str(stored["step"])](
        **{name: _convert_lists_to_tuples(value) for name, value in stored.items() if name != "step"}
    )


def _convert_lists_to_tuples(value: object) -> object:
    """A value as it was before it was written as JSON, which has no tuples."""
    return tuple(map(_convert_lists_to_tuples, value)) if isinstance(value, list) else value


PLAIN: Final = Delivery()
