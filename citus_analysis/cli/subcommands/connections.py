"""Command: citus-analysis connections."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import (
    AS_JSON,
    INCLUDE_STATUS,
    LEVEL_OPTION,
    MARGIN_OPTION,
    PLACE,
    RESOURCES,
    WIDE,
)
from citus_analysis.cli.output import print_result
from citus_analysis.cli.reading import open_or_ingest_dataset


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
@RESOURCES
@INCLUDE_STATUS
@MARGIN_OPTION
@LEVEL_OPTION
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
