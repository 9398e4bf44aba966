r"""The outputs in a text: their ranges, which cover it, and the transcript of a shell around them.

Each range begins with the transcript before the output. What stands between two outputs belongs to the later one, and
what follows the last output is counted apart. A line is transcript if it has the form of a line of a shell (a command,
the times of `time`, a warning of ssh, a heading), or if it stands before or after one of several outputs and the
output's format rejects it. Lines that say that a program failed, and damaged rows of numbers, remain the output's.

Example:
    >>> text = b"== t 1\nsysbench 1.0.20\nNumber of threads: 1\n== t 4\nsysbench 1.0.20\nNumber of threads: 4\n"
    >>> [(one.begin, one.end, one.transcript_bytes, one.preceding_text) for one in find_outputs(text)]
    [(0, 44, 7, '== t 1'), (44, 88, 7, '== t 4')]
"""

from __future__ import annotations

import codecs
import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice, pairwise, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

import polars as pl

from citus_analysis.errors import CitusAnalysisError, CompiledCodeError, FormatError
from citus_analysis.formats.deliveries.content import HEAD_BYTES, Content
from citus_analysis.formats.parsing.format import Format, Hints, Parsed, StartMarker
from citus_analysis.formats.parsing.lines import UNTERMINATED
from citus_analysis.formats.parsing.registry import SURE_ENOUGH, find_best_format, formats
from citus_analysis.formats.parsing.transcripts import (
    FRAME,
    extract_preceding_text,
    find_last_line,
    is_foreign,
    is_launch_line,
    is_long,
    is_title,
    is_transcript,
    measure_shell_prefix,
    split_begin,
    split_end,
)

# Lines of a text that are start markers of outputs.

#: A start marker of one format so soon after one that several formats share decides between them.
_NEAR_BYTES: Final = 200
#: Bytes by which it is decided otherwise.
_LOOK_BYTES: Final = 4096

Owners = tuple[Format, ...]


@dataclass(frozen=True)
class Mark:
    """A start marker in a text.

    Attributes:
        offset: where its line begins.
        marker: the marker.
        format: the format whose marker it is.
    """

    offset: int
    marker: StartMarker
    format: Format


@cache
def list_start_markers() -> Mapping[StartMarker, Owners]:
    """The start markers of all formats, and the formats that declare each: tools of one package share a banner."""
    owners: dict[StartMarker, Owners] = {}
    for one in formats().values():
        for marker in one.start_markers:
            owners[marker] = (*owners.get(marker, ()), one)
    return owners


def find_start_markers(text: bytes) -> list[Mark]:
    r"""The start markers in a text, in its order.

    Example:
        >>> marks = find_start_markers(b"$ sysbench cpu run\nsysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n")
        >>> [(mark.offset, mark.format.name) for mark in marks]
        [(19, 'sysbench')]
    """
    first, later, start_markers = _compile_marker_patterns()
    begins = [found.end() for found in (first.match(text), *later.finditer(text)) if found]
    fitting = [(at, one) for at in begins for one in start_markers[text[at]] if one.pattern.match(text, at)]
    owned = ((at, marker, _find_marker_owners(text, fitting, place)) for place, (at, marker) in enumerate(fitting))
    return [Mark(at, marker, own[0]) for at, marker, own in owned if own]


@cache
def _compile_marker_patterns() -> tuple[re.Pattern[bytes], re.Pattern[bytes], Mapping[int, Sequence[StartMarker]]]:
    """What stands before start markers in the first line of a text and in later ones, and the markers by first byte.

    Consoles print a carriage return at the beginning of a line.
    """
    opens = rb"\r?(?=" + rb"|".join(re.escape(one.begins) for one in list_start_markers()) + rb")"
    first, later = re.compile(rb"(?:%b)?%b" % (re.escape(codecs.BOM_UTF8), opens)), re.compile(rb"[\n\r]" + opens)
    initials = {one.begins[0] for one in list_start_markers()}
    return first, later, {byte: [one for one in list_start_markers() if one.begins[0] == byte] for byte in initials}


