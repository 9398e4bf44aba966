"""docs/tables.md, written from the schema.

Command: ``python -m citus_analysis.dataset.table_reference > docs/tables.md``; a test fails if it is out of date.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Final

from citus_analysis.core.table_definition import CATEGORY, FLAG, HASH, INT32, INT64
from citus_analysis.runs.set_ups import SETUP_COLUMNS
from citus_analysis.schema import DERIVED, OUTSIDE_DATASET, PARTITION_KEY, TABLES, Column, Table

#: A column that stands equally in so many tables is described once.
_SHARED_FROM: Final = 3

_INTRODUCTION = f"""# Tables

Written from `citus_analysis/schema.py` by `python -m citus_analysis.dataset.table_reference`.

A dataset is `DIR/<table>/{PARTITION_KEY}=<r>/*.parquet` (zstd). `{PARTITION_KEY}` is the name of the folder, not a
column of the files; every hive-aware reader adds it. Columns that stand in many tables are described once, and named
at each. Categories are stored as text. Names end in their unit. Times are UTC; `source_id` and `byte_offset` locate the
bytes from which a row was read (`Dataset.log_text`).

SQL has one name more: `set_ups`, with what commands compute of the set-up of each run (`resource`, `run_id`,
{", ".join(f"`{name}`" for name in SETUP_COLUMNS)}).
"""


def render_table_reference() -> str:
    """The reference of all tables and columns as Markdown.

    Example:
        >>> render_table_reference().splitlines()[0]
        '# Tables'
    """
    counted = Counter(column for table in TABLES.values() for column in table)
    # Of a name with several meanings, the first is the shared one.
    shared = list({c.name: c for c, number in reversed(counted.items()) if number >= _SHARED_FROM}.values())[::-1]
    names = ", ".join(f"[`{name}`](#{name})" for name in TABLES)
    sections = [_render_table_section(table, frozenset(shared)) for table in TABLES.values()]
    several = ["## Columns of several tables", "", *_render_column_rows(shared), ""]
    return "\n".join([_INTRODUCTION, names, "", *several, *sections]).rstrip() + "\n"


def _render_table_section(table: Table, shared: frozenset[Column]) -> str:
    origin = f"From: {_clean(table.source)}."
    if table.name in DERIVED:
        origin += " Computed by `ingest` from the other tables of the resource."
    if table.name in OUTSIDE_DATASET:
        origin += " Not part of a dataset: the result of a call."
    also = ", ".join(f"`{column.name}`" for column in table if column in shared)
    if also:
        origin += f" Also: {also}."
    own = [column for column in table if column not in shared]
    return "\n".join([f"## {table.name}", "", _clean(table.meaning), origin, "", *_render_column_rows(own), ""])


def _render_column_rows(columns: list[Column]) -> list[str]:
    types = [", ".join(filter(None, (_format_column_type(column), column.unit))) for column in columns]
    rows = [f"| `{c.name}` | {kind} | {_clean(c.meaning)} |" for c, kind in zip(columns, types, strict=True)]
    return ["| column | type | meaning |", "|---|---|---|", *rows]


def _format_column_type(column: Column) -> str:
    if column.type.words:
        return "one of " + ", ".join(f"`{word}`" for word in column.type.words)
    names = {FLAG: "true or false", CATEGORY: "text", INT32: "integer", INT64: "integer", HASH: "integer"}
    return names.get(column.type, column.type.name)


def _clean(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.stdout.write(render_table_reference())
