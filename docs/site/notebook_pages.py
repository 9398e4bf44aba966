"""Executed notebooks as pages: the text, the code, and what each cell shows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from citus_analysis.report.html import read_plotly_script
from citus_analysis.report.kernel import NotebookWorker
from citus_analysis.report.notebooks import join_source_text, load_notebook, parse_parameters

__all__ = ["page_of", "write_notebooks"]

ROOT: Final = Path(__file__).parents[2]
DATASET: Final = ROOT / ".cache" / "dataset"
#: plotly.js beside the pages: one file for all of them.
_LIBRARY: Final = "plotly.js"
#: Figures as documents, which the pages draw; otherwise each notebook would hold plotly.js itself.
_FIGURES: Final = {"PLOTLY_RENDERER": "plotly_mimetype"}
#: A cell may show a whole table; the page shows its beginning.
_MOST_CHARACTERS: Final = 20_000


def write_notebooks(folder: Path) -> dict[str, str]:
    """Execute the notebooks of the tour on the dataset that `make report` made, and write a page of each.

    Returns:
        title -> name of the page.
    """
    pages = {}
    os.environ |= _FIGURES
    (folder / _LIBRARY).write_text(read_plotly_script(), encoding="utf-8")
    with NotebookWorker() as kernel, TemporaryDirectory() as scratch:
        for source in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
            target = Path(scratch) / source.name
            # The study from files to verdict makes a dataset of its own.
            given = {"dataset": str(DATASET)} if declares_dataset(source) else {}
            kernel.execute(source, target, given, folder=source.parent)
            notebook = json.loads(target.read_text(encoding="utf-8"))
            name = f"{source.stem}.md"
            (folder / name).write_text(page_of(notebook, source.name), encoding="utf-8")
            pages[_title(notebook)] = name
    return pages


def _title(notebook: Mapping[str, Any]) -> str:
    first = next(_joined(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    return str(first.partition("\n")[0].lstrip("# "))


def declares_dataset(notebook: Path) -> bool:
    """Whether a notebook has a parameter for the dataset that it shows."""
    cells = [cell for cell in load_notebook(notebook)["cells"] if "parameters" in cell["metadata"].get("tags", ())]
    return any(one.name == "dataset" for cell in cells for one in parse_parameters(join_source_text(cell["source"])))


def page_of(notebook: Mapping[str, Any], name: str) -> str:
    """An executed notebook of the given name as a page in Markdown."""
    parts: list[str] = []
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "markdown":
            parts.append(_joined(cell["source"]))
        elif "injected-parameters" not in cell["metadata"].get("tags", []):
            parts.append(f"```python\n{_joined(cell['source'])}\n```")
            parts += _outputs(cell["outputs"], number)
    if any("Plotly.newPlot" in part for part in parts):
        parts.insert(1, f'<script src="{_LIBRARY}"></script>')
    return "\n\n".join([*parts, f"This page is `notebooks/{name}`, executed."]) + "\n"


def _outputs(outputs: list[Mapping[str, Any]], cell: int) -> Iterator[str]:
    for number, output in enumerate(outputs):
        data = output.get("data", {})
        if "application/vnd.plotly.v1+json" in data:
            yield _figure(data["application/vnd.plotly.v1+json"], f"figure-{cell}-{number}")
        elif "text/html" in data:
            yield f"<div class='output' style='overflow-x: auto'>{' '.join(_joined(data['text/html']).split())}</div>"
        elif text := _joined(data.get("text/plain") or output.get("text") or ""):
            yield f"```text\n{text[:_MOST_CHARACTERS]}\n```"


def _joined(text: str | list[str]) -> str:
    """Files of notebooks hold texts as lists of lines."""
    return "".join(text)


def _figure(figure: Mapping[str, Any], name: str) -> str:
    # The text of a script ends at `</`, wherever it is.
    drawn = json.dumps({"data": figure["data"], "layout": figure["layout"]}).replace("</", "<\\/")
    options = '{"displayModeBar": false, "responsive": true}'
    return (
        f'<div id="{name}"></div><script>{{const drawn = {drawn}; '
        f'Plotly.newPlot("{name}", drawn.data, drawn.layout, {options});}}</script>'
    )
