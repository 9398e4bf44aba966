from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from pyarrow import parquet

from citus_analysis.dataset import parts
from citus_analysis.dataset.manifest import Part
from citus_analysis.dataset.parts import PartWriter, folder_of, publish, remove_orphans
from citus_analysis.dataset.storage import scan_table
from citus_analysis.schema import OUTSIDE_DATASET, TABLES, Table

EVENTS = TABLES["log_events"]


def events(start: int, stop: int) -> pl.DataFrame:
    numbers = pl.int_range(start, stop, eager=True)
    return pl.DataFrame(
        {
            "byte_offset": numbers,
            "kind": ["task" if n % 2 else "duration" for n in numbers],
            "application": [f"app{n % 3}" for n in numbers],
            "statement_fingerprint": numbers.cast(pl.UInt64) + 2**63,
        }
    )


def write(folder: Path, cuts: list[int], resource: str = "V3") -> bytes:
    writer = PartWriter(folder, resource, "stem")
    for start, stop in pairwise(cuts):
        writer.write({"log_events": events(start, stop)})
    staged = writer.finish()
    publish(folder, staged)
    return (folder / staged[0].part.path).read_bytes()


def test_rows_come_back_with_the_schemas_columns_and_types(tmp_path: Path) -> None:
    write(tmp_path, [0, 10])
    part = Part("log_events", "log_events/resource=V3/stem.parquet", 10)
    frame = scan_table(EVENTS, tmp_path, [part]).collect()
    assert frame.schema == EVENTS.polars_schema()
    assert frame.select("resource", "kind", "statement_fingerprint").row(1) == ("V3", "task", 2**63 + 1)


@pytest.mark.parametrize("name", sorted(TABLES.keys() - OUTSIDE_DATASET))
def test_every_table_can_be_stored(tmp_path: Path, name: str) -> None:
    table: Table = TABLES[name]
    row = pl.DataFrame({table.columns[-1].name: [None]})
    writer = PartWriter(tmp_path, "V3", "stem")
    writer.write({name: table.conform(row)})
    staged = writer.finish()
    publish(tmp_path, staged)
    frame = scan_table(table, tmp_path, [item.part for item in staged]).collect()
    assert frame.schema == table.polars_schema()
    assert frame.height == 1


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, 50), max_size=6).map(sorted))
def test_the_rows_do_not_depend_on_the_pieces_nor_the_bytes_on_the_process(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    part = Part("log_events", "log_events/resource=V3/stem.parquet", 50)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROW_GROUP", 7)
        whole = write(folder, [0, 50])
        wanted = scan_table(EVENTS, folder, [part]).collect()
        # Categories that this process has met by now do not show in the bytes.
        pl.Series([f"app{number}" for number in range(90, 100)]).cast(pl.Categorical())
        assert write(folder, [0, 50]) == whole
        cut = write(folder, [0, *cuts, 50])
        assert write(folder, [0, *cuts, 50]) == cut
        assert_frame_equal(scan_table(EVENTS, folder, [part]).collect(), wanted)


def test_small_pieces_share_a_row_group_and_large_ones_are_cut(tmp_path: Path) -> None:
    write(tmp_path, [0, 10, 20, 30])
    assert parquet.ParquetFile(tmp_path / "log_events/resource=V3/stem.parquet").num_row_groups == 1
    write(tmp_path, [0, 40_000, 80_000, 80_001])
    assert parquet.ParquetFile(tmp_path / "log_events/resource=V3/stem.parquet").num_row_groups == 3
    write(tmp_path, [0, 270_000])
    assert parquet.ParquetFile(tmp_path / "log_events/resource=V3/stem.parquet").num_row_groups == 2


def test_a_table_without_rows_has_no_file(tmp_path: Path) -> None:
    writer = PartWriter(tmp_path, "V3", "stem")
    writer.write({"log_events": EVENTS.empty()})
    assert writer.finish() == []


def test_abandoned_parts_leave_nothing(tmp_path: Path) -> None:
    writer = PartWriter(tmp_path, "V3", "stem")
    writer.write({"log_events": events(0, parts.ROW_GROUP)})
    writer.write({"log_events": events(0, parts.ROW_GROUP)})
    assert list(tmp_path.rglob("*.parquet"))
    writer.abandon()
    assert not list(tmp_path.rglob("*.parquet"))


def test_what_fails_meanwhile_is_raised_by_the_next_call_and_ends_the_thread(tmp_path: Path) -> None:
    (tmp_path / "_staging").write_text("where a folder should be")
    for last in (PartWriter.finish, lambda writer: writer.write({"log_events": events(0, parts.ROW_GROUP)})):
        writer = PartWriter(tmp_path, "V3", "stem")
        writer.write({"log_events": events(0, parts.ROW_GROUP)})
        with pytest.raises(FileExistsError):
            last(writer)
        writer.abandon()
    assert not any(thread.name.startswith("parquet") for thread in threading.enumerate())


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failure_of_the_caller_leaves_nothing(tmp_path: Path, failure: type[BaseException]) -> None:
    def fail() -> None:
        with PartWriter(tmp_path, "V3", "stem") as writer:
            writer.write({"log_events": events(0, parts.ROW_GROUP)})
            raise failure

    with pytest.raises(failure):
        fail()
    assert not list(tmp_path.rglob("*.parquet"))
    assert not any(thread.name.startswith("parquet") for thread in threading.enumerate())


@pytest.mark.parametrize("resource", ["w2-t16", "2024", "a/b", "50 % off=ü", "..", "it's"])
def test_any_name_of_a_resource_is_one_folder_that_every_tool_reads_back(tmp_path: Path, resource: str) -> None:
    write(tmp_path, [0, 2], resource)
    path = f"{folder_of('log_events', resource)}/stem.parquet"
    assert (tmp_path / path).resolve().parent.parent == (tmp_path / "log_events").resolve()
    frame = scan_table(EVENTS, tmp_path, [Part("log_events", path, 2)]).collect()
    assert frame["resource"].to_list() == [resource] * 2
    glob = f"{tmp_path}/log_events/*/*.parquet"
    with duckdb.connect() as connection:
        query = "SELECT DISTINCT resource FROM read_parquet(?, hive_types={'resource': VARCHAR})"
        assert connection.execute(query, [glob]).fetchall() == [(resource,)]


def test_orphans_are_removed(tmp_path: Path) -> None:
    write(tmp_path, [0, 2])
    named = Part("log_events", "log_events/resource=V3/stem.parquet", 2)
    for name in ("log_events/resource=V3/old.parquet", "runs/resource=V4/x.parquet", "_staging/y.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert remove_orphans(tmp_path, [named]) == 3
    assert [path.name for path in tmp_path.rglob("*.parquet")] == ["stem.parquet"]
