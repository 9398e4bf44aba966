r"""What a shell prints around outputs: commands, times, warnings, headings.

Example:
    >>> split_end(b"tps = 5\n\n+ pgbench -c 4\n=== clients 4\n", lambda offset: False)
    9
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from citus_analysis.redaction import redact

__all__ = [
    "FRAME",
    "HINT_CHARS",
    "hint_of",
    "is_foreign",
    "is_title",
    "is_transcript",
    "last_line",
    "split_begin",
    "split_end",
]

#: A hint keeps this many characters, the last ones.
HINT_CHARS: Final = 2000

_NAME: Final = rb"[A-Za-z_][\w.-]*"
_SECONDS: Final = rb"[0-9]+(?:[.,][0-9]+)?"
_DURATION: Final = rb"(?:[0-9]+h ?)?(?:[0-9]+m ?)?" + _SECONDS + rb"s?"
_KNOWN: Final = (
    # Commands: of `set -x`, and after the prompts of sh, bash and zsh.
    rb"\++ \S.*",
    rb"\$ \S.*",
    rb"\[?" + _NAME + rb"@" + _NAME + rb"[: ][^$#%]{0,200}[$#%](?: .*)?",
    # Times: of bash, of `time -p`, of zsh, and of GNU time in its two forms.
    rb"(?:real|user|sys)[ \t]+" + _DURATION,
    rb".*\b" + _SECONDS + rb"s user " + _SECONDS + rb"s system [0-9]+% cpu [0-9:.,]+ total",
    _SECONDS + rb"user " + _SECONDS + rb"system \S+elapsed \S+CPU \(.*\)k",
    rb"[0-9]+inputs\+[0-9]+outputs \(.*\)pagefaults [0-9]+swaps",
    rb"\t(?:Command being timed|[A-Z][A-Za-z() /:-]*(?:time|CPU|size|faults|switches|Swaps|inputs|outputs"
    rb"|sent|received|delivered|status)[A-Za-z() /:-]*): .*",
    # The date.
    rb"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}(?: [AP]M)? [A-Z+0-9-]{2,6} [0-9]{4}",
    # ssh, the locale, nohup, script.
    rb"Warning: Permanently added .* to the list of known hosts\.",
    rb"Pseudo-terminal will not be allocated because stdin is not a terminal\.",
    rb"(?:Shared connection|Connection) to \S+ closed\.",
    rb"(?:\S+: )?(?:line [0-9]+: )?warning: (?:setlocale|here-document)\b.*",
    rb"perl: warning: .*",
    rb"\t(?:LANGUAGE|LC_[A-Z]+|LANG) = .*",
    rb" *are supported and installed on your system\.",
    rb"nohup: (?:ignoring input|appending output|redirecting stderr).*",
    rb"Script (?:started|done)\b.*",
    # Headings.
    rb"={2,} *[^=\s].*",
    rb"#{3,} *[^#\s].*",
    rb"-{3,} [A-Za-z0-9].*",
)
_TRANSCRIPT: Final = re.compile(rb"(?:" + rb"|".join(_KNOWN) + rb")\s*\Z")
#: Lines that say that a program failed are the output's, also where its format does not know them.
_TROUBLE: Final = re.compile(
    rb"\b(?:FATAL|PANIC|ERROR|Traceback|Exception|Segmentation fault|Killed|Aborted|core dumped|Terminated)\b"
    rb"|(?i:\b(?:error|fatal): |\bcommand not found\b|\bno such file or directory\b)"
)
#: A title that somebody gave what follows; some formats take such a line for a heading of their own.
_TITLE: Final = re.compile(rb"[A-Z][A-Za-z]*(?: [A-Za-z]+)?: ?\S{1,40}\s*\Z")
_NUMBER: Final = re.compile(rb"[-+(]?[0-9]")
#: The frame in which the pods of bexhoma (an experiment manager on Kubernetes) print the outputs of tools.
FRAME: Final = re.compile(rb"^BEXHOMA_[A-Z_]+[:=]|^####BEXHOMA####\r?$", re.MULTILINE)
_SPACE: Final = re.compile(r"[^\S\n]")


def is_transcript(line: bytes) -> bool:
    """Whether a shell printed a line, by its form alone.

    Example:
        >>> is_transcript(b"+ pgbench -c 4"), is_transcript(b"tps = 5"), is_transcript(b"alice@db1:~$ iostat")
        (True, False, True)
    """
    return _TRANSCRIPT.match(line) is not None


def split_begin(lead: bytes, foreign: Callable[[int], bool]) -> int:
    """Length of the transcript at the beginning of what stands before an opening: up to its last foreign line.

    Args:
        lead: the text before the opening.
        foreign: whether the format rejects the line at an offset.
    """
    for begin, line in _lines_backwards(lead):
        if line.strip() and (is_title(line) or is_foreign(begin, line, foreign)):
            return begin + len(line)
    return 0


def split_end(data: bytes, foreign: Callable[[int], bool]) -> int:
    """Length of an output without the transcript after it.

    Args:
        data: the output from its opening up to the next opening, or to the end of the text.
        foreign: whether the format rejects the line at an offset.
    """
    end = len(data)
    for begin, line in _lines_backwards(data):
        if not line.strip():
            continue
        if not is_foreign(begin, line, foreign):
            break
        end = begin
    return end


def is_foreign(begin: int, line: bytes, foreign: Callable[[int], bool]) -> bool:
    """Whether a line is a shell's, or unknown to the format and neither a failure nor a damaged row of numbers.

    Args:
        begin: its offset.
        line: the line.
        foreign: whether the format rejects the line at an offset.
    """
    if is_transcript(line):
        return True
    words = line.split()
    numbers = sum(1 for word in words if _NUMBER.match(word))
    damaged = len(words) > 1 and 2 * numbers > len(words)
    return foreign(begin) and not damaged and not _TROUBLE.search(line)


def is_title(line: bytes) -> bool:
    r"""Whether a line may be a title of what follows.

    Example:
        >>> is_title(b"Run: 2\n"), is_title(b"  Run: 2\n"), is_title(b"done\n")
        (True, False, False)
    """
    return _TITLE.match(line) is not None


def last_line(data: bytes) -> tuple[int, bytes]:
    r"""Offset and text of the last line that is not blank; the beginning and an empty line if there is none.

    Example:
        >>> last_line(b"a\nb\n\n")
        (2, b'b\n')
    """
    return next(((begin, line) for begin, line in _lines_backwards(data) if line.strip()), (0, b""))


def _lines_backwards(data: bytes) -> Iterator[tuple[int, bytes]]:
    end = len(data)
    while end:
        begin = data.rfind(b"\n", 0, end - 1) + 1
        yield begin, data[begin:end]
        end = begin


def hint_of(transcript: bytes) -> str:
    r"""The text of a transcript for people and for identity: redacted, printable, its last characters.

    Example:
        >>> hint_of(b"\n+ pgbench -c 4 postgresql://bench:s3cret@db1/x\n\x1b[0m\n")
        '+ pgbench -c 4 postgresql://bench:***@db1/x\n[0m'
    """
    if len(transcript) > 4 * HINT_CHARS:
        # Only whole lines: a secret must not be parted from its key before it is redacted.
        transcript = transcript[-4 * HINT_CHARS :].partition(b"\n")[2]
    text = transcript.decode("utf-8", "replace").replace("\r", "\n")
    lines = (redact("".join(filter(str.isprintable, _SPACE.sub(" ", line)))).strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line)[-HINT_CHARS:].strip()
