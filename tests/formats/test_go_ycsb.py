"""The output of go-ycsb, as version 1.0 and older ones print it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.errors import FormatError
from citus_analysis.formats.go_ycsb import FORMAT
from citus_analysis.formats.ycsb import FORMAT as YCSB
from tests.formats.sampling import Read, read_bytes

RECORDED = Path(__file__).parents[1] / "data" / "clients" / "go_ycsb"
TITLE = "***************** properties *****************\n"
PROPERTIES = (
    '"threadcount"="8"\n"operationcount"="1000"\n"recordcount"="2000"\n"dotransactions"="true"\n"target"="0"\n'
    '"mysql.password"="s3cret"\n"measurementtype"="histogram"\n'
)
HEAD = f"{TITLE}{PROPERTIES}{'*' * 46}\nUsing request distribution 'uniform' a keyrange of [0 1999]\n"


def line(section: str, takes: float, count: int, ops: float) -> str:
    return (
        f"{section:<6} - Takes(s): {takes}, Count: {count}, OPS: {ops}, Avg(us): 2282, Min(us): 544, Max(us): 12510, "
        "50th(us): 2000, 90th(us): 3000, 95th(us): 4000, 99th(us): 5000, 99.9th(us): 13000, 99.99th(us): 13001\n"
    )


RUNNING = line("READ", 10.0, 125, 12.5) + line("TOTAL", 10.0, 225, 22.5) + line("UPDATE", 10.0, 100, 10.0)
LATER = line("READ", 20.0, 325, 16.2) + line("TOTAL", 20.0, 525, 26.2) + line("UPDATE", 20.0, 200, 10.0)
ERROR = "operation err: dial tcp 127.0.0.1:5432: connect: connection refused\n"
END = (
    "Run finished, takes 1m41.5s\n"
    + line("READ", 101.5, 600, 5.9)
    + line("READ_MODIFY_WRITE", 101.5, 50, 0.5)
    + line("TOTAL", 101.5, 900, 8.9)
    + line("UPDATE", 101.5, 300, 3.0)
    + line("UPDATE_ERROR", 90.0, 10, 0.1)
)


def parsed(tmp_path: Path, text: str) -> Read:
    assert FORMAT.detect("out.log", text.encode()) == 0.95
    assert YCSB.detect("out.log", text.encode()) == 0.0
    return read_bytes(FORMAT, tmp_path, text.encode())


def test_a_whole_run(tmp_path: Path) -> None:
    result = parsed(tmp_path, HEAD + RUNNING + LATER + ERROR + END)
    assert result.rejects.is_empty()
    [client] = result["clients"].rows(named=True)
    expected = {
        "tool": "go-ycsb",
        "threads": 8,
        "target_ops_s": None,
        "operations_planned": 1000,
        "throughput_ops_s": pytest.approx(8.9 * 850 / 900),
        "runtime_ms": 101_500.0,
        "operations_done": 850,
        "failed_operations": 10,
        "measurement_type": "histogram",
        "completed": True,
    }
    assert {name: client[name] for name in expected} == expected
    assert result["client_errors"]["count"].to_list() == [1]


def test_sections_and_metrics_have_the_names_of_ycsb(tmp_path: Path) -> None:
    metrics = parsed(tmp_path, HEAD + END)["client_metrics"]
    values = {(section, metric, unit): value for section, metric, unit, value in metrics.iter_rows()}
    assert {section for section, _, _ in values} == {"READ", "READ-MODIFY-WRITE", "OVERALL", "UPDATE", "UPDATE-FAILED"}
    assert values["READ", "Operations", None] == 600
    assert values["READ", "99thPercentileLatency", "us"] == 5000
    assert values["READ", "99.9thPercentileLatency", "us"] == 13_000
    assert values["READ", "AverageLatency", "us"] == 2282
    assert {key: value for key, value in values.items() if key[0] == "OVERALL"} == {
        ("OVERALL", "RunTime", "s"): 101.5,
        ("OVERALL", "Throughput", "ops/sec"): 8.9,
    }


def test_the_series_holds_what_happened_since_the_line_before(tmp_path: Path) -> None:
    series = parsed(tmp_path, HEAD + RUNNING + LATER)["client_series"]
    columns = ("section", "elapsed_s", "operations_total", "operations", "throughput_ops_s")
    assert series.select(columns).rows() == [
        ("READ", 10.0, None, 125, 12.5),
        (None, 10.0, 225, None, 22.5),
        ("UPDATE", 10.0, None, 100, 10.0),
        ("READ", 20.0, None, 200, 20.0),
        (None, 20.0, 525, None, 30.0),
        ("UPDATE", 20.0, None, 100, 10.0),
    ]


def test_a_run_that_was_killed(tmp_path: Path) -> None:
    result = parsed(tmp_path, HEAD + RUNNING + "READ   - Takes(s): 20.0, Cou")
    [client] = result["clients"].rows(named=True)
    assert (client["completed"], client["runtime_ms"], client["operations_done"]) == (False, None, None)
    assert result.rejects["reason"].to_list() == ["the file ends inside this line"]


def test_old_versions_print_no_total_and_fewer_percentiles(tmp_path: Path) -> None:
    text = (
        "Run finished, takes 11.722575701s\nINSERT - Takes(s): 11.7, Count: 10000, OPS: 855.2, Avg(us): 18690, "
        "Min(us): 11262, Max(us): 61304, 95th(us): 30000, 99th(us): 36000\n"
    )
    result = parsed(tmp_path, text)
    [client] = result["clients"].rows(named=True)
    assert client["throughput_ops_s"] == pytest.approx(10_000 / 11.722575701)
    assert client["completed"]


def test_the_output_of_a_second_client_is_rejected(tmp_path: Path) -> None:
    result = parsed(tmp_path, HEAD + END + HEAD + END)
    assert result.rejects["byte_length"].sum() == len(HEAD + END)
    assert result["clients"]["operations_done"].to_list() == [850]


def test_no_secret_of_the_properties_is_kept(tmp_path: Path) -> None:
    result = parsed(tmp_path, HEAD + ERROR.replace("dial", "mysql.password=s3cret") + END)
    assert "s3cret" not in str([frame.rows() for frame in result.tables.values()])


def test_raw_latencies_behind_the_end(tmp_path: Path) -> None:
    text = (RECORDED / "1.0.1-raw.log").read_text(encoding="utf-8")
    result = parsed(tmp_path, text)
    assert result.rejects.is_empty()
    [client] = result["clients"].rows(named=True)
    # 20 of the 88 reads and 52 updates are halves of a READ-MODIFY-WRITE.
    assert (client["operations_done"], client["threads"], client["measurement_type"]) == (120, 2, "raw")
    assert client["throughput_ops_s"] == pytest.approx(120 / 0.014210255)
    assert client["completed"]
    latencies = result["client_latencies"]
    assert latencies["section"].value_counts().sort("section").rows() == [
        ("READ", 88),
        ("READ-MODIFY-WRITE", 20),
        ("UPDATE", 52),
    ]
    assert latencies.select("section", "latency_us", "elapsed_s").row(1) == ("READ", 204.0, 0.004392)
    assert latencies["time"][0] == datetime(2026, 11, 23, 10, 21, 37, 434_000, tzinfo=UTC)
    assert result["client_histogram"].group_by("section").agg(pl.col("count").sum()).sort("section").rows() == [
        ("READ", 88),
        ("READ-MODIFY-WRITE", 20),
        ("UPDATE", 52),
    ]
    metrics = {(section, metric): value for section, metric, _, value in result["client_metrics"].iter_rows()}
    assert metrics["READ", "Operations"] == 88
    assert metrics["READ", "MaxLatency"] == latencies.filter(section="READ")["latency_us"].max()


def test_a_file_of_raw_latencies_alone(tmp_path: Path) -> None:
    text = (RECORDED / "1.0.1-raw.csv").read_text(encoding="utf-8")
    result = parsed(tmp_path, text.replace("READ,1795429297494869,", "READ_ERROR,1795429297494869,") + "READ,17954\n")
    assert result.rejects["reason"].to_list() == ["not a line of go-ycsb"]
    assert result["clients"].is_empty()
    failed = result["client_latencies"].filter("failed")
    assert failed.select("section", "latency_us").rows() == [("READ-FAILED", 134.0)]
    assert result["client_latencies"].height == 120


def test_what_is_not_of_go_ycsb(tmp_path: Path) -> None:
    assert FORMAT.detect("a.log", b"[OVERALL], RunTime(ms), 10\n") == 0.0
    with pytest.raises(FormatError, match="contains no line of go-ycsb"):
        read_bytes(FORMAT, tmp_path, b"hello\n")
