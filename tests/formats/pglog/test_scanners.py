"""The compiled scanner and the one of regular expressions give the same rows, however a log is cut."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from citus_analysis.formats import Content
from citus_analysis.formats import pglog as _read
from citus_analysis.formats.deliveries import content as _content
from citus_analysis.formats.pglog.chunking import split_into_record_chunks
from citus_analysis.formats.pglog.compiled import count_heads, find_last_record
from citus_analysis.formats.pglog.prefix import OLDER_STUDY_PREFIX, STUDY_PREFIX, Prefix, compile_prefix
from citus_analysis.formats.pglog.records import CONTINUED, RECORD, Chunk
from citus_analysis.formats.pglog.regular_expressions import find_openers
from citus_analysis.formats.pglog.scanned_chunks import Memory, add_body_fast, scan_fast
from citus_analysis.formats.pglog.string_views import replace_invalid_utf8
from citus_analysis.schema import SEVERITIES
from tests.formats.pglog.oracle.records import _VERBS, add_body, describe, find_last_between_messages, scan
from tests.recordings import RECORDED
from tests.shards import count_examples

from .logs import Read, line, plain, read, scanned_in_chunks, written

SOME = settings(
    max_examples=count_examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
PREFIXES = (
    STUDY_PREFIX,
    OLDER_STUDY_PREFIX,
    "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%m|%u|%d|%c|",
    "%-8u %5p %r %e: ",
    "%m %u %d %a ",
    "%m [%p] %b %u@%d ",
    "%m,%i,%u,%q%h,%a,",
    "%m",
    "",
    "syslog: ",
    "syslog: " + STUDY_PREFIX,
    "verbose: " + STUDY_PREFIX,
    "verbose: %-8u %5p %r %e: ",
)

CONTEXT = f"traceparent='00-{'4bf92f35' * 4}-{'00f067aa' * 2}-01'"
word = st.sampled_from(
    [
        *(
            "SELECT",
            "insert",
            "FROM",
            "public.",
            "t_102009",
            '"T_102010"',
            "'it''s'",
            "E'\\''",
            "$1",
            "$$x$$",
            "$a$'$a$",
        ),
        *(
            "--c\n",
            "/*c*/",
            "/*",
            "'",
            '"',
            "1",
            "-2.5e3",
            ".5",
            "0xFF",
            "a.b_123456",
            ",",
            "(",
            ")",
            ";",
            "=",
            "+",
            "-",
            "?",
        ),
        *(
            " ",
            "\n\t",
            "é",
            "\x1f",
            "\x00",
            "_",
            "b'1'",
            "WITH",
            "x",
            "Rollback",
            "to",
            "commit",
            "prepared",
            "PREPARE",
        ),
        *("::", "::text", "::character varying(255)", "x::numeric(10,2)", ":", "('12345678'::bpchar(8))"),
        f"/*{CONTEXT}*/",
        f" /*db_driver='psycopg',{CONTEXT}*/;",
        f"/*{CONTEXT[:-2]}'*/",
    ]
)
statement = st.lists(word | st.text(max_size=3), max_size=12).map(" ".join) | st.lists(word, max_size=12).map("".join)
#: What may be taken for the place in the server's source that is before a message.
ORIGINS = (
    *(
        "[postgres.c:1590]  ",
        "[a-b_C.3.cc:1]  ",
        "[p.c:1234567890]  ",
        "[p.c:1] ",
        "[.c:1]  ",
        "[p.:1]  ",
        "[p.cpp:1]  ",
    ),
    *("[p.cppx:1]  ", "[p.C:1]  ", "[p.c:]  ", "[p.c:1", "[", "[p.c", "[p c.c:1]  ", "[p.c:1]  [p.c:2]  "),
)
said = st.one_of(
    st.sampled_from(
        [
            "LOG:  duration: 0.067 ms",
            "LOG:  duration: 1.500 ms  ",
            "LOG:  duration: 1.50 ms",
            "DEBUG:  bind <unnamed> to S_1/C_1",
            "DEBUG1:  task execution (0) for placement (2) on anchor shard (102009) finished in 591 microseconds "
            "on worker node worker2:5432",
            "DEBUG:  task execution (0) for placement (2) on anchor shard (x) finished",
            "LOG:  process 7 acquired ShareLock on transaction 9 after 12.123 ms after 1000.123 ms",
            "LOG:  checkpoint starting: time",
            'LOG:  duration: 3.000 ms  fastpath function call: "lowrite" (OID 955)',
            "LOG:  duration: 3.000 ms  rows: 17  size: 8 bytes  statement: SELECT 1",
            "LOG:  duration: 3.000 ms  rows: 17  ",
            'WARNING:  database "a" must be vacuumed within 1000 transactions',
            "FATAL:  could not write to file: No space left on device",
            "LOG:  server process (PID 7) was terminated by signal 9: Killed",
            "DETAIL:  parameters: $1 = 'a'",
            "FATAL:  password=hunter2 rejected",
            "HINT: one space",
            "BACKTRACE:  \tf",
        ]
    ),
    st.builds(
        "{}:  {}{}{}{}".format,
        st.sampled_from(["LOG", "DEBUG", "STATEMENT", "QUERY", "ERROR", "CONTEXT"]),
        st.sampled_from(["", "", "", "00000: ", "42P01: ", "4zP01: ", "00000:", "00000: 42P01: "]),
        st.sampled_from(["", "", "", *ORIGINS]),
        st.sampled_from(
            [
                "",
                "statement: ",
                "execute S_1: ",
                "execute fetch from S_1/C_2: ",
                "duration: 3.000 ms  parse <unnamed>: ",
                "parse a:b: ",
                "statement:\n\t",
                "duration: 3.000 ms  statement:\r\n  ",
                "execute S_1:\n",
                "bind a:b:\n\t",
            ]
        ),
        statement,
    ),
)
head = st.sampled_from(
    [
        "2026-11-20 21:03:47.877 UTC [7] [3/4] : [1-1] [app=psql] ",
        "2026-11-20 21:03:47.877 CET [8] [] : [12-1] ",
        "2026-11-20 21:03:47.877 +02 [8] [-1/0] : [12-1] [app=citus_internal gpid=20000030999] ",
        "2026-11-20 21:03:47.877 UTC [7] [3/4] : [1-1] [app=[unknown]] ",
        "2026-11-20 21:03:47.877 UTC [7][3/4] : [1-1] [app=psql] ",
        "2026-11-20 21:03:47.877 UTC [7][] : [1-1] ",
        "2026-02-30 21:03:47.877 UTC [7] [3/4] : [1-1] [app=] ",
        "2017-09-06 08:41:41 UTC [36]: [121-1] user=a,db=,app=x,y,client=1.2.3.4 ",
        "2019-02-25 15:08:27.232 GMT|alice|db|5c7404eb.d6bd|",
        "alice       77 10.0.0.1(54) 23505: ",
        "2026-11-20 21:03:47.877 UTC a b c d ",
        "2026-11-20 21:03:47.877 UTC alice shop  ",
        "2026-11-20 21:03:47.877 UTC [7] client backend alice@shop ",
        "2026-11-20 21:03:47.877 UTC [7] pg_cron launcher a@b@c ",
        "2026-11-20 21:03:47.877 UTC,idle in transaction,a,b,c,d,",
        "2026-11-20 21:03:47.877 UTC,,a,",
        "2026-11-20 21:03:47.877 UTC",
        "Nov 20 21:03:47 host postgres[7]: [1-1] ",
        "Nov  1 21:03:47 a.b pg-1[1234567890]: [12-2] ",
        "Feb 20 21:03:47 host postgres[7]: [3-12345678901234567890] #011",
        "Nov 20 21:03:47 host postgres[7]: [1-2] ",
        "Nov 20 21:03:47 host postgres[7]: [1-3] #011",
        "2026-11-20T21:03:47.877123+01:00 host postgres[7]: [1] ",
        "2026-11-20T21:03:47Z host postgres[7]: [2] #011",
        "<134>Nov 20 21:03:47 host postgres[7]: [3-1] ",
        "<134>1 2026-11-20T21:03:47.877123Z host postgres 7 - - [3-2] #011",
        '<134>1 2026-11-20T21:03:47Z host pg 7 ID [a@1 b="]"][c] [4-1] ',
        "<134>1 2026-11-20T21:03:47Z host pg - - - [4-1] ",
        "2026-11-20T21:03:47.8771234-01:00 host postgres[7]: [2] ",
        "Nov 20 21:03:47 host postgres[8]: [2-1] 2026-11-20 21:03:47.877 UTC [7] [3/4] : [1-1] [app=psql] ",
        "",
        "\t",
        "  ",
        "x",
    ]
)
end = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", "\n\tcontinued\n", ""])
raw = st.binary(max_size=40)
made = st.builds(lambda a, b, c: (a + b + c).encode("utf-8", "surrogatepass"), head, said | st.text(max_size=30), end)
#: What begins like a compressed file is taken for one.
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh")
logs = st.lists(made | made | raw, max_size=12).map(b"".join).filter(lambda log: not log.startswith(COMPRESSED))


def compiled_prefix(text: str) -> Prefix:
    """A prefix; behind syslog's header, or before messages with an SQLSTATE, where its name says so."""
    kind = text.partition(": ")[0]
    behind = text.removeprefix("syslog: ").removeprefix("verbose: ")
    return replace(compile_prefix(behind), syslog=kind == "syslog", verbose=kind == "verbose")


