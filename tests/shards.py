"""The part of many similar cases that is run: by `make test` another for each commit, by `make test-all` all.

SHARD chooses it, a whole number; without it all cases are taken. Of the cases of a test that is marked
``sharded(parts)``, of those in a loop over :func:`take_part`, each ``parts``-th is run. A search of Hypothesis tries
other examples each time, and a quarter of them (:func:`count_examples`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import pytest

__all__ = ["choose_shard", "count_examples", "split_items", "take_part"]

Case = TypeVar("Case")


def choose_shard() -> int | None:
    """The number that SHARD holds; None where it is unset, for all cases."""
    text = os.environ.get("SHARD", "")
    if text and not text.isdecimal():
        raise pytest.UsageError(f"SHARD={text}: a whole number chooses a part, without SHARD all cases are run")
    return int(text) if text else None


def take_part(cases: Sequence[Case], parts: int = 4) -> Sequence[Case]:
    """Every `parts`-th of some cases, begun at the one that SHARD names."""
    shard = choose_shard()
    return cases if shard is None else cases[shard % parts :: parts]


def count_examples(whole: int) -> int:
    """How many examples a search tries that tries `whole` where all cases are taken."""
    return whole if choose_shard() is None else -(-whole // 4)


def split_items(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests of this run, and those of other values of SHARD."""
    shard = choose_shard()
    seen: Counter[str] = Counter()
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        marker = item.get_closest_marker("sharded")
        if marker is None or shard is None:
            chosen.append(item)
            continue
        (parts,) = marker.args
        family = item.nodeid.partition("[")[0]
        (chosen if seen[family] % parts == shard % parts else others).append(item)
        seen[family] += 1
    return chosen, others
