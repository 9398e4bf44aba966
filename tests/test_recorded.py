"""The whole line on the recorded cluster: what comes out equals what is known of how the runs were launched.

`data/recorded_truth.csv` is taken from the launch parameters and from the keys whose owner is known; nothing in it
was computed by this library. It holds for monitors that touched every key of their range once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from citus_analysis.formats.parsing.registry import format_named

if TYPE_CHECKING:
    from citus_analysis.dataset import Dataset

DATA = Path(__file__).parent / "data"
STATEMENTS_ON_DATA = ("select", "insert", "update", "delete")
FAILED = {"w2-fail-clients": 18_376, "w2-fail-stop-insert": 35_259, "w2-fail-dup-insert": 0}
#: Half of this monitor's reads failed in the client after the server had answered them.
FAILED_MONITOR = {"w2-perf-select": 500}
#: Every operation of workload f is a read, and half of them an update too.
SEVERAL_STATEMENTS = ("w2-all-f",)
#: Scans ask every shard.
MULTI_SHARD = ("w2-all-e",)
KEY = ["resource", "iteration"]


@pytest.fixture(scope="module")
def truth() -> pl.DataFrame:
    return pl.read_csv(DATA / "recorded_truth.csv").with_columns(pl.col("iteration").cast(pl.Int32))


@pytest.fixture(scope="module")
def statements(recorded_dataset: Dataset) -> pl.DataFrame:
    return recorded_dataset.statements().filter(
        pl.col("statement_kind").cast(pl.String).is_in(STATEMENTS_ON_DATA), pl.col("executed").is_not_null()
    )


def test_every_run_is_there_once_with_the_operations_it_was_launched_with(
    recorded_dataset: Dataset, truth: pl.DataFrame
) -> None:
    joined = truth.join(recorded_dataset.runs(), on=KEY, suffix="_found")
    assert joined.height == truth.height == 97
    for column in ("phase", "workload", "operations", "drivers", "workers"):
        assert joined[f"{column}_found"].cast(joined[column].dtype).to_list() == joined[column].to_list(), column
    # The truth names the threads of one load generator, the table those of all.
    assert joined["threads_found"].to_list() == (joined["threads"] * joined["drivers"]).to_list()


def test_operations_done_are_those_launched_except_where_runs_failed(
    recorded_dataset: Dataset, truth: pl.DataFrame
) -> None:
    runs = recorded_dataset.runs().join(truth, on=KEY, suffix="_true")
    ok = runs.filter(~pl.col("resource").is_in(list(FAILED)))
    assert ok.filter(status="degraded")["resource"].to_list() == ["w2-perf-select"]  # operations of its monitor failed
    assert set(ok["status"]) == {"ok", "degraded"}
    assert ok["operations_done"].to_list() == ok["operations_true"].to_list()
    failed = runs.filter(pl.col("resource").is_in(list(FAILED)))
    assert failed["status"].unique().to_list() == ["failed"]
    assert dict(failed.select("resource", "operations_done").iter_rows()) == FAILED
    # The table held what the main and the monitor clients had inserted.
    assert all(done <= rows for done, rows in failed.select("operations_done", "rows_after").iter_rows())


def test_monitor_operations(recorded_dataset: Dataset, truth: pl.DataFrame) -> None:
    monitors = recorded_dataset.table("clients").filter(pl.col("role") == "monitor")
    joined = monitors.join(truth, on=KEY, suffix="_true").filter(~pl.col("resource").is_in(list(FAILED)))
    expected = [
        FAILED_MONITOR.get(resource, operations)
        for resource, operations in joined.select("resource", "monitor_operations").iter_rows()
    ]
    assert joined["operations_done"].to_list() == expected


def test_parent_executions_local_and_remote(statements: pl.DataFrame, truth: pl.DataFrame) -> None:
    counts = statements.group_by(KEY).agg(
        found=pl.len(),
        found_local=(pl.col("executed") == "local").sum(),
        found_remote=(pl.col("executed") == "remote").sum(),
    )
    special = [*FAILED, *SEVERAL_STATEMENTS, *MULTI_SHARD]
    known = truth.filter(~pl.col("resource").is_in(special)).join(counts, on=KEY)
    assert known.height == 62
    assert known["found"].to_list() == known["parent_executions"].to_list()
    # Only where every key was touched once is it known which of them were local.
    sequential = known.filter(pl.col("key_order") == "sequential")
    assert sequential.height >= 50
    assert sequential["found_local"].to_list() == sequential["local"].to_list()
    assert sequential["found_remote"].to_list() == sequential["remote"].to_list()


def test_scans_ask_every_shard(statements: pl.DataFrame) -> None:
    scans = statements.filter(pl.col("resource") == "w2-all-e", pl.col("statement_kind") == "select")
    assert scans["tasks"].unique().to_list() == [4]
    assert scans["executed"].unique().to_list() == ["multi_shard"]


def test_every_remote_execution_is_paired_exactly(recorded_dataset: Dataset) -> None:
    quality = recorded_dataset.table("match_quality")
    failing = quality.filter(pl.col("resource").is_in(list(FAILED)))
    complete = quality.filter(~pl.col("resource").is_in(list(FAILED)))
    assert complete["tasks"].sum() == complete["exact"].sum() > 30_000
    assert complete["unmatched_children"].sum() == 0
    assert (failing["exact"] <= failing["tasks"]).all()


def test_checkpoints_errors_and_lock_waits_are_those_of_the_logs(recorded_dataset: Dataset) -> None:
    # Counted in the recordings with grep: `checkpoint complete`, `still waiting for|acquired .*Lock`, `] FATAL: `.
    counted = recorded_dataset.sql(
        """
        SELECT (SELECT count(*) FROM checkpoints WHERE resource = 'w2-checkpoint-insert'),
               (SELECT count(*) FROM log_events WHERE kind = 'lock_wait' AND resource = 'w2-lock-update'),
               (SELECT count(*) FROM log_events WHERE severity = 'FATAL' AND resource = 'w2-fail-clients')
        """
    )
    assert pl.DataFrame(counted).row(0) == (7, 40, 29)


def test_nothing_is_dropped_silently(recorded_dataset: Dataset) -> None:
    sources = recorded_dataset.table("sources").filter(pl.col("format").is_not_null())
    accounted = sources["parsed_bytes"] + sources["noise_bytes"] + sources["rejected_bytes"]
    assert accounted.to_list() == sources["content_bytes"].to_list()
    assert sources["rejected"].sum() == recorded_dataset.table("rejects").height
    assert sources["content_bytes"].sum() > 60_000_000


def test_formats_with_noise_declare_it(recorded_dataset: Dataset) -> None:
    noisy = recorded_dataset.sources().filter(pl.col("noise_bytes") > 0)["format"].unique()
    assert {"pg_dist_node", "iostat", "ycsb"} <= set(noisy)
    assert [name for name in noisy if format_named(name).noise == "nothing"] == []


def test_no_password_reaches_a_table(recorded_dataset: Dataset) -> None:
    commands = recorded_dataset.table("clients")["command_line"].drop_nulls()
    assert commands.str.contains("db.passwd=***", literal=True).sum() > 100
    assert not commands.str.contains("db.passwd=none", literal=True).any()
