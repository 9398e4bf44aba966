"""Blocked-time analysis: on a network whose demands are known, and on recorded statements."""

from pathlib import Path

import polars as pl
import pytest

from citus_analysis import scaling
from citus_analysis.errors import InsufficientDataError, UsageError

DATA = Path(__file__).parents[1] / "data" / "scaling"
DEMANDS = {"parent": 120.0, "child": 300.0, "network": 60.0, "outside": 150.0}


@pytest.fixture(scope="module")
def recorded() -> dict[str, pl.DataFrame]:
    return {
        "runs": pl.read_csv(DATA / "runs.csv"),
        "operation_latencies": pl.read_csv(DATA / "operation_latencies.csv"),
        "statements": pl.read_parquet(DATA / "statements.parquet"),
    }


def known_network(threads: int) -> dict[str, pl.DataFrame]:
    """Tables of one run of a system whose demands are `DEMANDS`, as exact MVA solves it."""
    solved = scaling.mva(DEMANDS, threads)
    times = dict(zip(solved.resources, solved.residence_time[0].tolist(), strict=True))
    rate, response = float(solved.throughput[0]) * 1e6, float(solved.response_time[0])
    keys = {"run_id": "r", "resource": "known"}
    return {
        "runs": pl.DataFrame(
            {**keys, "threads": threads, "throughput_ops_s": rate, "operations_done": 1_000, "status": "ok"}
        ),
        "operation_latencies": pl.DataFrame(
            {**keys, "role": "main", "operation": "READ", "operations": 1_000, "mean_us": response}
        ),
        "statements": pl.DataFrame(
            {
                **keys,
                "statement_kind": "select",
                "executed": "remote",
                "total_us": times["parent"] + times["child"] + times["network"],
                "parent_us": times["parent"],
                "child_us": times["child"],
                "latency_us": times["network"],
                "match": "exact",
                "failed": False,
                "includes_commit": True,
            }
        ),
    }


@pytest.mark.parametrize("threads", [1, 4, 16, 64])
def test_demands_and_gains_of_a_known_network_are_recovered(threads: int) -> None:
    (found,) = scaling.blocked_time(known_network(threads))
    assert abs(found.model_error_percent.estimate) < 6
    assert found.warnings == ("all operations are taken to be like 1 sampled statement in 1 run",)
    truth = {one.resource: one.speedup for one in scaling.what_if(DEMANDS, threads)}
    for part, gain in found.gains.items():
        assert gain.estimate == pytest.approx(truth[part], rel=0.12)
        assert gain.estimate <= found.limits[part].estimate * 1.001
    assert max(found.gains, key=lambda part: found.gains[part].estimate) == "child"


def test_one_thread_has_no_queueing_to_remove() -> None:
    (found,) = scaling.blocked_time(known_network(1))
    for part, demand in DEMANDS.items():
        assert found.parts_us[part].estimate == pytest.approx(demand)
        assert found.gains[part].estimate == pytest.approx(found.limits[part].estimate)


def test_recorded_inserts_wait_outside_the_spans(recorded: dict[str, pl.DataFrame]) -> None:
    found = {str(one.configuration["resource"]): one for one in scaling.blocked_time(recorded)}
    insert = found["w2-t16-insert"]
    parts = sum(part.estimate for part in insert.parts_us.values())
    assert parts == pytest.approx(insert.response_us.estimate)
    assert abs(insert.model_error_percent.estimate) < 2
    # Local inserts are logged before their commit: 1,012 of 2,000 statements.
    assert "51 % of the durations do not contain the commit: its wait counts as outside" in insert.warnings
    assert insert.sentence().startswith("4")
    assert "outside time" in insert.sentence()
    assert all(1 <= gain.estimate <= insert.limits[part].estimate for part, gain in insert.gains.items())


def test_a_run_whose_sampling_distorts_is_not_believed(recorded: dict[str, pl.DataFrame]) -> None:
    found = {str(one.configuration["resource"]): one for one in scaling.blocked_time(recorded)}
    slow = found["w2-t4-select"]
    assert any("sampling slows them down" in note for note in slow.warnings)
    assert any("do not believe its gains" in note for note in slow.warnings)


def test_unmatched_and_failed_statements_are_left_out(recorded: dict[str, pl.DataFrame]) -> None:
    spoilt = recorded["statements"].with_columns(
        failed=pl.lit(value=True), total_us=pl.lit(1e9), executed=pl.lit("remote")
    )
    mixed = pl.concat([recorded["statements"].with_columns(pl.col("executed").cast(pl.String)), spoilt])
    first, second = (scaling.blocked_time({**recorded, "statements": s}) for s in (recorded["statements"], mixed))
    assert [one.parts_us for one in first] == [one.parts_us for one in second]


def test_demands_from_residence() -> None:
    assert scaling.demands_from_residence({"cpu": 100.0}, 5_000, 1) == {"cpu": 100.0}
    with pytest.raises(UsageError, match="positive throughput"):
        scaling.demands_from_residence({"cpu": 1.0}, 0, 4)
    with pytest.raises(UsageError, match="pass a dataset"):
        scaling.blocked_time(pl.DataFrame())  # type: ignore[arg-type]  # no such source, on purpose


def test_nothing_to_analyse_is_refused(recorded: dict[str, pl.DataFrame]) -> None:
    with pytest.raises(InsufficientDataError, match="no run has both"):
        scaling.blocked_time({**recorded, "statements": recorded["statements"].clear()})