def _find_marker_owners(text: bytes, found: Sequence[tuple[int, StartMarker]], place: int) -> Owners:
    """The format of a start marker; a shared one belongs to the format that reads what follows, if there is one."""
    owners = list_start_markers()
    offset, marker = found[place]
    own, stop = owners[marker], min(offset + _LOOK_BYTES, len(text))
    if len(own) == 1:
        return own
    for number in range(place + 1, len(found)):
        at, other = found[number]
        theirs = owners[other]
        if at >= stop:
            break
        if len(theirs) == 1 and theirs[0] in own and at - offset <= _NEAR_BYTES:
            return theirs
        if other == marker or not set(theirs) & set(own):
            stop = at
            break
    sure = {one.detect("", text[offset:stop]): one for one in reversed(own)}
    return (sure[max(sure)],) if max(sure) >= SURE_ENOUGH else ()


# Chunks of a text from the start marker of an output to that of the next.

#: The format of a text of which these are the first bytes; None if no format is sure.
Detect: TypeAlias = Callable[[bytes], Format | None]

#: An output without a start marker is looked for at so many lines between others.
_FIRST_LINES: Final = 8
#: Lines of a tool alternate with another's if they stand in at least this many places.
_FEWEST: Final = 2
#: Runs one after another print at least so many lines of their series.
_FEWEST_LINES: Final = 3


@dataclass(frozen=True)
class OutputChunk:
    """A chunk from the first start marker of an output on.

    Attributes:
        format: the format of the output.
        marks: its start markers in order.
        begin: where it begins.
        end: where the next output's marker is, or the text ends.
    """

    format: Format
    marks: tuple[Mark, ...]
    begin: int
    end: int

    @property
    def whole(self) -> bool:
        """Whether the output has a single marker, with which it must begin."""
        return self.marks[0].marker.whole

    @property
    def start_markers(self) -> list[StartMarker]:
        """The start markers of its marks."""
        return [mark.marker for mark in self.marks]

    @property
    def is_reporting(self) -> bool:
        """Whether it has a line of the report that a run prints at its end."""
        return any(_is_of_report(mark) for mark in self.marks)

    @property
    def ended(self) -> bool:
        """Whether it is whole."""
        return any(marker.ends for marker in self.start_markers)

    @property
    def repeated(self) -> list[int]:
        """Where start markers occur again that begin another output if something else stands before them."""
        seen: set[StartMarker] = set()
        found = []
        for mark in self.marks:
            if mark.marker in seen and not mark.marker.continues:
                found.append(mark.offset)
            seen.add(mark.marker)
        return found


def find_output_chunks(text: bytes, marks: Sequence[Mark]) -> list[OutputChunk]:
    """The chunks of a text by its start markers; one whose beginning its format does not recognise is no output.

    Such a chunk is part of what stands before it: a script that contains `starting vacuum...`, for example.

    Raises:
        FormatError: two tools wrote to the text at the same time.
    """
    found = every = _split_at_marks(text, marks)
    while True:
        heads = (text[one.begin : min(one.end, one.begin + HEAD_BYTES)] for one in found)
        good = [one for one, head in zip(found, heads, strict=True) if one.format.detect("", head) >= SURE_ENOUGH]
        if len(good) == len(found):
            break
        found = _split_at_marks(text, [mark for one in good for mark in one.marks])
    _check_order(text, found)
    _check_reports(text, every)
    return [part for one in found for part in _split_at_restarts(text, one)]


