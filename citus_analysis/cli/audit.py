"""Command: citus-analysis audit."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.output import print_frame, print_json

__all__ = ["command"]


@click.command("audit")
@click.argument("tables", metavar="[TABLE.csv ...]", nargs=-1, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(tables: tuple[Path, ...], as_json: bool) -> int:
    """Find where tables of results contradict themselves; without tables: those that ship with the library.

    Exit code 1 where something does.
    """
    from citus_analysis.published import audit

    result = audit(list(tables) or None)
    if as_json:
        print_json({"verdict": result.verdict, "findings": result.findings.to_dicts()})
    else:
        print_frame(result.findings, "table")
        click.echo(str(result))
    return 1 if result.has_red else 0
