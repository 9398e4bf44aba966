"""Rows from which headlines are computed: those of the library are those of the raw files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from citus_analysis.dataset import Dataset
from tests.recomputed.truth import Truth


def test_every_run_has_the_throughput_that_its_clients_printed(demonstration: Dataset, truth: Truth) -> None:
    columns = [
        "resource",
        "iteration",
        "throughput_ops_s",
        "operations_done",
        "workers",
        "threads",
        "records",
        "drivers",
    ]
    rows = demonstration.runs().select(pl.col("resource").cast(pl.String), *columns[1:]).to_pandas()
    both = truth.recording.runs.merge(
        rows, on=["resource", "iteration"], how="outer", suffixes=("", "_found"), indicator=True
    )
    assert set(both["_merge"]) == {"both"}
    assert len(both) == 134
    np.testing.assert_allclose(both["throughput_ops_s"], both["throughput"], rtol=1e-12)
    assert (both["operations_done"] == both["done"]).all()
    for column in ("workers", "threads", "records", "drivers"):
        assert (both[column] == both[f"{column}_found"]).all(), column


def test_statements_of_each_run_have_the_times_of_their_records(demonstration: Dataset, truth: Truth) -> None:
    kinds = pl.col("statement_kind").cast(pl.String).str.to_uppercase()
    runs = demonstration.runs().select("run_id", "iteration")
    found = (
        demonstration.statements()
        .drop("iteration")
        .join(runs, on="run_id")
        .with_columns(pl.col("resource", "executed").cast(pl.String), kind=kinds)
        .filter(pl.col("kind").is_in(["INSERT", "SELECT"]))
        .to_pandas()
    )
    keys = ["resource", "iteration", "kind", "executed"]
    ours = truth.recording.statements
    assert len(found) == len(ours) == 25_070
    left, right = (frame.groupby(keys)[["total_us", "wait_us"]].sum() for frame in (ours, found))
    pd.testing.assert_frame_equal(left, right, check_dtype=False, check_index_type=False, rtol=1e-9)
    counts = [frame.groupby(keys).size().to_list() for frame in (ours, found)]
    assert counts[0] == counts[1]
    # The library leaves a few children without their task, whose clocks contradict one another; all pairs agree.
    remote = found[(found["executed"] == "remote") & found["child_us"].notna()]
    assert len(remote) >= 0.999 * (ours["executed"] == "remote").sum()
    pairs = [
        frame.groupby(["resource", "iteration"])["child_us"].sum()
        for frame in (ours[ours["executed"] == "remote"], remote)
    ]
    same = np.isclose(*pairs[0].align(pairs[1], join="inner"), rtol=1e-9)
    assert (~same).sum() <= (ours["executed"] == "remote").sum() - len(remote)


@pytest.mark.parametrize("kind", ["INSERT", "SELECT"])
def test_times_of_a_statement_add_up(truth: Truth, kind: str) -> None:
    rows = truth.recording.statements.query("kind == @kind and executed == 'remote'")
    assert rows["paired"].all()
    assert (rows["between_us"] >= 0).all()
    np.testing.assert_allclose(rows[["parent_us", "child_us", "between_us"]].sum(axis=1), rows["total_us"])
