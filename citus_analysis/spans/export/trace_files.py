"""Write traces for other tools to open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.errors import UsageError, require_known
from citus_analysis.spans.export.counts import ExportCount

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
            from citus_analysis.spans.export.otlp import export_otlp

            return export_otlp(spans, statements, out_path, nodes=nodes, log_events=log_events)
        from citus_analysis.spans.export.perfetto import export_perfetto

        return export_perfetto(spans, statements, out_path)
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        way_out = "make room, or choose another file"
        raise UsageError(f"cannot be written: {reason}", path=out_path, way_out=way_out) from error
