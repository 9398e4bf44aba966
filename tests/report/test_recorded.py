"""The reports on a recorded cluster, from raw files to pages in a browser that has no network."""

import csv
import json
import re
from collections import Counter
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl
import pytest

from citus_analysis.dataset import ingest
from citus_analysis.report import render_report, render_reports, report_names
from citus_analysis.report.render import ReportResult
from tests.conftest import StartKernels
from tests.recordings import RECORDED
from tests.report.browser_checks import check_figures, check_links_lead_somewhere, check_print, check_texts, is_remote

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
RESOURCES = (
    "w1-t16-insert",
    "w2-t16-insert",
    "w2-t4-insert",
    "w2-binary-t16-insert",
    "w2-checkpoint-insert",
    "w2-perf-select",
    "w2-fail-clients",
)
HOSTILE = "<img src=x onerror=alert(1)>"
#: How a page is looked at: the width of the window, and the scheme of colours, which changes nothing else.
VIEWS: dict[str, tuple[int, Literal["light", "dark"]]] = {
    "wide": (1440, "light"),
    "dark": (1440, "dark"),
    "telephone": (390, "light"),
    "narrow and printed": (1280, "light"),
}
#: What the template puts behind the last figure; plotly.js holds addresses, which nothing requests.
END = '<script type="application/json" id="figure-config">'
PAGES = (*report_names(), "index")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    ingest([RECORDED / resource for resource in RESOURCES], folder / "dataset", jobs=1)
    # A resource takes its name from a file: here from one that somebody made to hurt the reader of a report.
    ingest([RECORDED / "w2-coord-t16-insert"], folder / "dataset", jobs=1, meta={"resource": HOSTILE})
    return folder / "dataset"


@pytest.fixture(scope="module")
def reports(dataset: Path) -> dict[str, ReportResult]:
    # The profile with statements to open, in a frame: what holds of pages holds of that one, too.
    results = render_reports("all", dataset, dataset.parent / "out", {"opened": 5}, jobs=2).results
    return {result.name: result for result in results}


def test_every_report_opens_with_a_few_sentences(reports: dict[str, ReportResult]) -> None:
    assert set(reports) >= {"scalability", "comparison", "profile", "resources"}
    for result in reports.values():
        # No set-up of this recording meets another at its load; the page says so and no more.
        fewest = 1 if result.name == "comparison" else 3
        assert fewest <= len(result.findings) <= 6, result.name


def test_pages_are_self_contained_and_small(reports: dict[str, ReportResult]) -> None:
    for result in reports.values():
        assert result.html is not None
        whole = result.html.read_text(encoding="utf-8")
        assert len(whole.encode()) <= 2_000_000
        page, found, _ = whole.partition(END)
        assert found
        assert '<html lang="en">' in page
        # A warning of a library names a path of this machine.
        assert "Warning: " not in page
        assert "import citus_analysis" not in page
        assert 'src="http' not in page
        assert 'href="http' not in page
        assert "parameters</dt>" in page.lower()


