"""Execution of a notebook by papermill in a kernel of this very interpreter.

A fresh virtual environment has no registered kernel, and a user's own `python3` kernel may belong to another
interpreter. So the kernel is always started from `sys.executable`, with IPython and Jupyter folders of its
own: nothing of the user's configuration is read or written.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import DEVNULL
from tempfile import TemporaryDirectory
from typing import Final

import papermill
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import ensure_event_loop
from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines
from papermill.exceptions import PapermillExecutionError

from citus_analysis.errors import InsufficientDataError, NothingToReportError, ReportError
from citus_analysis.report.engine.notebooks import Scalar

__all__ = ["CellCallback", "execute_notebook"]

#: Cells done, and all cells.
CellCallback = Callable[[int, int], None]

_ENGINE: Final = "citus_analysis"
#: The kernel's own log would appear on the user's terminal; errors of cells come back as messages.
_LAUNCH: Final = ("-Xfrozen_modules=off", "-m", "ipykernel_launcher", "--log-level=50")
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")


class _OwnKernelManager(AsyncKernelManager):
    """Starts `sys.executable -m ipykernel_launcher`, whatever kernels are registered on the machine."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self._folder = TemporaryDirectory(prefix="citus-kernel-", ignore_cleanup_errors=True)
        self.connection_file = str(Path(self._folder.name) / "kernel.json")
        if os.name == "posix":
            # Sockets in a private folder: nobody else on the machine can listen, and no port can be taken.
            self.transport, self.ip = "ipc", str(Path(self._folder.name) / "socket")

    @property
    def kernel_spec(self) -> KernelSpec:
        home = self._folder.name
        return KernelSpec(
            argv=[sys.executable, *_LAUNCH, "-f", "{connection_file}"],
            env={"IPYTHONDIR": home, "JUPYTER_CONFIG_DIR": home, "JUPYTER_RUNTIME_DIR": home},
            display_name="Python 3",
            language="python",
        )

    async def _async_start_kernel(self, **options: object) -> None:
        # Messages of a kernel during shutdown would appear on the user's terminal.
        await super()._async_start_kernel(**{**options, "stdout": DEVNULL, "stderr": DEVNULL})

    start_kernel = _async_start_kernel

    async def _async_cleanup_resources(self, restart: bool = False) -> None:
        await super()._async_cleanup_resources(restart=restart)
        if not restart:
            self._folder.cleanup()

    cleanup_resources = _async_cleanup_resources


class _Engine(NBClientEngine):  # type: ignore[misc] # papermill has no type information
    @classmethod
    def execute_managed_notebook(
        cls, nb_man: NotebookExecutionManager, kernel_name: str, watch: CellCallback | None = None, **options: object
    ) -> None:
        if watch is not None:
            _tell_of_cells(nb_man, watch)
        super().execute_managed_notebook(nb_man, kernel_name, kernel_manager_class=_OwnKernelManager, **options)


def _tell_of_cells(notebook: NotebookExecutionManager, watch: CellCallback) -> None:
    complete, total = notebook.cell_complete, len(notebook.nb.cells)

    def completed(cell: object, cell_index: int, **options: object) -> None:
        complete(cell, cell_index, **options)
        watch(cell_index + 1, total)

    notebook.cell_complete = completed


papermill_engines.register(_ENGINE, _Engine)


def execute_notebook(
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
        folder: working directory of the kernel.
        watch: called with the number of cells that are done, and of all, after each cell.

    Raises:
        NothingToReportError: a cell found that the dataset has nothing of what the notebook shows.
        ReportError: a cell failed; the message names the notebook, the cell and the last line of the error.
    """

    def execute() -> None:
        try:
            papermill.execute_notebook(
                _literally(source),
                _literally(target),
                parameters=dict(parameters),
                engine_name=_ENGINE,
                kernel_name="python3",
                language="python",
                progress_bar=False,
                autosave_cell_every=0,
                watch=watch,
                # Not papermill's `cwd`: it changes the directory of this whole process, other reports included.
                resources={"metadata": {"path": str(folder)}},
            )
        finally:
            ensure_event_loop().close()

    try:
        # A thread of its own: the caller may itself run in an event loop, as every Jupyter cell does.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(execute).result()
    except PapermillExecutionError as error:
        # papermill counts the cell that it injected for the parameters; the reader of `source` does not see it.
        cell = error.cell_index + (0 if parameters else 1)
        if error.ename == InsufficientDataError.__name__:
            raise NothingToReportError(_last_line(error.evalue), path=source.name) from error
        problem = f"{error.ename}: {_last_line(error.evalue)}"
        raise ReportError(problem, path=source.name, place=f"cell {cell}") from error
    except (RuntimeError, OSError) as error:
        raise ReportError(f"the notebook's kernel failed: {_last_line(str(error))}", path=source.name) from error


def _literally(path: Path) -> str:
    """A path without places for parameters: to papermill `{a}` is the value of a."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _last_line(text: str) -> str:
    lines = [line for line in _ANSI.sub("", text).splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"
