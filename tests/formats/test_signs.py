"""The quick tests by which files are recognised tell what polars tells."""

from __future__ import annotations

import polars as pl
import pytest

from citus_analysis.formats.reading.signs import LineBegin, contains

TEXTS = ["avg-cpu:  %user", "a\x1cb", "", " r  b   swpd", "é 1", "Time: 10:00:00", "x" * 500, "11/20/26 21:10:57"]


@pytest.mark.parametrize("pattern", [r"^\w+\s\w", r"\s", r"^$", r"(?i)AVG-CPU", r"\S+ [0-9]$"])
@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:4]])
def test_a_pattern_fits_the_texts_that_polars_finds(texts: list[str], pattern: str) -> None:
    assert contains(texts, pattern) == pl.Series(texts).str.contains(pattern).to_list()


@pytest.mark.parametrize(("text", "count"), [(b"", 0), (b"1 2\n1 2", 2), (b"\n1 2\n\n 1 2\n1 2\n", 2), (b"a1 2", 0)])
def test_lines_are_counted_by_their_beginnings(text: bytes, count: int) -> None:
    begin = LineBegin(rb"[0-9] [0-9]|[0-9]{9},")
    assert (begin.count(text), begin.is_in(text)) == (count, count > 0)
