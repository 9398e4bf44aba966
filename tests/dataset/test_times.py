"""Times have one unit and one zone in every table and every reader, so that tables can be joined by them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.schema import OUTSIDE_DATASET, TABLES
from tests.conftest import Tree
from tests.dataset.test_older import record_files

TIME = pl.Datetime("us", "UTC")
TIMED = {
    name: columns
    for name, table in TABLES.items()
    if name not in OUTSIDE_DATASET and (columns := [c.name for c in table if c.type.is_time])
}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine is in another zone than UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


def test_the_tables_with_times_are_known() -> None:
    assert {"log_events", "statements", "spans", "cpu_samples", "runs", "client_series"} <= TIMED.keys()


@pytest.mark.sharded(3)
@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("name", TIMED)
def test_times_are_microseconds_in_utc_in_every_reader(recorded_dataset: Dataset, name: str) -> None:
    columns = TIMED[name]
    frame = recorded_dataset.scan(name).select(columns).head(10).collect()
    assert set(frame.schema.values()) == {TIME}
    queried = recorded_dataset.sql(f"SELECT {', '.join(columns)} FROM {name} LIMIT 10")
    assert set(queried.schema.values()) == {TIME}
    assert {str(kind) for kind in frame.to_pandas().dtypes} == {"datetime64[us, UTC]"}
    assert {str(kind) for kind in frame.to_arrow().schema.types} == {"timestamp[us, tz=UTC]"}


@pytest.mark.usefixtures("elsewhere")
def test_a_query_gives_the_times_that_the_table_has(recorded_dataset: Dataset) -> None:
    queried = recorded_dataset.sql("SELECT run_id, start_time FROM runs ORDER BY run_id")
    assert queried.equals(recorded_dataset.table("runs").select("run_id", "start_time").sort("run_id"))


def test_the_files_themselves_hold_one_unit(recorded_path: Path) -> None:
    for name, columns in TIMED.items():
        for path in sorted((recorded_path / name).glob("*/*.parquet"))[:1]:
            stored = pl.read_parquet_schema(path)
            assert {stored[column] for column in columns} == {TIME}, name


def test_statements_join_the_samples_of_their_node_as_of_their_begin(recorded_dataset: Dataset) -> None:
    keys = ["resource", "iteration", "node"]
    statements = recorded_dataset.table("statements").drop_nulls("start_time").with_columns(node=pl.lit("0"))
    samples = recorded_dataset.table("cpu_samples").drop_nulls("sample_time")
    joined = statements.sort("start_time").join_asof(
        samples.select(*keys, "sample_time", "user_percent").sort("sample_time"),
        left_on="start_time",
        right_on="sample_time",
        by=keys,
        check_sortedness=False,
    )
    found = joined.drop_nulls("sample_time")
    assert found.height > 0
    assert (found["sample_time"] <= found["start_time"]).all()


def test_times_that_were_written_in_milliseconds_are_read_as_the_others(
    tree: Tree, study: dict[str, str], tmp_path: Path, tiny_formats: None
) -> None:
    out = tmp_path / "out"
    ingest(tree(study), out)
    before = open_dataset(out).table("log_events")
    older, *_ = sorted(out.glob("log_events/*/*.parquet"))
    frame = pl.read_parquet(older, hive_partitioning=False)
    frame.with_columns(pl.col("log_time").cast(pl.Datetime("ms", "UTC"))).write_parquet(older)
    record_files(out)
    assert pl.read_parquet_schema(older)["log_time"] == pl.Datetime("ms", "UTC")
    dataset = open_dataset(out)
    assert dataset.table("log_events").equals(before)
    latest = before["log_time"].max()
    assert isinstance(latest, datetime)
    wanted = before.filter(pl.col("log_time") >= latest).height
    assert dataset.scan("log_events").filter(pl.col("log_time") >= latest).collect().height == wanted
    counted = dataset.sql(
        "SELECT count(*) AS n FROM log_events WHERE log_time >= (SELECT max(log_time) FROM log_events)"
    )
    assert counted.item() == wanted
