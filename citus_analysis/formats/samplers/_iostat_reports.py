"""CPU and device reports of iostat as frames of samples, from classified lines.

Both functions add a `reason` to lines that cannot be read.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import polars as pl

from citus_analysis.formats.reading.lines import UNTERMINATED, first_true
from citus_analysis.formats.samplers._columns import CPU, DEVICE, number_expr, under_headers, with_derived_await

_IDENTITY: Final = ("sample", "sample_time", "since_boot")


def cpu_reports(lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`cpu_samples` rows, and the lines with `reason`."""
    lines = lines.with_columns(header=pl.col("text").shift(), reason=pl.lit(None, pl.String))
    rows = lines.filter((pl.col("kind") == "cpu_values") & pl.col("start").is_not_null())
    samples, lines = under_headers(lines, rows, partial(_fields, named=False))
    return samples.with_columns(sampler=pl.lit("iostat")), lines


def device_reports(lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`device_samples` rows, and the lines with `reason`."""
    header = pl.when(pl.col("kind") == "device_header").then("text").forward_fill().over("start")
    lines = lines.with_columns(header=header)
    is_row, headed = pl.col("kind") == "row", pl.col("header").is_not_null()
    stray = pl.when(is_row & ~headed).then(pl.lit("no header precedes this line"))
    rows = lines.filter(is_row & headed)
    devices, lines = under_headers(
        lines.with_columns(reason=pl.coalesce("reason", stray)), rows, partial(_fields, named=True)
    )
    merged = _merge_blocks(devices) if rows["header"].n_unique() > 1 else devices
    return with_derived_await(merged.drop("block", strict=False)), lines


def _fields(header: str, rows: pl.DataFrame, *, named: bool) -> pl.DataFrame:
    """Rows under one header: numbers, and if `named` a name of one or more words before or after them."""
    names = header.split()
    name_last = named and names[-1] == "Device"
    printed = [name.lstrip("%") for name in (names[:-1] if name_last else names[1:])]
    columns, count = DEVICE if named else CPU, len(printed)
    words = pl.col("words")
    rows = rows.with_columns(words=pl.col("text").str.extract_all(r"\S+"))
    rows = rows.with_columns(
        numbers=words.list.head(count) if name_last else words.list.tail(count),
        name_words=words.list.len().cast(pl.Int64) - count,
    )
    number = pl.col("numbers").list
    values = {
        columns[name][0]: number_expr(number.get(index, null_on_oob=True), columns[name][1])
        for index, name in enumerate(printed)
        if name in columns
    }
    name = (words.list.tail("name_words") if name_last else words.list.head("name_words")).list.join(" ")
    # Only groups are indented if the name comes first; in the other layouts, every line is indented.
    is_group = pl.lit(None, pl.Boolean) if name_last else pl.col("text").str.starts_with(" ")
    own = {"device": name, "is_group": is_group, "block": pl.lit(header)} if named else {}
    fields = rows.select(*_IDENTITY, "offset", "terminated", "name_words", **own, **values)
    reasons = {
        UNTERMINATED: ~pl.col("terminated"),
        f"the header announces {count} numbers": (pl.col("name_words") < 1) if named else (pl.col("name_words") != 0),
        "not a number": ~pl.all_horizontal(True, pl.col(list(values)).is_not_null()),
    }
    return fields.with_columns(reason=first_true(reasons)).drop("terminated", "name_words")


def _merge_blocks(devices: pl.DataFrame) -> pl.DataFrame:
    """One row per sample and device: `--pretty` prints reads, writes and discards in blocks of their own."""
    # With -g a device can occur in two groups of one block; its occurrences must stay separate.
    keyed = devices.with_columns(occurrence=pl.int_range(pl.len()).over("sample", "device", "block"))
    return (
        keyed.group_by("sample", "device", "occurrence", maintain_order=True)
        .agg(pl.exclude("sample", "device", "occurrence").drop_nulls().first())
        .drop("occurrence")
    )
