"""The workers of a cluster give the rows that threads of one process give; whoever is killed, nothing is half done."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from multiprocessing import current_process
from pathlib import Path
from types import SimpleNamespace
from typing import Never

import fsspec
import psutil
import pytest
from click.testing import CliRunner

from citus_analysis.cli import commands
from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.dataset import cluster as dask_cluster
from citus_analysis.dataset import cluster as local_processes
from citus_analysis.dataset import objects as object_lease
from citus_analysis.dataset.cluster import connect_cluster
from citus_analysis.dataset.workers import group_by_size
from citus_analysis.errors import InputError, UsageError
from tests.dataset.beyond.running_cluster import RunningCluster, driver, ended, started
from tests.dataset.beyond.s3_servers import SECRET, Store
from tests.dataset.beyond.same_rows import assert_same_rows, assert_whole
from tests.documentation.blocks import blocks_run_by, words_of

#: Of docs/scale.md: what is typed, and how Dask is started on SLURM (which `running_cluster.py` types).
PAGE = blocks_run_by(__file__)


@pytest.fixture(scope="module")
def cluster(s3: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    running = started(tmp_path_factory.mktemp("dask"))
    yield running
    ended(running)


def typed(*words: str) -> str:
    """What a command of the page prints."""
    assert words[0] == "citus-analysis"
    result = CliRunner().invoke(commands, words[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_processes_of_this_machine_give_the_same_rows(
    raw: Path, local: Dataset, tmp_path: Path, splits: Callable[[Dataset], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first line of the page."""
    (tmp_path / "raw").symlink_to(raw)
    monkeypatch.chdir(tmp_path)
    # Somebody else uses the port of Dask's pages: us, or whoever has it already.
    with ExitStack() as others:
        with suppress(OSError):
            others.enter_context(socket.create_server(("127.0.0.1", 8787)))
        typed(*words_of(PAGE[0], {})[0])
    made = open_dataset(tmp_path / "out")
    assert_same_rows(local, made)
    assert splits(made) > 1
    # A local ingest finds nothing to do, and other tools the files.
    again = ingest([Path("raw")], Path("out"))
    assert (again.read, again.derived) == (0, 0)


