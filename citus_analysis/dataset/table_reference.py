"""docs/tables.md, written from the schema.

Command: ``python -m citus_analysis.dataset.table_reference > docs/tables.md``; a test fails if it is out of date.
"""

from __future__ import annotations

import sys

from citus_analysis.core.table_definition import CATEGORY, FLAG, HASH, INT32, INT64
from citus_analysis.schema import DERIVED, OUTSIDE_DATASET, PARTITION_KEY, TABLES, Column, Table

_INTRODUCTION = f"""# Tables

Written from `citus_analysis/schema.py` by `python -m citus_analysis.dataset.table_reference`.

A dataset is `DIR/<table>/{PARTITION_KEY}=<r>/*.parquet` (zstd). `{PARTITION_KEY}` is the name of the folder, not a
column of the files; every hive-aware reader adds it. Categories are stored as text. Names end in their unit. Times are
UTC; `source_id` and `byte_offset` locate the bytes from which a row was read (`Dataset.log_text`).
"""


def render_table_reference() -> str:
    """The reference of all tables and columns as Markdown."""
    listed = [f"- [`{table.name}`](#{table.name}): {_clean(table.meaning)}" for table in TABLES.values()]
    return (
        "\n".join([_INTRODUCTION, *listed, "", *(_render_table_section(table) for table in TABLES.values())]).rstrip()
        + "\n"
    )


def _render_table_section(table: Table) -> str:
    origin = f"From: {_clean(table.source)}."
    if table.name in DERIVED:
        origin += " Computed by `ingest` from the other tables of the resource."
    if table.name in OUTSIDE_DATASET:
        origin += " Not part of a dataset: the result of a call."
    rows = [f"| `{c.name}` | {_format_column_type(c)} | {c.unit or ''} | {_clean(c.meaning)} |" for c in table]
    head = ["| column | type | unit | meaning |", "|---|---|---|---|"]
    return "\n".join([f"## {table.name}", "", _clean(table.meaning), origin, "", *head, *rows, ""])


def _format_column_type(column: Column) -> str:
    if column.type.words:
        return "one of " + ", ".join(f"`{word}`" for word in column.type.words)
    names = {FLAG: "true or false", CATEGORY: "text", INT32: "integer", INT64: "integer", HASH: "integer"}
    return names.get(column.type, column.type.name)


def _clean(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.stdout.write(render_table_reference())
