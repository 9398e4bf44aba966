"""Command: citus-analysis audit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from citus_analysis.cli.output import print_json
from citus_analysis.texts.words import make_printable

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

    from citus_analysis.published.auditing import AuditResult

#: Gaps of one table without repeats that are listed one by one.
_MOST_GAPS: Final = 6
_STYLES: Final = {"red": "bold red", "amber": "bold yellow", "green": "green"}


@click.command("audit")
@click.argument("paths", metavar="[TABLE.csv|RESULT.json|DATASET ...]", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--runs",
    "single_runs",
    type=click.Path(path_type=Path),
    help="Single runs behind the tables (CSV, dataset or raw files): which of them give each row.",
)
@click.option("--all", "everything", is_flag=True, help="List consistent statements (green) as well.")
@click.option("--json", "as_json", is_flag=True, help="Print all findings as one JSON document.")
def command(paths: tuple[Path, ...], single_runs: Path | None, everything: bool, as_json: bool) -> int:
    """Find where tables of results, or the runs of datasets, contradict themselves (red) or are doubtful (amber).

    Of results of ClickBench and job reports of HammerDB, it says which gaps between systems their repeats decide.

    Exit code 1: a table or a run contradicts itself. Without arguments, the tables that ship with the library are
    audited; their contradictions are the authors' responsibility, so the exit code is 0.
    """
    results = list(_audit_paths(paths, single_runs))
    verdict = next((word for word in _STYLES if any(result.verdict == word for result in results)), "green")
    if as_json:
        found = [finding for result in results for finding in result.findings.to_dicts()]
        print_json({"verdict": verdict, "findings": found})
    else:
        for result in results:
            click.echo(
                _render_findings(result.findings if everything else _select_relevant_findings(result.findings)),
                nl=False,
            )
            hint = "" if everything else " (--all lists the green ones too)"
            click.echo(f"Rows that were checked{hint}: {result}")
            _print_decided_gaps(result.findings)
    return int(bool(paths) and verdict == "red")


def _audit_paths(paths: tuple[Path, ...], single_runs: Path | None) -> Iterator[AuditResult]:
    """Findings of all tables together, and of each dataset."""
    from citus_analysis.dataset import open_dataset
    from citus_analysis.published import audit, audit_runs
    from citus_analysis.published.run_checks import collect_audited_tables

    tables = [path for path in paths if not path.is_dir()]
    if tables or not paths:
        yield audit(tables or None, None if single_runs is None else _read_single_runs(single_runs))
    for dataset in (open_dataset(path) for path in paths if path.is_dir()):
        yield audit_runs(**collect_audited_tables(dataset))


def _select_relevant_findings(findings: pl.DataFrame) -> pl.DataFrame:
    """What is doubtful, and every gap that repeats decide; many gaps without repeats are counted in one row."""
    import polars as pl

    from citus_analysis.published.collections import GAPS, NO_REPEAT

    rows = findings.filter((pl.col("severity") != "green") | (pl.col("check") == GAPS))
    place = ["source", "table"]
    lone = (pl.col("check") == GAPS) & (pl.col("expected") == NO_REPEAT)
    number = lone.sum().over(place)
    counted = pl.format("{} (the first of {}; --json has all)", "row", number)
    many = lone & (number > _MOST_GAPS)
    return rows.with_columns(row=pl.when(many).then(counted).otherwise("row")).filter(
        ~many | (lone.cum_sum().over(place) == 1)
    )


def _print_decided_gaps(findings: pl.DataFrame) -> None:
    from citus_analysis.published.collections import GAPS

    gaps = findings.filter(check=GAPS)
    if gaps.height:
        decided = gaps.filter(severity="green").height
        click.echo(f"Gaps between systems that their own repeats decide: {decided} of {gaps.height}")


def _read_single_runs(place: Path) -> Path | pl.DataFrame:
    """Single runs in a CSV file, or those of a dataset or of raw files."""
    from citus_analysis.cli.reading import open_or_ingest_dataset
    from citus_analysis.dataset import open_dataset

    if place.is_file() and place.suffix.lower() == ".csv":
        return place
    import polars as pl

    dataset = open_dataset(open_or_ingest_dataset(place))
    runs = dataset.runs().filter(pl.col("status").cast(pl.String) != "failed")
    # Latencies of runs of one operation: those of several are none of the run.
    latencies = dataset.table("operation_latencies").filter(pl.col("role").cast(pl.String) == "main")
    alone = latencies.filter(pl.len().over("run_id", "resource") == 1)
    times = [name for name in alone.columns if name.endswith("_us")]
    return runs.join(alone.select("run_id", "resource", *times), on=["run_id", "resource"], how="left")


def _render_findings(findings: pl.DataFrame) -> str:
    """The findings below their tables, in the width of the terminal; in colour if the output is a terminal."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        for (source, table), rows in findings.group_by("source", "table", maintain_order=True):
            console.print(make_printable(f"{source}, {table}"), style="bold")
            for row in rows.iter_rows(named=True):
                console.print(*_render_finding(row))
            console.print()
    # rich pads each line with spaces.
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _render_finding(row: dict[str, str]) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    severity = (f"{row['severity']} ", _STYLES[row["severity"]])
    heading = Text.assemble(severity, make_printable(f"{row['check'].replace('_', ' ')}: {row['row']}"))
    yield Padding(heading, (0, 0, 0, 2))
    body = f"{row['stated']}; expected: {row['expected']}; {row['explanation']}"
    yield Padding(Text(make_printable(body)), (0, 0, 0, 4))
