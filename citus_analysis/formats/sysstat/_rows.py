"""Rows of the texts of sysstat under one header: their columns, and the reasons for rows that cannot be read."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.formats.reading.sampler_lines import split_columns
from citus_analysis.formats.samplers._columns import number_expr
from citus_analysis.formats.sysstat._reports import Report, report_of
from citus_analysis.formats.sysstat._tables import PLACE, judged

#: mpstat -T prints these for single CPUs only, and leaves them empty in the row of all CPUs.
TOPOLOGY: Final = ("CORE", "SOCK", "NODE")
#: The last column of pidstat, which may contain blanks.
COMMAND: Final = "Command"
#: Columns that name the user of a process.
_USERS: Final = ("UID", "USER")
#: Columns that are `-` in rows of threads or of processes.
OPTIONAL_KEYS: Final = frozenset({"PID", "TGID", "TID"})


def names_of(header: str, separator: str = " ") -> tuple[list[str], Report | None]:
    """Names of a header's columns, and the place of the report."""
    names = header.split(separator)
    return names, report_of(names)


def read_rows(header: str, rows: pl.DataFrame, *, comma: bool, separator: str = " ") -> pl.DataFrame:
    """Columns of the rows under a header that has a place.

    Args:
        header: names of the columns.
        rows: lines with `offset`, `sample`, `sample_time`, `since_boot` and `rest` (the text after the time).
        comma: numbers have a decimal comma.
        separator: the text between two columns.

    Returns:
        The fields that :func:`citus_analysis.formats.sysstat._tables.rows_of` takes, and `reason`.
    """
    names, report = names_of(header, separator)
    if report is None:
        raise ValueError(header)
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
    fields = _fields(texts, names[:count], report, separator)
    placed = pl.concat([rows.select(*PLACE, *(["command"] if last else [])), fields], how="horizontal")
    return pl.concat([judged(placed, report), misfits], how="diagonal")


def _filled(rows: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    short = pl.col("rest").str.count_matches(" ", literal=True) == len(names) - 1 - len(TOPOLOGY)
    filled = pl.col("rest").str.replace(r"^all ", f"all{' -' * len(TOPOLOGY)} ")
    return rows.with_columns(rest=pl.when(short).then(filled).otherwise("rest"))


def _fields(texts: pl.Series, names: list[str], report: Report, separator: str) -> pl.DataFrame:
    """The report's numbers under their columns' names, with `item` and `user`."""
    optional = {index for index in report.numbers if names[index] in OPTIONAL_KEYS}
    numbers = frozenset(set(report.numbers) - optional)
    columns = split_columns(texts, len(names), numbers, separator)
    if any(columns[str(index)].null_count() for index in numbers):
        # Numbers with a unit (`--human`) are rare, and reading them takes several times as long.
        columns = split_columns(texts, len(names), frozenset(), separator).with_columns(
            number_expr(pl.col(str(index))).alias(str(index)) for index in numbers
        )
    values = {
        column: pl.col(str(index)).cast(pl.Float64, strict=False) * factor
        for index, (column, factor) in report.numbers.items()
    }
    named = {name: pl.col(str(index)) for name, index in naming(names, report).items()}
    return columns.select(**named, **values)


def naming(names: list[str], report: Report) -> dict[str, int]:
    """The column that names the item of each row, or its user, if there is one."""
    if report.table == "process_samples":
        user = next((index for index, name in enumerate(names) if name in _USERS), None)
        return {} if user is None else {"user": user}
    return {"item": names.index(report.key)} if report.key else {}
