"""The profile of servers, on logs of every format: counts, durations, texts, windows, and what is missing."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.dataset import Dataset
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.serverlogs.profile import ServerProfile, summarise_lock_waits, summarise_sessions
from tests.recordings import RECORDED

PREFIX = "2026-03-01 {time} UTC [{pid}] user=app,db=shop,app=web,client=10.0.0.7 "
#: Two statements of one kind, one that failed, one slow in the second hour, and what servers log beside.
LINES = (
    ("10:00:01.000", 7, "LOG:  connection received: host=10.0.0.7 port=5000"),
    ("10:00:01.001", 7, "LOG:  connection authorized: user=app database=shop application_name=web"),
    ("10:00:02.000", 7, "LOG:  duration: 2.000 ms  statement: SELECT * FROM item WHERE id = 5"),
    ("10:00:03.000", 7, "LOG:  duration: 4.000 ms  statement: SELECT * FROM item WHERE id = -71"),
    ("10:00:04.000", 7, "ERROR:  42P01: relation \"itme\" does not exist at character 15"),
    ("10:00:04.000", 7, "STATEMENT:  SELECT * FROM itme WHERE id = 9"),
    ("10:00:05.000", 8, "LOG:  process 8 still waiting for ShareLock on transaction 77 after 1000.100 ms"),
    ("10:00:09.000", 8, "LOG:  process 8 acquired ShareLock on transaction 77 after 5000.000 ms"),
    ("10:00:10.000", 8, "LOG:  temporary file: path \"base/pgsql_tmp/pgsql_tmp8.0\", size 4096"),
    ("10:00:10.000", 8, "STATEMENT:  SELECT * FROM item ORDER BY name"),
    ("10:30:00.000", 9, "ERROR:  deadlock detected"),
    ("11:00:00.000", 7, "LOG:  duration: 6.000 ms  execute S_1: UPDATE item SET name = $1 WHERE id = $2"),
    ("11:00:00.000", 7, "DETAIL:  parameters: $1 = 'x', $2 = '5'"),
    ("11:59:59.999", 7, "LOG:  duration: 1.000 ms  statement: ALTER USER app PASSWORD 'opensesame'"),
    ("12:00:00.000", 7, "LOG:  disconnection: session time: 1:59:58.500 user=app database=shop host=10.0.0.7"),
)  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "postgresql.log"
    path.write_text("".join(f"{PREFIX.format(time=t, pid=p)}{said}\n" for t, p, said in LINES), encoding="utf-8")
    return path


@pytest.fixture
def dataset(log: Path, tmp_path: Path) -> Dataset:
    ca.ingest(log, tmp_path / "dataset", jobs=1)
    return ca.open_dataset(tmp_path / "dataset")


def counts(profile: ServerProfile) -> dict[str, int]:
    return dict(profile.overview().select("what", "count").iter_rows())


def test_everything_is_counted_once(dataset: Dataset) -> None:
    profile = ca.server_profile(dataset)
    found = counts(profile)
    assert profile.n == len(LINES)
    # An error of a process that logged nothing else is no statement.
    assert (found["statements sent by client"], found["statements sent by client that failed"]) == (5, 1)
    assert (found["connections received"], found["connections authorized"], found["sessions ended"]) == (1, 1, 1)
    assert (found["records of severity ERROR"], found["deadlocks"]) == (2, 1)
    assert (found["lock waits"], found["temporary files"]) == (1, 1)


def test_executions_with_other_constants_are_one_statement(dataset: Dataset) -> None:
    (row,) = ca.server_profile(dataset).by_fingerprint.filter(pl.col("statements") == 2).iter_rows(named=True)
    assert row["text"] == "SELECT * FROM item WHERE id = ?"
    assert (row["mean_ms"], row["min_ms"], row["max_ms"], row["p50_ms"]) == (3.0, 2.0, 4.0, 3.0)
    assert row["share_percent"] == pytest.approx(100 * 6 / 13)
    assert row["p95_ms"] is None  # two values have no 95th percentile


def test_sessions_columns_come_with_each_statement(dataset: Dataset) -> None:
    profile = ca.server_profile(dataset)
    for name, value in {"user": "app", "database": "shop", "application": "web", "client_host": "10.0.0.7"}.items():
        assert profile.by_group[name].filter(pl.col(name) == value)["timed"].to_list() == [4], name


def test_the_slowest_statement_is_shown_as_logged(dataset: Dataset) -> None:
    top = ca.server_profile(dataset).slowest.row(0, named=True)
    assert (top["duration_ms"], top["text"]) == (6.0, "UPDATE item SET name = $1 WHERE id = $2")
    assert (top["path"], top["database"]) == ("postgresql.log", "shop")


def test_secrets_are_redacted(dataset: Dataset) -> None:
    profile = ca.server_profile(dataset)
    shown = [*profile.by_fingerprint["text"], *profile.slowest["text"]]
    assert any(text and text.startswith("ALTER USER") for text in shown)
    assert "opensesame" not in str(shown)


def test_errors_have_an_example_and_its_statement(dataset: Dataset) -> None:
    rows = ca.server_profile(dataset).error_groups.rows_by_key("normalised", named=True, unique=True)
    row = rows['relation "?" does not exist at character ?']
    assert (row["severity"], row["sqlstate"], row["count"]) == ("ERROR", "42P01", 1)
    assert row["example"] == '42P01: relation "itme" does not exist at character 15'
    assert row["statement"] == "SELECT * FROM itme WHERE id = ?"


def test_a_lock_wait_counts_once_with_the_whole_time(dataset: Dataset) -> None:
    (row,) = summarise_lock_waits(ca.server_profile(dataset).lock_waits).iter_rows(named=True)
    assert (row["lock_mode"], row["target"], row["waits"], row["acquired"]) == ("ShareLock", "transaction", 1, 1)
    assert row["total_s"] == 5.0


def test_temporary_files_name_their_statement(dataset: Dataset) -> None:
    (row,) = ca.server_profile(dataset).temp_files.iter_rows(named=True)
    assert (row["size_bytes"], row["text"]) == (4096, "SELECT * FROM item ORDER BY name")


def test_sessions_have_their_length(dataset: Dataset) -> None:
    (row,) = summarise_sessions(ca.server_profile(dataset).connections).iter_rows(named=True)
    assert (row["user"], row["database"], row["client_host"]) == ("app", "shop", "10.0.0.7")
    assert (row["sessions"], row["total_s"]) == (1, 7198.5)


def test_windows_follow_each_other_without_a_record_in_both(dataset: Dataset) -> None:
    first = ca.server_profile(dataset, until="2026-03-01 11:00")
    second = ca.server_profile(dataset, since="2026-03-01T12:00+01:00", until="2026-03-01 12:00")
    third = ca.server_profile(dataset, since="2026-03-01 12:00")
    assert [one.n for one in (first, second, third)] == [11, 3, 1]
    assert [int(one.statements["duration_us"].count()) for one in (first, second, third)] == [2, 2, 0]


def test_statements_over_time_add_up(dataset: Dataset) -> None:
    table = ca.server_profile(dataset, interval_s=3600).over_time
    assert table["time"].dt.hour().to_list() == [10, 11]
    assert table["total_s"].to_list() == pytest.approx([0.006, 0.007])


def test_a_source_that_is_gone_is_named(dataset: Dataset, log: Path) -> None:
    log.unlink()
    profile = ca.server_profile(dataset)
    assert profile.by_fingerprint["text"].null_count() == profile.by_fingerprint.height
    assert "Texts of statements in postgresql.log are missing" in " ".join(profile.warnings)
    assert counts(profile)["statements sent by client"] == 5


def test_a_source_that_changed_is_named(dataset: Dataset, log: Path) -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write("2026-03-01 13:00:00 UTC [7] LOG:  more\n")
    assert "changed since it was read" in " ".join(ca.server_profile(dataset).warnings)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"since": "yesterday"}, UsageError),
        ({"logs": "*.csv"}, UnknownNameError),
        ({"resources": "w9"}, UnknownNameError),
        ({"since": "2027-01-01"}, InsufficientDataError),
    ],
)
def test_what_cannot_be_shown_is_refused(dataset: Dataset, given: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        ca.server_profile(
            dataset,
            since=given.get("since", ""),
            resources=given.get("resources", "*"),
            logs=given.get("logs", "*"),
        )


CSV_HEAD = '"app","shop",7,"10.0.0.7:5000",65a1.7,1,"SELECT",2026-03-01 09:00:00 UTC,3/4,0'
CSV = (
    f"2026-03-01 10:00:00.000 UTC,{CSV_HEAD},LOG,00000,"
    '"duration: 2.000 ms  statement: SELECT ""a"" FROM item WHERE id = \'x\'",,,,,,,,,"web","client backend",,0\n'
    f"2026-03-01 10:00:01.000 UTC,{CSV_HEAD},ERROR,42P01,"
    '"relation ""itme"" does not exist",,,,,,"SELECT * FROM itme WHERE id = 9",15,,"web","client backend",,0\n'
)
JSON = (
    '{"timestamp":"2026-03-01 10:00:00.000 UTC","user":"app","dbname":"shop","pid":7,"remote_host":"10.0.0.7",'
    '"error_severity":"LOG","message":"duration: 2.000 ms  statement: SELECT \\"a\\" FROM item WHERE id = \'x\'",'
    '"application_name":"web"}\n'
    '{"timestamp":"2026-03-01 10:00:01.000 UTC","user":"app","dbname":"shop","pid":7,"remote_host":"10.0.0.7",'
    '"error_severity":"ERROR","state_code":"42P01","message":"relation \\"itme\\" does not exist",'
    '"statement":"SELECT * FROM itme WHERE id = 9","application_name":"web"}\n'
)


@pytest.mark.parametrize(("name", "text"), [("postgresql.csv", CSV), ("postgresql.json", JSON)])
def test_csvlog_and_jsonlog_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    ca.ingest(tmp_path / name, tmp_path / "dataset", jobs=1)
    profile = ca.server_profile(ca.open_dataset(tmp_path / "dataset"))
    assert profile.by_fingerprint.filter(pl.col("timed") == 1)["text"].to_list() == [
        'SELECT "a" FROM item WHERE id = ?'
    ]
    assert profile.slowest["user"].to_list() == ["app"]
    (error,) = profile.error_groups.iter_rows(named=True)
    assert (error["sqlstate"], error["normalised"]) == ("42P01", 'relation "?" does not exist')
    assert error["statement"] == "SELECT * FROM itme WHERE id = ?"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Dataset]:
    folder = tmp_path_factory.mktemp("cluster") / "dataset"
    ca.ingest([RECORDED / name for name in ("w2-t16-insert", "w2-multishard", "w2-lock-update")], folder, jobs=1)
    return lambda: ca.open_dataset(folder)


def test_statements_of_nodes_are_apart_from_those_that_sent_them(cluster: Callable[[], Dataset]) -> None:
    profile = ca.server_profile(cluster(), resources="w2-t16-insert")
    inserts = profile.by_fingerprint.filter(pl.col("statement_kind") == "insert")
    by_sender = dict(inserts.select(pl.col("sent_by").cast(pl.String), "statements").iter_rows())
    statements, spans = cluster().statements(), cluster().spans()
    mine = statements.filter(pl.col("resource") == "w2-t16-insert", pl.col("statement_kind") == "insert")
    remote = spans.filter(pl.col("resource") == "w2-t16-insert", pl.col("kind") == "remote")
    assert by_sender == {"client": mine.height, "another node": remote.filter(pl.col("name") == "insert").height}
    texts = dict(inserts.select(pl.col("sent_by").cast(pl.String), "text").iter_rows())
    assert texts["client"].startswith("INSERT INTO usertable (YCSB_KEY")
    assert texts["another node"].startswith("INSERT INTO public.usertable_? (ycsb_key")


def test_shares_of_each_sender_add_up_to_the_whole(cluster: Callable[[], Dataset]) -> None:
    shares = ca.server_profile(cluster()).by_fingerprint.group_by("sent_by").agg(pl.col("share_percent").sum())
    assert shares["share_percent"].to_list() == pytest.approx([100.0, 100.0])


def test_parts_of_remote_statements_add_up(cluster: Callable[[], Dataset]) -> None:
    table = ca.server_profile(cluster(), resources="w2-t16-insert").distributed
    rows = table.filter(pl.col("executed") == "remote", pl.col("statement_kind") == "insert")
    means = dict(rows.select(pl.col("quantity").cast(pl.String), "mean_us").iter_rows())
    assert means["T"] == pytest.approx(means["P"] + means["C"] + means["L"], rel=0.01)


def test_one_text_stands_for_one_fingerprint(cluster: Callable[[], Dataset]) -> None:
    table = ca.server_profile(cluster(), texts=1000).by_fingerprint.drop_nulls("fingerprint")
    assert table["text"].null_count() == 0
    texts = table.with_columns(pl.col("text").str.to_lowercase().str.strip_chars(" ;"))
    assert texts.group_by("fingerprint").agg(pl.col("text").n_unique())["text"].max() == 1


def test_statements_of_syslog_are_shown_without_its_headers(tmp_path: Path) -> None:
    head = "Feb 11 13:15:40 host postgres"
    lines = (
        "[7]: [6-1] LOG:  connection received: host=[local]",
        "[7]: [7-1] LOG:  duration: 13.997 ms  statement: SELECT d.datname",
        "[7]: [7-2] #011  FROM pg_catalog.pg_database d WHERE datdba",
        "[9]: [7-1] LOG:  duration: 1.000 ms  statement: SELECT",
        "[7]: [7-3]  = 10;",
        "[9]: [7-2] #0111",
    )
    (tmp_path / "syslog.log").write_text("".join(f"{head}{line}\n" for line in lines))
    ca.ingest(tmp_path / "syslog.log", tmp_path / "dataset", jobs=1)
    profile = ca.server_profile(ca.open_dataset(tmp_path / "dataset"))
    assert profile.slowest["text"][0] == "SELECT d.datname\n  FROM pg_catalog.pg_database d WHERE datdba = 10;"
    assert profile.by_fingerprint["text"][0] == "SELECT d.datname FROM pg_catalog.pg_database d WHERE datdba = ?;"


SERVERS = Path(__file__).parents[1] / "data" / "servers"
#: What one server logged in several shapes: its statements, and their mean durations in milliseconds.
LOGGED = [
    ("INSERT INTO t SELECT n, ? || n FROM generate_series(?, ...) n;", 67.162),
    ("CREATE TABLE t (a int PRIMARY KEY, b text);", 35.543),
    ("CHECKPOINT", 14.505),
    ("DROP TABLE t;", 1.794),
    ("SELECT b FROM t WHERE a = ?", 0.479),
]


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("name", ["debian.log", "debian.csv", "debian.json", "cloudnativepg.json"])
def test_statements_are_the_same_in_every_shape_of_a_log(name: str, copies: int, tmp_path: Path) -> None:
    # Rows of csvlog and jsonlog hold details under the number of their record; a file may be there twice in one.
    (tmp_path / name).write_text((SERVERS / name).read_text(encoding="utf-8") * copies, encoding="utf-8")
    ca.ingest(tmp_path / name, tmp_path / "dataset", jobs=1)
    profile = ca.server_profile(ca.open_dataset(tmp_path / "dataset"))
    timed = profile.by_fingerprint.filter(pl.col("timed") > 0)
    assert timed.select("text", "timed").rows() == [(text, 1) for text, _ in LOGGED]
    assert timed["mean_ms"].to_list() == pytest.approx([ms for _, ms in LOGGED])
    assert profile.statements["failed"].sum() == 1
