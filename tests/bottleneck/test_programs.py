"""Programs as evidence of a limit, and samples that cannot be placed in a run."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from citus_analysis.bottleneck.limits import RunFacts, judge
from citus_analysis.bottleneck.measurements import ProgramShares, Thresholds, describe_program_shares, measure_hosts
from citus_analysis.bottleneck.resources import sum_program_loads
from citus_analysis.bottleneck.samples import describe_unplaced_samples
from citus_analysis.schema import TABLES

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
USED = ProgramShares(
    {("CPU", "1"): (("postgres", 71.0), ("pgbench", 25.0)), ("device", "1"): (("postgres", 93.0), ("tar", 4.0))}
)
BUSY, DISK, STALLED = ("CPU", "busy"), ("device", "busy (busiest device)"), ("CPU", "stalled")
HOST_TABLES = (
    *("cpu_samples", "device_samples", "vm_samples", "pressure_samples", "net_samples", "throttle_samples", "settings"),
    *("process_samples", "activity_samples", "nodes"),
)
OUTSIDE = ("load generator", "session time outside the servers")
OF_CPU = "of the CPU time of the programs that pidstat listed on node 1, postgres used 71 % and pgbench 25 %"
OF_DISK = "of what the programs that pidstat listed on node 1 read and wrote, postgres had 93 %"


@pytest.mark.parametrize(
    ("values", "expected"),
    [({BUSY: 95.0}, OF_CPU), ({DISK: 95.0}, OF_DISK), ({BUSY: 60.0, STALLED: 80.0}, OF_CPU)],
)
def test_the_programs_of_the_limiting_node_are_evidence(values: dict[tuple[str, str], float], expected: str) -> None:
    verdict = judge(RunFacts(values, dict.fromkeys(values, "1"), programs=USED), Thresholds(), {}, 1)
    assert verdict.evidence[-1] == expected
    elsewhere = judge(RunFacts(values, dict.fromkeys(values, "2"), programs=USED), Thresholds(), {}, 1)
    assert elsewhere.evidence == verdict.evidence[:-1] or "node 2" in elsewhere.evidence[0]
    assert not any("pidstat" in words for words in elsewhere.evidence)


def test_pidstat_is_advised_only_where_it_is_missing() -> None:
    values = {BUSY: 95.0, OUTSIDE: 70.0}
    without, known = (
        judge(RunFacts(values, dict.fromkeys(values, "1"), programs=programs), Thresholds(), {}, 1)
        for programs in (None, USED)
    )
    assert "pidstat" in without.decide[0]
    assert "pidstat" not in known.decide[0]


def runs() -> pl.DataFrame:
    """Two runs of ten seconds of one configuration."""
    starts = [START, START + timedelta(minutes=1)]
    rows = [
        {"resource": "r", "run_id": f"r/{n}", "start_time": at, "end_time": at + timedelta(seconds=10), "threads": 4}
        for n, at in enumerate(starts)
    ]
    return pl.DataFrame(rows)


def samples(*rows: tuple[float, str, float | None, float | None]) -> pl.DataFrame:
    """Rows of pidstat: seconds since the first run began, command, CPU time, kB written."""
    common = {"resource": "r", "node": "1", "source_id": "p", "since_boot": False}
    return TABLES["process_samples"].conform(
        pl.DataFrame(
            [
                {**common, "sample": int(at), "sample_time": START + timedelta(seconds=at), "command": command}
                | {"cpu_percent": cpu, "write_kb_s": kb}
                for at, command, cpu, kb in rows
            ],
            infer_schema_length=None,
        )
    )


def test_a_program_that_a_run_does_not_list_counts_as_none_there() -> None:
    seen = [(1.0, "postgres", 60.0, None), (2.0, "postgres", 60.0, None), (1.0, "vacuumdb", 20.0, 50.0)]
    later = [(61.0, "postgres", 40.0, None), (62.0, "postgres", 40.0, None)]
    found = sum_program_loads(samples(*seen, *later), runs(), ("resource", "threads"))
    columns = ("threads", "program", "runs", "samples", "cpu_percent", "cpu_share_percent", "disk_share_percent")
    assert found.select(columns).rows() == [
        (4, "postgres", 2, 4, 50.0, pytest.approx(100 * 50 / 55), 0.0),
        (4, "vacuumdb", 2, 4, 5.0, pytest.approx(100 * 5 / 55), 100.0),
    ]
    words = describe_program_shares(found).words("CPU", "1")
    assert words is not None
    assert words.endswith("postgres used 91 % and vacuumdb 9 %")


def test_samples_from_outside_the_runs_name_no_program() -> None:
    found = sum_program_loads(samples((-30.0, "java", 90.0, None), (30.0, "java", 90.0, None)), runs(), ("resource",))
    assert found.is_empty()
    assert describe_program_shares(found).words("CPU", "1") is None


@pytest.mark.parametrize(
    ("at", "known", "reason"),
    [
        (-30.0, True, "none was taken while its clients ran"),
        (5.0, False, "it is not known when its runs took place"),
        (None, True, "the sampler printed no times"),
        (5.0, True, None),
    ],
)
def test_samples_that_cannot_be_placed_are_named_with_the_reason(
    at: float | None, known: bool, reason: str | None
) -> None:
    times = [None, None] if at is None else [START + timedelta(seconds=at + more) for more in (0, 1)]
    rows = {"resource": ["r", "r"], "sample_time": times, "source_id": ["p", "p"], "since_boot": [False, False]}
    table = pl.DataFrame(rows, schema_overrides={"sample_time": pl.Datetime("us", "UTC")})
    nothing = pl.lit(None, pl.Datetime("us", "UTC"))
    of_runs = runs() if known else runs().with_columns(start_time=nothing, end_time=nothing)
    sentences = describe_unplaced_samples({"pressure_samples": table, "process_samples": table}, of_runs)
    if reason is None:
        assert sentences == []
    else:
        (sentence,) = sentences
        assert sentence.startswith(f"Samples of pressure and programs of r enter no mean, because {reason}")


def test_the_interface_closest_to_its_speed_is_measured() -> None:
    common = {"resource": "r", "node": "1", "source_id": "s", "since_boot": False, "receive_kb_s": 1.0}
    rows = [
        {**common, "sample": at, "sample_time": START + timedelta(seconds=at), "interface": name} | values
        for at in (1, 2, 3)
        for name, values in (
            ("eth0", {"transmit_kb_s": 1.0, "utilization_percent": 90.0 + at}),
            ("eth0", {"transmit_kb_s": None, "utilization_percent": None}),
            ("lo", {"transmit_kb_s": 9.0, "utilization_percent": 0.0}),
        )
    ]
    tables = {name: TABLES[name].empty() for name in HOST_TABLES}
    tables["net_samples"] = TABLES["net_samples"].conform(pl.DataFrame(rows, infer_schema_length=None))
    found = pl.concat(measure_hosts(tables, runs())).filter(part="network", unit="%")
    assert found.select("run_id", "node", "value", "samples").rows() == [("r/0", "1", 92.0, 3)]
