"""Messages that syslog spread over several lines say what the server wrote."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content
from citus_analysis.formats.pglog import whole_message
from citus_analysis.formats.pglog.compiled import find_last_record
from citus_analysis.formats.pglog.detection import find_prefix
from citus_analysis.formats.pglog.prefix import Prefix, compile_prefix
from citus_analysis.formats.pglog.records import RECORD, Chunk
from citus_analysis.formats.pglog.regular_expressions import find_openers
from citus_analysis.formats.pglog.scanned_chunks import Memory, scan_fast
from tests.formats.pglog.oracle.records import describe, scan
from tests.shards import count_examples

from .logs import plain, read, written

RECORDED = Path(__file__).parents[2] / "data" / "syslog"
SYSLOG = replace(compile_prefix(""), syslog=True)
#: What a record says, but for numbers that only one of the logs has.
SAID = [
    *("severity", "kind", "phase", "duration_us", "statement_name", "statement_kind", "statement_fingerprint"),
    *("shard_id", "other_shards", "message", "user", "database", "application", "client_host"),
]


def rows(data: bytes, prefix: Prefix = SYSLOG) -> pl.DataFrame:
    """The rows that both scanners give."""
    fast, slow = scan_fast(Chunk(0, data), prefix, Memory()), scan(Chunk(0, data), prefix)
    assert_frame_equal(plain(fast.rows), plain(slow.rows))
    assert (fast.parsed_bytes, fast.rejects) == (slow.parsed_bytes, slow.rejects)
    return plain(fast.rows)


@pytest.mark.parametrize("name", ["numbered", "unnumbered"])
def test_a_recorded_log_says_what_the_servers_own_log_says(name: str) -> None:
    path = RECORDED / f"{name}.syslog"
    data, prefix = path.read_bytes(), find_prefix(Content(path), None)
    assert prefix.syslog
    found, own = (
        rows(data, prefix),
        read(RECORDED / f"{name}.log").events.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)),
    )
    assert found["byte_length"].sum() == len(data)
    assert own["statement_fingerprint"].drop_nulls().n_unique() == 14
    assert Counter(found.select(SAID).rows()) == Counter(own.select(SAID).rows())


@pytest.mark.parametrize(
    "form",
    [
        r"<134>\1 \2[\3]:",
        r"<134>1 2026-11-20T10:00:00.123456+01:00 \2 \3 - -",
        r'<134>1 2026-11-20T10:00:00Z \2 \3 PG [origin@1 ip="[::1]"][x]',
    ],
)
def test_a_header_of_another_form_says_the_same(tmp_path: Path, form: str) -> None:
    data = (RECORDED / "numbered.syslog").read_bytes()
    header = re.compile(rb"(?m)^(\S+ +(?:\S+ +\S+ )?)(\S+ [^ \[]+)\[([0-9]+)\]:")
    path = written(tmp_path, header.sub(form.replace("\\1 ", "\\1").encode(), data), "other.syslog")
    found, prefix = path.read_bytes(), find_prefix(Content(path), None)
    assert prefix.syslog
    assert_frame_equal(rows(found, prefix).select(*SAID, "pid"), rows(data, prefix).select(*SAID, "pid"))


@pytest.mark.parametrize("name", ["numbered", "unnumbered"])
def test_details_belong_to_their_records(name: str) -> None:
    linked, own = (read(RECORDED / f"{name}.{kind}").events for kind in ("syslog", "log"))
    details = linked.filter(pl.col("kind").is_in(["detail", "parameters"]))
    assert details.height == own.filter(pl.col("kind").is_in(["detail", "parameters"])).height > 10
    assert details["record_byte_offset"].null_count() == 0


@pytest.mark.parametrize("name", ["numbered", "unnumbered"])
def test_a_chunk_ends_where_no_message_goes_on_behind_it(name: str) -> None:
    path = RECORDED / f"{name}.syslog"
    data, prefix = path.read_bytes(), find_prefix(Content(path), None)
    earlier = 0
    for size in range(len(data) * 3 // 5, len(data), 997):
        end = data.rfind(b"\n", 0, size) + 1
        place, lines = find_last_record(data, end, prefix), find_openers(data[:end], prefix)
        assert place is not None
        earlier += place < lines.starts[np.flatnonzero(lines.roles == RECORD)[-1]]
        parts = (Chunk(0, data[:place]), Chunk(place, data[place:end]))
        cut = pl.concat([plain(scan_fast(part, prefix, Memory()).rows) for part in parts])
        assert_frame_equal(cut, plain(scan_fast(Chunk(0, data[:end]), prefix, Memory()).rows))
    assert earlier > 0


blank = st.sampled_from([" ", "  ", "\t", "\n", "\n\n", "\n  "])
word = st.sampled_from(
    ["SELECT", "'a b'", "'it''s\n'", "public.t_102009", "$1", "1", ",", "x", "-- why\n", "/* a */", "$$ a $$", "é", "#"]
)
text = st.lists(st.tuples(word, blank), min_size=1, max_size=12).map(lambda pairs: "".join(map("".join, pairs)))
place = st.integers(0, 400)


def pieces(statement: str, cuts: list[int], head: str) -> list[str]:
    """The lines of a message: one for each of its own, and more where it is cut at further places."""
    said = "LOG:  statement: " + statement.replace("\n", "\n\t")
    begin = len("LOG:  statement: ")
    bounds = sorted({begin + cut % len(statement) + 1 for cut in cuts if said[begin + cut % len(statement)] != "\n"})
    parts = [said[one:other] for one, other in zip([0, *bounds], [*bounds, None], strict=True)]
    lines = [line for part in parts for line in part.removeprefix("\n").split("\n") if line]
    return [head.format(number + 1) + line.replace("\t", "#011") for number, line in enumerate(lines)]


@settings(max_examples=count_examples(60), deadline=None)
@given(statement=text, cuts=st.lists(place, max_size=4), other=text, order=st.lists(st.booleans(), max_size=60))
@pytest.mark.parametrize("form", ["3-{}", "{}"])
def test_a_statement_is_the_same_wherever_it_is_split(
    form: str, statement: str, cuts: list[int], other: str, order: list[bool]
) -> None:
    heads = [f"Nov 20 10:00:00 host postgres[{pid}]: [{form}] " for pid in (7, 8)]
    waiting = [pieces(said, cuts, head) for said, head in zip((statement, other), heads, strict=True)]
    lines = []
    for second in order:
        lines += waiting[second][:1]
        del waiting[second][:1]
    data = "".join(f"{line}\n" for line in [*lines, *waiting[0], *waiting[1]]).encode()
    got = {row["pid"]: row for row in rows(data).iter_rows(named=True)}
    for pid, said in ((7, statement), (8, other)):
        wanted = describe(said)
        assert (got[pid]["statement_fingerprint"], got[pid]["statement_kind"]) == (wanted.fingerprint, wanted.kind)
    assert sum(row["byte_length"] for row in got.values()) == len(data)


def test_a_line_without_its_message_belongs_to_no_statement() -> None:
    head = "Nov 20 10:00:00 host postgres[{}]: [{}] {}\n".format
    data = "".join(
        [head(7, "3-1", "LOG:  statement: SELECT"), head(8, "4-2", "x"), head(7, "2-2", "y"), head(7, "3-2", " 1")]
    )
    (row,) = rows(data.encode()).iter_rows(named=True)
    assert row["statement_fingerprint"] == describe("SELECT 1").fingerprint
    assert row["byte_length"] == len(data)


def test_the_text_of_a_message_ends_where_its_details_begin() -> None:
    head = "2026-11-20T10:00:00.5Z host postgres[{}]: [{}] {}\n".format
    lines = [head(7, 1, "ERROR:  no"), head(8, 2, "#011x"), head(7, 2, " way"), head(7, 3, "STATEMENT:  SELECT")]
    assert whole_message("".join(lines)).endswith("ERROR:  no way")
    assert whole_message("".join([*lines[:3], head(7, 1, "LOG:  x")])).endswith("ERROR:  no way")


def test_messages_in_one_line_are_refused(tmp_path: Path) -> None:
    said = "LOG:  execute S: SELECT#012#011 $1#012DETAIL:  parameters: $1 = '1'"
    path = written(tmp_path, f"Nov 20 10:00:00 host postgres[7]: [3] {said}\n".encode())
    with pytest.raises(FormatError, match="several lines") as refused:
        read(path)
    assert "syslog_split_messages = on" in str(refused.value)
