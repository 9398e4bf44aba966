"""Command: citus-analysis ingest."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import PLACE, SOURCE
from citus_analysis.cli.output import parse_key_values, print_result
from citus_analysis.cli.reading import read_sources
from citus_analysis.dataset.identity import FACTS
from citus_analysis.formats.parsing.format import BUILT_IN_OPTIONS


def _write_ingest_help() -> str:
    facts, options = (", ".join(names) for names in (FACTS, [option.name for option in BUILT_IN_OPTIONS]))
    return f"""Read raw files into a dataset of Parquet tables.

    Files that have not changed since the last ingest are not read again. Facts for --meta: {facts}; options of formats:
    {options}.
    """


@click.command("ingest", help=_write_ingest_help())
@click.argument("sources", metavar="SRC...", nargs=-1, required=True, type=SOURCE)
@click.option("--out", required=True, type=PLACE, metavar="DIR|URL", help="The dataset: a folder, or s3://...")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Threads; default: all cores.")
@click.option("--cluster", metavar="ADDRESS", help="Read by Dask: local:N processes, or a scheduler's tcp://HOST:PORT.")
@click.option("--format", "format_", metavar="F", help="Read every file as this format instead of recognising it.")
@click.option(
    "--meta", multiple=True, callback=parse_key_values, metavar="K=V", help="A fact about all files; repeatable."
)
@click.option("--strict", is_flag=True, help="Leave the dataset unchanged if any line is rejected (exit code 3).")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON document.")
def command(
    sources: tuple[Path | str, ...],
    out: Path | str,
    jobs: int | None,
    cluster: str | None,
    format_: str | None,
    meta: dict[str, str],
    strict: bool,
    as_json: bool,
) -> int:
    """Read raw files into a dataset."""
    summary = read_sources(sources, out, jobs=jobs, cluster=cluster, format_=format_, meta=meta, strict=strict)
    print_result(summary.to_dict() if as_json else str(summary))
    return summary.exit_code
