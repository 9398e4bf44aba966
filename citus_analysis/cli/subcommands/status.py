"""Command: citus-analysis status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from citus_analysis.cli.output import print_frame, print_json
from citus_analysis.texts.words import make_printable

if TYPE_CHECKING:
    from citus_analysis.runner.schedule import Overview, RunState


@click.command("status")
@click.argument("out", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print every run as one JSON document.")
def command(out: Path, as_json: bool) -> int:
    """Show the state of an experiment: runs done, failed (and why) and left, and the time they will take.

    DIR is the folder of `run --out`; a runner may be active in it. Exit code 1: a run failed or is degraded.
    """
    from citus_analysis.runner import read_overview

    overview = read_overview(out)
    if as_json:
        left = {"seconds": overview.left.seconds, "from_ended_runs": overview.left.ended, "text": str(overview.left)}
        runs = [asdict(run) for run in overview.runs]
        print_json(
            {
                "experiment": overview.name,
                "running": overview.running,
                "left": left,
                "runs": runs,
                "unrestored": list(overview.unrestored),
                "ended": list(overview.ended),
            }
        )
    else:
        _print_table(overview)
    return 1 if overview.count("degraded", "failed") else 0


def _print_table(overview: Overview) -> None:
    import polars as pl

    by_resource: dict[str, list[RunState]] = {}
    for run in sorted(overview.runs, key=lambda run: (run.resource, run.iteration)):
        by_resource.setdefault(run.resource, []).append(run)
    print_frame(pl.DataFrame([_build_status_row(resource, runs) for resource, runs in by_resource.items()]), "table")
    for run in overview.runs:
        if run.state in ("degraded", "failed"):
            click.echo(make_printable(f"{run.state}: {run.run_id}: {run.reason}"))
        if run.state == "begun":
            click.echo(f"{'in progress' if overview.running else 'interrupted'}: {run.run_id}, {run.reached}")
    if overview.ended:
        click.echo(f"ended, left by a runner that was killed: {', '.join(overview.ended)}")
    click.echo(_summarise_status(overview))


def _build_status_row(resource: str, runs: Sequence[RunState]) -> dict[str, object]:
    measured = [run.throughput_ops_s for run in runs if run.throughput_ops_s is not None]
    shares = [run.shares for run in runs if run.shares]
    nodes = dict.fromkeys(node for share in shares for node in share)
    means = {node: sum(share.get(node, 0.0) for share in shares) / len(shares) for node in nodes}
    return {
        "configuration": resource,
        "verified": sum(run.state == "verified" for run in runs),
        "failed": sum(run.state in ("degraded", "failed") for run in runs),
        "left": sum(run.state in ("open", "begun") for run in runs),
        "mean operations/s": round(sum(measured) / len(measured), 1) if measured else None,
        "share by node": ", ".join(f"{node}: {share:.0%}" for node, share in means.items()) or None,
    }


def _summarise_status(overview: Overview) -> str:
    left = overview.count("open", "begun")
    verified, failed = overview.count("verified"), overview.count("degraded", "failed")
    counts = f"{verified} of {len(overview.runs)} runs verified, {failed} failed"
    unnecessary = f", {overview.count('not needed')} not needed" if overview.count("not needed") else ""
    restored = f"; not restored: {'; '.join(overview.unrestored)} (run --restore DIR)" if overview.unrestored else ""
    if not left:
        return f"{counts}{unnecessary}, none left{restored}"
    work = "a runner is at work" if overview.running else "no runner is active: continue with run --resume"
    return f"{counts}{unnecessary}, {left} left ({overview.left}); {work}{restored}"
