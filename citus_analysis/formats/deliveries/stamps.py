"""Forms of stamps before lines, and the times that they stand for."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
_ZONE = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})"
_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY_NAME = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"

#: `2026-11-25T16:53:47.305Z`, `Nov 25 16:53:47`, `Wed 2026-11-25 16:53:47 UTC`, `00:00:03`, `1795625627.305123`
STAMP_PATTERN: Final = (
    rf"(?:{_DAY_NAME} )?[0-9]{{4}}[-/][0-9]{{2}}[-/][0-9]{{2}}[T ]{_CLOCK}(?: ?{_ZONE}| (?:UTC|[A-Z]{{1,4}}T)\b)?"
    rf"|(?:{_DAY_NAME} )?{_MONTH} [ 0-9][0-9] (?:[0-9]{{4}} )?{_CLOCK}"
    rf"|{_CLOCK}"
    r"|1[0-9]{9}(?:\.[0-9]{1,9})?\b"
)
_ISO: Final = re.compile(
    rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})[T ]([0-9:]{{8}})([.,][0-9]{{1,9}})?(?: ?({_ZONE})| UTC)?$"
)
_EPOCH: Final = re.compile(r"1[0-9]{9}(?:\.[0-9]{1,9})?")


def has_date(stamp: str) -> bool:
    """Whether a stamp has a year, month and day, or counts from 1970, so that two of them can be compared.

    Example:
        >>> has_date("2026-11-25 16:53:47"), has_date("Nov 25 16:53:47")
        (True, False)
    """
    return _EPOCH.fullmatch(stamp) is not None or _ISO.search(stamp) is not None


def time_of_stamp(stamp: str) -> datetime | None:
    """The time of a stamp with a date and a zone, or of seconds since 1970; None of all others.

    Example:
        >>> time_of_stamp("2026-11-25T17:53:47.305123456+01:00").isoformat()
        '2026-11-25T16:53:47.305123+00:00'
        >>> time_of_stamp("Nov 25 16:53:47") is None
        True
    """
    if _EPOCH.fullmatch(stamp):
        return datetime.fromtimestamp(float(stamp), UTC)
    found = _ISO.search(stamp)
    if found is None or not (found[4] or stamp.endswith("UTC")):
        return None
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2]}{found[3] or ''}{found[4] or 'Z'}").astimezone(UTC)
    except ValueError:
        return None
