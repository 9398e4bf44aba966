"""Differences between the descriptions of two systems: versions, server settings, hardware, protocol."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, convert_to_polars
from citus_analysis.texts.words import join_words

#: Names that describe the system rather than the load, the folder, addresses or logs.
_SYSTEM: Final = (
    r"^(settings\.(?:[a-z])|role_settings\.|hardware$|cpu_per_node$|shard_count$|protocol$|scale$|"
    r"growth$|(?:postgres|citus|driver|client)_(?:version|build)$)"
)
_OF_LOGS: Final = r"^settings\.(?:log_|logging_|citus\.node_conninfo)"


def find_setting_changes(before: Frame, after: Frame) -> pl.DataFrame:
    """The settings, versions and other descriptions that differ between two sets of rows of `settings`.

    A name that only one side states is a change, too, unless the other side states nothing at all.

    Args:
        before: rows of the table `settings` (`name`, `value`).
        after: rows of the same table.

    Returns:
        `name`, `before`, `after` (several values split by ` | `; null if not stated), sorted by name.

    Example:
        >>> rows = lambda value: pl.DataFrame({"name": ["settings.work_mem", "threads"], "value": [value, "4"]})
        >>> find_setting_changes(rows("4MB"), rows("64MB")).rows()
        [('work_mem', '4MB', '64MB')]
    """
    sides = [_collect_stated_settings(convert_to_polars(one)) for one in (before, after)]
    if any(side.is_empty() for side in sides):
        return pl.DataFrame(schema=_CHANGES)
    both = sides[0].join(sides[1], on="name", how="full", coalesce=True, suffix="_after")
    changed = both.filter(pl.col("value").ne_missing(pl.col("value_after")))
    return changed.select("name", before="value", after="value_after").sort("name")


_CHANGES: Final = {"name": pl.String(), "before": pl.String(), "after": pl.String()}


def _collect_stated_settings(settings: pl.DataFrame) -> pl.DataFrame:
    named = settings.filter(pl.col("name").str.contains(_SYSTEM) & ~pl.col("name").str.contains(_OF_LOGS))
    short = named.with_columns(pl.col("name").str.strip_prefix("settings."))
    return short.group_by("name").agg(pl.col("value").drop_nulls().unique().sort().str.join(" | "))


def change_words(changes: pl.DataFrame, most: int = 6) -> str:
    """Changes of settings in words; empty if there are none.

    Example:
        >>> change_words(pl.DataFrame({"name": ["work_mem"], "before": ["4MB"], "after": ["64MB"]}))
        'work_mem from 4MB to 64MB'
    """
    words = [
        f"{name} from {was if was is not None else 'unstated'} to {now if now is not None else 'unstated'}"
        for name, was, now in changes.select("name", "before", "after").iter_rows()
    ]
    return join_words(words, most=most) if words else ""
