"""Values given on the command line instead of an experiment file's own.

Example:
    >>> document = {"matrix": {"threads": [1]}, "target": {"nodes": [{"host": "old"}]}}
    >>> changed_document(document, {"matrix.threads": "[4, 8]", "target.nodes.0.host": "10.0.0.7"})
    {'matrix': {'threads': [4, 8]}, 'target': {'nodes': [{'host': '10.0.0.7'}]}}
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Final

from citus_analysis.core.open_types import Untyped
from citus_analysis.errors import FormatError, UsageError
from citus_analysis.texts.yaml_text import parse_yaml

__all__ = ["changed_document"]

#: Mappings whose keys are names of somebody else's and may hold dots themselves (`citus.shard_count`).
_FREE_NAMES: Final = (("matrix", "settings"), ("target", "settings"), ("driver", "properties"))


def changed_document(document: Mapping[str, object], changes: Mapping[str, str]) -> dict[str, object]:
    """A copy of the document with other values in some places.

    Args:
        document: an experiment file as YAML gives it.
        changes: place -> value as YAML writes it. A place is a dotted field; in a list, the number of the entry from 0.

    Raises:
        UsageError: a place leads through a list entry or a value that is not there, or a value is not YAML.
    """
    changed = copy.deepcopy(dict(document))
    for place, text in changes.items():
        *way, last = _steps(place)
        inner: Untyped = changed
        for step in way:
            inner = _inside(inner, step, place)
        inner[_index(inner, last, place)] = _value(text, place)
    return changed


def _steps(place: str) -> list[str]:
    steps = place.split(".")
    free = tuple(steps[:2]) in _FREE_NAMES and len(steps) > 2
    return [*steps[:2], ".".join(steps[2:])] if free else steps


def _inside(outer: Untyped, step: str, place: str) -> Untyped:
    index = _index(outer, step, place)
    if isinstance(outer, dict) and outer.get(index) is None:
        outer[index] = {}
    return outer[index]


def _index(outer: object, step: str, place: str) -> object:
    if isinstance(outer, dict) and step:
        return step
    if isinstance(outer, list) and step.isdecimal() and int(step) < len(outer):
        return int(step)
    raise UsageError(
        f"the experiment has no field {place!r}: {step!r} does not exist",
        way_out="write --set FIELD=VALUE with a dotted field such as matrix.threads or target.nodes.0.host",
    )


def _value(text: str, place: str) -> object:
    try:
        return parse_yaml(text.encode())
    except FormatError as error:
        raise UsageError(f"the value of {place!r} is not YAML: {error.problem}", way_out="quote it") from error
