"""The names of plan nodes: as the text prints them, and composed from the keys of JSON and YAML.

The rules are those of PostgreSQL's `explain.c` (`ExplainNode`, `ExplainTargetRel`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_IDENTIFIER: Final = r'(?:"(?:[^"]|"")*"|[^\s".]+)'
#: `Index Scan using t_pkey on public.t_102009 t`; the group `name` is lazy.
_TARGET: Final = re.compile(
    rf"(?P<name>[A-Z][A-Za-z ()_]*?)(?: using (?P<index_name>{_IDENTIFIER}))?"
    rf"(?: on (?:(?P<schema_name>{_IDENTIFIER})\.)?(?P<relation>{_IDENTIFIER})(?: (?P<alias>{_IDENTIFIER}))?)?"
)
#: Nodes whose `on` names something other than a relation -> its column.
_NO_RELATION: Final = {"Values Scan": "alias", "Subquery Scan": "alias", "Bitmap Index Scan": "index_name"}
_RELATIONS: Final = ("Relation Name", "Function Name", "Table Function Name", "CTE Name", "Tuplestore Name")
_STRATEGIES: Final = {
    ("Aggregate", "Sorted"): "GroupAggregate",
    ("Aggregate", "Hashed"): "HashAggregate",
    ("Aggregate", "Mixed"): "MixedAggregate",
    ("SetOp", "Hashed"): "HashSetOp",
}
_JOINS: Final = {"Nested Loop": "Nested Loop", "Merge Join": "Merge", "Hash Join": "Hash"}


def split_label(label: str) -> tuple[str, dict[str, str]]:
    """Name of a node and of the object it works on, from its line in the text.

    Example:
        >>> split_label("Index Scan using t_pkey_102009 on public.t_102009 t")[0]
        'Index Scan'
        >>> split_label("Seq Scan on orders")
        ('Seq Scan', {'relation': 'orders', 'alias': 'orders'})
    """
    found = _TARGET.fullmatch(label)
    if found is None:
        return label, {}
    parts = {key: _unquoted(value) for key, value in found.groupdict().items() if value is not None and key != "name"}
    name = found["name"]
    bare = name.removeprefix("Async ").removeprefix("Parallel ")
    if "relation" not in parts:
        return name, parts
    if bare in _NO_RELATION:
        return name, {_NO_RELATION[bare]: parts["relation"]}
    # The text leaves out an alias that is the relation's own name.
    return name, parts | {"alias": parts.get("alias", parts["relation"])}


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def label_of(node: Mapping[str, object]) -> tuple[str, dict[str, str]]:
    """Name of a node and of the object it works on, as the text prints them, from the keys of JSON and YAML.

    Example:
        >>> label_of({"Node Type": "Hash Join", "Join Type": "Left", "Parallel Aware": True})
        ('Parallel Hash Left Join', {})
    """
    mode = node.get("Partial Mode")
    said = (
        ("Async", node.get("Async Capable") is True),
        ("Parallel", node.get("Parallel Aware") is True),
        (str(mode), mode in ("Partial", "Finalize")),
        (_name_of(node), True),
    )
    keys = {"Index Name": "index_name", "Schema": "schema_name", "Alias": "alias"}
    facts = {column: str(node[key]) for key, column in keys.items() if node.get(key) is not None}
    relation = next((str(node[key]) for key in _RELATIONS if node.get(key) is not None), None)
    name = " ".join(word for word, holds in said if holds)
    return name, facts if relation is None else facts | {"relation": relation}


def _name_of(node: Mapping[str, object]) -> str:
    kind = str(node["Node Type"])
    if kind in _JOINS:
        join = str(node.get("Join Type", "Inner"))
        return kind if join == "Inner" else f"{_JOINS[kind]} {join} Join"
    if kind == "ModifyTable" or (kind == "Foreign Scan" and node.get("Operation") not in (None, "Select")):
        operation = str(node.get("Operation", kind))
        return operation if kind == "ModifyTable" else f"Foreign {operation}"
    if kind == "Custom Scan" and "Custom Plan Provider" in node:
        return f"Custom Scan ({node['Custom Plan Provider']})"
    if node.get("Scan Direction") == "Backward":
        kind = f"{kind} Backward"
    kind = _STRATEGIES.get((kind, str(node.get("Strategy"))), kind)
    return f"{kind} {node['Command']}" if "Command" in node else kind