def same(chunk: Chunk, prefix_text: str) -> None:
    prefix = compiled_prefix(prefix_text)
    slow, fast = scan(chunk, prefix), scan_fast(chunk, prefix, Memory())
    assert (slow.parsed_bytes, slow.noise_bytes, slow.rejects) == (fast.parsed_bytes, fast.noise_bytes, fast.rejects)
    assert_frame_equal(plain(fast.rows), plain(slow.rows))


@SOME
@given(log=logs, prefix=st.sampled_from(PREFIXES), fresh=st.booleans())
def test_scanners_agree_on_any_bytes(log: bytes, prefix: str, *, fresh: bool) -> None:
    same(Chunk(100, replace_invalid_utf8(log), fresh=fresh), prefix)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_scanners_agree_on_nothing(prefix: str) -> None:
    same(Chunk(100, b""), prefix)


@pytest.mark.parametrize("size", range(21))
def test_numbers_of_any_size(size: int) -> None:
    digits = "98765432109876543210"[:size]
    stamp = "2026-11-20 21:03:47.877 UTC"
    lines = [
        f"{stamp} [{digits}] [3/4] : [1-1] [app=psql] LOG:  ready",
        f"{stamp} [7] [{digits}/4] : [2-1] [app=psql] LOG:  ready",
        f"{stamp} [7] [-{digits}/{digits}] : [2-1] [app=psql] LOG:  ready",
        f"{stamp} [7] [3/4] : [{digits}-1] [app=psql] LOG:  ready",
        f"{stamp} [7] [3/4] : [3-1] [app=psql gpid={digits}] LOG:  ready",
        *(
            f"{stamp} [7] [3/4] : [4-1] LOG:  duration: {text}"
            for text in (f"{digits}.067 ms", f"1.{digits} ms", digits)
        ),
        f"{stamp} [7] [3/4] : [5-1] LOG:  duration: {digits}\N{MICRO SIGN}s",
        f"{stamp} [7] [3/4] : [5-1] LOG:  duration: {digits}:/;",
        f"{stamp} [7] [3/4] : [6-1] DEBUG:  task execution ({digits}) for placement ({digits}) "
        f"on anchor shard ({digits}) finished in {digits} microseconds on worker node worker2:{digits}",
        f"{stamp} [7] [3/4] : [7-1] LOG:  statement: SELECT {digits}, ${digits} FROM public.t_{digits}",
    ]
    same(Chunk(0, "\n".join(lines).encode()), STUDY_PREFIX)


