from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, Hints
from citus_analysis.formats.ycsb import FORMAT, GLUED_HEAD, MAY_BE_GLUED
from citus_analysis.stats.percentiles import compute_histogram_percentiles
from tests.formats.clients import SAMPLES, Truth, logs, truths
from tests.formats.printed_by_clients import TOTALS
from tests.formats.sampling import CORPUS, REALWORLD, Read, read, read_bytes
from tests.recordings import RECORDED
from tests.shards import count_examples

LOGS = sorted(RECORDED.glob("*/YCSB/raw/*"))


@cache
def recorded(path: Path) -> Read:
    return read(FORMAT, path)


def client(result: Read) -> dict[str, object]:
    assert result["clients"].height == 1
    return result["clients"].row(0, named=True)


def log(resource: str, pattern: str = "[lr]*") -> Path:
    (path,) = (RECORDED / resource / "YCSB" / "raw").glob(pattern)
    return path


def metrics(result: Read) -> dict[tuple[str, str], float]:
    return {(s, m): v for s, m, v in result["client_metrics"].select("section", "metric", "value").iter_rows()}


def test_every_recorded_log_is_recognised_and_read_whole() -> None:
    assert len(LOGS) > 150
    for path in LOGS:
        assert FORMAT.detect(path.name, Content(path).head) > 0.9
        result = recorded(path)
        assert result.rejects.is_empty(), path
        facts = client(result)
        assert facts["completed"]
        assert facts["tool_version"] == "0.17.0"
        assert facts["threads"]
        assert "none" not in str(facts["command_line"])
        text = Content(path).read(2**30).decode()
        assert [total for total in TOTALS["ycsb"](path, text, result.tables) if total.differs] == []


@pytest.mark.parametrize("truth", truths(), ids=lambda t: f"{t.resource}-{t.iteration}")
def test_counts_equal_how_the_run_was_launched(truth: Truth) -> None:
    main = [client(recorded(path)) for path in logs(truth, monitor=False)]
    monitor = [client(recorded(path)) for path in logs(truth, monitor=True)]
    assert len(main) == truth.drivers
    assert sum(c["operations_planned"] for c in main) == truth.operations  # type: ignore[misc] # counts, not None
    assert sum(c["operations_planned"] for c in monitor) == truth.monitor_operations  # type: ignore[misc] # counts, not None
    done = sum(c["operations_done"] for c in (*main, *monitor))  # type: ignore[misc] # counts, not None
    if truth.phase == "load" and truth.resource != "w2-fail-dup-insert":
        # Four inserts were committed although the client saw its connection break.
        assert truth.rows_after - done == (4 if truth.resource == "w2-fail-stop-insert" else 0)
    elif truth.phase == "run":
        not_found = 500 if truth.resource == "w2-perf-select" else 0
        assert done == truth.operations + truth.monitor_operations - not_found


def test_status_lines() -> None:
    result = read(FORMAT, log("w2-raw-select", "monitor*"))
    series = result["client_series"]
    assert series["section"].to_list() == [None, None, "READ", "CLEANUP"]
    assert series["elapsed_s"].to_list() == [0.0, 2.647, 2.647, 2.647]
    assert series["log_time"][1] == datetime(2026, 11, 20, 21, 32, 36, 884000, tzinfo=UTC)
    total, read_row = series.row(1, named=True), series.row(2, named=True)
    assert (total["operations_total"], total["throughput_ops_s"]) == (100, 37.02)
    wanted = {"operations": 100, "max_us": 13287, "min_us": 476, "mean_us": 1799.44, "p90_us": 3309, "p99_us": 8131}
    assert {name: read_row[name] for name in wanted} == wanted
    assert (read_row["p999_us"], read_row["p9999_us"]) == (13287, 13287)


def test_clock_of_the_client_is_read_in_its_time_zone() -> None:
    utc, berlin = (
        client(read(FORMAT, log("w2-raw-select"), timezone=z))["start_time"] for z in ("UTC", "Europe/Berlin")
    )
    assert isinstance(utc, datetime)
    assert isinstance(berlin, datetime)
    assert (utc - berlin).total_seconds() == 3600


