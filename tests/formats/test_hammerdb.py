"""Files that HammerDB 4.12 wrote against PostgreSQL 15; expected values were read off them by eye."""

import json
import sqlite3
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, Hints, format_named
from citus_analysis.formats.hammerdb import read_job_facts
from tests.formats.clients import SAMPLES

RECORDED = SAMPLES / "hammerdb"


def parsed(path: Path) -> dict[str, pl.DataFrame]:
    pieces = list(format_named("hammerdb").parse(Content(path), Hints(path.name)))
    accounted = sum(piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes for piece in pieces)
    assert accounted == path.stat().st_size
    tables = ("clients", "client_metrics", "client_series", "client_errors", "rejects")
    return {table: pl.concat([piece.frame(table) for piece in pieces]) for table in tables}


def values(tables: dict[str, pl.DataFrame], section: str) -> dict[str, float]:
    return dict(tables["client_metrics"].filter(pl.col("section") == section).select("metric", "value").iter_rows())


def test_nopm_and_tpm_keep_their_names() -> None:
    tables = parsed(RECORDED / "4.12-console.log")
    told = values(tables, "OVERALL")
    assert (told["NOPM"], told["TPM"], told["timed test"], told["ramp-up"]) == (20569, 249483, 1, 0)
    client = tables["clients"].row(0, named=True)
    assert client["throughput_ops_s"] == pytest.approx(249483 / 60)
    assert (client["threads"], client["runtime_ms"], client["completed"]) == (1, 60_000, True)
    assert client["operations_done"] is None


def test_the_counter_is_the_series() -> None:
    series = parsed(RECORDED / "4.12-console.log")["client_series"]
    assert (series["throughput_ops_s"] * 60).round().to_list()[:3] == [0, 17640, 45408]
    assert series["elapsed_s"].null_count() == series.height


def test_the_time_profile_gives_latencies_and_says_what_they_include() -> None:
    tables = parsed(RECORDED / "4.12-hdbxtprofile.log")
    orders = values(tables, "NEWORD")
    assert (orders["CALLS"], orders["AVG"], orders["P99"]) == (20579, 1.32, 9.569)
    units = dict(tables["client_metrics"].filter(pl.col("section") == "NEWORD").select("metric", "unit").iter_rows())
    assert (units["AVG"], units["SD"]) == ("ms", "us")
    told = values(tables, "OVERALL")
    assert told["time profile includes ramp-up"] == 1
    assert told["virtual user 2: NEWORD P95"] == 5.038
    assert tables["clients"].is_empty()


def test_a_summary_that_counts_users_twice_is_not_believed(tmp_path: Path) -> None:
    twice = tmp_path / "hdbxtprofile.log"
    before, mark, after = (RECORDED / "4.12-hdbxtprofile.log").read_text(encoding="utf-8").partition(">>>>> SUMMARY")
    twice.write_text(before + mark + after.replace("CALLS: 20579", "CALLS: 41158"), encoding="utf-8")
    orders = values(parsed(twice), "NEWORD")
    assert (orders["CALLS"], orders["CALLS as summed by HammerDB"]) == (20579, 41158)


def test_failing_procedures_are_errors() -> None:
    tables = parsed(RECORDED / "4.12-failing.log")
    assert tables["client_errors"]["count"].sum() == 41
    assert values(tables, "OVERALL")["NOPM"] == 0


def test_passwords_of_the_console_are_not_stored(tmp_path: Path) -> None:
    told = tmp_path / "hammerdb.log"
    line = "Changed tpcc:pg_pass from tpcc to s3cr3t-word for PostgreSQL\n"
    told.write_text(line + (RECORDED / "4.12-console.log").read_text(encoding="utf-8"), encoding="utf-8")
    assert not any("s3cr3t-word" in str(frame.rows()) for frame in parsed(told).values())


def test_a_run_without_a_result_is_not_complete(tmp_path: Path) -> None:
    cut = tmp_path / "hammerdb.log"
    cut.write_text((RECORDED / "4.12-console.log").read_text(encoding="utf-8").partition("Vuser 1:1 ...,")[0])
    assert parsed(cut)["clients"]["completed"].to_list() == [False]


