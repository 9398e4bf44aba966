"""Command: citus-analysis serve."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import PLACE
from citus_analysis.cli.reading import open_or_ingest_dataset
from citus_analysis.redaction import redact_name

#: As in `citus_analysis.agents.isolation`, which is imported when it is needed.
_SECONDS = 60.0
_MEMORY_MB = 4096


@click.command("serve")
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=PLACE)
@click.option("--mcp", is_flag=True, help="By the Model Context Protocol, over standard input and output. Required.")
@click.option("--port", type=click.IntRange(1, 65_535), help="Instead serve HTTP at http://127.0.0.1:PORT/mcp.")
@click.option("--seconds", default=_SECONDS, show_default=True, type=click.FloatRange(0.1), help="Limit of a question.")
@click.option(
    "--memory-mb", default=_MEMORY_MB, show_default=True, type=click.IntRange(64), help="Memory of the answers, in MiB."
)
def command(folders: tuple[Path | str, ...], mcp: bool, port: int | None, seconds: float, memory_mb: int) -> None:
    """Answer questions of programs about datasets, read-only.

    Tools: inspect, runs, compare, scale, why, what_if, changes, slow_statements, trace, log_lines, plans, sql, origin,
    limits.
    Each answer has at most 2 kB, with the verdict, its interval and where the numbers are from, and pages for more.
    Nothing is written, and nothing is read but the datasets and the files that they name.
    """
    from citus_analysis.core.extras import require_extra
    from citus_analysis.errors import UsageError

    if not mcp:
        raise UsageError("serve needs --mcp, the only protocol that it speaks", hint="citus-analysis serve --mcp DIR")
    require_extra("mcp", "mcp", "serve --mcp")
    places = {name: str(open_or_ingest_dataset(folder)) for name, folder in _name_datasets(folders).items()}
    from citus_analysis.agents.isolation import IsolatedTools
    from citus_analysis.agents.protocol import build_server, serve_on_loopback, serve_on_stdio
    from citus_analysis.agents.tools import Tools

    # Refuses what is no dataset before a client asks.
    Tools(places)
    tools = IsolatedTools(places, seconds, memory_mb)
    server = build_server(tools.ask)
    try:
        if port is None:
            serve_on_stdio(server)
        else:
            click.echo(f"http://127.0.0.1:{port}/mcp", err=True)
            serve_on_loopback(server, port)
    finally:
        tools.close()


def _name_datasets(folders: tuple[Path | str, ...]) -> dict[str, Path | str]:
    """Names of datasets, those of their folders or files without the ending, each once."""
    found: dict[str, Path | str] = {}
    for folder in folders:
        name = redact_name(Path(folder).resolve().stem if isinstance(folder, Path) else folder)
        found[name if name not in found else f"{name}-{len(found) + 1}"] = folder
    return found
