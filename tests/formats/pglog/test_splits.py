"""A log read in splits gives the rows that it gives when it is read in one piece."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import polars as pl
import pytest

from citus_analysis.formats import Content, Hints, Parsed, detect_format
from citus_analysis.formats.parsing.cuttable import CuttableFormat, Seam
from citus_analysis.formats.pglog import chunking as _splits

from .logs import line, together, written
from .row_logs import csv_row, damaged, json_line

TABLES = ("log_events", "checkpoints", "plans", "plan_nodes", "rejects")
PLAN = "duration: 3.250 ms  plan:\n\tQuery Text: SELECT 1\n\tSeq Scan on t  (cost=0.00..35.50 rows=2550 width=4)"


def splits(content: Content, split_bytes: int) -> tuple[list[Parsed], list[Seam]]:
    """All pieces, and the seams of the splits that gave them."""
    form = format_of(content)
    cuts = form.cuts(content, Hints(), split_bytes)
    pieces: list[Parsed] = []
    seams: list[Seam] = []
    for begin, end in pairwise((0, *cuts, content.path.stat().st_size)):
        split, seam = replace(content, begin=begin, end=end), Seam()
        pieces += form.parse_split(split, Hints(), seam)
        before = sum(seam.numbered for seam in seams)
        seams.append(seam)
        if seam.numbered:
            again = list(form.parse_numbered(split, Hints(), before))
            assert sum(piece.parsed_bytes + piece.noise_bytes for piece in again) == end - begin
            pieces += [Parsed(piece.tables, 0) for piece in again]
    return [*pieces, *form.parse_together(seams)], seams


def format_of(content: Content) -> CuttableFormat:
    found = detect_format(content)
    assert isinstance(found, CuttableFormat)
    return found


def tables(pieces: list[Parsed]) -> dict[str, pl.DataFrame]:
    texts = pl.col(pl.Categorical, pl.Enum).cast(pl.String)
    return {name: together(pieces, name).with_columns(texts) for name in TABLES}


def account(pieces: list[Parsed]) -> tuple[int, int, int]:
    return (
        sum(piece.parsed_bytes for piece in pieces),
        sum(piece.noise_bytes for piece in pieces),
        sum(piece.rejected_bytes for piece in pieces),
    )


def assert_equal(path: Path, split_bytes: int) -> int:
    """Compare, unless a split says that it cannot be read alone; return the number of splits compared."""
    content = Content(path)
    pieces, seams = splits(content, split_bytes)
    if not all(seam.alone for seam in seams):
        return 0
    whole = list(format_of(content).parse(content, Hints()))
    expected = tables(whole)
    for name, rows in tables(pieces).items():
        assert rows.equals(expected[name]), name
    assert account(pieces) == account(whole)
    return len(seams)


def sessions(random: Random, records: int) -> bytes:
    """Records of a few processes with details, continuation lines, checkpoints, plans and foreign lines between."""
    numbers = dict.fromkeys(range(7, 12), 0)

    def said(text: str) -> bytes:
        pid = random.choice(list(numbers))
        numbers[pid] += 1
        return line(text, pid=pid, number=numbers[pid])

    texts = (
        *("LOG:  duration: 0.067 ms", "LOG:  execute S_1: SELECT\n\t1", "DETAIL:  parameters: $1 = 'a'", "HINT:  b"),
        *("LOG:  checkpoint starting: time", "LOG:  checkpoint complete: wrote 5 buffers (0.1%)", f"LOG:  {PLAN}"),
        *("ERROR:  no", "STATEMENT:  SELECT 2"),
    )
    made = [said(random.choice(texts)) if random.random() < 0.95 else b"foreign\n" for _ in range(records)]
    return b"\n \n" + b"".join(made)


def csv_log(random: Random, rows: int) -> bytes:
    return "".join(csv_row(random) for _ in range(rows)).encode("utf-8", "replace")


def json_log(random: Random, rows: int) -> bytes:
    return "".join(json_line(random) for _ in range(rows)).encode("utf-8", "replace")


@pytest.mark.sharded(4)
@pytest.mark.parametrize(
    ("made", "name", "look_back", "least"),
    [
        (sessions, "PGLOG-1-1.log", 2000, 15),
        (sessions, "PGLOG-1-1.log", 2**20, 30),
        (csv_log, "a.csv", 0, 30),
        # Lines at random are no records more often than those of other logs.
        (json_log, "a.json", 0, 6),
    ],
    ids=["text", "text from the start", "csv", "json"],
)
def test_splits_together_are_the_log(
    made: Callable[[Random, int], bytes],
    name: str,
    look_back: int,
    least: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_splits, "LOOK_BACK_BYTES", look_back)
    compared = 0
    for seed in range(2):
        random = Random(seed)
        data = made(random, 60)
        path = written(tmp_path, data if seed else damaged(random, data), name)
        compared += sum(assert_equal(path, len(data) // number) for number in (4, 25))
    assert compared >= least


def test_a_detail_after_the_cut_finds_its_record_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [line("LOG:  a", pid=8, number=number) for number in range(1, 41)]
    record, detail = line("ERROR:  b", number=1), line("DETAIL:  c", number=2)
    path = written(tmp_path, b"".join([*others[:20], record, *others[20:], detail, *others]))
    assert assert_equal(path, 400) > 5
    # Its record is farther away than it is looked for: the log must be read in one piece.
    monkeypatch.setattr(_splits, "LOOK_BACK_BYTES", 300)
    _, seams = splits(Content(path), 400)
    assert [seam.alone for seam in seams].count(False) == 1


def test_records_longer_than_a_split(tmp_path: Path) -> None:
    long = line("LOG:  statement: SELECT\n" + "\n".join("\tabc" for _ in range(50_000)))
    path = written(tmp_path, line("LOG:  a") + long + line("LOG:  c") * 3)
    assert assert_equal(path, 20_000) == 2


def test_what_is_not_cut(tmp_path: Path) -> None:
    path = written(tmp_path, line("LOG:  a") * 10)
    form, size = format_of(Content(path)), path.stat().st_size
    assert form.cuts(Content(path), Hints(), size) == []
    assert form.cuts(Content(path), Hints(), size // 2) == [size // 2]
    packed = tmp_path / "PGLOG-1-1.log.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert form.cuts(Content(packed), Hints(), 10) == []
