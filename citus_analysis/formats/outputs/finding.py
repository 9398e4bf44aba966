r"""The outputs in a text: their ranges, which cover it, and the transcript of a shell around them.

Each range begins with the transcript before the output. What stands between two outputs belongs to the later one, and
what follows the last output is counted apart. A line is transcript if it has the form of a line of a shell (a command,
the times of `time`, a warning of ssh, a heading), or if it stands before or after one of several outputs and the
output's format rejects it. Lines that say that a program failed, and damaged rows of numbers, remain the output's.

Example:
    >>> text = b"== t 1\nsysbench 1.0.20\nNumber of threads: 1\n== t 4\nsysbench 1.0.20\nNumber of threads: 4\n"
    >>> [(one.begin, one.end, one.transcript_bytes, one.hint) for one in find_outputs(text)]
    [(0, 44, 7, '== t 1'), (44, 88, 7, '== t 4')]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Final

from citus_analysis.formats.api.format import Format
from citus_analysis.formats.api.registry import SURE_ENOUGH, best_format
from citus_analysis.formats.outputs.bounds import Bounds, bounds_of, parted
from citus_analysis.formats.outputs.marks import marks_of
from citus_analysis.formats.outputs.mingling import check_apart
from citus_analysis.formats.outputs.stretches import Detect, Stretch, stretches_of, unmarked
from citus_analysis.formats.outputs.transcripts import FRAME, hint_of, is_long, shell_begin, split_end
from citus_analysis.formats.sources.content import HEAD_BYTES

#: A longer text is not divided.
MOST_BYTES: Final = 64 * 2**20


@dataclass(frozen=True)
class Output:
    """One output of a tool, with the transcript around it.

    Attributes:
        begin: where its range begins in the text.
        end: where its range ends; the next range begins there.
        transcript_bytes: length of the transcript at the beginning of the range.
        transcript_after_bytes: length of the transcript at the end of the range of the last output; 0 for others.
        format_name: name of the format that reads the output.
        hint: text of the transcript before the output, redacted and printable, at most its last 2,000 characters.
    """

    begin: int
    end: int
    transcript_bytes: int
    transcript_after_bytes: int
    format_name: str
    hint: str

    @property
    def own(self) -> slice:
        """The place of the output itself, without the transcript."""
        return slice(self.begin + self.transcript_bytes, self.end - self.transcript_after_bytes)


def _by_head(head: bytes) -> Format | None:
    return best_format("", head)[0]


def find_outputs(text: bytes, detect: Detect = _by_head) -> list[Output]:
    """The outputs in a text; none where no format reads it.

    A text of a format without openings (a server's log) and one longer than 64 MiB are not divided.

    Args:
        text: the text, as the tools wrote it.
        detect: tells the format of a text by its first bytes.

    Raises:
        FormatError: two tools wrote to the text at the same time, so that their lines alternate.
    """
    whole = detect(text[:HEAD_BYTES])
    divisible = len(text) <= MOST_BYTES and (whole is None or bool(whole.openings))
    found = stretches_of(text, marks_of(text)) if divisible else []
    if not found:
        return [] if whole is None else [Output(0, len(text), 0, 0, whole.name, "")]
    found = [part for one in found for part in parted(text, one)]
    framed = FRAME.search(text, 0, found[0].begin) is not None
    if len(found) == 1 and not framed and (whole is None or whole is found[0].format):
        return _alone(text, found[0], known=whole is not None)
    return _several(text, found, detect, framed=framed)


def _alone(text: bytes, only: Stretch, *, known: bool) -> list[Output]:
    """A single output: only lines that have a shell's form are not its own.

    Where the text is not recognised as a whole, what stands before the opening may say that it is no output after all.
    """
    lead = shell_begin(text[: only.begin])
    near = max(lead, only.begin - HEAD_BYTES // 2)
    if not known and only.format.detect("", text[near : near + HEAD_BYTES]) < SURE_ENOUGH:
        return []
    end = only.begin + split_end(text[only.begin :], lambda _: False)
    return [_output(text, 0, slice(lead, end), len(text), only.format)]


def _several(text: bytes, found: Sequence[Stretch], detect: Detect, *, framed: bool) -> list[Output]:
    bounds = bounds_of(text, found, framed=framed, limited=False)
    if more := list(unmarked(text, _unread(text, bounds), detect)):
        found = sorted([*found, *more], key=lambda one: one.begin)
        ends = [*(one.begin for one in found[1:]), len(text)]
        found = [replace(one, end=end) for one, end in zip(found, ends, strict=True)]
        bounds = bounds_of(text, found, framed=framed, limited=False)
    if not framed and any(is_long(text[gap]) for gap in _gaps(text, bounds)):
        bounds = bounds_of(text, found, framed=False, limited=True)
    check_apart(text, bounds)
    ranges = pairwise([0, *(one.end for one in bounds[:-1]), len(text)])
    return [
        _output(text, begin, own.place, end, own.stretch.format)
        for (begin, end), own in zip(ranges, bounds, strict=True)
    ]


def _gaps(text: bytes, bounds: Sequence[Bounds]) -> list[slice]:
    """What stands before, between and after the outputs."""
    ends = [0, *(one.end for one in bounds)]
    return [slice(*gap) for gap in zip(ends, [*(one.begin for one in bounds), len(text)], strict=True)]


def _unread(text: bytes, bounds: Sequence[Bounds]) -> Iterator[tuple[slice, Format | None]]:
    """What stands before, between and after what formats read, also the lines that they reject at first; and whose."""
    begin, of = 0, None
    for gap, own in zip_longest(_gaps(text, bounds), bounds):
        yield slice(begin, gap.stop), of
        if own is not None:
            rejected = min((begin for begin, _ in own.trial.spans if begin > own.begin), default=own.end)
            begin, of = min(rejected, own.end), own.stretch.format


def _output(text: bytes, begin: int, own: slice, end: int, of: Format) -> Output:
    return Output(begin, end, own.start - begin, end - own.stop, of.name, hint_of(text[begin : own.start]))
