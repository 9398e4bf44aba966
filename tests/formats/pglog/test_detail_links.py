"""Details find the record of their process, however the rows are cut into chunks."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.formats.pglog.detail_links import DetailLinks
from citus_analysis.schema import TABLES
from tests.formats.pglog.oracle import PythonLinks

EVENTS = TABLES["log_events"].parsed()
#: Process, number of the line (None where the prefix has none), whether it is a detail.
Row = tuple[int, int | None, bool]
row = st.tuples(st.integers(1, 3), st.none() | st.integers(0, 6), st.booleans())


def targets(rows: list[Row], cuts: list[int]) -> list[int | None]:
    frame = pl.DataFrame(
        {
            "pid": [pid for pid, _, _ in rows],
            "session_line": pl.Series([number for _, number, _ in rows], dtype=pl.Int64),
            "severity": ["DETAIL" if detail else "LOG" for _, _, detail in rows],
            "byte_offset": [100 * number for number in range(len(rows))],
        },
        schema_overrides={"pid": pl.Int32, "byte_offset": pl.Int64},
    )
    whole = EVENTS.batch(frame)
    pieces = [whole.slice(begin, max(end - begin, 0)) for begin, end in pairwise([0, *cuts, len(rows)])]
    compiled, in_python = (
        [target for piece in pieces for target in links.link(piece)["record_byte_offset"].to_pylist()]
        for links in (DetailLinks(), PythonLinks())
    )
    assert compiled == in_python
    return compiled


def test_a_detail_belongs_to_the_last_record_of_its_process_unless_a_line_is_missing() -> None:
    rows: list[Row] = [
        (1, 4, True),
        (1, 5, False),
        (2, 1, False),
        (1, 6, True),
        (2, 3, True),
        (1, 7, True),
        (2, 2, False),
    ]
    assert targets(rows, []) == [None, None, None, 100, None, 100, None]


def test_without_line_numbers_the_last_record_of_the_process_is_taken() -> None:
    assert targets([(1, None, False), (2, None, False), (1, None, True)], []) == [None, None, 0]


@given(rows=st.lists(row, max_size=12), cuts=st.lists(st.integers(0, 12), max_size=3).map(sorted))
def test_cuts_do_not_matter(rows: list[Row], cuts: list[int]) -> None:
    assert targets(rows, [min(cut, len(rows)) for cut in cuts]) == targets(rows, [])


def test_any_number_of_processes() -> None:
    records: list[Row] = [(pid, 1, False) for pid in range(5_000)]
    details: list[Row] = [(pid, 2, True) for pid in range(5_000)]
    assert targets(records + details, [1_700])[5_000:] == [100 * pid for pid in range(5_000)]