def test_version_6_prints_percentiles_of_a_reservoir_and_sd_in_ms() -> None:
    tables = parsed(RECORDED / "6.0-hdbxtprofile.log")
    orders = values(tables, "NEWORD")
    assert (orders["CALLS"], orders["P75"], orders["SD"]) == (16953, 0.642, 2.188)
    assert orders["percentiles from a reservoir"] == 1
    units = dict(tables["client_metrics"].filter(pl.col("section") == "NEWORD").select("metric", "unit").iter_rows())
    assert (units["SD"], units["P25"]) == ("ms", "ms")


@pytest.mark.parametrize("name", ["6.0-hammer.DB", "6.0-hdb_job.json"])
def test_the_database_and_the_json_of_a_job_tell_what_the_profile_and_the_console_do(name: str) -> None:
    tables, profile = parsed(RECORDED / name), parsed(RECORDED / "6.0-hdbxtprofile.log")
    for procedure in ("NEWORD", "PAYMENT", "DELIVERY", "SLEV", "OSTAT"):
        assert values(tables, procedure) == values(profile, procedure)
    told = values(tables, "OVERALL")
    assert (told["NOPM"], told["TPM"], told["timed test"], told["ramp-up"]) == (16946, 38850, 1, 0)
    client = tables["clients"].row(0, named=True)
    assert (client["throughput_ops_s"], client["threads"], client["runtime_ms"]) == (38850 / 60, 1, 60_000)
    series = tables["client_series"]
    assert (series["throughput_ops_s"] * 60).round().to_list() == [0, 39408, 62850, 65004, 32904, 21966, 10980]
    assert series["elapsed_s"].to_list() == [0, 10, 20, 30, 40, 50, 60]


def test_the_json_of_the_command_jobs_is_read_line_by_line() -> None:
    tables = parsed(RECORDED / "5.0-jobs.json.out")
    told, orders = values(tables, "OVERALL"), values(tables, "NEWORD")
    assert (told["NOPM"], told["TPM"]) == (7193, 16093)
    assert (orders["AVG"], orders["P99"], orders["SD"]) == (1.705, 12.008, 4956.465)
    assert tables["client_series"].height == 7
    # The user made 7240 calls in the 60 s, of which 20.6 % were spent in them.
    assert "CALLS" not in orders
    assert orders["CALLS as summed by HammerDB"] == 14480


def test_the_database_of_version_5_has_the_calls_of_each_user() -> None:
    orders = values(parsed(RECORDED / "5.0-hammer.DB"), "NEWORD")
    assert (orders["CALLS"], orders["CALLS as summed by HammerDB"]) == (7240, 14480)


def test_times_in_a_database_are_the_hosts() -> None:
    path = RECORDED / "5.0-hammer.DB"
    hints = Hints(path.name, {"timezone": "Europe/Amsterdam"})
    (piece,) = format_named("hammerdb").parse(Content(path), hints)
    assert str(piece.frame("client_series")["log_time"][0]) == "2026-11-22 21:12:23+00:00"


def test_a_database_gives_the_job_that_is_named_or_the_only_test(tmp_path: Path) -> None:
    path = RECORDED / "4.12-hammer.DB"
    assert values(parsed(path), "OVERALL")["NOPM"] == 20569
    several = tmp_path / "hammer.DB"
    several.write_bytes(path.read_bytes())
    with sqlite3.connect(several) as database:
        database.execute("UPDATE JOBOUTPUT SET jobid = '6B03440C660E03E213934333' WHERE output LIKE 'TEST RESULT%'")
        database.execute(
            "INSERT INTO JOBOUTPUT VALUES ('6B03452D660E03E213330313', 1, "
            "'TEST RESULT : System achieved 7 NOPM from 9 PostgreSQL TPM')"
        )
    database.close()
    with pytest.raises(FormatError, match=r"contains 2 jobs .*--meta hammerdb_job=6B03452D660E03E213330313"):
        parsed(several)
    hints = Hints(several.name, {"hammerdb_job": "6B03452D660E03E213330313"})
    (piece,) = format_named("hammerdb").parse(Content(several), hints)
    assert piece.frame("clients")["throughput_ops_s"].to_list() == [9 / 60]
    with pytest.raises(FormatError, match="contains no job X"):
        list(format_named("hammerdb").parse(Content(several), Hints(several.name, {"hammerdb_job": "X"})))


def test_passwords_of_a_job_are_not_stored() -> None:
    path = RECORDED / "6.0-hammer.DB"
    assert b"pg_superuserpass" in path.read_bytes()
    assert all("pass" not in str(table.rows()) for table in parsed(path).values())


