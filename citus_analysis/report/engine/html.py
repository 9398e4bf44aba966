"""An executed notebook as one self-contained HTML page: no code, no request to any network.

The page contains plotly.js and the data of all figures (:mod:`citus_analysis.report.engine.packed_text`). A content
security policy in its head forbids any connection, so a file sent by e-mail looks the same as on this machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from citus_analysis.report.engine.notebook_document import Notebook
from citus_analysis.report.engine.packed_text import packed, plotly_library
from citus_analysis.report.engine.sections import figures_json, sections_of

__all__ = ["Link", "export_html", "index_html"]

_TEMPLATES: Final = Path(__file__).parent / "templates"

#: The blank between a number and its sign, at which no line ends: 88 %, < 0.001.
_BEFORE_SIGN: Final = re.compile(r"(?<=\d) (?=%)|(?<=&lt;) (?=\d)")

#: plotly's toolbar would cover marks; the page has buttons of its own beside each figure.
_CONFIG: Final = {"responsive": True, "displayModeBar": False, "displaylogo": False}


@dataclass(frozen=True)
class Link:
    """A report on the index page.

    Attributes:
        href: its page.
        title: its heading.
        summary: the sentences that it opens with.
        tables: its CSV files, as the page links to them.
        introduction: sentences about its content.
    """

    href: str
    title: str
    summary: Sequence[str]
    tables: Sequence[str] = ()
    introduction: str = ""


def export_html(notebook: Notebook, *, title: str, tables: str, index: str = "", library: str = "") -> str:
    """The page of an executed notebook.

    Args:
        notebook: the executed notebook.
        title: title of the page.
        tables: folder of the CSV files as the page links to it; empty: figures carry no link.
        index: page of all reports, to which this one links back; empty: none.
        library: the text of :func:`~citus_analysis.report.engine.packed_text.plotly_library`, where it is known.
    """
    sections = sections_of(notebook)
    whole = [sections.opening, *sections.shown]
    has_figures = any(block.figures for section in whole for block in section.blocks)
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            title=title,
            tables=tables,
            index=index,
            sections=sections,
            config=json.dumps(_CONFIG),
            library=(library or plotly_library()) if has_figures else "",
            figures=packed(figures_json(whole)) if has_figures else "",
        )
    )


def index_html(
    title: str,
    links: Sequence[Link],
    facts: Mapping[str, str] | None = None,
    left_out: Mapping[str, str] | None = None,
    further: str = "",
    warnings: Sequence[str] = (),
) -> str:
    """The page that links the reports in reading order.

    Args:
        title: title of the page.
        links: the reports.
        facts: the measured systems and times.
        left_out: report -> why it was not made.
        further: HTML that links reports in folders below.
        warnings: what a reader must know of all reports.
    """
    template = _environment().get_template("index.html.j2")
    shown = {"title": title, "links": links, "further": further, "warnings": warnings}
    return template.render(facts=facts or {}, left_out=left_out or {}, **shown)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    assets = {name: (_TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "page.js")}
    environment.filters["unbroken"] = _unbroken
    environment.globals |= {"css": assets["page.css"], "js": assets["page.js"], "version": version("citus-analysis")}
    return environment


def _unbroken(html: str) -> str:
    """HTML in which lines do not end between a number and its sign."""
    return _BEFORE_SIGN.sub("&nbsp;", html)
