"""`perf stat -j`: counters as one JSON object a line, whole runs, `-I` intervals and counts by CPU, core or thread.

The table and the meaning of its columns are those of the text (`perf_stat.py`). An object without an event is a
further metric of the event above. Numbers are printed with the decimal sign of the locale; without quotation marks, a
comma makes the line no JSON, and it is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.format import Format, Hints, Parsed
from citus_analysis.formats.parsing.lines import (
    UNTERMINATED,
    build_parsed_lines,
    line_frame,
    make_first_true_expr,
    parse_each,
)
from citus_analysis.formats.perf_stat import build_counter_rows

_VALUE: Final = r'(?:"(?:[^"\\]|\\.)*"|-?(?:[0-9]+(?:\.[0-9]+)?|nan|inf))'
_OBJECT: Final = rf'^\s*\{{\s*"[a-z-]+"\s*:\s*{_VALUE}(?:\s*,\s*"[a-z-]+"\s*:\s*{_VALUE})*\s*\}}\s*$'
_NOISE: Final = r"^\s*$|^#"
#: Column -> keys; of the keys of a scope, an object has at most one that is not a number of CPUs.
_KEYS: Final = {
    "time": ("interval",),
    "scope": ("cpu", "core", "die", "cluster", "cache", "socket", "node", "thread"),
    "value": ("counter-value",),
    "unit": ("unit",),
    "event": ("event",),
    "variation": ("variance",),
    "running": ("pcnt-running",),
    "metric": ("metric-value",),
    "metric_unit": ("metric-unit",),
}
_SIGN: Final = re.compile(rb'^\s*\{.*"counter-value"\s*:.*"event"\s*:', re.MULTILINE)
_UNKNOWN: Final = "not a counter of perf stat as JSON"


class PerfStatJson(Format):
    """`perf stat -j` output."""

    name: ClassVar[str] = "perf_stat_json"
    version: ClassVar[int] = 1
    tables = ("perf_counters",)
    noise = "comments and empty lines"

    def detect(self, name: str, head: bytes) -> float:
        """By the keys that no other tool writes."""
        return 0.95 if b'"counter-value"' in head and _SIGN.search(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Counters in order."""
        yield from parse_each(content.blocks(), _parse_stat_json_block, None)


def _parse_stat_json_block(block: Block, last_event: str | None) -> tuple[Parsed, str | None]:
    text = pl.col("text")
    lines = line_frame(block.data, block.offset).with_columns(noise=text.str.contains(_NOISE))
    said = ~pl.col("noise")
    reasons = {UNTERMINATED: said & ~pl.col("terminated"), _UNKNOWN: said & ~text.str.contains(_OBJECT)}
    lines = lines.with_columns(reason=make_first_true_expr(reasons))
    good = lines.filter(pl.col("reason").is_null() & ~pl.col("noise"))
    fields = good.select(
        "offset", elapsed=pl.lit(None, pl.String), **{name: _make_first_key_expr(*keys) for name, keys in _KEYS.items()}
    )
    fields = fields.with_columns(pl.col("event").forward_fill().fill_null(pl.lit(last_event, pl.String)))
    event = fields["event"][-1] if fields.height else last_event
    return build_parsed_lines({"perf_counters": build_counter_rows(fields)}, lines, pl.col("noise")), event


def _make_first_key_expr(*keys: str) -> pl.Expr:
    """The text of the first of some keys that a line has; null if it is empty."""
    found = pl.coalesce(
        pl.col("text").str.extract(rf'"{key}"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|([^",}}\s]+))', group)
        for key in keys
        for group in (1, 2)
    )
    return pl.when(found != "").then(found)


FORMAT: Final = PerfStatJson()
