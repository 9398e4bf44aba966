"""How results are printed: tables for people, CSV, JSON and Parquet for programs."""

from __future__ import annotations

import io
import json
import math
import sys
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from citus_analysis.printable import printable

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FORMATS", "key_values", "print_frame", "print_json", "printable"]

FORMATS: Final = ("table", "csv", "json", "parquet")

#: Rows per write: a reader that leaves is noticed soon.
_CSV_ROWS: Final = 10_000


def key_values(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Callback of options of the form name=value."""
    pairs: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{value!r} is not of the form name=value")
        pairs[name.strip()] = text
    return pairs


def print_json(value: object) -> None:
    """One JSON document on stdout. What JSON cannot say (NaN, infinity) becomes null."""
    click.echo(json.dumps(_plain(value), ensure_ascii=False, indent=2))


def _plain(value: object) -> object:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case None | bool() | int() | str():
            return value
        case datetime() | date():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case _:
            return str(value)


def print_frame(frame: pl.DataFrame, how: str) -> None:
    """A frame on stdout in one of :data:`FORMATS`."""
    if how == "csv":
        from citus_analysis.spreadsheets import guarded

        click.echo(guarded(frame.clear()).write_csv(), nl=False)
        for rows in frame.iter_slices(_CSV_ROWS):
            click.echo(guarded(rows).write_csv(include_header=False), nl=False)
    elif how == "json":
        print_json(frame.to_dicts())
    elif how == "parquet":
        # polars makes an error of its own of a pipe that nobody reads any more.
        encoded = io.BytesIO()
        frame.write_parquet(encoded)
        sys.stdout.buffer.write(encoded.getbuffer())
    else:
        for line in _table(frame):
            click.echo(line)


def _table(frame: pl.DataFrame) -> list[str]:
    columns = [[name, *(_cell(value) for value in frame[name])] for name in frame.columns]
    widths = [max(map(len, cells), default=0) for cells in columns]
    numeric = [frame[name].dtype.is_numeric() for name in frame.columns]
    rows = list(zip(*columns, strict=True)) if columns else []
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in rows
    ]
    lines[1:1] = ["  ".join("-" * width for width in widths)]
    return [*lines, f"({frame.height} row{'' if frame.height == 1 else 's'})"]


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 or not math.isfinite(value) else f"{value:.1f}"
    return printable(str(value))
