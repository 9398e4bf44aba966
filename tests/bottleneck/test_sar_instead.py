"""A study whose machines were sampled by sar and mpstat, not by iostat and vmstat, reaches the same findings.

The values are those that iostat recorded, printed as sar prints them: whatever reads the tables must not tell which
sampler they come from.
"""

import shutil
from pathlib import Path
from typing import Final

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.bottleneck.resources import compute_resource_utilization, study_resources
from citus_analysis.dataset import Dataset
from citus_analysis.formats import iostat
from citus_analysis.report import render_report
from tests.formats.sampling import read
from tests.recordings import RECORDED

RESOURCE: Final = "w1-local-t16-insert"
_CPU: Final = ("user_percent", "nice_percent", "system_percent", "iowait_percent", "steal_percent", "idle_percent")
_HEADER: Final = "Linux 6.18 (worker0) \t{date}\t_x86_64_\t(2 CPU)\n"


def as_sar(path: Path) -> str:
    """The samples of iostat as sar prints them: a report of CPUs and one of devices for each moment."""
    found = read(iostat.FORMAT, path)
    cpu = found["cpu_samples"].filter(~pl.col("since_boot"))
    text = _HEADER.format(date=cpu["sample_time"][0].strftime("%Y-%m-%d"))
    devices = found["device_samples"].filter(~pl.col("since_boot"))
    for row in cpu.iter_rows(named=True):
        time = row["sample_time"].strftime("%T")
        text += f"\n{time}        CPU     %user     %nice   %system   %iowait    %steal     %idle\n"
        text += f"{time}        all " + "".join(f"{row[name]:10.2f}" for name in _CPU) + "\n"
        text += f"\n{time}          DEV       tps     rkB/s     wkB/s   areq-sz    aqu-sz     await     %util\n"
        for device in devices.filter(sample=row["sample"]).iter_rows(named=True):
            values = (
                *(device["reads_per_s"] + device["writes_per_s"], device["read_kb_s"], device["write_kb_s"]),
                *(0.0, device["queue_length"], device["await_ms"] or 0.0, device["utilization_percent"]),
            )
            text += f"{time} {device['device']:>12} " + "".join(f"{value:10.2f}" for value in values) + "\n"
        text += f"\n{time}    kbmemfree   kbavail kbmemused\n{time}      6893676  22370424   1771408\n"
    return text


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Dataset, Path]:
    folder = tmp_path_factory.mktemp("sar")
    tree = folder / "trees" / RESOURCE
    shutil.copytree(RECORDED / RESOURCE, tree)
    for path in (tree / "general").iterdir():
        if path.name.startswith("worker-"):
            path.with_name(path.name.replace("worker-", "sar-").removesuffix(".zst")).write_text(as_sar(path))
        path.unlink()
    ca.ingest([RECORDED / RESOURCE], folder / "iostat")
    ca.ingest([tree], folder / "sar")
    return ca.open_dataset(folder / "iostat"), ca.open_dataset(folder / "sar"), folder


def test_utilisation_is_the_same(datasets: tuple[Dataset, Dataset, Path]) -> None:
    used = [compute_resource_utilization(d.cpu_samples(), d.device_samples(), d.runs()) for d in datasets[:2]]
    columns = ["run_id", "node", "component", "name", "n", "within_run", "interval_s"]
    assert used[0].select(columns).rows() == used[1].select(columns).rows()
    assert used[0].height >= 2
    for one, other in zip(used[0]["mean_percent"], used[1]["mean_percent"], strict=True):
        assert other == pytest.approx(one, abs=0.01)
    assert datasets[1].cpu_samples()["sampler"].unique().to_list() == ["sar"]
    assert datasets[1].cpu_samples()["node"].unique().to_list() == ["0"]


def test_resources_of_the_study(datasets: tuple[Dataset, Dataset, Path]) -> None:
    studies = [study_resources(dataset) for dataset in datasets[:2]]
    details = [study.detail for study in studies]
    assert all(details)
    assert studies[0].cpu["samples"].to_list() == studies[1].cpu["samples"].to_list() != []
    assert studies[1].cpu["busy_percent"].to_list() == pytest.approx(studies[0].cpu["busy_percent"].to_list(), abs=0.01)
    assert studies[1].devices.height == studies[0].devices.height > 0


@pytest.mark.slow
def test_the_report_is_written(datasets: tuple[Dataset, Dataset, Path], tmp_path: Path) -> None:
    render_report("resources", datasets[2] / "sar", tmp_path)
    (page,) = tmp_path.rglob("*.html")
    assert RESOURCE in page.read_text()