def _split_at_marks(text: bytes, marks: Iterable[Mark]) -> list[OutputChunk]:
    groups: list[list[Mark]] = []
    seen: set[StartMarker] = set()
    rewound: StartMarker | None = None
    for mark in marks:
        last = groups[-1][-1] if groups else None
        if last is None or not _follows(last, mark, seen, rewound) or _is_after_launch(text, last, mark):
            groups.append([])
            seen, rewound = set(), None
        elif not _follows(last, mark, seen):
            # What follows the lines for which it was rewound comes once more, at the end.
            seen, rewound = {one for one in seen if rewound and one.stage < rewound.stage}, None
        groups[-1].append(mark)
        if mark.marker.rewinds:
            seen, rewound = {one for one in seen if one.stage < mark.marker.stage}, mark.marker
        seen.add(mark.marker)
    begins = [own[0].offset for own in groups]
    return [
        OutputChunk(own[0].format, tuple(own), begin, stop)
        for own, begin, stop in zip(groups, begins, [*begins[1:], len(text)], strict=False)
    ]


def _follows(last: Mark, mark: Mark, seen: AbstractSet[StartMarker], rewound: StartMarker | None = None) -> bool:
    """Whether a start marker can follow others of the same output: in their order, and again only if it repeats.

    Args:
        last: the start marker before.
        mark: the marker.
        seen: the start markers before, since the output was rewound.
        rewound: the start marker that rewound it.
    """
    own = mark.marker
    if last.format is not mark.format or own.whole or last.marker.whole:
        return False
    if own.rewinds or (rewound is not None and own.stage > rewound.stage):
        return True
    return own.stage >= last.marker.stage and (own.repeats or own not in seen)


def _is_after_launch(text: bytes, last: Mark, mark: Mark) -> bool:
    """Whether the line before a start marker shows that another output begins."""
    end = mark.offset
    while end and text[end - 1 : end].isspace():
        end -= 1
    begin = text.rfind(b"\n", 0, end) + 1
    return begin > last.offset and is_launch_line(text[begin:end], mark.format.name.rpartition("_")[2].encode())


def find_unmarked_chunks(
    text: bytes, gaps: Iterable[tuple[slice, Format | None]], detect: Detect
) -> Iterator[OutputChunk]:
    """Outputs without a start marker in what stands between the others, after lines of a shell.

    Args:
        text: the text.
        gaps: places between outputs, and the format of the output before each.
        detect: tells the format of a text by its first bytes.
    """
    for gap, before in gaps:
        for begin in islice(_find_non_shell_lines(text, gap), _FIRST_LINES):
            one = detect(text[begin : min(gap.stop, begin + HEAD_BYTES)])
            if one is not None and one is not before and one.start_markers:
                yield OutputChunk(one, (Mark(begin, StartMarker(b"", whole=True), one),), begin, gap.stop)
                break


def _find_non_shell_lines(text: bytes, gap: slice) -> Iterator[int]:
    """Where the lines begin that do not have a shell's form."""
    begin = gap.start + measure_shell_prefix(text[gap])
    while begin < gap.stop:
        end = text.find(b"\n", begin, gap.stop) + 1 or gap.stop
        if text[begin:end].strip() and not is_transcript(text[begin:end]):
            yield begin
        begin = end


def _check_order(text: bytes, found: Sequence[OutputChunk]) -> None:
    """Refuse a chunk that continues an output of the same tool after the lines of another.

    Raises:
        FormatError: there is one.
    """
    newest: dict[str, int] = {}
    for place, one in enumerate(found):
        earlier = newest.get(one.format.name, place)
        first, before = one.marks[0], found[earlier].marks
        continues = earlier < place - 1 and first.marker.continues
        if continues and _follows(before[-1], first, {mark.marker for mark in before}):
            raise make_interleaving_error(text, one.format, found[earlier + 1])
        newest[one.format.name] = place


