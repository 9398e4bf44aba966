"""The tables of a dataset as a Frictionless Data Package: types, units and meanings from the schema."""

from __future__ import annotations

from typing import Final

from citus_analysis.core.column_types import FLAG, HASH, INT32, INT64, REAL
from citus_analysis.core.table_definition import PARTITION_KEY, Column, Table

#: Types of columns -> types of Frictionless.
_TYPES: Final = {FLAG: "boolean", REAL: "number", **dict.fromkeys((INT32, INT64, HASH), "integer")}


def data_package(tables: dict[str, list[str]], definitions: dict[str, Table]) -> dict[str, object]:
    """The descriptor of a package of tables.

    Args:
        tables: table -> its files.
        definitions: table -> its definition.
    """
    resources = [_resource(definitions[name], files) for name, files in sorted(tables.items())]
    return {"profile": "data-package", "name": "citus-analysis-dataset", "resources": resources}


def _resource(table: Table, files: list[str]) -> dict[str, object]:
    return {
        "name": table.name,
        "profile": "tabular-data-resource",
        "title": table.name,
        "description": f"{table.meaning} (source: {table.source})",
        "path": files,
        "format": "parquet",
        "mediatype": "application/vnd.apache.parquet",
        "schema": {"fields": [_field(table, column) for column in table], "missingValues": [""]},
    }


def _field(table: Table, column: Column) -> dict[str, object]:
    facts = {
        "unit": column.unit,
        "constraints": {"enum": list(column.type.words)} if column.type.words else None,
        "source": column.source if column.source != table.source else None,
        "partition": column.name == PARTITION_KEY,
    }
    kind = _TYPES.get(column.type, "datetime" if column.type.is_time else "string")
    known = {name: fact for name, fact in facts.items() if fact}
    return {"name": column.name, "type": kind, "description": column.meaning, **known}
