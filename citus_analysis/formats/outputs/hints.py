"""Facts about a run that the transcript before its output states for certain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_NUMBER: Final = r"[ ]?[:=]?[ ]?([0-9]{1,9})(?![\w.])"
_FIRST: Final = r"(?<![\w.-])"
#: Fact -> its name directly before or after its number, or before its value.
_SAID: Final = {
    "threads": (
        rf"{_FIRST}(?:clients?|threads?|terminals|virtual users|vusers){_NUMBER}",
        rf"{_FIRST}([0-9]{{1,9}}) (?:clients?|threads?|terminals|virtual users|vu)(?!\w)",
    ),
    "iteration": (rf"{_FIRST}(?:rep|repeat|repetition|iter|iteration|trial){_NUMBER}",),
    "records": (rf"{_FIRST}(?:records|recordcount){_NUMBER}",),
    "workers": (
        rf"{_FIRST}(?:worker nodes|citus workers){_NUMBER}",
        rf"{_FIRST}([0-9]{{1,9}}) (?:worker nodes|citus workers)(?!\w)",
    ),
    "drivers": (rf"{_FIRST}(?:drivers|load generators){_NUMBER}",),
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


def hint_facts(hint: str) -> dict[str, str | int]:
    r"""Facts by the names that the identity of a file has; only those that the hint states, and states once.

    A word that names a fact must stand beside its number, in a heading or in a line of nothing else. Commands are left
    out, because the output says what was run, and so is a fact with two values.

    Args:
        hint: text of the transcript before an output.

    Example:
        >>> hint_facts("+ pgbench -c 16 -T 60\n=== clients 16, rep 3 of tests")
        {'threads': 16, 'iteration': 3}
        >>> hint_facts("== 4 threads\n== 8 threads"), hint_facts("=== round 4")
        ({}, {})
    """
    found: dict[str, set[str]] = {}
    for line in hint.lower().splitlines():
        for fact, value in _said(line):
            found.setdefault(fact, set()).add(value)
    certain = ((fact, *values) for fact, values in found.items() if len(values) == 1)
    return {fact: value if fact in _TEXTS else int(value) for fact, value in certain}


def _said(line: str) -> Iterator[tuple[str, str]]:
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
