"""Tasks of the process that executes notebooks: to execute one, and to make its page.

The calling process imports none of the libraries that they need (`notebook_engine.py`).
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from citus_analysis.errors import InsufficientDataError, NothingToReportError, OutdatedDatasetWarning, ReportError
from citus_analysis.redaction import redact
from citus_analysis.report.html import check_links
from citus_analysis.report.notebooks import Notebook, Scalar, join_source_text, load_notebook

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
    import citus_analysis.report.notebook_engine
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

    from citus_analysis.report.notebook_engine import run_notebook

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
