"""How much of a server log was understood: what is lost in a profile must be said, not assumed.

A record is *unknown* if it is a `LOG` record of no kind that is read, and its message does not look like one of the
server in English (`database system is ready ...`): the kinds are recognised by English words, and in another language
by those of its translations that are known (`formats/pglog/languages`). The first unknown record shows the
likely reason. A duration is *astray* if its record tells neither a session nor a statement.
"""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass
from operator import add
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from citus_analysis.core.arrow_arrays import fill_null_integers

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Flags: TypeAlias = NDArray[np.bool_]

#: A log of which less is understood is reported.
KNOWN_SHARE: Final = 0.9
#: Words of which nearly every English message has one, and beginnings that are not English, or report a time.
ENGLISH: Final = (
    r"(?i)\b(?:the|is|to|of|for|in|at|on|from|by|was|not|after|any|with|down|up|no|could|received|starting|started|server|"
    r"database|system|process|logger|ready|request|transactions?|connection|recovery|redo|parameter|replication|job|"
    r"audit|session|select|insert|update|delete|exited|running|creating|using|failed|invalid)\b"
)
FOREIGN: Final = r"^[\x00-\x7f]{0,24}[^\x00-\x7f]|^[A-Za-z ]{3,24} ?: ?[0-9]+[.,][0-9]{3} "
_TIMED: Final = ("duration", "parse", "bind")
_SHOWN: Final = 80
_WITHOUT_SESSION: Final = "log_line_prefix has neither %p nor %c, so that no session is known; add %p"
_WITHOUT_TEXT: Final = "log_duration logs no statements; set log_min_duration_statement, or log_statement = all"


@dataclass(frozen=True)
class LogCoverage:
    """Counts of records of a log.

    Attributes:
        records: all records.
        logged: those of severity `LOG`.
        unknown: those among them that are unknown.
        durations: records with the duration of a statement or of a phase of one.
        astray: those among them that cannot be given to a statement.
        alone: durations whose record tells no session.
        first_unknown: the message of the first unknown record.
    """

    records: int = 0
    logged: int = 0
    unknown: int = 0
    durations: int = 0
    astray: int = 0
    alone: int = 0
    first_unknown: str | None = None

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Self:
        """The counts of some rows of `log_events`."""
        logged, other = _is(rows, "severity", "LOG"), _is(rows, "kind", "other")
        unknown = _list_unknown_messages(rows, logged & other) if other.any() else []
        durations, astray, alone = 0, 0, 0
        for kind in _TIMED:
            # At debug levels, the server says that it parses and binds before it says how long that took.
            timed = _is(rows, "kind", kind) & _make_known_flags(rows, "duration_us")
            durations += int(timed.sum())
            if rows.column("pid").null_count:
                timed &= ~_make_known_flags(rows, "pid")
                alone += int(timed.sum())
                astray += int(
                    (timed if kind == "parse" else timed & ~_make_known_flags(rows, "statement_fingerprint")).sum()
                )
        counts = (len(rows), int(logged.sum()), len(unknown), durations, astray, alone)
        return cls(*counts, next(iter(unknown), None))

    def __add__(self, other: LogCoverage) -> LogCoverage:
        """The counts of both, in the order of the log."""
        *counts, first = astuple(self)
        *more, later = astuple(other)
        sums = [*map(add, counts, more), later if first is None else first]
        return LogCoverage(*sums)

    def notes(self) -> list[str]:
        """What a reader must know, with the likely reason and a remedy; empty if most is understood."""
        notes = []
        if self.unknown and self.unknown > (1 - KNOWN_SHARE) * self.logged:
            shown = (self.first_unknown or "")[:_SHOWN]
            said = f"{self.unknown:,} of {self.logged:,} LOG records could not be understood, the first: {shown!r}"
            notes.append(f"{said}; likely reason: {explain_unparsed_message(self.first_unknown or '')}")
        if self.astray > (1 - KNOWN_SHARE) * self.durations:
            said = f"{self.astray:,} of {self.durations:,} durations belong to no statement"
            notes.append(f"{said}; likely reason: {_WITHOUT_SESSION if self.alone else _WITHOUT_TEXT}")
        return notes


def explain_unparsed_message(message: str) -> str:
    """Why a message was not understood, and the remedy, in words.

    Example:
        >>> explain_unparsed_message("czas: 1.250 ms").partition(";")[0]
        'messages in a language that is not read'
    """
    if re.search(FOREIGN, message):
        return "messages in a language that is not read; set lc_messages = 'C' on the server"
    return "messages of an extension, or of a release that is not known; the records are kept as kind other"


def _is(rows: pa.RecordBatch, name: str, word: str) -> Flags:
    """Whether the value of a column of words is this one, of each row; compares codes, because there are many rows."""
    import numpy as np

    column = rows.column(name)
    words = column.dictionary.to_pylist()
    if word not in words:
        return np.zeros(len(rows), np.bool_)
    return np.asarray(fill_null_integers(column.indices, -1) == words.index(word))


def _make_known_flags(rows: pa.RecordBatch, name: str) -> Flags:
    import pyarrow as pa

    return fill_null_integers(rows.column(name).is_valid().cast(pa.uint8()), 0).astype(bool)


def _list_unknown_messages(rows: pa.RecordBatch, chosen: Flags) -> list[str]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    messages = rows.column("message").take(pa.array(np.flatnonzero(chosen))).drop_null()
    known = pc.and_not(pc.match_substring_regex(messages, ENGLISH), pc.match_substring_regex(messages, FOREIGN))
    return list(messages.filter(pc.invert(known)).to_pylist())
