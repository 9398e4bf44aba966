"""Execution of notebooks by papermill in another process of the same interpreter.

A fresh virtual environment has no registered kernel, and a user's own `python3` kernel may belong to another
interpreter. So notebooks are executed in another process of `sys.executable`, by an engine of papermill that needs no
kernel, with an IPython folder of its own: the user's configuration is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self, TypeVar, cast

from citus_analysis.core.parallel import ONE_THREAD, start_worker_processes
from citus_analysis.errors import ReportError
from citus_analysis.report.notebook_work import execute, prepare
from citus_analysis.report.notebooks import Scalar

#: Cells done, and all cells.
CellCallback = Callable[[int, int], None]

_Result = TypeVar("_Result")


class NotebookWorker:
    """A process that executes notebooks one after the other, each in an empty namespace.

    Importing statistics and figures takes a second or two, as long as computing a report. The process imports them
    once for all notebooks, and begins when the block is entered.

    Args:
        alone: whether no other process makes a report at the same time; polars then has a thread for each core.

    In use::

        with NotebookWorker() as kernel:
            kernel.execute(notebook, target, {"dataset": "out"}, folder=scratch)
    """

    def __init__(self, *, alone: bool = False) -> None:
        self._environment = {} if alone else ONE_THREAD
        self._home = TemporaryDirectory(prefix="citus-kernel-", ignore_cleanup_errors=True)
        self._watch: CellCallback | None = None
        self._running = ExitStack()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
        self._home.cleanup()

    def _start(self) -> None:
        # What ran before is ended: a failed notebook may have left variables and threads in the process.
        self._running.close()
        started = start_worker_processes(1, prepare=prepare, environment=self._environment, heard=self._heard)
        self._executor = self._running.enter_context(started)

    def _heard(self, message: object) -> None:
        if self._watch is not None:
            self._watch(*cast(tuple[int, int], message))

    def execute(
        self,
        source: Path,
        target: Path,
        parameters: Mapping[str, Scalar],
        *,
        folder: Path,
        watch: CellCallback | None = None,
    ) -> None:
        """Execute a notebook and write the executed copy.

        Args:
            source: the notebook.
            target: where the executed notebook is written, also when a cell fails.
            parameters: values that replace those of the `parameters` cell.
            folder: working directory of the notebook.
            watch: called after each cell with the number of cells done and the number of all cells.

        Raises:
            NothingToReportError: a cell found that the dataset has no data for the notebook.
            ReportError: a cell failed; the message names the notebook, the cell and the last line of the error.
        """
        self._watch = watch
        try:
            self.call(execute, str(source), str(target), dict(parameters), str(folder), self._home.name)
        except ReportError:
            self._start()
            raise

    def call(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """The result of a function in the process; its exception is raised here.

        Raises:
            ReportError: the process ended.
        """
        try:
            return self._executor.submit(function, *arguments).result()
        except BrokenExecutor as error:
            self._start()
            raise ReportError("the process that makes the report ended") from error
