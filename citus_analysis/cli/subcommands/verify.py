"""Command: citus-analysis verify."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.output import print_json
from citus_analysis.texts.printable import printable


@click.command("verify")
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(folder: Path, as_json: bool) -> int:
    """Compute a packed dataset again, and compare: the hash of every file, the rows of every table, every verdict.

    Exit code 1: something differs, and is named; 3: the folder is no packed dataset.
    """
    from citus_analysis.research_object import verify

    verified = verify(folder)
    if as_json:
        print_json(verified.to_dict())
    else:
        for line in str(verified).splitlines():
            click.echo(printable(line))
    return verified.exit_code
