"""Many small files are read by other processes: these give what threads give, and end with the ingest."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Never

import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.dataset.workers import MANY_ITEMS, Pool, Stopped
from tests.recordings import RECORDED

COPIES = 8
#: An ingest in another process; it writes the ids of its processes when they have been started.
PROGRAM = """
import sys
from citus_analysis.core import parallel
from citus_analysis.dataset import ingest
from citus_analysis.dataset.workers import Pool
start = Pool.start_processes
def started(pool, items):
    before = pool._processes
    start(pool, items)
    if pool._processes is not before:
        pool._processes.submit(int).result()
        print(*pool._processes._processes, flush=True)
Pool.start_processes = started
ingest(sys.argv[1], sys.argv[2], jobs=2)
"""


def tree(folder: Path) -> Path:
    """Many small files of a real recording: a description, catalogues and clients, of several resources."""
    source = RECORDED / "w2-t4-insert"
    files = [path for path in sorted(source.rglob("*")) if path.suffix in {".yml", ".csv"} or "load_" in path.name]
    for number in range(COPIES):
        name = f"copy-{number:02}"
        for path in files:
            copy = folder / name / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        # A resource of its own: copies of one resource would be duplicates.
        config = folder / name / "config.yml"
        config.write_text(config.read_text(encoding="utf-8").replace('"w2-t4-insert"', f'"{name}"'), encoding="utf-8")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.parquet")}


def processes_of(pool: Pool) -> list[BaseProcess]:
    executor = pool._processes
    assert executor is not None
    return list(executor._processes.values())  # type: ignore[attr-defined] # as loky's executors have it


def killed_at_once(process: BaseProcess) -> None:
    assert process.pid is not None
    # loky ends the others as soon as it notices the first.
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tree(tmp_path_factory.mktemp("raw"))


@pytest.fixture(scope="module")
def alone(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("alone") / "out"
    ingest(raw, out, jobs=1)
    return out


def test_the_same_files_to_the_byte(raw: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[Pool] = []
    start = Pool.start_processes

    def noted(pool: Pool, items: int) -> None:
        start(pool, items)
        pools.append(pool)

    monkeypatch.setattr(Pool, "start_processes", noted)
    ingest(raw, tmp_path / "out", jobs=2)
    assert all(pool._processes for pool in pools)
    assert contents(tmp_path / "out") == contents(alone)
    assert open_dataset(tmp_path / "out").content_hash == open_dataset(alone).content_hash
    # An ingest in which nothing changed has no work for other processes.
    pools.clear()
    assert ingest(raw, tmp_path / "out", jobs=2).read == 0
    assert not any(pool._processes for pool in pools)


def test_work_of_a_process_that_was_killed_is_done_here(
    raw: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Pool.start_processes

    def killed(pool: Pool, items: int) -> None:
        start(pool, items)
        if pool._processes is not None:
            for process in processes_of(pool):
                killed_at_once(process)

    monkeypatch.setattr(Pool, "start_processes", killed)
    ingest(raw, tmp_path / "out", jobs=2)
    assert contents(tmp_path / "out") == contents(alone)


def test_without_another_process_threads_do_the_work(
    raw: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_given: object, **_options: object) -> Never:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("loky.ProcessPoolExecutor", refused)
    ingest(raw, tmp_path / "out", jobs=2)
    assert contents(tmp_path / "out") == contents(alone)


@pytest.mark.sharded(2)
@pytest.mark.parametrize("after_s", [0.0, 0.7])
def test_killed_with_its_processes(raw: Path, alone: Path, tmp_path: Path, after_s: float) -> None:
    """Commits of many sources at once: each is there whole or not at all, and no process writes after the end."""
    out = tmp_path / "out"
    command = [sys.executable, "-c", PROGRAM, str(raw), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ingesting:
        assert ingesting.stdout is not None
        others = list(map(int, ingesting.stdout.readline().split()))
        time.sleep(after_s)
        os.kill(ingesting.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(map(is_running, others)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(others) == 2
    assert not any(map(is_running, others))
    if (out / "_manifest.jsonl").exists():
        whole, dataset = open_dataset(alone), open_dataset(out)
        rows = dict(whole.sources().select("source_id", "rows").iter_rows())
        for source, count in dataset.sources().select("source_id", "rows").iter_rows():
            assert count == rows[source]
    ingest(raw, out, jobs=1)
    assert contents(out) == contents(alone)


def test_an_interrupt_ends_the_processes() -> None:
    with Pool(2) as pool:
        pool.start_processes(MANY_ITEMS)
        assert pool._processes is not None
        pool._processes.submit(int).result()
        others = [process.pid or 0 for process in processes_of(pool)]
        pool.halt()
        assert not any(map(is_running, others))


def test_no_work_is_repeated_once_the_ingest_is_stopped() -> None:
    with Pool(2) as pool:
        pool.start_processes(MANY_ITEMS)
        results = pool.each_of_many(time.sleep, [60.0], at_once=1)
        pool.stop.set()
        assert pool._processes is not None
        for process in processes_of(pool):
            killed_at_once(process)
        with pytest.raises(Stopped):
            list(results)
