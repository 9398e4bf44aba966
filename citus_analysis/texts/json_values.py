"""Values as JSON has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, timedelta


def convert_to_json_value(value: object, digits: int | None = None) -> object:
    """A value as JSON has it: NaN and infinity become null, times ISO 8601, periods seconds, other objects texts.

    Args:
        value: any value, also nested.
        digits: significant digits of numbers; None: all.

    Example:
        >>> convert_to_json_value({1: [float("nan"), 2.345678], "at": date(2026, 1, 2)}, digits=3)
        {'1': [None, 2.35], 'at': '2026-01-02'}
    """
    match value:
        case float():
            if not math.isfinite(value):
                return None
            return value if digits is None else float(f"{value:.{digits}g}")
        case Mapping():
            return {str(key): convert_to_json_value(inner, digits) for key, inner in value.items()}
        case list() | tuple():
            return [convert_to_json_value(inner, digits) for inner in value]
        case None | bool() | int() | str():
            return value
        case datetime() | date():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case _:
            return str(value)