@pytest.mark.parametrize("behind", ["", ":", ": ", ":  ", ":  x", "1:  x", "6:  x", " :  x", ":x", "G:  x"])
def test_severities_whatever_stands_behind(behind: str) -> None:
    words = [*SEVERITIES, "LO", "DEBU", "NOTHING"]
    data = b"".join(line(word + behind) for word in words)
    same(Chunk(0, data), STUDY_PREFIX)
    same(Chunk(0, data.rstrip(b"\n")), STUDY_PREFIX)


def test_many_names_that_begin_and_end_alike() -> None:
    names = [f"ip-10-0-{number % 3_000:05}.eu-central-1.compute.internal" for number in range(5_000)]
    data = b"".join(line("LOG:  duration: 0.067 ms", pid=number, app=name) for number, name in enumerate(names))
    same(Chunk(0, data), STUDY_PREFIX)
    assert (
        plain(scan_fast(Chunk(0, data), compile_prefix(STUDY_PREFIX), Memory()).rows)["application"].to_list() == names
    )


@pytest.mark.parametrize("resource", ["w2-multishard", "w2-lock-update", "stock-debug4-w2-t8-insert", "w2-txn-update"])
def test_scanners_agree_on_recordings(resource: str) -> None:
    for path in sorted((RECORDED / resource / "pglogs").glob("PGLOG-1-1.log*")):
        for chunk in split_into_record_chunks(Content(path), compile_prefix(STUDY_PREFIX), 1 << 18):
            same(chunk, STUDY_PREFIX)


