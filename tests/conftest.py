"""What tests of several parts share."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from citus_analysis.cli import reading
from citus_analysis.formats.parsing import registry as _registry
from tests.dataset.tiny_formats import TINY, client, log
from tests.recordings import DEMONSTRATION, RECORDED
from tests.shards import choose_shard, count_examples, split_items

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from citus_analysis.dataset import Dataset
    from citus_analysis.dataset.workers import Pool
    from citus_analysis.report.kernel import NotebookWorker

# No test is timed: a busy machine is not a defect. A search that needs more examples than these says so.
# Examples are others in each run, of continuous integration, too.
settings.register_profile(
    "untimed",
    max_examples=count_examples(40),
    deadline=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")

# Where Python is told to keep no bytecode, each of hundreds of processes that tests start would compile the package.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

ROOT = Path(__file__).parents[1]
#: Folders whose tests wait for servers and other processes half of their time.
WAITING = ("runner", "publish", "dataset/beyond", "agents", "explorer")
Tree = Callable[[Mapping[str, str | bytes]], Path]
StartKernels = Callable[[int], AbstractContextManager[Queue["NotebookWorker"]]]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where everything that tests may need is installed (NO_SKIPS=1), a skipped test is a failure.

    MAY_SKIP holds what could not be installed all the same: reasons may say that it is missing, split by semicolons.
    """
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("NO_SKIPS") or reporter is None:
        return
    allowed = [reason for reason in os.environ.get("MAY_SKIP", "").split(";") if reason]
    skipped = [str(report.longrepr) for report in reporter.stats.get("skipped", ())]
    if any(not any(reason in text for reason in allowed) for text in skipped):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_report_header() -> str | None:
    shard = choose_shard()
    return None if shard is None else f"SHARD={shard}: of many similar cases one part is run, by `make test-all` all"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the other parts of what is marked `sharded` to other values of SHARD.

    Of parallel workers one begins with the tests that wait, which others leave the processor to meanwhile; what is
    left at the end are short ones.
    """
    items[:], others = split_items(items)
    if others:
        config.hook.pytest_deselected(items=others)
    if hasattr(config, "workerinput"):
        folders = [ROOT / "tests" / name for name in WAITING]
        items.sort(key=lambda item: not any(folder in item.path.parents for folder in folders))


@pytest.fixture(scope="session", autouse=True)
def ingest_without_processes() -> Iterator[None]:
    """An ingest starts processes only where a test states `jobs`: two cost a second, more than what most tests read."""
    from citus_analysis.dataset import ingestion

    open_pool = ingestion._open_worker_pool

    @contextmanager
    def open_threads(jobs: int | None, cluster: str | None, places: Sequence[Path]) -> Iterator[Pool]:
        with open_pool(jobs, cluster, places) as pool:
            if jobs is None:
                pool.many = sys.maxsize
            yield pool

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingestion, "_open_worker_pool", open_threads)
        yield


def ingest_once(source: Path, name: str, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The dataset of a source, made once for all parallel workers of a test run."""
    from citus_analysis.dataset import ingest

    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent
    dataset = shared / name
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not dataset.exists():
            # Processes of its own would cost a sixth more CPU time, and other tests run beside this.
            summary = ingest([source], dataset, jobs=1)
            assert summary.exit_code == 0, summary.messages
    return dataset


@pytest.fixture(scope="session")
def user_cache(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """What stands for `~/.cache` in a test run, of all parallel workers: the value of XDG_CACHE_HOME."""
    base = tmp_path_factory.getbasetemp()
    return (base if worker_id == "master" else base.parent) / "user-cache"


def read_once(source: Path, user_cache: Path) -> Path:
    """The dataset that commands make of raw files in the user's cache, where those that are typed later find it."""
    user_cache.mkdir(exist_ok=True)
    with (user_cache / f"{source.name}.lock").open("w") as lock, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(user_cache))
        patch.setattr(reading, "read_sources", partial(reading.read_sources, jobs=1))
        fcntl.flock(lock, fcntl.LOCK_EX)
        return Path(reading.open_or_ingest_dataset(source))


