"""The records of a sample of a log, as far as they say something about the prefix."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from citus_analysis.formats.serverlog.pglog._prefix import HEAD_LIMIT, SEVERITY_WORDS

_WORDS: Final = "|".join(SEVERITY_WORDS)
#: The first severity of a line. Two blanks follow; where copies have one, it must not be part of a longer word.
_MARK: Final = re.compile(rf"(?:{_WORDS})[1-5]?:  |(?<![A-Za-z])(?:{_WORDS})[1-5]?: (?! )")
#: Messages that say something about their session, and need not be among the first of the sample.
_TELLING: Final = re.compile(
    r"connection received:|connection authorized:|disconnection:|does not exist$|authentication failed for user"
    r"|no pg_hba.conf entry|process [0-9]+ (?:still waiting|acquired)"
)
#: Records that are looked at: the first, then telling ones, and some of the rest.
_FIRST, _MORE, _SPREAD = 256, 192, 64


@dataclass(frozen=True)
class Record:
    """A record.

    Attributes:
        head: the text before its severity.
        severity: with its digit.
        message: the beginning of its text.
    """

    head: str
    severity: str
    message: str


def records_of(sample: str) -> list[Record]:
    r"""Records of a sample, in order.

    Lines that begin with a tab continue records. Not all records of a large sample are given: the first ones, those
    whose messages tell something about their session, and some from the rest.

    Example:
        >>> records_of("12:00 [7] LOG:  ready\n\tand\n")
        [Record(head='12:00 [7] ', severity='LOG', message='ready')]
    """
    found = [(line, mark) for line in sample.split("\n") if (mark := mark_of(line)) is not None]
    chosen = _chosen([line[mark.end() : mark.end() + 400] for line, mark in found])
    return [
        Record(line[: mark.start()], mark[0].rstrip(" :"), line[mark.end() : mark.end() + 1000].rstrip("\r"))
        for line, mark in (found[number] for number in chosen)
    ]


def mark_of(line: str) -> re.Match[str] | None:
    """The severity of a line that does not begin with a tab."""
    if line.startswith("\t") or ": " not in line:
        return None
    return _MARK.search(line, 0, HEAD_LIMIT)


def _chosen(messages: Sequence[str]) -> list[int]:
    chosen = set(range(min(_FIRST, len(messages))))
    if len(messages) > _FIRST:
        telling = [number for number in range(_FIRST, len(messages)) if _TELLING.search(messages[number])]
        chosen.update(telling[:_MORE])
        chosen.update(range(_FIRST, len(messages), 1 + (len(messages) - _FIRST) // _SPREAD))
    return sorted(chosen)
