"""The recordings that the reports are shown on, all of them, give the same rows however they are ingested; minutes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from citus_analysis.dataset import ingest, open_dataset
from tests.dataset.beyond.running_cluster import ended, started
from tests.dataset.beyond.s3_servers import BUCKET, Versitygw
from tests.dataset.beyond.same_rows import digests
from tests.recordings import ROOT

pytestmark = pytest.mark.slow

SOURCES = ROOT / "data" / "recorded"
Digests = dict[str, tuple[int, int]]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Digests:
    out = tmp_path_factory.mktemp("local") / "out"
    ingest([SOURCES], out)
    return digests(open_dataset(out), out)


@pytest.mark.parametrize("cluster", ["local:1", "local:3"])
def test_processes_of_this_machine(
    cluster: str, expected: Digests, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    out = tmp_path / "out"
    summary = ingest([SOURCES], out, cluster=cluster)
    assert digests(open_dataset(out), out) == expected
    record_property("result", f"{summary.files} files, {len(expected)} tables, {total(expected)} rows")


def test_processes_over_tcp_on_a_store(
    expected: Digests, true_s3: Versitygw, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    running = started(tmp_path)
    try:
        summary = ingest([SOURCES], true_s3.place("all"), cluster=running.address)
    finally:
        ended(running)
    # The server keeps objects as files.
    assert digests(open_dataset(true_s3.place("all")), true_s3.folder / BUCKET / "all") == expected
    record_property("result", f"{summary.files} files, {len(expected)} tables, {total(expected)} rows")


def total(found: Digests) -> int:
    return sum(rows for rows, _ in found.values())
