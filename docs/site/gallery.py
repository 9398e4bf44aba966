"""Draws the pictures of docs/gallery.md from its own lines: python -m docs.site.gallery DATASET (needs Chromium)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import plotly.graph_objects as go

PAGE: Final = Path(__file__).parents[1] / "gallery.md"
_FIGURE: Final = re.compile(r"```python\n(?P<code>.*?)```(?:\s+!\[[^\]]*\]\((?P<picture>[^)]+)\))?", re.DOTALL)


def draw_figures(dataset: object) -> Iterator[tuple[str, go.Figure]]:
    """The place of each picture below docs/, and the figure that the lines above it make of a dataset."""
    names: dict[str, object] = {}
    for found in _FIGURE.finditer(PAGE.read_text(encoding="utf-8")):
        *lines, last = found["code"].strip().splitlines()
        if found["picture"] is None:
            exec("import polars as pl\nimport citus_analysis as ca", names)  # noqa: S102 - lines of a page of ours
            names["ds"] = dataset
            continue
        exec("\n".join(lines), names)  # noqa: S102 - likewise
        yield found["picture"], eval(last, names)  # noqa: S307 - likewise


def main(dataset: str) -> None:
    """Write the pictures."""
    from playwright.sync_api import sync_playwright

    import citus_analysis as ca

    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 720, "height": 420})
        for picture, figure in draw_figures(ca.open_dataset(dataset)):
            height = min(int(figure.layout.height or 420), 1000)
            page.set_viewport_size({"width": 720, "height": height})
            page.set_content(
                figure.to_html(include_plotlyjs=True, config={"displayModeBar": False}, default_height=height)
            )
            page.wait_for_selector(".main-svg")
            page.wait_for_timeout(300)
            page.screenshot(path=str(PAGE.parent / picture))
            ca.documents.stamp_image(PAGE.parent / picture, ca.documents.tabulate_figure(figure))
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
