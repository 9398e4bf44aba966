"""Bars for long work: on a terminal, and none in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["terminal_bars"]


@contextmanager
def terminal_bars(label: str, *, counted: bool = False) -> Iterator[Progress | None]:
    """Bars on stderr; None where stderr is no terminal.

    Args:
        label: what a bar is labelled with, as rich writes it (`{task.description}`).
        counted: few long steps: `done/all`, and the label after the bar, which states the duration. Otherwise a
            percentage, and the time that is left at the pace of the last steps.
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
