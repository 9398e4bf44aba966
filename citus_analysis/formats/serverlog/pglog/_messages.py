"""Messages of records: redacted, and cut to a limited length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from citus_analysis.core.arrow_arrays import text_array
from citus_analysis.formats.api.redacted_columns import may_hold_secret, redact_series
from citus_analysis.formats.serverlog.pglog.compiled.arrow_columns import gathered_texts
from citus_analysis.formats.serverlog.pglog.compiled.byte_views import series_of

if TYPE_CHECKING:
    import polars as pl

MESSAGE_CHARS: Final = 500
#: Bytes searched for secrets before a message is cut, so that no secret is separated from its key.
MESSAGE_SCAN: Final = 2000


def redacted(messages: pl.Series) -> pl.Series:
    """Messages with secrets replaced, cut to :data:`MESSAGE_CHARS` characters."""
    return redact_series(messages).str.head(MESSAGE_CHARS)


def redacted_array(messages: pa.Array) -> pa.Array:
    """Like :func:`redacted`, for Arrow texts without nulls; short texts without secrets need no polars."""
    _, bounds, data = messages.buffers()
    if not data.to_pybytes().isascii() or may_hold_secret(messages):
        return text_array(redacted(series_of("message", messages)))
    begins, ends = np.frombuffer(bounds, np.int64)[:-1], np.frombuffer(bounds, np.int64)[1:]
    shown = np.column_stack([begins, np.minimum(ends, begins + MESSAGE_CHARS)])
    return gathered_texts(np.frombuffer(data, np.uint8), shown)
