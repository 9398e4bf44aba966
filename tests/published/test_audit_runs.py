"""The audit of our own runs, on recordings of a real cluster and on recordings with one number spoilt."""

from dataclasses import dataclass, replace

import polars as pl
import pytest

from citus_analysis.core.frames import convert_to_polars
from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.published import audit_runs
from citus_analysis.published.auditing import AuditResult
from citus_analysis.published.run_checks import RUN_CHECKS
from citus_analysis.report.page import (
    ADVICE,
    audit_block,
    count_runs_by_severity,
    find_shared_doubts,
    write_latency_warnings,
)
from citus_analysis.schema import TABLES
from tests.recordings import RECORDED

#: Two load generators, enough threads to wait for the client, whole-millisecond histograms, failures, repetitions,
#: a target rate with intended latencies, buckets.
CHOSEN = (
    "w2-drivers2-select",
    "w2-t128-select",
    "w2-histogram-mixed",
    "w2-fail-stop-insert",
    "w1-t4-select",
    "w2-all-f",
    "w2-target-select",
    "w2-verbose-mixed",
)


@dataclass(frozen=True)
class Tables:
    runs: pl.DataFrame
    clients: pl.DataFrame
    operation_latencies: pl.DataFrame
    client_series: pl.DataFrame
    client_metrics: pl.DataFrame

    def audit(self) -> AuditResult:
        return audit_runs(*vars(self).values())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    out = tmp_path_factory.mktemp("audit") / "dataset"
    source = tmp_path_factory.mktemp("recorded")
    for name in CHOSEN:
        (source / name).mkdir()
        (source / name / "YCSB").symlink_to(RECORDED / name / "YCSB")
    ingest([source / name for name in CHOSEN], out, jobs=1)
    dataset = open_dataset(out)
    return Tables(**{name: dataset.table(name) for name in Tables.__dataclass_fields__})


@pytest.fixture(scope="module")
def honest(recorded: Tables) -> AuditResult:
    return recorded.audit()


def details(result: AuditResult, check: str) -> pl.DataFrame:
    return result.details.filter(check=check)


