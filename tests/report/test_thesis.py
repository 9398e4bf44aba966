"""The study's figures on scaling and comparison are made from a study with workloads A to F, by the calls named."""

from pathlib import Path

import plotly.graph_objects as go
import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.report.comparison import state_overhead
from citus_analysis.report.study_figures import StudyMaterial, study_items
from citus_analysis.runs.selection import Selection
from tests.recordings import RECORDED
from tests.report.synthetic_study import demonstration, write_study

ITEMS = [item for item in study_items() if item.page[0] in ("scalability", "comparison")]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> "ca.Dataset":
    folder = tmp_path_factory.mktemp("study")
    ca.ingest([write_study(folder / "raw", demonstration(), repeats=3)], folder / "dataset", jobs=1)
    return ca.open_dataset(folder / "dataset")


def test_every_figure_and_table_of_the_thesis_is_an_item() -> None:
    figures = [f"2.{n}" for n in range(1, 6)] + ["3.1", "3.2"] + [f"4.{n}" for n in range(1, 10)]
    figures += [f"5.{n}" for n in range(1, 11)]
    tables = ["3.1", "4.1", "4.2", *(f"5.{n}" for n in range(1, 10))]
    wanted = {f"Figure {one}" for one in figures} | {f"Table {one}" for one in tables}
    keys = [item.key for item in study_items()]
    assert set(keys) == wanted
    assert len(keys) == len(wanted)
    assert all(item.needs for item in study_items())


def test_each_counterpart_is_made_and_so_is_its_call(dataset: "ca.Dataset") -> None:
    material = StudyMaterial(dataset)
    names = {"ca": ca, "ds": dataset, "selection": material.selection}
    for item in ITEMS:
        assert item.make is not None
        made, called = item.make(material), eval(item.call, names)
        assert made.table.height, item.key
        if isinstance(called, pl.DataFrame):
            assert called.height, item.key
            assert made.figures == [], item.key
            continue
        assert len(made.figures) == len(called[:4]), item.key
        for mine, figure in zip(made.figures, called, strict=False):
            assert isinstance(figure, go.Figure)
            assert any(len(trace.y) > 1 for trace in figure.data), figure.layout.title.text
            assert mine.layout.title.text == figure.layout.title.text
            assert figure.layout.yaxis.title.text


def test_systems_stand_beside_each_other_for_every_workload(dataset: "ca.Dataset") -> None:
    bars = ca.report.systems_by_workload(ca.runs.select_runs(dataset))
    assert set(bars.means["group"]) == {"citus", "postgresql"}
    assert bars.means["x"].n_unique() == 7
    (figure,) = bars.plot()
    assert [trace.name for trace in figure.data] == ["citus", "postgresql"]
    assert all((trace.error_y.array > 0).all() for trace in figure.data)
    assert figure.layout.yaxis.range[0] == 0


def test_hardware_is_named_by_what_differs(dataset: "ca.Dataset") -> None:
    bars = ca.report.hardware_by_size(ca.runs.select_runs(dataset))
    assert set(bars.means["group"]) == {"each node 10 % of a core", "each node 20 % of a core"}
    assert bars.means["x"].unique().sort().to_list() == ["2 workers", "4 workers"]
    doubled = bars.means.filter(panel="INSERT with 16 threads", workers=4).sort("group")["mean"]
    assert doubled[1] / doubled[0] == pytest.approx(1.8, rel=0.1)


def test_monitoring_is_compared_at_equal_load_only(dataset: "ca.Dataset") -> None:
    found = ca.report.monitoring_overhead(ca.runs.select_runs(dataset))
    assert found is not None
    assert {one.ratio.n for one in found} == {3}
    table = ca.report.overhead_table(found)
    assert table["measured"].unique().sort().to_list() == [
        "INSERT with 4 workers and 16 threads",
        "SELECT with 4 workers and 16 threads",
    ]
    assert len(state_overhead(found)) == 2
    assert ca.report.overhead_table(None).is_empty()


def test_intensities_have_the_times_of_servers_and_clients(tmp_path: Path) -> None:
    names = ("w2-t16-insert", "w2-binary-t16-insert")
    ca.ingest([RECORDED / name for name in names], tmp_path, jobs=1)
    dataset = ca.open_dataset(tmp_path)
    chosen = ca.runs.select_runs(dataset)
    # Two recordings that differ in the protocol, too, taken as one set-up: 30,000 and 60,000 records.
    same = chosen.runs.with_columns(family=pl.lit(""), settings=pl.lit(""), variant=pl.lit("x"))
    table = ca.report.intensity_table(Selection(same, chosen.left_out), dataset)
    assert table["records"].to_list() == [30_000, 60_000]
    times = [name for name in table.columns if name.startswith(("server_mean", "server_p99", "client_mean"))]
    assert len(times) == 3
    server, slowest, client = (table[name].cast(pl.Float64) for name in times)
    assert (server > 0).all()
    assert not client.is_null().any()
    assert not slowest.is_null().any()
