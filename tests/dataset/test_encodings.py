"""Texts in UTF-16 and UTF-32, as PowerShell writes them, or with a byte order mark, are read as any other text."""

from __future__ import annotations

import codecs
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.formats.deliveries.content import detect_wide_encoding
from tests.conftest import Tree

LOG = "2026-11-20 21:03:47.877 UTC [7] [3/4] : [1-1] LOG:  duration: 1.000 ms  statement: SELECT 1\n" * 20
WRITTEN = {
    "marked": (codecs.BOM_UTF16_LE + LOG.encode("utf-16-le"), "UTF-16"),
    "marked, big-endian": (codecs.BOM_UTF16_BE + LOG.encode("utf-16-be"), "UTF-16"),
    "unmarked": (LOG.encode("utf-16-le"), "UTF-16LE"),
    "unmarked, big-endian": (LOG.encode("utf-16-be"), "UTF-16BE"),
    "four bytes": (LOG.encode("utf-32"), "UTF-32"),
    "four bytes, unmarked": (LOG.encode("utf-32-be"), "UTF-32BE"),
    "UTF-8, marked": (codecs.BOM_UTF8 + LOG.encode(), "UTF-8"),
}
_CODECS = {1: "utf-8", 2: "utf-16", 4: "utf-32"}


@pytest.mark.sharded(3)
@pytest.mark.parametrize(("data", "encoding"), WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("forced", [None, "pglog"])
def test_its_rows_are_those_of_the_same_text_in_utf_8(
    tree: Tree, tmp_path: Path, data: bytes, encoding: str, forced: str | None
) -> None:
    root = tree({"pglogs/PGLOG-0-1.log": data, "pglogs/PGLOG-1-1.log": LOG})
    assert ingest(root, tmp_path / "out", format=forced).exit_code == 0
    dataset = open_dataset(tmp_path / "out")
    recoded, plain = dataset.sources().sort("path").iter_rows(named=True)
    assert (recoded["delivery"], plain["delivery"]) == ("byte order mark" if encoding == "UTF-8" else encoding, None)
    assert recoded["parsed_bytes"] + recoded["noise_bytes"] == len(data)
    events = dataset.table("log_events")
    own, same = (events.filter(pl.col("node") == node).sort("byte_offset") for node in "01")
    places = {"source_id", "node", "byte_offset", "byte_length"}
    assert own.drop(places).equals(same.drop(places))
    assert dataset.log_text(own).to_list() == dataset.log_text(same).to_list()
    unit = len(data) // len(LOG) if encoding != "UTF-8" else 1
    line = data[own["byte_offset"][1] :][: own["byte_length"][1]]
    assert (
        line.decode(_CODECS[unit] + ("-be" if line.startswith(b"\0") else "-le" if unit > 1 else ""))
        == LOG.splitlines(keepends=True)[0]
    )


@pytest.mark.parametrize(
    "data",
    [b"", b"x\0", bytes(400), bytes([1, 0]) * 200, LOG.encode(), LOG.encode() + bytes(900), LOG[:400].encode() * 2],
)
def test_other_files_are_not_taken_for_it(data: bytes) -> None:
    assert detect_wide_encoding(data) is None
