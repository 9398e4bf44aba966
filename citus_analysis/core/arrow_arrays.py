"""Arrow arrays for which pyarrow has no cheap constructor: null columns, repeated texts, texts from words, integers.

`pyarrow.array` imports pandas (0.3 s) before it looks at its values, and `pyarrow.nulls` fills new memory for each
column, although most columns of a server log are null. These few functions build the arrays from buffers instead;
everything else is left to pyarrow and polars.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray

#: Nulls for which memory is kept: many columns are entirely null, and new memory costs as much as values do.
_MOST_NULLS: Final = 2**18


def make_text_array(texts: pl.Series) -> pa.Array:
    """Texts as plain Arrow texts in separate memory, because views would keep the whole buffer alive.

    Example:
        >>> import polars as pl
        >>> make_text_array(pl.Series(["one", None])).to_pylist()
        ['one', None]
    """
    import polars as pl

    return texts.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())


def combine_batches(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Batches of the same columns as a table in which each category has one number.

    Texts are categories in some batches and plain in others: in rows outside all runs, all names of runs are null.

    Example:
        >>> import pyarrow as pa
        >>> named = pa.record_batch({"run_id": pa.array(["a"], pa.large_string()).dictionary_encode()})
        >>> unnamed = pa.record_batch({"run_id": pa.nulls(1, pa.large_string())})
        >>> combine_batches([named, unnamed]).column("run_id").to_pylist()
        ['a', None]
    """
    import pyarrow as pa

    schemas = [batch.schema for batch in batches]
    if not all(schema.equals(schemas[0]) for schema in schemas):
        fields = [field for schema in schemas for field in schema]
        categories = {field.name: field.type for field in fields if pa.types.is_dictionary(field.type)}
        common = pa.schema([field.with_type(categories.get(field.name, field.type)) for field in schemas[0]])
        batches = [batch.cast(common) for batch in batches]
    table = pa.Table.from_batches(batches)
    return table if len(batches) == 1 else table.unify_dictionaries()


def fill_null_integers(integers: pa.Array, value: int) -> NDArray[np.integer]:
    """Integers as a numpy array with a value for nulls, because pyarrow's `fill_null` and `to_numpy` import pandas.

    Example:
        >>> import pyarrow as pa
        >>> fill_null_integers(pa.array([5, 7, None], pa.int32()).slice(1), -1).tolist()
        [7, -1]
    """
    import numpy as np

    width = integers.type.bit_width // 8
    values = np.frombuffer(integers.buffers()[1], f"i{width}", len(integers), integers.offset * width)
    if not integers.null_count:
        return values
    bits = np.unpackbits(np.frombuffer(integers.buffers()[0], np.uint8), bitorder="little")
    valid = bits[integers.offset : integers.offset + len(integers)] != 0
    return np.where(valid, values, values.dtype.type(value))


def make_number_array(numbers: NDArray[np.number], valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers as Arrow numbers of the same type, built from buffers: `pyarrow.array` would import pandas.

    Args:
        numbers: one number per row; the array is not copied if its numbers are adjacent.
        valid: False for rows that are null; None: no row is null.

    Example:
        >>> import numpy as np
        >>> make_number_array(np.array([7.5, 0.0]), valid=np.array([True, False])).to_pylist()
        [7.5, None]
    """
    import numpy as np
    import pyarrow as pa

    known = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    values = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [known, pa.py_buffer(values)])


def make_boolean_array(flags: NDArray[np.bool_], valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """As :func:`make_number_array`, for booleans.

    Example:
        >>> import numpy as np
        >>> make_boolean_array(np.array([True, False]), valid=np.array([True, False])).to_pylist()
        [True, None]
    """
    import numpy as np
    import pyarrow as pa

    return make_number_array(flags.view(np.uint8), valid).cast(pa.bool_())


def make_time_array(times: NDArray[np.int64], valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """As :func:`make_number_array`, for times in microseconds since 1970, in UTC.

    Example:
        >>> import numpy as np
        >>> make_time_array(np.array([0])).to_pylist()[0].isoformat()
        '1970-01-01T00:00:00+00:00'
    """
    import pyarrow as pa

    return make_number_array(times, valid).cast(pa.timestamp("us", "UTC"))


def make_integer_array(numbers: NDArray[np.integer], valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """As :func:`make_number_array`, of 64 bits.

    Example:
        >>> import numpy as np
        >>> str(make_integer_array(np.array([7], np.int8)).type)
        'int64'
    """
    import numpy as np

    return make_number_array(np.asarray(numbers, np.int64), valid)


def make_word_array(words: Iterable[str]) -> pa.Array:
    """Words as Arrow texts, built from buffers: `pyarrow.array` would import pandas.

    Example:
        >>> make_word_array(["one", "two"]).to_pylist()
        ['one', 'two']
    """
    import pyarrow as pa

    data = [word.encode() for word in words]
    ends = array("q", accumulate(map(len, data), initial=0))
    return pa.Array.from_buffers(
        pa.large_string(), len(data), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(data))], 0
    )


def repeat_text(text: str, rows: int) -> pa.DictionaryArray:
    """The same text in every row as a category, which is neither copied nor hashed for each row.

    Example:
        >>> repeat_text("UTC", 2).to_pylist()
        ['UTC', 'UTC']
    """
    import pyarrow as pa

    values = make_word_array([text])
    numbers = pa.py_buffer(bytes(rows))
    return pa.DictionaryArray.from_buffers(pa.dictionary(pa.uint8(), values.type), rows, [None, numbers], values, 0)


def make_null_array(kind: pa.DataType, rows: int) -> pa.Array:
    """Nulls of a type.

    Example:
        >>> from citus_analysis.core.table_definition import INT32
        >>> make_null_array(INT32.arrow, 2).null_count
        2
    """
    import pyarrow as pa

    if rows > _MOST_NULLS:
        return pa.nulls(rows, kind)
    # One shared buffer serves all types: it is never written to, so it takes no memory.
    zeros = [_make_zero_buffer()] * kind.num_buffers
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_buffers(kind, rows, zeros, pa.nulls(0, kind.value_type), rows)
    return pa.Array.from_buffers(kind, rows, zeros, rows)


@cache
def _make_zero_buffer() -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(bytes(8 * (_MOST_NULLS + 1)))


def own_words(codes: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same texts with a dictionary of those words that occur, in the order in which they do.

    Example:
        >>> import pyarrow as pa
        >>> words = pa.array(["a", "b", "c", "b"]).dictionary_encode().slice(1)
        >>> own_words(words).dictionary.to_pylist(), own_words(words).to_pylist()
        (['b', 'c'], ['b', 'c', 'b'])
    """
    import pyarrow as pa

    own = codes.dictionary_decode().dictionary_encode()
    return pa.DictionaryArray.from_arrays(own.indices.cast(codes.type.index_type), own.dictionary)
