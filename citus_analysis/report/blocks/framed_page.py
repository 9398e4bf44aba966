"""A page within a page: a document of its own in a frame that can reach neither the page around it nor a network."""

from __future__ import annotations

from html import escape
from typing import Final

__all__ = ["framed_page"]

#: The frame's document draws itself by its own script, which the sandbox keeps from everything else.
_SANDBOX: Final = "allow-scripts"
_LOOK: Final = "width: 100%; height: 46rem; border: 1px solid #d9dee4; background: #fff"


def framed_page(document: str, title: str) -> str:
    """An element that shows a whole HTML document.

    The document is in the attribute itself, so that one file holds both. Its own content security policy holds in the
    frame, and so does that of the page around it.

    Args:
        document: the document, with everything that it shows.
        title: name of the frame for screen readers.

    Example:
        >>> print(framed_page('<p title="a">&amp;</p>', "A & B").rpartition(" srcdoc=")[2])
        '<p title="a">&amp;amp;</p>'></iframe>
    """
    # A page full of JSON has many double quotes: within single ones they stay as they are.
    source = document.replace("&", "&amp;").replace("'", "&#39;")
    return f'<iframe title="{escape(title)}" sandbox="{_SANDBOX}" style="{_LOOK}" srcdoc=\'{source}\'></iframe>'
