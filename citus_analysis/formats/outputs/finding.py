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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

from citus_analysis.formats.api.format import Format
from citus_analysis.formats.api.registry import SURE_ENOUGH, format_of
from citus_analysis.formats.outputs.marks import marks_of
from citus_analysis.formats.outputs.mingling import check_apart
from citus_analysis.formats.outputs.stretches import Detect, Stretch, stretches_of
from citus_analysis.formats.outputs.transcripts import (
    FRAME,
    hint_of,
    is_foreign,
    is_title,
    is_transcript,
    last_line,
    split_begin,
    split_end,
)
from citus_analysis.formats.outputs.trial import Trial, document_end, trial_of
from citus_analysis.formats.sources.content import HEAD_BYTES

__all__ = ["MOST_BYTES", "Output", "find_outputs"]

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


_by_head: Final[Detect] = partial(format_of, "")


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
    found = stretches_of(text, marks_of(text), detect) if divisible else []
    if not found:
        return [] if whole is None else [Output(0, len(text), 0, 0, whole.name, "")]
    found = [part for one in found for part in _parted(text, one)]
    framed = FRAME.search(text, 0, found[0].begin) is not None
    if len(found) > 1 or framed:
        return _several(text, found)
    return _alone(text, found[0], known=whole is not None)


def _parted(text: bytes, one: Stretch) -> list[Stretch]:
    """A stretch of a sampler that repeats its header, parted where something else stands before the header."""
    repeated = one.repeated
    trial = trial_of(one.format, text[one.begin : one.end]) if repeated else None
    if trial is None:
        return [one]
    bounds = [one.begin]
    for offset in repeated:
        begin, line = last_line(text[one.begin : offset])
        if is_foreign(begin, line, trial.rejects):
            bounds.append(offset)
    return [
        Stretch(one.format, tuple(mark for mark in one.marks if begin <= mark.offset < end), begin, end)
        for begin, end in pairwise([*bounds, one.end])
    ]


def _alone(text: bytes, only: Stretch, *, known: bool) -> list[Output]:
    """A single output: only lines that have a shell's form are not its own.

    Where the text is not recognised as a whole, what stands before the opening may say that it is no output after all.
    """
    lead = 0
    while lead < only.begin:
        end = text.find(b"\n", lead, only.begin) + 1 or only.begin
        if text[lead:end].strip() and not is_transcript(text[lead:end]):
            break
        lead = end
    lead = lead if text[:lead].strip() else 0
    near = max(lead, only.begin - HEAD_BYTES // 2)
    if not known and only.format.detect("", text[near : near + HEAD_BYTES]) < SURE_ENOUGH:
        return []
    own = split_end(text[only.begin :], _nothing)
    after = len(text) - only.begin - own
    return [Output(0, len(text), lead, after, only.format.name, hint_of(text[:lead]))]


def _nothing(_: int) -> bool:
    return False


def _several(text: bytes, found: Sequence[Stretch]) -> list[Output]:
    outputs: list[Output] = []
    trials: list[Trial] = []
    begin = 0
    for one in found:
        trial = None if one.document else trial_of(one.format, text[begin : one.end])
        lead = one.begin - begin
        if trial is not None:
            lead = split_begin(text[begin : one.begin], trial.rejects)
            trial = trial.moved(begin)
        else:
            # Its format reads nothing that does not begin with the opening.
            alone = None if one.document else trial_of(one.format, text[one.begin : one.end])
            trial = Trial() if alone is None else alone.moved(one.begin)
        own = document_end(text[one.begin : one.end]) if one.document else 0
        own = own or _own_bytes(text[one.begin : one.end], trial.moved(-one.begin), one.format)
        end = one.begin + own
        outputs.append(Output(begin, end, lead, 0, one.format.name, hint_of(text[begin : begin + lead])))
        trials.append(trial)
        begin = end
    check_apart(text, found, [one.own for one in outputs], trials)
    last = outputs[-1]
    rest = len(text) - last.end
    return [
        *outputs[:-1],
        Output(last.begin, len(text), last.transcript_bytes, rest, last.format_name, last.hint),
    ]


def _own_bytes(data: bytes, trial: Trial, own: Format) -> int:
    """Length of an output without the transcript after it, and without titles from which its format takes nothing."""
    end = split_end(data, trial.rejects)
    begin, line = last_line(data[:end])
    while begin and is_title(line):
        whole, less = trial_of(own, data[:end]), trial_of(own, data[:begin])
        if whole is None or less is None or whole.parsed_bytes != less.parsed_bytes:
            break
        end = split_end(data[:begin], trial.rejects)
        end = end if end < begin and data[end:begin].strip() else begin
        begin, line = last_line(data[:end])
    return end
