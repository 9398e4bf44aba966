"""The study's figures and tables about where the time goes are made from recordings, by the calls named."""

import json
from html import escape
from pathlib import Path

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.dataset import Dataset
from citus_analysis.report.render import ReportResult
from citus_analysis.report.study_figures import StudyMaterial, study_items
from tests.recordings import RECORDED, ROOT

CONNECTIONS = ROOT / "tests" / "data" / "connections" / "connections-over-time-w2-t6-load"
RESOURCES = (
    *(
        "w1-t16-insert",
        "w1-t16-select",
        "w2-t16-insert",
        "w2-t16-select",
        "w4-t16-select",
        "w2-t4-insert",
        "w2-t4-select",
        "w4-t16-insert",
    ),
    *("w2-binary-t16-insert", "w2-checkpoint-insert", "w2-perf-insert-profiled"),
)
ITEMS = [item for item in study_items() if item.page[0] in ("profile", "resources")]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("thesis") / "dataset"
    ca.ingest([*(RECORDED / name for name in RESOURCES), CONNECTIONS], folder, jobs=1)
    return ca.open_dataset(folder)


@pytest.fixture(scope="module")
def names(dataset: Dataset) -> dict[str, object]:
    study = ca.spans.study_profile(ca.runs.select_runs(dataset), dataset)
    return {"ca": ca, "ds": dataset, "study": study, "machines": ca.bottleneck.study_resources(dataset)}


@pytest.fixture(scope="module")
def reports(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ReportResult]:
    out = tmp_path_factory.mktemp("reports")
    return {name: ca.report.render_report(name, dataset.path, out, html=False) for name in ("profile", "resources")}


def test_each_counterpart_is_made_and_so_is_its_call(names: dict[str, object], dataset: Dataset) -> None:
    material = StudyMaterial(dataset)
    for item in ITEMS:
        assert item.make is not None
        mine, made = item.make(material), eval(item.call, names)
        assert mine.table.height, item.key
        for one in made if isinstance(made, list) else [made]:
            if isinstance(one, pl.DataFrame):
                assert one.height, item.key
                assert mine.figures == [], item.key
            else:
                points = [trace.ids if trace.type == "icicle" else trace.x for trace in one.data]
                assert any(len(x) > 1 for x in points), "the figure shows nothing"
                assert any(len(figure.data) == len(one.data) for figure in mine.figures), item.key


def test_the_page_of_the_study_has_a_section_for_each(dataset: Dataset, tmp_path: Path) -> None:
    result = ca.report.render_report("study", dataset.path, tmp_path)
    assert result.title == "The study's figures"
    overview = pl.read_csv(tmp_path / "study" / "overview.csv")
    made = overview.filter(pl.col("counterpart") != "none")
    assert result.findings[0].startswith(f"This dataset has a counterpart to {made.height} of 28 figures and tables")
    assert made.height > 20
    assert overview.filter(pl.col("counterpart") == "none", pl.col("reason").is_null()).is_empty()
    html = (tmp_path / "study.html").read_text(encoding="utf-8")
    for key, shows in made.select("thesis", "shows").iter_rows():
        assert f">{key}: {escape(shows)}</a></h2>" in html.replace("&#39;", "&#x27;"), key
    for text in ("By printed numbers: as stated: 1.667.", "numbers that the thesis prints", "Without a counterpart"):
        assert text in html
    printed = pl.read_csv(tmp_path / "study" / "table_5_7_printed.csv", infer_schema=False)
    assert printed["throughput_ops_s"].to_list()[-1] == "292447"
    assert {path.stem for path in result.tables} >= {
        name.lower().replace(" ", "_").replace(".", "_") for name in made["thesis"]
    }


def test_a_dataset_of_another_kind_has_reasons(tmp_path: Path) -> None:
    ca.ingest([ROOT / "tests" / "data" / "short" / "postgresql-think-w0-t1-turnover"], tmp_path / "ds", jobs=1)
    ca.report.render_report("study", tmp_path / "ds", tmp_path, html=False)
    overview = pl.read_csv(tmp_path / "study" / "overview.csv").filter(pl.col("call").is_not_null())
    absent = overview.filter(pl.col("counterpart") == "none")
    assert absent.height > 15
    assert absent["reason"].is_not_null().all()
    reason = absent.filter(thesis="Figure 5.4")["reason"].item()
    assert reason == "this dataset lacks sampled statements in the servers' logs, of INSERT"


@pytest.mark.parametrize("name", ["profile", "resources"])
def test_the_report_shows_it(name: str, reports: dict[str, ReportResult]) -> None:
    result = reports[name]
    shown = {item.page[1] for item in ITEMS if item.page[0] == name}
    # The set-up belongs to the page, which shows it at the end of every report.
    assert shown - {"set_up"} <= {path.stem for path in result.tables}
    outputs = [o for cell in json.loads(result.notebook.read_text())["cells"] for o in cell.get("outputs", ())]
    sizes = [len(json.dumps(o["data"])) for o in outputs if any("plotly" in kind for kind in o.get("data", {}))]
    assert sizes
    # The page's own limit is 2 MB with everything in it.
    assert max(sizes) < 60_000
    assert sum(sizes) < 400_000


def test_defaults_are_those_of_the_library() -> None:
    from citus_analysis import defaults

    parameters = {p.name: p.default for p in ca.report.report_parameters("profile")}
    shown = {name: parameters[name] for name in ("level", "margin", "skip_first")}
    assert shown == {"level": defaults.LEVEL, "margin": defaults.MARGIN, "skip_first": defaults.SKIP_FIRST}


def test_times_are_never_negative(reports: dict[str, ReportResult]) -> None:
    for result in reports.values():
        for path in result.tables:
            frame = pl.read_csv(Path(path), infer_schema_length=None)
            for column in (c for c in frame.columns if c.endswith(("_ms", "_percent")) and frame[c].dtype.is_numeric()):
                assert (frame[column].drop_nulls() >= 0).all(), (path, column)
