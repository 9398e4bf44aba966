"""Command: citus-analysis report."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.output import key_values, printable

__all__ = ["command"]


@click.command("report")
@click.argument("name", metavar="NAME|all")
@click.option("--dataset", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Folder of the dataset.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="OUT", help="Folder for the reports.")
@click.option("-p", "parameters", multiple=True, callback=key_values, metavar="K=V", help="A parameter; repeatable.")
@click.option("--no-html", is_flag=True, help="Write the executed notebook and the CSV files only.")
def command(name: str, dataset: Path, out: Path, parameters: dict[str, str], no_html: bool) -> None:
    """Make a report of a dataset: executed notebook, self-contained HTML page, CSV of every figure's table.

    Unknown parameters and values of the wrong type are refused before anything is executed.
    """
    from citus_analysis.report import render_reports

    rendered = render_reports(name, dataset, out, parameters, html=not no_html)
    for left_out, reason in rendered.left_out.items():
        click.echo(printable(f"left out: {left_out}: {reason}"), err=True)
    for result in rendered.results:
        click.echo(printable(str(result.notebook if result.html is None else result.html)))
        for finding in result.findings:
            click.echo(f"  {printable(finding)}")
