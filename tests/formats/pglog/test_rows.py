"""Rows of csvlog and jsonlog that compiled code reads are those that the reader in Python gives."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from random import Random

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from citus_analysis.formats import Content, pgcsvlog, pgjsonlog
from citus_analysis.formats.deliveries.content import Block
from citus_analysis.formats.pglog.records import Chunk, ScannedChunk
from citus_analysis.formats.pglog.regular_expressions import scan_with
from citus_analysis.formats.pglog.scanned_chunks import Memory, scan_rows_fast
from citus_analysis.formats.pglog.tables import SCANNED
from tests.formats.pglog.row_logs import csv_row, damaged, json_line
from tests.shards import take_part

SERVERS = Path(__file__).parents[2] / "data" / "servers"
OFFSET = 1_000
INPUTS = 400


def read_in_python(data: bytes, form: str) -> ScannedChunk:
    """The records of some bytes by regular expressions, or by polars."""
    if form == "json":
        return pgjsonlog._scan_json_block(Block(OFFSET, data, len(data)), nested=False)
    tail = pgcsvlog._TAIL if form == "csv" else pgcsvlog._LOOSE_TAIL
    return scan_with(Chunk(OFFSET, data), pgcsvlog._HEADS, partial(pgcsvlog._parse_csv_rows, tail_pattern=tail))


def rows_of(scanned: ScannedChunk) -> pl.DataFrame:
    """All columns of the records."""
    return pl.DataFrame(SCANNED.batch(scanned.rows))


def generated(seed: int, form: str) -> bytes:
    """A few rows, some of them damaged."""
    random = Random(f"{form} {seed}")
    make, odd = json_line if form == "json" else csv_row, random.choice((0.0, 0.0, 0.02, 0.2))
    data = "".join(make(random, odd) for _ in range(random.choice((1, 3, 8)))).encode()
    data = damaged(random, data) if random.random() < 0.4 else data
    return data.rstrip(b"\n") if random.random() < 0.1 else data


@pytest.mark.parametrize("form", ["csv", "loose_csv", "json"])
def test_generated_rows(form: str) -> None:
    memory, read = Memory(), 0
    seeds = take_part(range(INPUTS))
    for seed in seeds:
        data = generated(seed, form)
        fast = scan_rows_fast(data, OFFSET, form, memory)
        if fast is None:
            continue
        read += 1
        slow = read_in_python(data, form)
        assert (fast.parsed_bytes, fast.noise_bytes, slow.rejects) == (slow.parsed_bytes, slow.noise_bytes, []), seed
        assert_frame_equal(rows_of(fast), rows_of(slow))
    # About as many are refused: they are damaged, or hold what is left to Python.
    assert len(seeds) // 5 < read < len(seeds)


@pytest.mark.parametrize(("name", "form"), [("debian.csv", "csv"), ("debian.json", "json")])
def test_recorded_rows(name: str, form: str) -> None:
    with Content(SERVERS / name).open() as stream:
        data = stream.read()
    fast = scan_rows_fast(data, OFFSET, form, Memory())
    assert fast is not None
    assert fast.parsed_bytes == len(data)
    assert_frame_equal(rows_of(fast), rows_of(read_in_python(data, form)))


def test_more_details_than_expected() -> None:
    """Memory is laid out for few; there is enough for all."""
    details = {name: f"{name} of it" for name in ("detail", "hint", "internal_query", "context", "statement")}
    line = json.dumps(
        {"timestamp": "2026-11-20 21:03:47.877 UTC", "error_severity": "ERROR", "message": "x", **details}
    )
    data = (line + "\n").encode() * 1_000
    fast = scan_rows_fast(data, OFFSET, "json", Memory())
    assert fast is not None
    assert rows_of(fast).height == 6_000
    assert_frame_equal(rows_of(fast), rows_of(read_in_python(data, "json")))


@pytest.mark.parametrize(
    "line",
    [
        b'{"error_severity": "LOG", "message": "no time"}',
        b'{"timestamp": "2026-11-20 21:03:47.877 UTC", "error_severity": "LOG", "message": "cut',
        b'{"timestamp": "2026-11-20 21:03:47.877 UTC", "error_severity": "LOG", "message": "x", "message": "y"}',
        b'{"timestamp": "2026-11-20 21:03:47.877 UTC", "error_severity": "LOG", "message": "\\ud83d\\ude00"}',
        b'{"textPayload": "LOG:  x", "error_severity": "LOG", "message": "x"}',
        b"",
    ],
)
def test_lines_that_are_left_to_python(line: bytes) -> None:
    good = b'{"timestamp": "2026-11-20 21:03:47.877 UTC", "error_severity": "LOG", "message": "x"}\n'
    assert scan_rows_fast(good, OFFSET, "json", Memory()) is not None
    assert scan_rows_fast(good + line + b"\n", OFFSET, "json", Memory()) is None


@pytest.mark.parametrize(
    ("said", "is_read"), [("a\nb", True), ("a\n2026-11-20 21:03:47.877 UTC,", False), ('a\n""2026', True), ("a", True)]
)
def test_a_text_whose_further_line_begins_like_a_row(said: str, is_read: bool) -> None:
    """A reader of lines takes it for a row of its own."""
    row = f'2026-11-20 21:03:47.877 UTC,,,7,,65a1.62c,1,"SELECT",,3/4,0,LOG,00000,"{said}",,,,,,,,,"psql"\n'.encode()
    fast = scan_rows_fast(row, OFFSET, "csv", Memory())
    assert (fast is not None) == is_read
    if fast is not None:
        assert_frame_equal(rows_of(fast), rows_of(read_in_python(row, "csv")))
