"""Secrets are replaced in whatever a format hands out; tests/redaction has the forms."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

from citus_analysis.formats.parsing.format import EXCERPT_CHARS, Parsed, Reject, reject_rows
from citus_analysis.redaction import redact_batch


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


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_texts_of_batches_are_redacted(kind: type[pl.DataType]) -> None:
    texts = pl.Series("application", ["psql", None, "password=x y", "psql"], dtype=kind)
    frame = pl.DataFrame({"pid": [1, 2, 3, 4], "application": texts})
    batch = pa.RecordBatch.from_pylist(frame.to_dicts())
    for rows in (batch, frame.to_arrow().to_batches()[0]):
        redacted = pl.DataFrame(redact_batch(rows))
        assert redacted["application"].cast(pl.String).to_list() == ["psql", None, "password=***", "psql"]
        assert redacted.schema == pl.DataFrame(rows).schema
    assert texts.cast(pl.String).to_list()[2] == "password=x y"


def test_rows_without_secrets_are_handed_on_as_they_are() -> None:
    frame = pl.DataFrame({"pid": [1, 2], "message": ["token here", None], "n": [None, None]})
    batch = frame.to_arrow().to_batches()[0]
    assert redact_batch(batch) is batch
