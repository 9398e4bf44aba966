"""Which of the escapes of times a slot is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from citus_analysis.formats.serverlog.pglog.inference.template import Values, known_pairs

_SECOND: Final = 19
#: Lines of several processes are not exactly in the order of their times.
_DISORDER_S: Final = 2


def second_escapes(
    slots: Mapping[int, Values], milliseconds: Sequence[Values], sessions: Sequence[Values], processes: Values
) -> dict[int, str]:
    """For each slot of times in whole seconds: `t` the time of the record, `s` the start of its process, `?` unknown.

    Args:
        slots: values of these slots.
        milliseconds: values of slots of times with milliseconds (or epochs), which are times of records.
        sessions: values of `%c`, which begins with the start of the process.
        processes: process of each record.
    """
    if milliseconds:
        return {slot: _beside(values, milliseconds, processes) for slot, values in slots.items()}
    if len(slots) == 1:
        return {slot: _alone(values, sessions, processes) for slot, values in slots.items()}
    varying = {slot for slot, values in slots.items() if not _is_constant(values, processes)}
    back = {slot for slot, values in slots.items() if slot not in varying and _goes_back(values, processes)}
    if not varying and not back:
        return dict.fromkeys(slots, "?")
    times = varying or slots.keys() - back
    shown = [slots[slot] for slot in times]
    return {slot: "t" if slot in times else _beside(values, shown, processes) for slot, values in slots.items()}


def _beside(values: Values, times: Sequence[Values], processes: Values) -> str:
    """The escape of a slot beside times of records."""
    records_time = any(_all_equal(values, other) for other in times)
    start = _is_constant(values, processes) and not any(_is_later(values, other) for other in times)
    # Both, if all processes have just begun.
    return "?" if records_time == start else "t" if records_time else "s"


def _alone(values: Values, sessions: Sequence[Values], processes: Values) -> str:
    """The escape of the only time: that of the record, unless the starts of processes can explain it better."""
    several = len({*processes} - {None}) > 1
    if not _is_constant(values, processes) or not several or not _goes_back(values, processes):
        return "t"
    return "?" if not sessions or any(_begins_then(values, other) for other in sessions) else "t"


def _all_equal(seconds: Values, times: Values) -> bool:
    return all(_second(other) == one[:_SECOND] for one, other in known_pairs(seconds, times))


def _is_later(seconds: Values, times: Values) -> bool:
    return any(one[:_SECOND] > _second(other) for one, other in known_pairs(seconds, times))


def _second(time: str) -> str:
    """The second of a stamp, or of an epoch (which is in UTC)."""
    if "-" in time:
        return time[:_SECOND]
    return datetime.fromtimestamp(int(time.partition(".")[0]), UTC).strftime("%Y-%m-%d %H:%M:%S")


def _is_constant(values: Values, processes: Values) -> bool:
    """Whether each process has one value."""
    first: dict[str, str] = {}
    return all(first.setdefault(process, value) == value for process, value in known_pairs(processes, values))


def _begins_then(values: Values, sessions: Values) -> bool:
    return all(
        (_clock(value) - int(session.partition(".")[0], 16)) % 900 == 0
        for value, session in known_pairs(values, sessions)
    )


def _clock(second: str) -> int:
    return int(datetime.fromisoformat(second[:_SECOND]).replace(tzinfo=UTC).timestamp())


def _goes_back(values: Values, processes: Values) -> bool:
    """Whether a process goes on with its old time after another had a later one, as starts of processes do.

    Times of records go back where lines are not in order, but not for each process to the time that it had.
    """
    latest = 0
    went_back: dict[tuple[str | None, str], bool] = {}
    for value, process in zip(values, processes, strict=True):
        if value is None:
            continue
        clock = _clock(value)
        goes_back = clock < latest - _DISORDER_S
        if goes_back and not went_back.get((process, value), True):
            return True
        latest = max(latest, clock)
        went_back[process, value] = goes_back
    return False
