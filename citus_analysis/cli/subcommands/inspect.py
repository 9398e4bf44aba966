"""Command: citus-analysis inspect."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import AS_JSON, SOURCE
from citus_analysis.cli.output import parse_key_values, print_result, report_files_looked_at


@click.command("inspect")
@click.argument("sources", metavar="SRC...", nargs=-1, required=True, type=SOURCE)
@click.option(
    "--meta", multiple=True, callback=parse_key_values, metavar="K=V", help="A fact about all files; repeatable."
)
@click.option("--write", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write an identity.yml.")
@AS_JSON
def command(sources: tuple[Path | str, ...], meta: dict[str, str], write: Path | None, as_json: bool) -> None:
    """Say what files are, and how the study that they come from is designed.

    Only names and first lines are read, and no dataset is written. --write writes an identity.yml that states what was
    read off names, to be corrected and put into the folder.
    """
    from citus_analysis.cli.options import expand_sources
    from citus_analysis.core.output_files import open_output
    from citus_analysis.dataset import inspect
    from citus_analysis.errors import UsageError

    if write is not None and write.is_file():
        raise UsageError("exists already", path=write, hint="name another file, or remove it first")
    with report_files_looked_at() as progress:
        found = inspect(expand_sources(sources), progress=progress, **meta)
    if write is not None:
        try:
            with open_output(write) as out:
                out.write(found.identity_yml().encode())
        except OSError as error:
            raise UsageError(f"cannot be written: {error.strerror}", path=write, hint="name another file") from error
    print_result(found.to_dict() if as_json else str(found))
