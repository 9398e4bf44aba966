"""Tables of PgBouncer's administration console, as psql prints them."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import polars as pl
import pytest

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, detect_format
from citus_analysis.formats.pgbouncer_show import FORMAT
from tests.formats.sampling import ROOT, Read, read, read_bytes

RECORDED: Final = ROOT / "tests" / "data" / "servers" / "pgbouncer"


def values(found: Read, **of: str) -> dict[str, tuple[float, str | None]]:
    rows = found["pooler_samples"].filter([pl.col(name) == text for name, text in of.items()])
    return {name: (value, unit) for name, value, unit in rows.select("measure", "value", "unit").rows()}


def test_statistics() -> None:
    found = read(FORMAT, RECORDED / "show-STATS.unaligned.txt")
    told = values(found, database="bench", report="STATS")
    expected = {
        "total_query_count": (27819, None),
        "total_received": (1721887, "B"),
        "total_wait_time": (9654861, "us"),
        "avg_query_count": (4890, "1/s"),
        "avg_recv": (302703, "B/s"),
        "avg_query_time": (744, "us"),
    }
    assert {name: told[name] for name in expected} == expected


@pytest.mark.parametrize("report", ["STATS", "POOLS", "CLIENTS"])
@pytest.mark.parametrize("form", ["aligned.txt", "unaligned.txt", "csv"])
def test_the_forms_of_psql(report: str, form: str) -> None:
    path = RECORDED / f"show-{report}.{form}"
    assert detect_format(Content(path)) is FORMAT
    found = read(FORMAT, path)
    assert set(found["pooler_samples"]["report"]) == {report}
    assert found["pooler_samples"].height == {"STATS": 28, "POOLS": 24, "CLIENTS": 9}[report]
    assert found.rejects.is_empty()


@pytest.mark.parametrize(
    ("report", "item", "expected"),
    [
        ("LISTS", "used_clients", {"items": (9, None)}),
        ("MEM", "user_cache", {"size": (2312, "B")}),
        ("DATABASES", None, {"pool_size": (3, None), "max_connections": (0, None)}),
    ],
)
def test_other_reports(report: str, item: str | None, expected: dict[str, tuple[float, str | None]]) -> None:
    found = read(FORMAT, RECORDED / f"show-{report}.aligned.txt")
    told = values(found, **({"item": item} if item else {"database": "bench"}))
    assert {name: told[name] for name in expected} == expected
    assert found.rejects.is_empty()


def test_servers_have_states() -> None:
    servers = read(FORMAT, RECORDED / "show-SERVERS.aligned.txt")["pooler_samples"]
    assert set(servers["report"]) == {"SERVERS"}
    assert set(servers["state"]) <= {"active", "idle", "used"}
    assert servers["item"].n_unique() == 3


def test_each_table_of_watch_is_a_sample_with_its_time() -> None:
    found = read(FORMAT, RECORDED / "watch-pools.txt")
    times = found["pooler_samples"].group_by("sample", maintain_order=True).agg(pl.col("sample_time").first())
    assert times["sample_time"].to_list()[:3] == [
        None,
        datetime(2026, 11, 25, 22, 11, 52, tzinfo=UTC),
        datetime(2026, 11, 25, 22, 11, 53, tzinfo=UTC),
    ]
    assert found.rejects.is_empty()


def test_reports_with_equal_columns_are_rejected() -> None:
    found = read(FORMAT, RECORDED / "show-STATS_TOTALS.aligned.txt")
    assert found["pooler_samples"].is_empty()
    assert set(found.rejects["reason"]) == {"the columns are those of STATS_TOTALS or STATS_AVERAGES"}


def test_whole_seconds_and_their_microseconds(tmp_path: Path) -> None:
    text = b"database,user,cl_active,cl_waiting,sv_active,maxwait,maxwait_us,pool_mode\nb,u,1,2,3,4,500000,session\n"
    told = values(read_bytes(FORMAT, tmp_path, text), user="u")
    assert told == {
        "cl_active": (1, None),
        "cl_waiting": (2, None),
        "sv_active": (3, None),
        "maxwait": (4_500_000, "us"),
    }


@pytest.mark.parametrize("text", ["name,size,used,free,memtotal\na,1,2,3,4\n", "list,items\na,1\n", "a|b\n1|2\n"])
def test_other_tables_are_not_pgbouncers(text: str) -> None:
    assert FORMAT.detect("table.csv", text.encode()) == 0


def test_a_file_without_a_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="has no table of PgBouncer"):
        read_bytes(FORMAT, tmp_path, b"hello\n")


@pytest.mark.parametrize("seed", range(12))
def test_generated_reports(tmp_path: Path, seed: int) -> None:
    """Any form, any columns of a later version, tables one after the other; damaged rows are rejected."""
    rng, text, expected, bad = random.Random(seed), "", [], 0
    names = ["database", "user", "cl_active", "cl_waiting", "sv_active", "maxwait", *rng.sample(["sv_idle", "new"], 1)]
    form = rng.choice(["csv", "unaligned", "aligned"])
    mark = {"csv": ",", "unaligned": "|", "aligned": " | "}[form]
    for sample in range(rng.randint(1, 5)):
        text += mark.join(names) + "\n" + ("-----+----\n" if form == "aligned" else "")
        for row in range(rng.randint(0, 4)):
            numbers = [rng.randrange(10**6) for _ in names[2:]]
            text += mark.join(["db", f"u{row}", *map(str, numbers)]) + "\n"
            if rng.random() < 0.2:
                text += "x" + mark + "y\n"
                bad += len(mark) + 3
            expected.append((sample, f"u{row}", numbers[1], numbers[3] * 1e6))
        text += "" if form == "csv" else "(9 rows)\n\n"
    found = read_bytes(FORMAT, tmp_path, text.encode())
    rows = found["pooler_samples"].pivot("measure", index=["sample", "user"], values="value") if expected else None
    if rows is not None:
        assert rows.select("sample", "user", "cl_waiting", "maxwait").rows() == expected
    assert found.rejects["byte_length"].sum() == bad
