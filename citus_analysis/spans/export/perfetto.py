"""Traces that the Perfetto UI opens: its own packets, or Chrome trace events, which chrome://tracing opens as well.

Both are written in bounded memory, one group of backends at a time.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.core.output_files import open_output
from citus_analysis.spans.export.counts import ExportCount, with_a_time
from citus_analysis.spans.export.perfetto_json import write_json
from citus_analysis.spans.export.perfetto_packets import PACKET_SUFFIXES, write_packets
from citus_analysis.spans.model.span_layout import lay_out

#: Spans from which on a group of backends is complete: a few hundred megabytes.
_GROUP: Final = 200_000
#: Larger than any number of a process.
_NO_PID: Final = 2**62


def export_perfetto(
    spans: pl.DataFrame | pl.LazyFrame, statements: pl.DataFrame | pl.LazyFrame, out_path: Path | str
) -> ExportCount:
    """Write a trace that opens in the Perfetto UI.

    Args:
        spans: rows of table `spans`.
        statements: rows of table `statements`, for the annotations of statements.
        out_path: file to write; with the suffix `.gz` it is compressed (the UI opens that as well).

    Returns:
        Number of trace events written, and of spans left out because they, or the spans above them, have no time.
    """
    path, spans, statements = Path(out_path), spans.lazy(), statements.lazy()
    timed = with_a_time(spans)
    found = (
        timed.group_by("node", "pid")
        .agg(
            child=(pl.col("kind") == "remote").any(),
            gpid=pl.col("gpid").first(),
            spans=pl.len(),
            # No span is laid out before the time at which its record was written, less its duration.
            begin=(pl.coalesce("end_time", "start_time").to_physical() - pl.col("duration_us").fill_null(0)).min(),
        )
        .collect(engine="streaming")
        .sort("node", "pid")
        .with_columns(process=pl.col("node").rank("dense").cast(pl.Int64))
        .with_columns(thread=pl.int_range(1, pl.len() + 1, dtype=pl.Int64))
    )
    linked = spans.filter(pl.col("kind") == "remote").select("parent_span_id").drop_nulls().collect().to_series()
    write = write_packets if Path(path.name.removesuffix(".gz")).suffix in PACKET_SUFFIXES else write_json
    left_out: list[int] = []
    with open_output(path) as out, ExitStack() as stack:
        # Without name and time, so that the same spans give the same file.
        packed = stack.enter_context(gzip.GzipFile("", "wb", fileobj=out, mtime=0)) if path.suffix == ".gz" else out
        written = write(packed, found, _groups(spans, statements, found, left_out), linked)
    return ExportCount(written, left_out=sum(left_out))


def _groups(
    spans: pl.LazyFrame, statements: pl.LazyFrame, backends: pl.DataFrame, left_out: list[int]
) -> Iterator[pl.DataFrame]:
    """Spans of some backends at a time, each backend whole, as :func:`_placed` gives them."""
    pid = pl.col("pid").fill_null(0)
    counts = backends.group_by(pid).agg(pl.col("spans").sum()).sort("pid")
    share = (pl.col("spans").cum_sum() - pl.col("spans")) // _GROUP
    # First pids from the second group on. Pids of spans without a time fall into a group, too: the spans are counted.
    firsts = counts.group_by(share.alias("share")).agg(pl.col("pid").min())["pid"].sort().to_list()[1:]
    for first, after in pairwise([0, *firsts, _NO_PID]):
        yield _placed(spans.filter(pid >= first, pid < after).collect(), statements, backends, left_out)


def _placed(spans: pl.DataFrame, statements: pl.LazyFrame, backends: pl.DataFrame, left_out: list[int]) -> pl.DataFrame:
    """Spans laid out, with the numbers of their nodes and backends, their labels, and the facts of their statements.

    `overlaps`: a span may overlap others of its backend, as one of several tasks, or a connection: while one is made,
    tasks may already run on others. A function, so that the generator refers to no group while the next is read.
    """
    placed = lay_out(with_a_time(spans))
    left_out.append(spans.height - placed.height)
    own = statements.join(spans.lazy().select("trace_id"), on="trace_id", how="semi")
    facts = own.select("trace_id", pl.col("executed").cast(pl.String), "failed", "tasks").collect()
    threads = backends.select("node", "pid", "process", "thread")
    kind, name = pl.col("kind"), pl.col("name").cast(pl.String)
    on_shard = kind.is_in(["task", "remote", "local"]) & pl.col("shard_id").is_not_null()
    return (
        placed.drop("process", "track")
        .join(threads, on=["node", "pid"], how="left", nulls_equal=True)
        .join(facts, on="trace_id", how="left")
        .with_columns(
            pl.col("match").cast(pl.String),
            pl.when(kind == "statement").then(pl.col("executed", "failed")),
            overlaps=((kind == "task") & (pl.col("tasks") > 1)) | (kind == "connect"),
            label=pl.when(on_shard).then(pl.format("{} on shard {}", name, "shard_id")).otherwise(name),
        )
    )
