"""An engine of papermill that executes the cells of a notebook in papermill's own process.

A Jupyter kernel would be a second interpreter that imports the same libraries, with a socket between them. Reports
already have a process of their own (`kernel.py`), so IPython's shell runs there together with papermill, and displays
become outputs of the notebook directly. Only that process imports this module.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import TextIOBase
from typing import Final

from citus_analysis.core.extras import refuse_imports
from citus_analysis.core.parallel import send_to_parent
from citus_analysis.report.notebooks import Scalar

# papermill imports clients of object stores and of GitHub as soon as they are installed, and `nbformat` checks
# notebooks with `jsonschema`, which compiles the grammar of international addresses (RFC 3987) where the package
# `rfc3987_syntax` is installed, as with JupyterLab: 1.2 s that notebooks in a folder do not need.
with refuse_imports("rfc3987_syntax", "boto3", "azure", "gcsfs", "github"):
    import papermill
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from nbformat import NotebookNode
    from nbformat.v4 import new_output
    from papermill.engines import Engine, NotebookExecutionManager, papermill_engines
    from traitlets import Type
    from traitlets.config import Config

_ENGINE: Final = "citus_analysis"
_LANGUAGE: Final = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
    "version": platform.python_version(),
}


def _make_output_node(kind: str, **content: object) -> NotebookNode:
    return new_output(kind, **content)  # type: ignore[no-untyped-call, no-any-return] # nbformat is partly typed


class _Publisher(DisplayPublisher):
    """Collects displays as outputs of the cell that is executed."""

    shell: _Shell

    def publish(  # type: ignore[override] # outputs are never replaced here
        self, data: dict[str, object], metadata: dict[str, object] | None = None, **_: object
    ) -> None:
        """Add an output; called by IPython's `display`."""
        self.shell.outputs.append(_make_output_node("display_data", data=data, metadata=metadata or {}))

    def clear_output(self, wait: bool = False) -> None:  # noqa: ARG002 - outputs that follow come at once
        """Forget the outputs of the cell so far."""
        self.shell.outputs.clear()


class _Hook(DisplayHook):
    """The value of a cell's last expression."""

    shell: _Shell

    def write_output_prompt(self) -> None:
        """Write nothing: the notebook shows the number of the cell."""

    def write_format_data(self, format_dict: dict[str, object], md_dict: dict[str, object] | None = None) -> None:
        """Add the value in each of its formats."""
        count = self.shell.execution_count
        result = _make_output_node("execute_result", data=format_dict, metadata=md_dict or {}, execution_count=count)
        self.shell.outputs.append(result)

    def finish_displayhook(self) -> None:
        """Print nothing after the value."""
        self._is_active = False


class _Shell(InteractiveShell):
    displayhook_class = Type(_Hook)
    display_pub_class = Type(_Publisher)
    #: The outputs of the cell that is executed, so far.
    outputs: list[NotebookNode]

    def _showtraceback(self, etype: type[BaseException], evalue: BaseException, stb: list[str]) -> None:
        self.outputs.append(_make_output_node("error", ename=etype.__name__, evalue=str(evalue), traceback=list(stb)))


class _Stream(TextIOBase):
    """A stream for the text that cells print."""

    def __init__(self, name: str, outputs: list[NotebookNode]) -> None:
        super().__init__()
        self._name, self._outputs = name, outputs

    def write(self, text: str) -> int:
        last = self._outputs[-1] if self._outputs else None
        if last is not None and last.get("name") == self._name:
            last.text += text
        elif text:
            self._outputs.append(_make_output_node("stream", name=self._name, text=text))
        return len(text)


def _empty_shell(home: str) -> None:
    """Give the shell of this process an empty namespace; IPython keeps its own files in the folder `home`."""
    if _Shell.initialized():
        _Shell.instance().reset(new_session=True)  # type: ignore[no-untyped-call] # IPython is partly typed
        return
    os.environ["IPYTHONDIR"] = home
    config = Config()
    config.HistoryManager.enabled = False
    _Shell.instance(config=config)


class _Engine(Engine):  # type: ignore[misc] # papermill has no type information
    """Executes cells in the shell of this process."""

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: NotebookExecutionManager,
        kernel_name: str,  # noqa: ARG003 - part of papermill's interface
        **_: object,
    ) -> None:
        nb_man.nb.metadata["language_info"] = _LANGUAGE
        shell, cells = _Shell.instance(), nb_man.nb.cells
        for number, cell in enumerate(cells):
            nb_man.cell_start(cell, number)
            done = cell.cell_type != "code" or _run(shell, cell)
            if not done:
                nb_man.cell_exception(cell, cell_index=number)
            nb_man.cell_complete(cell, cell_index=number)
            send_to_parent((number + 1, len(cells)))
            if not done:
                break


def _run(shell: _Shell, cell: NotebookNode) -> bool:
    """Execute a cell; False if it raised an exception, which then is its last output."""
    if not cell.source.strip():
        return True
    shell.outputs = outputs = list[NotebookNode]()
    cell["execution_count"], cell["outputs"] = shell.execution_count, outputs
    with redirect_stdout(_Stream("stdout", outputs)), redirect_stderr(_Stream("stderr", outputs)):
        result = shell.run_cell(cell.source, store_history=True)  # type: ignore[no-untyped-call] # partly typed
    return bool(result.success)


def run_notebook(source: str, target: str, parameters: Mapping[str, Scalar], folder: str, home: str) -> None:
    """Execute a notebook in this process; after each cell, report the numbers of cells done and of all.

    Args:
        source: the notebook.
        target: where the executed notebook is written, also when a cell fails.
        parameters: values that replace those of the `parameters` cell.
        folder: working directory of the notebook.
        home: folder for IPython's own files.

    Raises:
        PapermillExecutionError: a cell failed.
    """
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123 - a notebook has no input
    _empty_shell(home)
    os.chdir(folder)
    papermill_engines.register(_ENGINE, _Engine)
    papermill.execute_notebook(
        _escape_braces(source),
        _escape_braces(target),
        parameters=dict(parameters),
        engine_name=_ENGINE,
        kernel_name="python3",
        language="python",
        progress_bar=False,
        autosave_cell_every=0,
        # Save it once, at the end: with figures of a megabyte, saving before and after each cell takes as long as
        # executing all cells.
        request_save_on_cell_execute=False,
    )


def _escape_braces(path: str) -> str:
    """A path with escaped braces: papermill would replace `{a}` by the value of a."""
    return path.replace("{", "{{").replace("}", "}}")
