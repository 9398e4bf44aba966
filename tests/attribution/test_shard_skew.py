"""The spread over shards: a hot shard on one side is found, and an even or equally uneven spread is not."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from citus_analysis.attribution.sentences import state_spread
from citus_analysis.attribution.shard_skew import compare_shard_skew

SHARDS, NODES, RUNS, STATEMENTS = 32, 4, 4, 200


def sides(random: np.random.Generator, base: np.ndarray, other: np.ndarray, runs: int = RUNS) -> Any:
    """Statements of one shard each, with random times; shards are on nodes in turn, and each run has shards anew."""
    parts = []
    for side, shares in enumerate((base, other)):
        for run in range(runs):
            shard = random.choice(SHARDS, STATEMENTS, p=shares)
            numbered = {
                "resource": f"side{side}",
                "run_id": f"run{run}",
                "side": side,
                "executed": "remote",
                "node": "0",
                "child_node": [str(one % NODES) for one in shard],
                "shard_id": 100_000 * (run + 1) + shard,
                "total_us": random.exponential(1000.0, STATEMENTS),
            }
            parts.append(pl.DataFrame(numbered))
    settings = pl.DataFrame({"resource": ["side0", "side1"], "name": "shard_count", "value": str(SHARDS)})
    source = SimpleNamespace(table=lambda _name: settings)
    both = tuple(
        SimpleNamespace(table=pl.DataFrame({"resource": [f"side{side}"], "workers": [NODES]})) for side in (0, 1)
    )
    return SimpleNamespace(timed=pl.concat(parts), both=both, sources=(source, source))


def hot(share: float) -> np.ndarray:
    """Shares of shards, one of which has a share of its own."""
    rest = np.full(SHARDS, (1 - share) / (SHARDS - 1))
    rest[5] = share
    return rest


def test_a_hot_shard_is_found_with_its_share() -> None:
    found = compare_shard_skew(sides(np.random.default_rng(1), hot(1 / SHARDS), hot(0.25)), level=0.95)
    row = found.filter(of="executions", over="shards").row(0, named=True)
    assert row["decided"]
    assert (row["base_places"], row["other_places"]) == (SHARDS, SHARDS)
    assert row["other_busiest_percent"] == pytest.approx(25, abs=3)
    # The busiest of an even spread has more than a 32nd by chance.
    assert row["base_busiest_if_even_percent"] == pytest.approx(row["base_busiest_percent"], abs=1)
    expected = 100 * (SHARDS * (hot(0.25) ** 2).sum() - 1) ** 0.5
    assert row["other_cv_percent"] == pytest.approx(expected, rel=0.1)
    assert row["base_cv_percent"] < 20
    assert row["base_even_p"] > 0.01
    assert row["other_even_p"] < 1e-6
    (text,) = map(str, state_spread(found))
    assert "Executions are spread less evenly over shards: the busiest of 32 has 2" in text
    assert "an association" in text


@pytest.mark.sharded(2)
@pytest.mark.parametrize("share", [1 / SHARDS, 0.2])
def test_equal_spreads_are_named_in_a_twentieth(share: float) -> None:
    random = np.random.default_rng(2)
    rounds = 60
    named = sum(
        bool(compare_shard_skew(sides(random, hot(share), hot(share)), level=0.95)["decided"].any())
        for _ in range(rounds)
    )
    # Three standard errors above 5 %.
    assert named / rounds <= 0.05 + 3 * (0.05 * 0.95 / rounds) ** 0.5


def test_one_shard_or_none_is_not_compared() -> None:
    alone = np.eye(SHARDS)[0]
    one = sides(np.random.default_rng(3), alone, alone)
    one.sources[0].table = lambda _name: pl.DataFrame(
        schema={"resource": pl.String, "name": pl.String, "value": pl.String}
    )
    one.both = tuple(SimpleNamespace(table=pl.DataFrame({"resource": [f"side{side}"]})) for side in (0, 1))
    assert compare_shard_skew(one, level=0.95).is_empty()
    one.timed = one.timed.with_columns(shard_id=pl.lit(None, pl.Int64))
    assert compare_shard_skew(one, level=0.95).is_empty()
