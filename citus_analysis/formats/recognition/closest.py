r"""What a file that no format knows comes nearest to, and the line where the likeness ends.

Example:
    >>> text = b"[db1] out: starting vacuum...end.\nsomething else\n"
    >>> closest_reading("a.txt", text)
    "looks like pgbench after '[db1] out: ' (line 1: '[db1] out: starting vacuum...end.'), but line 2 does not begin so"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from citus_analysis.formats.api.registry import formats
from citus_analysis.formats.outputs.marks import declared
from citus_analysis.redaction import redact

_SHOWN: Final = 80
#: The longest text before a line of a tool.
_DECORATED: Final = 200
#: Lines of a server's log have one of these after its prefix.
_SEVERITY: Final = re.compile(rb"\b(?:LOG|ERROR|FATAL|WARNING|STATEMENT|DETAIL):\s")
_FEW: Final = 2


def closest_reading(name: str, head: bytes) -> str:
    """The nearest reading of a text in words.

    Args:
        name: file name without folders.
        head: the first bytes of the text.
    """
    lines = head.splitlines()
    readings = (_psql_cell(lines), _experiment(head), _opening(lines), _server_log(lines), _half_sure(name, head))
    first = next((line for line in lines if line.strip()), b"")
    return next(filter(None, readings), f"no format knows such text; it begins with {_quoted(first)}")


def _psql_cell(lines: Sequence[bytes]) -> str | None:
    """A text in a cell of psql's aligned output."""
    ruled = len(lines) > _FEW and set(lines[1].strip()) == {ord("-")}
    if not ruled or not any(line.startswith(b" ") and line.rstrip().endswith(b"+") for line in lines):
        return None
    return "is a text in a table that psql aligned; write it out with psql -At"


def _experiment(head: bytes) -> str | None:
    """The log of an experiment manager, which has tables of results instead of the outputs of the tools."""
    if b"bexhoma version" not in head:
        return None
    return (
        "is of an experiment of bexhoma, without a table of its runs (a load, or TPC-H before version 0.9); "
        "give the logs of its pods, or a table as CSV"
    )


def _opening(lines: Sequence[bytes]) -> str | None:
    """A line of a tool, and what stands before it."""
    begins = b"|".join(re.escape(opening.begins) for opening in declared() if len(opening.begins) > _FEW)
    anywhere = re.compile(rb"(?:^|(?<=[ |:>\t]))(?:" + begins + rb")")
    for number, line in enumerate(lines):
        found = anywhere.search(line[: 2 * _DECORATED])
        own = next((opening for opening in declared() if found and opening.pattern.match(line, found.start())), None)
        if found is None or own is None or found.start() > _DECORATED:
            continue
        tool, before = declared()[own][0].name, line[: found.start()]
        place = f"line {number + 1}: {_quoted(line)}"
        if not before.strip():
            return f"looks like {tool} ({place}), but its results are not there"
        other = next((at for at, one in enumerate(lines) if one.strip() and not one.startswith(before.rstrip())), None)
        ends = "" if other is None else f", but line {other + 1} does not begin so"
        return f"looks like {tool} after {_quoted(before)} ({place}){ends}"
    return None


def _server_log(lines: Sequence[bytes]) -> str | None:
    for number, line in enumerate(lines, 1):
        if _SEVERITY.search(line[: 2 * _DECORATED]):
            return (
                f"looks like a server's log (line {number}: {_quoted(line)}), but no log_line_prefix explains its "
                "lines; state it: --meta log_line_prefix='...'"
            )
    return None


def _half_sure(name: str, head: bytes) -> str | None:
    confidence, tool = max(((one.detect(name, head), one.name) for one in formats().values()), default=(0.0, ""))
    return f"has some resemblance to {tool}, not enough to read it" if confidence > 0 else None


def _quoted(line: bytes) -> str:
    text = redact(line[: 2 * _SHOWN].decode("utf-8", "replace"))
    return repr(text[:_SHOWN] + ("..." if len(text) > _SHOWN else ""))
