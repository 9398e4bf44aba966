from __future__ import annotations

import threading
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from pyarrow import parquet

from citus_analysis.dataset import parts
from citus_analysis.dataset.manifest import ParquetPart
from citus_analysis.dataset.parts import PartWriter, build_part_path, scan_table
from citus_analysis.dataset.store import FolderStore, tidy
from citus_analysis.schema import OUTSIDE_DATASET, TABLES, Table
from tests.shards import count_examples

EVENTS = TABLES["log_events"]


def events(start: int, stop: int) -> pa.RecordBatch:
    numbers = pl.int_range(start, stop, eager=True)
    frame = pl.DataFrame(
        {
            "byte_offset": numbers,
            "kind": ["task" if n % 2 else "duration" for n in numbers],
            "application": [f"app{n % 3}" for n in numbers],
            "statement_fingerprint": numbers.cast(pl.UInt64) + 2**63,
        }
    )
    return EVENTS.batch(frame)


def write(folder: Path, cuts: list[int], resource: str = "V3", threads: int = 1) -> list[ParquetPart]:
    writer = PartWriter(folder, resource, "stem", threads)
    for start, stop in pairwise(cuts):
        writer.write({"log_events": events(start, stop)})
    staged = writer.finish()
    FolderStore(folder).publish(staged)
    return [item.part for item in staged]


def contents(folder: Path, named: list[ParquetPart]) -> list[bytes]:
    return [(folder / part.path).read_bytes() for part in named]


def test_rows_come_back_with_the_schemas_columns_and_types(tmp_path: Path) -> None:
    named = write(tmp_path, [0, 10])
    assert [(p.table, p.path, p.rows) for p in named] == [("log_events", "log_events/resource=V3/stem.parquet", 10)]
    frame = scan_table(EVENTS, tmp_path, named).collect()
    assert frame.schema == EVENTS.polars_schema()
    assert frame.select("resource", "kind", "statement_fingerprint").row(1) == ("V3", "task", 2**63 + 1)


@pytest.mark.parametrize("name", sorted(TABLES.keys() - OUTSIDE_DATASET))
def test_every_table_can_be_stored(tmp_path: Path, name: str) -> None:
    table: Table = TABLES[name]
    row = pl.DataFrame({table.columns[-1].name: [None]})
    writer = PartWriter(tmp_path, "V3", "stem")
    writer.write({name: table.batch(row)})
    staged = writer.finish()
    FolderStore(tmp_path).publish(staged)
    frame = scan_table(table, tmp_path, [item.part for item in staged]).collect()
    assert frame.schema == table.polars_schema()
    assert frame.height == 1


@settings(max_examples=count_examples(15), deadline=None)
@given(cuts=st.lists(st.integers(0, 50), max_size=6).map(sorted), threads=st.integers(1, 3))
def test_the_rows_do_not_depend_on_the_pieces_nor_the_bytes_on_process_and_threads(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], threads: int
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "FILE_ROWS", 7)
        whole = write(folder, [0, 50])
        wanted, data = scan_table(EVENTS, folder, whole).collect(), contents(folder, whole)
        # Categories that this process has met by now do not show in the bytes.
        pl.Series([f"app{number}" for number in range(90, 100)]).cast(pl.Categorical())
        assert contents(folder, write(folder, [0, 50], threads=threads)) == data
        cut = write(folder, [0, *cuts, 50])
        data = contents(folder, cut)
        assert write(folder, [0, *cuts, 50], threads=threads) == cut
        assert contents(folder, cut) == data
        assert_frame_equal(scan_table(EVENTS, folder, cut).collect(), wanted)


def test_rows_that_are_enough_make_a_file(tmp_path: Path) -> None:
    def rows(cuts: list[int]) -> list[list[int]]:
        files = [parquet.ParquetFile(tmp_path / part.path).metadata for part in write(tmp_path, cuts)]
        return [[file.row_group(number).num_rows for number in range(file.num_row_groups)] for file in files]

    assert rows([0, 10, 20, 30]) == [[30]]
    assert rows([0, 40_000, 80_000, 80_001]) == [[80_000], [1]]
    assert rows([0, 270_000]) == [[2**18, 270_000 - 2**18]]