def test_failed_connections() -> None:
    """320 threads against 300 connections: 26 threads never start, YCSB itself calls no operation failed."""
    result = read(FORMAT, log("w2-fail-clients"))
    facts = client(result)
    assert (facts["operations_done"], facts["failed_operations"], facts["operations_planned"]) == (18376, 0, 20000)
    errors = result["client_errors"]
    assert errors["exception"].unique().to_list() == ["org.postgresql.util.PSQLException"]
    refused = "FATAL: remaining connection slots are reserved for non-replication superuser connections"
    assert dict(errors.select("message_class", "count").iter_rows()) == {
        f"Error in database operation: {refused}": 26,
        refused: 52,
    }
    first = errors["first_byte_offset"][0]
    assert Content(log("w2-fail-clients")).read(2**20)[first:].startswith(b"Error in database operation: ")


def test_failed_inserts_end_their_threads() -> None:
    facts = client(read(FORMAT, log("w2-fail-stop-insert")))
    assert (facts["operations_done"], facts["failed_operations"]) == (35259, 16)


def test_failed_reads_are_counted_by_message() -> None:
    result = read(FORMAT, SAMPLES / "ycsb-worker-stopped.log.zst")
    facts = client(result)
    assert (facts["operations_done"], facts["failed_operations"]) == (96537, 23463)
    assert facts["operations_planned"] == 120000
    errors = result["client_errors"]
    assert errors["count"].sum() == 23463
    assert errors.height == 6
    refused = errors.filter(pl.col("message_class").str.ends_with("Connection refused"))
    assert refused["count"].item() == 23116
    assert refused["message_class"].item().startswith("Error in processing read of table usertable: ERROR: connection")
    failed = result["client_series"].filter(pl.col("section") == "READ-FAILED")
    assert failed["operations"].sum() == 23463
    monitor = read(FORMAT, SAMPLES / "ycsb-worker-stopped-monitor.log.zst")
    assert (client(monitor)["operations_done"], client(monitor)["failed_operations"]) == (480, 120)


DUPLICATE = 'duplicate key value violates unique constraint "usertable_pkey_N"'


def test_retried_inserts_and_empty_statistics() -> None:
    result = read(FORMAT, log("w2-fail-dup-insert"))
    assert dict(result["client_errors"].select("message_class", "count").iter_rows()) == {
        f"Error in processing insert to table: usertable: ERROR: {DUPLICATE}": 12,
        "Retrying insertion, retry count: N": 8,
        "Error inserting, not retrying any more. number of attempts: NInsertion Retry Limit: N": 4,
    }
    empty = result["client_series"].filter((pl.col("section") == "INSERT") & (pl.col("operations") == 0))
    assert empty.height == 3
    assert empty.select("min_us", "max_us", "mean_us", "p99_us").null_count().row(0) == (3, 3, 3, 3)
    assert (client(result)["operations_done"], client(result)["failed_operations"]) == (0, 12)


def test_read_modify_write_is_no_operation_of_its_own() -> None:
    result = read(FORMAT, log("w2-all-f"))
    assert client(result)["operations_done"] == 40000
    assert metrics(result)["READ-MODIFY-WRITE", "Operations"] == 20016


@pytest.mark.parametrize("resource", ["w2-json-select", "w2-jsonarray-select"])
def test_json_exporters(resource: str) -> None:
    result = read(FORMAT, log(resource))
    facts, values = client(result), metrics(result)
    assert facts["operations_done"] == 30000
    assert facts["throughput_ops_s"] == values["OVERALL", "Throughput"]
    # The last object stands on a line with the launcher's command line behind it.
    assert str(facts["command_line"]).startswith("-t -db site.ycsb.db.JdbcDBClient")
    assert values["READ", "Return=OK"] + values["UPDATE", "Return=OK"] == 30000
    intended = [section for section, _ in values if section.startswith("Intended-")]
    assert bool(intended) == (resource == "w2-jsonarray-select")


def test_hdr_histogram_gives_back_the_reported_percentiles() -> None:
    result = read(FORMAT, log("w2-verbose-insert"))
    buckets, values = result["client_histogram"], metrics(result)
    for section in ("INSERT", "CLEANUP"):
        own = buckets.filter(pl.col("section") == section)
        assert own["count"].sum() == values[section, "Operations"]
        assert own["bucket_high_us"][-1] == values[section, "MaxLatency"] + 1
        bounds = compute_histogram_percentiles(own, [0.95, 0.99]).select("low_us", "high_us").rows()
        for (low, high), name in zip(bounds, ("95th", "99th"), strict=True):
            assert high - 1 == values[section, f"{name}PercentileLatency"]
            assert low <= high - 1
    widths = buckets.select(pl.col("bucket_high_us") - pl.col("bucket_low_us")).to_series()
    assert sorted(widths.unique().to_list()) == [1, 2, 4, 8, 16, 32]


