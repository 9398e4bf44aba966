"""Command: citus-analysis spans."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.output import printable
from citus_analysis.texts.counted_words import counted

__all__ = ["command"]


@click.command("spans")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--export",
    "kind",
    type=click.Choice(("perfetto", "otlp")),
    default="perfetto",
    help="Kind of file; default: perfetto.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="FILE", help="File to write.")
@click.option("--run", "run_id", metavar="RUN_ID", help="Traces of this run only.")
def command(folder: Path, kind: str, out: Path, run_id: str | None) -> None:
    """Write the traces of a dataset to a file that a trace viewer or collector opens.

    perfetto: open it at ui.perfetto.dev; FILE.gz is compressed. otlp: OpenTelemetry spans, as protobuf (.pb) or
    JSON lines. FILE may be /dev/stdout. Spans without a time are left out and counted.
    """
    import polars as pl

    from citus_analysis.core.output_files import is_replaced
    from citus_analysis.dataset import open_dataset
    from citus_analysis.errors import InsufficientDataError, UnknownNameError
    from citus_analysis.spans import export_traces

    dataset = open_dataset(folder)
    spans, statements = dataset.scan("spans"), dataset.scan("statements")
    if run_id is not None:
        known = dataset.scan("statements").select("run_id").unique().collect()["run_id"].drop_nulls()
        if run_id not in known:
            raise UnknownNameError("run with traces", run_id, known)
        spans, statements = (frame.filter(pl.col("run_id") == run_id) for frame in (spans, statements))
    frame = spans.collect()
    if frame.is_empty():
        raise InsufficientDataError("the dataset has no spans", path=folder, way_out="ingest server logs")
    written = export_traces(frame, statements.collect(), out, kind, nodes=dataset.nodes())
    if written.left_out:
        click.echo(f"left out: {written.left_out} of {counted(frame.height, 'span')}: no time in the logs", err=True)
    # Nothing is printed after output to a device, a pipe or stdout.
    summary = f"{printable(str(out))}: {written} {'spans' if kind == 'otlp' else 'trace events'}"
    click.echo(summary, err=not is_replaced(out))
