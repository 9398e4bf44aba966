"""Command: citus-analysis compare."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from citus_analysis.cli.options import METRIC_OPTION, WIDE, Chosen, add_configuration_options
from citus_analysis.cli.output import get_output_width, print_result
from citus_analysis.cli.reading import open_or_ingest_dataset
from citus_analysis.defaults import EXCHANGE_FORMATS


@click.command("compare")
@add_configuration_options
@METRIC_OPTION
@click.option(
    "--by",
    help="Column whose levels are compared; also family, settings, cpu_per_node, variant, or a column of a table of "
    "results. Default: the system, else the set-ups, else the only factor.",
)
@click.option("--base", help="Level to compare the others with. Default: the first of each configuration.")
@WIDE
@click.option(
    "--format",
    "form",
    default="text",
    show_default=True,
    type=click.Choice(["text", "json", *EXCHANGE_FORMATS]),
    help="benchstat: the runs in Go's benchmark format; markdown: a comment; junit: for CI servers.",
)
def command(
    folder: Path | str,
    metric: str,
    by: str | None,
    base: str | None,
    chosen: Chosen,
    as_json: bool,
    form: str,
    wide: bool,
) -> None:
    """Compare runs, like with like: faster, slower, equivalent or inconclusive.

    Runs are compared if the rest of their set-up is equal: system, settings and everything that the clients do. `~`
    marks comparisons without a detected difference. All comparisons of one operation are adjusted together (Holm),
    including those that --only hides. Runs with the status ok are compared; --include-status degraded adds those.
    """
    from citus_analysis.dataset import open_dataset
    from citus_analysis.stats import compare_runs
    from citus_analysis.stats.exchange import render_comparison
    from citus_analysis.stats.run_comparisons import format_comparison, format_narrow_comparison

    found = compare_runs(open_dataset(open_or_ingest_dataset(folder)), metric, by, base, **chosen)
    if as_json or form == "json":
        print_result(found.to_dict())
    elif form == "text" and sys.stdout.isatty() and not wide:
        notes = [f"note: {note}" for note in found.all_notes()]
        print_result("\n".join([*format_narrow_comparison(found, width=get_output_width()), *notes]))
    else:
        print_result(format_comparison(found) if form == "text" else render_comparison(found, form), wide=wide)
