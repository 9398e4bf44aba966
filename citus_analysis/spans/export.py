"""Write traces for other tools to open."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.errors import UsageError, require_known
from citus_analysis.spans.span_layout import ExportCount

#: Kinds of files that :func:`export_traces` can write.
EXPORTS: Final = ("perfetto", "otlp")


def export_traces(
    spans: pl.DataFrame | pl.LazyFrame,
    statements: pl.DataFrame | pl.LazyFrame,
    out_path: Path | str,
    kind: str,
    *,
    nodes: pl.DataFrame | None = None,
    log_events: pl.LazyFrame | None = None,
) -> ExportCount:
    """Write spans to a file that a trace viewer or collector opens.

    The file is written in chunks and appears under its name only when it is complete. A link is followed; a device, a
    named pipe and `/dev/stdout` are written into.

    Args:
        spans: rows of table `spans`. Lazy rows are read group by group, which needs little memory.
        statements: rows of table `statements` of the same traces.
        out_path: file to write. `perfetto`: `.pftrace` and `.perfetto-trace` are Perfetto's own format, anything else
            is JSON; with `.gz` after it, it is compressed; `otlp`: `.pb`, `.binpb` and `.otlp` are protobuf,
            anything else is JSON lines.
        kind: one of :data:`EXPORTS`.
        nodes: rows of table `nodes`; with them `otlp` names hosts and ports.
        log_events: rows of table `log_events`; with them `otlp` names the SQLSTATE of failed statements.

    Returns:
        Number of trace events (perfetto) or spans (otlp) written; its attribute `left_out` is the number of spans
        that were not written because they have no time.

    Raises:
        UnknownNameError: `kind` is not one of :data:`EXPORTS`.
        UsageError: the file cannot be written.
    """
    require_known("trace export", kind, EXPORTS)
    try:
        # Protobuf takes a while to import.
        if kind == "otlp":
            from citus_analysis.spans.otlp import export_otlp

            return export_otlp(spans, statements, out_path, nodes=nodes, log_events=log_events)
        from citus_analysis.spans.perfetto import export_perfetto

        return export_perfetto(spans, statements, out_path)
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        hint = "make room, or choose another file"
        raise UsageError(f"cannot be written: {reason}", path=out_path, hint=hint) from error


# The selection of traces for an export: those of a run, a resource or a time, the slowest of them, or the first.


@dataclass(frozen=True)
class SelectedTraces:
    """The rows that a selection chose.

    Attributes:
        statements: rows of table `statements`.
        spans: rows of table `spans` of the same traces.
        chosen: number of statements.
        left_out: statements that fit the selection and exceed its number.
    """

    statements: pl.LazyFrame
    spans: pl.LazyFrame
    chosen: int
    left_out: int


@dataclass(frozen=True)
class TraceSelection:
    """A selection of traces for an export.

    Attributes:
        run_id: traces of this run; None for all.
        resource: traces of this resource; None for all.
        begin: statements that began at this time or later.
        end: statements that began before this time.
        slowest: this many statements with the longest total time, instead of the first.
        limit: this many statements at most, in order of their times; 0 for all.

    Raises:
        UsageError: a number is negative, or the times are in the wrong order.
    """

    run_id: str | None = None
    resource: str | None = None
    begin: datetime | None = None
    end: datetime | None = None
    slowest: int | None = None
    limit: int = 0

    def __post_init__(self) -> None:
        """Check the numbers and times."""
        if self.limit < 0 or (self.slowest is not None and self.slowest < 1):
            raise UsageError("the number of statements must be positive", hint="or 0 as the limit, for all of them")
        if self.begin is not None and self.end is not None and self.begin >= self.end:
            raise UsageError(f"the time ends ({self.end}) before it begins ({self.begin})")

    def of(self, statements: pl.LazyFrame, spans: pl.LazyFrame) -> SelectedTraces:
        """Choose from the tables `statements` and `spans`.

        Spans whose statement is not in the logs are included as long as neither times nor numbers choose.
        """
        for name in ("run_id", "resource"):
            if (value := getattr(self, name)) is not None:
                statements, spans = (rows.filter(pl.col(name) == value) for rows in (statements, spans))
        fitting = statements
        if self.begin is not None:
            fitting = fitting.filter(pl.col("start_time") >= self.begin)
        if self.end is not None:
            fitting = fitting.filter(pl.col("start_time") < self.end)
        count = int(fitting.select(pl.len()).collect().item())
        most = self.slowest or self.limit or count
        if most >= count and self.begin is None and self.end is None:
            return SelectedTraces(statements, spans, count, 0)
        keys, by = fitting.select("trace_id", "start_time", "total_us"), "total_us" if self.slowest else "start_time"
        ordered = keys.sort(by, "trace_id", descending=[bool(self.slowest), False], nulls_last=True)
        chosen = ordered.head(most).select("trace_id").collect().lazy()
        return SelectedTraces(
            statements.join(chosen, on="trace_id", how="semi"),
            spans.join(chosen, on="trace_id", how="semi"),
            min(most, count),
            max(count - most, 0),
        )
