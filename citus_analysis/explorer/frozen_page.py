"""The frozen page: the widget's front end with its content in the page, without a kernel."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.core.output_files import add_path_to_errors, open_output
from citus_analysis.report.html import render_framed_page

#: The module and the style that the widget and the page share.
FRONT_END: Final = Path(__file__).parent / "front_end"
_TITLE: Final = "Selected statements"
#: The script that the page runs after the module: a model that takes its content from the page.
_START: Final = """
const state = JSON.parse(document.getElementById("state").textContent);
render({ model: frozenModel(state), el: document.getElementById("explorer") });
"""


@dataclass(frozen=True)
class FrozenView:
    """A selection as a page of its own, and as a table.

    A notebook shows it in a frame; so does a report, by :meth:`citus_analysis.report.Page.embed`.

    Attributes:
        html: the page: map, table, comparison, and single statements in full.
        table: the statements that its table lists, in the same order.
    """

    html: str
    table: pl.DataFrame

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page; the file appears only when it is complete.

        Raises:
            OSError: it cannot be written.
        """
        with add_path_to_errors(path), open_output(path) as out:
            out.write(self.html.encode("utf-8"))

    def _repr_html_(self) -> str:
        return render_framed_page(self.html, _TITLE)

    def __repr__(self) -> str:
        return f"FrozenView({self.table.height:,} statements, {len(self.html):,} characters)"


def render_page(state: Mapping[str, object]) -> str:
    """The page as HTML. Its content security policy permits its own script only, and no network access.

    Args:
        state: the content that :func:`citus_analysis.explorer.frozen_view` collects.

    Example:
        >>> page = render_page({"dataset": "</script><b>"})
        >>> "default-src 'none'" in page, "</script><b>" in page
        (True, False)
    """
    script = f"{(FRONT_END / 'explorer.js').read_text(encoding='utf-8')}{_START}"
    style = (FRONT_END / "explorer.css").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    # `<` is written as a JSON escape, so that no text of a log can end the script element.
    data = json.dumps(state, ensure_ascii=False, allow_nan=False, default=str).replace("<", "\\u003c")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_TITLE}</title><style>{style}</style></head>"
        f'<body><main id="explorer"></main><script type="application/json" id="state">{data}</script>'
        f'<script type="module">{script}</script></body></html>\n'
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}"
