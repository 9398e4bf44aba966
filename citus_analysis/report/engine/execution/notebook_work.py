"""Tasks of the process that executes notebooks: to execute one, and to make its page.

The calling process imports none of the libraries that they need.
"""

from __future__ import annotations

import gc
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from citus_analysis.dataset.ingesting.workers.helper_process import say
from citus_analysis.errors import CitusAnalysisError, OutdatedDatasetWarning, ReportError
from citus_analysis.redaction import redact
from citus_analysis.report.engine.execution.meanwhile import meanwhile
from citus_analysis.report.engine.links import check_links
from citus_analysis.report.engine.notebook_document import Notebook, Text, text_of
from citus_analysis.report.engine.notebooks import Scalar, load_notebook

__all__ = ["Failure", "Finished", "be_silent", "collecting_later", "execute", "finish", "open_ahead", "prepare"]

#: polars' allocator returns memory to the system a tenth of a second after it was freed. By default it keeps such
#: memory, with which a report of a million statements has a peak that is larger by 100 MiB.
_ALLOCATOR: Final = ("_RJEM_MALLOC_CONF", "dirty_decay_ms:100,muzzy_decay_ms:0")

#: Number of new objects after which garbage is looked for; by default 700, which an import of a library makes.
_NEW_OBJECTS: Final = 100_000


@dataclass(frozen=True)
class Failure:
    """The exception that ended the execution of a notebook: name, message, and the cell that raised it, if one did."""

    kind: str
    message: str
    cell: int | None = None


@dataclass(frozen=True)
class Finished:
    """The heading of an executed notebook, and the sentences it opens with."""

    title: str
    findings: tuple[str, ...]


def prepare() -> None:
    """Import the modules that every report needs while the calling process looks at the dataset."""
    be_silent()
    with collecting_later():
        _import_all()


def _import_all() -> None:
    # The allocator reads it when polars is loaded, which happens below.
    os.environ.setdefault(*_ALLOCATOR)
    from citus_analysis.dataset.query.access import keep_open

    keep_open()
    import citus_analysis.bottleneck
    import citus_analysis.plots
    import citus_analysis.report.engine.execution.in_process
    import citus_analysis.report.engine.html
    import citus_analysis.report.engine.page  # noqa: F401


@contextmanager
def collecting_later() -> Iterator[None]:
    """Do not look for garbage among what is imported, nor later among it; and then only after many new objects.

    The process ends with its last report. Objects of imported modules live until then, and a pass over them takes a
    tenth of a second; of the objects that reports make, few are in cycles.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
    gc.enable()


def be_silent() -> None:
    """Discard messages of libraries, which would appear on the user's terminal; errors come back as values."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def open_ahead(dataset: Path | str) -> list[str] | CitusAnalysisError:
    """Open a dataset before the notebooks that show it; the warnings about it, or why it cannot be opened."""
    from citus_analysis.dataset import open_dataset

    # A second process, which has nothing to do yet, opens it at the same time.
    meanwhile(_opened, dataset)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OutdatedDatasetWarning)
        try:
            open_dataset(dataset)
        except CitusAnalysisError as error:
            return error
    return [str(one.message) for one in caught if one.category is OutdatedDatasetWarning]


def _opened(dataset: Path | str) -> None:
    """In a second process that keeps datasets open: open this one."""
    from citus_analysis.dataset import open_dataset

    open_dataset(dataset)


def execute(source: str, target: str, parameters: Mapping[str, Scalar], folder: str, home: str) -> Failure | None:
    """Execute a notebook and write the executed copy; after each cell, report the numbers of cells done and of all.

    Returns:
        None, or the reason why not all cells were executed.
    """
    from papermill.exceptions import PapermillExecutionError

    from citus_analysis.report.engine.execution.in_process import run_notebook, shell_in

    def watch(done: int, cells: int) -> None:
        say((done, cells))

    try:
        run_notebook(source, target, parameters, folder, shell_in(home), watch)
    except PapermillExecutionError as error:
        # papermill counts the cell that it injected for the parameters; the reader of `source` does not see it.
        return Failure(error.ename, error.evalue, error.cell_index + (0 if parameters else 1))
    except (RuntimeError, OSError) as error:
        return Failure(type(error).__name__, str(error))
    finally:
        # The folder of the notebook is removed when its report is complete.
        os.chdir(home)
    return None


def finish(executed: Path, name: str, index: str | None, library: str) -> Finished | OSError | ReportError:
    """Remove times and counters that differ between executions from an executed notebook, and make its page beside it.

    Args:
        executed: the notebook.
        name: name of the report.
        index: the index that the page links to, empty for none; None: no page is made.
        library: the packed text of plotly.js for a page with figures.
    """
    from citus_analysis.report.engine.html import export_html
    from citus_analysis.report.engine.sections import with_systems_in_words

    try:
        document = with_systems_in_words(_without_places(load_notebook(executed)))
        executed.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        title = _title(document, name)
        if index is not None:
            page = executed.with_suffix(".html")
            html = export_html(document, title=title, tables=name, index=index, library=library)
            page.write_text(html, encoding="utf-8")
            check_links(page, expected=[index])
    except (OSError, ReportError) as error:
        return error
    return Finished(title, _findings(document))


def _without_places(document: Notebook) -> Notebook:
    """The executed notebook without temporary paths, times and secrets: the same data give the same file."""
    document["metadata"].pop("papermill", None)
    for cell in document["cells"]:
        tags = cell["metadata"].get("tags", [])
        cell["metadata"] = {"tags": tags} if "tags" in cell["metadata"] else {}
        if "injected-parameters" in tags:
            cell["id"] = "injected-parameters"
            cell["source"] = [redact(line) for line in _lines(cell["source"]) if not line.startswith("tables = ")]
    return document


def _lines(source: Text) -> list[str]:
    return source.splitlines(keepends=True) if isinstance(source, str) else source


def _title(document: Notebook, name: str) -> str:
    for cell in document["cells"]:
        for line in _lines(cell["source"]) if cell["cell_type"] == "markdown" else ():
            if line.startswith("# "):
                return line[2:].strip()
    return name


def _findings(document: Notebook) -> tuple[str, ...]:
    """The sentences shown by :meth:`Page.findings`, for the index page."""
    for cell in document["cells"]:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if 'class="findings"' in text_of(data.get("text/html", "")):
                return tuple(text_of(data["text/plain"]).splitlines())
    return ()
