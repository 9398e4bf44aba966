"""The sentences of a page's first box, from the cells of its notebook up to the one that shows them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from citus_analysis.report import Page
from citus_analysis.stats.findings import ReportFinding
from tests.recordings import ROOT


class _Found(Exception):  # noqa: N818 - no error
    """The box was shown; what follows in the notebook is not needed."""


@cache
def read_first_box(page: str, dataset: Path) -> list[str]:
    """The findings that a page opens with, for a dataset and the page's own defaults."""
    cells = json.loads((ROOT / "notebooks" / f"{page}.ipynb").read_text(encoding="utf-8"))["cells"]
    codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    found = list[str]()

    def take(_: Page, findings: list[str | ReportFinding]) -> None:
        found.extend(map(str, findings))
        raise _Found

    names: dict[str, Any] = {}
    with mock.patch.object(Page, "findings", take), mock.patch.object(Page, "audit"):
        exec(codes[0], names)
        names["dataset"] = str(dataset)
        try:
            for code in codes[1:]:
                exec(code, names)
        except _Found:
            return found
    raise AssertionError(f"the notebook of {page} shows no findings")