def test_a_process_that_runs_its_script_again_is_told_so(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(current_process(), "_inheriting", True, raising=False)
    with pytest.raises(InputError, match=r"starts it again .*guard the main part"):
        ingest([few], tmp_path / "out", cluster="local:1")


def test_processes_that_do_not_start_are_an_error(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = RuntimeError("Nanny failed to start")

    def failing(*_given: object) -> Never:
        raise ended

    monkeypatch.setattr(local_processes, "_start_local_executor", failing)
    message = r"local:1: a process does not start: Nanny failed to start .*__main__"
    with pytest.raises(InputError, match=message) as told:
        ingest([few], tmp_path / "out", cluster="local:1")
    assert told.value.__cause__ is ended


def test_a_defect_while_processes_start_is_not_blamed_on_the_input(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_given: object) -> Never:
        raise AttributeError("no such name")

    monkeypatch.setattr(local_processes, "_start_local_executor", failing)
    with pytest.raises(AttributeError, match="no such name"):
        ingest([few], tmp_path / "out", cluster="local:1")


def test_processes_over_tcp_give_the_same_rows_on_a_store(
    cluster: RunningCluster,
    few: Path,
    local_few: Dataset,
    s3: Store,
    splits: Callable[[Dataset], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other lines of the page."""
    fsspec.filesystem("s3").put(str(few), s3.place("raw"), recursive=True)
    (tmp_path / "raw").symlink_to(few)
    monkeypatch.chdir(tmp_path)
    _, shared, stored, query, report = words_of(PAGE[0], {"tcp://head:8786": cluster.address, "/shared": str(tmp_path)})
    typed(*shared)
    assert_same_rows(local_few, open_dataset(tmp_path / "out"))
    typed(*stored)
    url = s3.place("out")
    assert_same_rows(local_few, open_dataset(url))
    assert splits(open_dataset(url)) > 1
    assert open_dataset(url).runs()["run_id"][0] in typed(*query)
    typed(*report)
    assert (tmp_path / "reports" / "scalability.html").is_file()
    assert SECRET.encode() not in cluster.log.read_bytes()
    text = json.dumps(open_dataset(url).table("sources").to_dicts(), default=str)
    assert SECRET not in text


def test_workers_that_are_killed_cost_time_and_no_row(
    cluster: RunningCluster, few: Path, local_few: Dataset, tmp_path: Path
) -> None:
    process = driver(few, tmp_path / "out", cluster.address)
    time.sleep(random.uniform(1, 2))
    for _ in range(2):
        with suppress(psutil.Error):
            cluster.a_worker().kill()
        time.sleep(random.uniform(0, 1))
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said.decode()
    assert_same_rows(local_few, open_dataset(tmp_path / "out"))


def killed_driver(raw: Path, out: Path | str, address: str, after_s: float) -> bool:
    """Whether the driver was killed before its end."""
    process = driver(raw, out, address)
    with suppress(subprocess.TimeoutExpired):
        process.wait(after_s)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def test_a_driver_that_is_killed_leaves_whole_sources(
    cluster: RunningCluster, few: Path, local_few: Dataset, s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_lease, "ABANDONED_S", 0.5)
    out = s3.place("killed")
    assert killed_driver(few, out, cluster.address, random.uniform(1.0, 2.5))
    assert_whole(out, local_few)
    assert ingest([few], out, cluster=cluster.address).exit_code == 0
    assert_same_rows(local_few, open_dataset(out))


def test_workers_of_another_version_are_refused(cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("citus_analysis.dataset.cluster._get_dask_version", lambda: "0.0.1")
    refused = connect_cluster(cluster.address, str)
    with pytest.raises(InputError, match=r"worker tcp://.*: .*not 0\.0\.1 .*pip install"), refused:
        pass


def test_a_worker_that_dies_while_it_is_asked_is_no_reason_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "_AGAIN_S", 0.0)
    gone = OSError("Timed out trying to connect")
    answers = [{"a": "1", "b": gone}, {"a": "1"}]
    client = SimpleNamespace(run=lambda *_call, on_error: answers.pop(0) if on_error == "return" else None)
    assert dask_cluster._answers(client, str) == {"a": "1"}
    client.run = lambda *_call, on_error: {"a": "1", "b": gone, "on": on_error}
    assert dask_cluster._answers(client, str) == {"a": "1", "on": "return"}
    client.run = lambda *_call, on_error: {"b": gone} if on_error else {}
    with pytest.raises(InputError, match="no worker answers"):
        dask_cluster._answers(client, str)


def test_workers_without_the_package_are_refused(cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("citus_analysis.dataset.cluster._PACKAGE", "no-such-package")
    monkeypatch.setattr("citus_analysis.dataset.cluster._get_dask_version", lambda: "1")
    refused = connect_cluster(cluster.address, str)
    with pytest.raises(InputError, match=r"worker tcp://.*: has no package no-such-package .*pip install"), refused:
        pass


def test_a_folder_that_workers_do_not_see_is_refused(cluster: RunningCluster, raw: Path, tmp_path: Path) -> None:
    from citus_analysis.dataset.cluster import require_visible

    with (
        connect_cluster(cluster.address, str) as there,
        pytest.raises(InputError, match=r"/no/such/folder: worker tcp.*is not there .*file system that all"),
    ):
        require_visible(there, ["/no/such/folder"])


def test_an_address_that_is_none_or_where_nobody_is(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("citus_analysis.dataset.cluster._CONNECT_S", 1)
    for address in ("local:0", "localhost", "three"):
        with pytest.raises(UsageError, match=r"is no cluster .*tcp://head:8786"):
            ingest([raw], tmp_path / "out", cluster=address)
    with pytest.raises(InputError, match=r"tcp://127\.0\.0\.1:1: no Dask scheduler answers"):
        ingest([raw], tmp_path / "out", cluster="tcp://127.0.0.1:1")
    assert not (tmp_path / "out").exists()


def test_small_items_are_grouped_and_large_ones_come_first() -> None:
    sizes = [10**9, *([1000] * 250), 5 * 2**20, 40 * 2**20]
    groups = list(group_by_size(sizes, lambda size: size, workers=2))
    assert groups[:2] == [[10**9], [40 * 2**20]]
    assert sorted(size for group in groups for size in group) == sorted(sizes)
    assert max(map(len, groups)) == 100
    assert list(group_by_size([], lambda size: size, workers=2)) == []
