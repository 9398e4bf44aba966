"""What the traces of a version of Citus are certain of, from recordings of it (`docs/traces.md`)."""

from __future__ import annotations

import re
from typing import Final

#: The recorded versions.
RECORDED: Final = "Citus 12.1, 13.2 and 14.0 on PostgreSQL 15, 16 and 18"
_FIRST_GPID: Final = (11, 0)
#: Since this version, the place of local statements with literals is logged at debug2 only.
_FIRST_READY_PLAN: Final = (13, 2)
_LAST_RECORDED: Final = (14, 0)
_VERBOSITY: Final = ("debug1", "debug2", "debug3", "debug4", "debug5")


def certainty_of(version: str, level: str, tasks_at: str | None = "debug4") -> str:
    """What is exact, and what is unknown, in traces of a cluster.

    Args:
        version: version of Citus (`14.0.1`, `14.0-1`, `Citus 14.0.1 on ...`).
        level: `log_min_messages` of the sampled sessions.
        tasks_at: the level at which the cluster reports its tasks; None: it does not.

    Example:
        >>> certainty_of("14.0-1", "debug4")
        'places, pairs and times are exact; COPY has no place, and tasks of repartition joins have no children'
        >>> certainty_of("13.2.2", "debug1").split(";")[0]
        'pairs are exact where the values of statements prove them, without times of tasks'
    """
    found = re.search(r"(\d+)\.(\d+)", version)
    if found is None:
        return f"nothing is known of this version (recorded: {RECORDED})"
    number = int(found[1]), int(found[2])
    if number < _FIRST_GPID:
        return "no pair is known: before Citus 11, children do not name the session of their parent"
    reports = tasks_at is not None and _reaches(level, tasks_at)
    exact = (
        "places, pairs and times are exact"
        if reports
        else "pairs are exact where the values of statements prove them, without times of tasks"
    )
    unknown = []
    if number >= _FIRST_READY_PLAN and not _reaches(level, "debug2"):
        unknown.append("local executions in the simple protocol have no place (log_min_messages = debug2 tells it)")
    unknown.append("COPY has no place, and tasks of repartition joins have no children")
    if number > _LAST_RECORDED:
        unknown.append(f"not recorded for this version, but for {RECORDED}")
    return "; ".join([exact, *unknown])


def _reaches(level: str, wanted: str) -> bool:
    """Whether a level includes the messages of another."""
    return level in _VERBOSITY and wanted in _VERBOSITY and _VERBOSITY.index(level) >= _VERBOSITY.index(wanted)
