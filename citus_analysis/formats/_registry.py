"""Which formats there are, and which one a file is of."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from citus_analysis.errors import UnknownNameError
from citus_analysis.formats._base import Format
from citus_analysis.formats._content import Content

__all__ = ["detect_format", "format_named", "formats"]

#: Names of the formats of this package, in the order in which ties are decided.
_BUILT_IN: Final[tuple[str, ...]] = (
    "config",
    "pg_dist_node",
    "pg_dist_shard",
    "run_outcomes",
    "activity",
    "server_views",
    "host_counters",
    "iostat",
    "iostat_json",
    "vmstat",
    "ycsb",
    "go_ycsb",
    "pgbench",
    "pgbench_log",
    "pgcsvlog",
    "pgjsonlog",
    "pglog",
    "perf_report",
    "perf_script",
    "perf_stat",
)
#: A format's module holds it as `FORMAT` and is called as the format is, but for these.
_MODULES: Final = {"config": "study_config"}

#: Below this confidence a file is left alone rather than misread.
_SURE_ENOUGH: Final = 0.5


@cache
def formats() -> dict[str, Format]:
    """Name -> format: the built-in ones, then those of installed packages (entry points)."""
    # Takes as long as all formats together, and who names a format of this package needs none of it.
    from importlib.metadata import entry_points

    found = {name: _built_in(name) for name in _BUILT_IN}
    for point in entry_points(group="citus_analysis.formats"):
        added: Format = point.load()
        found.setdefault(added.name, added)
    return found


def format_named(name: str) -> Format:
    """The format of that name.

    Raises:
        UnknownNameError: there is none.
    """
    if name in _BUILT_IN:
        return _built_in(name)
    known = formats()
    if name not in known:
        raise UnknownNameError("format", name, known)
    return known[name]


def _built_in(name: str) -> Format:
    found: Format = import_module(f"citus_analysis.formats.{_MODULES.get(name, name)}").FORMAT
    return found


def detect_format(content: Content) -> Format | None:
    """The format that is surest about the file, or None where none is sure enough, or it is in UTF-16."""
    if content.wide_encoding is not None:
        return None
    name, head = content.path.name, content.head
    scored = [(candidate.detect(name, head), candidate) for candidate in formats().values()]
    confidence, best = max(scored, key=lambda pair: pair[0], default=(0.0, None))
    return best if confidence >= _SURE_ENOUGH else None
