"""Every figure and table of the study about where the time goes is made from recordings, as docs/thesis.md says."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import plotly.graph_objects as go
import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.dataset import Dataset
from citus_analysis.report.engine.render import ReportResult
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
ROW = re.compile(r"^\| (?P<thesis>[^|]+) \| [^|]+ \| (?P<report>\w+) \| `(?P<name>\w+)` \| `(?P<call>.+)` \|$")


@dataclass(frozen=True)
class Row:
    """One row of the page: what the study shows, and where it is here."""

    thesis: str
    report: str
    name: str
    call: str


def rows() -> Iterator[Row]:
    page = (ROOT / "docs" / "thesis.md").read_text(encoding="utf-8")
    section = page.split("## Where the time goes")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| thesis")]
    for line in lines:
        found = ROW.match(line)
        assert found, f"not a row of five columns: {line}"
        yield Row(**found.groupdict())


ROWS = list(rows())


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("thesis") / "dataset"
    ca.ingest([*(RECORDED / name for name in RESOURCES), CONNECTIONS], folder, jobs=2)
    return ca.open_dataset(folder)


@pytest.fixture(scope="module")
def names(dataset: Dataset) -> dict[str, object]:
    study = ca.spans.study_profile(ca.runs.select_runs(dataset), dataset)
    return {"ca": ca, "ds": dataset, "study": study, "machines": ca.bottleneck.study_resources(dataset)}


@pytest.fixture(scope="module")
def reports(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ReportResult]:
    out = tmp_path_factory.mktemp("reports")
    return {name: ca.report.render_report(name, dataset.path, out) for name in ("profile", "resources")}


def test_the_page_names_every_figure_and_table() -> None:
    named = {row.thesis for row in ROWS}
    figures = {f"Figure 5.{number}" for number in (1, 2, 3, 4, 6, 7, 8, 9)}
    assert named >= figures | {f"Table 5.{number}" for number in (2, 4, 5, 8, 9)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.thesis)
def test_the_call_makes_it(row: Row, names: dict[str, object]) -> None:
    made = eval(row.call, names)
    for one in made if isinstance(made, list) else [made]:
        if isinstance(one, pl.DataFrame):
            assert one.height
        else:
            assert isinstance(one, go.Figure)
            points = [trace.ids if trace.type == "icicle" else trace.x for trace in one.data]
            assert any(len(x) > 1 for x in points), "the figure shows nothing"


@pytest.mark.parametrize("name", ["profile", "resources"])
def test_the_report_shows_it(name: str, reports: dict[str, ReportResult]) -> None:
    result = reports[name]
    shown = {row.name for row in ROWS if row.report == name}
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
