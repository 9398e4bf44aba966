"""The time that a delivery gave to the last line of a source: tools that print no times ended then."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from citus_analysis.formats.deliveries.decoration import Decoration
from citus_analysis.formats.deliveries.delivery import Delivery
from citus_analysis.formats.deliveries.placed_lines import Lines
from citus_analysis.formats.deliveries.stamps import STAMP_PATTERN, time_of_stamp
from citus_analysis.formats.sources.content import Content

_STAMP: Final = re.compile(STAMP_PATTERN.encode())
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_of_last_line(content: Content, delivery: Delivery) -> datetime | None:
    """The time of the last line of a source that is no transcript; None if its delivery gives lines no time.

    Args:
        content: the file.
        delivery: of a source in it.

    Raises:
        InputError: the file cannot be read.
    """
    stamped = any(not isinstance(step, Decoration) or "(?P<stamp>" in step.pattern for step in delivery.steps)
    last = _last_line(content, delivery) if stamped else None
    if last is None:
        return None
    text, row = last
    if text.times is not None:
        return _EPOCH + timedelta(microseconds=int(text.times[row])) if text.times[row] >= 0 else None
    with closing(content.open()) as stream:
        stream.seek(int(text.begins[row]))
        found = _STAMP.search(stream.read(int(text.ends[row] - text.begins[row])))
    return None if found is None else time_of_stamp(found[0].decode())


def _last_line(content: Content, delivery: Delivery) -> tuple[Lines, int] | None:
    offset, last = 0, None
    _, begin, end, _ = delivery.bounds
    for text in delivery.lines(content):
        starts = offset + text.starts
        offset += len(text.data)
        filled = (starts[:-1] >= begin) & (starts[1:] <= end) & (np.diff(starts) > 1)
        rows = np.flatnonzero(filled)
        last = (text, int(rows[-1])) if len(rows) else last
    return last
