"""Links of a page to files beside it, and the check that none is dead.

An index also links the reports in folders below its own, such as one on runs that went wrong.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from citus_analysis.core.output_files import put_in_place
from citus_analysis.errors import ReportError

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


def linked_files(html: str) -> list[str]:
    """Paths of the files that a page links, as written there; links to other sites and within the page are left out.

    Example:
        >>> linked_files('<a href="profile/spans.csv">x</a> <a href="#top">x</a> <a href="https://a.org/b">x</a>')
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
    linked = [file for file in linked_files(page.read_text(encoding="utf-8")) if file not in expected]
    missing = [file for file in linked if not (place / file).is_file()]
    if missing:
        raise ReportError(f"links to files that were not written: {', '.join(missing)}", path=page.name)


def further_pages(folder: Path) -> str:
    """The part of an index that links the reports in the folders below; hidden if there are none."""
    items = [
        f'<li><a href="{quote(page.relative_to(folder).as_posix())}">{escape(_title(page))}</a>'
        f" ({escape(page.parent.name)})</li>"
        for page in sorted(folder.glob("*/*.html"))
    ]
    if not items:
        return '<section class="further" hidden></section>'
    return f'<section class="further"><h2>Other pages in this folder</h2><ul>{"".join(items)}</ul></section>'


def _title(page: Path) -> str:
    with page.open(encoding="utf-8", errors="replace") as file:
        found = _TITLE.search(file.read(_HEAD))
    return unescape(found[1]) if found else page.stem


def index_of(folder: Path) -> str:
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
    renewed = _BLOCK.sub(lambda _: further_pages(folder.parent), page)
    if renewed != page:
        draft = index.with_name(".index.html.new")
        draft.write_text(renewed, encoding="utf-8")
        put_in_place(draft, index)
