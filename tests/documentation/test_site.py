"""The site that `make docs` builds: every public name, every page, links that lead somewhere."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from docs.site.build import filled, named
from docs.site.docstrings import rewritten
from docs.site.notebook_pages import page_of
from docs.site.pages import copy_pages
from docs.site.recorded_reports import PAGE
from docs.site.reference import public_packages, write_reference
from tests.documentation.blocks import ROOT
from tests.documentation.test_as_typed import dead_links

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SITE = ROOT / ".cache" / "site" / "site"


def test_every_public_name_is_in_the_reference(tmp_path: Path) -> None:
    pages = write_reference(tmp_path)
    for package in public_packages():
        short = package.__name__.removeprefix("citus_analysis.")
        text = (tmp_path / pages[short]).read_text(encoding="utf-8")
        for name in package.__all__:
            assert re.search(rf"{re.escape(package.__name__)}\.{name}\b", text), f"{package.__name__}.{name}"


def test_links_lead_to_pages_of_the_site(tmp_path: Path) -> None:
    names = copy_pages(tmp_path / "pages")
    home = (tmp_path / "pages" / "index.md").read_text(encoding="utf-8")
    assert "[tables](tables.md)" in home
    assert "(images/overview.png)" in home
    assert "](LICENSE)" not in home
    for name in names.values():
        text = re.sub(r"(?ms)^ *```.*?^ *```$", "", (tmp_path / "pages" / name).read_text(encoding="utf-8"))
        linked = re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", text)
        assert [target for target in linked if not (tmp_path / "pages" / target).is_file()] == []


def test_the_navigation_names_pages_that_exist() -> None:
    navigation = yaml.safe_load((ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    pages |= {"index.md", "pages.md", "changelog.md", "contributing.md", "recordings.md", PAGE}
    assert {page for page in named(navigation) if not page.startswith("@")} <= pages


def test_collective_names_become_pages() -> None:
    made = {"@a": {"One": "1.md", "Two": "2.md"}, "@b": {}}
    assert filled([{"X": "@a"}, {"Y": ["y.md", "@b"]}, {"Z": "z.md"}], made) == [
        {"X": [{"One": "1.md"}, {"Two": "2.md"}]},
        {"Y": ["y.md"]},
        {"Z": "z.md"},
    ]


def test_docstrings_are_written_as_the_parser_reads_them() -> None:
    text = "See :func:`~a.b.fit` and docs/traces.md.\n\nExample:\n    >>> 1\n    1\n"
    assert rewritten(text) == "See `fit` and [traces.md](traces.md).\n\nExamples:\n    >>> 1\n    1\n"


def test_a_cell_s_output_stands_below_it() -> None:
    cells = [
        {"cell_type": "markdown", "source": "# A tour"},
        {
            "cell_type": "code",
            "source": "1",
            "metadata": {"tags": []},
            "outputs": [{"data": {"text/plain": "one"}}, {"data": {"text/html": "<p>two</p>", "text/plain": "two"}}],
        },
    ]
    page = page_of({"cells": cells}, "tour.ipynb")
    assert page.index("```python\n1\n```") < page.index("```text\none\n```") < page.index("<p>two</p>")


@pytest.mark.skipif(not SITE.exists(), reason="needs the site: make docs")
def test_no_link_of_the_site_is_dead() -> None:
    pages = sorted(SITE.glob("*.html"))
    assert len(pages) > 30
    # 404.html is served at any address, so its links are absolute.
    assert [dead for page in pages if page.name != "404.html" for dead in dead_links(page)] == []
    loaded = [
        (page.name, found)
        for page in pages
        for found in re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"?(https?:[^\s\">]+)", page.read_text())
    ]
    assert loaded == []


@pytest.mark.browser
@pytest.mark.skipif(not SITE.exists(), reason="needs the site: make docs")
def test_the_pages_of_notebooks_draw_their_figures(browser: "Browser") -> None:
    page = browser.new_page(viewport={"width": 390, "height": 900}, offline=True)
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("console", lambda message: trouble.append(message.text))
    page.goto((SITE / "00_tour.html").as_uri())
    page.wait_for_selector(".main-svg", state="attached")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # The search works without a server, too.
    page.set_viewport_size({"width": 1280, "height": 900})
    page.click(".md-search__button")
    page.keyboard.type("autocorrelation")
    page.wait_for_selector("a[href*='statistics.html?h=']", state="attached")
    page.close()
    assert trouble == []