def _check_reports(text: bytes, found: Sequence[OutputChunk]) -> None:
    """Refuse a text in which the lines of several reports of one tool alternate.

    Then a report begins before the one before it has its last line, again and again; or one without its first lines
    may continue an earlier one as well, or belong to a beginning whose report is not there.

    Raises:
        FormatError: there are such reports.
    """
    broken = 0
    for place, one in enumerate(found):
        first = one.marks[0]
        if not _is_of_report(first):
            continue
        before = [other for other in found[:place] if other.format is one.format]
        last = found[place - 1] if place else one
        named = last is not one and _is_after_launch(text, last.marks[-1], first)
        broken += last.format is one.format and last is not one and last.is_reporting and not last.ended and not named
        open_ = [other for other in before if not other.ended and other is not last]
        continued = any(
            other.is_reporting and _follows(other.marks[-1], first, {*other.start_markers}) for other in open_
        )
        lost = [other for other in before if not (other.is_reporting or other.ended or _is_of_report(other.marks[0]))]
        if broken >= _FEWEST or ((continued or lost) and not named):
            raise make_interleaving_error(text, one.format, one)


def _is_of_report(mark: Mark) -> bool:
    """Whether a line is one of those that a run prints once, after its first lines."""
    return mark.marker.continues and not mark.marker.repeats and not mark.marker.rewinds


def _split_at_restarts(text: bytes, one: OutputChunk) -> list[OutputChunk]:
    """An output, parted where the time since the begin of a run begins again.

    Raises:
        FormatError: it does so every few lines, because several runs wrote at the same time.
    """
    times = [] if one.format.elapsed is None else [*one.format.elapsed.finditer(text, one.begin, one.end)]
    again = [later for earlier, later in pairwise(times) if float(later[1]) <= float(earlier[1])]
    if len(again) >= _FEWEST and len(again) * _FEWEST_LINES > len(times):
        raise make_interleaving_error(text, one.format, one)
    cuts = [one.begin, *(found.start() for found in again), one.end]
    parts = []
    for begin, end in pairwise(cuts):
        marks = tuple(mark for mark in one.marks if begin <= mark.offset < end)
        parts.append(replace(one, begin=begin, end=end, marks=marks or (Mark(begin, StartMarker(b""), one.format),)))
    return parts


def make_interleaving_error(text: bytes, first: Format, second: OutputChunk) -> FormatError:
    """The refusal of a text to which two tools wrote at the same time.

    Args:
        text: the text.
        first: the format whose output the other interrupts.
        second: the first chunk of the other.
    """
    line = text.count(b"\n", 0, second.begin) + 1
    name = second.format.name
    problem = f"lines of {first.name} and {name} alternate: {name} begins here, and lines of {first.name} follow"
    if first is second.format:
        problem = f"lines of several outputs of {name} alternate from here on"
    return FormatError(problem, place=f"line {line}", hint="write each tool's output to a file of its own")


# What a format rejects of an output, by reading it: how transcripts and mingled lines are found.

_NAME: Final = "output"


@dataclass(frozen=True)
class Trial:
    """How a format reads a text.

    Attributes:
        parsed_bytes: bytes that end as rows.
        rows: number of rows, but not of errors, to which lines of any form may belong.
        returns: number of times of a load generator's series that do not come after the time before.
        spans: begin and end of each rejected part of the lines, in order; a line without its end is not counted.
    """

    parsed_bytes: int = 0
    rows: int = 0
    returns: int = 0
    spans: tuple[tuple[int, int], ...] = ()

    def rejects(self, offset: int) -> bool:
        """Whether the line at an offset is rejected."""
        place = bisect_right(self.spans, (offset, offset)) - 1
        spans = self.spans[max(place, 0) : place + 2]
        return any(begin <= offset < end for begin, end in spans)

    def moved(self, by: int) -> Trial:
        """The same of a text that begins so many bytes later."""
        return replace(self, spans=tuple((begin + by, end + by) for begin, end in self.spans))


