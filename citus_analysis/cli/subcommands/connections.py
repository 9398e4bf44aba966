"""Command: citus-analysis connections."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import AS_JSON, INCLUDE_STATUS, PLACE, SHARE, WIDE
from citus_analysis.cli.output import print_result
from citus_analysis.cli.reading import open_or_ingest_dataset
from citus_analysis.defaults import LEVEL, MARGIN


@click.command("connections")
@click.argument("folder", metavar="DIR", type=PLACE)
@click.option(
    "--memory",
    "memory_gb",
    type=click.FloatRange(min=0, min_open=True),
    metavar="GB",
    help="Memory that the servers of a node may use, without the file cache of the operating system.",
)
@click.option("--workers", type=click.IntRange(min=0), help="Nodes that clients connect to. Default: as measured.")
@click.option("--resources", default="*", show_default=True, help="Resources that enter, as glob patterns.")
@INCLUDE_STATUS
@click.option("--margin", default=MARGIN, show_default=True, type=SHARE, help="Relative difference that is ignored.")
@click.option("--level", default=LEVEL, show_default=True, type=SHARE, help="Confidence level.")
@AS_JSON
@WIDE
def command(
    folder: Path | str,
    memory_gb: float | None,
    workers: int | None,
    resources: str,
    include_status: tuple[str, ...],
    margin: float,
    level: float,
    as_json: bool,
    wide: bool,
) -> None:
    """Say how many client connections fit into a node's memory, and how many the throughput needs.

    Reads what the runner samples: memory and CPU time of each backend, and sessions. On a Citus cluster the connections
    that a client's session has on other nodes are counted as well. The curve has throughput and memory of each number
    of connections that was measured; nothing is said of others.
    """
    from citus_analysis.bottleneck.connections import advise_connections, format_advice
    from citus_analysis.dataset import open_dataset

    found = advise_connections(
        open_dataset(open_or_ingest_dataset(folder)),
        memory_gb,
        workers=workers,
        resources=resources,
        level=level,
        margin=margin,
        include_status=include_status,
    )
    print_result(found.to_dict() if as_json else format_advice(found), wide=wide)
