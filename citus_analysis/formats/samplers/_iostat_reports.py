"""CPU and device reports of iostat as frames of samples, from classified lines.

Both functions add a `reason` to lines that cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.formats.reading.lines import UNTERMINATED, first_true, readable, with_reasons
from citus_analysis.formats.reading.text_fields import NUMBER, Fields
from citus_analysis.formats.samplers._columns import CPU, DEVICE, HUMAN_NUMBERS, number_expr, with_derived_await

_IDENTITY: Final = ("sample", "sample_time", "since_boot")
_PLACE: Final = {"offset": "byte_offset"}


def cpu_reports(lines: pl.DataFrame, split: Fields | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`cpu_samples` rows, and the lines with `reason`; `split` are the fields of the block."""
    rows = lines.with_columns(header=pl.col("text").shift()).filter(
        (pl.col("kind") == "cpu_values") & pl.col("start").is_not_null()
    )
    frames = []
    for (header,), group in rows.group_by("header", maintain_order=True):
        printed = [token.lstrip("%") for token in str(header).split()[1:]]
        wanted = {index: CPU[name] for index, name in enumerate(printed) if name in CPU}
        frames.append(_numbers(group, wanted, split, count=len(printed), named=False))
    if not frames:
        return pl.DataFrame(), lines.with_columns(reason=pl.lit(None, pl.String))
    fields = pl.concat(frames, how="diagonal").sort("offset")
    samples = readable(fields).rename(_PLACE).with_columns(sampler=pl.lit("iostat"))
    return samples, with_reasons(lines.with_columns(reason=pl.lit(None, pl.String)), fields)


