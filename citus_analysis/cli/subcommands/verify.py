"""Command: citus-analysis verify."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import AS_JSON
from citus_analysis.cli.output import print_result


@click.command("verify")
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@AS_JSON
def command(folder: Path, as_json: bool) -> int:
    """Compute a packed dataset again, and compare: the hash of every file, the rows of every table, every verdict.

    Exit code 1: something differs, and is named; 3: the folder is no packed dataset.
    """
    from citus_analysis.research_object import verify

    verified = verify(folder)
    print_result(verified.to_dict() if as_json else str(verified))
    return verified.exit_code
