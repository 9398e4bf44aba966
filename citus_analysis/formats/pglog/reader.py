"""The reader of server logs: the compiled code, or the same in Python if the installation has no compiled code.

Other modules use these functions and neither `compiled` nor `regular_expressions` and `python_assembly`, which define
the right results in Python. These import polars, so they are imported only when needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Final

import numpy as np

from citus_analysis.errors import SlowReaderWarning
from citus_analysis.formats.pglog import compiled as native
from citus_analysis.formats.pglog.assembly import Assembly, Rules
from citus_analysis.formats.pglog.compiled import DetailLinks, Memory, add_body_fast, scan_fast, scan_rows_fast
from citus_analysis.formats.pglog.prefix import Prefix
from citus_analysis.formats.pglog.records import RECORD, Chunk, ScannedChunk

if TYPE_CHECKING:
    import polars as pl

    from citus_analysis.formats.pglog.python_assembly import PythonAssembly
    from citus_analysis.formats.pglog.regular_expressions import PythonLinks

#: The factor by which the scan of a large log takes longer without compiled code (docs/install.md).
TIMES_SLOWER: Final = 15


def is_compiled() -> bool:
    """Whether the package has compiled code for this platform."""
    return native.LIBRARY.is_file()


@cache
def _warn() -> None:
    """Warn once that Python reads the logs."""
    message = (
        f"server logs are read by Python, which takes about {TIMES_SLOWER} times as long: this installation has no "
        "compiled reader; install a wheel for your platform, or from the source with a C compiler"
    )
    warnings.warn(SlowReaderWarning(message), stacklevel=3)


def choose_scanner(prefix: Prefix) -> Callable[[Chunk], ScannedChunk]:
    """The function that gives the records of the chunks of one log."""
    if prefix.language:
        from citus_analysis.formats.pglog.translation import scan_translated_chunk

        return partial(
            scan_translated_chunk, scan=choose_scanner(replace(prefix, language="")), language=prefix.language
        )
    if is_compiled():
        return partial(scan_fast, prefix=prefix, memory=Memory())
    from citus_analysis.formats.pglog.regular_expressions import scan

    _warn()
    return partial(scan, prefix=prefix)


def scan_rows(data: bytes, offset: int, form: str, memory: Memory) -> ScannedChunk | None:
    """The records of a chunk of csvlog or jsonlog; None if only the readers in Python can interpret the rows."""
    if is_compiled():
        return scan_rows_fast(data, offset, form, memory)
    _warn()
    return None


def add_body(frame: pl.DataFrame) -> pl.DataFrame:
    """Replace `text` by the columns read from it; the frame must have `severity` and `text`."""
    if is_compiled():
        return add_body_fast(frame)
    from citus_analysis.formats.pglog.regular_expressions import add_body as add_body_in_python

    return add_body_in_python(frame)


def count_heads(data: bytes, prefix: Prefix) -> int:
    """The number of lines of `data` that begin a record."""
    if is_compiled():
        return native.count_heads(data, prefix)
    from citus_analysis.formats.pglog.regular_expressions import find_openers

    return int(np.count_nonzero(find_openers(data, prefix).roles == RECORD)) if data else 0


def make_detail_links() -> DetailLinks | PythonLinks:
    """The object that links the details of one log to their records."""
    if is_compiled():
        return DetailLinks()
    from citus_analysis.formats.pglog.regular_expressions import PythonLinks

    return PythonLinks()


def make_assembly(rules: Rules) -> Assembly | PythonAssembly:
    """The object that assembles records into executions.

    Args:
        rules: the meaning of the records.
    """
    if is_compiled():
        return Assembly(rules)
    from citus_analysis.formats.pglog.python_assembly import PythonAssembly

    _warn()
    return PythonAssembly(rules)
