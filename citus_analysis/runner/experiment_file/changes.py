"""Values given on the command line instead of an experiment file's own.

Example:
    >>> document = {"matrix": {"threads": [1]}, "target": {"nodes": [{"host": "old"}]}}
    >>> changed_document(document, {"matrix.threads": "[4, 8]", "target.nodes.0.host": "10.0.0.7"})
    {'matrix': {'threads': [4, 8]}, 'target': {'nodes': [{'host': '10.0.0.7'}]}}
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Final

from citus_analysis.errors import FormatError, UsageError
from citus_analysis.texts.yaml_text import parse_yaml

#: Mappings whose keys are names of PostgreSQL or of a load generator, and may contain dots (`citus.shard_count`).
_FREE_NAMES: Final = (("matrix", "settings"), ("target", "settings"), ("driver", "properties"))


def changed_document(document: Mapping[str, object], changes: Mapping[str, str]) -> dict[str, object]:
    """A copy of the document with other values in some places.

    Args:
        document: the parsed YAML of an experiment file.
        changes: place -> value in YAML. A place is a dotted field; entries of lists are numbered from 0.

    Raises:
        UsageError: a place contains a list entry or a field that does not exist, or a value is not YAML.
    """
    changed = copy.deepcopy(dict(document))
    for place, text in changes.items():
        steps = place.split(".")
        free = tuple(steps[:2]) in _FREE_NAMES and len(steps) > 2
        *way, last = [*steps[:2], ".".join(steps[2:])] if free else steps
        inner: object = changed
        for step in way:
            inner = _inside(inner, step, place)
        _put(inner, last, _value(text, place), place)
    return changed


def _inside(outer: object, step: str, place: str) -> object:
    """The value at a step; a field without a value gets a mapping."""
    if isinstance(outer, dict) and step:
        if outer.get(step) is None:
            outer[step] = {}
        return outer[step]
    if isinstance(outer, list) and _is_entry(outer, step):
        return outer[int(step)]
    raise _absent(step, place)


def _put(outer: object, step: str, value: object, place: str) -> None:
    if isinstance(outer, dict) and step:
        outer[step] = value
    elif isinstance(outer, list) and _is_entry(outer, step):
        outer[int(step)] = value
    else:
        raise _absent(step, place)


def _is_entry(entries: Sequence[object], step: str) -> bool:
    return step.isdecimal() and int(step) < len(entries)


def _absent(step: str, place: str) -> UsageError:
    return UsageError(
        f"the experiment has no field {place!r}: {step!r} does not exist",
        way_out="write --set FIELD=VALUE with a dotted field such as matrix.threads or target.nodes.0.host",
    )


def _value(text: str, place: str) -> object:
    try:
        return parse_yaml(text.encode())
    except FormatError as error:
        raise UsageError(f"the value of {place!r} is not YAML: {error.problem}", way_out="quote it") from error
