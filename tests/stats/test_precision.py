"""How precisely configurations are known: the planner, influence and effective sizes as one table."""

import numpy as np
import polars as pl
import pytest

from citus_analysis import stats
from citus_analysis.errors import UsageError
from citus_analysis.stats.planning import check_enough_runs, compute_run_influence
from citus_analysis.stats.warmup import estimate_effective_sample_size


def runs(values: list[float], **columns: object) -> pl.DataFrame:
    ids = [f"r{i}" for i in range(len(values))]
    frame = pl.DataFrame({"resource": ["x"] * len(values), "run_id": ids, "throughput_ops_s": values})
    return frame.with_columns(pl.lit(value).alias(name) for name, value in columns.items())


def series(run: str, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> pl.DataFrame:
    place = {"resource": "x", "run_id": run, "role": "main", "part": 1}
    frame = pl.DataFrame({"elapsed_s": np.arange(values.size, dtype=float), "throughput_ops_s": values})
    return frame.with_columns(pl.lit(None, pl.String).alias("section"), *(pl.lit(v).alias(k) for k, v in place.items()))


def test_each_column_is_what_the_function_of_its_name_says() -> None:
    values = [100.0, 101, 99, 100, 130]
    row = stats.run_precision(runs(values, workers=2), ["workers"]).row(0, named=True)
    rule = check_enough_runs(values)
    assert (row["workers"], row["n"], row["more_runs"]) == (2, 5, rule.more)
    assert row["half_width_percent"] == pytest.approx(100 * rule.reached)
    assert row["remarks"] == compute_run_influence(values).warnings[0]
    assert row["worth"] is None


def test_status_lines_are_worth_fewer_than_they_are() -> None:
    rng = np.random.default_rng(1)
    steps = rng.normal(0, 1, 200).cumsum() * 0.5 + 100
    table = stats.run_precision(
        runs([100.0, 101]), ["resource"], series=pl.concat([series("r0", steps), series("r1", steps)])
    )
    assert table["intervals"][0] == 200
    assert table["worth"][0] == pytest.approx(estimate_effective_sample_size(steps).effective)
    assert table["worth"][0] < 50


def test_a_single_run_has_no_width_and_systems_are_not_pooled() -> None:
    assert stats.run_precision(runs([100.0]), ["resource"])["half_width_percent"].to_list() == [None]
    mixed = runs([1.0, 2, 3, 4]).with_columns(system=pl.Series(["a", "a", "b", "b"]))
    with pytest.raises(UsageError, match="several systems"):
        stats.run_precision(mixed, ["resource"])
