"""Blocked-time analysis: on simulated systems whose answer is known, and on recorded statements."""

from pathlib import Path

import polars as pl
import pytest

from citus_analysis import scaling
from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.scaling import predicted_changes, throughput_curves
from citus_analysis.scaling.network_what_if import TOLERATED_PERCENT
from tests.scaling.closed_networks import PARTS, SYSTEMS, MeasurementResult, simulate, tables

DATA = Path(__file__).parents[1] / "data" / "scaling"
#: Recordings of 1 to 32 clients that wait 2 ms between two queries, on one server that has one core.
SHORT = Path(__file__).parents[1] / "data" / "short"


@pytest.fixture(scope="module")
def recorded() -> dict[str, pl.DataFrame]:
    return {
        "runs": pl.read_csv(DATA / "runs.csv"),
        "operation_latencies": pl.read_csv(DATA / "operation_latencies.csv"),
        "statements": pl.read_parquet(DATA / "statements.parquet"),
    }


@pytest.fixture(scope="module")
def one_count(recorded: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The recorded runs with 16 threads."""
    return {**recorded, "runs": recorded["runs"].filter(threads=16)}


@pytest.fixture(scope="module")
def shared() -> list[MeasurementResult]:
    """Parents and children on the same 8 cores, as in a cluster where every node is asked and has shards."""
    return [simulate(SYSTEMS["shared 8 cores"], threads) for threads in (1, 4, 16, 64)]


def test_sampled_nodes_tell_that_parents_and_children_share_cores(shared: list[MeasurementResult]) -> None:
    (found,) = scaling.blocked_time(tables(shared, {"cpu": ["1", "2"]}))
    assert found.refused is None
    assert found.network.startswith("parent + child at servers")
    for part in PARTS:
        true = simulate(SYSTEMS["shared 8 cores"].without(part), 64).throughput_ops_s / shared[-1].throughput_ops_s
        gain = found.gain(part)
        assert gain.factor == pytest.approx(true, rel=0.05)
        assert gain.limit is not None
        assert gain.limit >= true
    assert found.demands_us["parent"] == pytest.approx(800, rel=0.03)
    assert found.demands_us["child"] == pytest.approx(900, rel=0.03)


def test_one_thread_count_shows_where_time_goes_but_predicts_nothing(shared: list[MeasurementResult]) -> None:
    (found,) = scaling.blocked_time(tables(shared[-1:]))
    assert found.refused is not None
    assert found.refused.startswith("1 thread count (64) measured: at least 3 are needed")
    assert all(gain.factor is None and gain.limit is None for gain in found.gains)
    assert found.parts_us["parent"].estimate == pytest.approx(shared[-1].parts_us["parent"])
    assert "no prediction" in found.sentence()
    assert "no CPU was sampled" in "; ".join(found.warnings)


def test_unevenly_busy_nodes_are_not_one_station(shared: list[MeasurementResult]) -> None:
    given = tables(shared[-1:], {"cpu": ["1", "2"]})
    idle = pl.when(pl.col("node").cast(pl.String) == "2").then(60.0).otherwise("idle_percent")
    given["cpu_samples"] = given["cpu_samples"].with_columns(idle_percent=idle)
    (found,) = scaling.blocked_time(given)
    assert "the CPU of the nodes of parent and child differs much between them: it is not used" in found.warnings


def test_recordings_on_two_cores_are_refused(recorded: dict[str, pl.DataFrame]) -> None:
    # All nodes and clients share one machine with 2 cores, and its throughput falls with more threads.
    found = {one.configuration["phase"]: one for one in scaling.blocked_time(recorded)}
    assert set(found) == {"load", "run"}
    for one in found.values():
        assert one.thread_counts == (4, 16, 64)
        assert one.refused is not None
        assert all(gain.factor is None and gain.limit is None for gain in one.gains)
    insert = found["load"]
    assert "the first 5 of each session left out" in insert.warnings[0]
    assert any("do not contain the commit: its wait counts as outside" in note for note in insert.warnings)
    share = float(insert.sentence().partition(" %")[0])
    assert 0 < share <= 100
    assert "outside time" in insert.sentence()


def test_the_first_statements_of_sessions_are_left_out(one_count: dict[str, pl.DataFrame]) -> None:
    def parent_time(skip_first: int) -> float:
        found = scaling.blocked_time(one_count, skip_first=skip_first)
        return next(one.parts_us["parent"].estimate for one in found if one.configuration["phase"] == "run")

    # Connections to other nodes are made, and statements planned, in the first executions.
    assert parent_time(0) > 1.1 * parent_time(5)


def test_unmatched_and_failed_statements_are_left_out(one_count: dict[str, pl.DataFrame]) -> None:
    spoilt = one_count["statements"].with_columns(
        failed=pl.lit(value=True), total_us=pl.lit(1e9), executed=pl.lit("remote")
    )
    late = spoilt.with_columns(session_seq=pl.col("session_seq") + 1_000_000)
    mixed = pl.concat([one_count["statements"].with_columns(pl.col("executed").cast(pl.String)), late])
    first, second = (scaling.blocked_time({**one_count, "statements": s}) for s in (one_count["statements"], mixed))
    assert [one.parts_us for one in first] == [one.parts_us for one in second]


def test_a_network_predicts_what_was_not_recorded(tmp_path: Path) -> None:
    """Five runs with 64 threads, which are not in the recordings, did 4,876 operations/s on average."""
    ingest(sorted(SHORT.glob("postgresql-think-*")), tmp_path / "dataset")
    ds = open_dataset(tmp_path / "dataset")
    names = ("runs", "operation_latencies")
    (found,) = scaling.blocked_time({"statements": ds.statements(), **{name: ds.table(name) for name in names}})
    assert found.refused is None
    assert found.held_out_error_percent is not None
    assert found.held_out_error_percent < TOLERATED_PERCENT
    (more,) = (one for one in predicted_changes(found) if one.change == "64 client threads")
    assert more.throughput_ops_s is not None
    assert more.throughput_ops_s.low < 4876 < more.throughput_ops_s.high
    assert throughput_curves(found).filter(model="mva").height > 6


def test_nothing_to_analyse_is_refused(recorded: dict[str, pl.DataFrame]) -> None:
    with pytest.raises(InsufficientDataError, match="no run has both"):
        scaling.blocked_time({**recorded, "statements": recorded["statements"].clear()})
    with pytest.raises(UsageError, match="pass a dataset"):
        scaling.blocked_time(pl.DataFrame())  # type: ignore[arg-type]  # no such source, on purpose
