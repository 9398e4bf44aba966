"""Command: citus-analysis run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from citus_analysis.cli.output import print_frame, print_json, printable
from citus_analysis.cli.progress import terminal_bars

if TYPE_CHECKING:
    from types import FrameType

    from citus_analysis.runner import Experiment, RunnerEvent, RunnerSummary

__all__ = ["command"]


@click.command("run")
@click.argument("experiment", metavar="EXPERIMENT.yml", required=False)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the artefact tree.")
@click.option("--resume", is_flag=True, help="Go on where an earlier call on DIR stopped.")
@click.option(
    "--replace-table", is_flag=True, help="Drop a cluster's table usertable though this tool did not make it."
)
@click.option(
    "--restore",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Put a cluster back as the experiment in DIR found it, and run nothing.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan and start nothing.")
@click.option("--schema", is_flag=True, help="Print the JSON schema of experiment files, for editors.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan or the summary as one JSON document.")
def command(
    experiment: str | None,
    out: Path | None,
    resume: bool,
    replace_table: bool,
    restore: Path | None,
    dry_run: bool,
    schema: bool,
    as_json: bool,
) -> int:
    """Launch an experiment and leave the files that `ingest` reads.

    EXPERIMENT.yml is a file, or the name of a shipped experiment (laptop, overhead, ...). Passwords are found by
    libpq's rules: PGPASSWORD, PGPASSFILE, PGSERVICE.
    """
    from citus_analysis.errors import UsageError
    from citus_analysis.runner import experiment_schema, load_experiment, run_experiment

    if schema:
        print_json(experiment_schema())
        return 0
    if restore is not None:
        return _restore(restore)
    if experiment is None:
        raise UsageError("no experiment file is given", way_out="name one, or a shipped one such as laptop")
    loaded = load_experiment(experiment)
    if dry_run:
        _print_plan(loaded, as_json=as_json)
        return 0
    if out is None:
        raise UsageError("no --out DIR is given", way_out="name a folder for the artefact tree")
    with _termination_is_interruption(), _live_view() as watch:
        summary = run_experiment(loaded, out, resume=resume, replace_table=replace_table, watch=watch)
    _print_summary(summary, out, as_json=as_json)
    return summary.exit_code


def _restore(out: Path) -> int:
    from citus_analysis.runner import restore_cluster

    problems = restore_cluster(out)
    for problem in problems:
        click.echo(printable(problem), err=True)
    if not problems:
        click.echo("the cluster is as the experiment found it")
    return 1 if problems else 0


def _print_plan(experiment: Experiment, *, as_json: bool) -> None:
    import polars as pl

    from citus_analysis.runner import make_plan

    rows = [
        {
            "order": number,
            "resource": run.configuration.resource,
            "iteration": run.iteration,
            "phase": run.configuration.phase,
            "workload": run.configuration.workload,
            "threads": run.configuration.threads,
            "workers": run.configuration.workers,
            "drivers": run.configuration.drivers,
            "records": run.configuration.records,
            "operations": run.configuration.operations,
            "monitored": run.configuration.monitored,
            "settings": ", ".join(f"{name}={value}" for name, value in run.configuration.settings),
        }
        for number, run in enumerate(make_plan(experiment), start=1)
    ]
    print_frame(pl.DataFrame(rows), "json" if as_json else "table")


def _print_summary(summary: RunnerSummary, out: Path, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "verified": summary.verified,
                "degraded": dict(summary.degraded),
                "failed": dict(summary.failed),
                "skipped": summary.skipped,
                "notes": summary.notes,
            }
        )
        return
    for word, runs in (("degraded", summary.degraded), ("failed", summary.failed)):
        for run_id, reason in runs.items():
            click.echo(printable(f"{word}: {run_id}: {reason}"), err=True)
    for note in summary.notes:
        click.echo(printable(f"note: {note}"), err=True)
    degraded = f"{len(summary.degraded)} degraded, " if summary.degraded else ""
    ended = f"{len(summary.verified)} runs verified, {degraded}{len(summary.failed)} failed"
    counts = f"{ended}, {len(summary.skipped)} not needed"
    click.echo(f"{counts}; next: citus-analysis ingest {printable(str(out))} --out DATASET")


@contextmanager
def _termination_is_interruption() -> Iterator[None]:
    """SIGTERM ends what was started, as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _live_view() -> Iterator[Callable[[RunnerEvent], None]]:
    """Progress over the matrix with ETA, current throughput and failures, on a terminal; nothing in a pipe."""
    with terminal_bars("{task.description}", counted=True) as bars:
        if bars is None:
            yield lambda _event: None
            return
        task = bars.add_task("starting", total=None)

        def show(event: RunnerEvent) -> None:
            rate = "" if event.throughput_ops_s is None else f"  {event.throughput_ops_s:,.0f} operations/s"
            failed = f"  {event.failed} failed" if event.failed else ""
            bars.update(
                task, completed=event.done, total=event.planned, description=printable(f"{event.run_id}{rate}{failed}")
            )

        yield show
