"""Rows of the texts of sysstat under one header: their columns, and the reasons for rows that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.formats.reading.sampler_lines import split_columns
from citus_analysis.formats.samplers._columns import number_expr
from citus_analysis.formats.sysstat._reports import Report
from citus_analysis.formats.sysstat._tables import PLACE, judged

#: mpstat -T prints these for single CPUs only, and leaves them empty in the row of all CPUs.
TOPOLOGY: Final = ("CORE", "SOCK", "NODE")
#: The last column of pidstat, which may contain blanks.
COMMAND: Final = "Command"
#: Columns that name the user of a process.
_USERS: Final = ("UID", "USER")
#: Columns that are `-` in rows of threads or of processes.
OPTIONAL_KEYS: Final = frozenset({"PID", "TGID", "TID"})


def read_rows(report: Report, rows: pl.DataFrame, *, comma: bool, separator: str = " ") -> pl.DataFrame:
    """Columns of the rows of a report.

    Args:
        report: the place of its columns.
        rows: lines with `offset`, `sample`, `sample_time`, `since_boot` and `rest` (the text after the time).
        comma: numbers have a decimal comma.
        separator: the text between two columns.

    Returns:
        The fields that :func:`citus_analysis.formats.sysstat._tables.rows_of` takes, and `reason`.
    """
    names = report.names
    last = names[-1] == COMMAND
    rows = _filled(rows, names) if set(TOPOLOGY) <= set(names) else rows
    count = len(names) - last
    texts = rows["rest"]
    if last:
        # pidstat prints fewer than forty; the columns of a damaged header may be too many for a pattern.
        counted = min(count, 100)
        parts = texts.str.extract_groups(rf"^((?:\S+ ){{{counted - 1}}}\S+)(?: (.*))?$").struct
        rows = rows.with_columns(command=parts.field("2").str.replace(r"^\|__", ""))
        texts = parts.field("1")
    fitting = (texts.str.count_matches(separator, literal=True) == count - 1).fill_null(value=False)
    misfits = rows.filter(~fitting).select("offset", reason=pl.lit(f"the header announces {len(names)} columns"))
    if misfits.height:
        rows, texts = rows.filter(fitting), texts.filter(fitting)
    if comma:
        texts = texts.str.replace_all(",", ".", literal=True)
    fields = _fields(texts, count, report, separator)
    placed = pl.concat([rows.select(*PLACE, *(["command"] if last else [])), fields], how="horizontal")
    return pl.concat([judged(placed, report), misfits], how="diagonal")


def _filled(rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    short = pl.col("rest").str.count_matches(" ", literal=True) == len(names) - 1 - len(TOPOLOGY)
    filled = pl.col("rest").str.replace(r"^all ", f"all{' -' * len(TOPOLOGY)} ")
    return rows.with_columns(rest=pl.when(short).then(filled).otherwise("rest"))


def _fields(texts: pl.Series, count: int, report: Report, separator: str) -> pl.DataFrame:
    """The report's numbers under their columns' names, with `item` and `user`."""
    numbers = frozenset(index for index in report.numbers if report.names[index] not in OPTIONAL_KEYS)
    columns = split_columns(texts, count, numbers, separator)
    if any(columns[str(index)].null_count() for index in numbers):
        # Numbers with a unit (`--human`) are rare, and reading them takes several times as long.
        columns = split_columns(texts, count, frozenset(), separator).with_columns(
            number_expr(pl.col(str(index))).alias(str(index)) for index in numbers
        )
    values = {
        column: pl.col(str(index)).cast(pl.Float64, strict=False) * factor
        for index, (column, factor) in report.numbers.items()
    }
    named = {name: pl.col(str(index)) for name, index in naming(report).items()}
    return columns.select(**named, **values)


def naming(report: Report) -> dict[str, int]:
    """The column that names the item of each row, or its user, if there is one."""
    of_user = report.table == "process_samples"
    named = _USERS if of_user else (report.key,)
    places = [index for index, name in enumerate(report.names) if name in named]
    return {"user" if of_user else "item": places[0]} if places else {}
