"""Printing of results: tables for people; CSV, JSON and Parquet for programs."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Final

import click

from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.json_values import json_value
from citus_analysis.texts.number_text import in_full
from citus_analysis.texts.printable import printable

if TYPE_CHECKING:
    import polars as pl

FORMATS: Final = ("table", "csv", "json", "parquet")

#: Rows per write: few, so that a closed pipe is noticed soon.
_CSV_ROWS: Final = 10_000


def key_values(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Parse options of the form name=value; a callback of click."""
    pairs: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{value!r} is not of the form name=value")
        pairs[name.strip()] = text
    return pairs


def print_json(value: object) -> None:
    """Print one JSON document to stdout. Values without a JSON form (NaN, infinity) become null."""
    click.echo(json.dumps(json_value(value), ensure_ascii=False, indent=2))


def print_result(result: object) -> None:
    """Print a text, with what a terminal would obey as escapes, and anything else as one JSON document."""
    if isinstance(result, str):
        click.echo("\n".join(map(printable, result.split("\n"))))
    else:
        print_json(result)


def print_frame(frame: pl.DataFrame, how: str) -> None:
    """Print a frame to stdout in one of :data:`FORMATS`."""
    if how == "csv":
        from citus_analysis.texts.spreadsheets import guarded

        click.echo(guarded(frame.clear()).write_csv(), nl=False)
        for rows in frame.iter_slices(_CSV_ROWS):
            click.echo(guarded(rows).write_csv(include_header=False), nl=False)
    elif how == "json":
        print_json(frame.to_dicts())
    elif how == "parquet":
        # Not written by polars, which raises an error of its own for a closed pipe.
        encoded = io.BytesIO()
        frame.write_parquet(encoded)
        sys.stdout.buffer.write(encoded.getbuffer())
    else:
        for line in _table(frame):
            click.echo(line)


def _table(frame: pl.DataFrame) -> list[str]:
    from citus_analysis.texts.text_tables import text_table

    rows = [[_cell(value) for value in row] for row in frame.iter_rows()]
    numeric = {place for place, name in enumerate(frame.columns) if frame[name].dtype.is_numeric()}
    lines = text_table(frame.columns, rows, right=numeric, ruled=True)
    return [*lines, f"({counted(frame.height, 'row')})"]


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return in_full(value)
    return printable(str(value))
