"""What tests of several parts share."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from citus_analysis.dataset import Dataset

ROOT = Path(__file__).parents[1]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where everything that tests may need is installed (NO_SKIPS=1), a skipped test is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("NO_SKIPS") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def recorded_path(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The recordings under data/, ingested once for all parallel workers of a test run."""
    from citus_analysis.dataset import ingest

    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent
    dataset = shared / "recorded-dataset"
    with (shared / "recorded-dataset.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not dataset.exists():
            summary = ingest([ROOT / "data" / "recorded"], dataset)
            assert summary.exit_code == 0, summary.messages
    return dataset


@pytest.fixture(scope="session")
def recorded_dataset(recorded_path: Path) -> Dataset:
    """The recordings, opened."""
    from citus_analysis.dataset import open_dataset

    return open_dataset(recorded_path)


@pytest.fixture(scope="session")
def worker_id(request: pytest.FixtureRequest) -> str:
    """Name of the parallel worker; `master` without pytest-xdist."""
    return str(getattr(request.config, "workerinput", {}).get("workerid", "master"))
