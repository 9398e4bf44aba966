"""Execution of notebooks by papermill in another process of the same interpreter.

A fresh virtual environment has no registered kernel, and a user's own `python3` kernel may belong to another
interpreter. So notebooks are executed in a helper process of `sys.executable`, by an engine of papermill that needs no
kernel (`in_process.py`), with an IPython folder of its own: the user's configuration is neither read nor written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self, TypeVar, cast

from citus_analysis.dataset.ingesting.workers.helper_process import ONE_THREAD, Helper, NoAnswerError
from citus_analysis.errors import InsufficientDataError, NothingToReportError, ReportError
from citus_analysis.report.engine.execution.notebook_work import Failure, execute
from citus_analysis.report.engine.notebooks import Scalar

__all__ = ["CellCallback", "Kernel", "execute_notebook"]

#: Cells done, and all cells.
CellCallback = Callable[[int, int], None]

_Result = TypeVar("_Result")
#: Modules that prepare the process; the second one starts another process beside it.
_AHEAD: Final = "citus_analysis.report.engine.execution.notebook_work"
_AHEAD_SECONDED: Final = "citus_analysis.report.engine.execution.alone"
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")


class Kernel:
    """A process that executes notebooks one after the other, each in an empty namespace.

    Importing statistics and figures takes a second or two, as long as computing a report. The process imports them
    once for all notebooks, and begins when the block is entered.

    Args:
        alone: whether no other process makes a report at the same time; polars then has a thread for each core.
        seconded: whether the process has a second one beside it where there are two cores, for
            :func:`citus_analysis.report.meanwhile`.

    In use::

        with Kernel() as kernel:
            kernel.execute(notebook, target, {"dataset": "out"}, folder=scratch)
    """

    def __init__(self, *, alone: bool = False, seconded: bool = False) -> None:
        self._ahead = _AHEAD_SECONDED if seconded and (os.cpu_count() or 1) > 1 else _AHEAD
        self._environment = {} if alone else ONE_THREAD
        self._home = TemporaryDirectory(prefix="citus-kernel-", ignore_cleanup_errors=True)
        self._helper: Helper | None = None

    def __enter__(self) -> Self:
        # If no process can be started, the first call raises the error.
        with suppress(NoAnswerError):
            self._helper = Helper(self._ahead, self._environment)
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._home.cleanup()

    def execute(
        self,
        source: Path,
        target: Path,
        parameters: Mapping[str, Scalar],
        *,
        folder: Path,
        watch: CellCallback | None = None,
    ) -> None:
        """Execute a notebook; see :func:`execute_notebook`."""

        def heard(message: object) -> None:
            if watch is not None:
                watch(*cast(tuple[int, int], message))

        places = (str(source), str(target), dict(parameters), str(folder), self._home.name)
        try:
            failure = self.call(execute, *places, heard=heard)
        except NoAnswerError as error:
            raise ReportError("the process that executes it ended", path=source.name) from error
        if failure is not None:
            # A failed notebook may have left variables and threads in the process.
            self._end()
            raise _as_error(failure, source.name)

    def call(
        self, function: Callable[..., _Result], *arguments: object, heard: Callable[[object], None] | None = None
    ) -> _Result:
        """The result of a function in the process.

        Raises:
            NoAnswerError: the process ended, or the function raised an exception.
        """
        if self._helper is None:
            self._helper = Helper(self._ahead, self._environment)
        try:
            return self._helper.call(function, *arguments, heard=heard)
        except NoAnswerError:
            self._end()
            raise

    def _end(self) -> None:
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.end()


def _as_error(failure: Failure, name: str) -> ReportError:
    if failure.kind == InsufficientDataError.__name__:
        return NothingToReportError(_last_line(failure.message), path=name)
    problem = f"{failure.kind}: {_last_line(failure.message)}"
    return ReportError(problem, path=name, place=None if failure.cell is None else f"cell {failure.cell}")


def execute_notebook(
    source: Path,
    target: Path,
    parameters: Mapping[str, Scalar],
    *,
    folder: Path,
    watch: CellCallback | None = None,
    kernel: Kernel | None = None,
) -> None:
    """Execute a notebook and write the executed copy.

    Args:
        source: the notebook.
        target: where the executed notebook is written, also when a cell fails.
        parameters: values that replace those of the `parameters` cell.
        folder: working directory of the notebook.
        watch: called after each cell with the number of cells done and the number of all cells.
        kernel: the process to use; None: one for this notebook only.

    Raises:
        NothingToReportError: a cell found that the dataset has no data for the notebook.
        ReportError: a cell failed; the message names the notebook, the cell and the last line of the error.
    """
    with nullcontext(kernel) if kernel else Kernel() as chosen:
        chosen.execute(source, target, parameters, folder=folder, watch=watch)


def _last_line(text: str) -> str:
    lines = [line for line in _ANSI.sub("", text).splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"
