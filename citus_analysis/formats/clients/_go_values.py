"""The values of each operation in the output of go-tpc and go-ycsb, in three styles: plain, table, JSON.

The styles differ in form only: each has a line (in JSON an object) per operation, with a name, a unit and a number for
each value (`Avg(ms): 40.4`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.api.name_pairs import name_pairs
from citus_analysis.formats.clients._report_lines import NUMBER, Report
from citus_analysis.operations import FAILED, is_counted_once

_TEXT: Final = r'"[^"\\{}]{0,100}"'
_PAIR: Final = rf"{_TEXT}:{_TEXT}"
_OBJECT: Final = rf"\{{{_PAIR}(?:,{_PAIR})*\}}"
#: A line of objects whose values are texts.
JSON: Final = rf"^\[{_OBJECT}(?:,{_OBJECT})*\]$"
_LABELS: Final = {"prefix": "Prefix", "section": "Operation"}
_UNIT: Final = r"\(([mu]?s)\)$"


_NAMES: Final = name_pairs(
    "Takes=RunTime Count=Operations OPS=Throughput Avg=AverageLatency Min=MinLatency Max=MaxLatency"
)
#: YCSB's name of a value.
METRIC: Final = (
    pl.when(pl.col("name").str.ends_with("th"))
    .then(pl.col("name") + "PercentileLatency")
    .otherwise(pl.col("name").replace(_NAMES))
)


@dataclass
class GoReport(Report):
    """The state of parsing the output of one of these tools.

    Attributes:
        plain: pattern of a line of the plain style, with the groups `section` and `values` (`Count: 68, TPM: 2257.0`),
            and `prefix` if the tool prints one.
        table: pattern of a line of a table, with the same groups.
        columns: names of the values of a table's line.
        summary: (section, name) -> value of the summary, the first of each.
    """

    plain: ClassVar[str]
    table: ClassVar[str]
    columns: ClassVar[Sequence[str]]
    summary: dict[tuple[str, str], float] = field(default_factory=dict)

    def printed(self, lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """One row for each printed value, and the lines, of which those of JSON with other values are rejected, too.

        Args:
            lines: lines with their `offset`, `text`, `kind` (`plain`, `table`, `json`, others) and `reason`.

        Returns:
            Columns `offset`, `prefix` (null if the tool prints none), `section`, `name`, `unit` (null if none is
            printed) and `value`; and the lines.
        """
        good = lines.filter(pl.col("reason").is_null())
        parts = [_of_plain(good, self.plain), _of_table(good, self.table, self.columns), _of_json(good)]
        values = pl.concat(part.select("offset", "prefix", "section", "name", "value") for part in parts)
        numbers = values.with_columns(
            prefix=pl.col("prefix").str.strip_chars("[] "),
            name=pl.col("name").str.replace(_UNIT, ""),
            unit=pl.col("name").str.extract(_UNIT),
            value=pl.when(pl.col("value").str.contains(f"^{NUMBER}$")).then("value").cast(pl.Float64),
        )
        needed = ["section", "value", *(["prefix"] if "<prefix>" in self.plain else [])]
        broken = numbers.filter(pl.any_horizontal(pl.col(needed).is_null()))["offset"].implode()
        is_broken = pl.col("offset").is_in(broken)
        reason = pl.when(is_broken).then(pl.lit(self.unknown)).otherwise("reason")
        return numbers.filter(~is_broken), lines.with_columns(reason=reason)

    def add_summary(self, values: pl.DataFrame) -> None:
        """Keep values of the summary."""
        for section, name, value in values.select("section", "name", "value").iter_rows():
            self.summary.setdefault((section, name), value)

    def sections(self, name: str) -> dict[str, float]:
        """The values of a name in the summary, by section."""
        return {section: value for (section, known), value in self.summary.items() if known == name}


def of_succeeded(values: Mapping[str, float]) -> list[float]:
    """The values of operations that succeeded, of which no other contains one."""
    return [value for section, value in values.items() if is_counted_once(section)]


def of_failed(values: Mapping[str, float]) -> float:
    """The sum over the sections of failures."""
    return sum(value for section, value in values.items() if section.endswith(FAILED))


def as_columns(values: pl.DataFrame, names: Iterable[str], by: Sequence[str]) -> pl.DataFrame:
    """The first value of each name as a column, in one row for each group."""
    of = {name: pl.col("value").filter(pl.col("name") == name).first() for name in names}
    return values.group_by(by, maintain_order=True).agg(**of)


def _of_kind(lines: pl.DataFrame, kind: str, pattern: str) -> pl.DataFrame:
    """Offset, prefix, section and values of the lines of a kind."""
    groups = lines.filter(pl.col("kind") == kind).select("offset", part=pl.col("text").str.extract_groups(pattern))
    found = groups.unnest("part")
    return found if "prefix" in found.columns else found.with_columns(prefix=pl.lit(None, pl.String))


def _of_plain(lines: pl.DataFrame, pattern: str) -> pl.DataFrame:
    single = _of_kind(lines, "plain", pattern).with_columns(pl.col("values").str.split(", ")).explode("values")
    parts = pl.col("values").str.splitn(": ", 2).struct
    return single.with_columns(name=parts.field("field_0"), value=parts.field("field_1"))


def _of_table(lines: pl.DataFrame, pattern: str, names: Sequence[str]) -> pl.DataFrame:
    found = _of_kind(lines, "table", pattern)
    cells = found.with_columns(value=pl.col("values").str.extract_all(NUMBER), name=pl.lit(list(names)))
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
