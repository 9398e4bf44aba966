"""A process that is killed at any moment leaves each source as it was or as it is now."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from citus_analysis.dataset import ingest, open_dataset
from tests.conftest import Tree
from tests.dataset.forking import forking
from tests.dataset.tiny_formats import client, log

PROGRAM = """
for line in sys.stdin:
    root, out = line.split()
    child = os.fork()
    if child == 0:
        ingest(root, out, jobs=2)
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclass
class Killer:
    """Starts ingests and kills them."""

    parent: subprocess.Popen[str]

    def ingest_and_kill(self, root: Path, out: Path, after_s: float) -> bool:
        """Whether the ingest was killed before its end."""
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        self.parent.stdin.write(f"{root} {out}\n")
        self.parent.stdin.flush()
        child = int(self.parent.stdout.readline())
        time.sleep(after_s)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        code = int(self.parent.stdout.readline())
        assert code in (0, -signal.SIGKILL)
        return code != 0


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    with forking(PROGRAM) as parent:
        yield Killer(parent)


def study(rows: int, runs: int = 6, nodes: int = 6) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {}
    for iteration in range(1, runs + 1):
        files[f"V3/YCSB/raw/load_A_16_600_{iteration}_1_V3_1_0.log"] = client(100.0 * rows, rows)
        for node in range(nodes):
            files[f"V3/pglogs/PGLOG-{node}-{iteration}.log"] = log(*range(2000 + node, 2000 + node + rows))
    return files


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")}


@pytest.mark.filterwarnings("ignore::citus_analysis.errors.OutdatedDatasetWarning")
@pytest.mark.usefixtures("tiny_formats")
def test_killed_at_random_moments(tree: Tree, tmp_path: Path, killer: Killer) -> None:
    out = tmp_path / "out"
    small, large = 40, 60
    ingest(tree(study(small)), out)
    root = tree(study(large))
    moments = random.Random(7)
    killed = 0
    # Each kill comes later after one that was too early, so that slow machines get somewhere as well.
    longest_s = 0.1
    while killed < 12:
        early = killer.ingest_and_kill(root, out, moments.uniform(0.0, longest_s))
        killed += early
        if not early:
            root = tree(study(large := 100 - large))
            small = 100 - large
        longest_s *= 1.3 if early else 0.5
        dataset = open_dataset(out)
        rows = dataset.log_events().group_by("source_id").len()["len"].to_list()
        assert len(rows) == 36
        assert set(rows) <= {small, large}
        assert dataset.runs().height == 6
    ingest(root, out)
    dataset = open_dataset(out)
    assert dataset.log_events().height == 36 * large
    assert dataset.runs()["throughput_ops_s"].to_list() == [100.0 * large] * 6
    fresh = tmp_path / "fresh"
    ingest(root, fresh)
    assert names(out) == names(fresh)
    assert dataset.content_hash == open_dataset(fresh).content_hash


@pytest.mark.usefixtures("tiny_formats")
def test_killed_in_the_first_ingest(tree: Tree, tmp_path: Path, killer: Killer) -> None:
    out = tmp_path / "out"
    root = tree(study(50))
    for after_s in (0.0, 0.05, 0.1, 0.2, 0.4):
        killer.ingest_and_kill(root, out, after_s)
        if (out / "_manifest.jsonl").exists():
            rows = open_dataset(out).log_events().group_by("source_id").len()["len"].to_list()
            assert set(rows) <= {50}
    ingest(root, out)
    assert open_dataset(out).log_events().height == 36 * 50
