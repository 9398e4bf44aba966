"""Command: citus-analysis SRC..., without the name of a command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from citus_analysis.cli.options import SOURCE
from citus_analysis.cli.output import report_files_looked_at
from citus_analysis.texts.words import make_printable, pluralize

if TYPE_CHECKING:
    from citus_analysis.dataset import Inspection

_MOST_KINDS: Final = 6
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")


@click.command("first")
@click.argument("sources", metavar="SRC...", nargs=-1, required=True, type=SOURCE)
def command(sources: tuple[Path | str, ...]) -> None:
    """Say in a few lines what files are, and which commands make sense of them."""
    from citus_analysis.cli.options import expand_sources
    from citus_analysis.dataset import inspect

    expanded = expand_sources(sources)
    with report_files_looked_at() as progress:
        found = inspect(expanded, progress=progress)
    typed = shlex.join(map(str, sources))
    # What is written must not be among what is read.
    beside = "../" if any(isinstance(one, Path) and Path.cwd().is_relative_to(one.resolve()) for one in sources) else ""
    suggested = (
        f"{what}: citus-analysis {next_}" for what, next_ in _suggest_next_commands(found, typed, beside, expanded)
    )
    for line in (*_list_kinds(found), "", *suggested):
        click.echo(make_printable(line))


def _list_kinds(found: Inspection) -> Iterator[str]:
    for kind in found.kinds[:_MOST_KINDS]:
        delivered = "" if kind["delivery"] == "plain text" else f" ({kind['delivery']})"
        yield f"{kind['files']:>5} {kind['format']}{delivered}, such as {kind['example']}"
    if len(found.kinds) > _MOST_KINDS:
        yield f"      and {pluralize(len(found.kinds) - _MOST_KINDS, 'other kind')}"


def _find_set_up_factors(set_ups: Collection[object]) -> dict[str, set[str]]:
    """Name -> values, of set-ups that a table of results states as `name=value, ...`; empty for others."""
    found: dict[str, set[str]] = {}
    for set_up in set_ups:
        for part in str(set_up).split(", "):
            name, equals, value = part.partition("=")
            if not equals or " " in name:
                return {}
            found.setdefault(name, set()).add(value)
    return {name: values for name, values in found.items() if len(values) > 1}


#: So many levels make a curve, of one run each; of fewer, each needs several runs.
_LEVELS_OF_A_CURVE: Final = 3


def _group_comparable_levels(cells: Sequence[Mapping[str, object]], name: str) -> list[list[int]]:
    """The values of a fact that runs have which are equal otherwise: the number of runs of each value."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for cell in cells:
        if cell[name] is not None:
            others = tuple(value for key, value in cell.items() if key not in (name, "runs", "outputs"))
            alike.setdefault(others, []).append(int(str(cell["runs"])))
    return [runs for runs in alike.values() if len(runs) > 1]


def _suggest_for_results(sources: Sequence[Path | str], typed: str) -> Iterator[tuple[str, str]]:
    """What the factors of a table of results allow, in the order of its columns."""
    from citus_analysis.studies import study

    mine = study(list(sources))
    said = mine.sentence()
    for name in mine.factors:
        if name in ("workers", "threads"):
            yield said, f"scale {typed} --x {name}"
        else:
            yield said, f"compare {typed} --by {shlex.quote(name)}"


def _suggest_for_factors(found: Inspection, typed: str, runs: str) -> Iterator[tuple[str, str]]:
    """Comparisons and curves over what differs between the runs."""
    levels = {name: {cell[name] for cell in found.cells} - {None} for name in ("set_up", "workers", "threads")}
    factors = _find_set_up_factors(levels["set_up"])
    for name, values in factors.items():
        yield f"{runs} of {len(values)} values of {name}", f"compare {typed} --by {shlex.quote(name)}"
        if len(values) >= _LEVELS_OF_A_CURVE and all(_NUMBER.fullmatch(value) for value in values):
            yield f"{runs} with {len(values)} numbers of {name}", f"scale {typed} --x {shlex.quote(name)}"
    if _group_comparable_levels(found.cells, "set_up") and not factors:
        yield f"{runs} of {len(levels['set_up'])} set-ups", f"compare {typed} --by set_up"
    for axis in ("workers", "threads"):
        curves = _group_comparable_levels(found.cells, axis)
        if any(len(runs) >= _LEVELS_OF_A_CURVE or min(runs) > 1 for runs in curves):
            yield f"{runs} with {len(levels[axis])} numbers of {axis}", f"scale {typed} --x {axis}"


def _suggest_next_commands(
    found: Inspection, typed: str, beside: str, sources: Sequence[Path | str]
) -> Iterator[tuple[str, str]]:
    """What there is, and the command that shows it."""
    from citus_analysis.dataset.inspection import abbreviate_path

    runs = pluralize(sum(int(str(cell["runs"])) for cell in found.cells), "run")
    yield from _suggest_for_factors(found, typed, runs)
    if not found.cells and any(file.format is not None and file.format.name == "results_table" for file in found.files):
        yield from _suggest_for_results(sources, typed)
    if found.cells:
        yield f"{runs}, all pages", f"report all {typed} --out {beside}reports"
    tables = shlex.join(abbreviate_path(file.path) for file in found.summaries[:_MOST_KINDS] if file.archive is None)
    if tables:
        yield "what a summary says, beside its runs", f"audit {tables} --runs {typed}"
    logs = sum(file.format is not None and "log_events" in file.format.tables for file in found.files)
    if logs:
        yield pluralize(logs, "server log"), f"report server {typed} --out {beside}reports"
    if any(file.format is not None for file in found.files):
        yield "the tables", f"ingest {typed} --out {beside}dataset"
    yield "what each file is, and why", f"inspect {typed}"
