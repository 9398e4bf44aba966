"""The benchmark of traces uses the library from within, so a change of the library can break it unnoticed."""

from __future__ import annotations

import pytest

from benchmarks import spans, what_if_live


def test_the_benchmark_of_traces_measures_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "READ_TIMES", 1)
    found = spans.measure(spans.STATEMENTS)
    assert found["statements"] == spans.STATEMENTS
    assert found["exact_pairs"] > 900
    assert found["spans"] > found["statements"]
    assert found["reading_s_per_million"] > 0


def test_no_prediction_on_a_live_cluster_knows_what_it_predicts() -> None:
    pairs, bases = what_if_live.list_pairs(), what_if_live.list_bases()
    assert len(pairs) >= 12
    assert all(pair.base in bases and pair.changed not in bases for pair in pairs)
    assert len({(pair.base.name, pair.changed.name) for pair in pairs}) == len(pairs)


def test_measured_ratios_are_paired_by_block_and_predictions_are_not_changed_afterwards() -> None:
    rows = [
        {"change": "owner-routing", "base": "a", "changed": "b", "ratio": 2.0, "low": 1.5, "high": 2.5},
        {"change": "threads=64", "base": "a", "changed": "c", "ratio": 2.0, "low": 1.5, "high": 2.5},
        {"change": "text", "base": "a", "changed": "b", "refused": "not known"},
    ]
    made: dict[str, object] = {"written": "2026-11-28", "predictions": rows}
    made["sha256"] = what_if_live.hash_predictions(made)
    # The machine is half as fast in the second block; the ratio of b is 2 in both, that of c 0.5.
    rates = {"a#1": 100.0, "b#1": 200.0, "c#1": 50.0, "a#2": 50.0, "b#2": 100.0, "c#2": 25.0}
    found = what_if_live.compare(made, rates)
    names = ("pairs", "inside", "decided", "wrong_signs")
    assert tuple(found[name] for name in names) == (2, 1, 2, 1)
    with pytest.raises(SystemExit, match="changed after they were made"):
        what_if_live.compare({**made, "predictions": rows[:1]}, rates)