def test_millisecond_histogram_gives_back_the_reported_percentiles() -> None:
    result = read(FORMAT, log("w2-verbose-mixed"))
    buckets, values = result["client_histogram"], metrics(result)
    for section in ("READ", "UPDATE"):
        own = buckets.filter(pl.col("section") == section)
        assert own.height == 201
        assert own["bucket_low_us"].to_list() == [1000 * n for n in range(201)]
        assert own["bucket_high_us"][-1] == float("inf")
        assert own["count"].sum() == values[section, "Operations"]
        lows = compute_histogram_percentiles(own, [0.95, 0.99])["low_us"].to_list()
        assert lows == [values[section, f"{name}PercentileLatency"] for name in ("95th", "99th")]
    assert client(result)["measurement_type"] == "histogram"


def test_time_series_is_no_histogram_and_its_status_is_taken_once() -> None:
    result = read(FORMAT, SAMPLES / "ycsb-timeseries.log.zst")
    assert result["client_histogram"].is_empty()
    series = result["client_series"]
    points = series.filter((pl.col("section") == "INSERT") & pl.col("log_time").is_null())
    assert points["elapsed_s"].to_list() == [0.5 * n for n in range(8)]
    assert points["mean_us"][0] == 1812.1999105545617
    totals = series.filter(pl.col("section").is_null())
    assert totals["operations_total"].to_list() == [0, 4209, 8944, 14549, 20000]
    assert client(result)["measurement_type"] == "timeseries"


def test_raw_latencies() -> None:
    result = read(FORMAT, log("w2-raw-select"))
    latencies = result["client_latencies"]
    reads = latencies.filter(pl.col("section") == "READ")
    assert (reads.height, latencies.height) == (3000, 3004)
    assert reads["latency_us"].mean() == pytest.approx(441.4816666666667)
    assert latencies["time"][0] == datetime(2026, 11, 20, 21, 32, 32, 805000, tzinfo=UTC)
    assert latencies["elapsed_s"][:2].to_list() == [0, 0.001]
    assert not latencies["failed"].any()
    units = result["client_metrics"].filter(pl.col("metric").is_in(["p99", "Average"]))["unit"]
    assert units.to_list() == ["us"] * 4
    assert client(result)["operations_done"] == 3000


def test_blocks_give_the_same_rows_as_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["w2-raw-select", "w2-verbose-insert", "w2-jsonarray-select", "w2-fail-dup-insert"]
    paths = [log(name) for name in names] + [SAMPLES / "ycsb-timeseries.log.zst"]
    whole = [read(FORMAT, path) for path in paths]
    original = Content.blocks
    monkeypatch.setattr(Content, "blocks", lambda self: original(self, 3989))
    for path, expected in zip(paths, whole, strict=True):
        pieces = read(FORMAT, path)
        assert (pieces.parsed_bytes, pieces.noise_bytes) == (expected.parsed_bytes, expected.noise_bytes)
        for table, frame in expected.tables.items():
            assert pieces[table].equals(frame), (path.name, table)


OLD = b"""\
YCSB Client 0.1
Command line: -db com.yahoo.ycsb.BasicDB -P workloads/workloada -threads 2 -target 50 -p operationcount=1000 -t
 0 sec: 0 operations;
 10 sec: 531 operations; 53,1 current ops/sec; [UPDATE AverageLatency(ms)=0,25]
[OVERALL], RunTime(ms), 80.0
[OVERALL], Throughput(ops/sec), 12500.0
[UPDATE], Operations, 531
[UPDATE], AverageLatency(us), 65.9774011299435
[UPDATE], 95thPercentileLatency(ms), 0
[UPDATE], Return=0, 531
[UPDATE], 0, 530
[UPDATE], 1, 1
[UPDATE], >1000, 0
"""


def test_first_versions_with_a_decimal_comma(tmp_path: Path) -> None:
    result = read_bytes(FORMAT, tmp_path, OLD)
    facts = client(result)
    assert (facts["tool_version"], facts["threads"], facts["target_ops_s"]) == ("0.1", 2, 50)
    assert (facts["operations_planned"], facts["operations_done"], facts["failed_operations"]) == (1000, 531, 0)
    series = result["client_series"]
    assert series["elapsed_s"].to_list() == [0, 10, 10]
    assert series["throughput_ops_s"].to_list() == [None, 53.1, None]
    assert series["mean_us"].to_list() == [None, None, 250]
    assert result["client_histogram"]["count"].to_list() == [530, 1, 0]
    percentile = result["client_metrics"].filter(pl.col("metric") == "95thPercentileLatency")
    assert percentile.row(0) == ("UPDATE", "95thPercentileLatency", "ms", 0.0)


