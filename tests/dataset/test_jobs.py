"""Threads change nothing: the same rows in the same order, to the byte of every file, over the recordings."""

from __future__ import annotations

from pathlib import Path

import pytest

from citus_analysis.dataset import ingest, open_dataset
from tests.recordings import RECORDED
from tests.shards import choose_shard, take_part

#: Every kind of file, traces and failures among them; the rows of further set-ups are compared by their digests.
RESOURCES = [
    RECORDED / name
    for name in (
        "stock-debug4-w2-t8-insert", "w2-all-e", "w2-fail-stop-insert", "w2-histogram-mixed", "w2-lock-update",
        "w2-multishard", "w2-perf-select", "w2-pgbench", "w2-txn-update", "w2-verbose-mixed",
    )
]  # fmt: skip


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.parquet")}


def test_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, one, four = tmp_path / "raw", tmp_path / "one", tmp_path / "four"
    root.mkdir()
    for path in take_part(RESOURCES, 2):
        (root / path.name).symlink_to(path)
    ingest(root, one, jobs=1)
    # The logs, compressed, are of a few tens of kilobytes: these are then cut into chunks for all threads.
    monkeypatch.setattr("citus_analysis.dataset.ingestion.BIG_BYTES", 10_000)
    monkeypatch.setattr("citus_analysis.formats.pglog.CHUNK_BYTES", 100_000)
    ingest(root, four, jobs=4)
    first, second = open_dataset(one), open_dataset(four)
    assert len(first.tables()) == 23 or choose_shard() is not None
    assert first.tables() == second.tables()
    assert first.content_hash == second.content_hash
    assert contents(one) == contents(four)