@SOME
@given(log=logs, prefix=st.sampled_from(PREFIXES))
def test_records_are_counted_and_the_last_one_is_found(log: bytes, prefix: str) -> None:
    data, compiled = replace_invalid_utf8(log), compiled_prefix(prefix)
    if not data:
        return
    lines = find_openers(data, compiled)
    openers = np.flatnonzero(lines.roles != CONTINUED)
    found = int(lines.starts[openers[-1]]) if len(openers) and lines.roles[openers[-1]] == RECORD else None
    found = find_last_between_messages(data, compiled) if compiled.syslog else found
    assert find_last_record(data, len(data), compiled) == found
    assert count_heads(data, compiled) == np.count_nonzero(lines.roles == RECORD)


@SOME
@given(texts=st.lists(said | st.text(max_size=30).map("ERROR:  {}".format), max_size=8))
def test_texts_say_the_same_whoever_reads_them(texts: list[str]) -> None:
    split = [text.partition(":") for text in texts]
    frame = pl.DataFrame(
        {
            "byte_offset": range(len(texts)),
            "byte_length": 1,
            "severity": [severity.rstrip("12345") for severity, _, _ in split],
            "text": [
                replace_invalid_utf8(text.lstrip(" ").encode("utf-8", "surrogatepass")).decode() for _, _, text in split
            ],
        },
        schema_overrides={"byte_offset": pl.Int64, "byte_length": pl.Int64, "severity": pl.String, "text": pl.String},
    )
    assert_frame_equal(plain(add_body_fast(frame)), plain(add_body(frame)))


VERB_TEXTS = [
    *(f"{verb} x" for verb in (*_VERBS, "unheard_of", "with", '"select"', "selects", "selec", "'select'", "1", "=")),
    *(f"WITH a AS (DELETE FROM t RETURNING *), b(c) AS (VALUES (1)) {verb} x" for verb in _VERBS),
    *(f"{verb} PREPARED 'a'" for verb in ("COMMIT", "ROLLBACK", "END", "PREPARE")),
    *("PREPARE TRANSACTION 'a'", "prepare a transaction", "COMMIT AND PREPARED", "commit -- a\n prepared 'b'"),
    *("ROLLBACK TO a", "rollback work to savepoint a", "ROLLBACK ; ; TO a", "ROLLBACK 1 2 3 TO a", "ABORT TO a"),
    *("(((select 1)))", "( with a as (select 1) select 2)", "with a", "WITH with AS (SELECT 1)", ")(", "(", ""),
]


@pytest.mark.parametrize("text", VERB_TEXTS)
def test_kinds_agree(text: str) -> None:
    row = plain(scan_fast(Chunk(0, line("LOG:  statement: " + text)), compile_prefix(STUDY_PREFIX), Memory()).rows)
    assert row["statement_kind"].to_list() == [describe(text).kind]


@SOME
@given(text=statement)
def test_statements_agree(text: str) -> None:
    """Fingerprint, kind, shards, values and trace context."""
    # A statement never holds a zero byte.
    text = text.replace("\x00", "\x01")
    data = replace_invalid_utf8(line("LOG:  statement: " + text.replace("\n", "\n\t")))
    rows = plain(scan_fast(Chunk(0, data), compile_prefix(STUDY_PREFIX), Memory()).rows)
    said = data.decode().partition("LOG:  ")[2].rstrip("\r\n")
    assert_frame_equal(rows.select(OF_STATEMENTS), in_python([said]).select(OF_STATEMENTS))


OF_STATEMENTS = (
    *("statement_fingerprint", "statement_kind", "shard_id", "other_shards", "values_hash", "trace_context"),
)


def in_python(texts: list[str]) -> pl.DataFrame:
    """What the texts of LOG records say, read without compiled code."""
    frame = pl.DataFrame({"byte_offset": range(len(texts)), "byte_length": 1, "severity": "LOG", "text": texts})
    return plain(add_body(frame))


constant = st.sampled_from(
    ["1", "42", "0x1F", "1e5", ".5", "5.", "'a'", "'it''s'", "''", "E'\\''", "$1", "$12", "$$x$$", "?", "-1"]
)
shard = st.integers(99_999, 10**18).map("t_{}".format)
few_shards = st.integers(100_000, 100_011).map("s.t_{}".format)
filling = constant | shard | few_shards | shard.map('"{}"'.format) | word


