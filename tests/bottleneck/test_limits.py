"""The first limit of runs into which one was injected, and what is said where little was recorded."""

from dataclasses import asdict
from typing import Any

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.bottleneck import BottleneckStudy, Thresholds, study_bottleneck
from citus_analysis.bottleneck.balance import balance
from citus_analysis.bottleneck.limits import RunFacts, Verdict, judge
from citus_analysis.bottleneck.measurements import SOURCES
from citus_analysis.dataset import Dataset
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.report import report_parameters
from citus_analysis.scaling.demands import compute_resource_demands, find_first_to_saturate
from citus_analysis.schema import TABLES

INJECTED = {
    "hog": ("CPU", "0"),
    "quota": ("CPU quota", "0"),
    "lock": ("locks", None),
    "starved": ("load generator", "0"),
    "uneven": ("one node", "0"),
    "checkpoints": ("checkpoints", "0"),
    "connections": ("connections", "0"),
    "idle": ("none found", None),
}


class Without:
    """A dataset that lacks the rows of some tables."""

    def __init__(self, dataset: Dataset, *tables: str) -> None:
        self.dataset, self.tables = dataset, tables

    def table(self, name: str, /) -> pl.DataFrame:
        return TABLES[name].empty() if name in self.tables else self.dataset.table(name)


@pytest.fixture(scope="module")
def study(limited: Dataset) -> BottleneckStudy:
    return study_bottleneck(limited)


def of(study: BottleneckStudy, name: str) -> Verdict:
    (found,) = [one for one in study.verdicts if str(one.configuration["resource"]).startswith(f"{name}-")]
    return found


@pytest.mark.parametrize("name", INJECTED)
def test_the_injected_limit_is_named(study: BottleneckStudy, name: str) -> None:
    verdict = of(study, name)
    assert (verdict.limit, verdict.node) == INJECTED[name]
    assert verdict.evidence
    assert verdict.confidence in ("high", "medium")
    assert verdict.n == 1


def test_every_recording_is_judged_once(study: BottleneckStudy) -> None:
    assert len(study.verdicts) == len(INJECTED)
    assert {one.limit for one in study.verdicts} <= {
        *("connections", "CPU quota", "load generator", "rate of the client", "locks", "checkpoints", "WAL"),
        *("one node", "CPU", "device", "network", "none found", "undecided"),
    }
    assert study.to_polars().height == len(INJECTED)


def test_a_busy_host_is_no_limit_of_sessions_that_wait_for_locks(study: BottleneckStudy) -> None:
    busy = study.matrix.filter(pl.col("resource").str.starts_with("lock-") & (pl.col("metric") == "busy"))
    assert busy["value"].item() > 90
    assert "locks" in of(study, "lock").limit


def test_citus_parents_under_client_read_wait_for_workers(study: BottleneckStudy) -> None:
    uneven = study.waits.filter(pl.col("resource").str.starts_with("uneven-") & (pl.col("role") == "parent"))
    labelled = uneven.filter(pl.col("doing") == "waits for workers")
    assert labelled["event"].to_list() == ["Client: ClientRead"]
    assert labelled["average_sessions"].item() == pytest.approx(5.0)  # 40 of 8 snapshots


def test_cells_without_a_measurement_say_what_to_record(study: BottleneckStudy) -> None:
    empty = study.matrix.filter(pl.col("value").is_null())
    assert empty["not_measured"].null_count() == 0
    assert study.matrix.filter(pl.col("value").is_not_null())["not_measured"].null_count() == (
        study.matrix.height - empty.height
    )
    parts = study.matrix.filter(pl.col("resource").str.starts_with("hog-"))["part"].unique()
    assert len(parts) == 8


def test_cells_name_the_file_that_they_are_from(study: BottleneckStudy) -> None:
    known = study.matrix.filter(pl.col("value").is_not_null())
    assert known["source"].null_count() == 0
    client = known.filter(pl.col("resource").str.starts_with("hog-") & (pl.col("metric") == "failed operations"))
    assert client["source"].item().startswith("hog/hog-w0-t8-count/YCSB/raw/run_")


def test_a_throttled_server_biases_its_own_snapshots(study: BottleneckStudy) -> None:
    assert any("A quota stopped servers together with" in warning for warning in study.warnings)


def test_demands_follow_the_utilisation_law(limited: Dataset, study: BottleneckStudy) -> None:
    demands = compute_resource_demands(limited, study)
    cpu = demands.filter(pl.col("resource").str.starts_with("hog-") & (pl.col("demand") == "CPU time"))
    row = cpu.row(0, named=True)
    # U = 100 % of two cores at X operations a second.
    assert row["per_operation"] == pytest.approx(row["utilisation_percent"] / 100 * 2 / row["throughput_ops_s"] * 1e6)
    assert row["bound_ops_s"] == pytest.approx(row["throughput_ops_s"] / row["utilisation_percent"] * 100)
    first = find_first_to_saturate(demands).filter(pl.col("resource").str.starts_with("hog-"))
    assert first["demand"].to_list() == ["CPU time"]
    wal = demands.filter((pl.col("demand") == "WAL") & pl.col("resource").str.starts_with("checkpoints-"))
    assert wal["per_operation"].item() > 100  # updates write WAL


