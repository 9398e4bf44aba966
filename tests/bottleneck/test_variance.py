"""Var(T) adds up, and what makes statements slow is found, on a real recording and on made statements."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from citus_analysis.bottleneck.study import CONFIGURATION, study_bottleneck
from citus_analysis.bottleneck.variance import TERMS, decompose_time_variance, find_separating_properties
from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.schema import TABLES
from tests.recordings import RECORDED

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEYS = ("resource", "operation", "threads")


def runs() -> pl.DataFrame:
    return pl.DataFrame({"resource": ["w2"], "run_id": ["w2/1"], "operation": ["INSERT"], "threads": [16]})


def statements(n: int = 400) -> pl.DataFrame:
    """Parent and child independent, between twice the parent; those of node 2 take 1 ms longer in the child."""
    random = np.random.default_rng(7)
    parent, child = random.exponential(100.0, n), random.exponential(300.0, n)
    node = np.arange(n) % 2 + 1
    child = child + 1000.0 * (node == 2)
    between = 2 * parent
    frame = pl.DataFrame(
        {
            "resource": ["w2"] * n,
            "run_id": ["w2/1"] * n,
            "node": [str(one) for one in node],
            "statement_kind": ["insert"] * n,
            "executed": ["remote"] * n,
            "failed": [False] * n,
            "start_time": [NOON + timedelta(milliseconds=i) for i in range(n)],
            "total_us": parent + child + between,
            "wait_us": child + between,
            "child_us": child,
        }
    )
    return TABLES["statements"].conform(frame)


def test_terms_are_those_of_the_parts_and_add_up() -> None:
    rows = decompose_time_variance(statements(), runs(), KEYS)
    given = statements()
    parent = (given["total_us"] - given["wait_us"]).to_numpy()
    term = dict(zip(rows["term"], rows["value_us2"], strict=True))
    assert set(term) == set(TERMS)
    assert term["parent"] == pytest.approx(np.var(parent))
    assert term["between"] == pytest.approx(4 * np.var(parent))
    assert term["parent and between"] == pytest.approx(4 * np.var(parent))  # 2 Cov(p, 2p)
    assert rows["share"].sum() == pytest.approx(1.0, abs=1e-9)
    assert rows["variance_us2"][0] == pytest.approx(np.var(given["total_us"].to_numpy()))


def test_a_slow_node_separates_statements() -> None:
    found = find_separating_properties(statements(), TABLES["checkpoints"].empty(), runs(), KEYS)
    first = found.filter(pl.col("property") == "node 2").row(0, named=True)
    assert first["cliffs_delta"] > 0.7
    assert first["p_value"] < 1e-6
    assert (first["n_with"], first["n_without"]) == (200, 200)


def test_statements_under_a_checkpoint_are_told_apart() -> None:
    checkpoint = {"resource": "w2", "run_id": "w2/1", "node": "1", "start_time": NOON}
    checkpoint["end_time"] = NOON + timedelta(milliseconds=199)
    marks = TABLES["checkpoints"].conform(pl.DataFrame([checkpoint]))
    found = find_separating_properties(statements(), marks, runs(), KEYS).filter(
        pl.col("property") == "checkpoint under way"
    )
    assert (found["n_with"].item(), found["n_without"].item()) == (100, 300)


def test_few_statements_say_nothing() -> None:
    assert decompose_time_variance(statements(20), runs(), KEYS).is_empty()
    assert find_separating_properties(statements(20), TABLES["checkpoints"].empty(), runs(), KEYS).is_empty()


def test_variances_of_recorded_traces_add_up(tmp_path: Path) -> None:
    ingest([RECORDED / "w1-t4-insert"], tmp_path / "dataset")
    study = study_bottleneck(open_dataset(tmp_path / "dataset"))
    keys = [*CONFIGURATION, "statement_kind"]
    sums = study.variance.group_by(keys).agg(pl.col("value_us2").sum(), pl.col("variance_us2").first())
    assert sums.height >= 1
    assert ((sums["value_us2"] / sums["variance_us2"] - 1).abs() < 1e-9).all()
    assert study.separators["p_value"].is_between(0, 1).all()
