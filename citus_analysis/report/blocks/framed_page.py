"""An HTML document within a page, in a frame that can reach neither the page around it nor a network."""

from __future__ import annotations

from html import escape
from typing import Final

#: The document may run its own script; the sandbox denies everything else.
_SANDBOX: Final = "allow-scripts"
_LOOK: Final = "width: 100%; height: 46rem; border: 1px solid #d9dee4; background: #fff"


def framed_page(document: str, title: str) -> str:
    """An element that shows a whole HTML document.

    The document is the value of an attribute, so that one file contains both. Its own content security policy and that
    of the page around it apply in the frame.

    Args:
        document: the document, with everything that it shows.
        title: name of the frame for screen readers.

    Example:
        >>> print(framed_page('<p title="a">&amp;</p>', "A & B").rpartition(" srcdoc=")[2])
        '<p title="a">&amp;amp;</p>'></iframe>
    """
    # JSON has many double quotes, which need no escape within single ones.
    source = document.replace("&", "&amp;").replace("'", "&#39;")
    return f'<iframe title="{escape(title)}" sandbox="{_SANDBOX}" style="{_LOOK}" srcdoc=\'{source}\'></iframe>'
