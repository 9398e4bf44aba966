"""The last status of a load generator, read from the end of an output that is still being written."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path
from typing import Final

_TAIL_BYTES: Final = 8192


def newest_match(pattern: re.Pattern[bytes], output: Path, group: int | str = 1) -> float | None:
    r"""A group of the last match in the output's last bytes, as a number; None if there is no match.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "out"
        >>> _ = path.write_bytes(b"progress: 1.0 s, 10.5 tps\nprogress: 2.0 s, 11.0 tps\n")
        >>> newest_match(re.compile(rb"([0-9.]+) tps"), path)
        11.0
    """
    try:
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - _TAIL_BYTES))
            newest = deque(pattern.finditer(file.read()), maxlen=1)
    except OSError:
        return None
    return float(newest[0][group]) if newest else None
