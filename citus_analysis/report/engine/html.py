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
from citus_analysis.report.engine.sections import Block, figures_json, sections_of

_TEMPLATES: Final = Path(__file__).parent / "templates"

#: The blank between a number and its sign, at which no line ends: 88 %, < 0.001.
_BEFORE_SIGN: Final = re.compile(r"(?<=\d) (?=%)|(?<=&lt;) (?=\d)")

#: plotly's toolbar would cover marks; the page has buttons of its own beside each figure.
_CONFIG: Final = {"responsive": True, "displayModeBar": False, "displaylogo": False}


#: Report -> number of its sentences at the beginning of the index.
_IN_SHORT: Final = {"scalability": 2, "bottleneck": 1, "comparison": 1, "profile": 1}


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
    blocks = [block for section in (sections.opening, *sections.shown) for block in section.blocks]
    template = _environment().get_template("report.html.j2")
    return template.render(title=title, tables=tables, index=index, sections=sections, **_drawn(blocks, library))


def index_html(
    title: str,
    links: Sequence[Link],
    facts: Mapping[str, str] | None = None,
    left_out: Mapping[str, str] | None = None,
    further: str = "",
    warnings: Sequence[str] = (),
    figure: Block | None = None,
) -> str:
    """The page that links the reports in reading order.

    Args:
        title: title of the page.
        links: the reports.
        facts: the measured systems and times.
        left_out: report -> why it was not made.
        further: HTML that links reports in folders below.
        warnings: what a reader must know of all reports.
        figure: the figure that the page begins with.
    """
    template = _environment().get_template("index.html.j2")
    shown = {"title": title, "links": links, "further": further, "warnings": warnings, "in_short": _in_short(links)}
    drawn = _drawn([figure] if figure else [])
    return template.render(facts=facts or {}, left_out=left_out or {}, figure=figure, **shown, **drawn)


def table_page(title: str, sentences: Sequence[str], tables: Sequence[str]) -> str:
    """A page of a few sentences and tables, without figures.

    Args:
        title: title of the page.
        sentences: what it begins with.
        tables: the tables as HTML.
    """
    template = _environment().get_template("claims.html.j2")
    return template.render(title=title, sentences=sentences, tables=tables)


def _in_short(links: Sequence[Link]) -> list[str]:
    """The first sentences of several reports: does it scale, what limits it, what would help, where does time go."""
    first = {link.href.removesuffix(".html"): link.summary for link in links}
    said = [sentence for name, number in _IN_SHORT.items() for sentence in first.get(name, ())[:number]]
    return said if len(first.keys() & _IN_SHORT.keys()) > 1 else []


def _drawn(blocks: Sequence[Block], library: str = "") -> dict[str, str]:
    """What a page needs to draw the figures of some blocks; empty texts without any."""
    if not any(block.figures for block in blocks):
        return {"config": "", "library": "", "figures": ""}
    data = packed(figures_json(blocks))
    return {"config": json.dumps(_CONFIG), "library": library or plotly_library(), "figures": data}


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
