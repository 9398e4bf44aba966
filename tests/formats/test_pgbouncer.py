"""The log of PgBouncer: events of connections, and its statistics."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import polars as pl
import pytest

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, detect_format
from citus_analysis.formats.pgbouncer import FORMAT
from tests.formats.sampling import ROOT, read, read_bytes

RECORDED: Final = ROOT / "tests" / "data" / "servers" / "pgbouncer" / "pgbouncer-1.18.log"
_OTHERS: Final = (
    "2026-11-25 22:11:42.131 UTC [7] LOG:  duration: 1.5 ms\n2026-11-25 22:11:42.132 UTC [7] LOG:  stats: 1\n"
)


def test_a_recorded_log() -> None:
    assert detect_format(Content(RECORDED)) is FORMAT
    found = read(FORMAT, RECORDED)
    events = dict(found["pooler_events"].group_by("event").len().rows())
    assert events == {"login": 41, "connect": 3, "close": 46, "error": 6, "stats": 6, "other": 4}
    login = found["pooler_events"].row(3, named=True)
    assert (login["side"], login["database"], login["user"], login["host"], login["port"]) == (
        *("client", "bench", "app"),
        *("127.0.0.1", 60620),
    )
    assert login["log_time"] == datetime(2026, 11, 25, 22, 11, 42, 131_000, UTC)
    closed = found["pooler_events"].filter(pl.col("event") == "close", pl.col("age_s") == 7)
    assert set(closed["side"]) == {"client"}
    first = found["pooler_samples"].filter(pl.col("sample") == 0)
    assert first.select("measure", "value", "unit").rows() == [
        ("xacts", 4149.0, "1/s"),
        ("queries", 4149.0, "1/s"),
        ("in", 256785.0, "B/s"),
        ("out", 273678.0, "B/s"),
        ("xact", 609.0, "us"),
        ("query", 609.0, "us"),
        ("wait", 1318063.0, "us"),
    ]
    assert found.rejects.is_empty()


_LINES: Final = {
    "1.7": ("7", "Stats: 12 req/s, in 3 b/s, out 4 b/s,query 5 us", {"req": 12, "in": 3, "out": 4, "query": 5}),
    "1.8": (
        "7",
        "Stats: 1 xacts/s, 2 queries/s, in 3 B/s, out 4 B/s, xact 5 us, query 6 us wait time 7 us",
        {"wait": 7},
    ),
    "1.9": (
        "7",
        "stats: 1 xacts/s, 2 queries/s, in 3 B/s, out 4 B/s, xact 5 us, query 6 us, wait time 7 us",
        {"wait": 7},
    ),
    "1.12": (
        "UTC [7]",
        "stats: 1 xacts/s, 2 queries/s, in 3 B/s, out 4 B/s, xact 5 us, query 6 us, wait 7 us",
        {"wait": 7},
    ),
    "1.24": (
        "UTC [7]",
        "stats: 1 xacts/s, 2 queries/s, 8 client parses/s, 9 server parses/s, 10 binds/s, in 3 B/s, out 4 B/s, "
        "xact 5 us, query 6 us, wait 7 us",
        {"xacts": 1, "client parses": 8, "binds": 10, "out": 4, "xact": 5},
    ),
}


@pytest.mark.parametrize(("process", "text", "expected"), _LINES.values(), ids=_LINES)
def test_statistics_of_versions(tmp_path: Path, process: str, text: str, expected: dict[str, float]) -> None:
    found = read_bytes(FORMAT, tmp_path, f"2026-11-25 22:11:42.131 {process} LOG {text}\n".encode())
    values = dict(found["pooler_samples"].select("measure", "value").rows())
    assert {name: values[name] for name in expected} == expected


def test_a_log_of_version_1_9(tmp_path: Path) -> None:
    log = (
        b"2019-02-22 21:19:30.001 6967 LOG File descriptor limit: 524288 (H:524288), max_client_conn: 100\n"
        b"2019-02-22 21:19:37.182 6967 LOG C-0x71c830: shop/app@10.0.0.9:27115 login attempt: db=shop user=app tls=no\n"
        b"2019-02-22 21:19:38.182 6967 LOG C-0x71c830: shop/app@10.0.0.9:27115 closing because: client close (age=7)\n"
    )
    (tmp_path / "pooler.log").write_bytes(log)
    assert detect_format(Content(tmp_path / "pooler.log")) is FORMAT
    found = read_bytes(FORMAT, tmp_path, log)["pooler_events"]
    assert found.select("event", "pid", "age_s").rows() == [
        *(("other", 6967, None), ("login", 6967, None), ("close", 6967, 7.0)),
    ]


_CONNECTIONS: Final = {
    "shop/app@10.0.0.9:41234": ("shop", "app", "10.0.0.9", 41234),
    "shop/app@[::1]:41234": ("shop", "app", "[::1]", 41234),
    "shop/app@unix(1234):6432": ("shop", "app", "unix(1234)", 6432),
    "(nodb)/(nouser)@127.0.0.1:5": ("(nodb)", "(nouser)", "127.0.0.1", 5),
}


@pytest.mark.parametrize("connection", _CONNECTIONS)
def test_connections(tmp_path: Path, connection: str) -> None:
    line = f"2026-11-25 22:11:42.131 +01 [7] WARNING C-0x55d0: {connection} pooler error: query_wait_timeout\n"
    event = read_bytes(FORMAT, tmp_path, line.encode())["pooler_events"].row(0, named=True)
    assert (event["database"], event["user"], event["host"], event["port"]) == _CONNECTIONS[connection]
    assert (event["event"], event["log_time"].hour, event["message"]) == (
        *("error", 21),
        "pooler error: query_wait_timeout",
    )


def test_a_server_log_is_not_the_poolers(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(_OTHERS)
    assert FORMAT.detect("server.log", _OTHERS.encode()) == 0
    with pytest.raises(FormatError, match="no line of PgBouncer"):
        read_bytes(FORMAT, tmp_path, _OTHERS.encode())


def test_an_ambiguous_zone_is_refused(tmp_path: Path) -> None:
    line = b"2026-11-25 22:11:42.131 CST [7] LOG process up: PgBouncer 1.18.0\n"
    with pytest.raises(FormatError, match="which is the time of several zones"):
        read_bytes(FORMAT, tmp_path, line)
    assert read_bytes(FORMAT, tmp_path, line, timezone="Asia/Shanghai")["pooler_events"]["log_time"][0].hour == 14


@pytest.mark.parametrize("seed", range(20))
def test_generated_logs(tmp_path: Path, seed: int) -> None:
    """What is written into a log is what is read, and the rest is rejected."""
    rng, lines, expected, rejected = random.Random(seed), [], [], 0
    time = datetime(2026, 3, 28, 23, 0, 0, tzinfo=UTC)
    for _ in range(rng.randint(1, 60)):
        time += timedelta(milliseconds=rng.randrange(100_000))
        zone, hours = rng.choice([("UTC", 0), ("CET", 1), ("+0530", 5.5), ("-03", -3)])
        stamp = (time + timedelta(hours=hours)).strftime("%Y-%m-%d %H:%M:%S.") + f"{time.microsecond // 1000:03}"
        side, ptr = rng.choice("CS"), f"0x{rng.randrange(2**40):x}"
        said, event = rng.choice(
            [
                ("login attempt: db=a user=b tls=no", "login"),
                ("new connection to server (from 1.2.3.4:5)", "connect"),
                ("closing because: client close request (age=12s)", "close"),
                ("closing because: server lifetime over (age=3)", "close"),
                ("Taking connection from reserve_pool", "other"),
                ("pooler error: no such user: login attempt", "error"),
            ]
        )
        if rng.random() < 0.1:
            lines.append(rng.choice(["garbage", "\x00\x01", "2026-13-45 00:00:00.000 UTC [1] LOG stats: 1 xacts/s"]))
            rejected += len(lines[-1]) + 1
        lines.append(f"{stamp} {zone} [{rng.randrange(10**6)}] LOG {side}-{ptr}: a/b@h.example:5432 {said}")
        expected.append((time.replace(microsecond=time.microsecond // 1000 * 1000), event))
    found = read_bytes(FORMAT, tmp_path, ("\n".join(lines) + "\n").encode())
    assert found["pooler_events"].select("log_time", "event").rows() == expected
    assert found.rejects["byte_length"].sum() == rejected
