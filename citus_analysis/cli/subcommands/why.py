"""Command: citus-analysis why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from citus_analysis.cli.options import (
    AS_JSON,
    INCLUDE_STATUS,
    LEVEL_OPTION,
    MARGIN_OPTION,
    ONLY,
    PLACE,
    WIDE,
    parse_column_values,
)
from citus_analysis.cli.output import print_result
from citus_analysis.cli.reading import open_or_ingest_dataset
from citus_analysis.redaction import redact_name
from citus_analysis.texts.words import make_printable

if TYPE_CHECKING:
    from citus_analysis.attribution import Explanation
    from citus_analysis.dataset import Dataset

#: Statements of a page that open.
_OPENED = 20

_SIDE = "resource (or pattern), set-up, variant, system or run; COLUMN=VALUE; or FROM..UNTIL in UTC"


@click.command("why")
@click.argument("folder", metavar="DIR", type=PLACE)
@click.argument("second", metavar="[DIR2]", type=PLACE, required=False)
@click.option("--base", default="", help=f"Side to compare with: {_SIDE}.")
@click.option("--other", default="", help="The other side, of DIR2 if that is given. Without a side: all runs of it.")
@ONLY
@INCLUDE_STATUS
@MARGIN_OPTION
@LEVEL_OPTION
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="OUT", help="Also write pages of the statements with most of it."
)
@AS_JSON
@WIDE
def command(
    folder: Path | str,
    second: Path | str | None,
    base: str,
    other: str,
    only: tuple[str, ...],
    include_status: tuple[str, ...],
    margin: float,
    level: float,
    out: Path | None,
    as_json: bool,
    wide: bool,
) -> None:
    """Explain a difference of response times: which statements, segments and nodes it comes from.

    The parts add up to the difference. They come from traced statements of both sides; with server logs alone, give two
    windows of time or two datasets. Measures of the nodes that differ as well are named beside, as associations. The
    pages of --out show, for each named part, the statements that carry most of it, down to the lines of the logs.
    """
    from citus_analysis.attribution import why
    from citus_analysis.attribution.sentences import format_explanation
    from citus_analysis.dataset import open_dataset

    dataset = open_dataset(open_or_ingest_dataset(folder))
    other_dataset = open_dataset(open_or_ingest_dataset(second)) if second is not None else dataset
    found = why(
        dataset,
        base,
        other,
        other_source=other_dataset,
        labels=_choose_dataset_labels(folder, second, base, other),
        only=parse_column_values(only),
        level=level,
        margin=margin,
        include_status=include_status,
    )
    print_result(found.to_dict() if as_json else format_explanation(found), wide=wide)
    if out is not None:
        _write_pages(found, {"base": dataset, "other": other_dataset}, out)


def _write_pages(found: Explanation, datasets: dict[str, Dataset], out: Path) -> None:
    """One page for each part whose statements are known; what was written is said beside the result."""
    from citus_analysis.attribution.sentences import describe_top_contributors
    from citus_analysis.explorer import Exploration, StatementSelection, freeze

    explorations = {side: Exploration(dataset) for side, dataset in datasets.items()}
    out.mkdir(parents=True, exist_ok=True)
    for number, cause in enumerate(found.carried, 1):
        if cause.top_contributors is not None:
            page = out / f"part-{number}.html"
            freeze(
                explorations[cause.top_contributors.side],
                page,
                StatementSelection.of(cause.top_contributors.selection),
                statements=_OPENED,
            )
            click.echo(f"{make_printable(str(page))}: {describe_top_contributors(cause)}", err=True)
    if not found.carried:
        click.echo("no page: no part of the difference is of traced statements", err=True)


def _choose_dataset_labels(folder: Path | str, second: Path | str | None, base: str, other: str) -> tuple[str, str]:
    """Names of two datasets in sentences, where nothing else names the sides: what differs of the places typed."""
    if second is None or base or other:
        return "", ""
    apart = [
        (one.name.partition(".")[0], two.name.partition(".")[0]) if one.is_file() else (one.name, two.name)
        for one, two in zip(_list_path_and_parents(folder), _list_path_and_parents(second), strict=False)
        if one.name != two.name
    ]
    first, other_one = apart[0] if apart else ("", "")
    return redact_name(first), redact_name(other_one)


def _list_path_and_parents(place: Path | str) -> list[Path]:
    path = Path(place)
    return [path, *path.parents]
