"""Load over nodes and shards: known answers on a few rows, and the recording with all sessions on one node."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from citus_analysis.bottleneck import BottleneckStudy, study_bottleneck
from citus_analysis.bottleneck.balance import balance_of_nodes, compute_shard_skew
from citus_analysis.bottleneck.measurements import measure_throttling
from citus_analysis.dataset import Dataset
from citus_analysis.report.bottleneck import choose_shown_run, plot_node_loads, state_balance
from citus_analysis.schema import TABLES

RUNS = pl.DataFrame({"resource": ["w2"], "run_id": ["r"], "threads": [8]})
BEGIN = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture(scope="module")
def uneven(limited: Dataset) -> BottleneckStudy:
    return study_bottleneck(limited, "uneven-*")


def test_connections_of_an_uneven_cluster_are_on_one_node(uneven: BottleneckStudy) -> None:
    rows = uneven.node_balance.filter(measure="connections").sort("node")
    assert rows["node"].to_list() == ["0", "1", "2"]
    assert rows["share_percent"].to_list() == [100.0, 0.0, 0.0]
    assert rows["jain_index"].to_list() == pytest.approx([1 / 3] * 3)
    over_time = uneven.node_loads.filter(measure="connections", node="0")
    assert over_time["value"].max() == 8
    assert over_time.height >= 5


def test_the_figure_shows_the_least_even_run_node_by_node(uneven: BottleneckStudy) -> None:
    assert choose_shown_run(uneven).startswith("uneven-w2-t8-c/")
    first = plot_node_loads(uneven)[0]
    assert {trace.name for trace in first.data} == {"node 0", "node 1", "node 2"}
    said = str(state_balance(uneven)[0])
    assert said.startswith("Least even in connections of clients: uneven-w2-t8-c, Jain's index 0.33; node 0 has 100 %")


def test_balance_is_of_means_over_time_and_of_single_seconds() -> None:
    rows = [(0.2, "1", 4.0), (0.4, "2", 0.0), (1.2, "1", 2.0), (1.4, "2", 6.0)]
    loads = pl.DataFrame(rows, schema=["elapsed_s", "node", "value"], orient="row").with_columns(
        resource=pl.lit("w2"), run_id=pl.lit("r"), measure=pl.lit("statements")
    )
    found = balance_of_nodes(loads, RUNS, ["resource", "threads"])
    assert found["mean"].to_list() == [3.0, 3.0]
    assert found["jain_index"].to_list() == [1.0, 1.0]
    # In the first second one of two nodes had everything.
    assert found["most_uneven_second"].to_list() == [0.5, 0.5]


def test_shard_skew_names_the_extremes() -> None:
    shards = [1] * 30 + [2] * 10 + [3] * 5
    statements = pl.DataFrame({"resource": "w2", "run_id": "r", "shard_id": shards})
    row = compute_shard_skew(statements, RUNS).row(0, named=True)
    assert (row["shards"], row["executions"]) == (3, 45)
    assert (row["most_used"], row["most"], row["least_used"], row["least"]) == (1, 30, 3, 5)
    assert row["most_over_mean"] == 2.0
    assert row["jain_index"] == pytest.approx(45**2 / (3 * (900 + 100 + 25)))
    assert row["p_value"] < 1e-4
    few = compute_shard_skew(statements.head(32).tail(4), RUNS).row(0, named=True)
    assert few["p_value"] is None


def test_a_control_group_named_after_a_node_is_that_nodes() -> None:
    path = "/sys/fs/cgroup/cpu/demo/{}/cpu.stat"
    groups = [("postgres-node1", 90), ("postgres-node2", 10), ("postgres", 50), ("clients", 20)]
    samples = pl.DataFrame(
        {
            "source_id": "s",
            "resource": "w2",
            "run_id": "r",
            "node": "0",
            "sample": 1,
            "sample_time": BEGIN + timedelta(seconds=2),
            "since_boot": False,
            "control_group": [path.format(name) for name, _ in groups],
            "periods": 100,
            "throttled_periods": [stopped for _, stopped in groups],
        }
    )
    runs = RUNS.with_columns(start_time=BEGIN, end_time=BEGIN + timedelta(seconds=9))
    servers, clients = measure_throttling(TABLES["throttle_samples"].conform(samples), runs)
    assert dict(servers.select("node", "value").sort("node").iter_rows()) == {"0": 50.0, "1": 90.0, "2": 10.0}
    assert clients["value"].to_list() == [20.0]
