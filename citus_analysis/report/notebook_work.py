"""Tasks of the process that executes notebooks: to execute one, and to make its page.

The calling process imports none of the libraries that they need.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import TextIOBase
from pathlib import Path
from typing import Final

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from nbformat import NotebookNode
from nbformat.v4 import new_output
from papermill.engines import Engine, NotebookExecutionManager, papermill_engines
from traitlets import Type
from traitlets.config import Config

from citus_analysis.core.parallel import send_to_parent
from citus_analysis.errors import InsufficientDataError, NothingToReportError, OutdatedDatasetWarning, ReportError
from citus_analysis.redaction import redact
from citus_analysis.report.html import check_links
from citus_analysis.report.notebooks import Notebook, Scalar, join_source_text, load_notebook

# Imports of papermill without optional libraries that reports do not use.
#
# papermill imports clients of object stores, a cluster's file system and GitHub as soon as they are installed, and
# `nbformat` checks notebooks with `jsonschema`, which compiles the grammar of international addresses (RFC 3987) where
# the package `rfc3987_syntax` is installed: together seconds of CPU that notebooks in a folder do not need. Each of
# them is optional for the library that imports it.

_OPTIONAL: Final = ("rfc3987_syntax", "boto3", "azure", "gcsfs", "pyarrow.fs", "github")


@contextmanager
def block_optional_imports() -> Iterator[None]:
    """While this is active, the optional libraries cannot be imported unless they already have been.

    Example:
        >>> with block_optional_imports():
        ...     import jsonschema
        >>> "rfc3987_syntax" in sys.modules and sys.modules["rfc3987_syntax"] is None
        False
    """
    absent = [name for name in _OPTIONAL if name not in sys.modules]
    # The import system raises ImportError for a name that is None.
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type] # documented, but not in the type
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)


# An engine of papermill that executes the cells of a notebook in papermill's own process.
#
# A Jupyter kernel would be a second interpreter that imports the same libraries, with a socket between them. Reports
# already have a process of their own (`kernel.py`), so IPython's shell runs there together with papermill, and displays
# become outputs of the notebook directly.

with block_optional_imports():
    import papermill

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


papermill_engines.register(_ENGINE, _Engine)


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


_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")


def prepare() -> None:
    """Import the modules that every report needs while the calling process looks at the dataset."""
    # Messages of libraries would appear on the user's terminal; errors come back as values.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    from citus_analysis.dataset.access import keep_open

    keep_open()
    import citus_analysis.bottleneck
    import citus_analysis.plots
    import citus_analysis.report.html
    import citus_analysis.report.page
    import citus_analysis.report.page_parts  # noqa: F401


def open_ahead(dataset: Path | str) -> list[str]:
    """Open a dataset before the notebooks that show it; the warnings about it."""
    from citus_analysis.dataset import open_dataset

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OutdatedDatasetWarning)
        open_dataset(dataset)
    return [str(one.message) for one in caught if one.category is OutdatedDatasetWarning]


def execute(source: str, target: str, parameters: Mapping[str, Scalar], folder: str, home: str) -> None:
    """Execute a notebook and write the executed copy; after each cell, report the numbers of cells done and of all.

    Raises:
        NothingToReportError: a cell found that the dataset has no data for the notebook.
        ReportError: a cell failed.
    """
    from papermill.exceptions import PapermillExecutionError

    name = Path(source).name
    try:
        run_notebook(source, target, parameters, folder, home)
    except PapermillExecutionError as error:
        problem = _get_last_line(error.evalue)
        if error.ename == InsufficientDataError.__name__:
            raise NothingToReportError(problem, path=name) from None
        # papermill counts the cell that it injected for the parameters; the reader of `source` does not see it.
        cell = error.cell_index + (0 if parameters else 1)
        raise ReportError(f"{error.ename}: {problem}", path=name, place=f"cell {cell}") from None
    except (RuntimeError, OSError) as error:
        raise ReportError(f"{type(error).__name__}: {_get_last_line(str(error))}", path=name) from error
    finally:
        # The folder of the notebook is removed when its report is complete.
        os.chdir(home)


def _get_last_line(text: str) -> str:
    lines = [line for line in _ANSI.sub("", text).splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"


def finish(executed: Path, name: str, index: str | None, library: str) -> tuple[str, tuple[str, ...]]:
    """Remove times and counters that differ between executions from an executed notebook, and make its page beside it.

    Args:
        executed: the notebook.
        name: name of the report.
        index: the index that the page links to, empty for none; None: no page is made.
        library: the packed text of plotly.js for a page with figures.

    Returns:
        The heading of the notebook, and the sentences it opens with.
    """
    from citus_analysis.report.html import export_html, replace_system_names

    document = replace_system_names(_strip_local_details(load_notebook(executed)))
    executed.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    title = _find_notebook_title(document, name)
    if index is not None:
        page = executed.with_suffix(".html")
        html = export_html(document, title=title, tables=name, index=index, library=library)
        page.write_text(html, encoding="utf-8")
        check_links(page, expected=[index])
    return title, _list_findings(document)


def _strip_local_details(document: Notebook) -> Notebook:
    """The executed notebook without temporary paths, times and secrets: the same data give the same file."""
    document["metadata"].pop("papermill", None)
    for cell in document["cells"]:
        tags = cell["metadata"].get("tags", [])
        cell["metadata"] = {"tags": tags} if "tags" in cell["metadata"] else {}
        if "injected-parameters" in tags:
            cell["id"] = "injected-parameters"
            lines = join_source_text(cell["source"]).splitlines(keepends=True)
            cell["source"] = [redact(line) for line in lines if not line.startswith("tables = ")]
    return document


def _find_notebook_title(document: Notebook, name: str) -> str:
    cells = (cell for cell in document["cells"] if cell["cell_type"] == "markdown")
    lines = (line for cell in cells for line in join_source_text(cell["source"]).splitlines())
    return next((line[2:].strip() for line in lines if line.startswith("# ")), name)


def _list_findings(document: Notebook) -> tuple[str, ...]:
    """The sentences shown by :meth:`Page.findings`, for the index page."""
    shown = (output.get("data", {}) for cell in document["cells"] for output in cell.get("outputs", ()))
    found = (data["text/plain"] for data in shown if 'class="findings"' in join_source_text(data.get("text/html", "")))
    return tuple(join_source_text(next(found, "")).splitlines())
