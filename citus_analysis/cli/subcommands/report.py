"""Command: citus-analysis report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import click

from citus_analysis.cli.options import PLACE, complete_report_names, report_parameters
from citus_analysis.cli.output import parse_key_values, show_progress_bars
from citus_analysis.cli.reading import open_or_ingest_dataset
from citus_analysis.texts.names import convert_to_place
from citus_analysis.texts.words import make_printable

if TYPE_CHECKING:
    from rich.progress import TaskID

    from citus_analysis.report.render import ProgressCallback


@click.command("report")
@click.argument("name", metavar="NAME|FILE.ipynb|all", shell_complete=complete_report_names)
@click.argument("places", metavar="DIR|SRC...", nargs=-1, type=PLACE)
@click.option("--dataset", type=PLACE, metavar="DIR", help="The same as DIR.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="OUT", help="Folder for the reports.")
@click.option(
    "-p",
    "parameters",
    multiple=True,
    callback=parse_key_values,
    metavar="K=V",
    shell_complete=report_parameters,
    help="A parameter; repeatable.",
)
@click.option("--title", default="Reports", show_default=True, help="Heading of the index of several reports.")
@click.option("--author", default="", metavar="TEXT", help="Who made the reports, below that heading.")
@click.option("--notes", default="", metavar="TEXT", help="Text below that, such as what was asked.")
@click.option("--no-html", is_flag=True, help="Write the executed notebook and the CSV files only.")
def command(
    name: str,
    places: tuple[Path | str, ...],
    dataset: Path | str | None,
    out: Path,
    parameters: dict[str, str],
    title: str,
    author: str,
    notes: str,
    no_html: bool,
) -> None:
    """Make a report of the dataset in DIR: executed notebook, self-contained HTML page, CSV of every figure's table.

    Raw files (SRC...) are read into OUT/dataset first. Unknown parameters and values of the wrong type are rejected
    before a notebook is executed.
    """
    from citus_analysis.report import render_reports

    source = open_or_ingest_dataset(*_choose_given_places(places, dataset), into=out / "dataset")
    # The other dataset of the report `why` may be raw files as well.
    if second := parameters.get("second"):
        parameters["second"] = str(open_or_ingest_dataset(convert_to_place(second), into=out / "second-dataset"))
    with _report_render_progress() as progress:
        rendered = render_reports(
            name, source, out, parameters, html=not no_html, progress=progress, title=title, author=author, notes=notes
        )
    for left_out, reason in rendered.left_out.items():
        click.echo(make_printable(f"left out: {left_out}: {reason}"), err=True)
    for result in rendered.results:
        click.echo(make_printable(str(result.notebook if result.html is None else result.html)))
        for finding in result.findings:
            click.echo(f"  {make_printable(finding)}")


def _choose_given_places(places: tuple[Path | str, ...], option: Path | str | None) -> tuple[Path | str, ...]:
    from citus_analysis.errors import UsageError

    if option is not None and places not in ((), (option,)):
        problem = f"two datasets are given, {places[0]} and --dataset {option}"
        raise UsageError(problem, hint="make one report after the other")
    given = places if option is None else (option,)
    if not given:
        raise UsageError("no dataset is given", hint="citus-analysis report NAME DIR --out OUT")
    return given


@contextmanager
def _report_render_progress() -> Iterator[ProgressCallback | None]:
    with show_progress_bars("{task.description:>12}") as bars:
        if bars is None:
            yield None
            return
        tasks: dict[str, TaskID] = {}
        lock = Lock()
        # Shown during the seconds before the first cell is done.
        starting = bars.add_task("starting", total=None)

        def show(report: str, done: int, cells: int) -> None:
            with lock:
                if report not in tasks:
                    tasks[report] = bars.add_task(report, total=cells)
            bars.update(starting, visible=False)
            bars.update(tasks[report], completed=done)

        yield show
