"""The column `doubtful`: names of the columns of a row whose values cannot be, and how readers leave them out.

A row is kept as its tool printed it. Whatever averages, adds up or ranks samples uses :func:`without_doubtful`, which
makes the values that are named null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from citus_analysis.core.possible_values.physical_bounds import Bounds, Relation

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl
    import pyarrow as pa

#: Name of the column.
DOUBTFUL: Final = "doubtful"
_SEPARATOR: Final = ", "


def doubtful_names(batch: pa.RecordBatch, ranges: Mapping[str, Bounds], relations: Sequence[Relation] = ()) -> pa.Array:
    """For each row the names of its doubtful values, separated by commas; null for a row without any.

    Args:
        batch: rows of a table; names that their format gave in `doubtful` are kept.
        ranges: columns that have bounds.
        relations: relations between columns.

    Example:
        >>> import pyarrow as pa
        >>> from citus_analysis.core.possible_values.physical_bounds import bounds_of_unit
        >>> rows = pa.record_batch({"reads_per_s": [2.0, 9.2e18], "utilization_percent": [100.4, 214748364.7]})
        >>> doubtful_names(rows, {name: bounds_of_unit(name) for name in rows.schema.names}).to_pylist()
        [None, 'reads_per_s, utilization_percent']
    """
    import numpy as np

    numbers = _Columns(batch)
    found = {name: numbers.outside(name, *bounds) for name, bounds in ranges.items()}
    impossible = {name: outside for name, outside in found.items() if outside is not None}
    marked = dict(impossible)
    for relation in relations:
        members = [name for name in relation.members if numbers.has(name)]
        with np.errstate(all="ignore"):
            broken = relation.broken(numbers)
        for outside in (impossible[name] for name in members if name in impossible):
            broken = broken | outside if relation.inseparable else broken & ~outside
        if broken.any():
            marked |= {name: marked.get(name, False) | broken for name in members}
    names = _texts({name: marked[name] for name in batch.schema.names if name in marked}, len(batch))
    return _joined(batch.column(DOUBTFUL), names) if DOUBTFUL in batch.schema.names else names


def _joined(given: pa.Array, names: pa.Array) -> pa.Array:
    """Names that a format gave, for values that no column holds, and those found."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if given.null_count == len(given):
        return names
    if names.null_count == len(names):
        return given
    both = pc.binary_join_element_wise(given, names, pa.scalar(_SEPARATOR, pa.large_string()), null_handling="skip")
    return pc.if_else(pc.equal(both, pa.scalar("", pa.large_string())), pa.scalar(None, pa.large_string()), both)


def without_doubtful(samples: pl.DataFrame) -> pl.DataFrame:
    """Samples whose doubtful values are null; frames without the column `doubtful` are returned as they are.

    Example:
        >>> import polars as pl
        >>> samples = pl.DataFrame({"idle_percent": [0.0, 97.0], "doubtful": ["idle_percent", None]})
        >>> without_doubtful(samples)["idle_percent"].to_list()
        [None, 97.0]
    """
    import polars as pl

    if DOUBTFUL not in samples.columns or samples[DOUBTFUL].null_count() == samples.height:
        return samples
    named = pl.col(DOUBTFUL).cast(pl.String).str.split(_SEPARATOR)
    names = samples.select(named.explode().drop_nulls().unique()).to_series().to_list()
    kept = {name: ~named.list.contains(name).fill_null(value=False) for name in names if name in samples.columns}
    return samples.with_columns(pl.when(sound).then(pl.col(name)).alias(name) for name, sound in kept.items())


def doubtful_in(samples: pl.DataFrame, *names: str) -> pl.Series:
    """Whether one of some values of a row is doubtful, and with it what is computed from all of them.

    Example:
        >>> import polars as pl
        >>> samples = pl.DataFrame({"doubtful": ["reads_per_s, read_kb_s", "read_kb_s", None]})
        >>> doubtful_in(samples, "reads_per_s", "writes_per_s").to_list()
        [True, False, False]
    """
    import polars as pl

    if DOUBTFUL not in samples.columns or samples[DOUBTFUL].null_count() == samples.height:
        return pl.repeat(False, samples.height, dtype=pl.Boolean, eager=True)
    named = samples[DOUBTFUL].cast(pl.String).str.split(_SEPARATOR)
    return named.list.set_intersection(list(names)).list.len().fill_null(0) > 0


def sound_moments(samples: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The rows of samples in which none of some values is doubtful, for sums over the rows of a sample.

    Example:
        >>> import polars as pl
        >>> rows = {"source_id": "s", "sample": [0, 0, 1], "doubtful": [None, "read_kb_s", None]}
        >>> sound_moments(pl.DataFrame(rows), ["read_kb_s"])["sample"].to_list()
        [1]
    """
    lost = doubtful_in(samples, *names)
    if not lost.any():
        return samples
    return samples.join(samples.filter(lost), on=["source_id", "sample"], how="anti", maintain_order="left")


class _Columns:
    """Columns of a batch as arrays of numbers, each converted once."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._numbers: dict[str, npt.NDArray[np.float64]] = {}

    def has(self, name: str) -> bool:
        """Whether the column has a value."""
        column = self._batch.column(name)
        return bool(column.null_count < len(column))

    def of(self, name: str) -> npt.NDArray[np.float64]:
        """The values, NaN where they are null."""
        import pyarrow as pa

        if name not in self._numbers:
            column = self._batch.column(name).cast(pa.float64(), safe=False)
            self._numbers[name] = column.to_numpy(zero_copy_only=False)
        return self._numbers[name]

    def sums(self, names: Sequence[str]) -> npt.NDArray[np.float64]:
        """The sums of the values that are known; NaN where none is known."""
        import numpy as np

        present = [self.of(name) for name in names if self.has(name)]
        if not present:
            return np.full(len(self._batch), np.nan)
        unknown = np.logical_and.reduce([np.isnan(values) for values in present])
        return np.where(unknown, np.nan, np.nansum(present, axis=0))

    def outside(self, name: str, low: float, high: float, slack: float) -> npt.NDArray[np.bool_] | None:
        """Which values are outside of bounds; None if none is, as in nearly all files."""
        import pyarrow.compute as pc

        if not self.has(name):
            return None
        ends = pc.min_max(self._batch.column(name)).as_py()
        if low <= ends["min"] and ends["max"] <= high + slack:
            return None
        values = self.of(name)
        return (values < low) | (values > high + slack)


def _texts(marked: Mapping[str, npt.NDArray[np.bool_]], rows: int) -> pa.Array:
    """The names of the marked columns of each row."""
    import numpy as np
    import pyarrow as pa

    if not marked:
        return pa.nulls(rows, pa.large_string())
    bits = np.zeros(rows, np.int64)
    for place, mask in enumerate(marked.values()):
        bits |= mask.astype(np.int64) << place
    kinds, kind_of = np.unique(bits, return_inverse=True)
    names = [
        _SEPARATOR.join(name for place, name in enumerate(marked) if kind >> place & 1) or None
        for kind in kinds.tolist()
    ]
    return pa.array(names, pa.large_string()).take(pa.array(kind_of))
