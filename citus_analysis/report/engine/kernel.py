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
from contextlib import nullcontext
from pathlib import Path
from subprocess import DEVNULL
from tempfile import TemporaryDirectory
from typing import Final, Self

from citus_analysis.report.engine.quick_imports import without_grammar

with without_grammar():
    import papermill
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import ensure_event_loop
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines
from papermill.exceptions import PapermillExecutionError

from citus_analysis.errors import InsufficientDataError, NothingToReportError, ReportError
from citus_analysis.report.engine.notebooks import Scalar

__all__ = ["CellCallback", "Kernel", "execute_notebook"]

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
    """Executes in a kernel that was started before, and leaves it running."""

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: NotebookExecutionManager,
        kernel_name: str,
        kernel: AsyncKernelManager,
        watch: CellCallback | None = None,
        resources: Mapping[str, object] | None = None,
        **_: object,
    ) -> None:
        if watch is not None:
            _tell_of_cells(nb_man, watch)
        client = PapermillNotebookClient(nb_man, km=kernel, kernel_name=kernel_name, timeout=None, resources=resources)
        try:
            client.execute()
        finally:
            if client.kc is not None:
                client.kc.stop_channels()


def _tell_of_cells(notebook: NotebookExecutionManager, watch: CellCallback) -> None:
    complete, total = notebook.cell_complete, len(notebook.nb.cells)

    def completed(cell: object, cell_index: int, **options: object) -> None:
        complete(cell, cell_index, **options)
        watch(cell_index + 1, total)

    notebook.cell_complete = completed


papermill_engines.register(_ENGINE, _Engine)


class Kernel:
    """A kernel that executes notebooks one after the other, each in an empty namespace.

    Imports of statistics and figures take seconds, several times what a report computes; a kernel that goes on pays
    them once. It lives in a thread of its own: the caller may itself run in an event loop, as every Jupyter cell does.

    In use::

        with Kernel() as kernel:
            kernel.execute(notebook, target, {"dataset": "out"}, folder=scratch)
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kernel")
        self._manager: _OwnKernelManager | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.submit(self._close).result()
        self._thread.shutdown()

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
        self._thread.submit(self._execute, source, target, parameters, folder, watch).result()

    def _execute(
        self, source: Path, target: Path, parameters: Mapping[str, Scalar], folder: Path, watch: CellCallback | None
    ) -> None:
        try:
            manager = self._ready(folder)
            papermill.execute_notebook(
                _literally(source),
                _literally(target),
                parameters=dict(parameters),
                engine_name=_ENGINE,
                kernel_name="python3",
                language="python",
                progress_bar=False,
                autosave_cell_every=0,
                # Written once, when it is complete or failed: with figures of a megabyte in it, writing it before and
                # after each cell takes as long as all cells together.
                request_save_on_cell_execute=False,
                kernel=manager,
                watch=watch,
                # Not papermill's `cwd`: it changes the directory of this whole process, other reports included.
                resources={"metadata": {"path": str(folder)}},
            )
        except BaseException:
            # Nobody knows what a failed notebook left behind.
            self._stop()
            raise

    def _ready(self, folder: Path) -> AsyncKernelManager:
        """The kernel with an empty namespace and the working directory of a notebook."""
        loop = ensure_event_loop()
        if self._manager is None:
            self._manager = _OwnKernelManager()
            loop.run_until_complete(self._manager.start_kernel(cwd=str(folder)))
        else:
            loop.run_until_complete(_clear(self._manager, folder))
        return self._manager

    def _stop(self) -> None:
        manager, self._manager = self._manager, None
        if manager is not None and manager.has_kernel:
            ensure_event_loop().run_until_complete(manager.shutdown_kernel(now=True))

    def _close(self) -> None:
        self._stop()
        ensure_event_loop().close()


async def _clear(manager: AsyncKernelManager, folder: Path) -> None:
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=60)
        code = f"import os; os.chdir({str(folder)!r}); get_ipython().reset(new_session=True)"
        await client.execute(code, silent=True, store_history=False, reply=True)
    finally:
        client.stop_channels()


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
        folder: working directory of the kernel.
        watch: called with the number of cells that are done, and of all, after each cell.
        kernel: the kernel to use; None: one for this notebook only.

    Raises:
        NothingToReportError: a cell found that the dataset has nothing of what the notebook shows.
        ReportError: a cell failed; the message names the notebook, the cell and the last line of the error.
    """
    try:
        with nullcontext(kernel) if kernel else Kernel() as chosen:
            chosen.execute(source, target, parameters, folder=folder, watch=watch)
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