@SOME
@given(
    skeleton=st.lists(word | st.none(), min_size=1, max_size=12).filter(lambda pieces: None in pieces),
    fillings=st.lists(st.lists(filling, min_size=12, max_size=12), min_size=2, max_size=4),
    gap=st.sampled_from(["", " "]),
)
def test_statements_that_look_alike_are_told_apart(
    skeleton: list[str | None], fillings: list[list[str]], gap: str
) -> None:
    texts = [
        gap.join(values[at] if piece is None else piece for at, piece in enumerate(skeleton)) for values in fillings
    ]
    data = replace_invalid_utf8(b"".join(line("LOG:  statement: " + text.replace("\n", "\n\t")) for text in texts * 2))
    rows = plain(scan_fast(Chunk(0, data), compile_prefix(STUDY_PREFIX), Memory()).rows)
    said = [record.partition("LOG:  ")[2].rstrip("\r\n") for record in records_of(data, rows)]
    assert_frame_equal(rows.select(OF_STATEMENTS), in_python(said).select(OF_STATEMENTS))


def records_of(data: bytes, rows: pl.DataFrame) -> list[str]:
    places = rows.select("byte_offset", "byte_length").iter_rows()
    return [data[offset : offset + length].decode() for offset, length in places]


@SOME
@given(log=logs, chunk=st.integers(1, 400), look=st.integers(1, 200))
def test_chunks_do_not_matter(tmp_path: Path, log: bytes, chunk: int, look: int) -> None:
    path = written(tmp_path, log + line("LOG:  duration: 1.000 ms"))
    prefix = compile_prefix(STUDY_PREFIX)
    whole = scanned_in_chunks(path, 1 << 20, prefix)
    with patch.object(_content, "LOOK_BYTES", look):
        assert_frame_equal(scanned_in_chunks(path, chunk, prefix), whole)


@SOME
@given(log=logs)
def test_every_byte_is_accounted_for_and_read_back(tmp_path: Path, log: bytes) -> None:
    path = written(tmp_path, line("LOG:  duration: 1.000 ms") + log)
    got = read(path)
    assert got.accounted == path.stat().st_size
    data = path.read_bytes()
    for row in got.events.iter_rows(named=True):
        record = data[row["byte_offset"] : row["byte_offset"] + row["byte_length"]]
        assert str(row["severity"]).encode() in record.split(b"\n")[0]
    slices = pl.concat(
        [got.events.select("byte_offset", "byte_length"), got.rejects.select("byte_offset", "byte_length")]
    )
    slices = slices.sort("byte_offset")
    ends = slices.select(pl.col("byte_offset") + pl.col("byte_length")).to_series()
    assert slices.get_column("byte_offset")[1:].to_list() == ends[:-1].to_list()


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of many kinds of records, repeated to some megabytes; every repetition is another minute."""
    with Content(next((RECORDED / "w2-multishard" / "pglogs").glob("PGLOG-0-1.log*"))).open() as stream:
        recorded = stream.read()
    minutes = re.compile(rb"(?m)^(2026-11-2[0-9] [0-9]{2}):[0-9]{2}:")
    path = tmp_path_factory.mktemp("big") / "PGLOG-0-1.log"
    with path.open("wb") as file:
        for number in range(8 * 2**20 // len(recorded) + 1):
            file.write(minutes.sub(rb"\g<1>:%02d:" % (number % 60), recorded))
    return path


@pytest.fixture(scope="module")
def whole(big: Path) -> Read:
    """It in one chunk, by one thread."""
    return in_chunks(big, 1, 2**30)


def in_chunks(path: Path, jobs: int, chunk_bytes: int) -> Read:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(_read, "CHUNK_BYTES", chunk_bytes)
        return read(path, jobs)


@pytest.mark.sharded(3)
@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("chunk_bytes", [100_003, 2**20, 5 * 2**20])
def test_neither_jobs_nor_chunks_matter(big: Path, whole: Read, jobs: int, chunk_bytes: int) -> None:
    got = in_chunks(big, jobs, chunk_bytes)
    assert whole.events.height > 20_000
    assert whole.accounted == got.accounted == big.stat().st_size
    assert_frame_equal(got.events, whole.events, categorical_as_str=True)
    assert_frame_equal(got.checkpoints, whole.checkpoints)
    assert_frame_equal(got.rejects, whole.rejects)