class TestRecordings:
    def test_real_runs_do_not_contradict_themselves(self, honest: AuditResult) -> None:
        assert not honest.has_red
        # Of samples only those whose values cannot be are findings.
        assert set(honest.details["check"]) == RUN_CHECKS.keys() - {"possible_values", "run_times", "distinct_outputs"}

    def test_every_run_is_looked_at(self, honest: AuditResult, recorded: Tables) -> None:
        assert details(honest, "run_status")["row"].to_list() == recorded.runs["run_id"].to_list()

    def test_counts_are_of_runs_and_not_of_kinds_of_checks(self, honest: AuditResult, recorded: Tables) -> None:
        assert honest.findings.filter(severity="green", check="run_status").height == 1
        short = recorded.runs.with_columns(runtime_ms=pl.lit(5_000.0), throughput_ops_s=pl.col("operations_done") / 5)
        result = replace(recorded, runs=short).audit()
        concerned = result.details.filter(severity="amber")
        assert result.count("amber") == concerned.n_unique(["source", "row"]) >= recorded.runs.height
        assert result.checks("amber") == concerned["check"].n_unique() < recorded.runs.height
        assert f"{result.count('amber')} amber" in str(result)
        assert sum(count_runs_by_severity(result).values()) == recorded.runs.height
        amber = count_runs_by_severity(honest)["amber"]
        assert 1 < amber <= recorded.runs.height
        besides = count_runs_by_severity(honest, without=find_shared_doubts(honest))["amber"]
        assert f"<b>{besides}</b> " in audit_block(honest)
        assert "Measure for 30 s or longer." in audit_block(honest)

    def test_every_check_says_what_to_do(self) -> None:
        assert set(ADVICE) == set(RUN_CHECKS)

    def test_failed_runs_are_named_with_their_reason(self, honest: AuditResult) -> None:
        failed = details(honest, "run_status").filter(severity="amber")
        assert failed["source"].to_list() == ["w2-fail-stop-insert"]
        # truth/runs.json: 60,000 planned; the worker was stopped on the way
        assert failed["stated"][0].startswith("35275 of 60000 planned operations attempted")

    def test_added_throughputs_overstate_where_drivers_do_not_overlap(self, honest: AuditResult) -> None:
        row = details(honest, "throughput_identity").filter(severity="amber").row(0, named=True)
        assert row["source"] == "w2-drivers2-select"
        assert row["expected"] == "80,000 operations"
        assert "too large by 4.7 %" in row["explanation"]

    def test_a_throughput_that_counts_failures(self, recorded: Tables) -> None:
        half = pl.when(resource="w2-all-f").then(pl.col("operations_done") // 2).otherwise("operations_done")
        lost = recorded.runs.with_columns(operations_done=half, failed_operations=pl.col("operations_done") - half)
        row = details(audit_runs(lost), "throughput_identity").filter(source="w2-all-f").row(0, named=True)
        assert row["severity"] == "amber"
        assert row["explanation"] == "the client's throughput counts 20,000 failed operations"

    def test_little_law_shows_the_client(self, honest: AuditResult) -> None:
        rows = details(honest, "littles_law")
        many = rows.filter(source="w2-t128-select").row(0, named=True)
        assert (many["severity"], many["stated"]) == ("amber", "99.24 of 128 threads in the system")
        # READ-MODIFY-WRITE is made of a READ and an UPDATE: counted twice, it would need 26 of 16 threads
        composed = rows.filter(source="w2-all-f").row(0, named=True)
        assert (composed["severity"], composed["stated"]) == ("green", "15.05 of 16 threads in the system")

    def test_short_runs_and_few_repetitions_are_amber(self, honest: AuditResult) -> None:
        assert set(details(honest, "run_length")["severity"]) == {"amber"}
        counts = {row["source"]: row["stated"] for row in details(honest, "iterations").iter_rows(named=True)}
        assert counts["w1-t4-select"] == "n = 3"
        assert counts["w2-all-f"] == "n = 1"

    def test_runs_of_unknown_work_repeat_nothing(self, recorded: Tables) -> None:
        unnamed = recorded.runs.with_columns(phase=pl.lit(None, pl.String), workload=pl.lit(None, pl.String))
        found = audit_runs(unnamed).details["check"]
        assert "run_length" in found
        assert "iterations" not in found

    def test_intended_latencies_stand_beside_actual_ones(self, honest: AuditResult) -> None:
        rows = details(honest, "coordinated_omission").rows_by_key("row", named=True)
        (read,) = rows["w2-target-select/run-B-t8-r20000-o20000-w2-d1-i1 READ"]
        # the summary of the recording: 99th percentiles 19519 and 2633 µs
        assert read["severity"] == "amber"
        assert (read["expected"], read["stated"]) == (
            "intended mean 1.156 ms, p99 19.52 ms",
            "actual mean 0.511 ms, p99 2.633 ms",
        )
        assert len(rows) == 2

    def test_without_intended_latencies_omission_is_said(self, recorded: Tables) -> None:
        actual = recorded.operation_latencies.filter(~pl.col("operation").str.starts_with("Intended-"))
        (row,) = details(replace(recorded, operation_latencies=actual).audit(), "coordinated_omission").rows(named=True)
        assert (row["severity"], row["stated"]) == ("amber", "actual ones only")
        assert "measurement.interval=both" in row["explanation"]

    @pytest.mark.parametrize(
        ("tool", "severity", "stated"),
        [("pgbench", "green", "intended ones"), ("sysbench", "amber", "of unknown kind")],
    )
    def test_what_other_tools_measure_is_no_matter_of_ycsb(
        self, recorded: Tables, tool: str, severity: str, stated: str
    ) -> None:
        actual = recorded.operation_latencies.filter(~pl.col("operation").str.starts_with("Intended-"))
        other = recorded.clients.with_columns(tool=pl.lit(tool, recorded.clients.schema["tool"]))
        (row,) = details(
            replace(recorded, operation_latencies=actual, clients=other).audit(), "coordinated_omission"
        ).rows(named=True)
        assert (row["severity"], row["stated"]) == (severity, stated)
        assert "YCSB" not in row["explanation"]

    def test_buckets_of_a_millisecond_are_coarse(self, honest: AuditResult) -> None:
        rows = details(honest, "coarse_percentiles").rows_by_key("row", named=True)
        (update,) = rows["w2-verbose-mixed/run-A-t8-r20000-o30000-w2-d1-i1 UPDATE"]
        assert (update["severity"], update["stated"]) == ("amber", "p50 1.5 ms")
        assert not any("w2-target-select" in row for row in rows)

    def test_old_releases_print_the_90th_percentile_as_the_95th(self, honest: AuditResult, recorded: Tables) -> None:
        assert details(honest, "percentile_label")["severity"].unique().to_list() == ["green"]
        # YCSB 0.3.1: OneMeasurementHdrHistogram printed getValueAtPercentile(90) / 1000 as 95thPercentileLatency(ms).
        of_run = pl.col("resource").is_in(["w1-t4-select", "w2-histogram-mixed"])
        label = of_run & (pl.col("metric") == "95thPercentileLatency")
        old = recorded.client_metrics.with_columns(unit=pl.when(label).then(pl.lit("ms")).otherwise("unit"))
        rows = details(replace(recorded, client_metrics=old).audit(), "percentile_label").filter(severity="amber")
        assert rows["source"].unique().to_list() == ["w1-t4-select"]
        assert "YCSB issue 440" in rows["explanation"][0]

    def test_intended_latencies_count_no_operation_twice(self, honest: AuditResult, recorded: Tables) -> None:
        rows = details(honest, "measurement_interval")
        assert rows["severity"].unique().to_list() == ["green"]
        assert set(rows["source"]) == {"w2-target-select"}
        assert (rows["expected"] == rows["stated"]).all()
        some = pl.when(pl.col("operation").str.starts_with("Intended-")).then(7).otherwise("operations")
        fewer = recorded.operation_latencies.with_columns(operations=some.cast(pl.Int64))
        wrong = details(replace(recorded, operation_latencies=fewer).audit(), "measurement_interval")
        assert wrong["severity"].unique().to_list() == ["amber"]

    def test_intended_latencies_under_plain_names_are_named(self, recorded: Tables) -> None:
        renamed = recorded.clients.with_columns(
            pl.col("command_line").str.replace(
                "measurement.interval=both", "measurement.interval=intended", literal=True
            )
        )
        actual = recorded.operation_latencies.filter(~pl.col("operation").str.starts_with("Intended-"))
        result = replace(recorded, clients=renamed, operation_latencies=actual).audit()
        rows = details(result, "measurement_interval")
        assert rows["severity"].unique().to_list() == ["amber"]
        assert "Intended-READ" in rows["expected"].to_list()
        # Whoever measures from the scheduled start omits nothing.
        assert details(result, "coordinated_omission").is_empty()

    def test_every_report_warns_of_both(self, honest: AuditResult, recorded: Tables) -> None:
        coarse, omission = write_latency_warnings(honest)
        assert omission.startswith("Target rates: latencies of w2-target-select/")
        assert coarse.startswith("Coarse percentiles: ")
        assert " has p95 0 ms, known to 1 ms only" in coarse
        assert write_latency_warnings(audit_runs(recorded.runs)) == []

    def test_medians_come_from_buckets_where_a_client_prints_none(self, recorded: Tables) -> None:
        rows = recorded.operation_latencies.filter(resource="w2-verbose-mixed", role="main", operation="READ")
        columns = ("p50_us", "p95_us", "percentile_source")
        assert rows.select(columns).row(0) == (500.0, 2_000.0, "reported, others histogram")

    def test_the_block_for_a_report_is_short(self, honest: AuditResult) -> None:
        assert honest.findings.height <= 2 * len(RUN_CHECKS)
        assert honest.findings.schema == honest.details.schema == TABLES["findings"].polars_schema()
        worst = honest.findings.filter(check="run_length")["row"][0]
        assert worst.endswith(f"(the worst of {details(honest, 'run_length').height})")


class TestSpoiltRecordings:
    """One number of the recordings is changed; the check that knows it must say so, and no other turns red."""

    def red(self, spoilt: Tables) -> list[tuple[str, str]]:
        return spoilt.audit().details.filter(severity="red").select("check", "source").unique().rows()

    def test_throughput(self, recorded: Tables) -> None:
        wrong = pl.when(pl.col("resource") == "w2-all-f").then(1.05).otherwise(1.0) * pl.col("throughput_ops_s")
        spoilt = replace(
            recorded,
            runs=recorded.runs.with_columns(throughput_ops_s=wrong),
            clients=recorded.clients.with_columns(throughput_ops_s=wrong),
        )
        assert self.red(spoilt) == [("throughput_identity", "w2-all-f")]

    def test_a_lost_load_generator(self, recorded: Tables) -> None:
        kept = recorded.clients.filter((pl.col("resource") != "w2-drivers2-select") | (pl.col("part") == 0))
        assert self.red(replace(recorded, clients=kept)) == [("parts_add_up", "w2-drivers2-select")]

    def test_latency_in_another_unit(self, recorded: Tables) -> None:
        times = [name for name in recorded.operation_latencies.columns if name.endswith("_us")]
        thousandfold = pl.when(resource="w2-all-f").then(1_000.0).otherwise(1.0)
        wrong = recorded.operation_latencies.with_columns(pl.col(times) * thousandfold)
        assert self.red(replace(recorded, operation_latencies=wrong)) == [("littles_law", "w2-all-f")]

    def test_percentiles(self, recorded: Tables) -> None:
        swapped = recorded.operation_latencies.with_columns(
            p95_us=pl.when(resource="w2-all-f").then(pl.col("p99_us") + 1).otherwise(pl.col("p95_us"))
        )
        assert self.red(replace(recorded, operation_latencies=swapped)) == [("percentiles_ordered", "w2-all-f")]

    def test_a_middle_of_a_bucket_of_1_ms_may_lie_above_the_maximum(self, recorded: Tables) -> None:
        one = recorded.operation_latencies.filter(pl.col("role") == "main").head(1)
        for p99, severity in ((500.0, "green"), (501.0, "red")):
            ends = one.with_columns(p50_us=90.0, p95_us=95.0, p90_us=92.0, p99_us=p99, p999_us=p99, max_us=102.0)
            result = audit_runs(recorded.runs, operation_latencies=ends.with_columns(min_us=34.0, mean_us=80.0))
            assert details(result, "percentiles_ordered")["severity"].to_list() == [severity]

    def test_series_of_another_rate(self, recorded: Tables) -> None:
        lines = recorded.client_series.with_columns(pl.col("throughput_ops_s") * 1.2)
        found = details(replace(recorded, client_series=lines).audit(), "series_add_up")
        assert set(found["severity"]) == {"amber"}


def test_runs_alone_are_enough(recorded: Tables) -> None:
    result = audit_runs(recorded.runs)
    assert {"run_status", "throughput_identity", "run_length", "iterations"} <= set(result.details["check"])
    of_pandas = TABLES["findings"].conform(convert_to_polars(audit_runs(recorded.runs.to_pandas()).details))
    assert of_pandas.equals(result.details)


def test_no_runs_no_findings() -> None:
    assert audit_runs(TABLES["runs"].empty()).verdict == "green"


class TestCopiesAndTimes:
    def test_a_copy_that_claims_to_be_a_repeat_is_doubtful(self, recorded: Tables) -> None:
        first, second = recorded.runs["run_id"].to_list()[:2]
        metrics = recorded.client_metrics
        copied = metrics.filter(run_id=first).with_columns(run_id=pl.lit(second, metrics["run_id"].dtype))
        others = metrics.filter(pl.col("run_id").ne_missing(second))
        found = details(replace(recorded, client_metrics=pl.concat([others, copied])).audit(), "distinct_outputs")
        assert found["row"].to_list() == [max(first, second)]
        assert f"its output is that of {min(first, second)}" in found["explanation"].item()

    def test_a_run_that_ends_before_it_begins_contradicts_itself(self, recorded: Tables) -> None:
        run = recorded.runs["run_id"][0]
        early = pl.when(run_id=run).then(pl.col("start_time").dt.offset_by("-1h")).otherwise("end_time")
        result = replace(recorded, runs=recorded.runs.with_columns(end_time=early)).audit()
        assert details(result, "run_times").select("severity", "row").rows() == [("red", run)]
