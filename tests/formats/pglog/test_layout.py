"""The compiled scanner and Python share one layout, and a scanner that was built for another one is refused."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from citus_analysis.errors import CompiledCodeError, UsageError
from citus_analysis.formats import pglog
from citus_analysis.formats.pglog import compiled as _native
from citus_analysis.formats.pglog.layout import (
    ASSEMBLED_ITEMS,
    CODE_COLUMNS,
    NUMBER_COLUMNS,
    RECORD_NUMBERS,
    TEXT_COLUMNS,
    build_ctypes_structure,
    render_layout_header,
)
from citus_analysis.formats.pglog.prefix import MAX_ELEMENTS, compile_prefix
from citus_analysis.schema import TABLES

HEADER = Path(pglog.__file__).parent / "native" / "layout.h"


@pytest.fixture
def fresh_library() -> Iterator[None]:
    _native.load_scanner_library.cache_clear()
    yield
    _native.load_scanner_library.cache_clear()


def test_the_header_is_current() -> None:
    assert HEADER.read_text(encoding="utf-8") == render_layout_header(), "run: make layout"


def test_a_scanner_built_for_another_layout_is_refused(fresh_library: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "compute_layout_hash", lambda: 1)
    with pytest.raises(CompiledCodeError, match=r"_scanner.* was built for another version \(install citus-analysis"):
        pglog.compiled_scanner()


def test_a_scanner_from_before_layouts_is_refused(
    fresh_library: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Old:
        def __init__(self, path: str) -> None:
            assert Path(path) == _native.LIBRARY

        def __getattr__(self, name: str) -> object:
            raise AttributeError(f"undefined symbol: {name}")

    monkeypatch.setattr(ctypes, "CDLL", Old)
    with pytest.raises(CompiledCodeError, match="install citus-analysis again"):
        pglog.compiled_scanner()


def test_columns_are_those_of_the_schema() -> None:
    table = TABLES["log_events"]
    working = {"clock", "message", "zone"}
    assert {*NUMBER_COLUMNS, *TEXT_COLUMNS, *CODE_COLUMNS} - working <= set(table.names())
    assert all(table[name].type.words for name in CODE_COLUMNS)
    widths = {"int32": 4, "int64": 8, "hash": 8, "real": 8}
    for name in set(NUMBER_COLUMNS) - working:
        assert np.dtype(NUMBER_COLUMNS[name]).itemsize == widths[table[name].type.name]


def test_a_structure_is_as_large_as_its_members() -> None:
    assert ctypes.sizeof(build_ctypes_structure("element_t")) == 6 * 4
    assert ctypes.sizeof(build_ctypes_structure("chunk_t")) == 2 * 8 + 5 * 8 + 2 * 4


def test_the_structures_have_the_columns_that_python_fills() -> None:
    members = {name: build_ctypes_structure(name)._fields_ for name in ("output_t", "records_t", "assembled_t")}
    arrays = {str(name): kind for name, kind, *_ in members["output_t"]}
    column, numbers, items = map(build_ctypes_structure, ("column_t", "numbers_t", "array_t"))
    single = [name for name, kind in arrays.items() if kind is column]
    assert single == [*NUMBER_COLUMNS, *CODE_COLUMNS, "capped"]
    assert arrays["texts"] is column * len(TEXT_COLUMNS)
    assert arrays["distinct_texts"] is ctypes.c_void_p * len(TEXT_COLUMNS)
    assert arrays["text_counts"] is ctypes.c_int64 * len(TEXT_COLUMNS)
    assert [name for name, kind, *_ in members["records_t"] if kind is numbers] == list(RECORD_NUMBERS)
    assert [name for name, kind, *_ in members["assembled_t"] if kind is items] == list(ASSEMBLED_ITEMS)


def test_a_prefix_without_end_is_refused() -> None:
    assert len(compile_prefix("%u" * (MAX_ELEMENTS - 1)).elements) == MAX_ELEMENTS - 1
    with pytest.raises(UsageError, match="has 64 escapes"):
        compile_prefix("%u" * MAX_ELEMENTS)
