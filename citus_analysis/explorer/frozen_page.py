"""The frozen page: the widget's own front end with the answers in the page instead of a kernel."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from citus_analysis.core.output_files import naming, open_output

__all__ = ["FRONT_END", "render_page", "write_page"]

#: The module and the style that the widget and the page share.
FRONT_END: Final = Path(__file__).parent / "front_end"
#: What the page runs after the module: a model that answers from the page.
_START: Final = """
const state = JSON.parse(document.getElementById("state").textContent);
render({ model: frozenModel(state), el: document.getElementById("explorer") });
"""


def render_page(state: Mapping[str, object]) -> str:
    """The page as HTML. Its policy lets it run its own script, and nothing reach a network.

    Args:
        state: what :func:`citus_analysis.explorer.freeze` collects.

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
    # `<` is written as an escape of JSON, so that no text of a log can end the element that holds it.
    data = json.dumps(state, ensure_ascii=False, allow_nan=False, default=str).replace("<", "\\u003c")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Selected statements</title><style>{style}</style></head>"
        f'<body><main id="explorer"></main><script type="application/json" id="state">{data}</script>'
        f'<script type="module">{script}</script></body></html>\n'
    )


def write_page(path: str | os.PathLike[str], state: Mapping[str, object]) -> None:
    """Write the page, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    with naming(path), open_output(path) as out:
        out.write(render_page(state).encode("utf-8"))


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}"
