"""What single records give, line by line."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from citus_analysis.errors import FormatError, InputError, UsageError
from citus_analysis.formats import Content, Hints, detect_format
from citus_analysis.formats.pglog import FORMAT
from citus_analysis.formats.pglog.prefix import STUDY_PREFIX

from .logs import line, read, written

TASK = (
    "DEBUG:  task execution (0) for placement (2) on anchor shard (102009) finished in 591 microseconds "
    "on worker node worker2:5432"
)
CASES: list[tuple[str, dict[str, object]]] = [
    ("LOG:  duration: 0.067 ms", {"kind": "duration", "duration_us": 67.0, "phase": None}),
    (
        "LOG:  duration: 12.345 ms  statement: SELECT 1",
        {"kind": "duration", "duration_us": 12345.0, "phase": "statement", "statement_kind": "select"},
    ),
    (
        "LOG:  duration: 1.000 ms  parse S_1: SELECT 1",
        {"kind": "parse", "duration_us": 1000.0, "phase": "parse", "statement_name": "S_1"},
    ),
    ("LOG:  duration: 0.002 ms  bind S_1/C_2: SELECT 1", {"kind": "bind", "phase": "bind", "statement_name": "S_1"}),
    ("LOG:  execute <unnamed>: SET a = 3", {"kind": "execute", "statement_name": "<unnamed>", "statement_kind": "set"}),
    ("LOG:  execute fetch from S_2/C_3: SELECT 1", {"kind": "execute", "statement_name": "S_2"}),
    (
        "LOG:  statement: INSERT INTO public.usertable_102009 (k) VALUES ('x')",
        {"kind": "statement", "shard_id": 102009, "statement_kind": "insert", "message": None},
    ),
    ("LOG:  statement: SELECT 'a.b_102009' FROM t", {"shard_id": None}),
    (
        "LOG:  statement: SELECT count(*) FROM public.usertable_102010 usertable WHERE true",
        {"shard_id": 102010, "statement_kind": "select"},
    ),
    (
        TASK,
        {
            "kind": "task",
            "task_us": 591,
            "shard_id": 102009,
            "placement_id": 2,
            "worker_host": "worker2",
            "worker_port": 5432,
        },
    ),
    ("DEBUG:  parse S_1: SELECT 1", {"kind": "parse", "duration_us": None, "statement_name": "S_1"}),
    ("DEBUG:  bind <unnamed> to S_1", {"kind": "bind", "statement_name": "S_1", "message": None}),
    ("DETAIL:  parameters: $1 = 'secret value'", {"kind": "parameters", "message": None}),
    ("DETAIL:  Parameters: $1 = 'x'", {"kind": "parameters"}),
    ("DETAIL:  Key (k)=(1) already exists.", {"kind": "detail", "message": "Key (k)=(1) already exists."}),
    (
        "STATEMENT:  DELETE FROM t",
        {"kind": "detail", "severity": "STATEMENT", "statement_kind": "delete", "message": None},
    ),
    (
        "LOG:  process 7 still waiting for ShareLock on transaction 9 after 1000.123 ms",
        {"kind": "lock_wait", "duration_us": 1000123.0},
    ),
    ('LOG:  automatic vacuum of table "a.b.c": index scans: 0', {"kind": "autovacuum"}),
    ('LOG:  temporary file: path "base/1", size 12', {"kind": "temp_file"}),
    ("LOG:  disconnection: session time: 0:00:01.178 user=a", {"kind": "connection"}),
    ("ERROR:  duration: 1.000 ms", {"kind": "error", "duration_us": None, "message": "duration: 1.000 ms"}),
    ('FATAL:  password authentication failed for user "a"', {"kind": "error", "severity": "FATAL"}),
    (
        "LOG:  duration: 22.500 ms  rows: 1  size: 8 bytes  execute <unnamed>: SELECT 1",
        {"kind": "duration", "phase": "execute", "duration_us": 22500.0, "statement_name": "<unnamed>"},
    ),
    (
        'LOG:  duration: 1500.000 ms  fastpath function call: "lowrite" (OID 955)',
        {"kind": "duration", "phase": "fastpath", "duration_us": 1_500_000.0, "statement_kind": "other"},
    ),
    (
        "LOG:  duration: 1.000 ms  something new",
        {"kind": "other", "phase": None, "duration_us": 1000.0, "message": "duration: 1.000 ms  something new"},
    ),
    ('WARNING:  database "a" must be vacuumed within 1000 transactions', {"kind": "wraparound"}),
    ("LOG:  server process (PID 7) was terminated by signal 9: Killed", {"kind": "crash"}),
    ("ERROR:  out of memory", {"kind": "out_of_memory"}),
    ("LOG:  archive command failed with exit code 1", {"kind": "archive_failed"}),
    ("ERROR:  invalid page in block 3 of relation base/5/1", {"kind": "checksum"}),
    ("ERROR:  deadlock detected", {"kind": "deadlock"}),
    ("ERROR:  canceling statement due to statement timeout", {"kind": "statement_timeout"}),
    ("ERROR:  canceling statement due to user request", {"kind": "error"}),
    ("FATAL:  sorry, too many clients already", {"kind": "too_many_connections"}),
    ('PANIC:  could not write to file "pg_wal/xlogtemp.7": No space left on device', {"kind": "disk_full"}),
    ("LOG:  received SIGHUP", {"kind": "other", "message": "received SIGHUP"}),
    ("WARNING:  ALTER USER a PASSWORD 'hunter2'", {"message": "ALTER USER a PASSWORD '***'"}),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text[:40] for text, _ in CASES])
def test_what_a_record_says(tmp_path: Path, text: str, expected: dict[str, object]) -> None:
    (row,) = read(written(tmp_path, line(text))).events.iter_rows(named=True)
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("app", "application", "gpid"),
    [
        ("[unknown]", "[unknown]", None),
        ("citus_internal gpid=20000030999", "citus_internal", 20000030999),
        ("citus_rebalancer gpid=10000000001", "citus_rebalancer", 10000000001),
        ("my app] LOG:  x", "my app] LOG:  x", None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_applications(tmp_path: Path, app: str | None, application: str | None, gpid: int | None) -> None:
    log = read(written(tmp_path, line("LOG:  duration: 0.067 ms", app=app)), log_line_prefix=STUDY_PREFIX)
    (row,) = log.events.iter_rows(named=True)
    if app == "my app] LOG:  x":
        # What looks like the end of the prefix is taken for it: nothing in the line tells otherwise.
        assert row["application"] == "my app"
    else:
        assert (row["application"], row["gpid"]) == (application, gpid)


def test_prefix_without_space_and_with_empty_transaction(tmp_path: Path) -> None:
    data = b"2026-11-20 21:03:47.877 UTC [7][3/0] : [1-1] [app=a] LOG:  duration: 1.000 ms\n"
    data += b"2026-11-20 21:03:47.878 UTC [8][] : [1-1] LOG:  checkpoint starting: time\n"
    log = read(written(tmp_path, data), log_line_prefix=STUDY_PREFIX)
    assert log.column("backend_id") == [3, None]
    assert log.column("local_xid") == [0, None]
    assert log.column("kind") == ["duration", "checkpoint"]


def test_continuation_lines_belong_to_their_record(tmp_path: Path) -> None:
    data = line(
        "LOG:  statement: SELECT\n\t1,\n\t'2026-11-20 21:03:47.877 UTC [7] [3/4] : [1-1] LOG:  duration: 1.000 ms'"
    )
    log = read(written(tmp_path, data + line("LOG:  duration: 2.000 ms", number=2)))
    assert log.column("kind") == ["statement", "duration"]
    assert log.column("byte_length") == [len(data), len(line("LOG:  duration: 2.000 ms", number=2))]


def test_details_are_tied_to_the_record_before_them_in_their_session(tmp_path: Path) -> None:
    lines = [
        line("DETAIL:  of a record that is not in this log", pid=5, number=9),
        line("ERROR:  one", pid=5, number=10),
        line("LOG:  execute S_1: SELECT 1", pid=6, number=3),
        line("HINT:  h", pid=5, number=11),
        line("DETAIL:  parameters: $1 = '1'", pid=6, number=4),
        line("STATEMENT:  SELECT 1", pid=5, number=12),
        line("HINT:  behind a gap", pid=6, number=9),
    ]
    log = read(written(tmp_path, b"".join(lines)))
    offsets = log.column("byte_offset")
    assert log.column("record_byte_offset") == [None, None, None, offsets[1], offsets[2], offsets[1], None]


def test_checkpoints_pair_start_and_completion(tmp_path: Path) -> None:
    complete = (
        "LOG:  checkpoint complete: wrote 1409 buffers (2.1%); 0 WAL file(s) added, 1 removed, 2 recycled; "
        "write=3.832 s, sync=0.021 s, total=3.876 s; sync files=10, longest=0.007 s, average=0.003 s; "
        "distance=11203 kB, estimate=56678 kB; lsn=0/1, redo lsn=0/1"
    )
    lines = [
        line(complete, app=None, clock="21:00:00.000"),
        line("LOG:  checkpoint starting: immediate force wait", app=None, clock="21:00:01.000", number=2),
        line(complete, app=None, clock="21:00:05.000", number=3),
    ]
    first, second = read(written(tmp_path, b"".join(lines))).checkpoints.iter_rows(named=True)
    assert (first["start_time"], first["reason"]) == (None, None)
    assert second["reason"] == "immediate force wait"
    assert (second["end_time"] - second["start_time"]).total_seconds() == 4
    assert {
        name: second[name] for name in ("buffers_written", "wal_recycled", "sync_s", "distance_kb", "sync_files")
    } == {
        "buffers_written": 1409,
        "wal_recycled": 2,
        "sync_s": 0.021,
        "distance_kb": 11203.0,
        "sync_files": 10,
    }


@pytest.mark.parametrize(
    ("stamp", "zone", "expected"),
    [
        ("2026-11-20 21:03:47.877 CET", None, "2026-11-20T20:03:47.877"),
        ("2026-11-20 21:03:47.877 +02", None, "2026-11-20T19:03:47.877"),
        ("2026-11-20 21:03:47.877 -0330", None, "2026-11-21T00:33:47.877"),
        ("2026-01-01 00:30:00.000 CET", None, "2025-12-31T23:30:00.000"),
        ("2026-07-01 12:00:00.000 CEST", "Europe/Berlin", "2026-07-01T10:00:00.000"),
        ("2026-10-25 02:30:00.000 CEST", "Europe/Berlin", "2026-10-25T00:30:00.000"),
        ("2026-10-25 02:30:00.000 CET", "Europe/Berlin", "2026-10-25T01:30:00.000"),
        ("2026-07-01 12:00:00.000 IST", "Asia/Kolkata", "2026-07-01T06:30:00.000"),
        ("2026-02-30 12:00:00.000 UTC", None, None),
        ("2026-07-01 12:00:00.000 XYZ", None, None),
    ],
)
def test_time_zones(tmp_path: Path, stamp: str, zone: str | None, expected: str | None) -> None:
    path = written(tmp_path, f"{stamp} [7] [3/4] : [1-1] LOG:  duration: 1.000 ms\n".encode())
    options = {"timezone": zone} if zone else {}
    (time,) = read(path, 1, **options).events.get_column("log_time")
    assert (None if time is None else time.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]) == expected


@pytest.mark.parametrize(
    ("prefix", "data", "expected"),
    [
        (
            "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
            "2017-09-06 08:41:41 UTC [36]: [121-1] user=a,db=bench,app=pgbench,client=10.0.0.1 LOG:  duration: 2.2 ms",
            {"pid": 36, "session_line": 121, "user": "a", "database": "bench", "client_host": "10.0.0.1"},
        ),
        (
            "%-10u|%6p|%e|%r|",
            "alice     |   123|23505|10.0.0.1(5432)|ERROR:  x",
            {"user": "alice", "pid": 123, "sqlstate": "23505", "client_host": "10.0.0.1"},
        ),
        ("%n %c %% ", "1763672627.877 5c7404eb.d6bd % LOG:  x", {"pid": 0xD6BD}),
        ("%m [%p] %q%u@%d/%a ", "2026-11-20 21:03:47.877 UTC [9] LOG:  x", {"pid": 9, "user": None, "database": None}),
        (
            "%m %b %L %i %Q %P %s %x ",
            "2026-11-20 21:03:47.877 UTC walwriter 10.0.0.2 SELECT -1 3 2026-11-20 21:03:47 UTC 7 LOG:  x",
            {},
        ),
    ],
)
def test_any_prefix(tmp_path: Path, prefix: str, data: str, expected: dict[str, object]) -> None:
    (row,) = read(written(tmp_path, data.encode() + b"\n"), log_line_prefix=prefix).events.iter_rows(named=True)
    assert {name: row[name] for name in expected} == expected
    assert row["severity"] in {"LOG", "ERROR"}


def test_unknown_escape(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown escape %z"):
        read(written(tmp_path, line("LOG:  x")), log_line_prefix="%z ")


@pytest.mark.parametrize("stated", ["%t %d %u [%p] ", "%t %d %u [%p]"])
def test_a_prefix_may_be_stated_without_the_space_at_its_end(tmp_path: Path, stated: str) -> None:
    data = "2026-03-01 10:00:02 UTC shop app [7] LOG:  duration: 2.000 ms\n"
    (row,) = read(written(tmp_path, data.encode()), log_line_prefix=stated).events.iter_rows(named=True)
    assert (row["database"], row["user"], row["pid"], row["duration_us"]) == ("shop", "app", 7, 2000)


def test_a_log_under_no_known_prefix_names_what_was_tried(tmp_path: Path) -> None:
    path = written(tmp_path, b"<<12:00:00 ninety nine>> LOG:  duration: 1 ms\n")
    with pytest.raises(FormatError) as caught:
        read(path, log_line_prefix="%m [%p] ")
    message = str(caught.value)
    assert "ninety nine" in message
    assert "'%m [%p] '" in message
    assert "log_line_prefix" in str(caught.value.hint)


def test_detection(tmp_path: Path) -> None:
    found = detect_format(Content(written(tmp_path, line("LOG:  duration: 1.000 ms"), "any.txt")))
    assert found is FORMAT
    assert detect_format(Content(written(tmp_path, b"", "PGLOG-0-1.log"))) is FORMAT
    assert detect_format(Content(written(tmp_path, b"hello\nworld\n", "server.log"))) is None


def test_a_directory_and_an_unreadable_file(tmp_path: Path) -> None:
    folder = tmp_path / "a.log"
    folder.mkdir()
    with pytest.raises(InputError):
        list(FORMAT.parse(Content(folder), Hints("a.log")))
    with pytest.raises(InputError):
        list(FORMAT.parse(Content(tmp_path / "absent.log"), Hints("absent.log")))


def test_clocks_that_jump_back_keep_the_order_of_the_file(tmp_path: Path) -> None:
    clocks = ["21:00:02.000", "21:00:01.000", "21:00:03.000"]
    data = b"".join(line("LOG:  duration: 1.000 ms", clock=clock, number=n + 1) for n, clock in enumerate(clocks))
    log = read(written(tmp_path, data))
    times = log.events.get_column("log_time")
    assert times.dt.strftime("%H:%M:%S").to_list() == [clock[:8] for clock in clocks]
    assert log.events.get_column("byte_offset").is_sorted()
    assert isinstance(times.dtype, pl.Datetime)
