"""`perf report --stdio`: flat or with call graphs, of one event or several.

Tables: `perf_symbols`, one row per entry and event; `perf_stacks`, the call graphs. Supported: any `--sort` (columns
that no table has are skipped), `-n`, event groups, `-t` separators, call graphs `graph`, `fractal` and `folded`,
callers or callees first.

Under `--children` (perf's default) each sample also appears in the trees of all its callers; only the stacks of an
entry's own samples are taken from its tree (:mod:`._graph`), so that no sample counts twice. Graphs that print counts
or periods instead of shares, and `-g flat` (whose paths overlap), are rejected.

`event_count` of a stack is its share of the report's `Event count (approx.)`, for clock events in nanoseconds. It is
null for a group of events, whose report states one number.

In `perf_stacks` unresolved frames keep the addresses that perf printed, `shared_object` is that of the leaf, and
entries without a printed graph become `[...];symbol`, so that the shares add up to those of the entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.api.openings import Opening
from citus_analysis.formats.perf._columns import FACTOR, MOST_SAMPLES, SAMPLES, entry_fields
from citus_analysis.formats.perf._graph import FOLDED, Entry, report_stacks
from citus_analysis.formats.reading.lines import (
    UNTERMINATED,
    accounted,
    chunks,
    first_true,
    line_frame,
    parse_each,
    readable,
    with_reasons,
)
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.schema import TABLES

_RULER: Final = r"^#\s*\.{3,}(?:\s+\.+)*$"
_TITLES: Final = r"^#\s+(?:Overhead|Children)\b"
_EVENT_COUNT: Final = r"^# Event count \(approx\.\)\s*:\s*([0-9]{1,18})\s*$"
_ENTRY: Final = r"^\s{0,9}[0-9]{1,3}\.[0-9][0-9]%\s*\S"
_DRAWN: Final = r"^[\s|]+$"
#: Graphs of counts or periods, and of `-g flat`.
_OTHER_GRAPH: Final = r"^[\s|]*--[0-9]+(?:\.[0-9]+)?[KMG]?--|^[0-9]+ \S|^\s{10,}[0-9]{1,3}\.[0-9][0-9]%$"
_NO_SHARES: Final = "call graph without shares of its own: record it with -g graph or -g folded and percent"
_NO_ENTRY: Final = "no entry of a report precedes this line"
#: Number of events from the line of a section's samples until it is stated.
_UNKNOWN: Final = -1


@dataclass(frozen=True)
class _Section:
    """State of the section that continues in the next block."""

    samples: str = ""
    event_count: int = _UNKNOWN
    titles: str = ""
    ruler: str = ""
    graphs: bool = False
    other_graphs: bool = False


class PerfReport(Format):
    """`perf report --stdio`."""

    name: ClassVar[str] = "perf_report"
    version: ClassVar[int] = 4
    tables = ("perf_symbols", "perf_stacks")
    noise = "comments and empty lines"
    openings = (Opening(b"# To display the perf.data header info"),)

    def detect(self, name: str, head: bytes) -> float:
        """Detects the comment lines that name the event and the columns."""
        if b"# Samples" not in head and b"# Events" not in head:
            return 0.0
        text = line_frame(head)["text"]
        return 0.95 if text.str.contains(_TITLES).any() and text.str.contains(SAMPLES).any() else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Entries in order."""
        yield from parse_each(chunks(content, _complete_bytes), _parse_block, _Section())


def _complete_bytes(data: bytes, offset: int) -> int:
    """Number of bytes before the last entry, whose call graph may continue; all if there is no entry."""
    entries = _classified(line_frame(data, offset), _Section()).filter(pl.col("kind") == "entry")["offset"]
    return int(entries[-1]) - offset if entries.len() else len(data)


def _classified(lines: pl.DataFrame, section: _Section) -> pl.DataFrame:
    """Lines with `kind`, the number of their entry, and the properties of their section."""
    text = pl.col("text")
    titled, sampled = text.str.contains(_TITLES), text.str.contains(SAMPLES)
    kinds: dict[str, pl.Expr | pl.Series] = {
        "blank": (text == "") | text.str.contains(_DRAWN),
        "comment": text.str.starts_with("#"),
        "entry": text.str.contains(_ENTRY) & ~text.str.contains(FOLDED),
    }
    stated = text.str.extract(_EVENT_COUNT).cast(pl.Int64)
    newest = {
        "samples": pl.when(sampled).then(text),
        "event_count": pl.when(sampled).then(pl.lit(_UNKNOWN, pl.Int64)).otherwise(stated),
        "titles": pl.when(titled).then(text),
        # Titles without a ruler belong to a report made with -t.
        "ruler": pl.when(titled).then(pl.lit("")).when(text.str.contains(_RULER)).then(text),
    }
    return lines.with_columns(
        kind=first_true(kinds).fill_null("graph"),
        section=titled.cum_sum(),
        **{name: value.forward_fill().fill_null(getattr(section, name)) for name, value in newest.items()},
    ).with_columns(entry=(pl.col("kind") == "entry").cum_sum())


