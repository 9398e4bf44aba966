"""Which of the escapes of numbers a slot is: process, line, SQLSTATE."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from citus_analysis.formats.serverlog.pglog.inference.forms import STATE
from citus_analysis.formats.serverlog.pglog.inference.sample import Record
from citus_analysis.formats.serverlog.pglog.inference.session_facts import own_facts
from citus_analysis.formats.serverlog.pglog.inference.template import Values, known_pairs

#: Largest process number of Linux; numbers of other systems are used where a key or `%c` says what they are.
_MOST: Final = 4_194_304
_NO_ERROR: Final = "00000"
#: Share of steps by one among the lines of processes. Lines of extracts are missing, so it counts with a key only.
_MOSTLY: Final = 0.5
#: Share of steps by one that processes have which are started one after the other; of lines that are there twice.
_FEW: Final = 0.3
_LOCK: Final = re.compile(r"process ([0-9]+) (?:still waiting|acquired|avoided deadlock|detected deadlock)")


def is_state(values: Values, records: Sequence[Record]) -> bool:
    """Whether a slot is the SQLSTATE: five characters, `00000` in most records that report no error, not in errors."""
    said = [(value, record) for value, record in zip(values, records, strict=True) if value is not None]
    if not said or not all(STATE.fullmatch(value) for value, _ in said):
        return False
    quiet = [value for value, record in said if record.severity[:5] in ("LOG", "INFO", "NOTIC", "DEBUG")]
    errors = [value for value, record in said if record.severity in ("ERROR", "FATAL", "PANIC")]
    fine = sum(value == _NO_ERROR for value in quiet)
    return _NO_ERROR not in errors and fine >= 0.8 * len(quiet) and (fine > 0 or len(set(errors)) > 1)


def find_process(
    slots: Mapping[int, Values], keyed: Mapping[int, str], sessions: Sequence[Values], records: Sequence[Record]
) -> int | None:
    """The slot of the process number; None if none is proven to be it.

    Args:
        slots: values of the slots of numbers.
        keyed: slot -> escape that the word beside it means.
        sessions: values of `%c`, of which the second half is the process.
        records: the records.
    """
    possible = {slot: values for slot, values in slots.items() if keyed.get(slot, "p") == "p" and _are_positive(values)}
    if sessions:
        return next((slot for slot, values in possible.items() if _match_sessions(values, sessions[0])), None)
    named = [slot for slot in possible if keyed.get(slot) == "p"]
    if named:
        return named[0] if len(named) == 1 else None
    small = [
        slot
        for slot, values in possible.items()
        if max(int(value) for value in values if value) <= _MOST and _is_ordered(values, records) is not False
    ]
    proven = [slot for slot in small if _is_ordered(slots[slot], records)]
    chosen = proven or small
    counted = [slot for slot in chosen if any(_counts(slots[other], slots[slot]) for other in slots if other != slot)]
    if len(chosen) > 1:
        chosen = counted
    if len(chosen) != 1:
        return None
    return chosen[0] if proven or counted or _repeats(slots[chosen[0]]) else None


def find_lines(slots: Mapping[int, Values], keyed: Mapping[int, str], processes: Values) -> set[int]:
    """The slots that count the lines of each process.

    Args:
        slots: values of the slots of numbers, without those of the process.
        keyed: slot -> escape that the word beside it means.
        processes: process of each record.
    """
    return {
        slot
        for slot, values in slots.items()
        if keyed.get(slot, "l") == "l" and _are_positive(values) and _counts(values, processes, unknown=slot in keyed)
    }


def is_virtual_transaction(values: Values) -> bool:
    """Whether numbers around a slash are backend and transaction, not process and line."""
    said = [value for value in values if value]
    backends = [value.partition("/")[0] for value in said]
    numbers: Values = [value.partition("/")[2] for value in said]
    return "0" in numbers or "" in values or not _counts(numbers, [*backends])


def _are_positive(values: Values) -> bool:
    said = [value for value in values if value is not None]
    return bool(said) and all(value.isdecimal() and len(value) < 10 and int(value) > 0 for value in said)


def _match_sessions(values: Values, sessions: Values) -> bool:
    pairs = list(known_pairs(values, sessions))
    return bool(pairs) and all(int(one) == int(other.partition(".")[2], 16) for one, other in pairs)


def _is_ordered(values: Values, records: Sequence[Record]) -> bool | None:
    """Whether the records of each value are those of one session after the other; None if too little is known."""
    stages: dict[str, list[str]] = defaultdict(list)
    for value, record in zip(values, records, strict=True):
        locked = _LOCK.match(record.message)
        if value is None:
            continue
        if locked:
            return locked[1] == value
        stage = own_facts(record).stage
        if stage:
            stages[value].append(stage)
    known = [(one, other) for said in stages.values() for one, other in itertools.pairwise(said)]
    follows = {("received", "authorized"), ("authorized", "ended"), ("received", "refused"), ("authorized", "refused")}
    begun = sum(pair in follows for pair in known)
    # A new session may have the number of one that ended, or that was killed.
    wrong = sum(pair not in follows and pair[1] != "received" for pair in known)
    broken = sum(pair == ("received", "received") for pair in known)
    return wrong == 0 and begun > broken if known else None


def _counts(values: Values, processes: Values, *, unknown: bool = False) -> bool:
    """Whether the values of each process increase, mostly by one; `unknown` if no process has two of them."""
    last: dict[str, int] = {}
    steps = ones = back = 0
    for value, process in known_pairs(values, processes):
        if not value.isdecimal():
            continue
        number = int(value)
        if process in last:
            steps += 1
            ones += number == last[process] + 1
            back += number <= last[process] and number != 1
        last[process] = number
    if back > (_FEW * steps if unknown else 0):
        return False
    return ones >= _MOSTLY * steps or unknown if steps else unknown


def _repeats(values: Values) -> bool:
    """Whether values rather repeat from one record to the next than increase by one, as numbers of lines do."""
    said = [int(value) for value in values if value]
    ones = sum(other == one + 1 for one, other in itertools.pairwise(said))
    same = sum(other == one for one, other in itertools.pairwise(said))
    return ones <= same or (ones <= _FEW * len(said) and min(said) > 1)
