"""Command: citus-analysis vacuum."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import AS_JSON, PLACE
from citus_analysis.cli.output import print_result


@click.command("vacuum")
@click.argument("folder", metavar="DIR", type=PLACE)
@click.option("--older-than", "hours", type=click.FloatRange(min=0), default=0.0, metavar="HOURS", help="Default: 0.")
@AS_JSON
def command(folder: Path | str, hours: float, as_json: bool) -> None:
    """Remove files of a dataset that a later ingest superseded.

    Superseded files are kept for a day for readers that opened the dataset earlier; later ingests remove older ones.
    This command removes them at once. Readers that have the dataset open must open it again.
    """
    from citus_analysis.dataset import vacuum

    removed = vacuum(folder, older_than_s=hours * 3600)
    print_result({"files": removed.files, "bytes": removed.bytes} if as_json else str(removed))
