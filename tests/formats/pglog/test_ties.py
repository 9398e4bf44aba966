"""Details find the record of their process, however the rows are cut into chunks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.formats.pglog._native import TieTable

row = st.tuples(st.integers(1, 3), st.integers(-1, 6), st.booleans())


def targets(rows: list[tuple[int, int, bool]], cuts: list[int]) -> list[int]:
    table, found = TieTable(), []
    columns = [np.array([row[index] for row in rows], np.int64) for index in range(3)]
    for part in np.split(np.arange(len(rows)), cuts):
        pids, lines, details = (column[part] for column in columns)
        found += table.tie(pids, lines, details.astype(np.uint8), 100 * part).tolist()
    return found


def test_a_detail_belongs_to_the_last_record_of_its_process_unless_a_line_is_missing() -> None:
    rows = [(1, 4, True), (1, 5, False), (2, 1, False), (1, 6, True), (2, 3, True), (1, 7, True), (2, 2, False)]
    assert targets(rows, []) == [-1, -1, -1, 100, -1, 100, -1]


def test_without_line_numbers_the_last_record_of_the_process_is_taken() -> None:
    assert targets([(1, -1, False), (2, -1, False), (1, -1, True)], []) == [-1, -1, 0]


@given(rows=st.lists(row, max_size=12), cuts=st.lists(st.integers(0, 12), max_size=3).map(sorted))
def test_cuts_do_not_matter(rows: list[tuple[int, int, bool]], cuts: list[int]) -> None:
    assert targets(rows, cuts) == targets(rows, [])


def test_any_number_of_processes() -> None:
    records = [(pid, 1, False) for pid in range(5_000)]
    details = [(pid, 2, True) for pid in range(5_000)]
    assert targets(records + details, [1_700])[5_000:] == [100 * pid for pid in range(5_000)]
