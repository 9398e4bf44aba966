"""Recordings, a dataset made of them in the ordinary way, and an S3."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from citus_analysis.dataset import Dataset, ingest, ingestion, open_dataset
from tests.dataset.beyond.s3_servers import Store, Versitygw, moto, versitygw, versitygw_program
from tests.recordings import RECORDED, copy_recordings

RESOURCES = ("w2-t4-insert", "w1-t4-select")


@pytest.fixture(scope="session")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_recordings(tmp_path_factory.mktemp("recordings"), *RESOURCES, unpacked=True)


@pytest.fixture(scope="session")
def local(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("local") / "out"
    assert ingest([raw], out, jobs=1).exit_code == 0
    return open_dataset(out)


@pytest.fixture(scope="session")
def few(raw: Path) -> Path:
    """One of the resources, with logs of several nodes and iterations."""
    return raw / "w1-t4-select"


@pytest.fixture(scope="session")
def local_few(few: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("local") / "few"
    ingest([few], out, jobs=1)
    return open_dataset(out)


@pytest.fixture(scope="session")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of pgbench, in few files."""
    root = tmp_path_factory.mktemp("few") / "w2-pgbench"
    for path in sorted((RECORDED / "w2-pgbench").rglob("*")):
        if path.is_file() and (path.name.startswith("tpcb-like-c4") or path.parent == RECORDED / "w2-pgbench"):
            copy = root / path.relative_to(RECORDED / "w2-pgbench")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    return root


@pytest.fixture
def splits(monkeypatch: pytest.MonkeyPatch) -> Callable[[Dataset], int]:
    """Large logs are read in splits, and these logs are large; called with a dataset: how many were."""
    monkeypatch.setattr(ingestion, "choose_split_bytes", lambda _total, _workers: 12_000)

    def number(dataset: Dataset) -> int:
        return sum(any("-s00001" in part.path for part in state.parts) for state in dataset.states())

    return number


@pytest.fixture(scope="module")
def s3() -> Iterator[Store]:
    with moto() as store:
        yield store


@pytest.fixture
def true_s3(tmp_path: Path) -> Iterator[Versitygw]:
    if versitygw_program() is None:
        pytest.skip("versitygw is missing: go install github.com/versity/versitygw/cmd/versitygw@latest")
    with versitygw(tmp_path / "versitygw") as store:
        yield store
