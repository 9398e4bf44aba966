"""Command: citus-analysis pack."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

from citus_analysis.cli.options import AS_JSON
from citus_analysis.cli.output import print_result

_UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def _parse_size(_context: click.Context, _parameter: click.Parameter, value: str) -> int:
    match = re.fullmatch(r"(\d+) ?([KMG]?)i?B?", value.strip(), re.IGNORECASE)
    if match is None:
        raise click.BadParameter(f"{value!r} is no size such as 100MB")
    return int(match[1]) * _UNITS[match[2].upper()]


@click.command("pack")
@click.argument("dataset", metavar="DATASET", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="FOLDER", help="The packed dataset.")
@click.option("--raw", type=click.Path(path_type=Path), metavar="FOLDER", help="Where the raw files are now.")
@click.option(
    "--raw-limit",
    default="100MB",
    show_default=True,
    callback=_parse_size,
    metavar="SIZE",
    help="Larger files: hash only.",
)
@click.option("--reports", default="all", show_default=True, metavar="all|none|NAME,...", help="Reports to make.")
@click.option("--claims", type=click.Path(path_type=Path), metavar="FILE", help="Claims about the data, in YAML.")
@click.option(
    "--wheel",
    "wheels",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A wheel of citus-analysis to add, for machines that cannot get it from an index; repeatable.",
)
@AS_JSON
def command(
    dataset: Path,
    out: Path,
    raw: Path | None,
    raw_limit: int,
    reports: str,
    claims: Path | None,
    wheels: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Pack a dataset, or raw files, with all that reproduces it.

    FOLDER gets the raw files without secrets, the tables made of them, reports, digests of all rows, verdicts,
    versions, a description of the tables (Frictionless) and of the whole (RO-Crate). citus-analysis verify FOLDER
    computes everything again.
    """
    from citus_analysis.research_object import pack

    chosen = reports if reports in ("all", "none") else [name.strip() for name in reports.split(",") if name.strip()]
    packed = pack(dataset, out, raw=raw, raw_limit=raw_limit, reports=chosen, claims=claims, wheels=wheels)
    print_result(packed.to_dict() if as_json else f"{packed}\nverify it: citus-analysis verify {out}")