def device_reports(lines: pl.DataFrame, split: Fields | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`device_samples` rows, and the lines with `reason`; `split` are the fields of the block."""
    header = pl.when(pl.col("kind") == "device_header").then("text").forward_fill().over("start")
    lines = lines.with_columns(header=header)
    is_row, headed = lines["kind"] == "row", lines["header"].is_not_null()
    rows = lines.filter(is_row & headed)
    if rows.height < is_row.sum():
        stray = pl.when(is_row & ~headed).then(pl.lit("no header precedes this line"))
        lines = lines.with_columns(reason=pl.coalesce("reason", stray))
    frames = [_device_block(str(text), group, split) for (text,), group in rows.group_by("header", maintain_order=True)]
    if not frames:
        return pl.DataFrame(), lines
    blocks = pl.concat(frames, how="diagonal").sort("offset")
    devices = readable(blocks)
    merged = _merge_blocks(devices) if len(frames) > 1 else devices
    return with_derived_await(merged.drop("block").rename(_PLACE)), with_reasons(lines, blocks)


def _device_block(header: str, rows: pl.DataFrame, split: Fields | None) -> pl.DataFrame:
    """Rows under one header; the name comes first, or last in human-readable layouts."""
    names = header.split()
    name_last = names[-1] == "Device"
    printed = [name.lstrip("%") for name in (names[:-1] if name_last else names[1:])]
    wanted = {index: DEVICE[name] for index, name in enumerate(printed) if name in DEVICE}
    numbers = _numbers(rows, wanted, split, count=len(printed), named=True, name_last=name_last)
    # Only groups are indented if the name comes first; in the other layouts, every line is indented.
    is_group = pl.lit(None, pl.Boolean) if name_last else pl.col("indented")
    return numbers.with_columns(block=pl.lit(header), is_group=is_group).drop("indented")


def _numbers(
    rows: pl.DataFrame,
    wanted: Mapping[int, tuple[str, float]],
    split: Fields | None,
    *,
    count: int,
    named: bool,
    name_last: bool = False,
) -> pl.DataFrame:
    """Rows of `count` printed numbers, with a name of one or more words if `named`.

    Args:
        rows: classified lines.
        wanted: position among the numbers -> (column, factor).
        split: fields of the block.
        count: number of numbers according to the header.
        named: a name precedes the numbers, or follows them if `name_last`.
        name_last: see `named`.
    """
    plain = _split_columns(rows, wanted, split, count=count, named=named, name_last=name_last)
    indented = pl.col("text").str.starts_with(" ")
    if plain is not None:
        unended = pl.when(~pl.col("terminated")).then(pl.lit(UNTERMINATED)).alias("reason")
        own = [*_IDENTITY, "offset", unended, *([indented.alias("indented")] if named else [])]
        return rows.select(own).hstack(plain)
    texts = _text_columns(rows, wanted, count=count, named=named, name_last=name_last)
    frame = rows.select(*_IDENTITY, "offset", "terminated", indented=indented, **texts)
    columns = [column for column, _ in wanted.values()]
    readable = pl.all_horizontal(pl.col(columns).is_not_null()) if columns else pl.lit(value=True)
    reasons = {
        UNTERMINATED: ~pl.col("terminated"),
        f"the header announces {count} numbers": ~pl.col("fits"),
        "not a number": ~readable,
    }
    checked = frame.with_columns(reason=first_true(reasons)).drop("terminated", "fits")
    return checked if named else checked.drop("device", "indented")


def _split_columns(
    rows: pl.DataFrame,
    wanted: Mapping[int, tuple[str, float]],
    split: Fields | None,
    *,
    count: int,
    named: bool,
    name_last: bool,
) -> list[pl.Series] | None:
    """`device` if named, and the numbers, if every line is a name of one word and plain numbers; None otherwise."""
    # Blanks outside ASCII separate words, but not fields.
    if split is None or not split.data.isascii():
        return None
    lines = rows["line"].to_numpy().astype(np.int64)
    first = split.first[lines]
    if (split.first[lines + 1] - first != count + named).any():
        return None
    begin = first + (named and not name_last)
    if any((split.kind[begin + index] != NUMBER).any() for index in wanted):
        return None
    names = [split.texts(first + (count if name_last else 0)).alias("device")] if named else []
    # A column that is printed twice keeps its last number.
    values = {column: split.number[begin + index] * factor for index, (column, factor) in wanted.items()}
    return [*names, *(pl.Series(column, found) for column, found in values.items())]


def _text_columns(
    rows: pl.DataFrame, wanted: Mapping[int, tuple[str, float]], *, count: int, named: bool, name_last: bool
) -> dict[str, pl.Series]:
    """`device`, `fits` and the numbers of any lines; null if a text is not a number."""
    # Split once: every column below reads from this list.
    rows = rows.with_columns(words=pl.col("text").str.extract_all(r"\S+"))
    words = pl.col("words")
    name_words = words.list.len().cast(pl.Int64) - count
    rows = rows.with_columns(
        numbers=words.list.head(count) if name_last else words.list.tail(count), name_words=name_words
    )
    name = (words.list.tail("name_words") if name_last else words.list.head("name_words")).list.join(" ")
    fitting = pl.col("name_words") >= 1 if named else pl.col("name_words") == 0
    # One test for the whole block avoids the far slower conversion of numbers in most files.
    human = bool(rows["text"].str.contains(HUMAN_NUMBERS).any())
    columns = {column: _number(index, factor, human=human) for index, (column, factor) in wanted.items()}
    found = rows.select(device=name, fits=fitting, **columns)
    return {column.name: column for column in found.iter_columns()}


@lru_cache
def _number(index: int, factor: float, *, human: bool) -> pl.Expr:
    """The number printed at a position. Cached: building the expression takes longer than using it on a small file."""
    return number_expr(pl.col("numbers").list.get(index, null_on_oob=True), factor, human=human)


def _merge_blocks(devices: pl.DataFrame) -> pl.DataFrame:
    """One row per sample and device: `--pretty` prints reads, writes and discards in blocks of their own."""
    # With -g a device can occur in two groups of one block; its occurrences must stay separate.
    keyed = devices.with_columns(occurrence=pl.int_range(pl.len()).over("sample", "device", "block"))
    return (
        keyed.group_by("sample", "device", "occurrence", maintain_order=True)
        .agg(pl.exclude("sample", "device", "occurrence").drop_nulls().first())
        .drop("occurrence")
    )
