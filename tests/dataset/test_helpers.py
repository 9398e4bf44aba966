"""Helper processes: they give what threads give, end with the ingest however it ends, and are never needed."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.dataset.ingesting.workers import early_hashes, helper_process
from citus_analysis.dataset.ingesting.workers.early_hashes import hash_of, hashes_ahead
from citus_analysis.dataset.ingesting.workers.early_helpers import first_files, helpers_ahead
from citus_analysis.dataset.ingesting.workers.helper_process import Helper, NoAnswerError
from citus_analysis.dataset.ingesting.workers.pool import HELPED_ITEMS, Pool, Stopped
from citus_analysis.dataset.storage.digests import content_hash
from tests.recordings import RECORDED

COPIES = 8
#: What an ingest in another process writes to its output when its helpers are there.
PROGRAM = """
import sys
from citus_analysis.dataset import ingest
from citus_analysis.dataset.ingesting.workers import helper_process
start = helper_process.Helper.__init__
def started(helper):
    start(helper)
    print(helper._process.pid, flush=True)
helper_process.Helper.__init__ = started
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


@pytest.fixture
def waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """So little work is done before a helper is ready; here it gets its share all the same."""
    monkeypatch.setattr(Helper, "is_ready", lambda _: True)


@pytest.mark.usefixtures("waited_for")
def test_the_same_files_to_the_byte(raw: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    call = Helper.call

    def counted(helper: Helper, *given: object) -> object:
        calls.append(1)
        return call(helper, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Helper, "call", counted)
    ingest(raw, tmp_path / "out", jobs=2)
    assert calls
    assert contents(tmp_path / "out") == contents(alone)
    assert open_dataset(tmp_path / "out").content_hash == open_dataset(alone).content_hash
    # An ingest in which nothing changed has no work for a helper.
    calls.clear()
    assert ingest(raw, tmp_path / "out", jobs=2).read == 0
    assert calls == []


def test_no_work_waits_for_a_helper_to_get_ready(
    raw: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(Helper, "is_ready", lambda _: False)
    monkeypatch.setattr(Helper, "call", lambda *_: calls.append(1))
    ingest(raw, tmp_path / "out", jobs=2)
    assert calls == []
    assert contents(tmp_path / "out") == contents(alone)


def test_a_helper_is_ready_once_it_can_answer() -> None:
    helper = Helper()
    assert not helper.is_ready()
    assert helper.call(abs, -3) == 3
    assert helper.is_ready()
    assert helper.call(abs, -4) == 4
    helper.end()


@pytest.mark.usefixtures("waited_for")
def test_work_of_a_helper_that_was_killed_is_done_here(
    raw: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    call = Helper.call

    def killed(helper: Helper, *given: object) -> object:
        calls.append(1)
        helper._process.kill()
        return call(helper, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Helper, "call", killed)
    ingest(raw, tmp_path / "out", jobs=2)
    assert calls
    assert contents(tmp_path / "out") == contents(alone)


def test_without_another_process_threads_do_the_work(
    raw: Path, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "")
    ingest(raw, tmp_path / "out", jobs=2)
    assert contents(tmp_path / "out") == contents(alone)


@pytest.mark.parametrize("after_s", [0.0, 0.7])
def test_killed_with_its_helpers(raw: Path, alone: Path, tmp_path: Path, after_s: float) -> None:
    """Commits of many sources at once: each is there whole or not at all, and no helper writes after the end."""
    out = tmp_path / "out"
    command = [sys.executable, "-c", PROGRAM, str(raw), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ingesting:
        assert ingesting.stdout is not None
        helper = int(ingesting.stdout.readline())
        time.sleep(after_s)
        os.kill(ingesting.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while is_running(helper) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(helper)
    if (out / "_manifest.jsonl").exists():
        whole, dataset = open_dataset(alone), open_dataset(out)
        rows = dict(whole.sources().select("source_id", "rows").iter_rows())
        for source, count in dataset.sources().select("source_id", "rows").iter_rows():
            assert count == rows[source]
    ingest(raw, out, jobs=1)
    assert contents(out) == contents(alone)


def test_a_command_starts_helpers_before_it_imports_what_it_needs(tmp_path: Path) -> None:
    for number in range(HELPED_ITEMS):
        (tmp_path / f"{number}.log").touch()
    with helpers_ahead(first_files([tmp_path]), jobs=1), Pool(2) as pool:
        assert not pool._helpers
    with helpers_ahead(first_files([tmp_path / "1.log", "s3://bucket/logs"]), jobs=2), Pool(2) as pool:
        assert not pool._helpers
    with helpers_ahead(first_files([tmp_path]), jobs=2):
        with Pool(2) as pool:
            (helper,) = pool._helpers
            assert is_running(helper._process.pid)
        assert not is_running(helper._process.pid)
        with Pool(2) as pool:
            assert not pool._helpers


def test_an_interrupt_ends_the_helpers() -> None:
    with Pool(2) as pool:
        pool.start_helpers(HELPED_ITEMS)
        (helper,) = pool._helpers
        pool.halt()
        assert not is_running(helper._process.pid)


@pytest.mark.usefixtures("waited_for")
def test_no_work_is_repeated_once_the_ingest_is_stopped() -> None:
    with Pool(2) as pool:
        pool.start_helpers(HELPED_ITEMS)
        pool._helpers[0]._process.kill()
        pool.stop.set()
        with pytest.raises(Stopped):
            pool._helped(abs, abs, [1])


@pytest.mark.parametrize(("function", "argument"), [(int, "no number"), (print, lambda: 0), (sys.exit, 1)])
def test_failures_are_no_answers(function: object, argument: object) -> None:
    helper = Helper()
    with pytest.raises(NoAnswerError):
        helper.call(function, argument)  # type: ignore[arg-type]
    helper.end()


def test_what_is_printed_is_no_reply() -> None:
    helper = Helper()
    assert helper.call(print, "noise") is None
    assert helper.call(abs, -3) == 3
    helper.end()


def test_what_a_function_says_before_its_result_is_heard() -> None:
    helper, heard = Helper(), list[object]()
    assert helper.call(helper_process.say, (1, 3), heard=heard.append) is None
    assert helper.call(helper_process.say, (2, 3)) is None
    assert helper.call(abs, -3, heard=heard.append) == 3
    assert heard == [(1, 3)]
    helper.end()


def test_a_helper_of_another_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: None)
    helper_process._end_with(os.getppid())
    assert codes == []
    helper_process._end_with(-1)
    assert codes == [1]


def test_a_command_hashes_large_files_before_it_imports_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []

    def counted(path: Path) -> str:
        hashed.append(path.name)
        return content_hash(path)

    monkeypatch.setattr(early_hashes, "BIG_BYTES", 10)
    monkeypatch.setattr(early_hashes, "content_hash", counted)
    large, changed, small = (tmp_path / name for name in ("large.log", "changed.log", "small.log"))
    for path, size in ((large, 20), (changed, 20), (small, 5)):
        path.write_bytes(bytes(size))
    with hashes_ahead(first_files([tmp_path]), jobs=2):
        changed.write_bytes(bytes(30))
        assert [hash_of(path) for path in (large, changed, small)] == list(map(content_hash, (large, changed, small)))
    # The hash of the changed file that was begun ahead may not have started when it was given up.
    assert sorted(name for name in hashed if name != "changed.log") == ["large.log", "small.log"]
    assert hashed.count("changed.log") in {1, 2}
    hashed.clear()
    with hashes_ahead(first_files([tmp_path]), jobs=1):
        assert hashed == []


def test_a_file_that_cannot_be_hashed_ahead_raises_when_its_hash_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(path: Path) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(early_hashes, "BIG_BYTES", 1)
    monkeypatch.setattr(early_hashes, "content_hash", failing)
    (tmp_path / "1.log").write_bytes(b"text")
    with hashes_ahead(first_files([tmp_path]), jobs=2), pytest.raises(PermissionError):
        hash_of(tmp_path / "1.log")
