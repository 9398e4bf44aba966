"""Command: citus-analysis plans."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import AS_JSON, PLACE, RESOURCES, SHARE, WIDE
from citus_analysis.cli.output import print_result
from citus_analysis.cli.reading import open_or_ingest_dataset
from citus_analysis.defaults import LEVEL


@click.command("plans")
@click.argument("folder", metavar="DIR", type=PLACE)
@RESOURCES
@click.option("--level", default=LEVEL, show_default=True, type=SHARE, help="Confidence level of all changes together.")
@AS_JSON
@WIDE
def command(folder: Path | str, resources: str, level: float, as_json: bool, wide: bool) -> None:
    """Find statements whose plan changed: on which node, when, and at what cost.

    Reads the plans that auto_explain logged. Plans that differ in numbers, constants, shards or pruned partitions only
    are equal, and a statement whose plans alternate did not change. Each change is shown as the difference of two
    trees, with the records of the last execution before it and the first after it.
    """
    from citus_analysis.dataset import open_dataset
    from citus_analysis.plans.changes import format_history, plan_changes

    found = plan_changes(open_dataset(open_or_ingest_dataset(folder)), resources, level=level)
    print_result(found.to_dict() if as_json else format_history(found), wide=wide)
