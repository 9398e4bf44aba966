import csv
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, Format, Hints
from citus_analysis.formats.pgbench import ATTEMPTED, FORMAT
from citus_analysis.formats.pgbench_log import FORMAT as LOG
from citus_analysis.schema import TABLES
from citus_analysis.stats.merged_clients import derive_operation_latencies
from tests.formats.clients import SAMPLES
from tests.formats.sampling import CORPUS, REALWORLD, Read, read, read_bytes
from tests.recordings import RECORDED
from tests.shards import count_examples

PGBENCH = RECORDED / "w2-pgbench" / "pgbench"
REPORTS = sorted(PGBENCH.glob("*.out.zst"))
INTERVALS = sorted(path for path in PGBENCH.iterdir() if ".out" not in path.name)
TRANSACTIONS = sorted(SAMPLES.glob("select-only-*"))
#: Of versions 16 to 18.
LATER = sorted((SAMPLES / "pgbench").iterdir())


def client(result: Read) -> dict[str, object]:
    assert result["clients"].height == 1
    return result["clients"].row(0, named=True)


def number(path: Path, name: str) -> float:
    return float(str(client(read(FORMAT, path))[name]))


def report(name: str) -> Read:
    return read(FORMAT, PGBENCH / f"{name}.out.zst")


def metrics(result: Read, section: str) -> dict[tuple[str, str | None], float]:
    own = result["client_metrics"].filter(pl.col("section") == section)
    return {(m, u): v for m, u, v in own.select("metric", "unit", "value").iter_rows()}


@pytest.mark.parametrize("path", INTERVALS + TRANSACTIONS, ids=lambda path: path.name)
def test_recorded_logs_are_read_whole(path: Path) -> None:
    content = Content(path)
    assert LOG.detect(path.name, content.head) > 0.8
    assert FORMAT.detect(path.name, content.head) == 0
    result = read(LOG, path)
    assert result.rejects.is_empty()
    assert sum(frame.height for frame in result.tables.values()) == content.read(2**24).count(b"\n")


def test_report_of_two_scripts() -> None:
    result = report("mixed-c8")
    facts = client(result)
    wanted = {
        "tool": "pgbench",
        "tool_version": "15.20",
        "throughput_ops_s": 7220.163528,
        "runtime_ms": pytest.approx(86921 / 7220.163528 * 1000),
        "time_limit_s": 12.0,
        "threads": 8,
        "operations_done": 86921,
        "failed_operations": 0,
        "operations_planned": None,
        "query_mode": "prepared",
        "completed": True,
    }
    assert {name: facts[name] for name in wanted} == wanted
    select, update = (metrics(result, f"<builtin: {name}>") for name in ("select only", "simple update"))
    assert select["transactions", None] + update["transactions", None] == 86921
    assert (select["weight", None], select["weight", "%"], select["tps", None]) == (8, 80, 5777.725686)
    assert update["latency average", "ms"] == 3.205
    commands = [value for (name, _), value in update.items() if name.startswith("latency of command ")]
    assert len(commands) == 9
    assert sum(commands) == pytest.approx(3.205, abs=0.002)
    assert update["failures of command 9: END;", None] == 0
    assert metrics(result, "OVERALL")["initial connection time", "ms"] == 12.668


def test_retries_have_a_column_of_their_own() -> None:
    update = metrics(report("mixed-c8-agg"), "<builtin: simple update>")
    assert update["retries of command 5: BEGIN;", None] == 0
    assert update["total number of retries", None] == 0


def test_rate_limit_and_skipped_transactions() -> None:
    values = metrics(report("select-only-c8-rate"), "<builtin: select only>")
    assert values["number of transactions skipped", None] == 11
    assert values["number of transactions skipped", "%"] == 0.074
    assert values["number of transactions above the 20.0 ms latency limit", None] == 19
    assert values["rate limit schedule lag maximum", "ms"] == 19.878


