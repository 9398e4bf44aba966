"""Logs of a gigabyte, cut into splits, give the rows that one process gives; minutes each."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks._hour import SHAPES, write_hour
from citus_analysis.dataset import Dataset, ingest, open_dataset
from tests.dataset.beyond.running_cluster import RunningCluster, ended, started
from tests.dataset.beyond.s3_servers import Store
from tests.dataset.beyond.same_rows import digests, parts_of

pytestmark = pytest.mark.slow

MEGABYTES = int(os.environ.get("LARGE_LOG_MB", "1000"))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One log of this size, and a smaller one of a worker."""
    folder = tmp_path_factory.mktemp("large")
    write_hour(folder, SHAPES["few"], 2 * MEGABYTES * 10**6)
    for log in sorted(folder.glob("*/pglogs/PGLOG-2-*")):
        with log.open("r+b") as file:
            os.truncate(file.fileno(), log.stat().st_size // 4)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def expected(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, int]]:
    out = tmp_path_factory.mktemp("local") / "out"
    ingest([logs], out, jobs=2)
    return digests(open_dataset(out), out)


def splits(dataset: Dataset) -> int:
    """How many splits all logs were read in."""
    return len({found[0] for part in parts_of(dataset) if (found := re.search(r"[0-9a-f]+-s[0-9]{5}", part.path))})


@pytest.mark.parametrize("cluster", ["local:1", "local:3"])
def test_processes_of_this_machine(
    cluster: str,
    logs: Path,
    expected: dict[str, tuple[int, int]],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    ingest([logs], out, cluster=cluster)
    assert digests(open_dataset(out), out) == expected
    assert splits(open_dataset(out)) > 5
    shutil.rmtree(out)


def test_processes_over_tcp_on_a_store(
    logs: Path, expected: dict[str, tuple[int, int]], tmp_path: Path, true_s3: Store
) -> None:
    running: RunningCluster = started(tmp_path)
    try:
        ingest([logs], true_s3.place("large"), cluster=running.address)
    finally:
        ended(running)
    # The server keeps objects as files.
    assert digests(open_dataset(true_s3.place("large")), tmp_path / "versitygw" / "bench" / "large") == expected
