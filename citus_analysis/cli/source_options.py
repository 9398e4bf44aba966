"""Sources that a person may type besides paths: a pattern that the shell did not expand, `-`, a pipe."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path

from citus_analysis.errors import InputError

_SAVE_FIRST = "save it to a file first: rows of a dataset point back into their files"


def expand_sources(sources: Sequence[Path | str]) -> list[Path | str]:
    """The paths and URLs of the sources; a quoted pattern is expanded as the shell would expand it.

    Raises:
        InputError: a pattern that no file matches, standard input, a pipe or a device.

    Example:
        >>> expand_sources([Path("*.no-such-suffix")])
        Traceback (most recent call last):
        citus_analysis.errors.InputError: *.no-such-suffix: no file matches the pattern (check the folder it is \
relative to)
    """
    return [path for source in sources for path in (_expanded(source) if isinstance(source, Path) else iter([source]))]


def _expanded(source: Path) -> Iterator[Path]:
    try:
        kind = source.stat().st_mode
    except OSError:
        if str(source) == "-":
            raise InputError("standard input cannot be a source", path="-", way_out=_SAVE_FIRST) from None
        if not has_magic(str(source)):
            # The file is missing or not accessible; the reader that opens it reports the reason.
            yield source
            return
        matches = sorted(glob(str(source), recursive=True))  # noqa: PTH207 - `**` and absolute patterns alike
        if not matches:
            way_out = "check the folder it is relative to"
            raise InputError("no file matches the pattern", path=source, way_out=way_out) from None
        yield from map(Path, matches)
        return
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise InputError("is neither a file nor a folder", path=source, way_out=_SAVE_FIRST)
    yield source