@pytest.fixture(scope="session")
def recorded_path(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The recordings of the tests, ingested."""
    return ingest_once(RECORDED, "recorded-dataset", tmp_path_factory, worker_id)


@pytest.fixture(scope="session")
def demonstration_path(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The recordings that the reports are shown on, ingested; DEMONSTRATION is the folder where that was just done."""
    made = os.environ.get("DEMONSTRATION")
    return Path(made) if made else ingest_once(DEMONSTRATION, "demonstration-dataset", tmp_path_factory, worker_id)


@pytest.fixture(scope="session")
def demonstration(demonstration_path: Path) -> Dataset:
    """The recordings that the reports are shown on, opened."""
    from citus_analysis.dataset import open_dataset

    return open_dataset(demonstration_path)


@pytest.fixture(scope="session")
def recorded_dataset(recorded_path: Path) -> Dataset:
    """The recordings, opened."""
    from citus_analysis.dataset import open_dataset

    return open_dataset(recorded_path)


@pytest.fixture(scope="session")
def running_kernels() -> Iterator[StartKernels]:
    """Processes that make reports, started when they are first needed: each imports statistics and figures once."""
    from citus_analysis.errors import ReportError
    from citus_analysis.report.kernel import NotebookWorker

    kept: list[NotebookWorker] = []
    with ExitStack() as running:

        @contextmanager
        def take(number: int) -> Iterator[Queue[NotebookWorker]]:
            while len(kept) < number:
                kept.append(running.enter_context(NotebookWorker()))
            waiting: Queue[NotebookWorker] = Queue()
            for kernel in kept[:number]:
                # A process that took the place of another after an error was started by a thread of that command, and
                # the system ends it with the thread: it is started anew, by this one.
                with suppress(ReportError):
                    kernel.call(int)
                waiting.put(kernel)
            yield waiting

        yield take


@pytest.fixture(scope="module")
def kept_kernels(running_kernels: StartKernels) -> Iterator[StartKernels]:
    """The reports of a module's tests are made by the processes of those before it.

    Gives the function that starts processes for each command, as in use.
    """
    from citus_analysis.report import render

    with pytest.MonkeyPatch.context() as patch:
        start = render._start_kernels
        patch.setattr(render, "_start_kernels", running_kernels)
        yield start


@pytest.fixture
def fresh_kernels(kept_kernels: StartKernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's reports are made by processes that are started for them."""
    monkeypatch.setattr("citus_analysis.report.render._start_kernels", kept_kernels)


@pytest.fixture(scope="session")
def worker_id(request: pytest.FixtureRequest) -> str:
    """Name of the parallel worker; `master` without pytest-xdist."""
    return str(getattr(request.config, "workerinput", {}).get("workerid", "master"))


@contextmanager
def use_tiny_formats() -> Iterator[None]:
    """The tiny formats stand beside those that describe a resource; the real ones are tested elsewhere."""
    found = {name: _registry.formats()[name] for name in ("config", "pg_dist_node", "pg_dist_shard")} | TINY
    versions = tuple((name, one.version) for name, one in found.items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("citus_analysis.dataset.recognise.format_versions", lambda: versions)
        # The registry is last: a module imported after it was replaced would keep the tiny formats for good.
        for module in ("dataset.ingestion", "formats.parsing.registry"):
            patch.setattr(f"citus_analysis.{module}.formats", lambda: found)
        yield


@pytest.fixture
def tiny_formats() -> Iterator[None]:
    with use_tiny_formats():
        yield


def write_tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below a folder; returns the folder."""
    root.mkdir(exist_ok=True)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Writes files below tmp_path/src and returns that folder."""
    return partial(write_tree, tmp_path / "src")


@pytest.fixture
def study() -> dict[str, str]:
    return make_study()


def make_study() -> dict[str, str]:
    """A resource of the study's tree with two iterations on two nodes."""
    files = {"V3/config.yml": "resource: V3\nworkers: 1\ncitus_version: '12'\n"}
    for iteration in (1, 2):
        files[f"V3/YCSB/raw/load_A_16_600_{iteration}_1_V3_1_0.log"] = client(100.0 * iteration)
        files[f"V3/YCSB/raw/monitor_load_A_16_600_{iteration}_1_V3_1_0.log"] = client(1.0, 10)
        for node in (0, 1):
            files[f"V3/pglogs/PGLOG-{node}-{iteration}.log"] = log(2000 + node, 3000 + iteration)
    return files


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    executable = next((path for path in found if path), None)
    if executable is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        # Containers run as root, where Chromium's own sandbox cannot start; the pages are our own files.
        started = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield started
        started.close()
