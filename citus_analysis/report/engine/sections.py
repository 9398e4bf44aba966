"""An executed notebook as sections of a page: headings, prose, figures, tables and notes in their order.

A section begins with a heading of the second level. A markdown cell with the tag `how-to-read` folds. A section without
a figure, table or note is left out; the page names it at its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

import mistune

from citus_analysis.report.engine.figure_data import slim
from citus_analysis.report.engine.notebook_document import (
    FIGURE_MIME,
    METADATA_KEY,
    Cell,
    FigureDocument,
    Notebook,
    Output,
    Place,
    text_of,
)

#: Tag of a markdown cell that explains how to read the cells after it.
HOW_TO_READ: Final = "how-to-read"

_HEADING: Final = re.compile(r"^## +(?P<title>.+?) *$\n?", re.MULTILINE)
#: Raw HTML in a notebook's prose is shown as text.
_MARKDOWN: Final = mistune.create_markdown(escape=True, plugins=["table"])


@dataclass(frozen=True)
class Figure:
    """One figure: its place in the page and the document that plotly.js draws."""

    id: str
    title: str
    height: int
    document: Mapping[str, object]


@dataclass(frozen=True)
class Block:
    """HTML, or figures side by side with one caption, in a section.

    Attributes:
        html: the block as HTML; empty for figures.
        figures: figures side by side.
        caption: of the figures.
        csv: name of the CSV file with the numbers.
        content: whether the block shows a finding or a measurement; prose and empty tables are no content.
    """

    html: str = ""
    figures: tuple[Figure, ...] = ()
    caption: str = ""
    csv: str = ""
    content: bool = False


@dataclass
class Section:
    """A heading with its content. The first section has no heading; it contains the title and the findings."""

    title: str = ""
    anchor: str = ""
    blocks: list[Block] = field(default_factory=list)

    @property
    def content(self) -> bool:
        """Whether the section shows a figure, table or note."""
        return any(block.content for block in self.blocks)


@dataclass(frozen=True)
class Sections:
    """A page's sections.

    Attributes:
        opening: title, introduction and findings.
        shown: the sections with content.
        left_out: titles of the others.
        facts: the notebook's facts about its data (:meth:`Page.footer`).
    """

    opening: Section
    shown: list[Section]
    left_out: list[str]
    facts: Mapping[str, str]


def sections_of(notebook: Notebook) -> Sections:
    """The sections of an executed notebook."""
    opening = Section()
    every = [opening]
    row: list[Figure] = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            _prose(cell, every)
            continue
        for output in cell.get("outputs", ()):
            place = output.get("metadata", {}).get(METADATA_KEY, {})
            if place.get("section"):
                every.append(_section(place["section"], every))
            if (figure := output.get("data", {}).get(FIGURE_MIME)) is not None:
                row.append(_figure(figure, place))
                if place.get("caption") or not place.get("row"):
                    every[-1].blocks.append(_figures(row, place))
                    row = []
            elif block := _block(output, place):
                every[-1].blocks.append(block)
    shown = [section for section in every[1:] if section.content]
    return Sections(opening, shown, [section.title for section in every[1:] if not section.content], facts_of(notebook))


def facts_of(notebook: Notebook) -> dict[str, str]:
    """Facts of the data that a notebook has shown (:meth:`Page.footer`); empty if it has shown none."""
    return {name: fact for place in _places(notebook) for name, fact in place.get("facts", {}).items()}


def with_systems_in_words(notebook: Notebook) -> Notebook:
    """An executed notebook whose sentences, tables and figures call systems what they are (:meth:`Page.footer`).

    The runner's names of folders are for files: a reader sees `SELECT, binary protocol, 4 workers`. Names within
    paths and other words stay.
    """
    names = {name: said for place in _places(notebook) for name, said in place.get("systems", {}).items()}
    if not names:
        return notebook
    words = {name: _in_json_and_html(said) for name, said in names.items()}
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w./-])(?:{longest_first})(?![\w/-])")
    for cell in notebook["cells"]:
        if "outputs" in cell:
            text = json.dumps(cell["outputs"], ensure_ascii=False)
            text = pattern.sub(lambda found: words[found[0]], text)
            for said in words.values():
                # A sentence that begins with system and operation need not say the operation again.
                text = text.replace(f"{said}, {said.partition(' on ')[0]}: ", f"{said}: ")
            cell["outputs"] = json.loads(text)
    return notebook


def _in_json_and_html(words: str) -> str:
    """A text as part of a JSON string; signs that HTML would read are written out."""
    return json.dumps(escape(words, quote=False), ensure_ascii=False)[1:-1]


def outdated_of(notebook: Notebook) -> list[str]:
    """The sentences of a notebook about datasets that are not up to date (:meth:`Page.say_if_outdated`)."""
    return [sentence for place in _places(notebook) if (sentence := place.get("outdated"))]


def _places(notebook: Notebook) -> Iterator[Place]:
    """The metadata of all outputs."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            yield output.get("metadata", {}).get(METADATA_KEY, {})