def test_every_figure_and_table_has_its_numbers_as_csv(reports: dict[str, ReportResult]) -> None:
    for result in reports.values():
        names = set()
        for cell in json.loads(result.notebook.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", ()):
                names |= {name for name in [output.get("metadata", {}).get("citus_analysis", {}).get("csv")] if name}
        assert names
        assert names <= {path.name for path in result.tables}


def test_the_same_dataset_gives_the_same_files(reports: dict[str, ReportResult], dataset: Path, tmp_path: Path) -> None:
    first, again = reports["comparison"], render_report("comparison", dataset, tmp_path, html=False)
    assert [path.name for path in again.tables] == [path.name for path in first.tables]
    for one, other in zip(first.tables, again.tables, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
    assert again.findings == first.findings


def test_no_page_claims_that_throughput_grows_with_workers(reports: dict[str, ReportResult]) -> None:
    sentences = [s for s in reports["scalability"].findings if " workers do " in s]
    assert sentences
    assert not [sentence for sentence in sentences if re.search(r"workers do (?!only|more or less)", sentence)]


def test_no_page_says_a_thing_twice_or_counts_one_as_many(reports: dict[str, ReportResult]) -> None:
    for result in reports.values():
        assert result.html is not None
        shown = result.html.read_text(encoding="utf-8").partition(END)[0]
        said = [
            unescape(text)
            for text in re.findall(r'<(?:p|li|caption|figcaption)(?: class="caption")?>(.+?)</', shown, re.DOTALL)
        ]
        assert [text for text, count in Counter(said).items() if count > 1] == [], result.name
        counted = r"\b1 (?:workers|threads|runs|drivers|records|points|cells|resources|tasks)\b|\b0 workers\b|% ?%"
        assert re.findall(counted, shown) == [], result.name


def test_no_interval_of_a_rate_or_a_time_leaves_the_positive_numbers(reports: dict[str, ReportResult]) -> None:
    ends = ("low", "high", "_low", "_high")
    for table in (table for result in reports.values() for table in result.tables):
        frame = pl.read_csv(table, infer_schema_length=None)
        for column in (name for name in frame.columns if name.endswith(ends) and frame[name].dtype.is_numeric()):
            values = frame[column].drop_nulls()
            assert values.is_finite().all(), (table.name, column)
            # A parameter of a model may lie on its bound.
            assert (values >= 0).all(), (table.name, column)


def test_hostile_names_are_shown_as_text(reports: dict[str, ReportResult]) -> None:
    for name in ("scalability", "resources"):
        html = reports[name].html
        assert html is not None
        page = html.read_text(encoding="utf-8").partition(END)[0]
        assert "&lt;img src=x onerror=alert(1)&gt;" in page
        assert "<img" not in page


def test_failed_runs_are_named(reports: dict[str, ReportResult]) -> None:
    assert "w2-fail-clients" in " ".join(reports["scalability"].findings)
    (left_out,) = [path for path in reports["scalability"].tables if path.name == "left_out.csv"]
    with left_out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    # Half of the operations of the monitor of w2-perf-select asked for records that were not there.
    expected = [("w2-fail-clients", "failed"), ("w2-perf-select", "degraded")]
    assert [(row["resource"], row["status"]) for row in rows] == expected


def test_the_profile_warns_of_commits_that_times_do_not_contain(reports: dict[str, ReportResult]) -> None:
    html = reports["profile"].html
    assert html is not None
    page = html.read_text(encoding="utf-8")
    assert "its WAL flush is not in C (remote INSERT of set-up binary)" in page
    assert "it does not contain the WAL flush" in page


def test_checkpoints_are_marked(reports: dict[str, ReportResult]) -> None:
    (path,) = [path for path in reports["resources"].tables if path.name == "checkpoints.csv"]
    with path.open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    # checkpoint_timeout and max_wal_size were small: 7 checkpoints completed, 6 of them began during the run.
    assert (row["system_measured"], row["checkpoints"]) == ("w2-checkpoint-insert", "6")


def test_the_tour_runs_and_says_what_it_finds(dataset: Path, tmp_path: Path, running_kernels: StartKernels) -> None:
    tour = ROOT / "notebooks" / "00_tour.ipynb"
    parameters = {"dataset": str(dataset), "resources": "w2-t16-*", "loads": "w?-t16-insert"}
    with running_kernels(1) as kernels:
        kernels.get().execute(tour, tmp_path / "tour.ipynb", parameters, folder=tmp_path)
    cells = json.loads((tmp_path / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    shown = "".join(str(cell.get("outputs")) for cell in cells)
    assert "4,032 [3,300, 4,765] (95 %, Student t, n = 5)" in shown
    assert "2 workers is slower than 1 worker" in shown


@pytest.mark.browser
@pytest.mark.sharded(2)
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("view", VIEWS)
def test_pages_in_a_browser(browser: "Browser", reports: dict[str, ReportResult], name: str, view: str) -> None:
    width, scheme = VIEWS[view]
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, color_scheme=scheme)
    page = context.new_page()
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
    page.on("dialog", lambda dialog: trouble.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: trouble.append(f"request: {request.url}") if is_remote(request.url) else None)
    path = reports["scalability"].notebook.parent / f"{name}.html"
    page.goto(path.as_uri())
    if name != "index":
        page.wait_for_selector("html.ready", timeout=120_000)
        check_figures(page)
    check_texts(page, width)
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    check_links_lead_somewhere(page, path.parent)
    if "printed" in view and name != "index":
        check_print(page)
    context.close()
    assert not trouble


@pytest.mark.browser
def test_a_figure_is_saved_as_svg_and_png(browser: "Browser", reports: dict[str, ReportResult], tmp_path: Path) -> None:
    html = reports["published"].html
    assert html is not None
    page = browser.new_page(offline=True, accept_downloads=True, color_scheme="dark")
    page.goto(html.as_uri())
    page.wait_for_selector("html.ready", timeout=120_000)
    for kind, begin in (("svg", b"<svg"), ("png", b"\x89PNG")):
        with page.expect_download() as download:
            page.locator(f"[data-save={kind}]").first.click()
        download.value.save_as(tmp_path / f"figure.{kind}")
        assert download.value.suggested_filename == f"published_rates.{kind}"
        assert (tmp_path / f"figure.{kind}").read_bytes().startswith(begin)
    # Saved figures are for paper, whatever the scheme, and carry their title.
    assert "Published throughput by system" in (tmp_path / "figure.svg").read_text(encoding="utf-8")
    page.close()
