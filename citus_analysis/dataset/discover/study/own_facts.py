"""What the output of a load generator says about itself in its first and last lines: threads, size, times.

Only numbers that were set are taken from the contents, such as options on a printed command line; the names of files
are compared with them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

#: Fact -> patterns of the lines that state it, in outputs of load generators.
_NUMBERS: Final = {
    "threads": (
        rb"^number of clients: ([0-9]{1,9})\s*$",
        rb"^Number of threads: ([0-9]{1,9})\s*$",
        rb"^Command line:.* -threads ([0-9]{1,9})\b",
        rb"^\"?threadcount\"?[ =:]+\"?([0-9]{1,9})\b",
        rb"Active Virtual Users configured.*?([0-9]{1,9})\s*$|([0-9]{1,9}) Active Virtual Users configured",
        rb"^\s*<?terminals>?[ =:]*([0-9]{1,9})\b",
        rb"--(?:client|threads|concurrency)=([0-9]{1,9})\b",
    ),
    # Only of tools whose runs have it as a column: what a file says of itself is left out of the set-up.
    "scale_factor": (rb"^scaling factor: ([0-9]{1,9})\s*$",),
    "records": (rb"^Command line:.* -p recordcount=([0-9]{1,18})\b", rb"^\"?recordcount\"?[ =:]+\"?([0-9]{1,18})\b"),
    "operations": (
        rb"^Command line:.* -p operationcount=([0-9]{1,18})\b",
        rb"^\"?operationcount\"?[ =:]+\"?([0-9]{1,18})\b",
    ),
}
_COMPILED: Final = {
    fact: tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns) for fact, patterns in _NUMBERS.items()
}
_WORKLOAD: Final = re.compile(rb"^Command line:.* -P \S*?workload_?([a-fA-F])\b", re.MULTILINE)
_PHASE: Final = re.compile(rb"^Command line:.* (-load|-t)(?= |$)", re.MULTILINE)
_STAMP: Final = re.compile(
    rb"(?<![0-9])(20[0-9]{2}-[01][0-9]-[0-3][0-9])[T ]([0-2][0-9]:[0-5][0-9]:[0-5][0-9])(?:[.,:]([0-9]{1,6}))?"
)


@dataclass(frozen=True)
class OwnFacts:
    """Facts in the contents of a file; None where it does not state them.

    Attributes:
        threads: of this load generator alone.
        scale_factor: size of the tables.
        records: rows in the table.
        operations: operations that this load generator was to do.
        workload: letter of one of YCSB's core workloads.
        phase: `load` or `run`.
        begin: first time in the text, in seconds; of no time zone.
        end: last time in the text.
    """

    threads: int | None = None
    scale_factor: int | None = None
    records: int | None = None
    operations: int | None = None
    workload: str | None = None
    phase: str | None = None
    begin: float | None = None
    end: float | None = None

    def overlaps(self, other: OwnFacts) -> bool:
        """Whether both ran at the same time for at least half of the shorter one's time; False if it is not known."""
        if None in (self.begin, self.end, other.begin, other.end):
            return False
        # None of them is None any more, which the type checker does not see.
        common = min(self.end, other.end) - max(self.begin, other.begin)  # type: ignore[operator, type-var]
        shorter = min(self.end - self.begin, other.end - other.begin)  # type: ignore[operator]
        return common > 0 and common >= shorter / 2


#: Of a file that says nothing of itself.
UNKNOWN: Final = OwnFacts()


def own_facts(head: bytes, tail: bytes, stamped: bytes | None = None) -> OwnFacts:
    r"""Facts in the first and the last bytes of a file.

    Args:
        head: the first bytes of its text.
        tail: the last bytes.
        stamped: the first bytes as they are in the file, where each line has a time that is no part of the text.

    Example:
        >>> own_facts(b"Command line: -t -P workloads/workloadc -threads 16 -s\n", b"").workload
        'C'
    """
    numbers = {fact: _first(patterns, head + b"\n" + tail) for fact, patterns in _COMPILED.items()}
    workload, phase = _WORKLOAD.search(head), _PHASE.search(head)
    begin, end = _time(_STAMP.search(stamped or head)), _time(next(iter([*_STAMP.finditer(tail or head)][-1:]), None))
    return OwnFacts(
        **numbers,
        workload=workload[1].decode().upper() if workload else None,
        phase={b"-load": "load", b"-t": "run"}[phase[1]] if phase else None,
        begin=begin,
        end=end if begin is not None and end is not None and end > begin else None,
    )


def _first(patterns: tuple[re.Pattern[bytes], ...], text: bytes) -> int | None:
    found = next(filter(None, (pattern.search(text) for pattern in patterns)), None)
    return None if found is None else int(next(filter(None, found.groups())))


def _time(match: re.Match[bytes] | None) -> float | None:
    if match is None:
        return None
    day, time, fraction = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day.decode()} {time.decode()}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp() + (float(b"0." + fraction) if fraction else 0.0)
