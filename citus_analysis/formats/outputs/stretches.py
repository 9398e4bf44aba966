"""Stretches of a text from the opening of an output to that of the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from citus_analysis.errors import FormatError
from citus_analysis.formats.api.format import Format
from citus_analysis.formats.api.openings import Opening
from citus_analysis.formats.api.registry import SURE_ENOUGH
from citus_analysis.formats.outputs.marks import Mark
from citus_analysis.formats.outputs.transcripts import is_transcript, launches, shell_begin
from citus_analysis.formats.sources.content import HEAD_BYTES

#: The format of a text of which these are the first bytes; None if no format is sure.
Detect: TypeAlias = Callable[[bytes], Format | None]

#: An output without an opening is looked for at so many lines between others.
_FIRST_LINES: Final = 8


@dataclass(frozen=True)
class Stretch:
    """A stretch from the first opening of an output on.

    Attributes:
        format: the format of the output.
        marks: its openings in order.
        begin: where it begins.
        end: where the next output's opening is, or the text ends.
    """

    format: Format
    marks: tuple[Mark, ...]
    begin: int
    end: int

    @property
    def whole(self) -> bool:
        """Whether the output has a single opening, with which it must begin."""
        return self.marks[0].opening.whole

    @property
    def repeated(self) -> list[int]:
        """Where openings occur again that begin another output if something else stands before them."""
        seen: set[Opening] = set()
        found = []
        for mark in self.marks:
            if mark.opening in seen and not mark.opening.continues:
                found.append(mark.offset)
            seen.add(mark.opening)
        return found


def stretches_of(text: bytes, marks: Sequence[Mark]) -> list[Stretch]:
    """The stretches of a text by its openings; one whose beginning its format does not recognise is no output.

    Such a stretch is part of what stands before it: a script that contains `starting vacuum...`, for example.

    Raises:
        FormatError: two tools wrote to the text at the same time.
    """
    while True:
        found = _divided(text, marks)
        heads = (text[one.begin : min(one.end, one.begin + HEAD_BYTES)] for one in found)
        good = [one for one, head in zip(found, heads, strict=True) if one.format.detect("", head) >= SURE_ENOUGH]
        if len(good) == len(found):
            break
        marks = [mark for one in good for mark in one.marks]
    _check_order(text, found)
    return found


def _divided(text: bytes, marks: Iterable[Mark]) -> list[Stretch]:
    groups: list[list[Mark]] = []
    seen: set[Opening] = set()
    for mark in marks:
        last = groups[-1][-1] if groups else None
        if last is None or not _follows(last, mark, seen) or _launched(text, last, mark):
            groups.append([])
            seen = set()
        groups[-1].append(mark)
        seen.add(mark.opening)
    begins = [own[0].offset for own in groups]
    return [
        Stretch(own[0].format, tuple(own), begin, stop)
        for own, begin, stop in zip(groups, begins, [*begins[1:], len(text)], strict=False)
    ]


def _follows(last: Mark, mark: Mark, seen: AbstractSet[Opening]) -> bool:
    """Whether an opening can follow others of the same output: in their order, and again only if it repeats."""
    own = mark.opening
    if last.format is not mark.format or own.whole or last.opening.whole:
        return False
    return own.stage >= last.opening.stage and (own.repeats or own not in seen)


def _launched(text: bytes, last: Mark, mark: Mark) -> bool:
    """Whether the line before an opening shows that another output begins."""
    end = mark.offset
    while end and text[end - 1 : end].isspace():
        end -= 1
    begin = text.rfind(b"\n", 0, end) + 1
    return begin > last.offset and launches(text[begin:end], mark.format.name.rpartition("_")[2].encode())


def unmarked(text: bytes, gaps: Iterable[tuple[slice, Format | None]], detect: Detect) -> Iterator[Stretch]:
    """Outputs without an opening in what stands between the others, after lines of a shell.

    Args:
        text: the text.
        gaps: places between outputs, and the format of the output before each.
        detect: tells the format of a text by its first bytes.
    """
    for gap, before in gaps:
        for begin in islice(_lines_of_others(text, gap), _FIRST_LINES):
            one = detect(text[begin : min(gap.stop, begin + HEAD_BYTES)])
            if one is not None and one is not before and one.openings:
                yield Stretch(one, (Mark(begin, Opening(b"", whole=True), one),), begin, gap.stop)
                break


def _lines_of_others(text: bytes, gap: slice) -> Iterator[int]:
    """Where the lines begin that do not have a shell's form."""
    begin = gap.start + shell_begin(text[gap])
    while begin < gap.stop:
        end = text.find(b"\n", begin, gap.stop) + 1 or gap.stop
        if text[begin:end].strip() and not is_transcript(text[begin:end]):
            yield begin
        begin = end


def _check_order(text: bytes, found: Sequence[Stretch]) -> None:
    """Refuse a stretch that continues an output of the same tool after the lines of another.

    Raises:
        FormatError: there is one.
    """
    newest: dict[str, int] = {}
    for place, one in enumerate(found):
        earlier = newest.get(one.format.name, place)
        first, before = one.marks[0], found[earlier].marks
        continues = earlier < place - 1 and first.opening.continues
        if continues and _follows(before[-1], first, {mark.opening for mark in before}):
            raise mingled(text, one.format, found[earlier + 1])
        newest[one.format.name] = place


def mingled(text: bytes, first: Format, second: Stretch) -> FormatError:
    """The refusal of a text to which two tools wrote at the same time.

    Args:
        text: the text.
        first: the format whose output the other interrupts.
        second: the first stretch of the other.
    """
    line = text.count(b"\n", 0, second.begin) + 1
    name = second.format.name
    problem = f"lines of {first.name} and {name} alternate: {name} begins here, and lines of {first.name} follow"
    if first is second.format:
        problem = f"lines of several outputs of {name} alternate from here on"
    return FormatError(problem, place=f"line {line}", way_out="write each tool's output to a file of its own")
