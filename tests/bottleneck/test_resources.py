"""Samples of machines: only those within runs count, and checkpoints are placed by their overlap."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from citus_analysis.bottleneck.resources import study_resources
from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.report.resources import state_resources
from citus_analysis.schema import TABLES
from tests.report.conftest import Tables

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def tables(**extra: pl.DataFrame) -> Tables:
    """One run from second 0 to 10; samples each second from 5 s before to 5 s after it, busy only during it."""
    key = {"resource": "r", "run_id": "r/1"}
    run = {**key, "phase": "load", "workload": "A", "workers": 1, "threads": 4, "status": "ok"}
    runs = pl.DataFrame([{**run, "start_time": at(0), "end_time": at(10)}])
    seconds = range(-5, 16)
    common = {**key, "iteration": 1, "node": "0", "source_id": "s"}
    cpu = pl.DataFrame(
        [
            {
                **common,
                "sample": i,
                "sample_time": at(s),
                "since_boot": i == 0,
                "sampler": sampler,
                "source_id": sampler,
            }
            | {"user_percent": 60.0 if 0 <= s <= 10 else 1.0, "nice_percent": 1.0, "system_percent": 30.0}
            | {"iowait_percent": 4.0, "steal_percent": 0.0, "idle_percent": 5.0 if sampler == "iostat" else 99.0}
            for sampler in ("iostat", "vmstat")
            for i, s in enumerate(seconds)
        ]
    )
    devices = pl.DataFrame(
        [
            {**common, "sample": i, "sample_time": at(s), "since_boot": i == 0, "device": "vda", "is_group": False}
            | {"await_ms": 8.0 if 2 <= s <= 6 else 1.0, "utilization_percent": 50.0, "write_kb_s": 10.0}
            for i, s in enumerate(seconds)
        ]
    )
    frames = {"runs": runs, "cpu_samples": cpu, "device_samples": devices, **extra}
    return Tables(**{name: TABLES[name].conform(frame) for name, frame in frames.items()})


def checkpoints(*times: tuple[float | None, float]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"resource": "r", "run_id": "r/1", "iteration": 1, "node": "1", "total_s": 4.0, "sync_s": 0.1}
            | {"start_time": None if begin is None else at(begin), "end_time": at(end)}
            for begin, end in times
        ],
        infer_schema_length=None,
    )


def test_idle_time_around_a_run_is_no_part_of_its_means() -> None:
    # The sample of second 0 covers the second before the run.
    row = study_resources(tables()).cpu.row(0, named=True)
    assert (row["samples"], row["user_percent"], row["busy_percent"]) == (10, 61.0, 91.0)


def test_checkpoints_count_where_they_overlap_the_run() -> None:
    given = tables(checkpoints=checkpoints((2, 6), (-9, -5), (11, 14), (9, 20), (None, 3)))
    study = study_resources(given)
    row = study.checkpoints.row(0, named=True)
    assert row["checkpoints"] == 3
    assert (row["samples_during"], row["samples_outside"]) == (8, 2)
    assert study.detail is not None
    assert study.detail.checkpoints.select("start_s", "end_s").rows() == [(-1.0, 3.0), (2.0, 6.0), (9.0, 20.0)]


def test_one_system_does_not_show_what_checkpoints_cost() -> None:
    study = study_resources(tables(checkpoints=checkpoints((2, 6))))
    row = study.checkpoints.row(0, named=True)
    assert (row["await_during_ms"], row["await_outside_ms"], row["samples_during"]) == (8.0, 1.0, 5)
    sentences = list(map(str, state_resources(study)))
    assert not any("checkpoint" in sentence for sentence in sentences)
    assert 3 <= len(sentences) <= 6


def test_times_of_requests_during_checkpoints_are_compared_over_systems() -> None:
    study = study_resources(tables(checkpoints=checkpoints((2, 6))))
    systems = pl.DataFrame({"resource": ["a", "b", "c", "d"], "await_during_ms": [2.0, 2.2, 1.9, 2.1]})
    several = study.checkpoints.drop("resource", "await_during_ms").join(systems, how="cross")
    found = [one for one in map(str, state_resources(replace(study, checkpoints=several))) if "checkpoint" in one]
    spread = "(1.9 to 2.3; geometric mean of 4 systems)"
    assert found == [f"Device requests took 2 times as long during checkpoints as otherwise {spread}."]
    equal = several.with_columns(await_during_ms=pl.Series([0.9, 1.1, 1.05, 0.95]))
    assert not any("checkpoint" in one for one in map(str, state_resources(replace(study, checkpoints=equal))))


def test_what_was_not_recorded_is_said() -> None:
    sentences = list(map(str, state_resources(study_resources(tables()))))
    assert "perf recorded no functions in these runs." in sentences


def test_of_the_reports_of_the_largest_recording_the_one_that_lost_least_counts() -> None:
    rows = [("a", 10, "f", 50.0), ("b", 1000, "f", 20.0), ("b", 1000, "g", 30.0), ("c", 1000, "g", 99.0)]
    perf = pl.DataFrame(
        [
            {"resource": "r", "source_id": source, "event": "cycles", "samples_total": n, "symbol": symbol}
            | {"self_percent": share, "shared_object": "postgres"}
            for source, n, symbol, share in rows
        ]
    )
    study = study_resources(tables(perf_symbols=perf))
    assert study.symbols.select("symbol", "mean_percent").rows() == [("g", 99.0)]
    assert str(state_resources(study)[-1]) == (
        "Of all samples of perf in r, 99 % were in postgres. The function with the largest share is g, 99.0 % "
        "(one recording)."
    )


def test_the_symbols_of_a_recording_without_a_report_are_those_of_its_stacks() -> None:
    key = {"resource": "r", "run_id": "r/1", "iteration": 1, "event": "cycles", "source_id": "s"}
    reported = {**key, "node": "0", "symbol": "f", "shared_object": "postgres", "self_percent": 100.0}
    stack = {**key, "shared_object": "citus.so", "samples": 5, "self_percent": 100.0}
    stacks = pl.DataFrame([{**stack, "node": "0", "stack": "main;g"}, {**stack, "node": "1", "stack": "main;h"}])
    study = study_resources(tables(perf_symbols=pl.DataFrame([reported]), perf_stacks=stacks))
    assert study.symbols.select("symbol", "recordings", "mean_percent").rows() == [("f", 2, 50.0), ("h", 2, 50.0)]


def test_the_window_around_a_checkpoint_holds_the_longest_waits() -> None:
    study = study_resources(tables(checkpoints=checkpoints((2, 3))))
    assert study.detail is not None
    assert study.detail.around == (0.0, 5.0)
    whole = study_resources(tables(checkpoints=checkpoints((1, 9))))
    assert whole.detail is not None
    assert whole.detail.around is None, "nearly all of the run: there is nothing to zoom on"


def test_busy_shares_stand_in_a_row_per_size() -> None:
    busy = study_resources(tables()).busy
    assert busy.columns == ["operation", "set_up", "workers", "4_threads_percent"]
    assert busy["4_threads_percent"].to_list() == [91.0]


def test_failed_runs_do_not_enter() -> None:
    given = tables()
    given.tables["runs"] = given.tables["runs"].with_columns(
        pl.lit("failed").cast(pl.Enum(["ok", "failed"])).alias("status")
    )
    with pytest.raises(InsufficientDataError, match=r"no samples .* failed or lost operations"):
        study_resources(given)


@pytest.mark.parametrize("wrong", [{"detail": "q"}, {"detail": "r", "iteration": 7}])
def test_a_detail_without_samples_is_refused(wrong: dict[str, str | int]) -> None:
    with pytest.raises(UnknownNameError):
        study_resources(tables(), **wrong)  # type: ignore[arg-type] # a table of cases


def processes() -> pl.DataFrame:
    """pidstat -u and -d each second of the run: two of postgres, and one of java that only half of the samples list."""
    common = {"resource": "r", "run_id": "r/1", "iteration": 1, "node": "0", "source_id": "p", "since_boot": False}
    return pl.DataFrame(
        [
            {**common, "sample": second, "sample_time": at(second), "command": command, **values}
            for second in range(-5, 16)
            for command, values in (
                ("postgres: walwriter", {"cpu_percent": 5.0 if 0 <= second <= 10 else 90.0, "write_kb_s": None}),
                ("/usr/lib/postgresql/15/bin/postgres -D /data", {"cpu_percent": 30.0, "write_kb_s": None}),
                ("postgres: walwriter", {"cpu_percent": None, "write_kb_s": 200.0}),
                *([("java", {"cpu_percent": 40.0, "write_kb_s": None})] if second % 2 else []),
            )
        ]
    )


def test_programs_are_sums_over_their_processes() -> None:
    study = study_resources(tables(process_samples=processes()))
    rows = study.programs.select("program", "runs", "cpu_percent", "read_kb_s", "write_kb_s").rows()
    assert rows == [("postgres", 1, 35.0, None, 200.0), ("java", 1, 20.0, None, None)]
    expected = "Of the programs that pidstat listed, postgres on the machine of node 0 of r used most CPU time: 35 %"
    assert any(sentence.startswith(expected) for sentence in map(str, state_resources(study)))


def test_pressure_alone_is_enough() -> None:
    common = {"resource": "r", "run_id": "r/1", "iteration": 1, "node": "0", "source_id": "p", "since_boot": False}
    rows = [
        {
            **common,
            "sample": second,
            "sample_time": at(second),
            "pressure": kind,
            "scope": scope,
            "stalled_percent": share,
        }
        for second in range(-5, 16)
        for kind, scope, share in (
            ("cpu", "some", 80.0 if second == 5 else 60.0),
            ("cpu", "full", 0.0),
            ("io", "some", None if second == 5 else 2.0),
        )
    ]
    nothing = {name: TABLES[name].empty() for name in ("cpu_samples", "device_samples")}
    study = study_resources(tables(**nothing, pressure_samples=pl.DataFrame(rows)))
    values = study.pressure.select("pressure", "scope", "samples", "stalled_percent", "largest_stalled_percent").rows()
    assert values == [("cpu", "some", 10, 62.0, 80.0), ("io", "some", 9, 2.0, 2.0)]
    expected = "At least one task on node 0 of r was stalled for the CPU 62 % of the time, and 80 % at most."
    assert expected in map(str, state_resources(study))
    assert study.busy.is_empty()


def test_processes_alone_are_enough() -> None:
    nothing = TABLES["cpu_samples"].empty()
    given = tables(cpu_samples=nothing, device_samples=TABLES["device_samples"].empty(), process_samples=processes())
    assert study_resources(given).programs["program"].to_list() == ["postgres", "java"]
