"""The tables of a dataset as a Frictionless Data Package: types, units and meanings from the schema."""

from __future__ import annotations

from typing import Final

from citus_analysis.core.column_types import FLAG, REAL
from citus_analysis.core.table_definition import PARTITION_KEY, Column, Table

#: Types of Frictionless that hold for numbers.
_INTEGERS: Final = ("int32", "int64", "hash")


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
    field: dict[str, object] = {"name": column.name, "type": _type(column), "description": column.meaning}
    if column.unit:
        field["unit"] = column.unit
    if column.type.words:
        field["constraints"] = {"enum": list(column.type.words)}
    if column.source and column.source != table.source:
        field["source"] = column.source
    if column.name == PARTITION_KEY:
        field["partition"] = True
    return field


def _type(column: Column) -> str:
    if column.type == FLAG:
        return "boolean"
    if column.type.name in _INTEGERS:
        return "integer"
    if column.type == REAL:
        return "number"
    return "datetime" if column.type.is_time else "string"
