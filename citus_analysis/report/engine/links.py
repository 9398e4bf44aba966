"""Links of a page to files beside it: a page whose links are dead is no finished report."""

from __future__ import annotations

from collections.abc import Collection
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from citus_analysis.errors import ReportError

__all__ = ["check_links", "linked_files"]


class _Hrefs(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def linked_files(html: str) -> list[str]:
    """Paths of the files that a page links, as it names them; links elsewhere and within the page are left out.

    Example:
        >>> linked_files('<a href="profile/spans.csv">x</a> <a href="#top">x</a> <a href="https://a.org/b">x</a>')
        ['profile/spans.csv']
    """
    parser = _Hrefs()
    parser.feed(html)
    places = map(urlsplit, parser.found)
    return list(dict.fromkeys(unquote(place.path) for place in places if place.path and not place.scheme))


def check_links(page: Path, *, folder: Path | None = None, expected: Collection[str] = ()) -> None:
    """Refuse a page that links a file which is not there.

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
