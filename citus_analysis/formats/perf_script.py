r"""Text of `perf script`, with call stacks or with one frame per line.

Table: `perf_stacks`, samples aggregated per event, command, process and stack. Frames are ordered from root to leaf.
A frame without symbol is named after its binary in brackets (`[postgres]`): its raw address differs from run to
run and would separate equal stacks. `shared_object` is the leaf's binary without its folder.

`samples` counts samples; `event_count` sums the printed periods. `self_percent` is the share of the event's count,
as `perf report` computes it, or of its samples if perf printed no periods.

The file is read in blocks, and only the distinct stacks are kept: memory does not grow with the number of
samples. When more than :data:`MAX_STACKS` distinct stacks accumulate, they are yielded and counting restarts, so a
stack can have several rows; the shares then need an additional pass over the file.

`pid` is the number before the time. Without `-F pid` or `+pid`, perf prints the thread (`tid`) there; if it prints
`pid/tid`, the process is used. For PostgreSQL backends both are the same.

A sample without a readable frame has the stack `[unknown]`.

A line that is neither the first of a sample nor a frame is rejected, with the lines after it up to the next sample.
The time may be missing (`-F comm,pid,event,ip,sym,dso`), but not the event.

Example:
    >>> import pathlib, tempfile
    >>> from citus_analysis.formats import Content, Hints
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "script.txt"
    >>> _ = path.write_text(
    ...     "postgres 42 1.000001: 2004008 cpu-clock:\n"
    ...     "\t34d4d5 secure_read+0xd5 (/usr/bin/postgres)\n"
    ...     "\t155976 main+0x216 (/usr/bin/postgres)\n\n"
    ... )
    >>> *_, last = FORMAT.parse(Content(path), Hints())
    >>> last.frame("perf_stacks").select("event", "pid", "stack", "samples").row(0)
    ('cpu-clock', 42, 'main;secure_read', 1)
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
    reject_oversized,
    split_into_blocks,
    take_first_lines,
)
from citus_analysis.schema import TABLES

#: Distinct stacks that are collected before they are yielded; a stack of 40 frames takes about 1 kB.
MAX_STACKS: Final = 200_000

#: command pid/tid [cpu] time: period event: frame-or-arguments; -F can leave out the time.
_HEADER: Final = (
    r"^\s*(?P<command>\S.*?)\s+(?P<pid>[0-9]{1,9})(?:/[0-9]+)?\s+(?:\[[0-9]+\]\s+)?(?:(?P<time>[0-9]+\.[0-9]+):\s+)?"
    r"(?:(?P<period>[0-9]{1,15})\s+)?(?P<event>[A-Za-z][\w.:/=,%-]*?):(?:\s+(?P<rest>.*))?$"
)
#: Searched for in every line before the whole pattern, which is slower.
_HEADER_MARK: Final = r"[0-9\]:] +[A-Za-z][^ ]*:(?: |$)"
#: The same for bytes, and less strict: data without a match are not decoded.
_MAY_BE_MARKED: Final = re.compile(rb"[0-9\]:] +[A-Za-z][^ \n]*:")
#: The beginning of a header, in bytes.
_MAY_BE_HEADER: Final = re.compile(
    rb"\s*\S[^\n]{0,200}?\s[0-9]{1,9}(?:/[0-9]+)?\s+(?:\[[0-9]+\]\s+)?(?:[0-9]+\.[0-9]+:\s+)?(?:[0-9]{1,15}\s+)?"
    rb"[A-Za-z][\w.:/=,%-]*:"
)
_FRAME: Final = r"^\s*(?P<address>[0-9a-f]+)\s+(?P<symbol>\S.*?)\s+\((?P<object>[^()]*(?:\(deleted\))?)\)$"
_OFFSET: Final = r"\+0x[0-9a-f]+$"
_STRAY: Final = "neither a sample nor a frame of perf script"
_UNKNOWN: Final = "[unknown]"
_KEY: Final = ("event", "command", "pid", "stack", "shared_object")


class PerfScript(Format):
    """`perf script` text."""

    name: ClassVar[str] = "perf_script"
    version: ClassVar[int] = 3
    tables = ("perf_stacks",)
    noise = "comments and empty lines"

    def detect(self, name: str, head: bytes) -> float:
        """Detects a first sample: its header, followed by a frame on the same or the next line."""
        first = take_first_lines(head, 2, ("#",))
        if not _MAY_BE_MARKED.search(first) or not any(map(_MAY_BE_HEADER.match, first.splitlines())):
            return 0.0
        lines = _classify_script_lines(line_frame(first)).filter(~pl.col("noise") | pl.col("is_header")).head(2)
        if not lines.height or not lines["is_header"][0]:
            return 0.0
        rest = lines["text"].str.extract_groups(_HEADER).struct.field("rest").str.contains(_FRAME)
        return 0.9 if rest.fill_null(value=False).any() or lines["text"].str.contains(_FRAME).any() else 0.4

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Aggregated stacks; normally in one piece at the end, with pieces of the byte account before it."""
        totals: pl.DataFrame | None = None
        stacks = _make_empty_stacks()
        for piece in _iterate_script_pieces(content):
            stacks = _aggregate([stacks, piece.frame("perf_stacks")])
            yield Parsed({}, piece.parsed_bytes, piece.noise_bytes, piece.rejects)
            if stacks.height > MAX_STACKS:
                if totals is None:
                    totals = _sum_event_counts(
                        pl.concat(
                            [
                                _sum_event_counts(of_piece.frame("perf_stacks"))
                                for of_piece in _iterate_script_pieces(content)
                            ]
                        )
                    )
                yield Parsed({"perf_stacks": _compute_stack_shares(stacks, totals)}, 0)
                stacks = _make_empty_stacks()
        if stacks.height:
            yield Parsed(
                {"perf_stacks": _compute_stack_shares(stacks, _sum_event_counts(stacks) if totals is None else totals)},
                0,
            )


