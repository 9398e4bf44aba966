"""Command: citus-analysis claims."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import AS_JSON, LEVEL_OPTION, PLACE
from citus_analysis.cli.output import print_json
from citus_analysis.cli.reading import open_or_ingest_dataset
from citus_analysis.texts.words import make_printable


@click.command("claims")
@click.argument("files", metavar="[CLAIMS.yml ...]", nargs=-1, type=click.Path(path_type=Path))
@click.option("--dataset", type=PLACE, metavar="DIR", help="Dataset (or raw files) that the claims are judged by.")
@click.option("--out", type=click.Path(path_type=Path), metavar="PAGE.html", help="Write the verdicts as a page, too.")
@LEVEL_OPTION
@AS_JSON
def command(files: tuple[Path, ...], dataset: Path | str | None, out: Path | None, level: float, as_json: bool) -> int:
    """Judge claims by the runs of a dataset: exit code 0 all supported, 1 one contradicted, 4 undecided or no data.

    For undecided claims, the number of further runs that would decide is printed. Without files, the claims that ship
    with the library are judged; without a dataset, by the numbers that their publications print, and the exit code is
    0. Exit code 3: a file cannot be read.
    """
    from citus_analysis.dataset import open_dataset
    from citus_analysis.published import judge_claims

    found = judge_claims(None if dataset is None else open_dataset(open_or_ingest_dataset(dataset)), files, level)
    if out is not None:
        from citus_analysis.core.output_files import open_output
        from citus_analysis.report.claims import render_claims

        with open_output(out) as page:
            page.write(render_claims(found).encode())
    if as_json:
        print_json(found.to_dict())
    else:
        for row in found.claims.iter_rows(named=True):
            click.echo(make_printable(f"{row['verdict']}: {row['claim']}"))
            click.echo(
                make_printable(f"    {row['source']}, {row['place']}; by {row['judged_by']}: {row['explanation']}")
            )
        click.echo("\n".join(found.summary_lines()))
    return found.exit_code if files or dataset is not None else 0
