"""The reference pages are what the code says."""

import re
from pathlib import Path

import pytest

from citus_analysis.cli.command_reference import render_command_reference
from citus_analysis.dataset.identity import FACTS
from citus_analysis.dataset.table_reference import render_table_reference
from citus_analysis.formats import formats
from citus_analysis.formats.parsing.format import BUILT_IN_OPTIONS
from citus_analysis.formats.parsing.reference import render_formats_markdown
from citus_analysis.formats.parsing.registry import collect_known_options
from citus_analysis.schema import TABLES

DOCS = Path(__file__).parents[1] / "docs"


def test_the_tables_page_is_current() -> None:
    expected = render_table_reference()
    assert (DOCS / "tables.md").read_text(encoding="utf-8") == expected, (
        "run: python -m citus_analysis.dataset.table_reference > docs/tables.md"
    )
    assert all(f"## {name}\n" in expected for name in TABLES)


def test_the_command_line_page_is_current() -> None:
    assert (DOCS / "command-line.md").read_text(encoding="utf-8") == render_command_reference(), (
        "run: python -m citus_analysis.cli.command_reference > docs/command-line.md"
    )


def test_the_formats_page_is_current() -> None:
    expected = render_formats_markdown()
    assert (DOCS / "formats.md").read_text(encoding="utf-8") == expected, (
        "run: python -m citus_analysis.formats.parsing.reference > docs/formats.md"
    )
    assert all(f"| `{name}` |" in expected for name in formats())


def test_the_help_knows_every_option() -> None:
    """The help imports no format, so their options are listed for it."""
    assert dict(collect_known_options()) == {option.name: option for option in BUILT_IN_OPTIONS}


@pytest.mark.parametrize("name", [*FACTS, *collect_known_options()])
def test_every_fact_and_option_is_documented(name: str) -> None:
    page = "datasets.md" if name in FACTS else "formats.md"
    assert f"`{name}`" in (DOCS / page).read_text(encoding="utf-8")
    stated = re.search(r"Facts for --meta: ([^.]*)\.", (DOCS / "command-line.md").read_text(encoding="utf-8"))
    assert stated is not None
    assert name in re.findall(r"\w+", stated[1])


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
