"""Records of server logs assembled into executions by session, by compiled code.

:mod:`citus_analysis.spans.executions` defines the rules; the results are arrays of the structures `execution_t`,
`phase_t`, `sent_task_t`, `local_t`, `session_t` and `missing_t` of `native/layout.h`.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from citus_analysis.formats.pglog.compiled import load_scanner_library
from citus_analysis.formats.pglog.layout import ASSEMBLED_ITEMS, NOT_IN_ORDER, OUT_OF_MEMORY, build_ctypes_structure

#: Missing values: of integers, of codes, and of numbers of texts.
NOTHING_THERE: Final = np.iinfo(np.int64).min
NO_CODE: Final = 255
NO_NUMBER: Final = -1
#: The number of the name of the unnamed statement.
UNNAMED: Final = 0
#: The process of executions of which the session is unknown.
NO_PROCESS: Final = -1

_RULES, _RECORDS, _NUMBERS, _ASSEMBLED = map(
    build_ctypes_structure, ("rules_t", "records_t", "numbers_t", "assembled_t")
)

#: Arrays of structures, by the names of `assembled_t`.
Assembled = Mapping[str, NDArray[np.void]]


@dataclass(frozen=True)
class Rules:
    """The meaning of records to their sessions.

    Attributes:
        words: `timed` and `untimed` (the event of a record with and without a duration), `parses`, `extended`,
            `statements` and `binds`: one byte per combination of kind and phase.
        nodes: the node of each source, as a number.
        nodeids: the nodeid of each source; :data:`NOTHING_THERE` if it is unknown.
        gpid_factor: the factor of a nodeid in a gpid.
        file_room: a number larger than any offset in a source.
        distributed: whether a statement on a shard is a local execution.
    """

    words: Mapping[str, NDArray[np.uint8]]
    nodes: NDArray[np.int32]
    nodeids: NDArray[np.int64]
    gpid_factor: int
    file_room: int
    distributed: bool


@dataclass(frozen=True)
class RecordColumns:
    """Columns of records.

    Attributes:
        numbers: columns of integers, reals and times; absent ones count as null.
        words: kind and phase as one number.
        severity: place in the list of the schema.
        statement_kind: place in the list of the schema; :data:`NO_CODE` if null.
        worker_host: number of a name, :data:`NO_NUMBER` if null; None if all are null.
        other_shards: number of a text, likewise.
        statement_name: number of a name, likewise; :data:`UNNAMED` for the unnamed statement.
    """

    numbers: Mapping[str, pa.Array]
    words: NDArray[np.uint8]
    severity: NDArray[np.uint8]
    statement_kind: NDArray[np.uint8]
    worker_host: NDArray[np.int32] | None
    other_shards: NDArray[np.int32] | None
    statement_name: NDArray[np.int32] | None

    def structure(self) -> ctypes.Structure:
        """The columns for the compiled code; they must outlive it."""
        found = _RECORDS(rows=len(self.words))
        for name, array in self.numbers.items():
            setattr(found, name, _make_number_structure(array))
        for name in ("words", "severity", "statement_kind", "worker_host", "other_shards", "statement_name"):
            values: NDArray[np.generic] | None = getattr(self, name)
            setattr(found, name, None if values is None else values.ctypes.data)
        return found


def _make_number_structure(array: pa.Array) -> ctypes.Structure:
    if array.null_count == len(array):
        return _NUMBERS()
    valid, values = array.buffers()
    address = values.address + array.offset * (array.type.bit_width // 8)
    return _NUMBERS(address, valid.address if valid is not None and array.null_count else None, array.offset)


class Assembly:
    """Assembles records into executions.

    Args:
        rules: the meaning of the records.
    """

    def __init__(self, rules: Rules) -> None:
        #: First and last time of the records of each source; :data:`NOTHING_THERE` if none has a time.
        self.times = np.full((len(rules.nodes), 2), NOTHING_THERE, np.int64)
        self._nodes, self._nodeids = np.ascontiguousarray(rules.nodes), np.ascontiguousarray(rules.nodeids)
        self._words = {name: np.ascontiguousarray(array, np.uint8) for name, array in rules.words.items()}
        given = _RULES(
            **{name: array.ctypes.data for name, array in self._words.items()},
            times=self.times.ctypes.data,
            nodes=self._nodes.ctypes.data,
            nodeids=self._nodeids.ctypes.data,
            gpid_factor=rules.gpid_factor,
            file_room=rules.file_room,
            distributed=rules.distributed,
        )
        self._handle = load_scanner_library().pglog_assembly_new(ctypes.byref(given))
        if not self._handle:
            raise MemoryError
        weakref.finalize(self, load_scanner_library().pglog_assembly_free, self._handle)

    def add(self, columns: RecordColumns, source: int) -> bool:
        """Add the next records of one source; false if records must be sorted by session first.

        Raises:
            MemoryError: the memory does not suffice.
        """
        given = columns.structure()
        given.source = source
        return self._call(load_scanner_library().pglog_assemble(self._handle, ctypes.byref(given)))

    def add_sorted(self, columns: RecordColumns, order: NDArray[np.int64], sources: NDArray[np.uint32]) -> None:
        """Add records in the order of their sessions, given the source of each.

        Raises:
            MemoryError: the memory does not suffice.
        """
        given = columns.structure()
        order, sources = np.ascontiguousarray(order, np.int64), np.ascontiguousarray(sources, np.uint32)
        # The address of an empty array may be NULL, which the compiled code takes for "in order".
        if len(order):
            given.rows, given.order, given.sources = len(order), order.ctypes.data, sources.ctypes.data
            self._call(load_scanner_library().pglog_assemble(self._handle, ctypes.byref(given)))

    def end(self) -> None:
        """Complete all sessions: no more records follow.

        Raises:
            MemoryError: the memory does not suffice.
        """
        self._call(load_scanner_library().pglog_assembly_end(self._handle))

    @property
    def waiting(self) -> int:
        """The number of executions assembled since the last :meth:`take`."""
        return int(load_scanner_library().pglog_assembly_waiting(self._handle))

    def take(self) -> Assembled:
        """The executions assembled since the last call; valid only until the next call, so copy them to keep them."""
        found = _ASSEMBLED()
        load_scanner_library().pglog_assembled(self._handle, ctypes.byref(found))
        return {name: _view_as_structures(getattr(found, name), kind) for name, kind in ASSEMBLED_ITEMS.items()}

    def _call(self, result: int) -> bool:
        if result == OUT_OF_MEMORY:
            raise MemoryError
        return result != NOT_IN_ORDER


def _view_as_structures(array: ctypes.Structure, kind: str) -> NDArray[np.void]:
    dtype = np.dtype(build_ctypes_structure(kind))
    if not array.count:
        return np.empty(0, dtype)
    memory = (ctypes.c_uint8 * (array.count * dtype.itemsize)).from_address(array.items)
    return np.frombuffer(memory, dtype)


def select_items(items: NDArray[np.void], numbers: NDArray[np.integer]) -> NDArray[np.void]:
    """The chosen structures of an array, copied as bytes: numpy would copy them member by member.

    Example:
        >>> pairs = np.array([(1, 2.0), (3, 4.0)], [("number", "i8"), ("value", "f8")])
        >>> select_items(pairs, np.array([1, 0, 1]))["value"].tolist()
        [4.0, 2.0, 4.0]
    """
    chosen: NDArray[np.void] = items.view(f"V{items.dtype.itemsize}")[numbers].view(items.dtype)
    return chosen


def copy_items(items: NDArray[np.void]) -> NDArray[np.void]:
    """The same structures in memory of their own, copied as bytes.

    Example:
        >>> copy_items(np.array([(1,), (3,)], [("number", "i8")]))["number"].tolist()
        [1, 3]
    """
    return items.view(f"V{items.dtype.itemsize}").copy().view(items.dtype)


def concatenate_items(arrays: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """One or more arrays of the same structures, concatenated as bytes.

    Example:
        >>> one = np.array([(1,), (3,)], [("number", "i8")])
        >>> concatenate_items([one, one])["number"].tolist()
        [1, 3, 1, 3]
    """
    dtype = arrays[0].dtype
    joined: NDArray[np.void] = np.concatenate([items.view(f"V{dtype.itemsize}") for items in arrays]).view(dtype)
    return joined


def place_items(target: NDArray[np.void], begin: int, items: NDArray[np.void]) -> None:
    """Copy structures, as bytes, to a place in an array of the same structures.

    Example:
        >>> numbers = np.zeros(3, [("number", "i8")])
        >>> place_items(numbers, 1, np.array([(1,), (3,)], numbers.dtype))
        >>> numbers["number"].tolist()
        [0, 1, 3]
    """
    as_bytes = f"V{target.dtype.itemsize}"
    target.view(as_bytes)[begin : begin + len(items)] = items.view(as_bytes)
