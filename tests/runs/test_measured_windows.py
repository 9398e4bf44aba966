"""Rows from within the measured windows of runs."""

from datetime import UTC, datetime, timedelta

import polars as pl

from citus_analysis.runs.windows import CLOCKS_APART_S, select_measured_rows

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def runs(*names: str, seconds: int = 10) -> pl.DataFrame:
    """Runs of ten seconds, all from the same moment on."""
    window = {"measured_from": START, "measured_until": START + timedelta(seconds=seconds)}
    return pl.DataFrame([{"resource": "w2", "run_id": name, **window} for name in names])


def rows(run: str | None, *seconds: float, length: float = 0.0) -> pl.DataFrame:
    """Rows that begin so many seconds after the run."""
    return pl.DataFrame(
        [
            {"resource": "w2", "run_id": run, "start_time": START + timedelta(seconds=s)}
            | {"end_time": START + timedelta(seconds=s + length)}
            for s in seconds
        ],
        schema_overrides={"run_id": pl.String},
    )


def test_rows_must_begin_and_end_within_the_window() -> None:
    found = select_measured_rows(rows("a", -1, 0, 4, 9.5, 10, length=0.5), runs("a"))
    assert (found.rows.height, found.outside, found.runs_outside, found.unplaced) == (3, 2, (), ())
    assert found.rows["start_time"].dt.second().to_list() == [0, 4, 9]


def test_runs_without_a_row_in_their_window_are_named() -> None:
    found = select_measured_rows(pl.concat([rows("a", 1), rows("b", 20, 30)]), runs("a", "b"))
    assert (found.rows.height, found.outside, found.runs_outside) == (1, 2, ("b",))


def test_clocks_that_differ_by_a_time_zone_exclude_nothing() -> None:
    found = select_measured_rows(rows("a", 3_600, 3_605), runs("a"))
    assert (found.rows.height, found.outside, found.unplaced) == (2, 0, ("a",))
    near = select_measured_rows(rows("a", CLOCKS_APART_S), runs("a"))
    assert (near.rows.height, near.outside, near.unplaced) == (0, 1, ())


def test_rows_of_unknown_runs_and_tables_without_times_are_kept() -> None:
    some = pl.concat([rows("other", 50), rows(None, 50), rows("a", 50)])
    assert select_measured_rows(some, runs("a")).rows["run_id"].to_list() == ["other", None]
    assert select_measured_rows(some.drop("end_time"), runs("a")).rows.height == 3
    assert select_measured_rows(some, runs("a").drop("measured_until")).outside == 0