def parse_pieces(one: Format, data: bytes, name: str = _NAME) -> list[Parsed] | None:
    """The pieces that a format makes of a text in a file of a name; None if it cannot read it at all."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            return list(one.parse(Content(path), Hints(name)))
        except CompiledCodeError:
            raise
        except CitusAnalysisError:
            return None


def try_format(one: Format, data: bytes) -> Trial | None:
    """How a format reads a text; None if it cannot read it at all."""
    pieces = parse_pieces(one, data)
    if pieces is None:
        return None
    spans = [
        (begin, begin + length)
        for piece in pieces
        for begin, length, reason in piece.frame("rejects").select("byte_offset", "byte_length", "reason").iter_rows()
        if reason != UNTERMINATED
    ]
    rows = sum(len(batch) for piece in pieces for table, batch in piece.tables.items() if table != "client_errors")
    returns = sum(
        _count_time_resets(piece.frame("client_series")) for piece in pieces if "client_series" in piece.tables
    )
    return Trial(sum(piece.parsed_bytes for piece in pieces), rows, returns, tuple(sorted(spans)))


def _count_time_resets(series: pl.DataFrame) -> int:
    before = pl.col("elapsed_s").shift().over("section")
    return int(series.select((pl.col("elapsed_s") <= before).sum()).item())


def find_document_end(data: bytes) -> int:
    r"""Length of the JSON document at the beginning of a text, with the end of its last line; 0 if it is cut.

    Example:
        >>> find_document_end(b'{"a": 1}\nreal 0m1s\n'), find_document_end(b'{"a": ')
        (9, 0)
    """
    try:
        _, end = json.JSONDecoder().raw_decode(data.decode("latin-1"))
    except (ValueError, RecursionError):
        return 0
    line = data.find(b"\n", end) + 1 or len(data)
    return line if not data[end:line].strip() else end


# Where outputs begin and end within their chunks, by what their formats reject.

_BRACE: Final = b"{"
#: The line before a start marker is looked for in these bytes.
_BOUND_NEAR_BYTES: Final = 4096


@dataclass(frozen=True)
class OutputBounds:
    """The place of an output without the transcripts around it.

    Attributes:
        chunk: the chunk that it is in.
        begin: where it begins in the text.
        end: where it ends.
        trial: how its format reads its chunk; offsets are those of the text.
    """

    chunk: OutputChunk
    begin: int
    end: int
    trial: Trial

    @property
    def place(self) -> slice:
        """The output's place in the text."""
        return slice(self.begin, self.end)


def split_at_start_markers(text: bytes, one: OutputChunk) -> list[OutputChunk]:
    """A chunk of a tool that repeats its marker, parted where something else stands before the marker."""
    before = [(offset, *_find_line_before(text, one, offset)) for offset in one.repeated]
    strange = any(is_foreign(begin, line, lambda _: True) for _, begin, line in before)
    trial = try_format(one.format, text[one.begin : one.end]) if strange else None
    if trial is None:
        return [one]
    cuts = [offset for offset, begin, line in before if is_foreign(begin, line, trial.rejects)]
    offsets = [mark.offset for mark in one.marks]
    places = [bisect_left(offsets, cut) for cut in (one.begin, *cuts)]
    marks = [one.marks[first:last] for first, last in pairwise([*places, len(offsets)])]
    bounds = pairwise([one.begin, *cuts, one.end])
    return [replace(one, begin=begin, end=end, marks=own) for (begin, end), own in zip(bounds, marks, strict=True)]


def _find_line_before(text: bytes, one: OutputChunk, offset: int) -> tuple[int, bytes]:
    """The last line before an offset that is not blank, and where it begins in the chunk."""
    near = max(one.begin, offset - _BOUND_NEAR_BYTES)
    begin, line = find_last_line(text[near:offset])
    return near + begin - one.begin, line


def find_output_bounds(text: bytes, found: Sequence[OutputChunk], *, framed: bool, limited: bool) -> list[OutputBounds]:
    """The place of each output; a transcript before an output begins where the output before it ends.

    Args:
        text: the text.
        found: the chunks.
        framed: the text is known to stand in a frame.
        limited: many unknown lines are no transcript.
    """
    bounds: list[OutputBounds] = []
    for one in found:
        bounds.append(_find_chunk_bounds(text, bounds[-1].end if bounds else 0, one, framed=framed, limited=limited))
    return bounds