def _make_empty_stacks() -> pl.DataFrame:
    return TABLES["perf_stacks"].parsed().empty().drop("self_percent")


def _iterate_script_pieces(content: Content) -> Iterator[Parsed]:
    """Pieces of whole samples with unaggregated shares."""
    for block in split_into_blocks(content, _complete_bytes):
        yield reject_oversized(block) if block.oversized else _parse_lines(block)


def _complete_bytes(data: bytes, offset: int) -> int:
    """Number of bytes before the last sample, whose stack may continue; all if no sample begins."""
    headers = _classify_script_lines(line_frame(data, offset)).filter("is_header")["offset"]
    return int(headers[-1]) - offset if headers.len() else len(data)


def _classify_script_lines(lines: pl.DataFrame) -> pl.DataFrame:
    text = pl.col("text")
    lines = lines.with_columns(marked=text.str.contains(_HEADER_MARK))
    # Without a time, a frame of a function with arguments can look like the beginning of a sample.
    timed = text.str.extract_groups(_HEADER).struct.field("time").is_not_null()
    is_header = text.str.contains(_HEADER) & (timed | ~text.str.contains(_FRAME))
    marked = lines.filter("marked").select("offset", is_header=is_header)
    return lines.join(marked, on="offset", how="left", maintain_order="left").with_columns(
        pl.col("is_header").fill_null(value=False), noise=(text == "") | text.str.starts_with("#")
    )


