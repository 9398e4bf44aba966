"""An executed notebook as one self-contained HTML page: no code, no request to any network.

The page holds plotly.js once, and every figure as data. A content security policy in its head forbids any
connection, so that a file passed on by e-mail shows the same as it does here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import nbformat
from nbconvert.exporters import TemplateExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from citus_analysis.report.engine.page import FIGURE_MIME, METADATA_KEY

__all__ = ["Link", "export_html", "index_html"]

_TEMPLATES: Final = Path(__file__).parent / "templates"

#: plotly's own offers: no logo, no lasso; the camera saves at twice the screen's resolution.
_CONFIG: Final = {
    "responsive": True,
    "displaylogo": False,
    "modeBarButtonsToRemove": ["lasso2d", "select2d", "autoScale2d"],
    "toImageButtonOptions": {"format": "png", "scale": 2},
}


@dataclass(frozen=True)
class Link:
    """A report on the index page."""

    href: str
    title: str
    summary: Sequence[str]
    tables: Sequence[str] = ()


class _Exporter(TemplateExporter):
    template_name = "citus_analysis"
    file_extension = ".html"
    output_mimetype = "text/html"
    extra_template_basedirs = [str(_TEMPLATES)]  # noqa: RUF012 # a traitlets list, copied per instance

    def default_filters(self) -> Iterator[tuple[str, Any]]:
        yield from super().default_filters()  # type: ignore[no-untyped-call] # nbconvert is partly typed
        yield "blocks", _blocks
        yield "markdown", _markdown


def export_html(notebook: Path, *, title: str, tables: str) -> str:
    """The page of an executed notebook.

    Args:
        notebook: the executed notebook.
        title: title of the page.
        tables: folder of the CSV files as the page links to it; empty: figures carry no link.
    """
    document = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call] # nbformat is partly typed
    resources = {"title": title, "tables": tables, "config": _script_json(_CONFIG), "plotly_js": plotly_js()}
    body, _ = _exporter().from_notebook_node(document, resources=resources | _assets())
    return str(body)


def index_html(title: str, links: Sequence[Link]) -> str:
    """The page that links the reports."""
    template = _exporter().environment.get_template("citus_analysis/listing.html.j2")
    return str(template.render(title=title, links=links, resources=_assets()))


@cache
def plotly_js() -> str:
    """The plotly.js that fits the installed plotly package."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


@cache
def _exporter() -> _Exporter:
    return _Exporter()  # type: ignore[no-untyped-call] # nbconvert is partly typed


@cache
def _assets() -> dict[str, str]:
    folder = _TEMPLATES / "citus_analysis"
    assets = {name: (folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js")}
    return {"css": assets["page.css"], "js": assets["page.js"], "version": version("citus-analysis")}


def _blocks(cell: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The outputs of a cell in order; figures side by side form one block."""
    if cell["cell_type"] == "markdown":
        yield {"kind": "markdown", "source": cell["source"]}
        return
    row: list[dict[str, Any]] = []
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        if FIGURE_MIME in data:
            place = output["metadata"].get(METADATA_KEY, {})
            row.append(_figure(data[FIGURE_MIME], place))
            if place.get("caption") or not place.get("row"):
                yield {"kind": "figures", "figures": row, "caption": place.get("caption", ""), "csv": place.get("csv")}
                row = []
        elif "text/html" in data:
            csv = output["metadata"].get(METADATA_KEY, {}).get("csv")
            yield {"kind": "html", "html": data["text/html"], "csv": csv}
        elif "text/plain" in data or output["output_type"] == "stream":
            yield {"kind": "text", "text": data.get("text/plain") or output.get("text", "")}


def _markdown(source: str) -> str:
    renderer = IPythonRenderer(escape=True, exclude_anchor_links=True)
    return str(MarkdownWithMath(renderer=renderer).render(source))


def _figure(document: Mapping[str, Any], place: Mapping[str, Any]) -> dict[str, Any]:
    """The title moves out of the figure: as HTML it wraps on narrow screens, and screen readers find it."""
    layout = {key: value for key, value in document["layout"].items() if key != "title"}
    title = document["layout"].get("title", {}).get("text", "")
    return {
        "id": f"figure-{place.get('name', 'unnamed')}",
        "title": title,
        "height": layout.get("height", 420),
        "json": _script_json({"data": document["data"], "layout": layout}),
    }


def _script_json(value: object) -> str:
    """JSON that cannot end the script element that contains it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e").replace("\u2028", "\\u2028")