def introduction_of(notebook: Notebook) -> str:
    """The first paragraph below the title."""
    first = next((text_of(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"), "")
    paragraphs = [part.strip() for part in first.split("\n\n") if part.strip() and not part.startswith("#")]
    return paragraphs[0].replace("\n", " ") if paragraphs else ""


def _prose(cell: Cell, every: list[Section]) -> None:
    """Add a markdown cell; text before its first heading belongs to the previous section."""
    folded = HOW_TO_READ in cell.get("metadata", {}).get("tags", ())
    before, *headed = _HEADING.split(text_of(cell["source"]))
    every[-1].blocks += _paragraphs(before, folded=folded)
    for title, text in zip(headed[::2], headed[1::2], strict=True):
        every.append(_section(title, every))
        every[-1].blocks += _paragraphs(text, folded=folded)


def _section(title: str, every: Sequence[Section]) -> Section:
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
    taken = {section.anchor for section in every}
    anchors = (words if number == 1 else f"{words}-{number}" for number in range(1, len(every) + 2))
    return Section(title, next(anchor for anchor in anchors if anchor not in taken))


def _paragraphs(text: str, *, folded: bool) -> Iterator[Block]:
    if text.strip():
        html = str(_MARKDOWN(text))
        yield Block(f'<details class="how"><summary>How to read this</summary>{html}</details>' if folded else html)


def _block(output: Output, place: Place) -> Block | None:
    data = output.get("data", {})
    if "text/html" in data:
        return Block(text_of(data["text/html"]), csv=place.get("csv", ""), content=not place.get("empty"))
    if "text/markdown" in data:
        # The title of a section.
        return None
    text = text_of(data.get("text/plain") or output.get("text", ""))
    return Block(f"<pre>{escape(text)}</pre>", content=True) if text else None


def _figure(document: FigureDocument, place: Place) -> Figure:
    """The title moves out of the figure: as HTML it wraps on narrow screens, and screen readers find it."""
    layout = {key: value for key, value in document["layout"].items() if key != "title"}
    title = document["layout"].get("title", {}).get("text", "")
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", str(place.get("name", "unnamed")))
    drawn = {"data": slim(document["data"]), "layout": layout}
    return Figure(f"figure-{name}", title, int(document["layout"].get("height", 420)), drawn)


def _figures(row: Sequence[Figure], place: Place) -> Block:
    drawn = tuple(figure for figure in row if figure.document["data"])
    return Block(figures=drawn, caption=place.get("caption", ""), csv=place.get("csv", ""), content=bool(drawn))


def figures_json(blocks: Sequence[Block]) -> str:
    """The figures of some blocks as one JSON object: id -> data and layout."""
    figures = [figure for block in blocks for figure in block.figures]
    documents = {figure.id: figure.document for figure in figures}
    return json.dumps(documents, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
