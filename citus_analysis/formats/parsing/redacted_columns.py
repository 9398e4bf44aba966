"""Redaction of text columns: rows of any table, before they leave their format.

Only texts that contain a suspicious word are examined one by one, and each distinct text once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from citus_analysis.core.arrow_arrays import make_text_array
from citus_analysis.redaction import MARKERS, SUSPICIOUS, redact

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

#: Number of rows that is enough to see whether texts repeat.
_FEW: Final = 1000
_MARKERS: Final = tuple(marker.encode() for marker in MARKERS)


def redact_series(texts: pl.Series) -> pl.Series:
    """:func:`redact` for a column of strings; the same object if it contains no secret.

    Example:
        >>> import polars as pl
        >>> redact_series(pl.Series(["user7", "password=x y", None])).to_list()
        ['user7', 'password=***', None]
    """
    # The pattern takes longer to compile than most columns to search.
    if not may_hold_secret(texts.to_arrow()):
        return texts
    rows = texts.str.contains(SUSPICIOUS).fill_null(value=False).arg_true()
    if not rows.len():
        return texts
    suspicious = texts.gather(rows)
    distinct = suspicious.unique()
    redacted = [redact(text) for text in distinct]
    if redacted == distinct.to_list():
        return texts
    # A copy, because scatter writes into the series itself.
    return texts.clone().scatter(rows, suspicious.replace_strict(distinct, redacted))


def redact_expr(text: pl.Expr) -> pl.Expr:
    """:func:`redact` for an expression of strings."""
    import polars as pl

    return text.map_batches(redact_series, return_dtype=pl.String, is_elementwise=True)


def redact_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with redacted texts and categories; the same object if they contain no secret."""
    import pyarrow as pa

    if not len(batch):
        return batch
    columns = batch.columns
    arrays = [_redact_array(array) for array in columns]
    if all(new is old for new, old in zip(arrays, columns, strict=True)):
        return batch
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _redact_array(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        words = array.dictionary
        redacted_words = _redact_array(words)
        return array if redacted_words is words else pa.DictionaryArray.from_arrays(array.indices, redacted_words)
    if not (pa.types.is_large_string(array.type) or pa.types.is_string(array.type)) or not may_hold_secret(array):
        return array
    import polars as pl

    texts = pl.Series(array, dtype=pl.String)
    redacted = redact_series(texts)
    return array if redacted is texts else make_text_array(redacted).cast(array.type)


def may_hold_secret(texts: pa.Array) -> bool:
    """Whether one of the texts may contain a secret, decided without reading them one by one and without polars."""
    if not len(texts) or texts.null_count == len(texts):
        return False
    # Names of devices and tools repeat, and each is examined once.
    if len(texts) > _FEW and len(texts.slice(0, _FEW).unique()) < _FEW // 10:
        texts = texts.unique()
    data = texts.buffers()[2]
    if data is None:
        return False
    lower = data.to_pybytes().lower()
    # The lower case of a letter outside ASCII can be a letter of a marker.
    return not lower.isascii() or any(marker in lower for marker in _MARKERS)
