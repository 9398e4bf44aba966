"""Differences between the descriptions of two systems: versions, server settings, hardware, protocol."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import polars as pl

from citus_analysis.core.frames import Frame, convert_to_polars
from citus_analysis.texts.words import join_words

#: Names that describe the system rather than the load, the folder, addresses or logs.
_SYSTEM: Final = (
    r"^(settings\.(?:[a-z])|hardware$|cpu_per_node$|shard_count$|protocol$|entry$|scale$|"
    r"growth$|(?:postgres|citus|driver|client)_(?:version|build)$)"
)
_OF_SERVER: Final = "settings."
#: Names of settings of one node, role or database -> the prefix under which the runner records all that are not at
#: their default, and how a change of one is called.
_RECORDED: Final = {
    "non_default_settings": "{name} on node {of}",
    "role_settings": "{name} of role {of}",
    "database_settings": "{name} of database {of}",
    "extensions": "extension {name} on node {of}",
    "versions": "{name} on node {of}",
}
#: Under this name is what all nodes have in common.
ALL_NODES: Final = "all"
#: Settings of addresses, files and names, which differ without an effect.
_OF_PLACES: Final = (
    r"^(?:settings\.)?(?:port|listen_addresses|.*_director(?:y|ies)|.*_file|cluster_name|"
    r"application_name|log_filename|log_file_mode|log_line_prefix|log_timezone|log_rotation_.*|log_truncate_.*|"
    r"log_destination|logging_collector|event_source|syslog_.*|bonjour.*|primary_.*|restore_command|archive_command|"
    r"(?i:timezone)|citus\.(?:node_conninfo|local_hostname))$"
)


def find_setting_changes(before: Frame, after: Frame) -> pl.DataFrame:
    """The settings, versions and other descriptions that differ between two sets of rows of `settings`.

    A name that only one side states is a change, too, unless the other side states nothing at all, or, where the name
    is that of a server's setting, no setting. Of settings that are not at their default, recorded for each node, role
    and database, one that is not stated is at its default; they are compared if both sides recorded them.

    Args:
        before: rows of the table `settings` (`name`, `value`).
        after: rows of the same table.

    Returns:
        `name`, `before`, `after` (several values split by ` | `; null if not stated), sorted by name.

    Example:
        >>> rows = lambda value: pl.DataFrame({"name": ["settings.work_mem", "threads"], "value": [value, "4"]})
        >>> find_setting_changes(rows("4MB"), rows("64MB")).rows()
        [('work_mem', '4MB', '64MB')]
        >>> name = "non_default_settings.{}.enable_indexscan"
        >>> rows = lambda node: pl.DataFrame({"name": [name.format(node)], "value": ["off"]})
        >>> find_setting_changes(rows("1"), rows("all")).rows()
        [('enable_indexscan on the other nodes', 'default', 'off')]
    """
    whole = [convert_to_polars(one).select("name", "value") for one in (before, after)]
    sides = [_collect_stated_settings(one) for one in whole]
    recorded = _find_recorded_changes(*(_collect_recorded_settings(one) for one in whole))
    if any(side.is_empty() for side in sides):
        return pl.DataFrame(recorded, schema=_CHANGES, orient="row")
    if not all(one["name"].str.starts_with(_OF_SERVER).any() for one in whole):
        # Without a record of its settings, nobody knows those of a side.
        sides = [_collect_stated_settings(one.remove(pl.col("name").str.starts_with(_OF_SERVER))) for one in whole]
    both = sides[0].join(sides[1], on="name", how="full", coalesce=True, suffix="_after")
    changed = both.filter(pl.col("value").ne_missing(pl.col("value_after"))).rows()
    # A setting of all nodes is not stated again where it is recorded as not at its default.
    named = {name for name, _, _ in changed}
    own = [row for row in recorded if row[0] not in named]
    return pl.DataFrame([*changed, *own], schema=_CHANGES, orient="row").sort("name", maintain_order=True)


_CHANGES: Final = {"name": pl.String(), "before": pl.String(), "after": pl.String()}


def _collect_stated_settings(settings: pl.DataFrame) -> pl.DataFrame:
    named = settings.filter(pl.col("name").str.contains(_SYSTEM) & ~pl.col("name").str.contains(_OF_PLACES))
    short = named.with_columns(pl.col("name").str.strip_prefix(_OF_SERVER))
    return short.group_by("name").agg(pl.col("value").drop_nulls().unique().sort().str.join(" | "))


_Recorded: TypeAlias = dict[str, dict[str, dict[str, str]]]


def _collect_recorded_settings(settings: pl.DataFrame) -> _Recorded:
    """Kind of record -> node, role or database -> name -> values; only kinds that the side recorded."""
    found: _Recorded = {}
    known = settings.filter(pl.col("name").str.contains(rf"^(?:{'|'.join(_RECORDED)})\.")).drop_nulls("value")
    values = known.group_by("name", maintain_order=True).agg(pl.col("value").unique().sort().str.join(" | "))
    for text, value in values.iter_rows():
        kind, of, name = (*text.split(".", 2), "")[:3]
        of_kind = found.setdefault(kind, {})
        if name and not re.search(_OF_PLACES, name):
            of_kind.setdefault(of, {})[name] = value
    return found


def _find_recorded_changes(before: _Recorded, after: _Recorded) -> list[tuple[str, str, str]]:
    rows = []
    for kind, words in _RECORDED.items():
        if kind not in before or kind not in after:
            continue
        sides = before[kind], after[kind]
        shared = [side.get(ALL_NODES, {}) for side in sides]
        places = sorted({of for side in sides for of in side} - {ALL_NODES})
        for of in [*places, ALL_NODES]:
            values = [common | side.get(of, {}) for side, common in zip(sides, shared, strict=True)]
            for name in sorted(values[0].keys() | values[1].keys()):
                was, now = (one.get(name, "default" if "settings" in kind else "none") for one in values)
                if was == now or (
                    of != ALL_NODES
                    and name in shared[0].keys() & shared[1].keys()
                    and all(name not in side.get(of, {}) for side in sides)
                ):
                    continue
                in_places = any(name in side.get(one, {}) for side in sides for one in places)
                usual = words.format(name=name, of=of)
                every = f"{usual.rpartition(' on node ')[0] or name}{' on the other nodes' if in_places else ''}"
                rows.append((every if of == ALL_NODES else usual, was, now))
    # What changed on all nodes alike is one change.
    return list(dict.fromkeys(rows))


def describe_compared_settings(before: Frame, after: Frame) -> str:
    """Which settings of two sides were compared, in words.

    Example:
        >>> rows = pl.DataFrame({"name": ["settings.work_mem", "settings.fsync"], "value": ["4MB", "on"]})
        >>> describe_compared_settings(rows, rows)
        'the 2 that both sides recorded; others were not compared'
        >>> describe_compared_settings(rows, rows.clear())
        ''
    """
    whole = [convert_to_polars(one) for one in (before, after)]
    if any(_collect_stated_settings(one).is_empty() for one in whole):
        return ""
    recorded = [_collect_recorded_settings(one) for one in whole]
    names = [
        set(_collect_stated_settings(one)["name"])
        | {name for of in found.get("non_default_settings", {}).values() for name in of}
        for one, found in zip(whole, recorded, strict=True)
    ]
    if all("non_default_settings" in one for one in recorded):
        return (
            f"all that are not at their default on a node, for a role or a database, {len(names[0] | names[1])} in all"
        )
    return f"the {len(names[0] & names[1])} that both sides recorded; others were not compared"


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
