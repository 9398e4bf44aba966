"""Traces as Chrome trace events (JSON), which the Perfetto UI and chrome://tracing open.

One process per node, one thread per backend. Slices of a thread must nest:
:func:`~citus_analysis.spans.model.span_layout.lay_out` places them, and `args` has the raw end time. Tasks of
statements with several tasks overlap and become asynchronous slices. Arrows lead from a task to the remote execution
it belongs to.

Source: Trace Event Format (Google, 2016), as Perfetto documents what it reads of it.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import polars as pl

from citus_analysis.core.output_files import open_output
from citus_analysis.spans.export.counts import ExportCount, with_a_time
from citus_analysis.spans.export.hexadecimal import hexadecimal
from citus_analysis.spans.export.perfetto_packets import PACKET_SUFFIXES, write_packets
from citus_analysis.spans.export.span_labels import label, overlapping
from citus_analysis.spans.model.span_layout import lay_out

__all__ = ["export_perfetto"]

_CHUNK: Final = 50_000
#: Spans of the backends that are laid out at a time: a few hundred megabytes.
_GROUP: Final = 250_000

#: How long an arrow takes at least, microseconds.
_STEP: Final = 1.0


def export_perfetto(
    spans: pl.DataFrame | pl.LazyFrame, statements: pl.DataFrame | pl.LazyFrame, out_path: Path | str
) -> ExportCount:
    """Write a trace that opens in the Perfetto UI.

    Args:
        spans: rows of table `spans`.
        statements: rows of table `statements`: what the slices of statements are annotated with.
        out_path: file to write; with the suffix `.gz` it is compressed (the UI opens that as well).

    Returns:
        Number of trace events written, and of spans left out: those without a time, and what they own.
    """
    path = Path(out_path)
    if Path(path.name.removesuffix(".gz")).suffix in PACKET_SUFFIXES:
        return _packets(spans.lazy(), statements.lazy(), path)
    spans, statements = spans.lazy().collect(), statements.lazy().collect()
    placed = lay_out(with_a_time(spans))
    origin = placed["begin"].min()
    parts = [_names(placed), *_events(placed, statements, int(origin) if isinstance(origin, (int, float)) else 0)]
    written = 0
    with _writer(path) as out:
        out.write(b'{"displayTimeUnit":"ms","traceEvents":[')
        for lines in _chunks(parts):
            out.write(b",\n" if written else b"\n")
            out.write(",\n".join(lines.to_list()).encode())
            written += len(lines)
        out.write(b"\n]}\n")
    return ExportCount(written, left_out=spans.height - placed.height)


def _packets(spans: pl.LazyFrame, statements: pl.LazyFrame, path: Path) -> ExportCount:
    """Write Perfetto's packets, a group of backends at a time."""
    backends = spans.group_by("node", "pid").agg(
        child=(pl.col("kind") == "remote").any(), gpid=pl.col("gpid").first(), spans=pl.len()
    )
    found = backends.collect(engine="streaming")
    shares = -(-int(found["spans"].sum()) // _GROUP) or 1
    linked = spans.filter(pl.col("kind") == "remote").select("parent_span_id").drop_nulls().collect().to_series()

    def groups() -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        for share in range(shares):
            own = pl.col("pid").fill_null(0) % shares == share
            yield (spans.filter(own).collect(), statements.filter(own).collect())

    with _writer(path) as out:
        written, left_out = write_packets(out, found, groups(), linked)
    return ExportCount(written, left_out=left_out)


@contextmanager
def _writer(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    with open_output(path) as out:
        if path.suffix != ".gz":
            yield out
            return
        # Without name and time: the same spans give the same file.
        with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as compressed:
            yield compressed


def _chunks(parts: list[pl.DataFrame]) -> Iterator[pl.Series]:
    """Each event as one JSON object, a bounded number at a time."""
    for part in parts:
        for chunk in part.iter_slices(_CHUNK):
            yield chunk.select(event=pl.struct(pl.all()).struct.json_encode())["event"]


def _names(placed: pl.DataFrame) -> pl.DataFrame:
    threads = placed.group_by("process", "track", "node", "pid").agg(
        child=(pl.col("kind") == "remote").any(), gpid=pl.col("gpid").first()
    )
    session = pl.when("child").then(pl.format("child of {}", "gpid")).otherwise(pl.lit("session"))
    thread_names = threads.select(
        ph=pl.lit("M"),
        name=pl.lit("thread_name"),
        pid="process",
        tid="track",
        args=pl.struct(name=pl.format("{} [{}]", session, "pid")),
    )
    process_names = (
        threads.group_by("process")
        .agg(pl.col("node").first())
        .select(
            ph=pl.lit("M"),
            name=pl.lit("process_name"),
            pid="process",
            tid=pl.lit(0, pl.Int64),
            args=pl.struct(name=pl.format("node {}", "node")),
        )
    )
    return pl.concat([process_names, thread_names]).sort("pid", "tid")


def _events(placed: pl.DataFrame, statements: pl.DataFrame, origin: int) -> list[pl.DataFrame]:
    facts = statements.select("trace_id", pl.col("executed").cast(pl.String), "failed", "tasks")
    timed = placed.join(facts, on="trace_id", how="left").with_columns(
        pid="process",
        tid="track",
        ts=(pl.col("begin") - origin).round(3),
        dur=(pl.col("end") - pl.col("begin")).round(3),
        cat=pl.col("kind").cast(pl.String),
        name=label(),
        args=_arguments(),
        id=pl.format("0x{}", hexadecimal("span_id")),
    )
    tasks, whole = timed.filter(overlapping()), timed.filter((pl.col("kind") != "local") & ~overlapping())
    arrows = _arrows(timed)
    base = ("name", "cat", "pid", "tid", "ts")
    return [
        whole.select(pl.lit("X").alias("ph"), *base, "dur", "args"),
        timed.filter(pl.col("kind") == "local").select(pl.lit("i").alias("ph"), *base, pl.lit("t").alias("s"), "args"),
        tasks.select(pl.lit("b").alias("ph"), *base, "id", "args"),
        tasks.select(pl.lit("e").alias("ph"), *base[:4], pl.col("ts") + pl.col("dur"), "id"),
        arrows.select(pl.lit("s").alias("ph"), *base, "id"),
        arrows.select(
            pl.lit("f").alias("ph"), pl.lit("e").alias("bp"), *base[:2],
            *(pl.col(f"to_{name}").alias(name) for name in base[2:]), "id",
        ),
    ]  # fmt: skip


def _arguments() -> pl.Expr:
    return pl.struct(
        trace_id=hexadecimal("trace_id"),
        shard_id="shard_id",
        gpid="gpid",
        match=pl.col("match").cast(pl.String),
        executed=pl.when(pl.col("kind") == "statement").then("executed"),
        failed=pl.when(pl.col("kind") == "statement").then("failed"),
        includes_commit="includes_commit",
        duration_us="duration_us",
        log_end_time=pl.col("end_time").dt.to_string("iso:strict"),
        source_id="source_id",
        byte_offset="byte_offset",
    )


def _arrows(timed: pl.DataFrame) -> pl.DataFrame:
    """From the begin of a task to its remote execution.

    The trace processor leaves out arrows that lead back in time, which 1 ms of resolution is enough for: those leave
    the statement as late as that takes, and meet the execution where it is by then.
    """
    # A slice that lasts until t is over at t, and an arrow takes time.
    end = pl.max_horizontal("ts", pl.col("ts") + pl.col("dur") - _STEP)
    remotes = timed.filter(pl.col("kind") == "remote").select(
        to_pid="pid", to_tid="tid", to_ts="ts", to_end=end, span_id="parent_span_id"
    )
    statements = timed.filter(pl.col("kind") == "statement").select("trace_id", earliest="ts")
    return (
        timed.join(remotes, on="span_id", how="inner")
        .join(statements, on="trace_id", how="left")
        .with_columns(ts=pl.max_horizontal("earliest", pl.min_horizontal("ts", pl.col("to_end") - _STEP)))
        .with_columns(to_ts=(pl.col("ts") + _STEP).clip("to_ts", "to_end"))
        .with_columns(pl.col("ts", "to_ts").round(3))
    )
