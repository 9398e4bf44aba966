"""Reports in folders below that of an index, such as one on runs that went wrong: the index links them, too."""

from __future__ import annotations

import re
from html import escape, unescape
from pathlib import Path
from typing import Final
from urllib.parse import quote

from citus_analysis.core.output_files import put_in_place

__all__ = ["further_pages", "index_above", "link_from_above"]

_BLOCK: Final = re.compile(r'<section class="further".*?</section>', re.DOTALL)
_TITLE: Final = re.compile(r"<title>(.*?)</title>", re.DOTALL)
#: The title of a page stands within so many characters.
_HEAD: Final = 2_000


def further_pages(folder: Path) -> str:
    """The part of an index that links the reports in the folders below; hidden where there are none."""
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


def index_above(folder: Path) -> str:
    """The index of reports in the folder above, as pages in this one link it; empty if there is none."""
    index = folder.parent / "index.html"
    known = index.is_file() and _BLOCK.search(index.read_text(encoding="utf-8", errors="replace"))
    return "../index.html" if known else ""


def link_from_above(folder: Path) -> None:
    """Renew the links to folders in the index of the folder above, if that has one."""
    if not index_above(folder):
        return
    index = folder.parent / "index.html"
    page = index.read_text(encoding="utf-8")
    renewed = _BLOCK.sub(lambda _: further_pages(folder.parent), page)
    if renewed == page:
        return
    draft = index.with_name(".index.html.new")
    draft.write_text(renewed, encoding="utf-8")
    put_in_place(draft, index)
