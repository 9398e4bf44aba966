"""Parts of many similar cases: each case is in one of them, and without a choice all are run."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.shards import count_examples, split_items, take_part


def collected(name: str, cases: int, parts: int | None) -> list[Any]:
    """Tests as pytest collects them; parts: of the marker that they have."""
    marker = None if parts is None else SimpleNamespace(args=(parts,))
    return [SimpleNamespace(nodeid=f"{name}[{case}]", get_closest_marker=lambda _: marker) for case in range(cases)]


ITEMS = [*collected("a.py::test_x", 7, 3), *collected("a.py::test_y", 2, None), *collected("b.py::test_x", 4, 3)]


def test_each_case_is_in_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    run: list[str] = []
    for shard in ("125", "126", "127", "128"):
        monkeypatch.setenv("SHARD", shard)
        taken += take_part(range(10))
    assert sorted(taken) == list(range(10))
    for shard in ("124", "125", "126"):
        monkeypatch.setenv("SHARD", shard)
        chosen, others = split_items(ITEMS)
        assert len(chosen) + len(others) == len(ITEMS)
        assert [item.nodeid for item in ITEMS[7:9]] == [i.nodeid for i in chosen if "test_y" in i.nodeid]
        run += [item.nodeid for item in chosen if "test_y" not in item.nodeid]
    assert sorted(run) == sorted(item.nodeid for item in ITEMS if "test_y" not in item.nodeid)
    assert count_examples(41) == 11


def test_without_a_choice_all_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHARD", raising=False)
    assert list(take_part(range(10))) == list(range(10))
    assert split_items(ITEMS) == (ITEMS, [])
    assert count_examples(41) == 41


def test_a_choice_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARD", "third")
    with pytest.raises(pytest.UsageError, match="SHARD=third: a whole number"):
        take_part(range(3))