def _find_chunk_bounds(text: bytes, begin: int, one: OutputChunk, *, framed: bool, limited: bool) -> OutputBounds:
    trial = None if one.whole else try_format(one.format, text[begin : one.end])
    own = one.begin
    if trial is not None:
        own = begin + split_begin(text[begin : one.begin], trial.rejects, framed=framed, limited=limited)
        trial = trial.moved(begin)
    else:
        # Its format reads nothing that does not begin with the marker.
        alone = try_format(one.format, text[one.begin : one.end])
        trial = Trial() if alone is None else alone.moved(one.begin)
    data = text[one.begin : one.end]
    end = find_document_end(data) if one.whole and data.startswith(_BRACE) else 0
    end = end or _own_bytes(data, trial.moved(-one.begin), one.format, limited=limited, followed=one.end < len(text))
    return OutputBounds(one, own, one.begin + end, trial)


def _own_bytes(data: bytes, trial: Trial, own: Format, *, limited: bool, followed: bool) -> int:
    """Length of an output without the transcript after it, and without titles from which its format takes nothing."""
    end = split_end(data, trial.rejects, limited=limited, followed=followed)
    begin, line = find_last_line(data[:end])
    while begin and is_title(line):
        whole, less = try_format(own, data[:end]), try_format(own, data[:begin])
        if whole is None or less is None or whole.parsed_bytes != less.parsed_bytes:
            break
        end = min(begin, split_end(data[:begin], trial.rejects, limited=limited))
        begin, line = find_last_line(data[:end])
    return end


# Outputs of two tools that wrote to one text at the same time: lines within one that the other would print.


def check_apart(text: bytes, found: Sequence[OutputBounds]) -> None:
    """Refuse a text in which lines that are rejected within one output belong to another.

    The times of two runs of one tool that alternate go back again and again.

    Args:
        text: the text.
        found: the place of each output, and how its format reads it.

    Raises:
        FormatError: they do.
    """
    several = {name for name, count in Counter(own.chunk.format.name for own in found).items() if count > 1}
    for own in found:
        one = own.chunk
        if one.format.name in several and own.trial.returns >= _FEWEST:
            raise make_interleaving_error(text, one.format, one)
        inner = [(begin, end) for begin, end in own.trial.spans if own.begin < begin and end < own.end]
        if len(inner) < _FEWEST:
            continue
        strange = b"".join(text[begin:end] for begin, end in inner)
        for its in found:
            other = its.chunk
            if other.format is not one.format and _reads(other.format, text[its.place], strange):
                raise make_interleaving_error(
                    text, *((one.format, other) if one.begin < other.begin else (other.format, one))
                )


def _reads(other: Format, output: bytes, strange: bytes) -> bool:
    """Whether a format makes rows of most of the lines if they follow an output of it."""
    alone, more = try_format(other, output), try_format(other, output + strange)
    if alone is None or more is None or more.rows - alone.rows < _FEWEST:
        return False
    return 2 * (more.parsed_bytes - alone.parsed_bytes) > len(strange)


#: A longer text is not divided.
MOST_BYTES: Final = 64 * 2**20


@dataclass(frozen=True)
class ToolOutput:
    """One output of a tool, with the transcript around it.

    Attributes:
        begin: where its range begins in the text.
        end: where its range ends; the next range begins there.
        transcript_bytes: length of the transcript at the beginning of the range.
        transcript_after_bytes: length of the transcript at the end of the range of the last output; 0 for others.
        format_name: name of the format that reads the output.
        preceding_text: text of the transcript before the output, redacted and printable; its last 2,000 characters.
    """

    begin: int
    end: int
    transcript_bytes: int
    transcript_after_bytes: int
    format_name: str
    preceding_text: str

    @property
    def own(self) -> slice:
        """The place of the output itself, without the transcript."""
        return slice(self.begin + self.transcript_bytes, self.end - self.transcript_after_bytes)


def _detect_format_by_head(head: bytes) -> Format | None:
    return find_best_format("", head)[0]