STATUS = (
    b"2026-11-20 21:32:36:884 2 sec: 100 operations; 37.02 current ops/sec; "
    b"[READ: Count=100, Max=9, Min=1, Avg=4, 90=8, 99=9, 99.9=9, 99.99=9] "
)


def test_messages_of_several_threads_on_one_line(tmp_path: Path) -> None:
    glued = (
        b"Error in processing insert to table: usertableorg.postgresql.util.PSQLException: ERROR: x"
        + STATUS
        + b"Using shards: 1, batchSize:-1, fetchSize: -1Retrying insertion, retry count: 1\n[OVERALL], RunTime(ms), 5\n"
    )
    result = read_bytes(FORMAT, tmp_path, glued)
    assert result.rejects.is_empty()
    assert result["client_series"]["section"].to_list() == [None, "READ"]
    assert result["client_errors"]["message_class"].to_list() == [
        "Error in processing insert to table: usertable: ERROR: x",
        "Retrying insertion, retry count: N",
    ]
    assert result["client_errors"]["first_byte_offset"].to_list() == [0, glued.index(b"Retrying")]
    assert result.noise_bytes == len(b"Using shards: 1, batchSize:-1, fetchSize: -1")


@pytest.mark.parametrize(
    ("banner", "limit"),
    [
        (b"Command line: -t -db site.ycsb.BasicDB -p maxexecutiontime=60\n", 60),
        (b"Command line: -t -db site.ycsb.BasicDB -p maxexecutiontime=0\n", None),
        (b"YCSB Client 0.17.0\nMaximum execution time specified as: 600 secs\n", 600),
        (b"YCSB Client 0.17.0\n", None),
    ],
)
def test_time_limit(tmp_path: Path, banner: bytes, limit: float | None) -> None:
    assert client(read_bytes(FORMAT, tmp_path, banner))["time_limit_s"] == limit


def test_label_in_front_of_the_status(tmp_path: Path) -> None:
    line = b"Command line: -t -s -db site.ycsb.BasicDB -l night\nnight" + STATUS + b"\n"
    assert read_bytes(FORMAT, tmp_path, line).rejects.is_empty()
    other = read_bytes(FORMAT, tmp_path, line.replace(b"\nnight", b"\nnoon"))
    assert other.rejects.select("byte_offset", "excerpt").rows() == [(line.index(b"\n") + 1, "noon")]


def test_number_that_is_none(tmp_path: Path) -> None:
    text = (
        STATUS.replace(b"37.02", b"\xe2\x88\x9e").replace(b"Avg=4", b"Avg=\xef\xbf\xbd").replace(b"Max=9", b"Max=\xff")
    )
    series = read_bytes(FORMAT, tmp_path, text + b"\n")["client_series"]
    assert series["throughput_ops_s"].to_list() == [None, None]
    assert series.select("mean_us", "max_us", "min_us").row(1) == (None, None, 1)


def test_client_that_was_killed(tmp_path: Path) -> None:
    data = Content(log("w2-fail-stop-insert")).read(2**20)
    result = read_bytes(FORMAT, tmp_path, data[: data.index(b"[OVERALL], Throughput")])
    facts = client(result)
    assert not facts["completed"]
    assert (facts["operations_done"], facts["failed_operations"], facts["throughput_ops_s"]) == (35259, 16, None)


def test_second_client_in_the_same_file_is_rejected(tmp_path: Path) -> None:
    load, run = (Content(log(name)).read(2**20) for name in ("w2-all-load", "w2-all-f"))
    result = read_bytes(FORMAT, tmp_path, load + run)
    assert client(result)["operations_done"] == 20000
    assert result.rejects["reason"].unique().to_list() == [
        "output of a second client in the same file; put each client's output into a file of its own"
    ]
    begin = len(load) + run.index(b"Command line: ")
    assert result.rejects["byte_offset"].to_list() == [begin]
    assert result.rejects["byte_length"].sum() == len(load) + len(run) - begin


