r"""What a shell prints around outputs: commands, times, warnings, headings.

Example:
    >>> split_end(b"tps = 5\n\n+ pgbench -c 4\n=== clients 4\n", lambda offset: False)
    9
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Final

from citus_analysis.redaction import redact
from citus_analysis.schema import WARM_UP

#: The text before an output keeps this many characters, the last ones.
PRECEDING_CHARS: Final = 2000

_NAME: Final = rb"[A-Za-z_][\w.-]*"
_SECONDS: Final = rb"[0-9]+(?:[.,][0-9]+)?"
_DURATION: Final = rb"(?:[0-9]+h ?)?(?:[0-9]+m ?)?" + _SECONDS + rb"s?"
#: Of `set -x`, and after the prompts of sh, bash and zsh.
_COMMANDS: Final = (
    rb"\++ \S.*",
    rb"\$ \S.*",
    rb"\[?" + _NAME + rb"@" + _NAME + rb"[: ][^$#%]{0,200}[$#%](?: .*)?",
)
_KNOWN: Final = (
    *_COMMANDS,
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
    # The journal.
    rb"-- (?:Logs begin|Journal begins|Boot|Reboot|No entries)\b.*",
    # Ansible, pssh, tail of several files, and fences of Markdown.
    rb"\S+ \| (?:CHANGED|SUCCESS|FAILED)!?(?: \| rc=[0-9]+)? (?:>>|=> ?.*)",
    rb"(?:PLAY|TASK|RUNNING HANDLER|PLAY RECAP) (?:\[.*\] )?\*{3,}",
    rb"\[[0-9]+\] [0-9:]{8} \[(?:SUCCESS|FAILURE)\] \S+.*",
    rb"==> \S.* <==",
    rb"```\w*",
    # GitHub Actions and GitLab CI.
    rb"##\[[a-z]+\].*",
    rb"shell: \S.*",
    rb"section_(?:start|end):[0-9]+:\w+\r?.*",
    rb"Running (?:with gitlab-runner|after_script|on \S+ via) .*",
    rb"(?:Job succeeded|ERROR: Job failed.*|Cleaning up project directory and file based variables)",
    # Headings.
    rb"={2,} *[^=\s].*",
    rb"#{3,} *[^#\s].*",
    rb"-{3,} [A-Za-z0-9].*",
)
_COMMAND: Final = re.compile(rb"(?:" + rb"|".join(_COMMANDS) + rb")\s*\Z")
_TRANSCRIPT: Final = re.compile(rb"(?:" + rb"|".join(_KNOWN) + rb")\s*\Z")
#: Times in digits, of which a format says whether they are its own.
_TIME: Final = re.compile(
    rb"(?:[0-9]{2}\.[0-9]{2}\.[0-9]{4}|[0-9]{4}-[0-9]{2}-[0-9]{2})[ T][0-9]{2}:[0-9]{2}:[0-9]{2}\S{0,10}\s*\Z"
)
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
#: A longer sequence of lines that no format knows is reported as rejected.
_MOST_UNKNOWN: Final = 40
_SPACE: Final = re.compile(r"[^\S\n]")


def is_transcript(line: bytes) -> bool:
    """Whether a shell printed a line, by its form alone.

    Example:
        >>> is_transcript(b"+ pgbench -c 4"), is_transcript(b"tps = 5"), is_transcript(b"alice@db1:~$ iostat")
        (True, False, True)
    """
    return _TRANSCRIPT.match(line) is not None


def is_launch_line(line: bytes, tool: bytes) -> bool:
    """Whether a shell's line shows that what follows is a new output: any but a command that does not run the tool.

    Example:
        >>> (
        ...     is_launch_line(b"+ pgbench -c 4", b"pgbench"),
        ...     is_launch_line(b"+ sleep 10", b"pgbench"),
        ...     is_launch_line(b"== 4", b"pgbench"),
        ... )
        (True, False, True)
    """
    return is_transcript(line) and (tool in line or _COMMAND.match(line) is None)


def measure_shell_prefix(data: bytes) -> int:
    r"""Length of the lines of a shell's form at the beginning of a text; 0 if there is no such line.

    Example:
        >>> measure_shell_prefix(b"\n+ date\n\ntps = 5\n+ date\n"), measure_shell_prefix(b"\ntps = 5\n")
        (9, 0)
    """
    end = found = 0
    grouped = False
    for line in BytesIO(data):
        # What GitHub Actions writes between these is about the command, not of it.
        grouped = (grouped or line.startswith(b"##[group]")) and not line.startswith(b"##[endgroup]")
        if line.strip() and not grouped and not is_transcript(line):
            break
        end += len(line)
        found += bool(line.strip())
    return end if found else 0


def is_long(transcript: bytes) -> bool:
    """Whether so many lines do not have a shell's form that they are rather an output that no format knows."""
    return sum(1 for line in BytesIO(transcript) if line.strip() and not is_transcript(line)) > _MOST_UNKNOWN