@pytest.mark.parametrize(
    ("name", "script", "rate_limited"),
    [
        ("select-only-c4", "select only", False),
        ("select-only-c8-rate", "select only", True),
        ("tpcb-like-c4", "TPC-B (sort of)", False),
        ("mixed-c8", "select only@8, simple update@2", False),
    ],
)
def test_what_was_run_and_whether_at_a_set_rate(name: str, script: str, rate_limited: bool) -> None:
    facts = client(report(name))
    assert (facts["script"], facts["rate_limited"], facts["scale_factor"]) == (script, rate_limited, 10)


def test_number_of_transactions_planned() -> None:
    facts = client(report("select-only-t2000"))
    assert (facts["operations_planned"], facts["operations_done"]) == (8000, 8000)
    assert facts["runtime_ms"] == pytest.approx(8000 / 14073.01078 * 1000)


def test_progress() -> None:
    series = report("tpcb-like-c8-pertx")["client_series"]
    assert series["log_time"][0] == datetime(2026, 11, 20, 21, 40, 3, 626000, tzinfo=UTC)
    assert series["elapsed_s"].to_list()[:2] == [1.0, 2.0]
    assert series["mean_us"][0] == 7206
    series = report("select-only-c8-rate")["client_series"]
    assert series["elapsed_s"].to_list() == [float(n) for n in range(1, 11)]
    assert series["throughput_ops_s"][0] == 1549.9


def test_a_client_that_could_not_connect() -> None:
    result = report("too-many-clients")
    assert not client(result)["completed"]
    assert result["client_errors"].select("exception", "message_class", "count").rows() == [
        (
            "error",
            'pgbench: error: connection to server at "coordinator" (N), port N failed: FATAL:  sorry, too many '
            "clients already",
            1,
        ),
        ("error", "pgbench: error: could not create connection for client N", 1),
    ]


def test_initialisation_is_no_client() -> None:
    result = report("init-data")
    assert result["clients"].is_empty()
    assert result["client_metrics"].rows() == [
        ("INIT", "done", "s", 1.19),
        ("INIT", "server-side generate", "s", 1.05),
        ("INIT", "vacuum", "s", 0.15),
    ]


def test_intervals_add_up_to_the_report_but_for_the_end_of_the_run() -> None:
    compared = 0
    for path in REPORTS:
        prefix = path.name.removesuffix(".out.zst").removesuffix("-agg") + "-agg."
        logs = [log for log in INTERVALS if log.name.startswith(prefix)]
        if logs and path.name != "mixed-c8.out.zst":
            series = pl.concat([read(LOG, log)["client_series"] for log in logs])
            interval = 2 if "mixed" in path.name else 1
            missing = number(path, "operations_done") - int(series["operations"].sum())
            assert 0 <= missing < interval * number(path, "throughput_ops_s"), path.name
            compared += 1
    assert compared == 9


def test_interval_log() -> None:
    series = read(LOG, PGBENCH / "mixed-c8-agg.21052.zst")["client_series"]
    first = series.row(0, named=True)
    assert first["log_time"] == datetime(2026, 11, 20, 21, 40, 47, tzinfo=UTC)
    assert (first["operations"], first["max_us"]) == (6610, 25854)
    assert first["mean_us"] == 7402935 / 6610
    assert series["throughput_ops_s"][1] == 7745 / 2
    assert series["elapsed_s"].to_list() == [0, 2, 4, 6, 8, 10]


def test_transaction_logs_add_up_to_the_report() -> None:
    rate = pl.concat([read(LOG, path)["client_latencies"] for path in TRANSACTIONS if "rate" in path.name])
    executed = rate.drop_nulls("latency_us")
    assert (executed.height, rate.height - executed.height) == (14954, 11)
    assert rate["failed"].null_count() == 11
    assert executed["latency_us"].mean() == pytest.approx(561, abs=0.5)
    assert (executed["latency_us"] > 20_000).sum() == 19
    fixed = pl.concat([read(LOG, path)["client_latencies"] for path in TRANSACTIONS if "t2000" in path.name])
    assert fixed.group_by("client_thread").len().sort("client_thread").rows() == [(n, 2000) for n in range(4)]


