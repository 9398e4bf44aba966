"""Traces as Chrome trace events (JSON), which the Perfetto UI and chrome://tracing open, written in bounded memory.

One process per node, one thread per backend. Slices of a thread must nest:
:func:`~citus_analysis.spans.model.span_layout.lay_out` places them, and `args` has the raw end time. Tasks of
statements with several tasks overlap and become asynchronous slices. Arrows lead from a task to its remote execution.

Backends are independent of each other, so the spans come in groups of backends, and one group is in memory at a time.
Only the times and tracks of the ends of arrows are kept to the end: some hundred bytes per remote execution.

Source: Trace Event Format (Google, 2016), as Perfetto documents what it reads of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import polars as pl

from citus_analysis.spans.export.hexadecimal import hexadecimal
from citus_analysis.spans.export.perfetto_packets import Sink

_CHUNK: Final = 50_000
#: Least duration of an arrow, microseconds.
_STEP: Final = 1.0
_BASE: Final = ("name", "cat", "pid", "tid", "ts")


def write_json(out: Sink, backends: pl.DataFrame, groups: Iterable[pl.DataFrame], linked: pl.Series) -> int:
    """Write a trace.

    Args:
        out: target of the bytes.
        backends: `node`, `pid`, their numbers `process` and `thread`, `gpid`, `child` (whether it ran tasks of others)
            and `begin` (a lower bound of the begins of its spans, microseconds since 1970) of each backend.
        groups: spans of some backends at a time, each backend whole, placed and labelled.
        linked: ids of tasks whose remote execution is among the spans.

    Returns:
        Number of events written.
    """
    first = backends["begin"].min()
    origin = int(first) if isinstance(first, (int, float)) else 0
    written = 0
    tails, tips = [], []
    out.write(b'{"displayTimeUnit":"ms","traceEvents":[')
    for placed in groups:
        timed = _timed(placed, origin)
        written += _write(out, written, _slices(timed))
        tails.append(_tails(timed, linked))
        # Remote executions at which arrows end. An arrow takes time and must end within the slice.
        end = pl.max_horizontal("ts", pl.col("ts") + pl.col("dur") - _STEP)
        remotes = timed.filter((pl.col("kind") == "remote") & pl.col("parent_span_id").is_not_null())
        tips.append(remotes.select(to_pid="pid", to_tid="tid", to_ts="ts", to_end=end, span_id="parent_span_id"))
        del placed, timed, remotes  # Before the next ones are read.
    written += _write(out, written, [_names(backends)])
    written += _write(out, written, _arrows(pl.concat(tails), pl.concat(tips)))
    out.write(b"\n]}\n")
    return written


def _write(out: Sink, before: int, parts: Iterable[pl.DataFrame]) -> int:
    """Write events, separated by commas from those before; return their number."""
    written = 0
    for chunk in (chunk for part in parts for chunk in part.iter_slices(_CHUNK)):
        lines = chunk.select(event=pl.struct(pl.all()).struct.json_encode())["event"]
        out.write(b",\n" if before + written else b"\n")
        out.write(",\n".join(lines.to_list()).encode())
        written += len(lines)
    return written


def _names(backends: pl.DataFrame) -> pl.DataFrame:
    session = pl.when("child").then(pl.format("child of {}", "gpid")).otherwise(pl.lit("session"))
    threads = backends.select("process", "thread", of=pl.lit("thread"), called=pl.format("{} [{}]", session, "pid"))
    nodes = backends.group_by("process").agg(pl.format("node {}", "node").first().alias("called"))
    processes = nodes.select("process", "called", of=pl.lit("process"), thread=pl.lit(0, pl.Int64))
    return (
        pl.concat([processes.select(threads.columns), threads])
        .sort("process", "thread")
        .select(
            ph=pl.lit("M"), name=pl.format("{}_name", "of"), pid="process", tid="thread", args=pl.struct(name="called")
        )
    )


def _timed(placed: pl.DataFrame, origin: int) -> pl.DataFrame:
    """Spans with the columns of their events."""
    return placed.with_columns(
        # Numbers of the node and the backend replace those of the operating system's process and thread.
        pid="process",
        tid="thread",
        ts=(pl.col("begin") - origin).round(3),
        dur=(pl.col("end") - pl.col("begin")).round(3),
        cat=pl.col("kind").cast(pl.String),
        name="label",
        args=pl.struct(
            hexadecimal("trace_id"),
            *("shard_id", "gpid", "match", "executed", "failed", "includes_commit", "duration_us"),
            pl.col("end_time").dt.to_string("iso:strict").alias("log_end_time"),
            *("source_id", "byte_offset"),
        ),
        id=pl.format("0x{}", hexadecimal("span_id")),
    )


def _slices(timed: pl.DataFrame) -> list[pl.DataFrame]:
    tasks, whole = timed.filter("overlaps"), timed.filter((pl.col("kind") != "local") & ~pl.col("overlaps"))
    return [
        whole.select(pl.lit("X").alias("ph"), *_BASE, "dur", "args"),
        timed.filter(pl.col("kind") == "local").select(pl.lit("i").alias("ph"), *_BASE, pl.lit("t").alias("s"), "args"),
        tasks.select(pl.lit("b").alias("ph"), *_BASE, "id", "args"),
        tasks.select(pl.lit("e").alias("ph"), *_BASE[:4], pl.col("ts") + pl.col("dur"), "id"),
    ]


def _tails(timed: pl.DataFrame, linked: pl.Series) -> pl.DataFrame:
    """Tasks at which arrows begin, and the begin of their statement."""
    statements = timed.filter(pl.col("kind") == "statement").select("trace_id", earliest="ts")
    tasks = timed.filter(pl.col("span_id").is_in(linked.implode()))
    return (
        tasks.select("span_id", "trace_id", *_BASE, "id").join(statements, on="trace_id", how="left").drop("trace_id")
    )


def _arrows(tails: pl.DataFrame, tips: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """From the begin of a task to its remote execution.

    The trace processor leaves out arrows that lead back in time, as some do because times have a resolution of 1 ms.
    The begin of such an arrow is moved back, and its end forward.
    """
    for some in tips.iter_slices(_CHUNK):
        arrows = (
            tails.join(some, on="span_id", how="inner")
            .with_columns(ts=pl.max_horizontal("earliest", pl.min_horizontal("ts", pl.col("to_end") - _STEP)))
            .with_columns(to_ts=(pl.col("ts") + _STEP).clip("to_ts", "to_end"))
            .with_columns(pl.col("ts", "to_ts").round(3))
        )
        yield arrows.select(pl.lit("s").alias("ph"), *_BASE, "id")
        tip = (pl.col(f"to_{name}").alias(name) for name in _BASE[2:])
        yield arrows.select(pl.lit("f").alias("ph"), pl.lit("e").alias("bp"), *_BASE[:2], *tip, "id")
