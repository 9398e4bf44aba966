"""Printing of results: tables for people; CSV, JSON and Parquet for programs."""

from __future__ import annotations

import io
import json
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from citus_analysis.texts.json_values import convert_to_json_value
from citus_analysis.texts.numbers import format_full_number
from citus_analysis.texts.words import make_printable, pluralize

if TYPE_CHECKING:
    import polars as pl
    from rich.progress import Progress

    from citus_analysis.runner.schedule import RunnerEvent

FORMATS: Final = ("table", "csv", "json", "parquet")

#: Rows per write: few, so that a closed pipe is noticed soon.
_CSV_ROWS: Final = 10_000


def parse_key_values(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Parse options of the form name=value; a callback of click."""
    pairs: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{value!r} is not of the form name=value")
        pairs[name.strip()] = text
    return pairs


def print_json(value: object) -> None:
    """Print one JSON document to stdout. Values without a JSON form (NaN, infinity) become null."""
    click.echo(json.dumps(convert_to_json_value(value), ensure_ascii=False, indent=2))


def print_result(result: object, *, wide: bool = False) -> None:
    """Print a text, with what a terminal would obey as escapes, and anything else as one JSON document.

    Args:
        result: the text, or plain values.
        wide: print whole lines on a terminal too; in a pipe they always are whole.
    """
    if isinstance(result, str):
        lines, width = list(map(make_printable, result.split("\n"))), get_output_width(wide=wide)
        click.echo("\n".join(lines if width is None else fit_text_to_terminal(lines, width)))
    else:
        print_json(result)


def get_output_width(*, wide: bool = False) -> int | None:
    """Characters of a line of the terminal; None in a pipe, and if lines shall be whole."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() and not wide else None


def fit_text_to_terminal(lines: Sequence[str], width: int) -> list[str]:
    """Lines for a terminal: prose and headings are folded at its width, and rows of a table are cut with `…`.

    Args:
        lines: lines; two blanks within a line make it a row, and a heading if facts (`name=value`) follow.
        width: characters.

    Example:
        >>> fit_text_to_terminal(["note: two words", "name    value", "mean  a=1  b=2"], width=11)
        ['note: two', '  words', 'name    va…', 'mean  a=1', '  b=2']
    """
    from citus_analysis.texts.tables import fold_facts

    fitted: list[str] = []
    for line in lines:
        if len(line) <= width:
            fitted.append(line)
        elif all("=" in piece for piece in line.split("  ")[1:]) and "  " in line:
            fitted += fold_facts(line.split("  "), width, indent="  ")
        elif "  " in line.strip():
            fitted.append(f"{line[: width - 1]}…")
        else:
            fitted += textwrap.wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return fitted


def print_frame(frame: pl.DataFrame, how: str) -> None:
    """Print a frame to stdout in one of :data:`FORMATS`."""
    if how == "csv":
        from citus_analysis.texts.tables import guard_formula_cells

        click.echo(guard_formula_cells(frame.clear()).write_csv(), nl=False)
        for rows in frame.iter_slices(_CSV_ROWS):
            click.echo(guard_formula_cells(rows).write_csv(include_header=False), nl=False)
    elif how == "json":
        print_json(frame.to_dicts())
    elif how == "parquet":
        # Not written by polars, which raises an error of its own for a closed pipe.
        encoded = io.BytesIO()
        frame.write_parquet(encoded)
        sys.stdout.buffer.write(encoded.getbuffer())
    else:
        for line in _format_table(frame):
            click.echo(line)


def _format_table(frame: pl.DataFrame) -> list[str]:
    from citus_analysis.texts.tables import render_text_table

    rows = [[_format_cell(value) for value in row] for row in frame.iter_rows()]
    numeric = {place for place, name in enumerate(frame.columns) if frame[name].dtype.is_numeric()}
    lines = render_text_table(frame.columns, rows, right=numeric, ruled=True)
    return [*lines, f"({pluralize(frame.height, 'row')})"]


def _format_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_full_number(value)
    return make_printable(str(value))


# Progress bars for long work; on terminals only.


@contextmanager
def show_progress_bars(label: str, *, counted: bool = False) -> Iterator[Progress | None]:
    """Progress bars on stderr; None if stderr is not a terminal.

    Args:
        label: label of a bar, in rich's notation (`{task.description}`).
        counted: show `done/all`, for few long steps, and the label after the bar (it states the duration). Otherwise
            show a percentage, and the remaining time at the pace of the last steps.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    if counted:
        columns = [BarColumn(), MofNCompleteColumn(), TextColumn(label)]
    else:
        columns = [TextColumn(label), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield bars


#: Seconds after which work in a pipe says how far it is, and between two such lines.
_SILENT_S: Final = 2.0
_BETWEEN_S: Final = 10.0


@contextmanager
def report_files_looked_at() -> Iterator[Callable[[int, int], None]]:
    """Progress over files on stderr: a bar on a terminal; elsewhere a line after two seconds, then one every ten."""
    with show_progress_bars("looking at files") as bars:
        task = None if bars is None else bars.add_task("", total=None)
        due = time.monotonic() + _SILENT_S

        def report(done: int, total: int) -> None:
            nonlocal due
            if bars is not None and task is not None:
                bars.update(task, completed=done, total=total)
            elif done < total and time.monotonic() >= due:
                due = time.monotonic() + _BETWEEN_S
                click.echo(f"looked at {done} of {total} files", err=True)

        yield report


# Progress of `run` on stderr: a bar on a terminal, otherwise one line per run.


@contextmanager
def show_live_progress() -> Iterator[Callable[[RunnerEvent], None]]:
    """A function that shows the runner's events."""
    with show_progress_bars("{task.description}", counted=True) as bars:
        if bars is None:
            yield lambda event: None if event.phase else click.echo(make_printable(format_event(event)), err=True)
            return
        task = bars.add_task("starting", total=None)

        def show(event: RunnerEvent) -> None:
            bars.update(task, completed=event.done, total=event.planned, description=make_printable(_label(event)))
            if event.failure:
                bars.console.print(make_printable(format_event(event)), markup=False, highlight=False, soft_wrap=True)

        yield show


def format_event(event: RunnerEvent) -> str:
    """An ended run in one line."""
    from citus_analysis.runner.plan import format_duration

    left = f"; left: {event.left}" if event.left.seconds else ""
    took = f" after {format_duration(event.duration_s)}"
    result = f"failed{took}: {event.failure}" if event.failure else f"verified{took}{_format_throughput(event)}"
    return f"[{event.done}/{event.planned}] {event.run_id} {result}{left}"


def _label(event: RunnerEvent) -> str:
    failed = f", {event.failed} failed" if event.failed else ""
    left = event.left if event.left.seconds else "none left"
    return f"{left}{failed}  {event.run_id} {event.phase or 'ended'}{_format_throughput(event)}"


def _format_throughput(event: RunnerEvent) -> str:
    return "" if event.throughput_ops_s is None else f", {event.throughput_ops_s:,.0f} operations/s"
