"""Texts in UTF-16, as PowerShell's `>` writes them: named, with the command that makes them readable."""

from __future__ import annotations

import codecs
import subprocess
from pathlib import Path

import pytest

from citus_analysis.dataset import ingest
from citus_analysis.errors import InputError
from citus_analysis.formats.sources.encodings import wide_encoding
from tests.conftest import Tree

LOG = "2026-11-20 21:03:47.877 UTC [7] [3/4] : [1-1] LOG:  duration: 1.000 ms  statement: SELECT 1\n" * 20
WRITTEN = {
    "marked": (codecs.BOM_UTF16_LE + LOG.encode("utf-16-le"), "UTF-16"),
    "marked, big-endian": (codecs.BOM_UTF16_BE + LOG.encode("utf-16-be"), "UTF-16"),
    "unmarked": (LOG.encode("utf-16-le"), "UTF-16LE"),
    "unmarked, big-endian": (LOG.encode("utf-16-be"), "UTF-16BE"),
    "four bytes": (LOG.encode("utf-32"), "UTF-32"),
}


@pytest.mark.parametrize(("data", "encoding"), WRITTEN.values(), ids=WRITTEN)
def test_a_log_in_utf_16_is_named_with_the_way_out(tree: Tree, tmp_path: Path, data: bytes, encoding: str) -> None:
    root = tree({"node-0.log": data, "node-1.log": LOG})
    summary = ingest(root, tmp_path / "out")
    reason = f"it is in {encoding}: convert it with iconv -f {encoding} -t UTF-8"
    assert summary.unrecognised_files == (("node-0.log", reason),)
    converted = subprocess.run(
        ["iconv", "-f", encoding, "-t", "UTF-8", str(root / "node-0.log")], capture_output=True, check=True
    )
    assert converted.stdout.decode() == LOG


def test_a_format_that_is_asked_for_does_not_make_it_readable(tree: Tree, tmp_path: Path) -> None:
    data, encoding = WRITTEN["unmarked"]
    with pytest.raises(InputError, match=f"node-0.log: is in {encoding}: convert it with iconv -f {encoding} -t UTF-8"):
        ingest(tree({"node-0.log": data}), tmp_path / "out", format="pglog")


@pytest.mark.parametrize(
    "data",
    [b"", b"x\0", bytes(400), bytes([1, 0]) * 200, LOG.encode(), LOG.encode() + bytes(900), LOG[:400].encode() * 2],
)
def test_other_files_are_not_taken_for_it(data: bytes) -> None:
    assert wide_encoding(data) is None
