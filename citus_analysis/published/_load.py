"""Read tables of published numbers: those that ship with the library, and those of users."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, as_polars
from citus_analysis.core.shipped_files import shipped
from citus_analysis.errors import UnknownNameError
from citus_analysis.published._shapes import records_of
from citus_analysis.published._sheets import Sheet, read_sheet, sheet_of
from citus_analysis.schema import TABLES

_TABLE: Final = TABLES["published"]


def published(source: str | None = None, table: str | None = None) -> pl.DataFrame:
    """Numbers that others published, as the library ships them.

    Args:
        source: key of one publication (`thesis`, `postgres_xc`, `citus_docs`, `hammerdb_talk`, `sigmod`).
        table: one of its tables, as the publication numbers it (`5.7`); needs no `source`.

    Returns:
        Frame with the columns of ``schema.TABLES["published"]``, one stated number per row.

    Raises:
        UnknownNameError: there is no such publication or table.

    Example:
        >>> rows = published("thesis", "5.7")
        >>> rows.filter(pl.col("metric") == "throughput_ops_s")["value"].head(2).to_list()
        [62479.0, 111322.0]
    """
    files = {path.stem: path for path in sorted(shipped("published").glob("*.csv"))}
    if source is not None and source not in files:
        raise UnknownNameError("publication", source, files)
    chosen = list(files.values()) if source is None else [files[source]]
    frame = pl.concat([read_published(path) for path in chosen]) if chosen else _TABLE.empty()
    if table is None:
        return frame
    known = frame["table"].unique().to_list()
    if table not in known:
        raise UnknownNameError("published table", table, known)
    return frame.filter(pl.col("table") == table)


def single_runs(name: str) -> pl.DataFrame:
    """Single runs behind a published table, as their author published them.

    Args:
        name: publication and table (`thesis_5.6`).

    Raises:
        UnknownNameError: no runs of this table are known.

    Example:
        >>> single_runs("thesis_5.6").height
        20
    """
    files = {path.stem: path for path in (shipped("published") / "single_runs").glob("*.csv")}
    if name not in files:
        raise UnknownNameError("table with single runs", name, files)
    return pl.read_csv(files[name], infer_schema=False)


def read_published(path: str | PathLike[str]) -> pl.DataFrame:
    """A table of results from a file: long, wide or transposed (docs/published.md describes them).

    Args:
        path: UTF-8 text with a header, separated by commas, tabs or semicolons, or a table in Markdown.

    Returns:
        Frame with the columns of ``schema.TABLES["published"]``. `source` and `table` default to the file's name. A
        cell that looks like a number and cannot be read has no `value`; :func:`audit` names it.

    Raises:
        PublishedDataError: the file lacks a column, repeats one, or has a value that is no number; the message
            names file, line and column.
    """
    return _records(read_sheet(Path(path)))


def frame_published(frame: Frame, name: str) -> pl.DataFrame:
    """A table of results in memory, in any shape that :func:`read_published` reads.

    Args:
        frame: polars, pandas (an index with a name is a column) or Arrow table.
        name: default of `source` and `table`.

    Raises:
        PublishedDataError: as in :func:`read_published`; lines are counted as in a file, and the header is line 1.
        UsageError: the object is no frame.

    Example:
        >>> frame_published(pl.DataFrame({"system": ["a"], "tps": [9043.0]}), "mine").select("row", "value").row(0)
        ('tps 9043', 9043.0)
    """
    table = as_polars(frame)
    if {"metric", "value", "stated"} <= set(table.columns):
        own = [pl.lit(name).alias(column) for column in ("source", "table", "row") if column not in table.columns]
        return _TABLE.conform(table.with_columns(own))
    return _records(sheet_of(table, name))


def _records(sheet: Sheet) -> pl.DataFrame:
    return pl.DataFrame(list(records_of(sheet)), schema=_TABLE.polars_schema())
