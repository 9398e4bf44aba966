"""A delivery: all that stands between a file and the text that a format reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from citus_analysis.core.threads import work_ahead
from citus_analysis.formats.deliveries.decoration import Decoration
from citus_analysis.formats.deliveries.encoded import encoded_lines
from citus_analysis.formats.deliveries.exports import Export
from citus_analysis.formats.deliveries.line_order import OutOfOrderError
from citus_analysis.formats.deliveries.placed_lines import Lines
from citus_analysis.formats.deliveries.places import WHOLE, Places, write_undone
from citus_analysis.formats.deliveries.steps import Step
from citus_analysis.formats.sources.content import Content

#: Threads that undo a delivery of which all is needed.
JOBS: Final = 2
_STEPS: Final[Mapping[str, type[Step]]] = {"decoration": Decoration, "export": Export}


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
        hint: the transcript before the source, redacted.

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
    hint: str = ""

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

    def lines(self, content: Content, most_steps: int | None = None, *, jobs: int = 1) -> Iterator[Lines]:
        """The undone text of the whole file.

        Args:
            content: the file.
            most_steps: number of steps to undo; None: all.
            jobs: threads that undo each step; with more than one, blocks are read in advance.

        Raises:
            InputError: the file cannot be read.
        """
        is_document = any(isinstance(step, Export) and step.any_line for step in self.steps[:1])
        texts: Iterator[Lines] = encoded_lines(content, self.encoding, anywhere=is_document)
        for step in self.steps[:most_steps]:
            texts = step.undo(work_ahead(texts, "reading", jobs - 1), jobs)
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
            doubted = replace(self, steps=tuple(step.believing(ordered=False) for step in self.steps))
            for place in range(len(self.steps)):
                (doubted,) = doubted.views(content, place)
            return doubted.write(content, path)

    def views(self, content: Content, place: int) -> Iterator[Delivery]:
        """A delivery for each name that one of the steps finds in the whole file; each knows whether to sort.

        Raises:
            InputError: the file cannot be read.
        """
        before, step, after = self.steps[:place], self.steps[place], self.steps[place + 1 :]
        texts = work_ahead(self.lines(content, place, jobs=JOBS), "reading", JOBS - 1)
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
        steps = [{"step": kinds[type(step)], **asdict(step)} for step in self.steps]  # type: ignore[call-overload]
        return {**known, "steps": steps} if steps else known

    @classmethod
    def of(cls, stored: Mapping[str, object]) -> Delivery:
        """The delivery of a stored one."""
        steps = [_step(facts) for facts in stored.get("steps", ())]  # type: ignore[attr-defined]
        return cls(**{**stored, "steps": tuple(steps)})  # type: ignore[arg-type]


def _step(stored: Mapping[str, object]) -> Step:
    return _STEPS[str(stored["step"])](**{name: _frozen(value) for name, value in stored.items() if name != "step"})


def _frozen(value: object) -> object:
    """A value as it was before it was written as JSON, which has no tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


PLAIN: Final = Delivery()
