"""A cluster of 33 nodes, made of the files of a recording: its figures and tables stay legible."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from citus_analysis.dataset import ingest
from citus_analysis.report import render_report
from citus_analysis.report.render import ReportResult
from tests.recordings import ROOT
from tests.report.browser_checks import check_figures, check_links_lead_somewhere, check_texts

if TYPE_CHECKING:
    from playwright.sync_api import Browser

RECORDING: Final = ROOT / "tests" / "data" / "connections" / "connections-over-time-w2-t6-load"
WORKERS: Final = 32
NAME: Final = f"connections-over-time-w{WORKERS}-t6-load"


def many_nodes(folder: Path) -> Path:
    """The recording of 2 workers as one of 32: each worker has the files of one that was recorded, byte for byte."""
    resource = folder / NAME
    for kind in ("general", "snapshots", "YCSB/raw"):
        (resource / kind).mkdir(parents=True)
    for client in (RECORDING / "YCSB" / "raw").glob("*load_A_6_6000_1_*"):
        name = client.name.replace(f"_1_2_{RECORDING.name}_", f"_1_{WORKERS}_{NAME}_")
        shutil.copyfile(client, resource / "YCSB" / "raw" / name)
    for node in range(WORKERS + 1):
        recorded = 0 if node == 0 else 1 + node % 2
        activity = RECORDING / "snapshots" / f"activity-{recorded}-1.csv.zst"
        shutil.copyfile(activity, resource / "snapshots" / f"activity-{node}-1.csv.zst")
        shutil.copyfile(RECORDING / "general" / "worker-0-1.out.zst", resource / "general" / f"worker-{node}-1.out.zst")
    config = yaml.safe_load((RECORDING / "config.yml").read_text(encoding="utf-8"))
    config["resource"] = NAME
    config["facts"]["workers"] = WORKERS
    config["nodes"] = {
        node + 1: {"node": f"127.0.0.1:{7610 + node}", "groupid": node, "pglog_number": str(node)}
        for node in range(WORKERS + 1)
    }
    (resource / "config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return resource


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportResult:
    folder = tmp_path_factory.mktemp("many-nodes")
    ingest([many_nodes(folder / "src")], folder / "dataset", jobs=1)
    return render_report("resources", folder / "dataset", folder / "out")


def test_every_node_is_in_the_tables(report: ReportResult) -> None:
    (balance,) = [path for path in report.tables if path.name == "connection_balance.csv"]
    nodes = [line.split(",")[1] for line in balance.read_text(encoding="utf-8").splitlines()[1:]]
    assert [int(node) for node in nodes] == list(range(WORKERS + 1)), "node 10 comes after node 9"
    assert any(f"Each of the {WORKERS + 1} nodes" in sentence for sentence in report.findings)


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_legible(browser: "Browser", report: ReportResult, width: int) -> None:
    assert report.html is not None
    page = browser.new_page(viewport={"width": width, "height": 900}, offline=True)
    page.goto(report.html.as_uri())
    page.wait_for_selector("html.ready", timeout=120_000)
    check_figures(page)
    check_texts(page, width)
    check_links_lead_somewhere(page, report.html.parent)
    page.close()
