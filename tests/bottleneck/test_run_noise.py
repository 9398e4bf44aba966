"""Why runs differ: injected sources are named with their shares, none is where there is none, and the machines."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from citus_analysis.bottleneck.run_noise import format_noise, list_unlike_runs, noise
from citus_analysis.bottleneck.run_variance import split_run_variance
from citus_analysis.bottleneck.witnesses import measure_machine_speed
from citus_analysis.cli import commands
from citus_analysis.errors import UsageError
from citus_analysis.schema import CANARY_WORKS, TABLES
from tests.conftest import read_once
from tests.documentation.blocks import ROOT, blocks_run_by, words_of
from tests.report.conftest import Tables

PROFILED = ROOT / "tests" / "data" / "faults" / "profiled"

#: Source -> the sign of its effect on throughput.
SOURCES = {
    "speed of the machines": 1,
    "foreign work": -1,
    "time to force a page to the disk": -1,
    "checkpoints": -1,
    "balance of nodes": 1,
}
SPREAD = 0.08
START = datetime(2026, 11, 20, 12, tzinfo=UTC)


def study(
    random: np.random.Generator, shares: dict[str, float], configurations: int = 10, runs: int = 8
) -> pl.DataFrame:
    """The sources of the variance of runs, of which some sources have stated shares."""
    n = configurations * runs
    values = {
        "speed of the machines": random.normal(0, 0.05, n),
        "foreign work": (random.random(n) < 1 / 3) * random.uniform(5, 20, n),
        "time to force a page to the disk": random.normal(7, 0.3, n),
        "checkpoints": (random.random(n) < 0.5) * random.uniform(0, 100, n),
        "balance of nodes": random.beta(8, 2, n),
    }
    names = np.repeat(np.arange(configurations), runs)
    logs = random.uniform(5, 9, configurations)[names] + SPREAD * np.sqrt(1 - sum(shares.values())) * random.normal(
        0, 1, n
    )
    for source, share in shares.items():
        scaled = (values[source] - values[source].mean()) / values[source].std()
        logs += SOURCES[source] * SPREAD * np.sqrt(share) * scaled
    order = np.tile(np.arange(float(runs)), configurations)
    factors = values | {"order in time": order}
    return split_run_variance(np.exp(logs), names.tolist(), factors, directions=SOURCES).sources


def find_named(sources: pl.DataFrame) -> set[str]:
    return set(sources.filter(pl.col("source") != "residual", pl.col("share") > 0)["source"])


def test_one_source_is_named_first_with_its_share() -> None:
    random = np.random.default_rng(7)
    first = within = 0
    for source in SOURCES:
        for _ in range(4):
            sources = study(random, {source: 0.7})
            top = sources.filter(pl.col("source") != "residual").sort("share", descending=True).row(0, named=True)
            first += top["source"] == source and top["p_value"] < 0.05
            within += abs(top["share_beyond_chance"] - 0.7) < 0.1
    assert first == 20
    assert within >= 18


def test_two_sources_are_named_and_none_where_there_is_none() -> None:
    random = np.random.default_rng(8)
    for one in SOURCES:
        for other in SOURCES:
            if one < other:
                assert {one, other} <= find_named(study(random, {one: 0.4, other: 0.3}))
    assert sum(bool(find_named(study(random, {}))) for _ in range(100)) <= 5


def conform(name: str, rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    """Rows as a table of the schema."""
    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    return TABLES[name].conform(frame.with_columns(pl.col(one).cast(TABLES[name][one].dtype) for one in frame.columns))


def recorded_runs(speeds: np.ndarray, rates: np.ndarray, slow_reads: np.ndarray | None = None) -> Tables:
    """Two systems with runs of 20 s in turns, beside which the canary ran at these speeds.

    In every fourth sample of a run, reads of memory took `slow_reads` times as long.
    """
    rows, canaries = [], []
    for at, (speed, rate) in enumerate(zip(speeds.ravel(), rates.ravel(), strict=True)):
        system, begin = "ab"[at % 2], START + timedelta(seconds=30 * at)
        resource, run_id = f"{system}-w2-t8-c", f"{system}-w2-t8-c/run-C-i{at // 2 + 1}"
        times = {"start_time": begin, "end_time": begin + timedelta(seconds=20)}
        rows.append(
            {
                "run_id": run_id,
                "resource": resource,
                "system": system,
                "phase": "run",
                "workload": "C",
                "threads": 8,
                "workers": 2,
                "iteration": at // 2 + 1,
                "drivers": 1,
                "status": "ok",
                "throughput_ops_s": float(rate),
                "operations": 1000,
                "records": 1000,
                "monitored": False,
                **times,
            }
        )
        for second in range(1, 20):
            for work in CANARY_WORKS:
                used = 500.0 / speed if work in CANARY_WORKS[:3] else 50.0
                if slow_reads is not None and work == "memory" and second % 4 == 0:
                    used *= float(slow_reads.ravel()[at])
                canaries.append(
                    {
                        "source_id": run_id,
                        "resource": resource,
                        "run_id": run_id,
                        "node": "1",
                        "sample": second,
                        "sample_time": begin + timedelta(seconds=second),
                        "since_boot": False,
                        "work": work,
                        "operations": 100,
                        "cpu_us": used,
                        "wall_us": used + 1,
                    }
                )
    conformed = {"runs": conform("runs", rows), "canaries": conform("canaries", canaries)}
    runs = conformed["runs"].drop("machine_speed")
    speed = measure_machine_speed(conformed["canaries"], runs)
    return Tables(**conformed | {"runs": TABLES["runs"].conform(runs.join(speed, on=["resource", "run_id"]))})


def test_a_comparison_is_corrected_by_the_speed_of_the_machine() -> None:
    random = np.random.default_rng(3)
    speeds = np.exp(random.normal(0, 0.08, (10, 2)))
    rates = 100 * speeds * np.exp(random.normal(0, 0.01, (10, 2))) * np.array([1.0, 1.04])
    found = noise(recorded_runs(speeds, rates), "system")
    assert found.named == ("speed of the machines",)
    assert found.corrected_by == ("speed of the machines",)
    (one,) = found.comparisons
    assert one.corrected.plain.verdict == "inconclusive"
    assert one.corrected.evidence is not None
    assert one.corrected.evidence.ratio == pytest.approx(1.04, abs=0.02)
    assert one.corrected.width_ratio < 0.5
    record = one.record()
    assert record["corrected_runs_needed"] < record["runs_needed"]  # type: ignore[operator] # numbers
    text = format_noise(found)
    assert "Without correction, 0 of 1 comparison is decided." in text
    assert "Corrected by speed of the machines, 1 of 1 comparison is decided" in text
    assert found.to_dict()["named"] == ["speed of the machines"]


def test_memory_that_is_slow_at_times_is_told_from_a_slow_machine() -> None:
    """The median of the samples does not see it, and so the speed of the machine does not."""
    random = np.random.default_rng(5)
    slow_reads = np.exp(random.uniform(0, 3, (10, 2)))
    rates = 100 * slow_reads**-0.2 * np.exp(random.normal(0, 0.02, (10, 2)))
    found = noise(recorded_runs(np.ones((10, 2)), rates, slow_reads), "system")
    assert found.named == ("time to read memory",)
    assert found.corrected_by == ("time to read memory",)


def test_a_slower_machine_is_told_apart_from_the_change() -> None:
    random = np.random.default_rng(6)
    speeds = np.exp(random.normal(0, 0.01, (8, 2))) * np.array([1.0, 0.93])
    rates = 100 * speeds * np.exp(random.normal(0, 0.005, (8, 2)))
    (one,) = noise(recorded_runs(speeds, rates), "system").comparisons
    assert one.corrected.plain.verdict == "slower"
    assert one.environment is not None
    assert one.environment.may_explain
    said = one.environment.sentence()
    assert said in one.corrected.plain.warnings
    assert re.match(r"the machines were 6\.\d % slower during the runs of b \(canary 0\.9", said)
    assert said.endswith("% is not decided for the change")
    # On equal machines nothing is said.
    equal = np.exp(random.normal(0, 0.01, (8, 2)))
    (other,) = noise(recorded_runs(equal, rates), "system").comparisons
    assert other.environment is None


def test_start_up_and_a_cold_cache_are_measured_from_the_run_and_correct_nothing() -> None:
    random = np.random.default_rng(4)
    lost = random.uniform(0, 30, (10, 2))
    tables = recorded_runs(np.ones((10, 2)), 100 * (1 - lost / 100) * np.exp(random.normal(0, 0.005, (10, 2))))
    runs = tables.table("runs").sort("start_time")
    series, counters = [], []
    for run, percent in zip(runs.to_dicts(), lost.ravel().tolist(), strict=True):
        at = {"resource": run["resource"], "run_id": run["run_id"], "source_id": run["run_id"]}
        # Intervals of four seconds; what is lost, the first two lack.
        rates = [100 * (1 - 2.5 * percent / 100), 100 * (1 - 2.5 * percent / 100), 99.0, 100.0, 101.0]
        series += [
            {**at, "role": "main", "part": 1, "elapsed_s": 4.0 * number, "throughput_ops_s": rate}
            for number, rate in enumerate(rates, 1)
        ]
        counters += [
            {**at, "node": node, "view": "pg_stat_database", "key": "postgres", "counter": counter, "value": value}
            for node in ("0", "1")
            for counter, value in (("blks_hit", 900.0), ("blks_read", 100.0), ("xact_commit", 5.0))
        ]
    given = {"client_series": series, "server_counters": counters}
    found = noise(Tables(**tables.tables | {name: conform(name, rows) for name, rows in given.items()}), "system")
    assert found.named == ("start-up of the clients",)
    factors = found.factors.join(runs.select("run_id", "start_time"), on="run_id").sort("start_time")
    # An interval that lacks less than a tenth is not part of the start.
    expected = [percent if 2.5 * percent > 10 else 0 for percent in lost.ravel().tolist()]
    assert factors["start_up"].to_list() == pytest.approx(expected)
    assert factors["cold_cache"].unique().to_list() == [200.0]
    # The compared change may be its cause.
    assert found.corrected_by == ()


def test_an_empty_log_says_that_no_checkpoint_was_under_way() -> None:
    random = np.random.default_rng(5)
    tables = recorded_runs(np.ones((10, 2)), 100 * np.exp(random.normal(0, 0.02, (10, 2))))
    runs = tables.table("runs").sort("run_id")
    files = [
        {"source_id": f"log {run_id}", "resource": resource, "run_id": run_id, "node": "1", "format": "pglog"}
        | {"bytes": 0 if number % 2 else 100}
        for number, (resource, run_id) in enumerate(runs.select("resource", "run_id").iter_rows())
    ]
    settings = [
        {"resource": resource, "name": "settings.log_checkpoints", "value": "on"}
        for resource in runs["resource"].unique().to_list()
    ]
    given = {"sources": files, "settings": settings}
    found = noise(Tables(**tables.tables | {name: conform(name, rows) for name, rows in given.items()}))
    known = found.factors.sort("run_id")["checkpoint"].to_list()
    # Of a log with other lines, which are not given here, nothing is known.
    assert known == [None, 0.0] * 10


def test_a_run_on_a_slower_machine_or_with_another_placement_is_listed_with_amounts() -> None:
    random = np.random.default_rng(9)
    speeds = np.exp(random.normal(0, 0.01, (10, 2)))
    speeds[4, 1] *= 0.8
    tables = recorded_runs(speeds, 100 * np.exp(random.normal(0, 0.02, (10, 2))))
    found = noise(tables)
    # The factor is the logarithm of the speed.
    stated = tables.table("runs").sort("run_id")["machine_speed"].log()
    assert found.factors.sort("run_id")["machine_speed"].to_list() == pytest.approx(stated.to_list())
    (row,) = found.unlike.to_dicts()
    assert (row["run_id"], row["source"]) == ("b-w2-t8-c/run-C-i5", "machine_speed")
    assert row["value"] / row["median"] == pytest.approx(0.8, abs=0.03)
    assert re.search(
        r"Unlike other runs, b-w2-t8-c/run-C-i5: its machines were (?:19|2\d) % slower", format_noise(found)
    )
    # The sessions of one run are all on one of two nodes.
    placed = found.factors.with_columns(balance=pl.when(run_id="a-w2-t8-c/run-C-i2").then(0.5).otherwise(0.98))
    other = list_unlike_runs(placed).filter(source="balance")
    assert other.select("run_id", "value", "median").rows() == [("a-w2-t8-c/run-C-i2", 0.5, 0.98)]
    assert other["what"].item().startswith("the index of the sessions' balance over nodes is 0.50 (Jain;")
    # Three runs are too few to say which is unlike the others.
    few = placed.filter(pl.col("run_id").str.contains("-i[123]$"))
    assert list_unlike_runs(few).is_empty()


def test_a_table_of_results_is_refused() -> None:
    with pytest.raises(UsageError, match="noise needs a dataset or raw files"):
        noise(pl.DataFrame({"version": ["a", "b"], "tps": [1.0, 2.0]}))


def test_the_command_of_the_page(
    user_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read_once(PROFILED, user_cache)
    (block,) = blocks_run_by(__file__)
    monkeypatch.setenv("XDG_CACHE_HOME", str(user_cache))
    monkeypatch.chdir(ROOT)
    (command,) = words_of(block, {})
    assert command[0] == "citus-analysis"
    commands.main(command[1:], standalone_mode=False)
    first, _, head, *_ = capsys.readouterr().out.splitlines()
    assert re.match(
        r"Runs of one configuration differ by [\d.]+ % \(standard deviation, 12 runs of 3 configurat", first
    )
    assert head.split("  ")[0] == "source"
