"""Text packed into a page: compressed, and written in characters that HTML leaves alone.

plotly.js is 4.8 MB, and a page contains all of it, so that it works from a file without any network. Compressed
(DEFLATE) and in base 85 it is a third of that; every browser since 2023 unpacks it itself (`DecompressionStream`).

Example:
    >>> import base64, zlib
    >>> text = packed("[1, 2]" * 50)
    >>> "<" in text, len(text)
    (False, 23)
    >>> zlib.decompress(base64.b85decode(text.replace(",", "<"))).decode() == "[1, 2]" * 50
    True
"""

from __future__ import annotations

import re
import zlib
from base64 import b85encode
from functools import cache
from importlib.resources import files
from typing import Final

#: A module of plotly.js that consists of one long text, the program that draws map tiles in the background.
_LONG_TEXT: Final = re.compile(r"""=>\{"use strict";[\w$]+\.exports=(['"])""")
_SHORTEST: Final = 100_000


def packed(text: str) -> str:
    """Text, compressed and in base 85; `<`, which could begin a tag, is written as a comma."""
    return b85encode(zlib.compress(text.encode(), 9)).replace(b"<", b",").decode()


@cache
def plotly_library() -> str:
    """The plotly.js of the installed plotly package, packed, without the code that only maps of the world need."""
    return packed(plotly_script())


def plotly_script() -> str:
    """The same script, not packed."""
    # As in `plotly.offline.get_plotlyjs`, but without the import of all kinds of figures.
    return without_map_worker(files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8"))


def without_map_worker(script: str) -> str:
    r"""plotly.js without the text of MapLibre's worker, 0.5 MB that only street maps use.

    A version of plotly.js that is laid out differently is returned as it is.

    Example:
        >>> long = "x" * 200_000
        >>> without_map_worker(f'''var a=W((e,t)=>{{"use strict";t.exports='{long}'}});var b=1;''')
        'var a=W((e,t)=>{"use strict";t.exports=\'\'});var b=1;'
    """
    for found in _LONG_TEXT.finditer(script):
        rest = re.compile(rf"(?:[^\\{found[1]}]|\\.)*", re.DOTALL).match(script, found.end())
        if rest is not None and len(rest[0]) >= _SHORTEST and script[rest.end() : rest.end() + 2] == f"{found[1]}}}":
            return script[: found.end()] + script[rest.end() :]
    return script
