"""Command: citus-analysis check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from citus_analysis.cli.options import AS_JSON, PLACE, SHARE
from citus_analysis.cli.output import print_json
from citus_analysis.cli.reading import open_or_ingest_dataset
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import UsageError
from citus_analysis.texts.words import make_printable

if TYPE_CHECKING:
    from citus_analysis.dataset import Dataset


@click.command("check")
@click.argument("documents", metavar="DOCUMENT...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--dataset", type=PLACE, metavar="DIR", help="Dataset (or raw files) that the numbers are of.")
@click.option("--write", is_flag=True, help="Fill and update the bound numbers; nothing else in a document changes.")
@click.option("--suggest", is_flag=True, help="Propose forms for numbers that are bound to nothing; writes nothing.")
@click.option(
    "--level", default=LEVEL, show_default=True, type=SHARE, help="Confidence level of intervals, which limit digits."
)
@AS_JSON
def command(
    documents: tuple[Path, ...], dataset: Path | str | None, write: bool, suggest: bool, level: float, as_json: bool
) -> int:
    """Check the numbers of documents by the data that they are bound to: Markdown, LaTeX, HTML, notebooks.

    A line for each number that is stale, wrong in its last digit, printed with more digits than its interval supports,
    in a wrong unit or without runs; for sums of printed numbers that do not add up; and for figures that were drawn of
    other data. Exit code 1: there is such a line. Folders stand for the documents in them.
    """
    from citus_analysis.dataset import open_dataset
    from citus_analysis.documents import check_documents
    from citus_analysis.documents.checking import describe_row

    if write and suggest:
        raise UsageError("--write and --suggest exclude each other", hint="look at the suggestions first")
    source = None if dataset is None else open_dataset(open_or_ingest_dataset(dataset))
    if suggest:
        if source is None:
            raise UsageError("--suggest looks for values of a dataset", hint="name it or its raw files: --dataset DIR")
        return _suggest(documents, source, level, as_json)
    found = check_documents(documents, source, write=write, level=level)
    if as_json:
        print_json(found.to_dict())
        return found.exit_code
    for row in found.wrong.iter_rows(named=True):
        click.echo(make_printable(describe_row(row)))
    for path in found.written:
        click.echo(make_printable(f"{path}: written"))
    click.echo(found.summary_lines()[0])
    return found.exit_code


def _suggest(documents: tuple[Path, ...], source: Dataset, level: float, as_json: bool) -> int:
    from citus_analysis.documents import suggest_bindings

    found = suggest_bindings(documents, source, level=level)
    if as_json:
        print_json(found.to_dict())
        return 0
    said = None
    for row in found.suggestions.iter_rows(named=True):
        several = f"{row['alternatives']} values fit" if row["alternatives"] > 1 else "one value fits"
        if (head := (row["document"], row["place"])) != said:
            click.echo(make_printable(f"{row['document']}:{row['line']}: {row['printed']}: {several}"))
            said = head
        click.echo(make_printable(f"    {row['marked']}"))
    click.echo(found.summary_lines()[0])
    return 0