def find_outputs(text: bytes, detect: Detect = _detect_format_by_head) -> list[ToolOutput]:
    """The outputs in a text; none where no format reads it.

    A text of a format without start markers (a server's log) and one longer than 64 MiB are not divided.

    Args:
        text: the text, as the tools wrote it.
        detect: tells the format of a text by its first bytes.

    Raises:
        FormatError: two tools wrote to the text at the same time, so that their lines alternate.
    """
    whole = detect(text[:HEAD_BYTES])
    divisible = len(text) <= MOST_BYTES and (whole is None or bool(whole.start_markers))
    found = find_output_chunks(text, find_start_markers(text)) if divisible else []
    if not found:
        return [] if whole is None else [ToolOutput(0, len(text), 0, 0, whole.name, "")]
    found = [part for one in found for part in split_at_start_markers(text, one)]
    framed = FRAME.search(text, 0, found[0].begin) is not None
    if len(found) == 1 and not framed and (whole is None or whole is found[0].format):
        return _find_single_output(text, found[0], known=whole is not None)
    return _find_several_outputs(text, found, detect, framed=framed)


def _find_single_output(text: bytes, only: OutputChunk, *, known: bool) -> list[ToolOutput]:
    """A single output: only lines that have a shell's form are not its own.

    Where the text is not recognised as a whole, what stands before the marker may say that it is no output after all.
    """
    lead = measure_shell_prefix(text[: only.begin])
    near = max(lead, only.begin - HEAD_BYTES // 2)
    if not known and only.format.detect("", text[near : near + HEAD_BYTES]) < SURE_ENOUGH:
        return []
    end = only.begin + split_end(text[only.begin :], lambda _: False)
    return [_build_output(text, 0, slice(lead, end), len(text), only.format)]


def _find_several_outputs(
    text: bytes, found: Sequence[OutputChunk], detect: Detect, *, framed: bool
) -> list[ToolOutput]:
    bounds = find_output_bounds(text, found, framed=framed, limited=False)
    if more := list(find_unmarked_chunks(text, _find_unread_ranges(text, bounds), detect)):
        found = sorted([*found, *more], key=lambda one: one.begin)
        ends = [*(one.begin for one in found[1:]), len(text)]
        found = [replace(one, end=end) for one, end in zip(found, ends, strict=True)]
        bounds = find_output_bounds(text, found, framed=framed, limited=False)
    if not framed and any(is_long(text[gap]) for gap in _find_gaps(text, bounds)):
        bounds = find_output_bounds(text, found, framed=False, limited=True)
    check_apart(text, bounds)
    ranges = pairwise([0, *(one.end for one in bounds[:-1]), len(text)])
    return [
        _build_output(text, begin, own.place, end, own.chunk.format)
        for (begin, end), own in zip(ranges, bounds, strict=True)
    ]


def _find_gaps(text: bytes, bounds: Sequence[OutputBounds]) -> list[slice]:
    """What stands before, between and after the outputs."""
    ends = [0, *(one.end for one in bounds)]
    return [slice(*gap) for gap in zip(ends, [*(one.begin for one in bounds), len(text)], strict=True)]


def _find_unread_ranges(text: bytes, bounds: Sequence[OutputBounds]) -> Iterator[tuple[slice, Format | None]]:
    """What stands before, between and after what formats read, also the lines that they reject at first; and whose."""
    begin, of = 0, None
    for gap, own in zip_longest(_find_gaps(text, bounds), bounds):
        yield slice(begin, gap.stop), of
        if own is not None:
            rejected = min((begin for begin, _ in own.trial.spans if begin > own.begin), default=own.end)
            begin, of = min(rejected, own.end), own.chunk.format


def _build_output(text: bytes, begin: int, own: slice, end: int, of: Format) -> ToolOutput:
    return ToolOutput(
        begin, end, own.start - begin, end - own.stop, of.name, extract_preceding_text(text[begin : own.start])
    )
