"""The audit finds what the publications got wrong, and is silent where they are right."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import citus_analysis as ca
from citus_analysis.core.frames import convert_to_polars
from citus_analysis.errors import PublishedDataError
from citus_analysis.published import audit, published
from citus_analysis.published.auditing import AuditResult
from citus_analysis.published.checks import CHECKS
from citus_analysis.schema import TABLES
from citus_analysis.stats import mean_interval
from tests.shards import count_examples

WORKERS = (2, 4, 8, 16, 32)


@pytest.fixture(scope="module")
def shipped_audit() -> AuditResult:
    return audit()


def found(result: AuditResult, **wanted: str) -> pl.DataFrame:
    return convert_to_polars(result.findings).filter(**wanted)


def of(tmp_path: Path, text: str) -> AuditResult:
    path = tmp_path / "mine.csv"
    path.write_text(text, encoding="utf-8")
    return audit([path])


def test_no_unit_is_printed_twice(shipped_audit: AuditResult) -> None:
    stated = shipped_audit.details["stated"]
    assert "25%" in stated
    assert not stated.str.contains("% ?%").any()


def alarms(result: AuditResult) -> list[tuple[str, str]]:
    return convert_to_polars(result.findings).filter(pl.col("severity") != "green").select("severity", "check").rows()


class TestPublications:
    def test_sigma_of_table_5_6_is_copied_from_5_7(self, shipped_audit: AuditResult) -> None:
        row = found(shipped_audit, check="copied_sigma").row(0, named=True)
        assert (row["severity"], row["source"], row["table"]) == ("red", "thesis", "5.6")
        assert row["stated"] == "2374.32, 7473.57, 3216.34"
        assert "table 5.7" in row["expected"]
        assert "intervals need other values" in row["explanation"]

    def test_no_n_explains_the_intervals_of_table_5_6(self, shipped_audit: AuditResult) -> None:
        rows = found(shipped_audit, check="interval_n", table="5.6")
        assert rows["severity"].to_list() == ["red"] * 4

    def test_intervals_of_table_5_7_imply_n(self, shipped_audit: AuditResult) -> None:
        rows = found(shipped_audit, check="interval_n", table="5.7").rows_by_key("row", named=True)
        implied = [rows[f"INSERT, {w} workers of 16 vCPUs"][0]["expected"] for w in WORKERS]
        assert implied == [f"n = {n} (normal quantile)" for n in (5, 5, 3, 4, 4)]
        assert rows["all rows"][0]["stated"] == "n = 5, 5, 3, 4, 4"

    def test_intervals_of_table_5_7_are_too_narrow_for_student(self, shipped_audit: AuditResult) -> None:
        rows = found(shipped_audit, check="interval_quantile", table="5.7")
        assert rows["severity"].to_list() == ["amber"] * 5
        # t quantile with 4 degrees of freedom 2.776: 2.776 × 2374.32 / √5 = 2,948
        assert rows["expected"][0] == "± 2,948 operations/s at n = 5"
        assert rows["stated"][0] == "± 2,081 operations/s"

    def test_equation_5_2_forgets_the_connections(self, shipped_audit: AuditResult) -> None:
        row = found(shipped_audit, check="littles_law", table="equation 5.2").row(0, named=True)
        assert row["severity"] == "red"
        assert row["expected"] == "72,727 operations/s (800 / 11 ms)"
        assert row["stated"] == "1.1 million"

    def test_postgres_xc_scale_factors(self, shipped_audit: AuditResult) -> None:
        rows = found(shipped_audit, check="scale_factor", severity="red")
        assert rows["row"].to_list() == ["Postgres-XC, 1 server", "Postgres-XC, 3 servers"]
        assert rows["stated"].to_list() == ["0.72", "2.3"]
        assert rows["expected"][0].startswith("0.76 ")
        assert rows["expected"][1].startswith("2.227 ")

    @pytest.mark.parametrize("table", ["insert throughput", "update throughput"])
    def test_tables_of_the_citus_documentation_raise_no_alarm(self, shipped_audit: AuditResult, table: str) -> None:
        rows = found(shipped_audit, source="citus_docs", table=table)
        assert set(rows["severity"]) == {"green"}
        assert "littles_law" in set(rows["check"])

    @pytest.mark.parametrize(
        ("check", "table", "row"),
        [
            ("stated_twice", "section 5.1", "monitor client"),
            ("stated_twice", "section 2.4", "Aurora, read replicas"),
            ("per_day", "rates per day", "INSERTs per day, larger cluster"),
            ("units_plausible", "section 7.3", "Gigabit network"),
            ("product", "section 5.1", "GTM without proxy, estimate"),
        ],
    )
    def test_other_contradictions(self, shipped_audit: AuditResult, check: str, table: str, row: str) -> None:
        assert found(shipped_audit, check=check, table=table, row=row)["severity"].to_list() == ["red"]

    @pytest.mark.parametrize(
        ("check", "table", "rows"),
        [
            ("interval_resolution", "5.3", {"not monitored", "monitored"}),
            ("part_within_whole", "5.8", {f"SELECT, {w} workers of 16 vCPUs" for w in (2, 4)}),
            ("littles_law", "4.2", {f"INSERT, {n} million operations, 32 workers" for n in (1, 10)}),
            ("run_length", "4.2", {"INSERT, 1 million operations, 32 workers"}),
        ],
    )
    def test_doubts(self, shipped_audit: AuditResult, check: str, table: str, rows: set[str]) -> None:
        assert set(found(shipped_audit, check=check, table=table, severity="amber")["row"]) == rows

    def test_latencies_of_one_table_meet_throughputs_of_another(self, shipped_audit: AuditResult) -> None:
        row = found(shipped_audit, check="littles_law", table="5.4 and 5.7").row(0, named=True)
        assert (row["severity"], row["row"]) == ("green", "INSERT, 2 workers of 16 vCPUs (the first of 5)")

    def test_red_findings_are_these_and_no_others(self, shipped_audit: AuditResult) -> None:
        assert shipped_audit.count("red") == 13
        assert shipped_audit.has_red
        assert shipped_audit.verdict == "red"
        assert shipped_audit.findings["severity"].to_list()[:13] == ["red"] * 13
        assert shipped_audit.findings.schema == TABLES["findings"].polars_schema()


class TestOwnTables:
    def test_a_consistent_table_raises_no_alarm(self, tmp_path: Path) -> None:
        table = "workers,tps,sd,ci_low,ci_high,n,clients,latency (ms)\n2,9000,120.4,8851,9149,5,64,7.1\n"
        result = of(tmp_path, table)
        assert alarms(result) == []
        assert {"interval_n", "littles_law", "interval_centre"} <= set(result.findings["check"])

    @pytest.mark.parametrize(
        ("table", "alarm"),
        [
            ("tps,sd,ci_low,ci_high,n\n9000,120.4,8851,9149,9\n", ("red", "interval_n")),
            ("tps,sd,ci_low,ci_high,n\n9000,120.4,8895,9106,5\n", ("amber", "interval_quantile")),
            ("tps,sd,ci_low,ci_high,n,interval_level\n9000,120.4,8851,9149,5,195\n", ("red", "units_plausible")),
            ("tps,ci_low,ci_high\n9101,9200,9400\n", ("red", "interval_centre")),
            ("tps,ci_low,ci_high\n9101,9000,9400\n", ("amber", "interval_centre")),
            ("tps,clients,latency_ms\n9000,64,9.3\n", ("red", "littles_law")),
            ("tps,threads,latency_us\n9000,64,2300\n", ("amber", "littles_law")),
            ("p50_ms,p95_ms,p99_ms\n3.1,9.2,8.7\n", ("red", "percentiles_ordered")),
            ("50th pctl. (ms),99th pctl. (ms)\n3.1,2.9\n", ("red", "percentiles_ordered")),
            ("tps,cpu_percent\n9000,104.2\n", ("red", "units_plausible")),
            ("tps,workers\n9000,2.5\n", ("red", "units_plausible")),
            ("tps,latency_s\n9000,0.0000003\n", ("red", "units_plausible")),
            ("tps,sd\n9000,12000\n", ("amber", "units_plausible")),
            ("set-up,tps\ndriver 1,4521\ndriver 2,4480\ntotal,9201\n", ("red", "parts_add_up")),
            ("set-up,tps,scale_factor\na,4521,1.0\nb,8122,1.9\n", ("red", "scale_factor")),
            ("workers,tps,speedup\n1,4521,1\n2,8122,1.9\n", ("red", "scale_factor")),
            ("workers,tps,efficiency\n1,4521,1\n2,8122,0.95\n", ("red", "scale_factor")),
            ("workers,tps,efficiency (%)\n1,4521,100\n2,8122,95\n", ("red", "scale_factor")),
            ("tps,base_tps,speedup\n9043,4521,2.2\n", ("red", "ratio")),
            ("tps,operations\n9043,90000\n", ("amber", "run_length")),
            ("workers,vcpus_per_worker,vcpus\n4,16,60\n", ("red", "product")),
            ("metric,value,row\ntps,9043,a\ntps,8122,a\n", ("amber", "stated_twice")),
            ("tps,clients,latency (µs)\n9000,64,9300\n", ("red", "littles_law")),
            ("tps,clients,latency_ms\n9000,64,0.0071\n", ("red", "littles_law")),
            ("tps,clients,target,latency_ms\n9000,64,9000,0.0071\n", ("amber", "littles_law")),
            ("tps,operations,runtime_s\n9000,1000000,140\n", ("red", "throughput_identity")),
            ("tps,operations,runtime_s\n9000,1000000,118\n", ("amber", "throughput_identity")),
            ("tps,operations,runtime_s,drivers\n9000,1000000,222,2\n", ("amber", "throughput_identity")),
            ("latency_ms,max_latency_ms\n7.1,6.4\n", ("red", "percentiles_ordered")),
            ("latency_ms,p50_ms,p99_ms\n7.1,15.2,20.4\n", ("red", "percentiles_ordered")),
            ("latency_ms,p50_ms,max_ms\n7.1,2.1,11.4\n", ("red", "percentiles_ordered")),
            ("latency_ms,p99_ms\n7.1,2.1\n", ("amber", "percentiles_ordered")),
            ("latency_ms,server_latency_ms\n7.1,9.4\n", ("red", "part_within_whole")),
            ("tps,sd,se,n\n9000,120.4,90.1,5\n", ("red", "spread_identity")),
            ("tps,sd,cv (%),n\n9000,120.4,2.3,5\n", ("red", "spread_identity")),
            ("tps ± sd,ci_low,ci_high,n\n9000 ± 120.4,8851,9149,9\n", ("red", "interval_n")),
            ("tps ± ci,sd,n\n9000 ± 149,120.4,9\n", ("red", "interval_n")),
            ("tps,sd,99% CI low,99% CI high,n\n9000,120.4,8851,9149,5\n", ("red", "interval_n")),
            ("mode,tps\na,12.3\nb,11875\nc,12012\n", ("amber", "same_magnitude")),
            ("workers,tps,p99_ms\n2,8122,7.35\n4,9043,6.81\n8,9043,6.81\n", ("red", "copied_row")),
            ("workers,tps,p99_ms\n2,8122.4,7.35\n4,8122.4,6.81\n8,9043.1,6.62\n", ("amber", "copied_cell")),
            ("workers,tps,flux\n2,8122,7.35\n", ("amber", "unread")),
            ("workers,tps,spin\n2,8122,0.5kB\n", ("amber", "unread")),
            ("workers,tps\n2,8122 ± 120\n", ("amber", "unread")),
        ],
    )
    def test_contradictions_are_found(self, tmp_path: Path, table: str, alarm: tuple[str, str]) -> None:
        worst = alarms(of(tmp_path, table))[0]
        assert worst == alarm

    @pytest.mark.parametrize(
        "table",
        [
            "tps,sd,ci_low,ci_high,n\n9000,120.4,8851,9149,5\n9100,95.25,8982,9218,5\n",
            "tps,sd,ci_low,ci_high,n,interval_level\n9000,120.4,8851,9149,5,95\n",
            "tps,clients,latency_ms\n9000,256,28.5\n",  # 256.5 by face value, 255.6 by rounding
            "set-up,tps\ndriver 1,4521\ndriver 2,4480\ntotal,9001\n",
            "set-up,tps,scale_factor\na,4521,1.0\nb,8122,1.8\nc,8136,1.79\n",  # rounded and cut off
            "tps,base_tps,change_percent\n9043,4521,100\n",
            "workers,tps,efficiency (%)\n1,4521,100\n2,8122,90\n",
            "set-up,tps\nrun,9000\nrun,9100\nrun,9050\n",
            "tps,sd\n9000,80\n",
            "clients,iteration,driver,tps,latency_ms\n16,1,1,1612.4,9.92\n16,2,1,1633.9,9.79\n",
            "clients,runs,tps,sd\n16,5,1612.4,31.2\n32,5,2612.4,33.1\n",
            "tps,clients,latency (µs)\n9000,64,7100\n",
            "req/s,clients,latency_ms\n9000,64,7.1\n",
            "tps,clients,latency_ms\n12.3k,64,5.1\n",
            "tps,clients,p99.9 (ms),p99 (ms)\n9000,64,7.1,5.2\n",
            "tps,reads/s,writes/s,disk (MB/s)\n9000,8500,500,31.2\n",
            "system,workers,tps,speedup\na,1,4521,1\na,2,8122,1.80\nb,1,2000,1\nb,2,3800,1.90\n",
            "db,workers,tps,speedup\na,1,4521,1\nb,1,2000,1\na,2,8122,1.80\nb,2,3800,1.90\n",
            "system,tps,speedup\na,4521,1\na,4400,0.97\nb,2000,0.44\n",
            "workload,set-up,tps\nA,driver 1,4521\nA,driver 2,4480\nA,total,9001\nB,driver 1,10\nB,driver 2,20\n"
            "B,total,30\n",
            "workers,threads,tps,efficiency (%)\n1,8,4521,100\n1,16,8122,90\n2,8,9313,103\n",
            "mode,tps,sd,ci_low,ci_high,n\na,12300,456,11700,12900,5\nb,9870,312,9480,10300,5\nc,456,12,441,471,5\n",
            "tps ± sd,ci_low,ci_high,n\n9000 ± 120.4,8851,9149,5\n",
            "tps ± ci,sd,n\n9000 ± 149,120.4,5\n",
            "[READ].Return=OK,[UPDATE].Return=OK,[OVERALL].Throughput(ops/sec),[OVERALL].RunTime(ms)\n"
            "4998105,5001895,31748.65,314974\n",
            "tps;latency_ms\n9000;7.1\n",
            "| tps | latency_ms |\n|---:|---:|\n| 9000 | 7.1 |\n",
            "metric,2 workers,4 workers\ntps,9000,17000\nspeedup,1,1.89\n",
            "p50_ms,p95_ms\n3.1,3.1\n",
        ],
    )
    def test_rounding_and_repetitions_raise_no_alarm(self, tmp_path: Path, table: str) -> None:
        assert alarms(of(tmp_path, table)) == []

    def test_the_stated_level_counts(self, tmp_path: Path) -> None:
        result = of(tmp_path, "tps,sd,ci_low,ci_high,n,interval_level\n9000,120.4,8851,9149,5,0.99\n")
        assert alarms(result) == [("red", "interval_n"), ("amber", "interval_quantile")]

    def test_units_come_from_the_names_of_metrics(self, tmp_path: Path) -> None:
        law = found(of(tmp_path, "tps,clients,latency (ms)\n9000,256,28.5\n"), check="littles_law").row(0, named=True)
        assert (law["expected"], law["stated"]) == ("8,982 operations/s (256 / 28.5 ms)", "9000 operations/s")

    def test_unit_slips_are_named(self, tmp_path: Path) -> None:
        result = of(tmp_path, "tps,clients,latency_ms\n9000,64,7100\n")
        assert "wrong unit" in found(result, check="littles_law")["explanation"][0]

    def test_a_quantity_where_the_others_give_none_is_found(self, tmp_path: Path) -> None:
        result = of(tmp_path, "tps,operations,sampling_percent,samples\n10,0,1,5\n")
        (text,) = found(result, check="product", severity="red")["explanation"]
        assert text == "samples is not 0, the value that the other numbers give"

    def test_frames_of_any_kind(self) -> None:
        frame = published("thesis", "5.6")
        expected = audit([frame]).findings
        assert TABLES["findings"].conform(convert_to_polars(audit([frame.to_pandas()]).findings)).equals(expected)
        assert TABLES["findings"].conform(convert_to_polars(audit([frame.to_arrow()]).findings)).equals(expected)

    @pytest.mark.parametrize("kind", ["polars", "pandas", "arrow"])
    def test_a_frame_of_any_kind_is_audited(self, kind: str) -> None:
        frame = pl.DataFrame({"clients": [64], "tps": [9000], "latency (µs)": [9300.0]})
        given = {"polars": frame, "pandas": frame.to_pandas(), "arrow": frame.to_arrow()}[kind]
        assert alarms(ca.audit(given)) == [("red", "littles_law")]

    def test_the_index_of_a_pandas_frame_is_read(self) -> None:
        frame = pd.DataFrame({"clients": [64, 128], "tps": [9000, 9100], "latency (µs)": [7100, np.nan]})
        assert alarms(ca.audit(frame.set_index("clients"))) == []
        assert found(ca.audit(frame.set_index("clients")), check="littles_law").height == 1

    def test_every_column_that_nothing_reads_is_named(self) -> None:
        frame = pl.DataFrame(
            {"tps": ["9000", "9100"], "flux": [1.5, 2.5], "spin": ["3 hz2", "4 hz2"], "mode": ["a", "b"]}
        )
        named = found(ca.audit(frame), check="unread")["row"].to_list()
        assert named == ["column spin", "column flux"]

    def test_a_table_beside_its_own_copy_is_no_copy(self) -> None:
        frame = published("thesis", "5.7")
        renamed = frame.with_columns(source=pl.lit("again"))
        assert found(audit([frame, renamed]), check="copied_sigma").is_empty()

    def test_malformed_files_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(PublishedDataError, match=r"mine\.csv: line 2, column 'value'"):
            of(tmp_path, "metric,value\ntps,fast\n")

    def test_nothing_in_nothing_out(self) -> None:
        assert str(audit([])) == "0 red, 0 amber, 0 green"
        assert audit([]).verdict == "green"


@settings(max_examples=count_examples(40), deadline=None)
@given(st.lists(st.floats(500, 2_000), min_size=3, max_size=9), st.integers(0, 2))
def test_honest_summaries_are_never_red(values: list[float], decimals: int) -> None:
    interval = mean_interval(values)
    sigma = float(np.std(values, ddof=1))
    if sigma < 10:
        return
    texts = {
        "throughput_ops_s": interval.estimate,
        "sigma_ops_s": sigma,
        "interval_low_ops_s": interval.low,
        "interval_high_ops_s": interval.high,
    }
    rounded = {name: f"{value:.{decimals}f}" for name, value in texts.items()}
    frame = pd.DataFrame(
        {"source": "s", "table": "t", "row": "r", "metric": list(rounded), "stated": list(rounded.values())}
    ).assign(value=[float(text) for text in rounded.values()], n=len(values))
    assert not audit([frame]).has_red


def test_every_check_has_its_question() -> None:
    assert all(check.question.endswith("?") for check in CHECKS.values())
    assert {name for name, check in CHECKS.items() if check.name == name} == set(CHECKS)


def test_the_manual_lists_every_check() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "published.md").read_text(encoding="utf-8")
    assert [check.name for check in CHECKS.values() if f"| `{check.name}` | {check.question} |" not in manual] == []


def test_the_expected_value_is_that_of_the_printed_numbers() -> None:
    """275,000 over 250,000 is 10 % more; the ends are those of the digits, which are no centre."""
    subject = "INSERT, 32 workers, two drivers"
    found = ca.audit(published("thesis", "section 5.3")).details.filter(check="ratio", row=subject)
    assert found["expected"].to_list() == ["10 % (digits allow 5.577 to 12.65)"]
    own = pl.DataFrame({"tps": ["500"], "base_tps": ["~400"], "speedup": ["1.25"], "penalty_percent": ["-25"]})
    expected = ca.audit(own).details.filter(check="ratio")["expected"]
    assert [text.partition(" (")[0] for text in expected] == ["1.25", "-25 %"]
