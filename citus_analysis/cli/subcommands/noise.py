"""Command: citus-analysis noise."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import AS_JSON, INCLUDE_STATUS, LEVEL_OPTION, MARGIN_OPTION, PLACE, WIDE
from citus_analysis.cli.output import get_output_width, print_result
from citus_analysis.cli.reading import open_or_ingest_dataset


@click.command("noise")
@click.argument("folder", metavar="DIR", type=PLACE)
@click.option("--by", help="Column whose levels are compared with and without correction. Default: as of `compare`.")
@MARGIN_OPTION
@LEVEL_OPTION
@INCLUDE_STATUS
@AS_JSON
@WIDE
def command(
    folder: Path | str,
    by: str | None,
    margin: float,
    level: float,
    include_status: tuple[str, ...],
    as_json: bool,
    wide: bool,
) -> None:
    """Say where the variance between runs of one configuration comes from, and what comparisons are without it.

    Sources are blocks or the order in time, checkpoints, autovacuum, the placement of sessions, and what was measured
    beside the runs: the speed of the machines and of their memory (by the runner's canary), foreign work and stolen
    CPU time. Comparisons are corrected by the sources that chance does not explain; the verdict without correction
    stands beside.
    """
    from citus_analysis.bottleneck import noise
    from citus_analysis.bottleneck.run_noise import format_noise
    from citus_analysis.dataset import open_dataset

    found = noise(
        open_dataset(open_or_ingest_dataset(folder)), by, level=level, margin=margin, include_status=include_status
    )
    print_result(found.to_dict() if as_json else format_noise(found, width=get_output_width(wide=wide)), wide=wide)
