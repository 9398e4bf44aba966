"""Values that the dataset does not know are refused before a kernel starts, with the closest that it knows."""

from pathlib import Path

import pytest

from citus_analysis.dataset import ingest
from citus_analysis.errors import NothingToReportError, UnknownNameError, UsageError
from citus_analysis.report import kernel, render_report, render_reports
from tests.recordings import RECORDED

RESOURCES = ("w1-t16-insert", "w2-t16-insert", "w2-binary-t16-insert", "w2-checkpoint-insert", "w2-pgbench")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("choices") / "dataset"
    ingest([RECORDED / resource for resource in RESOURCES], folder, jobs=1)
    return folder


class KernelStartedError(Exception):
    """A check let something pass."""


@pytest.fixture(autouse=True)
def _no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise KernelStartedError

    monkeypatch.setattr(kernel.NotebookWorker, "execute", start)


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("comparison", "base", "binry", "no variant is named 'binry' .did you mean 'binary"),
        ("comparison", "base", "protocol", "did you mean '.*protocol"),
        ("comparison", "workload", "selekt only", "did you mean 'select only'"),
        ("scalability", "base_workers", "3", "no number of workers in these runs is named '3' .known: 1, 2"),
        ("scalability", "base_threads", "7", "no number of threads in these runs is named '7'"),
        ("scalability", "interval", "normall", "did you mean 'normal'"),
        ("scalability", "level", "1.5", "parameter 'level' is 1.5 .choose a number between 0 and 1"),
        ("scalability", "margin", "0", "parameter 'margin' is 0 .choose a number above 0"),
        ("profile", "threads", "17", "no number of threads is named '17' .*known: 16"),
        ("profile", "resources", "w2-t16-inser", "did you mean 'w2-t16-insert'"),
        ("resources", "detail", "w2-checkpoint", "did you mean 'w2-checkpoint-insert'"),
        ("resources", "resources", "w9-*", "no resource is named 'w9-.'"),
        ("published", "source", "thesys", "did you mean 'thesis'"),
        ("published", "table", "5.77", "did you mean '5.7'"),
        ("published", "size", "worker", "no metric of table 5.7 is named 'worker' .did you mean 'workers'"),
    ],
)
def test_misspelt_values_are_refused(
    dataset: Path, tmp_path: Path, name: str, key: str, value: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        render_reports(name, dataset, tmp_path / "out", {key: value})
    assert caught.value.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_one_misspelt_value_stops_all_reports(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'binary"):
        render_reports("all", dataset, tmp_path / "out", {"base": "binry"})
    assert not (tmp_path / "out").exists()


def test_known_values_without_a_run_in_common_are_nothing_to_report(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(NothingToReportError, match="no run has phase=load; phases are run"):
        render_report("scalability", dataset, tmp_path / "out", {"resources": "w2-pgbench", "phase": "load"})


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("comparison", {"base": "binary"}),
        ("comparison", {"base": "usual set-up"}),
        ("scalability", {"base_workers": 2, "base_threads": 16, "level": 0.9}),
        ("profile", {"threads": 16}),
        ("resources", {"detail": "w2-checkpoint-insert", "iteration": 1}),
        ("published", {"table": "5.8"}),
    ],
)
def test_values_that_are_there_pass(dataset: Path, tmp_path: Path, name: str, parameters: dict[str, object]) -> None:
    with pytest.raises(KernelStartedError):
        render_report(name, dataset, tmp_path / "out", parameters)
