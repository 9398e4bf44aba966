"""Command: citus-analysis track."""

from __future__ import annotations

from pathlib import Path

import click

from citus_analysis.cli.options import (
    AS_JSON,
    INCLUDE_STATUS,
    METRICS_OPTION,
    ONLY,
    PLACE,
    POOL,
    SHARE,
    WIDE,
    parse_column_names,
    parse_column_values,
)
from citus_analysis.cli.output import get_output_width, print_result
from citus_analysis.cli.reading import open_or_ingest_dataset
from citus_analysis.defaults import CHANGE_ALPHA
from citus_analysis.texts.words import make_printable


@click.command("track")
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=PLACE)
@METRICS_OPTION
@POOL
@ONLY
@INCLUDE_STATUS
@click.option(
    "--alpha",
    default=CHANGE_ALPHA,
    show_default=True,
    type=SHARE,
    help="Probability of a false alarm in a series without changes.",
)
@click.option(
    "--since",
    metavar="DIR|TIME",
    help="Exit code as of `gate` for changes that were first reported, or still went on, from this dataset or time on.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="OUT", help="Also write the report `track` there.")
@AS_JSON
@WIDE
def command(
    folders: tuple[Path | str, ...],
    metrics: tuple[str, ...],
    pool: tuple[str, ...],
    only: tuple[str, ...],
    include_status: tuple[str, ...],
    alpha: float,
    since: str | None,
    out: Path | None,
    as_json: bool,
    wide: bool,
) -> int:
    """Find where metrics changed over the runs of several datasets, and other changes near them.

    Runs are ordered by their begin; each metric and configuration is a series. Each change has its size and place with
    intervals, and is new, confirmed, revised or withdrawn compared with earlier looks, one after each dataset and day.
    Settings, versions, CPU time per operation and balance that changed within two runs of a change are listed with it.
    """
    from citus_analysis.dataset import open_dataset
    from citus_analysis.tracking import format_track, track

    datasets = [open_dataset(open_or_ingest_dataset(folder)) for folder in folders]
    columns, values = parse_column_names(pool), parse_column_values(only)
    begin = Path(since).name if since and since in map(str, folders) else since
    found = track(datasets, metrics, pool=columns, only=values, alpha=alpha, include_status=include_status, since=begin)
    print_result(found.to_dict() if as_json else format_track(found, width=get_output_width(wide=wide)), wide=wide)
    if out is not None:
        parameters = {
            "datasets": ",".join(map(str, folders)),
            "metrics": ",".join(metrics),
            "pool": ",".join(columns),
            "only": ",".join(only),
            "include_status": ",".join(include_status),
            "alpha": alpha,
            "since": begin or "",
        }
        from citus_analysis.report import render_report

        page = render_report("track", folders[-1], out, parameters).html
        click.echo(make_printable(str(page)), err=as_json)
    return found.exit_code
