"""Names that files give to resources and runs are shown as text wherever they stand: pages, figures, tables, links."""

from __future__ import annotations

import csv
import json
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.report import render_reports
from tests.recordings import RECORDED

NAMES = (
    "<script>pwned()</script>",
    "\"'><img src=x onerror=pwned()>",
    "{a} {{ 7 * 7 }} %{x} $x$",
    "=1+1\u202egnp.\x07" + "w" * 60,
)


class Elements(HTMLParser):
    """What a page would run or load, and what it links."""

    def __init__(self) -> None:
        super().__init__()
        self.hostile: list[str] = []
        self.links: list[str] = []
        self.json: list[str] = []
        self._script: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._script = given.get("type") or "code" if tag == "script" else None
        if tag == "img" or any(name.startswith("on") for name in given):
            self.hostile.append(f"{tag} {given}")
        if tag == "a":
            self.links.append(given.get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        self._script = None if tag == "script" else self._script

    def handle_data(self, data: str) -> None:
        if self._script == "application/json":
            self.json.append(data)
        elif self._script and "pwned" in data:
            self.hostile.append(data[:100])


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A dataset whose resources have hostile names, and its reports."""
    folder = tmp_path_factory.mktemp("hostile")
    for number, name in enumerate(NAMES):
        resource = folder / "src" / f"r{number} {{a}} 'q' #1 %41"
        shutil.copytree(RECORDED / "w1-t16-insert", resource)
        text = (resource / "config.yml").read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if not line.startswith("resource:")]
        (resource / "config.yml").write_text("\n".join([f"resource: {json.dumps(name)}", *lines]), encoding="utf-8")
    dataset, out = folder / "dataset", folder / "o #1"
    ingest([folder / "src"], dataset)
    render_reports("all", dataset, out)
    return dataset, out


def test_names_are_stored_as_they_can_be_shown(reports: tuple[Path, Path]) -> None:
    shown = {name.replace("\u202e", "\\u202e").replace("\x07", "\\x07") for name in NAMES}
    assert set(open_dataset(reports[0]).runs()["resource"].cast(str)) == shown


def test_pages_show_them_as_text(reports: tuple[Path, Path]) -> None:
    pages = list(reports[1].glob("*.html"))
    assert any(page.name == "index.html" for page in pages)
    assert any("pwned" in page.read_text(encoding="utf-8") for page in pages)
    for page in pages:
        elements = Elements()
        elements.feed(page.read_text(encoding="utf-8"))
        assert elements.hostile == [], page.name
        for document in elements.json:
            assert "<img" not in (text := json.dumps(json.loads(document), ensure_ascii=False)), page.name
            assert "<script" not in text
            assert "\u202e" not in text


def test_links_lead_to_files(reports: tuple[Path, Path]) -> None:
    for page in reports[1].glob("*.html"):
        elements = Elements()
        elements.feed(page.read_text(encoding="utf-8"))
        for link in elements.links:
            assert link.startswith("#") or (page.parent / unquote(link)).is_file(), (page.name, link)


def test_tables_hold_no_formula(reports: tuple[Path, Path]) -> None:
    cells = set[str]()
    for path in reports[1].rglob("*.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            cells |= {cell for row in csv.reader(file) for cell in row}
    assert any(cell.startswith("'=1+1") for cell in cells)
    assert not any(cell.startswith(("=", "@")) for cell in cells)
