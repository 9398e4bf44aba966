"""Command: citus-analysis scale."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import WIDE, Chosen, add_configuration_options
from citus_analysis.cli.output import print_result
from citus_analysis.cli.reading import open_or_ingest_dataset
from citus_analysis.defaults import METRIC


@click.command("scale")
@add_configuration_options
@click.option("--x", default="workers", show_default=True, help="Size: workers, threads, or another numeric column.")
@click.option("--metric", default=METRIC, show_default=True, help="A rate; more is better.")
@click.option("--base", type=float, help="Size to which speedup refers. Default: the smallest of each configuration.")
@WIDE
def command(
    folder: Path | str, x: str, metric: str, base: float | None, chosen: Chosen, as_json: bool, wide: bool
) -> None:
    """Speedup, efficiency, psi and scalability models per configuration.

    Runs form a curve if the rest of their set-up is equal. Numbers and verdicts are those of `compare`.
    Runs with the status ok are used; --include-status degraded adds those.
    """
    from citus_analysis.dataset import open_dataset
    from citus_analysis.scaling import scale_runs
    from citus_analysis.scaling.curves import format_scaling

    study = scale_runs(open_dataset(open_or_ingest_dataset(folder)), x, metric, base, **chosen)
    print_result(study.to_dict() if as_json else format_scaling(study), wide=wide)