def test_files_sort_as_their_rows_do(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "FILE_ROWS", 1)
        named = write(tmp_path, list(range(13)), threads=4)
    assert len(named) == 12
    assert sorted(part.path for part in named) == [part.path for part in named]
    assert scan_table(EVENTS, tmp_path, named).collect()["byte_offset"].to_list() == list(range(12))


def test_a_table_without_rows_has_no_file(tmp_path: Path) -> None:
    writer = PartWriter(tmp_path, "V3", "stem")
    writer.write({"log_events": EVENTS.empty()})
    assert writer.finish() == []


@pytest.mark.parametrize("threads", [1, 2])
def test_abandoned_parts_leave_nothing(tmp_path: Path, threads: int) -> None:
    writer = PartWriter(tmp_path, "V3", "stem", threads)
    for _ in range(1 + threads):
        writer.write({"log_events": events(0, parts.FILE_ROWS)})
    assert list(tmp_path.rglob("*.parquet"))
    writer.abandon()
    assert not list(tmp_path.rglob("*.parquet"))


def test_what_fails_meanwhile_is_raised_by_the_next_call_and_ends_the_threads(tmp_path: Path) -> None:
    (tmp_path / "_staging").write_text("where a folder should be")
    for last in (PartWriter.finish, lambda writer: writer.write({"log_events": events(0, parts.FILE_ROWS)})):
        writer = PartWriter(tmp_path, "V3", "stem")
        writer.write({"log_events": events(0, parts.FILE_ROWS)})
        with pytest.raises(FileExistsError):
            last(writer)
        writer.abandon()
    assert not any(thread.name.startswith("parquet") for thread in threading.enumerate())


@pytest.mark.parametrize("threads", [1, 2])
def test_what_failed_meanwhile_keeps_the_writer_from_finishing(tmp_path: Path, threads: int) -> None:
    strange = pa.RecordBatch.from_pydict({"strange": list(range(parts.FILE_ROWS))})
    with PartWriter(tmp_path, "V3", "stem", threads) as writer:
        writer.write({"log_events": strange})
        for start in range(1 + threads):
            with suppress(KeyError):
                writer.write({"log_events": events(start, start + parts.FILE_ROWS)})
        for _ in range(2):
            with pytest.raises(KeyError, match="source_id"):
                writer.finish()
        writer.abandon()
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failure_of_the_caller_leaves_nothing(tmp_path: Path, failure: type[BaseException]) -> None:
    def fail() -> None:
        with PartWriter(tmp_path, "V3", "stem") as writer:
            writer.write({"log_events": events(0, parts.FILE_ROWS)})
            raise failure

    with pytest.raises(failure):
        fail()
    assert not list(tmp_path.rglob("*.parquet"))
    assert not any(thread.name.startswith("parquet") for thread in threading.enumerate())


@pytest.mark.parametrize("resource", ["w2-t16", "2024", "a/b", "50 % off=ü", "..", "it's", "名" * 36])
def test_any_name_of_a_resource_is_one_folder_that_every_tool_reads_back(tmp_path: Path, resource: str) -> None:
    named = write(tmp_path, [0, 2], resource)
    path = build_part_path("log_events", resource, "stem")
    assert (tmp_path / path).resolve().parent.parent == (tmp_path / "log_events").resolve()
    assert [(part.table, part.path, part.rows) for part in named] == [("log_events", path, 2)]
    frame = scan_table(EVENTS, tmp_path, named).collect()
    assert frame["resource"].to_list() == [resource] * 2
    glob = f"{tmp_path}/log_events/*/*.parquet"
    with duckdb.connect() as connection:
        query = "SELECT DISTINCT resource FROM read_parquet(?, hive_types={'resource': VARCHAR})"
        assert connection.execute(query, [glob]).fetchall() == [(resource,)]


def test_orphans_are_removed(tmp_path: Path) -> None:
    named = write(tmp_path, [0, 2])
    for name in ("log_events/resource=V3/old.parquet", "runs/resource=V4/x.parquet", "_staging/y.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert tidy(tmp_path, named).files == 3
    assert [path.name for path in tmp_path.rglob("*.parquet")] == ["stem.parquet"]
