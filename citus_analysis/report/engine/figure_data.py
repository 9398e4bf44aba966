"""Numbers of figures with the precision that a screen can show.

plotly writes arrays as base64 with 8 bytes per number. Four bytes keep seven digits, more than any screen resolves;
arrays that would lose more (times in milliseconds since 1970) keep 8 bytes.

Example:
    >>> import base64, struct
    >>> array = {"dtype": "f8", "bdata": base64.b64encode(struct.pack("<2d", 0.1, 7.0)).decode()}
    >>> slim({"y": array, "name": "a"})["y"]["dtype"]
    'f4'
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Final

import numpy as np

from citus_analysis.core.open_types import Json

#: Largest change of a number, relative to the range of all: a thousandth of a pixel on a figure of 1,000 pixels.
_LOSS: Final = 1e-6


def slim(value: Json) -> Json:
    """A part of a figure, with 4 instead of 8 bytes per number in arrays where the difference is invisible."""
    if isinstance(value, list):
        return [slim(one) for one in value]
    if not isinstance(value, dict):
        return value
    numbers = value.get("bdata")
    if value.get("dtype") == "f8" and isinstance(numbers, str):
        return value | _narrow(numbers)
    return {key: slim(part) for key, part in value.items()}


def _narrow(numbers: str) -> dict[str, Json]:
    """The changed parts of an array; none if 4 bytes per number would lose too much."""
    values = np.frombuffer(b64decode(numbers), dtype="<f8")
    with np.errstate(over="ignore"):
        short = values.astype("<f4")
    finite = np.isfinite(values)
    if finite.any():
        spread = float(np.ptp(values[finite])) or float(np.abs(values[finite]).max())
        if not np.abs(short[finite].astype("f8") - values[finite]).max() <= _LOSS * spread:
            return {}
    return {"dtype": "f4", "bdata": b64encode(short.tobytes()).decode()}
