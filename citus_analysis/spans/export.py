"""Write traces for other tools to open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.errors import UnknownNameError, UsageError

__all__ = ["EXPORTS", "export_traces"]

#: What :func:`export_traces` can write.
EXPORTS: Final = ("perfetto", "otlp")


def export_traces(
    spans: pl.DataFrame,
    statements: pl.DataFrame,
    out_path: Path | str,
    kind: str,
    *,
    nodes: pl.DataFrame | None = None,
) -> int:
    """Write spans to a file that a trace viewer or collector opens.

    The file is written in chunks and appears under its name only when it is complete.

    Args:
        spans: rows of table `spans`.
        statements: rows of table `statements` of the same traces.
        out_path: file to write. `perfetto`: `.gz` is compressed; `otlp`: `.pb`, `.binpb` and `.otlp` are protobuf,
            anything else is JSON lines.
        kind: one of :data:`EXPORTS`.
        nodes: rows of table `nodes`; with them `otlp` names hosts and ports.

    Returns:
        Number of trace events (perfetto) or spans (otlp) written.

    Raises:
        UnknownNameError: `kind` is not one of :data:`EXPORTS`.
        UsageError: the file cannot be written.
    """
    if kind not in EXPORTS:
        raise UnknownNameError("trace export", kind, EXPORTS)
    target = Path(out_path)
    # The suffix decides about the encoding, so the unfinished file keeps it.
    unfinished = target.with_name(f".unfinished-{target.name}")
    try:
        written = _write(spans, statements, unfinished, kind, nodes)
        unfinished.replace(target)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        way_out = "make room, or choose another file"
        raise UsageError(f"cannot be written: {reason}", path=target, way_out=way_out) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return written


def _write(spans: pl.DataFrame, statements: pl.DataFrame, path: Path, kind: str, nodes: pl.DataFrame | None) -> int:
    # Protobuf takes a while to import.
    if kind == "otlp":
        from citus_analysis.spans.otlp import export_otlp

        return export_otlp(spans, statements, path, nodes=nodes)
    from citus_analysis.spans.perfetto import export_perfetto

    return export_perfetto(spans, statements, path)