def _parse_block(block: Block, section: _Section) -> tuple[Parsed, _Section]:
    lines = _classified(line_frame(block.data, block.offset), section)
    is_graph = pl.col("kind") == "graph"
    refused = section.other_graphs or not lines.filter(is_graph, pl.col("text").str.contains(_OTHER_GRAPH)).is_empty()
    # Comments end a section and the report.
    comments = (pl.col("kind") == "comment").cum_sum()
    after_comment = comments > pl.when(pl.col("kind") == "entry").then(comments).forward_fill()
    lines = lines.with_columns(
        noise=pl.col("kind").is_in(["blank", "comment"]),
        reason=first_true(
            {
                "more samples than 64 bits hold": _too_many(lines),
                _NO_ENTRY: is_graph & ((pl.col("titles") == "") | (pl.col("entry") == 0) | after_comment),
                _NO_SHARES: is_graph & pl.lit(refused),
                UNTERMINATED: is_graph & ~pl.col("terminated"),
            }
        ),
    )
    entries = _entries(lines)
    lines, entries = with_reasons(lines, entries), readable(entries)
    graphs = lines.filter(is_graph & pl.col("reason").is_null() & ~pl.col("noise"))
    drawn = {*graphs["section"], *([0] if section.graphs else [])}
    stacks = _stacks(entries.filter(pl.col("section").is_in(list(drawn))), graphs)
    parsed = accounted({"perf_symbols": _symbols(entries), "perf_stacks": stacks}, lines, pl.col("noise"))
    last = lines.row(-1, named=True)
    state = _Section(
        last["samples"], last["event_count"], last["titles"], last["ruler"], last["section"] in drawn, refused
    )
    return parsed, state


def _too_many(lines: pl.DataFrame) -> pl.Series:
    """Which lines name more samples than the column holds."""
    part = lines["text"].str.extract_groups(SAMPLES).struct
    factor = part.field("unit").replace_strict(FACTOR, default=1, return_dtype=pl.Float64)
    return (part.field("count").cast(pl.Float64) * factor > float(MOST_SAMPLES)).fill_null(value=False)


def _entries(lines: pl.DataFrame) -> pl.DataFrame:
    """All entries as fields; an entry of a group of events has one row per event."""
    rows = lines.filter(pl.col("kind") == "entry")
    frames = [
        entry_fields(group, str(samples), str(titles), str(ruler)).with_columns(
            section=pl.lit(section),
            # A group of events has one count, but shares of each event.
            total_count=pl.lit(count if count != _UNKNOWN and "{" not in str(samples) else None, pl.Int64),
        )
        for (section, samples, count, titles, ruler), group in rows.group_by(
            "section", "samples", "event_count", "titles", "ruler", maintain_order=True
        )
    ]
    none = {"offset": pl.Int64, "reason": pl.String, "section": pl.UInt32, "entry": pl.UInt32}
    return pl.concat(frames, how="diagonal_relaxed").sort("offset") if frames else pl.DataFrame(schema=none)


def _symbols(entries: pl.DataFrame) -> pl.DataFrame:
    placed = entries.rename({"offset": "byte_offset"})
    return placed.select(name for name in TABLES["perf_symbols"].parsed().names() if name in placed.columns)


def _stacks(entries: pl.DataFrame, graphs: pl.DataFrame) -> pl.DataFrame:
    """Stacks of the entries; an entry without a drawn graph gives one stack with unknown callers."""
    if entries.is_empty():
        return TABLES["perf_stacks"].parsed().empty()
    under = graphs.group_by("entry").agg(graph=pl.col("text"))
    entries = entries.join(under, on="entry", how="left", maintain_order="left")
    printed = entries.select(pl.col("self_percent"), pl.col("symbol").fill_null(""), "graph", "children_percent")
    drawn = [Entry(percent, symbol, graph or (), children) for percent, symbol, graph, children in printed.iter_rows()]
    found = pl.Series(report_stacks(drawn), dtype=_FOUND)
    # Under --children an entry may have no samples of its own, and so no stack.
    named = entries.with_columns(found=found).filter(pl.col("found").list.len() > 0).explode("found")
    share = pl.col("found").struct.field("self_percent")
    count = (share / 100 * pl.col("total_count")).round().cast(pl.Int64, strict=False)
    of_entry = named.select("event", "command", "pid", "shared_object", "found", event_count=count)
    return of_entry.unnest("found")


_FOUND: Final = pl.List(pl.Struct({"stack": pl.String, "self_percent": pl.Float64}))

FORMAT = PerfReport()
