"""Values given on the command line instead of an experiment file's own.

Example:
    >>> document = {"matrix": {"threads": [1]}, "target": {"nodes": [{"host": "old"}]}}
    >>> changed_document(document, {"matrix.threads": "[4, 8]", "target.nodes.0.host": "10.0.0.7"})
    {'matrix': {'threads': [4, 8]}, 'target': {'nodes': [{'host': '10.0.0.7'}]}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

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
    changed = dict(document)
    for place, text in changes.items():
        steps = place.split(".")
        free = tuple(steps[:2]) in _FREE_NAMES and len(steps) > 2
        steps = [*steps[:2], ".".join(steps[2:])] if free else steps
        changed = cast("dict[str, object]", _changed(changed, steps, text, place))
    return changed


def _changed(outer: object, steps: Sequence[str], text: str, place: str) -> object:
    """A copy of a value that has another value after some steps; a field without a value gets a mapping."""
    step, *further = steps
    value = None if further else _value(text, place)
    if isinstance(outer, dict) and step:
        inner = {} if outer.get(step) is None else outer[step]
        return {**outer, step: _changed(inner, further, text, place) if further else value}
    if isinstance(outer, list) and step.isdecimal() and int(step) < len(outer):
        before, inner, after = outer[: int(step)], outer[int(step)], outer[int(step) + 1 :]
        return [*before, _changed(inner, further, text, place) if further else value, *after]
    way_out = "write --set FIELD=VALUE with a dotted field such as matrix.threads or target.nodes.0.host"
    raise UsageError(f"the experiment has no field {place!r}: {step!r} does not exist", way_out=way_out)


def _value(text: str, place: str) -> object:
    try:
        return parse_yaml(text.encode())
    except FormatError as error:
        raise UsageError(f"the value of {place!r} is not YAML: {error.problem}", way_out="quote it") from error
