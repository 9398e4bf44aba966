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
    """Bars on stderr with the time that is left; None where stderr is no terminal.

    Args:
        label: what a bar is labelled with, as rich writes it (`{task.description}`).
        counted: show `done/all` instead of a percentage, and the label behind the bar.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    share = MofNCompleteColumn() if counted else TextColumn("{task.percentage:3.0f} %")
    bar = [BarColumn(), share, TimeRemainingColumn()]
    columns = [*bar, TextColumn(label)] if counted else [TextColumn(label), *bar]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield bars
