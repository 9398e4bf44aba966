"""The values of each operation in the output of go-tpc and go-ycsb, in three styles: plain, table, JSON.

The styles differ in form only: each has a line (in JSON an object) per operation, with a name, a unit and a number for
each value (`Avg(ms): 40.4`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

NUMBER: Final = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
_TEXT: Final = r'"[^"\\{}]{0,100}"'
_PAIR: Final = rf"{_TEXT}:{_TEXT}"
_OBJECT: Final = rf"\{{{_PAIR}(?:,{_PAIR})*\}}"
#: A line of objects whose values are texts.
JSON: Final = rf"^\[{_OBJECT}(?:,{_OBJECT})*\]$"
_LABELS: Final = {"prefix": "Prefix", "section": "Operation"}
_UNIT: Final = r"\(([mu]?s)\)$"


@dataclass(frozen=True)
class Styles:
    """The styles of a tool.

    Attributes:
        plain: pattern of a line, with the groups `section` and `values` (`Count: 68, TPM: 2257.0`), and `prefix` if
            the tool prints one.
        table: pattern of a line of a table, with the same groups.
        columns: names of the values of a table's line.
    """

    plain: str
    table: str
    columns: tuple[str, ...]


def printed_values(lines: pl.DataFrame, styles: Styles) -> tuple[pl.DataFrame, pl.Series]:
    """One row for each printed value, and the offsets of lines of JSON with values other than numbers.

    Args:
        lines: lines with their `offset`, `text` and `kind` (`plain`, `table`, `json`, others).
        styles: the tool's styles.

    Returns:
        Columns `offset`, `prefix` (null if the tool prints none), `section`, `name`, `unit` (null if none is printed)
        and `value`; and offsets.
    """
    parts = [_of_plain(lines, styles.plain), _of_table(lines, styles), _of_json(lines)]
    values = pl.concat(part.select("offset", "prefix", "section", "name", "value") for part in parts)
    numbers = values.with_columns(
        prefix=pl.col("prefix").str.strip_chars("[] "),
        name=pl.col("name").str.replace(_UNIT, ""),
        unit=pl.col("name").str.extract(_UNIT),
        value=pl.when(pl.col("value").str.contains(f"^{NUMBER}$")).then("value").cast(pl.Float64),
    )
    needed = ["section", "value", *(["prefix"] if "<prefix>" in styles.plain else [])]
    broken = numbers.filter(pl.any_horizontal(pl.col(needed).is_null()))["offset"].unique()
    return numbers.filter(~pl.col("offset").is_in(broken.implode())), broken


def _of_kind(lines: pl.DataFrame, kind: str, pattern: str) -> pl.DataFrame:
    """Offset, prefix, section and values of the lines of a kind."""
    groups = lines.filter(pl.col("kind") == kind).select("offset", part=pl.col("text").str.extract_groups(pattern))
    found = groups.unnest("part")
    return found if "prefix" in found.columns else found.with_columns(prefix=pl.lit(None, pl.String))


def _of_plain(lines: pl.DataFrame, pattern: str) -> pl.DataFrame:
    single = _of_kind(lines, "plain", pattern).with_columns(pl.col("values").str.split(", ")).explode("values")
    parts = pl.col("values").str.splitn(": ", 2).struct
    return single.with_columns(name=parts.field("field_0"), value=parts.field("field_1"))


def _of_table(lines: pl.DataFrame, styles: Styles) -> pl.DataFrame:
    found = _of_kind(lines, "table", styles.table)
    cells = found.with_columns(value=pl.col("values").str.extract_all(NUMBER), name=pl.lit(list(styles.columns)))
    return cells.explode("value", "name")


def _of_json(lines: pl.DataFrame) -> pl.DataFrame:
    text = lines.filter(pl.col("kind") == "json").select("offset", object=pl.col("text").str.extract_all(_OBJECT))
    objects = text.explode("object").with_columns(
        pl.col("object").str.extract(rf'"{printed}":"([^"]*)"').alias(label) for label, printed in _LABELS.items()
    )
    pairs = objects.with_columns(pair=pl.col("object").str.extract_all(_PAIR)).explode("pair")
    parts = pl.col("pair").str.extract_groups(r'^"(?<name>[^"]*)":"(?<value>[^"]*)"$')
    named = pairs.with_columns(parts.alias("part")).unnest("part")
    return named.filter(~pl.col("name").is_in(list(_LABELS.values())))
