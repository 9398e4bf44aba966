"""Connections, throttling and CPU time of two configurations over time, from what the runner recorded."""

from pathlib import Path

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.bottleneck import study_resources
from citus_analysis.bottleneck.profiles import compare_cpu_times
from citus_analysis.bottleneck.resources import compute_connection_balance, count_connections_over_time
from citus_analysis.bottleneck.samples import select_throttling_over_time
from citus_analysis.dataset import Dataset
from citus_analysis.plots import plot_connections, plot_nodes
from citus_analysis.plots.node_figures import plot_node_heat_map
from citus_analysis.report.resources import select_shown_throttling, state_resources, write_throttling_warnings
from citus_analysis.schema import TABLES
from tests.bottleneck.tables import END, RUN, START, runs
from tests.recordings import RECORDED, ROOT
from tests.report.conftest import Tables

CONNECTIONS = ROOT / "tests" / "data" / "connections" / "connections-over-time-w2-t6-load"
THREADS = ("w2-t4-insert", "w2-t64-insert", "w1-t4-insert")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder: Path = tmp_path_factory.mktemp("connections") / "dataset"
    ca.ingest([CONNECTIONS, *(RECORDED / name for name in THREADS)], folder, jobs=1)
    return ca.open_dataset(folder)


def test_connections_are_those_of_clients_and_of_other_nodes(dataset: Dataset) -> None:
    found = count_connections_over_time(dataset.table("activity_samples"), dataset.table("runs")).filter(iteration=1)
    # Six threads of the main client and two of the sampled one; the driver chose 4 + 0 and 2 + 2 at random.
    medians = compute_connection_balance(found).select("node", "client", "internal").rows()
    assert medians == [("0", 0.0, 3.0), ("1", 4.0, 7.0), ("2", 4.0, 7.0)]
    before = found.filter(pl.col("elapsed_s") < 0)
    assert before.height
    assert before["client"].sum() == 0, "clients connect when the run begins"


def test_the_report_says_how_connections_are_spread(dataset: Dataset) -> None:
    study = study_resources(dataset, "connections-*")
    (sentence,) = [s for s in map(str, state_resources(study)) if "connections from clients" in s]
    assert sentence == (
        "Each of the 3 nodes of connections-over-time-w2-t6-load had 0 to 4 connections from clients and 3 to 7 from "
        "other nodes (medians over time)."
    )
    figure = plot_connections(study.connections, of="internal")
    assert [trace.name for trace in figure.data] == ["node 0", "node 1", "node 2"]
    assert max(figure.data[1].y) == 7


def test_cpu_time_under_few_and_many_threads(dataset: Dataset) -> None:
    chosen = dataset.table("runs").filter(pl.col("resource").is_in(THREADS))
    (contrast,) = compare_cpu_times(dataset.table("cpu_samples"), chosen)
    assert (contrast.workers, contrast.threads) == (2, (4, 64))
    few, many = contrast.means["busy_percent"]
    assert 85 < few < 95 < many <= 100
    assert contrast.samples["run_id"].n_unique() == 2
    assert [name.rpartition(" with ")[2] for name in contrast.configurations] == [
        "4 client threads",
        "64 client threads",
    ]
    assert compare_cpu_times(dataset.table("cpu_samples"), chosen.filter(threads=4)) == ()


def many_nodes(count: int) -> pl.DataFrame:
    """Node i is i % busy, at 200 moments."""
    return pl.DataFrame(
        {
            "node": [str(node) for node in range(count) for _ in range(200)],
            "elapsed_s": [*map(float, range(200))] * count,
        }
    ).with_columns(busy_percent=pl.col("node").cast(pl.Float64))


def test_few_nodes_have_lines_and_many_a_range_with_its_extremes_named() -> None:
    assert [trace.name for trace in plot_nodes(many_nodes(3)).data] == ["node 0", "node 1", "node 2"]
    figure = plot_nodes(many_nodes(33))
    names = [trace.name for trace in figure.data if trace.name]
    assert names == ["lowest to highest of 33", "median of 33", "lowest mean: node 0", "highest mean: node 32"]
    low, high, median, *_ = figure.data
    assert (set(low.y), set(median.y), set(high.y)) == ({0.0}, {16.0}, {32.0})
    assert len(median.x) <= 150
    alike = plot_nodes(many_nodes(33).with_columns(busy_percent=50.0))
    assert not [trace for trace in alike.data if trace.name and "mean" in trace.name]


def test_heat_maps_have_nodes_in_the_order_of_their_numbers() -> None:
    (heat,) = plot_node_heat_map(many_nodes(33)).data
    assert list(heat.y) == [str(node) for node in range(33)]
    assert [row[0] for row in heat.z] == [float(node) for node in range(33)]
    assert len(heat.x) <= 60


def test_throttled_groups_are_shown_and_warned_of() -> None:
    rows = [
        {"source_id": "h", "resource": "w2-t16-insert", "run_id": RUN, "iteration": 1, "node": "0", "sample": i}
        | {"sample_time": START + (END - START) * (i + 1) / 6, "since_boot": i == 0, "control_group": group}
        | {"used_percent": 10.0, "periods": 50, "throttled_periods": held, "throttled_percent": held / 2}
        for i in range(5)
        for group, held in (("/node1", 20), ("/free", 0))
    ]
    samples = TABLES["throttle_samples"].conform(pl.DataFrame(rows))
    found = select_throttling_over_time(samples, runs())
    assert found["control_group"].unique().to_list() == ["/node1"]
    assert found["throttled_periods_percent"].unique().to_list() == [40.0]
    assert select_throttling_over_time(samples.filter(control_group="/free"), runs()).is_empty()

    identity = ("source_id", "resource", "run_id", "iteration", "node", "sample", "sample_time", "since_boot")
    cpu = pl.DataFrame(rows[::2]).select(identity).with_columns(idle_percent=pl.lit(5.0), sampler=pl.lit("iostat"))
    given = {"runs": runs().with_columns(status=pl.lit("ok").cast(pl.Enum(["ok", "degraded", "failed"])))}
    given |= {"throttle_samples": samples, "cpu_samples": TABLES["cpu_samples"].conform(cpu)}
    study = study_resources(Tables(**given))
    (warning,) = write_throttling_warnings(study.throttling)
    assert select_shown_throttling(study)["control_group"].unique().to_list() == ["node1"]
    assert warning.startswith(
        "The kernel limited 1 control group to a share of CPU time and stopped it in 40 % of its periods"
    )
