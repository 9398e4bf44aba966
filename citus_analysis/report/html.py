"""An executed notebook as one self-contained HTML page: no code, no request to any network.

The page contains plotly.js and the data of all figures (:mod:`citus_analysis.report.html`). A content
security policy in its head forbids any connection, so a file sent by e-mail looks the same as on this machine.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode, b85encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from html import escape, unescape
from html.parser import HTMLParser
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import mistune
import numpy as np
import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from citus_analysis.core.output_files import put_in_place
from citus_analysis.core.type_aliases import Json
from citus_analysis.errors import ReportError
from citus_analysis.report.notebooks import (
    FIGURE_MIME,
    METADATA_KEY,
    Cell,
    CellOutput,
    FigureDocument,
    Notebook,
    OutputProperties,
    join_source_text,
)
from citus_analysis.runs.set_ups import CONFIGURATION
from citus_analysis.texts.numbers import (
    MISSING,
    convert_long_times_to_ms,
    format_aligned_number,
    format_estimate_with_interval,
    format_number_column,
    format_p_value,
)
from citus_analysis.units import label

# Numbers of figures with the precision that a screen can show.
#
# plotly writes arrays as base64 with 8 bytes per number. Four bytes keep seven digits, more than any screen resolves;
# arrays that would lose more (times in milliseconds since 1970) keep 8 bytes.

#: Largest change of a number, relative to the range of all: a thousandth of a pixel on a figure of 1,000 pixels.
_LOSS: Final = 1e-6


def reduce_precision(value: Json) -> Json:
    """A part of a figure, with 4 instead of 8 bytes per number in arrays where the difference is invisible."""
    if isinstance(value, list):
        return [reduce_precision(one) for one in value]
    if not isinstance(value, dict):
        return value
    numbers = value.get("bdata")
    if value.get("dtype") == "f8" and isinstance(numbers, str):
        return value | _narrow(numbers)
    return {key: reduce_precision(part) for key, part in value.items()}


def _narrow(numbers: str) -> dict[str, Json]:
    """The changed parts of an array; none if 4 bytes per number would lose too much."""
    values = np.frombuffer(b64decode(numbers), dtype="<f8")
    with np.errstate(over="ignore"):
        short = values.astype("<f4")
    finite = np.isfinite(values)
    if finite.any():
        spread = float(np.ptp(values[finite])) or float(np.abs(values[finite]).max())
        if not np.abs(short[finite].astype("f8") - values[finite]).max() <= _LOSS * spread:
            return {}
    return {"dtype": "f4", "bdata": b64encode(short.tobytes()).decode()}


# An executed notebook as sections of a page: headings, prose, figures, tables and notes in their order.
#
# A section begins with a heading of the second level. A markdown cell with the tag `how-to-read` folds. A section
# without a figure, table or note is left out; the page names it at its end.

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
class SectionBlock:
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
class PageSection:
    """A heading with its content. The first section has no heading; it contains the title and the findings."""

    title: str = ""
    anchor: str = ""
    blocks: list[SectionBlock] = field(default_factory=list)

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

    opening: PageSection
    shown: list[PageSection]
    left_out: list[str]
    facts: Mapping[str, str]


def split_into_sections(notebook: Notebook) -> Sections:
    """The sections of an executed notebook."""
    opening = PageSection()
    every = [opening]
    row: list[Figure] = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            _add_prose(cell, every)
            continue
        for output in cell.get("outputs", ()):
            place = output.get("metadata", {}).get(METADATA_KEY, {})
            if place.get("section"):
                every.append(_make_section(place["section"], every))
            if (figure := output.get("data", {}).get(FIGURE_MIME)) is not None:
                row.append(_extract_figure_title(figure, place))
                if place.get("caption") or not place.get("row"):
                    every[-1].blocks.append(_build_figure_block(row, place))
                    row = []
            elif block := _build_output_block(output, place):
                every[-1].blocks.append(block)
    shown = [section for section in every[1:] if section.content]
    return Sections(
        opening, shown, [section.title for section in every[1:] if not section.content], collect_data_facts(notebook)
    )


def collect_data_facts(notebook: Notebook) -> dict[str, str]:
    """Facts of the data that a notebook has shown (:meth:`Page.footer`); empty if it has shown none."""
    return {name: fact for place in _list_output_metadata(notebook) for name, fact in place.get("facts", {}).items()}


#: A cell, in JSON, that was to stay on one line, but holds a name that is longer than the one it had.
_UNBROKEN_LONG_CELL: Final = re.compile(r'(<td class=\\")short(\\">)(?=[^<]{37})')


def replace_system_names(notebook: Notebook) -> Notebook:
    """An executed notebook whose sentences, tables and figures call systems what they are (:meth:`Page.footer`).

    The runner's names of folders are for files: a reader sees `SELECT, binary protocol, 4 workers`. Names within
    paths and other words stay.
    """
    names = {name: said for place in _list_output_metadata(notebook) for name, said in place.get("systems", {}).items()}
    if not names:
        return notebook
    words = {name: _escape_for_json_and_html(said) for name, said in names.items()}
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w./-])(?:{longest_first})(?![\w/-])")
    for cell in notebook["cells"]:
        if "outputs" in cell:
            text = json.dumps(cell["outputs"], ensure_ascii=False)
            text = pattern.sub(lambda found: words[found[0]], text)
            for said in words.values():
                # The words for a system begin with its operation, which a sentence need not say again.
                operation = said.partition(" on ")[0]
                text = text.replace(f"{said}, {operation}: ", f"{said}: ").replace(f"{operation} of {said}", said)
            text = _UNBROKEN_LONG_CELL.sub(r"\1long\2", text)
            cell["outputs"] = json.loads(text)  # noqa: TID251 - the text above
    return notebook


def _escape_for_json_and_html(words: str) -> str:
    """A text as part of a JSON string; signs that HTML would read are written out."""
    return json.dumps(escape(words, quote=False), ensure_ascii=False)[1:-1]


def list_outdated_sentences(notebook: Notebook) -> list[str]:
    """The sentences of a notebook about datasets that are not up to date (:meth:`Page.say_if_outdated`)."""
    return [sentence for place in _list_output_metadata(notebook) if (sentence := place.get("outdated"))]


def _list_output_metadata(notebook: Notebook) -> Iterator[OutputProperties]:
    """The metadata of all outputs."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            yield output.get("metadata", {}).get(METADATA_KEY, {})