def test_without_samples_nothing_is_claimed(limited: Dataset) -> None:
    tables = ("cpu_samples", "device_samples", "activity_samples", "throttle_samples", "pressure_samples", "vm_samples")
    study = study_bottleneck(Without(limited, *tables), "hog-*")
    (verdict,) = study.verdicts
    assert (verdict.limit, verdict.confidence) == ("undecided", "none")
    assert verdict.decide == (
        "samples of CPU would decide",
        "samples of devices would decide",
        "samples of sessions would decide",
    )
    assert study.warnings == (
        "No snapshots of sessions: waits are not known (the runner records them, samplers.activity).",
    )


def test_thresholds_can_be_changed_by_name(limited: Dataset) -> None:
    study = ca.bottleneck.study_bottleneck(limited, "lock-*", thresholds={"waiting_percent": 99.0})
    assert study.verdicts[0].limit == "CPU"
    assert study.thresholds.to_polars().filter(pl.col("threshold") == "waiting_percent")["value"].item() == 99.0


def test_the_report_takes_every_threshold() -> None:
    parameters = {one.name: one.default for one in report_parameters("bottleneck")}
    assert asdict(Thresholds()).items() <= parameters.items()
    assert asdict(Thresholds()).keys() == SOURCES.keys()


@pytest.mark.parametrize("value", [-1.0, 100.5, float("nan"), float("inf")])
def test_thresholds_out_of_range_are_refused(value: float) -> None:
    with pytest.raises(UsageError, match="saturated_percent"):
        Thresholds(saturated_percent=value)
    with pytest.raises(UsageError, match="from 0 to 1"):
        Thresholds(jain_index=value)


def test_unknown_thresholds_are_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'jain_index'"):
        Thresholds.of({"jain": 0.9})


def test_unknown_resources_and_no_runs_are_refused(limited: Dataset) -> None:
    with pytest.raises(UnknownNameError, match="no-such"):
        study_bottleneck(limited, "no-such-*")
    with pytest.raises(InsufficientDataError, match="there is no run"):
        study_bottleneck(Without(limited, "runs"))


_OUTSIDE = ("load generator", "session time outside the servers")


@pytest.mark.parametrize(
    ("values", "more", "limit"),
    [
        ({("CPU", "busy"): 95.0}, {}, "CPU"),
        ({("device", "busy (busiest device)"): 95.0}, {}, "device"),
        ({("network", "of its speed (busiest interface)"): 93.0}, {}, "network"),
        ({("WAL and checkpoints", "session time in WAL waits"): 40.0}, {}, "WAL"),
        ({("load generator", "threads outside operations (Little)"): 60.0}, {}, "load generator"),
        ({("CPU", "busy"): 60.0, ("CPU", "stalled"): 76.0, _OUTSIDE: 99.0}, {}, "CPU"),
        ({("CPU", "stalled"): 94.0}, {}, "CPU"),
        ({("CPU", "busy"): 10.0, ("CPU", "stalled"): 2.0, _OUTSIDE: 99.0}, {}, "load generator"),
        ({("CPU", "busy"): 95.0}, {"missing_threads": 3}, "connections"),
        ({("CPU", "busy"): 95.0}, {"rate_limited": True, "reached_share": 0.99}, "none found"),
        ({("CPU", "busy"): 95.0}, {"rate_limited": True, "reached_share": 0.5}, "CPU"),
        ({("CPU", "busy"): 95.0}, {"balance": balance([3, 3], ["1", "2"])}, "CPU"),
    ],
)
def test_rules_are_asked_in_order(values: dict[tuple[str, str], float], more: dict[str, Any], limit: str) -> None:
    facts = RunFacts(values, dict.fromkeys(values), **more)
    assert judge(facts, Thresholds(), {"resource": "w2"}, 1).limit == limit


_CLOSE = ("WAL and checkpoints", "between checkpoints for WAL")
_WAL = ("WAL and checkpoints", "session time in WAL waits")
_UNEVEN = {"balance": balance([9, 0, 0], ["0", "1", "2"])}
#: Threshold -> a value beyond what was measured, measurements, and the limit and confidence with its default.
CHANGED: dict[str, tuple[float, dict[tuple[str, str], float], dict[str, Any], tuple[str, str]]] = {
    "saturated_percent": (99.0, {("CPU", "busy"): 95.0}, {}, ("CPU", "medium")),
    "throttled_percent": (60.0, {("CPU", "periods stopped by a quota"): 50.0}, {}, ("CPU quota", "high")),
    "waiting_percent": (60.0, {("locks", "session time in lock waits"): 50.0}, {}, ("locks", "medium")),
    "outside_percent": (
        80.0,
        {_OUTSIDE: 70.0},
        {},
        ("load generator", "medium"),
    ),
    "stalled_percent": (90.0, {("CPU", "busy"): 95.0, ("CPU", "stalled"): 80.0}, {}, ("CPU", "high")),
    "checkpoint_distance_s": (5.0, {_WAL: 40.0, _CLOSE: 10.0}, {}, ("checkpoints", "medium")),
    "jain_index": (0.2, {}, _UNEVEN, ("one node", "medium")),
    "uneven_p": (1e-9, {}, _UNEVEN, ("one node", "medium")),
    "reached_share": (1.0, {}, {"rate_limited": True, "reached_share": 0.99}, ("none found", "high")),
}


@pytest.mark.parametrize("name", SOURCES)
def test_each_threshold_decides(name: str) -> None:
    value, values, more, expected = CHANGED[name]
    facts = RunFacts(values, dict.fromkeys(values), **more)
    first, changed = (judge(facts, limits, {}, 1) for limits in (Thresholds(), Thresholds.of({name: value})))
    assert (first.limit, first.confidence) == expected
    assert (changed.limit, changed.confidence) != expected
