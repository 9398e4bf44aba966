"""The quick tests by which files are recognised."""

from __future__ import annotations

import pytest

from citus_analysis.formats.parsing.format import LineBegin


@pytest.mark.parametrize(("text", "count"), [(b"", 0), (b"1 2\n1 2", 2), (b"\n1 2\n\n 1 2\n1 2\n", 2), (b"a1 2", 0)])
def test_lines_are_counted_by_their_beginnings(text: bytes, count: int) -> None:
    begin = LineBegin(rb"[0-9] [0-9]|[0-9]{9},")
    assert (begin.count(text), begin.is_in(text)) == (count, count > 0)
