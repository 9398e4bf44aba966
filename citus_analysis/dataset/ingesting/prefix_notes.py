"""What an ingest says about server logs: their prefixes that were inferred, and what was not understood."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable

from citus_analysis.dataset.storage.manifest import SourceState
from citus_analysis.texts.counted_words import counted

_COMPARE = "compare with SHOW log_line_prefix"


def prefix_notes(states: Iterable[SourceState]) -> list[str]:
    """One line for each inferred prefix; of one with fields that are not decided, with the option to state it.

    Args:
        states: the sources of an ingest.
    """
    found = Counter(
        (state.read_as["log_line_prefix"], state.read_as.get("log_line_prefix_undecided"))
        for state in states
        if state.read_as.get("log_line_prefix_origin") == "inferred"
    )
    return [_note(logs, prefix, undecided) for (prefix, undecided), logs in sorted(found.items(), key=str)]


def _note(logs: int, prefix: str, undecided: str | None) -> str:
    said = f"{counted(logs, 'server log')}: log_line_prefix {prefix!r} (inferred)"
    if undecided is None:
        return f"{said}; {_COMPARE}"
    option = shlex.quote(f"log_line_prefix={prefix}")
    way_out = f"{_COMPARE} and state it, with an escape for each %?: --meta {option}"
    return f"{said}; ambiguous and therefore without a column: {undecided}; {way_out}"


def coverage_notes(states: Iterable[SourceState]) -> list[str]:
    """One line for each server log of which much was not understood.

    Args:
        states: the sources of an ingest.
    """
    return [f"{state.path}: {state.read_as['log_unread']}" for state in states if "log_unread" in state.read_as]
