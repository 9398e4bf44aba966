"""Convert columns of `log_events` to the arguments of the compiled assembly, and the arrays it returns to frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from citus_analysis.core.arrow_arrays import arrow_flags, arrow_numbers, arrow_times, filled, nulls
from citus_analysis.formats.serverlog.pglog.compiled.assembly import (
    NO_CODE,
    NO_NUMBER,
    NOTHING_THERE,
    UNNAMED,
    RecordColumns,
    Rules,
)
from citus_analysis.formats.serverlog.pglog.compiled.layout import RECORD_NUMBERS
from citus_analysis.formats.serverlog.pglog.fallback import chosen_reader
from citus_analysis.schema import KINDS, PROTOCOL_PHASES, SEVERITIES, STATEMENT_KINDS
from citus_analysis.spans.read.records import FILE_ROOM, WORDS, word_of

if TYPE_CHECKING:
    from citus_analysis.formats.serverlog.pglog.compiled.assembly import Assembly
    from citus_analysis.formats.serverlog.pglog.fallback.python_assembly import PythonAssembly

#: gpid = nodeid * GPID_NODE_FACTOR + pid of the parent backend (Citus, GLOBAL_PID_NODE_ID_MULTIPLIER).
GPID_NODE_FACTOR: Final = 10_000_000_000


class TextNumbers:
    """Numbers for texts, in the order in which they are met.

    Example:
        >>> numbers = TextNumbers()
        >>> numbers.of("worker1"), numbers.of("worker2"), numbers.of("worker1"), numbers.texts
        (0, 1, 0, ['worker1', 'worker2'])
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, text: str) -> int:
        """The number of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def texts(self) -> list[str]:
        """All texts, by their numbers."""
        return list(self._numbers)

    def named(self, numbers: NDArray[np.int32]) -> pa.Array | pl.Series:
        """The texts of some numbers; null for :data:`NO_NUMBER`."""
        if not self._numbers:
            return nulls(pa.large_string(), len(numbers))
        # The last text is the one at index -1, which is :data:`NO_NUMBER`.
        return pl.Series([*self.texts, None], dtype=pl.String)[numbers]


def numbered_nodes(nodes: pl.DataFrame) -> list[tuple[str, int]]:
    """Name and nodeid of the rows of table `nodes` that state both; of several with one of them, the first counts.

    Example:
        >>> numbered_nodes(pl.DataFrame({"node": ["1", "1", None], "nodeid": [None, 7, 8]}))
        [('1', 7)]
    """
    return [pair for pair in zip(nodes["node"], nodes["nodeid"], strict=True) if None not in pair]


def new_assembly(files: pl.DataFrame, nodes: pl.DataFrame, *, distributed: bool) -> Assembly | PythonAssembly:
    """An assembly for the records of some log files.

    Args:
        files: `source` (0, 1, 2 ...) and `node`.
        nodes: rows of table `nodes` of the resource: their nodeids.
        distributed: the servers form a cluster.
    """
    names = files["node"].to_list()
    known = dict(reversed(numbered_nodes(nodes)))
    number = {name: at for at, name in enumerate(sorted(set(names)))}
    of_source = np.array([number[name] for name in names], np.int32)
    nodeids = np.array([known.get(name, NOTHING_THERE) for name in names], np.int64)
    return chosen_reader.new_assembly(
        Rules(WORDS, of_source, nodeids, GPID_NODE_FACTOR, FILE_ROOM, distributed=distributed)
    )


@dataclass(frozen=True)
class Texts:
    """Texts that records name by number: hosts of workers, further shards of statements, prepared statements."""

    hosts: TextNumbers = field(default_factory=TextNumbers)
    shards: TextNumbers = field(default_factory=TextNumbers)
    names: TextNumbers = field(default_factory=TextNumbers)

    def __post_init__(self) -> None:
        if self.names.of("<unnamed>") != UNNAMED:
            raise ValueError("names must be numbered from the unnamed statement")


def record_columns(columns: Mapping[str, pa.Array], texts: Texts) -> RecordColumns:
    """Columns of `log_events` as arguments of the assembly.

    Args:
        columns: :data:`~citus_analysis.spans.read.records.USED`; categories as dictionaries.
        texts: numbers for texts.
    """
    return RecordColumns(
        numbers={name: columns[name] for name in RECORD_NUMBERS},
        words=word_of(
            _codes(columns["kind"], KINDS.index, len(KINDS)),
            _codes(columns["phase"], PROTOCOL_PHASES.index, len(PROTOCOL_PHASES)),
        ),
        severity=_codes(columns["severity"], SEVERITIES.index, NO_CODE),
        statement_kind=_codes(columns["statement_kind"], STATEMENT_KINDS.index, NO_CODE),
        worker_host=_numbers(columns["worker_host"], texts.hosts),
        other_shards=_numbers(columns["other_shards"], texts.shards),
        statement_name=_numbers(columns["statement_name"], texts.names),
    )


def _codes(array: pa.DictionaryArray, code: Callable[[str], int], missing: int) -> NDArray[np.uint8]:
    return _looked_up(array, code, missing).astype(np.uint8)


def _numbers(array: pa.Array, numbers: TextNumbers) -> NDArray[np.int32] | None:
    return None if array.null_count == len(array) else _looked_up(array, numbers.of, NO_NUMBER)


def _looked_up(array: pa.Array, number: Callable[[str], int], missing: int) -> NDArray[np.int32]:
    """The number of the text of each row."""
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    words = coded.dictionary.to_pylist()
    table = np.array([*map(number, words), missing], np.int32)
    return np.asarray(table[filled(coded.indices.cast(pa.int32()), len(words))], np.int32)


def columns_of(
    items: NDArray[np.void],
    names: Sequence[str],
    optional: Sequence[str] = (),
    *,
    flags: Sequence[str] = (),
    times: Sequence[str] = (),
) -> dict[str, pa.Array]:
    """Some members of an array of structures as columns.

    Args:
        items: the structures.
        names: members that have a value everywhere.
        optional: numbers that may be missing.
        flags: members that are 0 or 1.
        times: microseconds since 1970, which may be missing.
    """
    # Copied in any case, because the array may be a view of memory that is used again.
    columns = {name: arrow_numbers(items[name].copy()) for name in names}
    for some, column in ((optional, arrow_numbers), (times, arrow_times)):
        for name in some:
            values = items[name].copy()
            there = values != NOTHING_THERE
            columns[name] = column(values, None if there.all() else there)
    return columns | {name: arrow_flags(items[name] == 1) for name in flags}


def frame_of(columns: Mapping[str, pa.Array | pl.Series]) -> pl.DataFrame:
    """Columns as a frame."""
    arrays = {name: column for name, column in columns.items() if isinstance(column, pa.Array)}
    others = [column.alias(name) for name, column in columns.items() if isinstance(column, pl.Series)]
    return pl.DataFrame(pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))).hstack(others)
