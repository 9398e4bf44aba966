"""Progress bars for long work; on terminals only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def terminal_bars(label: str, *, counted: bool = False) -> Iterator[Progress | None]:
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
