from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from citus_analysis.dataset.manifest import build_checked_dataclass


@dataclass(frozen=True)
class Stored:
    path: str
    rows: int | None = None
    labels: dict[str, str | int] = field(default_factory=dict)


def test_values_of_the_right_types_make_the_object() -> None:
    assert build_checked_dataclass(Stored, {"path": "a", "rows": 3}) == Stored("a", 3)
    assert build_checked_dataclass(Stored, {"path": "a", "rows": None, "labels": {}}) == Stored("a")


@pytest.mark.parametrize(
    "values",
    [{"path": None}, {"path": "a", "rows": "3"}, {"path": "a", "labels": []}, {"path": "a", "size": 1}, {"rows": 1}],
    ids=["null", "text for a number", "list for a mapping", "unknown", "absent"],
)
def test_others_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        build_checked_dataclass(Stored, values)
