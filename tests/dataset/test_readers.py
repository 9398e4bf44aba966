"""Readers have the dataset as it was when they opened it, whatever an ingest does meanwhile."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import duckdb
import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.dataset.store import GRACE_S
from citus_analysis.dataset.vacuuming import vacuum
from citus_analysis.errors import DatasetError
from tests.conftest import Tree
from tests.dataset.tiny_formats import client, log

pytestmark = pytest.mark.usefixtures("tiny_formats")
ROWS = (3, 5)


def study(rows: int) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {"V3/YCSB/raw/load_A_16_600_1_1_V3_1_0.log": client(100.0 * rows, rows)}
    return files | {f"V3/pglogs/PGLOG-{node}-1.log": log(*range(rows)) for node in range(3)}


@pytest.fixture
def out(tree: Tree, tmp_path: Path) -> Path:
    ingest(tree(study(ROWS[0])), tmp_path / "out")
    return tmp_path / "out"


def size(folder: Path) -> int:
    """Bytes of Parquet on disk: two names of a file count once."""
    files = [path for pattern in ("*.part", "*.parquet") for path in folder.rglob(pattern)]
    return sum({path.stat().st_ino: path.stat().st_size for path in files}.values())


def age(out: Path, seconds: float) -> None:
    """Let that much time pass for the files that no line names: the others' times do not matter."""
    for path in (out / "_files").rglob("*.part"):
        time_s = path.stat().st_mtime - seconds
        os.utime(path, (time_s, time_s))


@pytest.mark.filterwarnings("ignore::citus_analysis.errors.OutdatedDatasetWarning")
def test_readers_beside_a_writer_always_read_and_never_a_mixture(tree: Tree, out: Path) -> None:
    done = threading.Event()

    def write() -> None:
        try:
            for number in range(12):
                ingest(tree(study(ROWS[(number + 1) % 2])), out, jobs=2)
        finally:
            done.set()

    writer = threading.Thread(target=write)
    writer.start()
    opens = 0
    while not done.is_set() or not opens:
        dataset = open_dataset(out)
        lazy = dataset.scan("log_events")
        hash_ = dataset.content_hash
        for _ in range(2):
            per_source = lazy.group_by("source_id").len().collect()["len"].to_list()
            assert len(per_source) == 3
            assert set(per_source) <= set(ROWS)
            counted = dataset.sql("SELECT source_id, count(*) FROM log_events GROUP BY ALL").rows()
            assert sorted(count for _, count in counted) == sorted(per_source)
            assert dataset.runs().height == 1
        assert dataset.content_hash == hash_
        opens += 1
    writer.join()
    assert opens > 3


def test_what_was_opened_stays_and_other_tools_see_the_new_rows_alone(tree: Tree, out: Path) -> None:
    before = open_dataset(out)
    lazy = before.scan("log_events")
    ingest(tree(study(ROWS[1])), out)
    assert lazy.collect().height == before.log_events().height == 3 * ROWS[0]
    assert open_dataset(out).log_events().height == 3 * ROWS[1]
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT count(*) FROM '{out}/log_events/*/*.parquet'").fetchone()
    assert found == (3 * ROWS[1],)


def test_strict_keeps_them_too(tree: Tree, out: Path) -> None:
    before = open_dataset(out)
    ingest(tree(study(ROWS[1])), out, strict=True)
    assert before.log_events().height == 3 * ROWS[0]
    assert open_dataset(out).log_events().height == 3 * ROWS[1]


def test_the_next_ingest_removes_what_is_older_than_the_grace_time(tree: Tree, out: Path) -> None:
    first = size(out)
    for number in range(6):
        ingest(tree(study(ROWS[(number + 1) % 2])), out)
        age(out, GRACE_S + 1)
    ingest(tree(study(ROWS[0])), out)
    assert size(out) == first
    assert open_dataset(out).log_events().height == 3 * ROWS[0]


def test_vacuum_by_age_and_at_once(tree: Tree, out: Path) -> None:
    before = open_dataset(out)
    ingest(tree(study(ROWS[1])), out)
    assert vacuum(out, older_than_s=60).files == 0
    assert before.log_events().height == 3 * ROWS[0]
    age(out, 61)
    removed = vacuum(out, older_than_s=60)
    assert removed.files > 3
    assert removed.bytes > 0
    assert vacuum(out).files == 0
    with pytest.raises(DatasetError, match=r"log_events.*is missing \(open the dataset again"):
        before.scan("log_events")
    assert open_dataset(out).log_events().height == 3 * ROWS[1]


def test_vacuum_needs_a_dataset_that_nobody_writes_to(out: Path, tmp_path: Path) -> None:
    from citus_analysis.dataset.manifest import lock_dataset

    with pytest.raises(DatasetError, match="is not a dataset"):
        vacuum(tmp_path / "nowhere")
    with lock_dataset(out), pytest.raises(DatasetError, match="another ingest is writing"):
        vacuum(out)


def test_a_file_system_without_links_has_copies(tree: Tree, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refused)
    before = open_dataset(out)
    ingest(tree(study(ROWS[1])), out)
    assert before.log_events().height == 3 * ROWS[0]
    assert open_dataset(out).log_events().height == 3 * ROWS[1]
    assert len(list(out.glob("log_events/*/*.parquet"))) == 3


def test_a_dataset_that_moved_with_its_process_elsewhere(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(out.parent)
    dataset = open_dataset("out")
    monkeypatch.chdir("/")
    assert dataset.log_events().height == 3 * ROWS[0]


def test_a_copy_of_the_folder_is_a_dataset_whose_names_are_linked_again(tree: Tree, out: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    damaged = next(copy.glob("runs/*/*.parquet"))
    damaged.write_bytes(b"")
    assert open_dataset(copy).runs().height == 1
    assert ingest(tree({}), copy).read == 0
    assert damaged.stat().st_nlink == 2
    assert size(copy) == size(out)
    shutil.rmtree(copy / "_files")
    assert open_dataset(copy).log_events().height == 3 * ROWS[0]
