"""The benchmark of traces uses the library from within, so a change of the library can break it unnoticed."""

from __future__ import annotations

import pytest

from benchmarks import spans


def test_the_benchmark_of_traces_measures_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "READ_TIMES", 1)
    found = spans.measure(spans.STATEMENTS)
    assert found["statements"] == spans.STATEMENTS
    assert found["exact_pairs"] > 900
    assert found["spans"] > found["statements"]
    assert found["reading_s_per_million"] > 0
