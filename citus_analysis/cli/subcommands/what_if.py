"""Command: citus-analysis what-if."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import AS_JSON, INCLUDE_STATUS, PLACE, SHARE, WIDE
from citus_analysis.cli.output import print_result
from citus_analysis.cli.reading import open_or_ingest_dataset
from citus_analysis.defaults import LEVEL


@click.command("what-if")
@click.argument("folder", metavar="DIR", type=PLACE)
@click.option(
    "--change",
    required=True,
    metavar="CHANGE",
    help="owner-routing, cached-connections, coordinator, any-node, binary, text, threads=N, workers=N, node-cpu=x2 "
    "or pool-size=N.",
)
@click.option(
    "--at", default="", help="Configuration to change: resource (or pattern), set-up, or COLUMN=VALUE,COLUMN=VALUE."
)
@INCLUDE_STATUS
@click.option("--level", default=LEVEL, show_default=True, type=SHARE, help="Level of the interval.")
@AS_JSON
@WIDE
def command(
    folder: Path | str,
    change: str,
    at: str,
    include_status: tuple[str, ...],
    level: float,
    as_json: bool,
    wide: bool,
) -> None:
    """Predict throughput and response time after a change, from traced statements.

    The interval holds the error of the model, estimated by predicting each measured configuration from the others. The
    parts of the difference add up to it. Where the change was measured, prediction and measurement stand side by side;
    where traces cannot know, the reason is given instead.
    """
    from citus_analysis.dataset import open_dataset
    from citus_analysis.scaling import what_if

    dataset = open_dataset(open_or_ingest_dataset(folder))
    found = what_if(dataset, change, at, level=level, include_status=include_status)
    print_result(found.to_dict() if as_json else "\n".join(found.summary_lines()), wide=wide)