def find_introduction(notebook: Notebook) -> str:
    """The first paragraph below the title."""
    first = next(
        (join_source_text(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"), ""
    )
    paragraphs = [part.strip() for part in first.split("\n\n") if part.strip() and not part.startswith("#")]
    return paragraphs[0].replace("\n", " ") if paragraphs else ""


def _add_prose(cell: Cell, every: list[PageSection]) -> None:
    """Add a markdown cell; text before its first heading belongs to the previous section."""
    folded = HOW_TO_READ in cell.get("metadata", {}).get("tags", ())
    before, *headed = _HEADING.split(join_source_text(cell["source"]))
    every[-1].blocks += _build_paragraph_blocks(before, folded=folded)
    for title, text in zip(headed[::2], headed[1::2], strict=True):
        every.append(_make_section(title, every))
        every[-1].blocks += _build_paragraph_blocks(text, folded=folded)


def _make_section(title: str, every: Sequence[PageSection]) -> PageSection:
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
    taken = {section.anchor for section in every}
    anchors = (words if number == 1 else f"{words}-{number}" for number in range(1, len(every) + 2))
    return PageSection(title, next(anchor for anchor in anchors if anchor not in taken))


def _build_paragraph_blocks(text: str, *, folded: bool) -> Iterator[SectionBlock]:
    if text.strip():
        html = str(_MARKDOWN(text))
        yield SectionBlock(
            f'<details class="how"><summary>How to read this</summary>{html}</details>' if folded else html
        )


def _build_output_block(output: CellOutput, place: OutputProperties) -> SectionBlock | None:
    data = output.get("data", {})
    if "text/html" in data:
        return SectionBlock(
            join_source_text(data["text/html"]), csv=place.get("csv", ""), content=not place.get("empty")
        )
    if "text/markdown" in data:
        # The title of a section.
        return None
    text = join_source_text(data.get("text/plain") or output.get("text", ""))
    return SectionBlock(f"<pre>{escape(text)}</pre>", content=True) if text else None


def _extract_figure_title(document: FigureDocument, place: OutputProperties) -> Figure:
    """The title moves out of the figure: as HTML it wraps on narrow screens, and screen readers find it."""
    layout = {key: value for key, value in document["layout"].items() if key != "title"}
    title = document["layout"].get("title", {}).get("text", "")
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", str(place.get("name", "unnamed")))
    drawn = {"data": reduce_precision(document["data"]), "layout": layout}
    return Figure(f"figure-{name}", title, int(document["layout"].get("height", 420)), drawn)


def _build_figure_block(row: Sequence[Figure], place: OutputProperties) -> SectionBlock:
    drawn = tuple(figure for figure in row if figure.document["data"])
    return SectionBlock(figures=drawn, caption=place.get("caption", ""), csv=place.get("csv", ""), content=bool(drawn))


def serialise_figures(blocks: Sequence[SectionBlock]) -> str:
    """The figures of some blocks as one JSON object: id -> data and layout."""
    figures = [figure for block in blocks for figure in block.figures]
    documents = {figure.id: figure.document for figure in figures}
    return json.dumps(documents, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


# Text packed into a page: compressed, and written in characters that HTML leaves alone.
#
# plotly.js is 4.8 MB, and a page contains all of it, so that it works from a file without any network. Compressed
# (DEFLATE) and in base 85 it is a third of that; every browser since 2023 unpacks it itself (`DecompressionStream`).

#: A module of plotly.js that consists of one long text, the program that draws map tiles in the background.
_LONG_TEXT: Final = re.compile(r"""=>\{"use strict";[\w$]+\.exports=(['"])""")
_SHORTEST: Final = 100_000


def pack_text(text: str) -> str:
    """Text, compressed and in base 85; `<`, which could begin a tag, is written as a comma."""
    return b85encode(zlib.compress(text.encode(), 9)).replace(b"<", b",").decode()


@cache
def pack_plotly_library() -> str:
    """The plotly.js of the installed plotly package, packed, without the code that only maps of the world need."""
    return pack_text(read_plotly_script())


def read_plotly_script() -> str:
    """The same script, not packed."""
    # As in `plotly.offline.get_plotlyjs`, but without the import of all kinds of figures.
    return strip_map_worker(files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8"))


def strip_map_worker(script: str) -> str:
    r"""plotly.js without the text of MapLibre's worker, 0.5 MB that only street maps use.

    A version of plotly.js that is laid out differently is returned as it is.

    Example:
        >>> long = "x" * 200_000
        >>> strip_map_worker(f'''var a=W((e,t)=>{{"use strict";t.exports='{long}'}});var b=1;''')
        'var a=W((e,t)=>{"use strict";t.exports=\'\'});var b=1;'
    """
    for found in _LONG_TEXT.finditer(script):
        rest = re.compile(rf"(?:[^\\{found[1]}]|\\.)*", re.DOTALL).match(script, found.end())
        if rest is not None and len(rest[0]) >= _SHORTEST and script[rest.end() : rest.end() + 2] == f"{found[1]}}}":
            return script[: found.end()] + script[rest.end() :]
    return script


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
        library: the text of :func:`~citus_analysis.report.html.pack_plotly_library`, where it is known.
    """
    sections = split_into_sections(notebook)
    blocks = [block for section in (sections.opening, *sections.shown) for block in section.blocks]
    template = _make_template_environment().get_template("report.html.j2")
    return template.render(
        title=title, tables=tables, index=index, sections=sections, **_render_figure_scripts(blocks, library)
    )


def index_html(
    title: str,
    links: Sequence[Link],
    facts: Mapping[str, str] | None = None,
    left_out: Mapping[str, str] | None = None,
    further: str = "",
    warnings: Sequence[str] = (),
    figure: SectionBlock | None = None,
    *,
    author: str = "",
    notes: str = "",
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
        author: who made the reports.
        notes: text below the author; empty lines separate paragraphs.
    """
    template = _make_template_environment().get_template("index.html.j2")
    shown = {
        "title": title,
        "author": author,
        "notes": [paragraph.strip() for paragraph in notes.split("\n\n") if paragraph.strip()],
        "links": links,
        "further": further,
        "warnings": warnings,
        "in_short": _collect_first_sentences(links),
    }
    drawn = _render_figure_scripts([figure] if figure else [])
    return template.render(facts=facts or {}, left_out=left_out or {}, figure=figure, **shown, **drawn)


def render_table_page(title: str, sentences: Sequence[str], tables: Sequence[str]) -> str:
    """A page of a few sentences and tables, without figures.

    Args:
        title: title of the page.
        sentences: what it begins with.
        tables: the tables as HTML.
    """
    template = _make_template_environment().get_template("claims.html.j2")
    return template.render(title=title, sentences=sentences, tables=tables)


def _collect_first_sentences(links: Sequence[Link]) -> list[str]:
    """The first sentences of several reports: does it scale, what limits it, what would help, where does time go."""
    first = {link.href.removesuffix(".html"): link.summary for link in links}
    said = [sentence for name, number in _IN_SHORT.items() for sentence in first.get(name, ())[:number]]
    return said if len(first.keys() & _IN_SHORT.keys()) > 1 else []


def _render_figure_scripts(blocks: Sequence[SectionBlock], library: str = "") -> dict[str, str]:
    """What a page needs to draw the figures of some blocks; empty texts without any."""
    if not any(block.figures for block in blocks):
        return {"config": "", "library": "", "figures": ""}
    data = pack_text(serialise_figures(blocks))
    return {"config": json.dumps(_CONFIG), "library": library or pack_plotly_library(), "figures": data}


@cache
def _make_template_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    assets = {name: (_TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "page.js")}
    environment.filters["unbroken"] = _join_numbers_to_units
    environment.globals |= {"css": assets["page.css"], "js": assets["page.js"], "version": version("citus-analysis")}
    return environment


def _join_numbers_to_units(html: str) -> str:
    """HTML in which lines do not end between a number and its sign."""
    return _BEFORE_SIGN.sub("&nbsp;", html)


# Links of a page to files beside it, and the check that none is dead.
#
# An index also links the reports in folders below its own, such as one on runs that went wrong.

_BLOCK: Final = re.compile(r'<section class="further".*?</section>', re.DOTALL)
_TITLE: Final = re.compile(r"<title>(.*?)</title>", re.DOTALL)
#: Characters at the beginning of a page that contain its title.
_HEAD: Final = 2_000


class _Hrefs(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def list_linked_files(html: str) -> list[str]:
    """Paths of the files that a page links, as written there; links to other sites and within the page are left out.

    Example:
        >>> list_linked_files('<a href="profile/spans.csv">x</a> <a href="#top">x</a> <a href="https://a.org/b">x</a>')
        ['profile/spans.csv']
    """
    parser = _Hrefs()
    parser.feed(html)
    places = map(urlsplit, parser.found)
    return list(dict.fromkeys(unquote(place.path) for place in places if place.path and not place.scheme))


def check_links(page: Path, *, folder: Path | None = None, expected: Collection[str] = ()) -> None:
    """Refuse a page with a link to a missing file.

    Args:
        page: an HTML file.
        folder: final folder of the page; default: its present folder.
        expected: files that are written after the page.

    Raises:
        ReportError: a linked file is missing.
    """
    place = folder or page.parent
    linked = [file for file in list_linked_files(page.read_text(encoding="utf-8")) if file not in expected]
    missing = [file for file in linked if not (place / file).is_file()]
    if missing:
        raise ReportError(f"links to files that were not written: {', '.join(missing)}", path=page.name)


def render_further_pages(folder: Path) -> str:
    """The part of an index that links the reports in the folders below; hidden if there are none."""
    items = [
        f'<li><a href="{quote(page.relative_to(folder).as_posix())}">{escape(_read_page_title(page))}</a>'
        f" ({escape(page.parent.name)})</li>"
        for page in sorted(folder.glob("*/*.html"))
    ]
    if not items:
        return '<section class="further" hidden></section>'
    return f'<section class="further"><h2>Other pages in this folder</h2><ul>{"".join(items)}</ul></section>'


def _read_page_title(page: Path) -> str:
    with page.open(encoding="utf-8", errors="replace") as file:
        found = _TITLE.search(file.read(_HEAD))
    return unescape(found[1]) if found else page.stem


def find_index_link(folder: Path) -> str:
    """The link from pages in a folder to their index, beside them or else in the folder above; empty if none exists."""
    # The parent is tested by its own path, because the pages' folder may not exist yet.
    places = {"index.html": folder, "../index.html": folder.parent}
    return next((link for link, place in places.items() if _is_index(place / "index.html")), "")


def _is_index(page: Path) -> bool:
    return page.is_file() and _BLOCK.search(page.read_text(encoding="utf-8", errors="replace")) is not None


def link_from_above(folder: Path) -> None:
    """Renew the links to folders in the index of the folder above, if that has one."""
    index = folder.parent / "index.html"
    if not _is_index(index):
        return
    page = index.read_text(encoding="utf-8")
    renewed = _BLOCK.sub(lambda _: render_further_pages(folder.parent), page)
    if renewed != page:
        draft = index.with_name(".index.html.new")
        draft.write_text(renewed, encoding="utf-8")
        put_in_place(draft, index)


# Frames as HTML tables a person can read: units in the header, sensible digits, intervals beside their estimates.
#
# great-tables is not used: it writes 15 kB for a table of 20 rows, because each of its tables has its own style sheet,
# against 3 kB here, where the page has one for all; its import takes 0.7 s.

#: Columns with texts longer than this many characters get a minimal width, so that several words fit on a line.
_LONG: Final = 36
#: Texts of at most this many characters, such as a ratio with its interval, stay on one line.
_SHORT: Final = 22
#: The same limit for names without a space.
_NAME: Final = 40
#: Cell of a cluster without workers.
_SINGLE: Final = "one server"
#: In tables with at least this many rows, a text that all rows share is stated once.
_SEVERAL: Final = 3
#: Up to this many rows too many are shown rather than left out.
_SPARED: Final = 5
#: Tables with more columns are printed in landscape format.
_WIDE: Final = 11
#: Tables with more columns are printed in smaller letters.
_MANY: Final = 7
#: Names of columns -> their headings for readers.
_HEADINGS: Final = {
    "cliffs_delta": "Cliff's delta",
    "cpu_per_node": "cores per node",
    "drivers": "load generators",
    "family": "set-up",
    "jain_index": "Jain's index",
    "ops_s_per_vcpu": "throughput per vCPU [operations/s]",
    "resource": "system measured",
    "run_id": "run",
    "sd": "standard deviation",
    "sd_ops_s": "standard deviation [operations/s]",
    "sd_percent": "standard deviation [%]",
    "set_up": "set-up",
    "statement_kind": "statement",
    "threads": "client threads",
    "variant": "set-up",
    "vcpus": "vCPUs",
}
#: Columns of a configuration that follow from the name of the system; they are left to the CSV file.
_IMPLIED: Final = frozenset(CONFIGURATION) - {"operation", "workers", "threads"}
#: Columns of whole numbers that are identifiers, written without thousands separators.
_NUMBERS_OF_THINGS: Final = frozenset({"least_used", "most_used", "pid", "shard", "shard_id"})
#: Columns whose values are written in words of their own.
_WORDS: Final[dict[str, Callable[[object], object]]] = {
    "workers": lambda workers: _SINGLE if workers == 0 else workers,
    "statement_kind": lambda kind: str(kind).upper(),
    "level": "{:g}".format,
}
_INTERVAL: Final = re.compile(r"\[([^\s\]]+), ([^\s\]]+)\]")
#: Names of an estimate whose interval is in the columns `low` and `high`, with its unit.
_ESTIMATES: Final = ("mean", "estimate", "ratio", "speedup", "value")


def render_html_table(frame: pl.DataFrame, caption: str, rows: int = 20) -> str:
    """The first rows of a frame as an HTML table with a caption; all text is escaped.

    An estimate with its interval in two more columns (`x`, `x_low`, `x_high`, or `mean`, `low`, `high`) becomes one
    column of `0.64 [0.51, 0.79]`. Times of five digits in microseconds are in milliseconds. A text or a whole number
    that all rows of the frame share, such as the method or the number of runs, moves into the caption; a column without
    any value in the rows shown is left out, and so are columns that follow from the name of the measured system.

    Args:
        frame: the table.
        caption: description of its content; the number of rows left out is added.
        rows: number of rows to show; a few more are shown rather than left out.
    """
    if frame.is_empty():
        return f'<p class="none"><b>{escape(caption.rstrip("."))}</b>: none.</p>'
    same = _find_constant_columns(frame)
    implied = [name for name in _find_columns_implied_by_system(frame) if name not in same]
    few = frame.height <= rows + _SPARED
    shown = convert_long_times_to_ms(frame.drop(same, implied, *_find_empty_columns(frame)))
    shown = shown if few else shown.head(rows)
    absent = [] if few else _find_empty_columns(shown)
    caption += _write_caption_remarks(caption, frame, 0 if few else rows, same, more_columns=bool(implied or absent))
    columns = _format_columns(shown.drop(absent))
    head = "".join(f'<th scope="col"{kind}>{escape(heading)}</th>' for heading, kind, _ in columns)
    cells = ([f"<td{kind}>{_render_unbroken_cell(text)}</td>" for text in texts] for _, kind, texts in columns)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    wide = " wide" if len(columns) > _WIDE else " many" if len(columns) > _MANY else ""
    return (
        f'<div class="table{wide}"><p class="caption">{escape(caption)}</p>'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></div>"
    )


def _render_unbroken_cell(text: str) -> str:
    """A cell whose interval stays on one line, below its estimate in a narrow column."""
    return _INTERVAL.sub(r"[\1,&nbsp;\2]", text)


def _write_caption_remarks(
    caption: str, frame: pl.DataFrame, rows: int, same: Sequence[str], *, more_columns: bool
) -> str:
    """Remarks after a caption: the rows shown (0: all), the values that all rows share, and the place of the rest."""
    shared = ", ".join(f"{_format_heading(name)} {_format_cells(frame[name].head(1))[0]}" for name in same)
    remarks = [
        f"{rows} of {frame.height:,} rows; all are in the CSV file." if rows else "",
        f"In all rows: {shared}." if shared else "",
        "The CSV file has more columns." if more_columns else "",
    ]
    said = " ".join(filter(None, remarks))
    return f"{'' if caption.endswith('.') else '.'} {said}" if said else ""


def _format_columns(frame: pl.DataFrame) -> list[tuple[str, str, list[str]]]:
    """Each column as shown: its heading, class, and one text per row."""
    intervals = _find_interval_columns(frame)
    ends = {end for pair in intervals.values() for end in pair}
    shown = []
    for name in (name for name in frame.columns if name not in ends):
        cells = _format_cells(frame[name])
        kind = _choose_column_class(frame[name], cells)
        if name in intervals:
            cells = [format_estimate_with_interval(*row) for row in frame.select(name, *intervals[name]).iter_rows()]
        shown.append((_format_heading(name), kind, cells))
    return shown


def _format_cells(column: pl.Series) -> list[str]:
    """The texts of a column, by its name and type."""
    name, is_float = column.name, column.dtype.is_float()
    if name in ("p_value", "p_adjusted") and is_float:
        return [escape(format_p_value(value)) for value in column]
    words = str if name in _NUMBERS_OF_THINGS or name.endswith("_id") else _WORDS.get(name)
    if words is None:
        return format_number_column(column) if is_float else [_format_cell(value) for value in column]
    return [_format_cell(value if value is None else words(value)) for value in column]


def _find_columns_implied_by_system(frame: pl.DataFrame) -> list[str]:
    """Columns of a configuration that have one value for each system that was measured."""
    columns = [name for name in frame.columns if name in _IMPLIED]
    if "resource" not in frame.columns or not columns:
        return []
    values = frame.group_by("resource").agg(pl.col(columns).n_unique())
    return [name for name in columns if (values[name] == 1).all()]


def _format_heading(name: str) -> str:
    return _HEADINGS.get(name) or label(name)


def _find_constant_columns(frame: pl.DataFrame) -> list[str]:
    """Columns that have one value in several rows: texts, whole numbers, the level; never the first column."""
    if frame.height < _SEVERAL:
        return []
    kinds = list(frame.schema.items())[1:]
    named = [name for name, kind in kinds if kind == pl.String or kind.is_integer() or name == "level"]
    return [name for name in named if frame[name].n_unique() == 1 and frame[name][0] not in (None, "")]


def _find_empty_columns(frame: pl.DataFrame) -> list[str]:
    """Columns in which no row has a value; never the first column."""
    empty = [name for name in frame.columns[1:] if frame[name].null_count() == frame.height]
    texts = [name for name in frame.columns[1:] if frame[name].dtype == pl.String and name not in empty]
    return [*empty, *(name for name in texts if frame[name].is_in(["", None], nulls_equal=True).all())]


def _find_interval_columns(frame: pl.DataFrame) -> dict[str, tuple[str, str]]:
    """Estimate -> its two ends, for every estimate whose ends are columns of the same frame."""
    named = {
        name: _name_interval_ends(name)
        for name in frame.columns
        if set(_name_interval_ends(name)) <= set(frame.columns)
    }
    # Ends without the estimate's name have its unit: `estimate_ms`, `low_ms`, `high_ms`.
    for unit in (name.removeprefix("low") for name in frame.columns if re.fullmatch("low(_ms|_us|_s|_percent)?", name)):
        plain = next((f"{one}{unit}" for one in _ESTIMATES if f"{one}{unit}" in frame.columns), None)
        if plain and plain not in named and f"high{unit}" in frame.columns:
            named[plain] = (f"low{unit}", f"high{unit}")
    return {name: ends for name, ends in named.items() if all(frame[one].dtype.is_numeric() for one in (name, *ends))}


def _name_interval_ends(name: str) -> tuple[str, str]:
    """Names of the columns with the ends of an estimate's interval."""
    return f"{name}_low", f"{name}_high"


def _format_cell(value: object) -> str:
    match value:
        case None:
            return MISSING
        case bool():
            return "yes" if value else "no"
        case float():
            return format_aligned_number(value)
        case int():
            return f"{value:,}".replace("-", "−")
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case list() | pl.Series():
            return escape(", ".join(map(str, value)))
        case _:
            return escape(str(value))


def _choose_column_class(column: pl.Series, texts: Sequence[str]) -> str:
    """The class of a column, by its type, and by the texts in its cells: names of systems are longer than their ids."""
    if column.dtype.is_numeric():
        return ' class="number"'
    if column.dtype.is_temporal():
        return ' class="short"'
    if column.dtype != pl.String or not texts:
        return ""
    longest = max(map(len, texts))
    kept = longest <= (_SHORT if any(" " in text for text in texts) else _NAME)
    return ' class="short"' if kept else ' class="long"' if longest > _LONG else ""


# An HTML document within a page, in a frame that can reach neither the page around it nor a network.

#: The document may run its own script; the sandbox denies everything else.
_SANDBOX: Final = "allow-scripts"
_LOOK: Final = "width: 100%; height: 46rem; border: 1px solid #d9dee4; background: #fff"


def render_framed_page(document: str, title: str) -> str:
    """An element that shows a whole HTML document.

    The document is the value of an attribute, so that one file contains both. Its own content security policy and that
    of the page around it apply in the frame.

    Args:
        document: the document, with everything that it shows.
        title: name of the frame for screen readers.

    Example:
        >>> print(render_framed_page('<p title="a">&amp;</p>', "A & B").rpartition(" srcdoc=")[2])
        '<p title="a">&amp;amp;</p>'></iframe>
    """
    # JSON has many double quotes, which need no escape within single ones.
    source = document.replace("&", "&amp;").replace("'", "&#39;")
    return f'<iframe title="{escape(title)}" sandbox="{_SANDBOX}" style="{_LOOK}" srcdoc=\'{source}\'></iframe>'