def test_transaction_log() -> None:
    rows = read(LOG, SAMPLES / "select-only-t2000.21107.zst")["client_latencies"]
    assert rows.row(0, named=True) == {
        "section": "script 0",
        "time": datetime(2026, 11, 20, 21, 40, 59, 233621, tzinfo=UTC),
        "elapsed_s": 0.0,
        "latency_us": 9226.0,
        "client_thread": 0,
        "failed": False,
    }
    assert rows["elapsed_s"][-1] == 0.53902


def test_failures_and_retries_in_a_transaction_log(tmp_path: Path) -> None:
    lines = b"3 0 47423 0 1499414498 34501 3\n3 1 8333 0 1499414498 42848 0\n3 2 serialization 0 1499414498 51219 12\n"
    rows = read_bytes(LOG, tmp_path, lines + b"3 3 failed 1 1499414498 51319 0\n")["client_latencies"]
    assert rows["latency_us"].to_list() == [47423, 8333, None, None]
    assert rows["failed"].to_list() == [False, False, True, True]
    assert rows["section"].to_list() == ["script 0"] * 3 + ["script 1"]


@pytest.mark.parametrize(
    "bad", [b"", b"2 5 x 0 1499414498 1\n", b"2 5 7 0 14994144\n", b"1 2 3 4 5 6 7 8 9 10 11\n", b"2 5 7"]
)
def test_odd_lines_of_a_transaction_log_are_rejected(tmp_path: Path, bad: bytes) -> None:
    good = b"".join(b"%d %d 500 0 1499414498 %d\n" % (n % 4, n, n) for n in range(5000))
    result = read_bytes(LOG, tmp_path, good + bad + (good if bad.endswith(b"\n") else b""))
    assert result.rejects["byte_offset"].to_list() == ([len(good)] if bad else [])
    assert result.rejects["byte_length"].sum() == len(bad)
    assert result["client_latencies"].height == (10000 if bad.endswith(b"\n") else 5000)


def test_blocks_give_the_same_rows_as_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(LOG, path) for path in (INTERVALS[0], TRANSACTIONS[0])] + [(FORMAT, PGBENCH / "mixed-c8.out.zst")]
    whole = [read(format_, path) for format_, path in cases]
    original = Content.blocks
    monkeypatch.setattr(Content, "blocks", lambda self: original(self, 1009))
    for (format_, path), expected in zip(cases, whole, strict=True):
        pieces = read(format_, path)
        for table, frame in expected.tables.items():
            assert pieces[table].equals(frame), (path.name, table)


OLD = b"""\
starting vacuum...end.
progress: 5.0 s, 85.2 tps, lat 0.977 ms stddev 0.301
client 7 aborted in state 4: ERROR:  deadlock detected
DETAIL:  Process 7 waits for ShareLock.
transaction type: TPC-B (sort of)
scaling factor: 1
query mode: simple
number of clients: 10
number of threads: 1
number of transactions per client: 1000
number of transactions actually processed: 9000/10000
latency average: 4.123 ms
latency stddev: 0.500 ms
number of transactions above the 5.0 ms latency limit: 19 (0.211 %)
tps = 85.184871 (including connections establishing)
tps = 85.296346 (excluding connections establishing)
statement latencies in milliseconds:
\t0.002522\t\\set nbranches 1 * :scale
\t0.152\tBEGIN;
"""


def test_older_versions(tmp_path: Path) -> None:
    result = read_bytes(FORMAT, tmp_path, OLD)
    assert result.rejects.is_empty()
    facts = client(result)
    assert (facts["throughput_ops_s"], facts["tool_version"]) == (85.296346, None)
    assert (facts["script"], facts["rate_limited"], facts["scale_factor"]) == ("TPC-B (sort of)", False, 1)
    assert (facts["operations_planned"], facts["operations_done"], facts["failed_operations"]) == (10000, 9000, None)
    values = metrics(result, "TPC-B (sort of)")
    assert values["latency average", "ms"] == 4.123
    assert values["latency of command 2: BEGIN;", "ms"] == 0.152
    assert (
        result["client_errors"].row(0, named=True)["message_class"]
        == "client N aborted in state N: ERROR:  deadlock detected"
    )
    assert result["client_series"].select("elapsed_s", "mean_us").row(0) == (5.0, 977.0)


