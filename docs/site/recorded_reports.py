"""The reports of the recordings as a part of the site."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from bs4 import BeautifulSoup

__all__ = ["copy_reports"]

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = "recorded-reports.md"


def copy_reports(folder: Path) -> str:
    """Copy what `make report` made, and write a page that links to each report.

    Returns:
        name of the page.
    """
    made = ROOT / "reports"
    shutil.copytree(made, folder / "recorded", ignore=shutil.ignore_patterns("*.ipynb", "*.md"))
    lines = [
        "# Reports of the recordings",
        "",
        "`make report` made these of `data/recorded`; each page stands alone.",
        "",
        '<a href="recorded/index.html">All of them, with what each found</a>',
        "",
    ]
    for page in sorted(set(made.glob("*.html")) - {made / "index.html"}):
        title = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").find("title")
        # HTML and not a link of Markdown: the target is no page of the site's own.
        lines.append(f'- <a href="recorded/{page.name}">{title.get_text() if title else page.stem}</a>')
    (folder / PAGE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return PAGE
