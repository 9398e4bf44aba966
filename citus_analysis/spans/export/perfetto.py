"""Traces that the Perfetto UI opens: its own packets, or Chrome trace events, which chrome://tracing opens as well.

Both are written in bounded memory, one group of backends at a time.
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
from citus_analysis.spans.export.perfetto_json import write_json
from citus_analysis.spans.export.perfetto_packets import PACKET_SUFFIXES, write_packets

#: Spans from which on a group of backends is complete: a few hundred megabytes.
_GROUP: Final = 200_000


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
    )
    linked = spans.filter(pl.col("kind") == "remote").select("parent_span_id").drop_nulls().collect().to_series()
    write = write_packets if Path(path.name.removesuffix(".gz")).suffix in PACKET_SUFFIXES else write_json
    with _writer(path) as out:
        written, left_out = write(out, found, _groups(spans, statements, found), linked)
    return ExportCount(written, left_out=left_out)


def _groups(
    spans: pl.LazyFrame, statements: pl.LazyFrame, backends: pl.DataFrame
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Spans of some backends at a time, each backend whole, and the statements of their traces."""
    pid = pl.col("pid").fill_null(0)
    counts = backends.group_by(pid).agg(pl.col("spans").sum()).sort("pid")
    share = (pl.col("spans").cum_sum() - pl.col("spans")) // _GROUP
    # First pids from the second group on. Pids of spans without a time fall into a group, too: the spans are counted.
    firsts = counts.group_by(share.alias("share")).agg(pl.col("pid").min())["pid"].sort().to_list()[1:]
    for first, after in zip([None, *firsts], [*firsts, None], strict=True):
        from_first = pl.lit(value=True) if first is None else pid >= first
        yield _group(spans.filter(from_first, pl.lit(value=True) if after is None else pid < after), statements)


def _group(spans: pl.LazyFrame, statements: pl.LazyFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Spans and their statements; a function, so that the generator refers to no group while the next is read."""
    group = spans.collect()
    return group, statements.join(group.lazy().select("trace_id"), on="trace_id", how="semi").collect()


@contextmanager
def _writer(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    with open_output(path) as out:
        if path.suffix != ".gz":
            yield out
            return
        # Without name and time, so that the same spans give the same file.
        with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as compressed:
            yield compressed