@pytest.mark.parametrize(
    "line",
    [b"number of clients: 99999999999", b"duration: nan s", b"progress: 99999999999.0 s, 1.0 tps", b"tps = nan (x)"],
)
def test_absurd_values_do_no_harm(tmp_path: Path, line: bytes) -> None:
    result = read_bytes(FORMAT, tmp_path, b"pgbench (18.1)\nnumber of failed transactions: 7 (1.0%)\n" + line + b"\n")
    assert client(result)["failed_operations"] == 7


def test_a_command_that_speaks_of_errors_is_none(tmp_path: Path) -> None:
    command = b"         0.500  SELECT 'ERROR: no', client 7;\n"
    result = read_bytes(FORMAT, tmp_path, OLD + command)
    assert result["client_errors"]["count"].sum() == 1
    assert metrics(result, "TPC-B (sort of)")["latency of command 3: SELECT 'ERROR: no', client 7;", "ms"] == 0.5


def test_an_aborted_run_is_not_completed(tmp_path: Path) -> None:
    aborted = OLD + b"Run was aborted; the above results are incomplete.\n"
    assert not client(read_bytes(FORMAT, tmp_path, aborted))["completed"]


def test_report_gives_latencies_per_script() -> None:
    identity = {name: pl.lit(None, TABLES["client_metrics"][name].dtype) for name in ("source_id", "part")}
    values = report("mixed-c8")["client_metrics"].with_columns(
        run_id=pl.lit("r"), resource=pl.lit("x"), iteration=pl.lit(1), role=pl.lit("main"), **identity
    )
    table = derive_operation_latencies(TABLES["client_metrics"].conform(values), TABLES["client_histogram"].empty())
    assert table.select("operation", "operations", "mean_us").rows() == [
        ("<builtin: select only>", 69556, 558.0),
        ("<builtin: simple update>", 17365, 3205.0),
    ]


@pytest.mark.parametrize("format_", [FORMAT, LOG])
def test_other_files_are_refused(tmp_path: Path, format_: Format) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"nothing of the kind\n")
    with pytest.raises(FormatError, match=r"notes\.txt: "):
        list(format_.parse(Content(path), Hints()))


