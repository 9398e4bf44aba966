"""Command: citus-analysis run."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from citus_analysis.cli.options import complete_experiment_names
from citus_analysis.cli.output import parse_key_values, print_frame, print_json, print_result, show_live_progress
from citus_analysis.errors import UsageError
from citus_analysis.texts.words import make_printable, pluralize

if TYPE_CHECKING:
    from types import FrameType

    from citus_analysis.runner import Experiment
    from citus_analysis.runner.execute import RunnerSummary
    from citus_analysis.runner.plan import Choice, Configuration
    from citus_analysis.stats.paired_looks import PairsResult


@click.command("run")
@click.argument("experiment", metavar="EXPERIMENT.yml", required=False, shell_complete=complete_experiment_names)
@click.argument("cells", metavar="[CELL]...", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the artefact tree.")
@click.option("--resume", is_flag=True, help="Continue where an earlier call on DIR stopped.")
@click.option("--retry-failed", is_flag=True, help="Continue, and repeat failed runs.")
@click.option(
    "--retry-doubtful", is_flag=True, help="Continue, and repeat runs beside which the machines did other work."
)
@click.option("--more", type=click.IntRange(min=1), metavar="N", help="Continue with N more runs of each CELL.")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="The same as CELL: only this configuration or run (x-w3-t8-c, x-w3-t8-c#2), with * and ?; repeatable.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    callback=parse_key_values,
    metavar="FIELD=VALUE",
    help="Replace a value of the file; FIELD is dotted, such as target.nodes.0.host; repeatable.",
)
@click.option(
    "--pairs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Measure CELL against itself with --change, at most N times in turns; stop when the verdict stands.",
)
@click.option(
    "--change",
    "other",
    multiple=True,
    callback=parse_key_values,
    metavar="FIELD=VALUE",
    help="With --pairs: a value that the other side of each pair has instead; without, both sides are equal.",
)
@click.option(
    "--replace-table", is_flag=True, help="Drop a cluster's table usertable even if this tool did not create it."
)
@click.option(
    "--restore",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Only restore a cluster to its state before the experiment in DIR.",
)
@click.option("--check", is_flag=True, help="Only check cluster, programs and disk.")
@click.option("--dry-run", is_flag=True, help="Only print the plan and its expected duration.")
@click.option("--schema", is_flag=True, help="Print the JSON schema of experiment files, for editors.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan, the checks or the summary as one JSON document.")
def command(
    experiment: str | None,
    cells: tuple[str, ...],
    out: Path | None,
    resume: bool,
    replace_table: bool,
    restore: Path | None,
    retry_failed: bool,
    retry_doubtful: bool,
    more: int | None,
    only: tuple[str, ...],
    changes: dict[str, str],
    pairs: int | None,
    other: dict[str, str],
    check: bool,
    dry_run: bool,
    schema: bool,
    as_json: bool,
) -> int:
    """Launch an experiment and leave the files that `ingest` reads.

    EXPERIMENT.yml is a file, or the name of a shipped experiment (laptop, overhead, ...). CELL is a configuration or
    run (x-w3-t8-c, x-w3-t8-c#2); without CELL, all runs are made. Passwords are found by libpq's rules: PGPASSWORD,
    PGPASSFILE, PGSERVICE. `citus-analysis status DIR` shows the progress of an experiment.
    """
    from citus_analysis.runner.plan import Choice

    if schema:
        return _print_schema()
    if restore is not None:
        return _restore(restore)
    if experiment is None:
        raise UsageError("no experiment file is given", hint="name a file, or a shipped experiment such as laptop")
    if retry_doubtful and out is None:
        raise UsageError("no --out DIR is given", hint="name the folder of the runs")
    again = _find_doubtful_runs(out) if retry_doubtful and out is not None else frozenset[str]()
    choice = Choice((*cells, *only), retry_failed, more or 0, again)
    experiments = _build_experiments(experiment, changes, choice, pairs, other)
    if dry_run:
        return _print_plan(experiments, choice, out, pairs, as_json=as_json)
    if check:
        return _print_checks(experiments, out, as_json=as_json)
    if out is None:
        raise UsageError("no --out DIR is given", hint="name a folder for the artefact tree")
    if pairs:
        return _measure_pairs(experiments, out, pairs, choice, replace_table=replace_table, as_json=as_json)
    return _launch(experiments[0], out, choice, resume=resume, replace_table=replace_table, as_json=as_json)


def _find_doubtful_runs(out: Path) -> frozenset[str]:
    """The runs in an artefact tree whose status is doubtful, by the runner's names; what they are is printed."""
    from citus_analysis.cli.reading import open_or_ingest_dataset
    from citus_analysis.dataset import open_dataset

    runs = open_dataset(open_or_ingest_dataset(out)).runs()
    doubtful = runs.filter(runs["status"] == "doubtful").select("resource", "iteration", "status_reason")
    for resource, iteration, reason in doubtful.iter_rows():
        click.echo(make_printable(f"doubtful: {resource}#{iteration}: {reason}"), err=True)
    if doubtful.is_empty():
        raise UsageError("no run is doubtful", path=out, hint="`citus-analysis noise DIR` says what was measured")
    return frozenset(f"{resource}#{iteration}" for resource, iteration, _ in doubtful.iter_rows())


def _launch(
    experiment: Experiment, out: Path, choice: Choice, *, resume: bool, replace_table: bool, as_json: bool
) -> int:
    from citus_analysis.runner import run_experiment

    with _handle_sigterm_as_interrupt(), show_live_progress() as watch:
        summary = run_experiment(
            experiment, out, resume=resume, choice=choice, replace_table=replace_table, watch=watch
        )
    _print_summary(summary, out, as_json=as_json)
    return summary.exit_code


def _build_experiments(
    name: str, changes: dict[str, str], choice: Choice, pairs: int | None, other: dict[str, str]
) -> list[Experiment]:
    """The experiment and, for pairs, its change."""
    from citus_analysis.runner import load_experiment

    loaded = [load_experiment(name, changes)]
    if not pairs and not other:
        return loaded
    if pairs is None:
        raise UsageError("--change belongs to --pairs", hint="use --set to change the experiment itself")
    if len(choice.only) > 1:
        raise UsageError("pairs are of one configuration", hint="name one CELL")
    if choice.goes_on:
        raise UsageError(
            "--more, --retry-failed and --retry-doubtful do not go with --pairs", hint="repeat the call: it continues"
        )
    return [*loaded, load_experiment(name, {**changes, **other})]


def _print_pairs(experiments: Sequence[Experiment], choice: Choice, pairs: int, *, as_json: bool) -> int:
    import polars as pl

    from citus_analysis.runner.paired_session import plan_pairs

    base, change = experiments
    planned, estimate = plan_pairs(base, change, pairs, cell=next(iter(choice.only), None))
    print_frame(
        pl.DataFrame(
            [{"side": side, "most_runs": runs, **_describe_run(one)} for side, (one, runs) in planned.items()]
        ),
        "json" if as_json else "table",
    )
    click.echo(f"at most {pluralize(pairs, 'pair')}: {estimate}", err=as_json)
    return 0


def _measure_pairs(
    experiments: Sequence[Experiment],
    out: Path,
    pairs: int,
    choice: Choice,
    *,
    replace_table: bool,
    as_json: bool,
) -> int:
    from citus_analysis.runner.paired_session import measure_pairs

    base, change = experiments

    def show(result: PairsResult) -> None:
        click.echo(make_printable(f"pair {result.pairs}: {result.sentence()}"), err=True)

    with _handle_sigterm_as_interrupt(), show_live_progress() as watch:
        cell = next(iter(choice.only), None)
        result = measure_pairs(base, change, out, pairs, cell=cell, replace_table=replace_table, watch=watch, each=show)
    print_result({**asdict(result), "sentence": result.sentence()} if as_json else result.sentence())
    return result.exit_code


def _print_schema() -> int:
    from citus_analysis.runner.experiment import build_experiment_schema

    print_json(build_experiment_schema())
    return 0


def _restore(out: Path) -> int:
    from citus_analysis.runner import restore_cluster

    problems = restore_cluster(out)
    for problem in problems:
        click.echo(make_printable(problem), err=True)
    if not problems:
        click.echo("the cluster is as the experiment found it")
    return 1 if problems else 0


def _print_plan(
    experiments: Sequence[Experiment], choice: Choice, out: Path | None, pairs: int | None, *, as_json: bool
) -> int:
    import polars as pl

    from citus_analysis.runner.plan import plan_table_preparations
    from citus_analysis.runner.schedule import forecast_runs

    if pairs:
        return _print_pairs(experiments, choice, pairs, as_json=as_json)
    (experiment,) = experiments
    runs, estimate = forecast_runs(experiment, choice, out)
    rows = [
        {"order": number, "iteration": run.iteration, "table": table, **_describe_run(run.configuration)}
        for number, (run, table) in enumerate(
            zip(runs, plan_table_preparations(experiment, runs), strict=True), start=1
        )
    ]
    print_frame(pl.DataFrame(rows), "json" if as_json else "table")
    click.echo(f"{len(rows)} runs: {estimate}", err=as_json)
    return 0


def _describe_run(one: Configuration) -> dict[str, object]:
    return {
        "resource": one.resource,
        "phase": one.phase,
        "workload": one.workload,
        "threads": one.threads,
        "workers": one.workers,
        "drivers": one.drivers,
        "records": one.records,
        "operations": one.operations,
        "monitored": one.monitored,
        "settings": ", ".join(f"{name}={value}" for name, value in one.settings),
    }


def _print_checks(experiments: Sequence[Experiment], out: Path | None, *, as_json: bool) -> int:
    from citus_analysis.errors import NotReadyError
    from citus_analysis.runner.preflight import check_all

    checks = list(dict.fromkeys(check for experiment in experiments for check in check_all(experiment, out)))
    print_result(
        [asdict(check) for check in checks] if as_json else "\n".join(make_printable(str(check)) for check in checks)
    )
    return NotReadyError.exit_code if any(check.verdict == "failed" for check in checks) else 0


def _print_summary(summary: RunnerSummary, out: Path, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(summary))
        return
    for word, runs in (("degraded", summary.degraded), ("failed", summary.failed)):
        for run_id, reason in runs.items():
            click.echo(make_printable(f"{word}: {run_id}: {reason}"), err=True)
    for note in summary.notes:
        click.echo(make_printable(f"note: {note}"), err=True)
    if summary.stopped:
        hint = "fix the cause, then run again with --retry-failed"
        click.echo(make_printable(f"stopped: {summary.stopped} ({hint})"), err=True)
    degraded = f"{len(summary.degraded)} degraded, " if summary.degraded else ""
    ended = f"{len(summary.verified)} runs verified, {degraded}{len(summary.failed)} failed"
    counts = f"{ended}, {len(summary.skipped)} not needed"
    click.echo(f"{counts}; next: citus-analysis ingest {make_printable(str(out))} --out DATASET")


@contextmanager
def _handle_sigterm_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM as Ctrl-C, so that all started programs are ended; both are ignored while this is done."""
    both = (signal.SIGTERM, signal.SIGINT)

    def ignore(_number: int, _frame: FrameType | None) -> None:
        """Unlike SIG_IGN, it is not inherited by the programs that clean up."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for one in both:
            signal.signal(one, ignore)
        raise KeyboardInterrupt

    before = {one: signal.signal(one, interrupt) for one in both}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