def split_begin(lead: bytes, foreign: Callable[[int], bool], *, framed: bool = False, limited: bool = True) -> int:
    """Length of the transcript at the beginning of what stands before a start marker, up to the output's first line.

    Args:
        lead: the text before the marker.
        foreign: whether the format rejects the line at an offset.
        framed: the text stands in a frame, whose lines may look like the format's: it ends with its last foreign line.
        limited: many unknown lines are no transcript.
    """
    begin = end = unknown = 0
    for line in BytesIO(lead):
        if line.strip():
            strange = is_title(line) or is_foreign(begin, line, foreign)
            if not strange and not framed:
                break
            end = begin + len(line) if strange else end
            unknown += not is_transcript(line)
        begin += len(line)
    return measure_shell_prefix(lead) if limited and not framed and unknown > _MOST_UNKNOWN else end


def split_end(data: bytes, foreign: Callable[[int], bool], *, limited: bool = True, followed: bool = False) -> int:
    """Length of an output without the transcript after it.

    Args:
        data: the output from its marker up to the next marker, or to the end of the text.
        foreign: whether the format rejects the line at an offset.
        limited: many unknown lines are no transcript.
        followed: another output follows, to which a failure after a shell's line belongs.
    """
    end = known_end = len(data)
    unknown, failed = 0, False
    for begin, line in _iterate_lines_backwards(data):
        if not line.strip():
            continue
        if not is_foreign(begin, line, foreign):
            failed = followed and foreign(begin) and _TROUBLE.search(line) is not None
            if not failed:
                break
        elif is_transcript(line) or not failed:
            end, failed = begin, False
            unknown += not is_transcript(line)
            known_end = known_end if unknown else begin
    return known_end if limited and unknown > _MOST_UNKNOWN else end


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
    damaged = len(words) > 1 and 2 * numbers > len(words) and not _TIME.match(line)
    return foreign(begin) and not damaged and not _TROUBLE.search(line)


def is_title(line: bytes) -> bool:
    r"""Whether a line may be a title of what follows.

    Example:
        >>> is_title(b"Run: 2\n"), is_title(b"  Run: 2\n"), is_title(b"done\n")
        (True, False, False)
    """
    return _TITLE.match(line) is not None


def find_last_line(data: bytes) -> tuple[int, bytes]:
    r"""Offset and text of the last line that is not blank; the beginning and an empty line if there is none.

    Example:
        >>> find_last_line(b"a\nb\n\n")
        (2, b'b\n')
    """
    return next(((begin, line) for begin, line in _iterate_lines_backwards(data) if line.strip()), (0, b""))


def _iterate_lines_backwards(data: bytes) -> Iterator[tuple[int, bytes]]:
    end = len(data)
    while end:
        begin = data.rfind(b"\n", 0, end - 1) + 1
        yield begin, data[begin:end]
        end = begin


def extract_preceding_text(transcript: bytes) -> str:
    r"""The text of a transcript for people and for identity: redacted, printable, its last characters.

    Example:
        >>> extract_preceding_text(b"\n+ pgbench -c 4 postgresql://bench:s3cret@db1/x\n\x1b[0m\n")
        '+ pgbench -c 4 postgresql://bench:***@db1/x\n[0m'
    """
    if len(transcript) > 4 * PRECEDING_CHARS:
        # Only whole lines: a secret must not be parted from its key before it is redacted.
        transcript = transcript[-4 * PRECEDING_CHARS :].partition(b"\n")[2]
    text = transcript.decode("utf-8", "replace").replace("\r", "\n")
    lines = (redact("".join(filter(str.isprintable, _SPACE.sub(" ", line)))).strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line)[-PRECEDING_CHARS:].strip()


# Facts about a run that the transcript before its output states for certain.