@settings(max_examples=count_examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_damage_makes_them_fail_or_lose_bytes(tmp_path: Path, data: st.DataObject) -> None:
    junk = st.binary(max_size=12) | st.sampled_from(
        [b"\n", b" ", b"9" * 30, b"skipped", b"\x00", b"nan", b": 1", b"\r"]
    )
    for format_, begin, sample in (
        (FORMAT, b"transaction type: x\n", OLD),
        (LOG, b"0 1 5 0 1499414498 1\n", b"3 0 47423 0 1499414498 34501 3\n3 1 skipped 0 1499414498 42848 0\n"),
        (LOG, b"1777879493 8224 75762696 888034446752 2896 191292\n", b"1777879503 9450 79975240 7 3050 62303\n"),
    ):
        at = data.draw(st.integers(0, len(sample)))
        cut = data.draw(st.integers(0, 9))
        padding = begin * (70_000 // len(begin)) if format_ is LOG else begin
        read_bytes(format_, tmp_path, padding + sample[:at] + data.draw(junk) + sample[at + cut :])


@pytest.mark.parametrize(
    ("version", "script", "attempted", "tps"),
    [
        ("16", {"transactions": 240, "number of failed transactions": 45}, None, 61.347513),
        ("18", {"transactions": 283, "number of failed transactions": 14}, 298, 70.912283),
    ],
)
def test_transactions_of_a_script_are_those_that_were_processed(
    version: str, script: dict[str, float], attempted: float | None, tps: float
) -> None:
    result = read(FORMAT, SAMPLES / "pgbench" / f"{version}-agg.out")
    found = metrics(result, "deadlock.sql")
    assert {name: found[name, None] for name in script} == script
    assert (found.get((ATTEMPTED, None)), found["tps", None]) == (attempted, tps)
    other = metrics(result, "<builtin: select only>")
    assert client(result)["operations_done"] == found["transactions", None] + other["transactions", None]


def test_failures_and_retries_of_intervals() -> None:
    logs = [path for path in LATER if path.name.startswith("17-agg.") and path.suffix != ".out"]
    names = ("failed_operations", "skipped_operations", "retries")
    intervals = pl.concat([read(LOG, path)["client_series"] for path in logs]).select(names).sum()
    report = read(FORMAT, SAMPLES / "pgbench" / "17-agg.out")
    assert report["client_series"].select(names).sum().row(0) == (13, 0, 57)
    # The report counts 19 failures and 85 retries: three of them in the last interval, which is in no log.
    assert intervals.row(0) == (19, 0, 82)
    assert metrics(report, "multiple scripts")["total number of retries", None] == 85
    without = read(LOG, INTERVALS[0])["client_series"]
    assert (without["failed_operations"].null_count(), without["retries"].sum()) == (without.height, 0)


@pytest.mark.realworld
@pytest.mark.skipif(not REALWORLD.is_dir(), reason="needs the folder of recordings made by others")
def test_recordings_of_others() -> None:
    folder = REALWORLD / "pgbench"
    facts = {path.name: client(read(FORMAT, path)) for path in folder.glob("*.txt")}
    assert {c["tool_version"] for c in facts.values()} == {"18.3"}
    assert sorted(str(c["operations_done"]) for c in facts.values()) == [
        "2227578", "2237000", "2268873", "2380108", "2807282",
    ]  # fmt: skip
    (exported,) = folder.glob("*latency_1s.csv")
    series = read(LOG, exported)["client_series"]
    assert (series.height, series["operations"][0], series["mean_us"][0]) == (481, 5280, 3345.0)
    for path in folder.iterdir():
        if path.suffix not in {".txt", ".csv"}:
            assert read(LOG, path)["client_series"]["operations"].sum() > 0


@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the full corpus")
def test_every_transaction_log_of_the_corpus_adds_up() -> None:
    folder = CORPUS / "w2-pgbench" / "pgbench"
    with (CORPUS / "w2-pgbench" / "truth" / "commands.csv").open(encoding="utf-8", newline="") as file:
        logged = [
            row for row in csv.DictReader(file) if "--log " in row["command"] and "sampling" not in row["command"]
        ]
    assert len(logged) == 14
    for row in logged:
        prefix = row["command"].partition("--log-prefix=")[2].split()[0]
        tables = [read(LOG, path) for path in folder.glob(f"{prefix}.[0-9]*")]
        done = number(folder / row["output"], "operations_done")
        single = sum(t["client_latencies"]["latency_us"].count() for t in tables)
        aggregated = sum(t["client_series"]["operations"].sum() for t in tables)
        assert single == done if single else 0.9 * done < aggregated <= done, prefix


_THROTTLED = b"""pgbench (17.5)
transaction type: <builtin: select only>
scaling factor: 1
query mode: simple
number of clients: 4
number of threads: 4
maximum number of tries: 1
duration: 10 s
number of transactions actually processed: 10000
number of failed transactions: 0 (0.000%)
latency average = 4.000 ms
latency stddev = 1.000 ms
latency percentile 50 = 3.500 ms
latency percentile 99.9 = 12.000 ms
latency percentile 99.99 = 15.000 ms
rate limit schedule lag: avg 0.523 (max 9.512) ms
initial connection time = 5.123 ms
tps = 1000.123456 (without initial connection time)
"""


def test_percentiles_of_neons_pgbench_and_the_lag_are_columns(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "throttled.log").write_bytes(_THROTTLED)
    assert ingest(tmp_path / "runs", tmp_path / "out").rejected == 0
    found = open_dataset(tmp_path / "out").table("operation_latencies").row(0, named=True)
    assert [found[name] for name in ("p50_us", "p90_us", "p999_us", "lag_us")] == [3500, None, 12000, 523]
