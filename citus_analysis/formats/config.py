"""`config.yml` of a resource.

Tables: `settings` (all values, with dotted names), `nodes`. Example::

    workers: 2
    nodes:
      3: {node: "worker2:5432", groupid: 2, pglog_number: 2}
    settings:
      citus.enable_binary_protocol: "off"

gives the settings `workers` = `2`, `settings.citus.enable_binary_protocol` = `off`, ... and one node.
Lists of scalars become one value, joined by commas; the items of lists of mappings are numbered from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.format import Format, Hints, Parsed
from citus_analysis.formats.parsing.lines import parse_whole_number
from citus_analysis.redaction import redact_values, redacted_items
from citus_analysis.schema import TABLES
from citus_analysis.study_tree import CONFIG_NAMES
from citus_analysis.texts.documents import YAML_LIMIT_BYTES, parse_yaml

#: Limit of settings; real set-ups have dozens.
_MOST_SETTINGS: Final = 5_000


def load_config(data: bytes) -> dict[str, object]:
    """The mapping in a config.yml.

    Raises:
        FormatError: the file is not YAML, is larger than a set-up can be, or is not a mapping.
    """
    loaded = parse_yaml(data)
    if not isinstance(loaded, dict):
        raise FormatError("is not a mapping of names to values")
    return loaded


def flatten_settings(config: Mapping[str, object]) -> dict[str, str]:
    """Dotted names and their values as text, secrets redacted.

    Example:
        >>> flatten_settings({"threads": [4, 16], "settings": {"fsync": "on"}, "db": {"password": "x"}})
        {'threads': '4, 16', 'settings.fsync': 'on', 'db.password': '***'}

    Raises:
        FormatError: the file expands to more values than a set-up can have.
    """
    flat: dict[str, str] = {}
    for name, value in _leaves("", config):
        if len(flat) >= _MOST_SETTINGS:
            raise FormatError(f"expands to more than {_MOST_SETTINGS} values")
        flat[name] = value
    return flat


def _leaves(prefix: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) or (isinstance(value, list) and any(isinstance(one, list | dict) for one in value)):
        for key, inner in redacted_items(value):
            yield from _leaves(f"{prefix}.{key}" if prefix else str(key), inner)
    elif isinstance(value, list):
        yield prefix, ", ".join(format_server_setting(redact_values(item, prefix)) for _, item in redacted_items(value))
    elif value is not None:
        yield prefix, format_server_setting(redact_values(value, prefix))


def format_server_setting(value: object) -> str:
    """A server setting as a text for PostgreSQL; YAML 1.1 reads a bare `on` as true.

    Example:
        >>> format_server_setting(True), format_server_setting(4)
        ('on', '4')
    """
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _parse_config_nodes(config: Mapping[str, object]) -> pl.DataFrame:
    rows = []
    stated = config.get("nodes")
    for nodeid, entry in stated.items() if isinstance(stated, dict) else ():
        known_as = _parse_whole_number(nodeid, "nodeid")
        if isinstance(entry, dict) and known_as is not None:
            host, _, port = str(entry.get("node", "")).rpartition(":")
            group, number = _parse_whole_number(entry.get("groupid"), "groupid"), entry.get("pglog_number")
            known = group if number is None else number
            rows.append(
                (
                    None if known is None else str(known),
                    known_as,
                    group,
                    host or None,
                    _parse_whole_number(port, "port"),
                )
            )
    schema = {name: TABLES["nodes"][name].dtype for name in ("node", "nodeid", "groupid", "host", "port")}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _parse_whole_number(value: object, column: str) -> int | None:
    """A whole number within the range of its column in `nodes`; None for anything else."""
    try:
        return parse_whole_number(str(value), TABLES["nodes"][column].dtype)
    except ValueError:
        return None


class StudyConfig(Format):
    """The description of a resource: versions, hardware, server settings, nodes."""

    name: ClassVar[str] = "config"
    version: ClassVar[int] = 2
    tables = ("settings", "nodes")

    def detect(self, name: str, head: bytes) -> float:
        """By file name: the content of a YAML file does not identify it."""
        return 0.9 if name.lower() in CONFIG_NAMES else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece: all settings and nodes."""
        data = content.read(YAML_LIMIT_BYTES)
        config = load_config(data)
        flat = flatten_settings(config)
        settings = pl.DataFrame({"name": list(flat), "value": list(flat.values())}, schema=_SETTINGS)
        yield Parsed({"settings": settings, "nodes": _parse_config_nodes(config)}, len(data))


_SETTINGS: Final = TABLES["settings"].parsed().polars_schema()

FORMAT: Final = StudyConfig()
