"""Progress of `run` on stderr: a bar on a terminal, otherwise one line per run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from citus_analysis.cli.progress import terminal_bars
from citus_analysis.texts.printable import printable

if TYPE_CHECKING:
    from citus_analysis.runner.execution.course import RunnerEvent


@contextmanager
def live_view() -> Iterator[Callable[[RunnerEvent], None]]:
    """A function that shows the runner's events."""
    with terminal_bars("{task.description}", counted=True) as bars:
        if bars is None:
            yield lambda event: None if event.phase else click.echo(printable(line_of(event)), err=True)
            return
        task = bars.add_task("starting", total=None)

        def show(event: RunnerEvent) -> None:
            bars.update(task, completed=event.done, total=event.planned, description=printable(_label(event)))
            if event.failure:
                bars.console.print(printable(line_of(event)), markup=False, highlight=False, soft_wrap=True)

        yield show


def line_of(event: RunnerEvent) -> str:
    """An ended run in one line."""
    from citus_analysis.runner.planning.durations import duration_text

    left = f"; left: {event.left}" if event.left.seconds else ""
    took = f" after {duration_text(event.duration_s)}"
    result = f"failed{took}: {event.failure}" if event.failure else f"verified{took}{_rate(event)}"
    return f"[{event.done}/{event.planned}] {event.run_id} {result}{left}"


def _label(event: RunnerEvent) -> str:
    failed = f", {event.failed} failed" if event.failed else ""
    left = event.left if event.left.seconds else "none left"
    return f"{left}{failed}  {event.run_id} {event.phase or 'ended'}{_rate(event)}"


def _rate(event: RunnerEvent) -> str:
    return "" if event.throughput_ops_s is None else f", {event.throughput_ops_s:,.0f} operations/s"
