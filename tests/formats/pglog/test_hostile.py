"""Hostile input: nothing crashes, hangs, needs unbounded memory or loses a record without a word."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from citus_analysis.errors import FormatError, InputError
from citus_analysis.formats import Content, detect_format
from citus_analysis.formats.deliveries.content import LINE_CAP
from citus_analysis.formats.pglog import chunking as _chunks
from citus_analysis.formats.pglog.prefix import Prefix
from citus_analysis.formats.pglog.records import Chunk

from .logs import line, read, written

NOBODY = 65534
GOOD = line("LOG:  duration: 0.067 ms")
LAST = line("LOG:  duration: 2.000 ms", number=2)


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n\n", b" "])
def test_nothing_in_it(tmp_path: Path, data: bytes) -> None:
    log = read(written(tmp_path, data))
    assert log.events.is_empty()
    assert log.accounted == len(data)


def test_zero_bytes_are_no_time_of_day(tmp_path: Path) -> None:
    # Found by the fuzzer: the first line of a chunk was compared with a second that no line had shown yet.
    faked = bytes(19) + b".963 UTC [1] [8/7] : [3-1] [app=x] LOG:  duration: 1.000 ms\n"
    log = read(written(tmp_path, faked + LAST))
    assert log.column("byte_offset") == [len(faked)]
    assert log.rejects.get_column("byte_length").to_list() == [len(faked)]


@pytest.mark.parametrize("data", [b"x", b"\x00", b"\x7fELF\x02\x01" + bytes(range(256)) * 300, b"no log\n" * 9])
def test_no_log_at_all(tmp_path: Path, data: bytes) -> None:
    path = written(tmp_path, data)
    with pytest.raises(FormatError, match="line 1: no line begins with"):
        read(path)
    assert detect_format(Content(written(tmp_path, data, "some.log"))) is None


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_utf16_says_how_to_convert(tmp_path: Path, encoding: str) -> None:
    path = written(tmp_path, GOOD.decode().encode(encoding))
    with pytest.raises(FormatError, match="UTF-16"):
        read(path)


def test_no_line_end_at_the_end(tmp_path: Path) -> None:
    log = read(written(tmp_path, GOOD + LAST.rstrip()))
    assert log.column("duration_us") == [67.0, 2000.0]
    assert log.accounted == len(GOOD + LAST) - 1


def test_crlf(tmp_path: Path) -> None:
    log = read(written(tmp_path, (line("ERROR:  oops") + GOOD).replace(b"\n", b"\r\n")))
    assert log.column("message") == ["oops", None]
    assert log.column("duration_us") == [None, 67.0]


def test_invalid_utf8_stays_in_its_record(tmp_path: Path) -> None:
    data = line("ERROR:  caf@ |").replace(b"@", b"\xe9").replace(b"|", b"\xff\xc3") + LAST
    log = read(written(tmp_path, data))
    assert log.column("message") == ["caf? ??", None]
    assert log.column("byte_offset") == [0, len(data) - len(LAST)]


def test_a_prefix_within_a_statement_is_text(tmp_path: Path) -> None:
    inner = GOOD.decode().rstrip()
    log = read(
        written(
            tmp_path, line(f"LOG:  statement: SELECT 'it''s', '{inner}'") + line(f"LOG:  statement: SELECT\n\t{inner}")
        )
    )
    assert log.column("kind") == ["statement", "statement"]
    assert log.column("statement_kind") == ["select", "select"]


SELECT = line("LOG:  duration: 3.000 ms  execute S_1: SELECT 'a', b FROM public.t_102009 WHERE c = $1 ORDER BY d")
PREFIXES = {"study": "", "plain": "%m [%p] ", "stderr": "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ", "syslog": ""}


def under(prefix: str, *records: bytes) -> list[bytes]:
    """Records of the study under another prefix."""
    heads = {
        "plain": b"2026-11-20 21:03:47.877 UTC [7] ",
        "stderr": b"2026-11-20 21:03:47 UTC [7]: [1-1] user=u,db=d,app=psql,client=[local] ",
        "syslog": b"Nov 20 21:03:47 host postgres[7]: [1-1] ",
    }
    return [heads[prefix] + record[record.index(b"LOG:") :] if prefix in heads else record for record in records]


@pytest.mark.parametrize("cut", [0, 1, 5, 20, 60])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_two_records_in_one_line_are_none(tmp_path: Path, prefix: str, cut: int) -> None:
    """The end of a line was lost, and perhaps more of it: nobody can tell what the first record said."""
    good, first, second, last = under(prefix, GOOD, SELECT, GOOD, LAST)
    joined = first.rstrip()[: len(first) - 1 - cut] + second
    log = read(written(tmp_path, good + joined + last))
    assert log.column("duration_us") == [67.0, 2000.0]
    assert log.rejects.select("byte_offset", "byte_length").rows() == [(len(good), len(joined))]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    "damage",
    [
        b"\x00" * 4096 + b"\n",
        b"\x00" * 4096,
        b"cut from another line of statistics\n",
        b"\xff\xfe\x01 garbage: not of this file\n",
        b"2026-11-20 21:0x:47.877 UTC [7] [3/4] : [1-1] [app=psql] LOG:  duration: 0.067 ms\n",
        b"cp: cannot stat 'pg_wal/000000010000000000000001': No such file or directory\n",
    ],
    ids=["zeros", "zeros before a record", "end of a line", "garbage", "time", "other program"],
)
def test_what_continues_no_record_is_rejected(tmp_path: Path, prefix: str, damage: bytes) -> None:
    good, select, last = under(prefix, GOOD, SELECT, LAST)
    lost = damage if damage.endswith(b"\n") else damage + good
    log = read(written(tmp_path, good + select + lost + last))
    assert log.column("duration_us") == [67.0, 3000.0, 2000.0]
    assert log.column("byte_length")[1] == len(select)
    assert log.rejects.select("byte_offset", "byte_length").rows() == [(len(good + select), len(lost))]


def test_a_damaged_line_within_a_record_ends_it(tmp_path: Path) -> None:
    whole = line("LOG:  duration: 3.000 ms  statement: SELECT 1,\n\t2,\n\tzero\x00\n\t3")
    log = read(written(tmp_path, GOOD + whole + LAST))
    assert log.column("byte_length") == [len(GOOD), whole.index(b"\tzero"), len(LAST)]
    assert log.rejects.get_column("byte_length").to_list() == [len(b"\tzero\x00\n\t3\n")]


def test_a_copy_may_have_made_spaces_of_tabs(tmp_path: Path) -> None:
    data = line("LOG:  duration: 3.000 ms  statement: SELECT 1,\n        2\n\n    FROM t")
    log = read(written(tmp_path, data + LAST))
    assert log.column("byte_length") == [len(data), len(LAST)]
    assert log.rejects.is_empty()


def test_many_records_within_literals_of_one_line_take_no_time(tmp_path: Path) -> None:
    """Each is text; to count the quotes before each from the beginning would take minutes."""
    inner = GOOD.decode().rstrip()
    data = line("LOG:  statement: INSERT INTO logs VALUES " + f"('{inner}')," * 40_000)
    began = time.perf_counter()
    assert read(written(tmp_path, data + LAST)).column("byte_length") == [len(data), len(LAST)]
    assert time.perf_counter() - began < 5


def test_a_log_cut_at_both_ends(tmp_path: Path) -> None:
    head, tail = b"s finished in 591 microseconds\n\tof a statement\n", b"2026-11-20 21:03:47.8"
    log = read(written(tmp_path, head + GOOD + tail))
    assert log.column("kind") == ["duration"]
    first, last = log.rejects.iter_rows(named=True)
    assert (first["byte_offset"], first["byte_length"]) == (0, len(head))
    assert (last["byte_offset"], last["byte_length"]) == (len(head + GOOD), len(tail))
    assert last["reason"] == "the log ends within this line"
    assert log.accounted == len(head + GOOD + tail)


def test_a_duration_cut_short_is_no_duration(tmp_path: Path) -> None:
    log = read(written(tmp_path, GOOD + line("LOG:  duration: 12.3")[:-1]))
    assert log.column("kind") == ["duration", "other"]
    assert log.column("duration_us") == [67.0, None]


def test_two_logs_glued_together(tmp_path: Path) -> None:
    other = b"2021-02-14 01:34:02 CET [30291]: db=a,user=b,app=c,client=d LOG:  duration: 1.000 ms\n\tof the other\n"
    log = read(written(tmp_path, GOOD + LAST + other + GOOD))
    assert log.column("duration_us") == [67.0, 2000.0, 67.0]
    (reject,) = log.rejects.iter_rows(named=True)
    assert (reject["byte_offset"], reject["byte_length"]) == (len(GOOD + LAST), len(other))
    assert reject["reason"].startswith("no log_line_prefix")


def test_a_huge_line_is_one_capped_record(tmp_path: Path) -> None:
    huge = line("LOG:  statement: INSERT INTO public.t_102008 VALUES ('" + "x" * (2 * LINE_CAP) + "')")
    log = read(written(tmp_path, GOOD + huge + LAST))
    assert log.column("capped") == [False, True, False]
    assert log.column("byte_length") == [len(GOOD), len(huge), len(LAST)]
    assert log.column("shard_id") == [None, 102008, None]
    assert log.accounted == len(GOOD + huge + LAST)


@pytest.mark.sharded(3)
@pytest.mark.parametrize("lines", [1, 2_000])
@pytest.mark.parametrize("chunk", [1 << 16, 1 << 22, 1 << 26])
def test_a_huge_record_of_many_lines_is_capped_wherever_blocks_end(tmp_path: Path, lines: int, chunk: int) -> None:
    text = b"\t" + b"y" * (LINE_CAP * 2 // lines) + b"\n"
    huge = line("LOG:  statement: SELECT") + text * lines
    path = written(tmp_path, GOOD + huge + LAST + GOOD)
    with patch("citus_analysis.formats.pglog.CHUNK_BYTES", chunk):
        log = read(path)
    assert log.column("byte_length") == [len(GOOD), len(huge), len(LAST), len(GOOD)]
    assert log.column("capped") == [False, True, False, False]


def test_a_huge_line_outside_of_records_is_one_reject(tmp_path: Path) -> None:
    huge = b"z" * (2 * LINE_CAP) + b"\n"
    path = written(tmp_path, GOOD + b"2021-01-01 LOG:  other prefix\n" + huge + LAST)
    log = read(path)
    assert log.column("duration_us") == [67.0, 2000.0]
    assert log.accounted == path.stat().st_size


def test_a_log_that_is_still_written_to(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD * 1000)
    whole = _chunks.split_into_record_chunks

    def growing(content: Content, prefix: Prefix, size: int) -> Iterator[Chunk]:
        for chunk in whole(content, prefix, size):
            with path.open("ab") as file:
                file.write(LAST[:30])
            yield chunk

    with patch("citus_analysis.formats.pglog.split_into_record_chunks", growing):
        log = read(path)
    assert log.events.height >= 999
    assert log.accounted >= len(GOOD) * 1000


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Root may read everything: it becomes somebody else for the test."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    yield
    os.seteuid(before)


def test_no_permission(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = written(tmp_path, GOOD)
    path.chmod(0)
    request.getfixturevalue("unprivileged")
    with pytest.raises(InputError, match="Permission denied"):
        read(path)


def test_damaged_compression(tmp_path: Path) -> None:
    data = gzip.compress(GOOD * 50_000)
    with pytest.raises(InputError, match="cannot be read"):
        read(written(tmp_path, data[: len(data) // 2], "PGLOG-1-1.log.gz"))
