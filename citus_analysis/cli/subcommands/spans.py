"""Command: citus-analysis spans."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from citus_analysis.cli.options import PLACE
from citus_analysis.cli.reading import open_or_ingest_dataset
from citus_analysis.texts.words import make_printable, pluralize

if TYPE_CHECKING:
    from citus_analysis.spans.export import SelectedTraces

_TIME: Final = click.DateTime(
    ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S.%f")
)

#: A number of statements that viewers open within seconds.
_DEFAULT_LIMIT: Final = 20_000


@click.command("spans")
@click.argument("folder", metavar="DIR", type=PLACE)
@click.option(
    "--export",
    "kind",
    type=click.Choice(("perfetto", "otlp")),
    default="perfetto",
    help="Kind of file; default: perfetto.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="FILE", help="File to write.")
@click.option("--run", "run_id", metavar="RUN_ID", help="Traces of this run only.")
@click.option("--resource", metavar="NAME", help="Traces of this resource only.")
@click.option("--from", "begin", type=_TIME, metavar="TIME", help="Statements that began at this time (UTC) or later.")
@click.option("--to", "end", type=_TIME, metavar="TIME", help="Statements that began before this time (UTC).")
@click.option("--slowest", type=click.IntRange(min=1), metavar="N", help="The N statements that took longest.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    default=_DEFAULT_LIMIT,
    show_default=True,
    help="At most the first N statements; 0: all.",
)
def command(
    folder: Path | str,
    kind: str,
    out: Path,
    run_id: str | None,
    resource: str | None,
    begin: datetime | None,
    end: datetime | None,
    slowest: int | None,
    limit: int,
) -> None:
    """Write the traces of a dataset to a file that a trace viewer or collector opens.

    perfetto: a file for ui.perfetto.dev; with the suffix .pftrace in Perfetto's own format (half the size), otherwise
    JSON; with the suffix .gz compressed. otlp: OpenTelemetry spans, as protobuf (.pb) or JSON lines. FILE may be
    /dev/stdout. Spans without a time are left out; their number is printed.
    """
    import polars as pl

    from citus_analysis.dataset import open_dataset
    from citus_analysis.errors import InsufficientDataError, require_known
    from citus_analysis.spans import export_traces
    from citus_analysis.spans.export import TraceSelection

    dataset = open_dataset(open_or_ingest_dataset(folder))
    spans, statements = dataset.scan("spans"), dataset.scan("statements")
    for column, value, what in (("run_id", run_id, "run"), ("resource", resource, "resource")):
        if value is not None:
            known = statements.select(column).unique().collect()[column].drop_nulls()
            require_known(f"{what} with traces", value, known)
    selection = TraceSelection(run_id, resource, _convert_to_utc(begin), _convert_to_utc(end), slowest, limit)
    chosen = selection.of(statements, spans)
    count = int(chosen.spans.select(pl.len()).collect().item())
    if not count:
        problem = "the dataset has no spans" if begin is end is None else "no statement began in that time"
        raise InsufficientDataError(problem, path=folder, hint="ingest server logs")
    log = dataset.scan("log_events")
    written = export_traces(chosen.spans, chosen.statements, out, kind, nodes=dataset.nodes(), log_events=log)
    _report(out, f"{written} {'spans' if kind == 'otlp' else 'trace events'}", written.left_out, count, chosen)


def _report(out: Path, what: str, without_time: int, count: int, chosen: SelectedTraces) -> None:
    """Print the number of spans or events that were written, and the numbers that were left out."""
    from citus_analysis.core.output_files import is_replaced

    if without_time:
        click.echo(f"left out: {without_time} of {pluralize(count, 'span')}: no time in the logs", err=True)
    if chosen.left_out:
        total = pluralize(chosen.chosen + chosen.left_out, "statement")
        click.echo(f"left out: {chosen.left_out:,} of {total}; --limit 0 without --slowest writes all", err=True)
    # Nothing is printed after output to a device, a pipe or stdout.
    click.echo(f"{make_printable(str(out))}: {what}", err=not is_replaced(out))


def _convert_to_utc(time: datetime | None) -> datetime | None:
    return None if time is None else time.replace(tzinfo=UTC)