def test_what_the_client_did_not_print_is_rejected(tmp_path: Path) -> None:
    lines = b"[OVERALL], RunTime(ms), 5\nJoin\n\tat nowhere\n[READ], 95thPercentileLatency(us), 4\n[READ], 5001, 1.5\n"
    result = read_bytes(FORMAT, tmp_path, lines)
    assert result.rejects.select("byte_offset", "reason").rows() == [
        (26, "not a line of a YCSB client"),
        (lines.index(b"[READ], 5001"), "not a bucket of a histogram that YCSB records"),
    ]


def test_secrets_are_redacted(tmp_path: Path) -> None:
    command = b"Command line: -t -db site.ycsb.BasicDB -p db.passwd=s3cret -p mongodb.url=mongodb://me:s3cret@h/x -s\n"
    error = b"Error: cannot reach jdbc:postgresql://h/x?user=u&password=s3cret\nunknown password='s3cret'\n"
    result = read_bytes(FORMAT, tmp_path, command + error)
    shown = [*result["clients"]["command_line"], *result["client_errors"]["message_class"], *result.rejects["excerpt"]]
    assert len(shown) == 3
    assert not any("s3cret" in text for text in shown)


def test_line_ends_of_windows_change_no_row(tmp_path: Path) -> None:
    data = Content(log("w2-all-f")).read(2**20)
    expected, result = read_bytes(FORMAT, tmp_path, data), read_bytes(FORMAT, tmp_path, data.replace(b"\n", b"\r\n"))
    assert result.rejects.is_empty()
    assert all(result[name].equals(frame) for name, frame in expected.tables.items())


def test_line_beyond_all_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("citus_analysis.formats.deliveries.content.LINE_CAP", 1000)
    monkeypatch.setattr("citus_analysis.formats.deliveries.content.BLOCK_BYTES", 500)
    original = Content.blocks
    monkeypatch.setattr(Content, "blocks", lambda self: original(self, 500))
    result = read_bytes(
        FORMAT, tmp_path, b"[OVERALL], RunTime(ms), 5\n" + b"x" * 5000 + b"\n[OVERALL], Throughput(ops/sec), 7\n"
    )
    assert result.rejects["byte_length"].to_list() == [5001]
    assert client(result)["throughput_ops_s"] == 7


@pytest.mark.parametrize(
    "line",
    [
        b"[READ], Return=OK, NaN",
        b"[READ], Operations, 1e308",
        b"Command line: -t -threads 99999999999 -p operationcount=99999999999999999999",
        b"0001-01-01 00:00:00:000 999999999999 sec: 1 operations; ",
        b"1999-12-31 23:59:59:999 999999999 sec: 999999999999999 operations; ",
        b"READ,99999999999999999999,1",
        b"Using shards: 1" * 2000,
    ],
)
def test_absurd_values_do_no_harm(tmp_path: Path, line: bytes) -> None:
    result = read_bytes(
        FORMAT, tmp_path, b"YCSB Client 0.17.0\n" + line + b"\n[READ], Return=ERROR, 7\n", timezone="Asia/Tokyo"
    )
    assert client(result)["failed_operations"] == 7


def test_undated_status_lines_are_each_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Content.blocks
    monkeypatch.setattr(Content, "blocks", lambda self: original(self, 20))
    lines = b"YCSB Client 0.1\n" + b"".join(b" %d sec: 5 operations;\n" % n for n in range(9))
    assert read_bytes(FORMAT, tmp_path, lines)["client_series"]["elapsed_s"].to_list() == list(range(9))


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"nothing of the kind\n")
    with pytest.raises(FormatError, match=r"notes\.txt: contains no line of a YCSB client"):
        list(FORMAT.parse(Content(path), Hints()))


