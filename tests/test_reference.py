"""The reference pages are what the code says."""

import re
from pathlib import Path

import pytest

from citus_analysis.cli.reference import command_line_markdown
from citus_analysis.dataset.identity import FACTS, OPTIONS
from citus_analysis.dataset.reference import tables_markdown
from citus_analysis.schema import TABLES

DOCS = Path(__file__).parents[1] / "docs"


def test_the_tables_page_is_current() -> None:
    expected = tables_markdown()
    assert (DOCS / "tables.md").read_text(encoding="utf-8") == expected, (
        "run: python -m citus_analysis.dataset.reference > docs/tables.md"
    )
    assert all(f"## {name}\n" in expected for name in TABLES)


def test_the_command_line_page_is_current() -> None:
    assert (DOCS / "command-line.md").read_text(encoding="utf-8") == command_line_markdown(), (
        "run: python -m citus_analysis.cli.reference > docs/command-line.md"
    )


@pytest.mark.parametrize("name", [*FACTS, *OPTIONS])
def test_every_fact_is_documented(name: str) -> None:
    assert f"`{name}`" in (DOCS / "datasets.md").read_text(encoding="utf-8")
    stated = re.search(r"Facts for --meta: ([^.]*)\.", (DOCS / "command-line.md").read_text(encoding="utf-8"))
    assert stated is not None
    assert name in re.findall(r"\w+", stated[1])


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