_STATED_NUMBER: Final = r"[ ]?[:=]?[ ]?([0-9]{1,9})(?![\w.])"
_FIRST: Final = r"(?<![\w.-])"
#: Fact -> its name directly before or after its number, or before its value.
_SAID: Final = {
    "threads": (
        rf"{_FIRST}(?:clients?|threads?|terminals|virtual users|vusers){_STATED_NUMBER}",
        rf"{_FIRST}([0-9]{{1,9}}) (?:clients?|threads?|terminals|virtual users|vu)(?!\w)",
    ),
    "iteration": (rf"{_FIRST}(?:rep|repeat|repetition|iter|iteration|trial){_STATED_NUMBER}",),
    "records": (rf"{_FIRST}(?:records|recordcount){_STATED_NUMBER}",),
    "workers": (
        rf"{_FIRST}(?:worker nodes|citus workers){_STATED_NUMBER}",
        rf"{_FIRST}([0-9]{{1,9}}) (?:worker nodes|citus workers)(?!\w)",
    ),
    "drivers": (rf"{_FIRST}(?:drivers|load generators){_STATED_NUMBER}",),
    "phase": (rf"{_FIRST}phase[ ]?[:=]?[ ]?(load|run)(?![\w.])",),
    "workload": (rf"{_FIRST}workload[ ]?[:=]?[ ]?(?:workload)?([a-f])(?![\w.])",),
}
#: Lines of bexhoma's pods; its runs of an experiment are repetitions.
_FRAME: Final = {
    "iteration": r"^bexhoma_experiment_run[:=]([0-9]{1,9})$",
    "drivers": r"^num_pods ([0-9]{1,9})$",
    "workload": r"^ycsb_workload ([a-f])$",
}
_TEXTS: Final = ("phase", "workload")
#: Headings say what follows; of other lines, only those that consist of facts.
_HEADING: Final = re.compile(r"[=#*-]{2,} *[a-z0-9]")
_FILLING: Final = re.compile(r"\b(?:run|test|with|and|of)\b|[\W_]")


def parse_preceding_facts(preceding_text: str) -> dict[str, str | int]:
    r"""Facts by the names that the identity of a file has; only those that the hint states, and states once.

    A word that names a fact must stand beside its number, in a heading or in a line of nothing else. Commands are left
    out, because the output says what was run, and so is a fact with two values.

    Args:
        preceding_text: text of the transcript before an output.

    Example:
        >>> parse_preceding_facts("+ pgbench -c 16 -T 60\n=== clients 16, rep 3 of tests")
        {'threads': 16, 'iteration': 3}
        >>> parse_preceding_facts("== 4 threads\n== 8 threads"), parse_preceding_facts("=== round 4")
        ({}, {})
    """
    found: dict[str, set[str]] = {}
    for line in preceding_text.lower().splitlines():
        for fact, value in _find_stated_facts(line):
            found.setdefault(fact, set()).add(value)
    certain = ((fact, *values) for fact, values in found.items() if len(values) == 1)
    facts = {fact: value if fact in _TEXTS else int(value) for fact, value in certain}
    return {**facts, "phase": WARM_UP} if announces_warm_up(preceding_text) else facts


#: A warm-up, with a number and a duration.
_WARM_UP: Final = re.compile(
    r"\b(?:pre-?warm(?:ing|up)?|warm(?:ing)?[-_ ]?up)\b(?: (?:run|phase|pass|iteration|round|test|of))?"
    r"(?: ?[#:]?[0-9]+(?:/[0-9]+)?)?"
    r"(?:,? \(?(?:for )?[0-9]+ ?(?:s|sec|secs|seconds|min|m|minutes)\b\)?)?"
)
#: What else a line may be about.
_MEASURED: Final = re.compile(
    r"\b(?:runs?|rep|repeat|repetition|iteration|iter|trial|round|measure\w*|benchmark\w*|test|main|load|sweep)\b"
)
_OVER: Final = re.compile(r"\b(?:done|finished|completed?|over|ended|end|no|without|skip\w*|after|off)\b")


def announces_warm_up(preceding_text: str) -> bool:
    r"""Whether the last line before an output that speaks of a warm-up or of a run says that a warm-up begins.

    Args:
        preceding_text: text of the transcript before an output.

    Example:
        >>> announces_warm_up("=== RUN 1 ===\n=== WARMUP ==="), announces_warm_up("=== warm-up ===\n=== run 1 ===")
        (True, False)
        >>> announces_warm_up("--- warm-up done"), announces_warm_up("warmup: 60 s, run: 600 s")
        (False, False)
    """
    for line in reversed(preceding_text.lower().splitlines()):
        if _COMMAND.match(line.encode()):
            continue
        rest, warm = _WARM_UP.subn(" ", line)
        if _OVER.search(rest) and warm:
            return False
        if _MEASURED.search(rest):
            return False
        if warm:
            return True
    return False


def _find_stated_facts(line: str) -> Iterator[tuple[str, str]]:
    for fact, pattern in _FRAME.items():
        yield from ((fact, value) for value in re.findall(pattern, line))
    rest = line
    for patterns in _SAID.values():
        for pattern in patterns:
            rest = re.sub(pattern, " ", rest)
    if not _HEADING.match(line) and _FILLING.sub("", rest):
        return
    for fact, patterns in _SAID.items():
        yield from ((fact, value) for pattern in patterns for value in re.findall(pattern, line))
