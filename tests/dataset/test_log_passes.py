"""Records that are taken in while their logs are read give the files that they give when they are read back."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock, patch

import numpy as np
import pytest

from citus_analysis.dataset import ingest
from citus_analysis.dataset.ingesting import ingestion
from citus_analysis.dataset.ingesting.records import log_passes, log_records, room
from citus_analysis.dataset.ingesting.summary import Progress
from citus_analysis.errors import DatasetError
from citus_analysis.spans.read import streamed
from citus_analysis.spans.read.divided import Arrays, Bring, held
from tests.dataset.test_jobs import contents
from tests.recordings import copy_recordings

#: The catalogue, settings and samples of a recording are smaller than this, its logs are larger.
LARGE = 100_000


@contextmanager
def reading_large() -> Iterator[Mock]:
    """As if the logs were large, and cut into chunks and pieces; the function by which records are read back."""
    with (
        patch.object(ingestion, "BIG_BYTES", LARGE),
        patch.object(log_records, "take_in", wraps=log_records.take_in) as read_back,
        patch("citus_analysis.formats.serverlog.pglog._read.CHUNK_BYTES", 200_000),
        patch.object(streamed, "PIECE_EXECUTIONS", 300),
    ):
        yield read_back


def read_apart(source: Path, out: Path) -> dict[str, bytes]:
    """The files of a dataset whose records were read back."""
    with reading_large() as read_back, patch.object(log_passes.LogPasses, "begin"):
        # Without helpers, which are not changed for the test.
        ingest(source, out, jobs=1)
    assert read_back.called
    return contents(out)


def is_clean(out: Path) -> bool:
    return list((out / "_staging").iterdir()) == []


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return copy_recordings(tmp_path / "raw", "w2-t4-insert", unpacked=True) / "w2-t4-insert"


@pytest.mark.parametrize("resource", ["w2-t4-insert", "w2-binary-t16-insert", "w4-t4-insert", "w2-coord-t16-insert"])
@pytest.mark.parametrize("jobs", [1, 3])
def test_files_are_the_same(tmp_path: Path, resource: str, jobs: int) -> None:
    source = copy_recordings(tmp_path / "raw", resource, unpacked=True)
    expected = read_apart(source, tmp_path / "apart")
    with reading_large() as read_back:
        assert ingest(source, tmp_path / "out", jobs=jobs).exit_code == 0
    assert not read_back.called
    assert contents(tmp_path / "out") == expected
    assert is_clean(tmp_path / "out")


def test_a_small_log_is_read_back_at_its_place(source: Path, tmp_path: Path) -> None:
    log = source / "pglogs" / "PGLOG-1-1.log"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:200]))
    expected = read_apart(source, tmp_path / "apart")
    with reading_large() as read_back:
        ingest(source, tmp_path / "out")
    assert not read_back.called
    assert contents(tmp_path / "out") == expected


def test_arrays_without_room_go_to_files(source: Path, tmp_path: Path) -> None:
    expected = read_apart(source, tmp_path / "apart")
    with (
        reading_large() as read_back,
        patch.object(room, "ROOM_BYTES", 100_000),
        patch.object(log_records, "laid_aside", wraps=log_records.laid_aside) as to_files,
    ):
        ingest(source, tmp_path / "out")
    assert to_files.call_count > 1
    assert not read_back.called
    assert contents(tmp_path / "out") == expected
    assert is_clean(tmp_path / "out")


def split_in_time(source: Path, first: str, second: str) -> None:
    """The log of a node in two files, the later records in the second."""
    log = source / "pglogs" / "PGLOG-1-1.log"
    lines = log.read_bytes().splitlines(keepends=True)
    for name, part in ((first, lines[: len(lines) // 2]), (second, lines[len(lines) // 2 :])):
        (source / "pglogs" / name).mkdir()
        (source / "pglogs" / name / log.name).write_bytes(b"".join(part))
    log.unlink()


def test_rotated_logs_are_taken_in_by_name(source: Path, tmp_path: Path) -> None:
    split_in_time(source, "a", "b")
    expected = read_apart(source, tmp_path / "apart")
    with reading_large() as read_back:
        ingest(source, tmp_path / "out")
    assert not read_back.called
    assert contents(tmp_path / "out") == expected


def undo_the_catalogue(source: Path) -> None:
    (source / "config.yml").unlink()
    (source / "pg_dist_node.csv").unlink()


def repeat_a_part(source: Path) -> None:
    log = source / "pglogs" / "PGLOG-2-1.log"
    data = log.read_bytes()
    log.write_bytes(data + data[len(data) // 2 :].split(b"\n", 1)[1])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda source: split_in_time(source, "b", "a"), id="names against the order of times"),
        pytest.param(undo_the_catalogue, id="a cluster that only its records show"),
        pytest.param(repeat_a_part, id="records that come again"),
    ],
)
def test_what_was_not_expected_is_read_back(source: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    change(source)
    expected = read_apart(source, tmp_path / "apart")
    with reading_large() as read_back:
        ingest(source, tmp_path / "out")
    assert read_back.call_count == 1
    assert contents(tmp_path / "out") == expected
    assert is_clean(tmp_path / "out")


def test_logs_of_which_one_is_known_already_are_taken_in(source: Path, tmp_path: Path) -> None:
    """The parts of the log that did not change are read back, at its place."""
    log = source / "pglogs" / "PGLOG-2-1.log"
    data = log.read_bytes()
    log.write_bytes(data[: data.rindex(b"\n", 0, len(data) // 2) + 1])
    with reading_large() as read_back:
        ingest(source, tmp_path / "out")
        log.write_bytes(data)
        ingest(source, tmp_path / "out")
    assert not read_back.called
    assert contents(tmp_path / "out") == read_apart(source, tmp_path / "apart")


def test_a_server_without_a_cluster_is_taken_in(tmp_path: Path) -> None:
    log = tmp_path / "raw" / "postgresql.log"
    log.parent.mkdir()
    line = "2026-11-20 21:03:47.877 UTC [7] [3/{0}] : [{0}-1] [app=x] LOG:  duration: 1.000 ms  statement: SELECT 1\n"
    log.write_text("".join(map(line.format, range(1, 2_000))), encoding="utf-8")
    expected = read_apart(log.parent, tmp_path / "apart")
    with reading_large() as read_back:
        assert ingest(log.parent, tmp_path / "out").rows["statements"] == 1_999
    assert not read_back.called
    assert contents(tmp_path / "out") == expected


def test_a_log_that_changes_meanwhile_is_not_waited_for(source: Path, tmp_path: Path) -> None:
    log = source / "pglogs" / "PGLOG-2-1.log"

    def change(progress: Progress) -> None:
        if progress.stage == "read" and progress.done:
            os.utime(log, ns=(1, 1))

    with reading_large():
        summary = ingest(source, tmp_path / "out", jobs=1, progress=change)
    assert summary.failed == 1
    assert "changed while it was read" in summary.messages[0]
    assert is_clean(tmp_path / "out")


def test_a_full_disk_is_said(source: Path, tmp_path: Path) -> None:
    full = OSError(28, "No space left on device")
    with (
        reading_large(),
        patch.object(log_records, "IN_MEMORY", 0),
        patch.object(room, "ROOM_BYTES", 0),
        patch.object(log_records, "laid_aside", side_effect=full),
        pytest.raises(DatasetError, match="No space left on device"),
    ):
        ingest(source, tmp_path / "out")
    assert is_clean(tmp_path / "out")


def test_a_defect_of_a_pass_is_raised(source: Path, tmp_path: Path) -> None:
    """And nobody waits for the thread."""
    with (
        reading_large(),
        patch.object(streamed.Pass, "take_in", side_effect=ZeroDivisionError),
        pytest.raises(ZeroDivisionError),
    ):
        ingest(source, tmp_path / "out")
    assert is_clean(tmp_path / "out")


def test_only_as_many_passes_are_begun_as_there_is_room_for(tmp_path: Path) -> None:
    source = copy_recordings(tmp_path / "raw", "w2-t16-insert", "w2-t4-insert", unpacked=True)
    expected = read_apart(source, tmp_path / "apart")
    with reading_large() as read_back, patch.object(log_passes, "MOST_RECORDS", 1):
        ingest(source, tmp_path / "out", jobs=1)
    iterations = {call.args[2] for call in read_back.call_args_list}
    assert iterations == {("w2-t16-insert", 2), ("w2-t16-insert", 3), ("w2-t4-insert", 1)}
    assert contents(tmp_path / "out") == expected


def test_room_is_given_back() -> None:
    numbers, beyond = np.zeros(10, np.int64), []

    def to_files(arrays: Arrays) -> Bring:
        beyond.append(arrays)
        return held(arrays)

    keep = room.Room(100).keeping(to_files)
    first = keep({"numbers": numbers})
    keep({"numbers": numbers})
    assert len(beyond) == 1
    first(again=True)
    first()
    keep({"numbers": numbers})
    assert len(beyond) == 1