@pytest.mark.parametrize("cut", [100, 4096, 30_000])
def test_a_damaged_database_is_refused(tmp_path: Path, cut: int) -> None:
    damaged = tmp_path / "hammer.DB"
    damaged.write_bytes((RECORDED / "6.0-hammer.DB").read_bytes()[:cut])
    with pytest.raises(FormatError, match="is not a database of HammerDB's jobs"):
        list(format_named("hammerdb").parse(Content(damaged), Hints(damaged.name)))


def test_a_database_whose_tables_are_views_is_refused(tmp_path: Path) -> None:
    hostile = tmp_path / "hammer.DB"
    with sqlite3.connect(hostile) as database:
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS jobid FROM n"
        for name in ("JOBMAIN", "JOBOUTPUT", "JOBTIMING", "JOBTCOUNT"):
            database.execute(f"CREATE VIEW {name} AS {endless}")
    database.close()
    with pytest.raises(FormatError, match="lacks the table JOBMAIN"):
        list(format_named("hammerdb").parse(Content(hostile), Hints(hostile.name)))


def test_the_warehouses_of_a_published_job_report() -> None:
    published = SAMPLES.parent / "collections" / "hammerdb"
    client = parsed(published / "postgresql-20260604.json")["clients"].row(0, named=True)
    assert (client["scale_factor"], client["threads"], client["new_orders_per_min"]) == (192, 24, 776679.0)
    facts = read_job_facts(Content(published / "mariadb-20260606.json"))
    assert facts == (
        "MariaDB 12.3.2",
        "TPROC-C",
        "warehouses 192, virtual users 24, rampup minutes 2, duration minutes 5",
        "Intel(R) Core(TM) i9-14900KS 24 31.3 GB",
        "2026-06-06 15:35:33",
        380714.0,
        None,
    )


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "hammerdb-job-report-v1", "result": 3, "job": [], "x": NaN}'])
def test_a_job_report_that_is_none_is_refused_or_empty(tmp_path: Path, text: str) -> None:
    report = tmp_path / "hdb_1.json"
    report.write_text('{"schema": "hammerdb-job-report-v1"' + text if text == "{" else text, encoding="utf-8")
    if text.startswith('{"'):
        assert parsed(report)["clients"].is_empty()
    else:
        with pytest.raises(FormatError):
            parsed(report)


@pytest.mark.parametrize(
    ("after", "kept"),
    [([], 7), ([66], 7), ([900, 3, 0], 7), ([15_000, 3, 0], 7), ([60_000, 3], 8), ([None], 7)],
    ids=["no tail", "one point", "several", "an interval in which it began", "a whole interval before", "no value"],
)
def test_points_of_the_shutdown_are_counted_but_not_in_the_series(
    tmp_path: Path, after: list[float | None], kept: int
) -> None:
    document = json.loads((RECORDED / "6.0-hdb_job.json").read_bytes())
    points = document["transaction_count"]["series"][0]["points"]
    for point in points:
        point["value"] = 60_000
    points += [{"timestamp": f"2026-11-22 22:13:{10 + n}", "value": value} for n, value in enumerate(after)]
    document["analysis_hints"]["shutdown_tail"]["present"] = bool(after)
    report = tmp_path / "hdb_1.json"
    report.write_text(json.dumps(document), encoding="utf-8")
    tables = parsed(report)
    assert tables["client_series"].height == kept
    assert values(tables, "OVERALL").get("points of the shutdown", 0) == 7 + len(after) - kept


def test_a_report_of_queries_is_a_run_without_a_throughput(tmp_path: Path) -> None:
    document = {
        "schema": "hammerdb-job-report-v1",
        "job": {"hdb_version": "v6.0", "benchmark": "TPROC-H"},
        "result": {
            "type": "tproc_h_result",
            "queries": 22,
            "query_sets": 3,
            "geomean_seconds": 0.5,
            "total_query_time_seconds": 80,
        },
        "query_times": {"rows": [{"name": "14", "seconds": 1.25}]},
    }
    report = tmp_path / "hdb_1.json"
    report.write_text(json.dumps(document), encoding="utf-8")
    tables = parsed(report)
    client = tables["clients"].row(0, named=True)
    assert (client["script"], client["runtime_ms"], client["operations_done"]) == ("TPROC-H", 80_000, 66)
    assert (client["throughput_ops_s"], client["completed"]) == (None, True)
    assert values(tables, "OVERALL") == {"geometric mean": 0.5, "total query time": 80, "query 14": 1.25}