def _number_script_samples(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines with the number of their `sample`, and whether it is `lost`: its first line cannot be read.

    The frames of such a sample must not count as frames of the previous sample.
    """
    lines = lines.with_columns(noise=pl.col("noise") & ~pl.col("is_header"))
    begins = pl.col("noise").shift().fill_null(value=True) & ~pl.col("noise") & ~pl.col("is_header")
    unread = lines.filter(begins).filter(~pl.col("text").str.contains(_FRAME))["offset"]
    lost = pl.col("offset").is_in(unread.implode())
    lines = lines.with_columns(sample=(pl.col("is_header") | lost).cum_sum())
    return lines.with_columns(lost=lost.first().over("sample") if unread.len() else pl.lit(value=False))


def _parse_lines(block: Block) -> Parsed:
    lines = _number_script_samples(_classify_script_lines(line_frame(block.data, block.offset)))
    heads = _parse_sample_heads(lines)
    frames = _parse_stack_frames(lines)
    is_frame = pl.col("offset").is_in(frames["offset"].implode())
    # A frame ends with its binary in parentheses: a match is complete even at the end of the file.
    cut = ~pl.col("terminated") & ~is_frame
    stray = ~(pl.col("noise") | pl.col("is_header") | is_frame)
    lines = lines.with_columns(reason=make_first_true_expr({UNTERMINATED: cut, _STRAY: stray}))
    stacks = frames.group_by("sample", maintain_order=True).agg(
        stack=pl.col("name").reverse().str.join(";"), shared_object=pl.col("object").drop_nulls().first()
    )
    samples = heads.join(stacks, on="sample", how="left", maintain_order="left").with_columns(
        stack=pl.col("stack").fill_null(_UNKNOWN), samples=pl.lit(1, pl.Int64), event_count=pl.col("period")
    )
    return build_parsed_lines({"perf_stacks": _aggregate([samples])}, lines, pl.col("noise"))


def _parse_sample_heads(lines: pl.DataFrame) -> pl.DataFrame:
    """One row per sample: command, pid, period, event."""
    part = pl.col("text").str.extract_groups(_HEADER).struct
    return lines.filter(pl.col("is_header") & pl.col("terminated")).select(
        "sample",
        command=part.field("command"),
        pid=part.field("pid").cast(pl.Int32, strict=False),
        period=part.field("period").cast(pl.Int64, strict=False),
        event=part.field("event"),
    )


def _parse_stack_frames(lines: pl.DataFrame) -> pl.DataFrame:
    """One row per frame, leaf first: sample, name, object (null of an inlined function)."""
    under = lines.filter(~pl.col("is_header") & ~pl.col("noise") & ~pl.col("lost") & (pl.col("sample") > 0))
    rest = pl.col("text").str.extract_groups(_HEADER).struct.field("rest")
    beside = lines.filter("is_header").with_columns(text=rest)
    texts = pl.concat([beside.filter(pl.col("text") != ""), under]).sort("offset", maintain_order=True)
    # Samples far outnumber distinct lines: each distinct line is parsed once.
    part = pl.col("text").str.extract_groups(_FRAME).struct
    places = texts.select(pl.col("text").unique()).with_columns(
        symbol=part.field("symbol").str.replace(_OFFSET, ""),
        object=part.field("object").str.replace(r"^.*/([^/])", "$1"),
    )
    unnamed = pl.col("symbol") == _UNKNOWN
    bare = pl.col("object").str.strip_chars("[]")
    named = places.filter(pl.col("object").is_not_null()).with_columns(
        name=pl.when(unnamed).then(pl.format("[{}]", bare)).otherwise("symbol"),
        object=pl.when(pl.col("object") != "inlined").then("object"),
    )
    return texts.join(named, on="text", how="inner", maintain_order="left")


def _aggregate(parts: list[pl.DataFrame]) -> pl.DataFrame:
    columns = [*_KEY, "samples", "event_count"]
    rows = pl.concat([part.select(columns) for part in parts], how="vertical_relaxed")
    # The sum of no values is 0, but a count that was never printed is unknown.
    counted = pl.when(pl.col("event_count").count() > 0).then(pl.col("event_count").sum())
    return rows.group_by(_KEY, maintain_order=True).agg(pl.col("samples").sum(), counted)


def _sum_event_counts(stacks: pl.DataFrame) -> pl.DataFrame:
    """Samples and event counts of each event."""
    count = pl.col("event_count")
    return stacks.group_by("event").agg(pl.col("samples").sum(), pl.when(count.null_count() == 0).then(count.sum()))


def _compute_stack_shares(stacks: pl.DataFrame, totals: pl.DataFrame) -> pl.DataFrame:
    """Rows of `perf_stacks`, the heaviest first."""
    shares = [pl.col(name) / pl.col(f"{name}_right") for name in ("event_count", "samples")]
    return (
        stacks.join(totals, on="event", how="left", maintain_order="left")
        .with_columns(self_percent=100 * pl.coalesce(shares))
        .drop("samples_right", "event_count_right")
        .sort("event", "self_percent", "command", "pid", "stack", descending=[False, True, False, False, False])
    )


FORMAT = PerfScript()
