"""Secrets are replaced, in a text and in a column of texts alike."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.formats._base import EXCERPT_CHARS, Parsed, Reject, reject_rows
from citus_analysis.formats._redact import redact, redact_expr

pieces = st.sampled_from(
    [
        *("password", "PASSWORD ", "db.passwd", "pwd", "api_key", "access-key", "my_token_2", "secret", "user"),
        *(
            "=",
            " = ",
            ":",
            ": ",
            "'",
            '"',
            "''",
            '"=',
            "&",
            ";",
            ",",
            " ",
            "\n",
            "@",
            "/",
            "://",
            "postgresql://",
            "e'",
        ),
        *("s3cret", "bench", "host", "é", "\u2028", "x", "1", "-p ", "\\", "\t"),
    ]
)
texts = st.lists(pieces | st.text(max_size=2), max_size=14).map("".join)


@given(texts=st.lists(texts, min_size=1, max_size=20))
def test_both_ways_say_the_same(texts: list[str]) -> None:
    assert pl.Series("text", texts).to_frame().select(redact_expr(pl.col("text")))["text"].to_list() == [
        redact(text) for text in texts
    ]


def excerpts_of(rejects: list[Reject]) -> list[str]:
    return Parsed({}, 0, rejects=reject_rows(rejects)).frame("rejects")["excerpt"].to_list()


@pytest.mark.parametrize(
    "text",
    [
        "FATAL: password=hunter2 rejected",
        "postgresql://bench:hunter2@worker1:5432/ycsb",
        "ALTER USER bench PASSWORD 'hunter2'",
        "ALTER USER bench WITH ENCRYPTED PASSWORD E'hunter2'",
        'PGPASSWORD="hunter2" psql',
        "api_key: 'hunter2'",
        "-p db.passwd=hunter2 -p x=1",
    ],
)
def test_no_secret_in_rejects(text: str) -> None:
    rejects = [Reject(0, len(text), "why", text), Reject(0, len(text), "why", text.encode())]
    excerpts = excerpts_of(rejects)
    assert not any("hunter2" in excerpt for excerpt in excerpts)
    assert all("***" in excerpt for excerpt in excerpts)


def test_a_secret_behind_the_cut_takes_its_key_with_it() -> None:
    text = "x" * (EXCERPT_CHARS - 9) + " password=hunter2"
    (excerpt,) = excerpts_of([Reject(0, len(text), "why", text.encode() + b"\x00\xff")])
    assert len(excerpt) == EXCERPT_CHARS
    assert "hunter" not in excerpt
