"""Each Parquet file of a dataset states the unit, meaning and source of its columns, and every tool reads it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset as arrow_dataset
from pyarrow import parquet

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.schema import DERIVED, TABLES
from tests.conftest import Tree
from tests.dataset.test_older import record_files


def test_the_files_of_all_tables_state_what_the_schema_does(recorded_path: Path) -> None:
    files = sorted(recorded_path.glob("*/*/*.parquet"))
    assert {*DERIVED, "log_events", "clients"} <= {file.parts[-3] for file in files}
    for file in files:
        assert parquet.read_schema(file).equals(TABLES[file.parts[-3]].stored(), check_metadata=True), file


def test_a_column_of_a_derived_table(recorded_path: Path) -> None:
    file = next(recorded_path.glob("spans/*/*.parquet"))
    metadata = parquet.read_schema(file).field("duration_us").metadata
    assert metadata[b"unit"].decode() == "µs"
    assert metadata[b"meaning"] == b"as reported by the server"
    assert parquet.read_schema(file).metadata[b"source"] == b"derived from log_events"


def without_schema(file: Path) -> None:
    """Write a file anew as versions did that stored no Arrow schema."""
    rows = parquet.read_table(file, partitioning=None)
    parquet.write_table(rows.replace_schema_metadata(), file, store_schema=False)
    assert parquet.read_schema(file).metadata is None


@pytest.mark.parametrize("first", [True, False])
def test_older_files_are_read_together_with_new_ones(
    tree: Tree, study: dict[str, str], tmp_path: Path, tiny_formats: None, *, first: bool
) -> None:
    out = tmp_path / "out"
    ingest(tree(study), out)
    before = open_dataset(out).table("log_events")
    files = sorted(out.glob("log_events/*/*.parquet"))
    assert len(files) > 1
    without_schema(files[0 if first else -1])
    record_files(out)
    assert open_dataset(out).table("log_events").equals(before)
    folder = out / "log_events"
    by_others = [
        pl.read_parquet(folder, hive_partitioning=True),
        pl.DataFrame(arrow_dataset.dataset(folder, partitioning="hive").to_table()),
        duckdb.read_parquet(f"{folder}/*/*.parquet", hive_partitioning=True).pl(),
    ]
    for rows in by_others:
        assert rows.height == before.height
        assert rows["byte_offset"].sort().equals(before["byte_offset"].sort())
        assert set(rows["resource"].cast(pl.String).unique()) == set(before["resource"].unique())


def test_an_arrow_table_of_a_dataset_has_the_schema(recorded_path: Path) -> None:
    table = open_dataset(recorded_path).table("runs", "arrow")
    assert isinstance(table, pa.Table)
    assert table.schema.equals(TABLES["runs"].arrow(), check_metadata=True)
    assert table.num_rows == open_dataset(recorded_path).tables()["runs"]