@settings(max_examples=count_examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_damage_makes_it_fail_or_lose_bytes(tmp_path: Path, data: st.DataObject) -> None:
    sample = (
        OLD
        + STATUS
        + b"\n"
        + b'{\n  "metric" : "READ",\n  "measurement" : "Operations",\n  "value" : 3\n}\nREAD,1795210352805,15906\n'
    )
    at = data.draw(st.integers(0, len(sample)))
    junk = data.draw(
        st.binary(max_size=12) | st.sampled_from([b"\n", b",", b"9" * 30, b"]", b'"', b"\x00", b"E9", b": "])
    )
    cut = data.draw(st.integers(0, 12))
    read_bytes(FORMAT, tmp_path, b"YCSB Client 0.1\n" + sample[:at] + junk + sample[at + cut :])


@pytest.mark.realworld
@pytest.mark.skipif(not REALWORLD.is_dir(), reason="needs the folder of recordings made by others")
def test_recordings_of_others() -> None:
    folder = REALWORLD / "ycsb"
    facts = {
        path.name: client(read(FORMAT, path)) for path in sorted(folder.iterdir()) if "brianfrank" not in path.name
    }
    numbers = {
        name.rpartition("__")[2]: (c["throughput_ops_s"], c["operations_done"], c["failed_operations"], c["completed"])
        for name, c in facts.items()
        if "Junyi" not in name and "hemanth" not in name
    }
    assert numbers == {
        "outputLoad.txt": (843.1703204047218, 1000, 0, True),
        "tests_data_ycsb-test-run-3.dat": (None, None, None, False),
        "tests_data_ycsb-test-run-5.dat": (33590.86328518643, 104, 196, True),
        "tests_data_ycsb-test-run.dat": (12500.0, 1000, 0, True),
        "tests_data_ycsb-time-series-2.dat": (1537.9317228987823, 15407, 0, True),
        "lrdt_workload_65_35_mongo_240_500000_1_transactions_1.dat_": (None, None, None, False),
        "lrdt_workload_80_20_240_500000_1_transactions_1.dat_": (10036.65261649701, 602429, 1, True),
        "transactions.dat": (59762.75476660092, 3635966, 0, True),
    }
    (fork,) = folder.glob("*Enhanced_YCSB__outputRun.txt")
    result = read(FORMAT, fork)
    assert metrics(result)["Join", "AverageLatency"] == 15446.932952924393
    assert result.rejects["byte_length"].sum() == 56350


@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the full corpus")
def test_logs_of_the_corpus_that_are_not_kept_here_are_read_whole() -> None:
    others = [path for path in CORPUS.glob("*/YCSB/raw/*") if not (RECORDED / path.parts[-4]).is_dir()]
    assert others
    for path in others:
        assert read(FORMAT, path).rejects.is_empty(), path


def test_a_return_without_a_code_is_no_failure(tmp_path: Path) -> None:
    text = "[OVERALL], RunTime(ms), 10\n[OVERALL], Throughput(ops/sec), 10\n[READ], Operations, 7\n[READ], Return=, 7\n"
    facts = client(read_bytes(FORMAT, tmp_path, text.encode()))
    assert (facts["operations_done"], facts["failed_operations"]) == (7, 0)


def test_a_group_that_a_wrapped_status_line_breaks_is_rejected(tmp_path: Path) -> None:
    whole = "2026-11-20 21:32:36:884 2 sec: 100 operations; 37.02 current ops/sec; [READ: Count=90, Max=13287] "
    broken = "[UPDATE: Count=10, Ma\nx=13287]\n"
    result = read_bytes(FORMAT, tmp_path, (whole + broken).encode())
    assert result["client_series"].select("section", "operations").rows() == [(None, None), ("READ", 90)]
    assert result.rejects["byte_length"].to_list() == [len(broken)]
    assert result.parsed_bytes == len(whole)


_LINES = (
    "2026-11-20 21:32:36:884 2 sec: 100 operations; 37.02 current ops/sec; [READ: Count=100, Max=13287, Min=476]",
    "12 sec: 100 operations; 37 current ops/sec;",
    "Command line: -load -db site.ycsb.db.JdbcDBClient -s",
    "/usr/bin/java -classpath ./conf site.ycsb.Client -load",
    "Error in processing insert to table: usertable",
    "Loading workload...",
    "[OVERALL], RunTime(ms), 3833",
    "} ]",
    " ",
    "x",
)


@given(st.lists(st.sampled_from(_LINES), min_size=1, max_size=3), st.integers(0, 120), st.integers(0, 40))
def test_lines_without_signs_of_another_message_hold_none(parts: list[str], end: int, begin: int) -> None:
    """The fast test leaves out no line that the pattern would split, wherever texts of two threads were cut."""
    joined = "".join(parts)
    lines = pl.DataFrame({"text": [joined, joined[:end], joined[begin:], *parts]})
    split = lines.select(head=GLUED_HEAD, suspect=MAY_BE_GLUED).filter(pl.col("head").is_not_null())
    assert split["suspect"].all()


def test_a_message_behind_a_status_line_is_suspected() -> None:
    lines = pl.DataFrame({"text": [_LINES[0] + _LINES[5], *_LINES[:3]]})
    assert lines.select(MAY_BE_GLUED).to_series().to_list() == [True, False, False, False]
