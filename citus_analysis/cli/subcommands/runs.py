"""Command: citus-analysis runs."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import AS_JSON, INCLUDE_STATUS, LEVEL_OPTION, WIDE
from citus_analysis.cli.output import get_output_width, print_result
from citus_analysis.cli.reading import open_or_ingest_dataset
from citus_analysis.texts.names import convert_to_place


@click.command("runs")
@click.argument("folder", metavar="DIR", type=convert_to_place)
@LEVEL_OPTION
@INCLUDE_STATUS
@AS_JSON
@WIDE
def command(folder: Path | str, level: float, include_status: tuple[str, ...], as_json: bool, wide: bool) -> None:
    """List the configurations of a dataset, one per line.

    Each line has the number of runs, the numbers of ok, degraded and failed runs, and the mean throughput of the runs
    that are ok (or allowed). Values that all configurations share are printed above the list.
    """
    from citus_analysis.dataset import open_dataset
    from citus_analysis.stats.run_means import format_configurations, list_configurations

    found = list_configurations(
        open_dataset(open_or_ingest_dataset(folder)), level=level, include_status=include_status
    )
    text = format_configurations(found, include_status, width=get_output_width(wide=wide))
    print_result(found.to_dicts() if as_json else text, wide=wide)
