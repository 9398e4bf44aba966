"""Counts of recorded logs equal what is known from how the runs were launched."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.formats import Content, Hints, Parsed, detect_format
from citus_analysis.formats.pglog import FORMAT
from tests.recordings import RECORDED

ROOT = Path(__file__).parents[3]
TRUTH = pl.read_csv(ROOT / "tests" / "data" / "recorded_truth.csv")

#: Runs whose monitor client was not disturbed, one per kind of set-up.
CLEAN = [
    ("w1-t16-insert", 1, "insert"),
    ("w1-local-t16-select", 1, "select"),
    ("w2-t16-insert", 1, "insert"),
    ("w2-t64-select", 1, "select"),
    ("w4-t16-insert", 1, "insert"),
    ("w2-binary-t16-insert", 1, "insert"),
    ("w2-binary-t16-select", 1, "select"),
    ("w2-checkpoint-insert", 1, "insert"),
    ("stock-debug4-w2-t8-insert", 1, "insert"),
]


def pieces(path: Path) -> Iterator[Parsed]:
    content = Content(path)
    assert detect_format(content) is FORMAT
    return FORMAT.parse(content, Hints(name=path.name))


@cache
def events(resource: str, iteration: int) -> pl.DataFrame:
    paths = sorted((RECORDED / resource / "pglogs").glob(f"PGLOG-*-{iteration}.log*"))
    return pl.concat([piece.frame("log_events") for path in paths for piece in pieces(path)])


@pytest.mark.parametrize(("resource", "iteration", "statement"), CLEAN)
def test_executions_of_parents_and_children(resource: str, iteration: int, statement: str) -> None:
    (truth,) = TRUTH.filter(resource=resource, iteration=iteration).iter_rows(named=True)
    found = events(resource, iteration).filter(pl.col("statement_kind") == statement)
    parents = found.filter(pl.col("kind") == "execute", pl.col("gpid").is_null())
    children = found.filter(pl.col("kind").is_in(["statement", "execute"]), pl.col("gpid").is_not_null())
    tasks = events(resource, iteration).filter(pl.col("kind") == "task")
    assert (parents.height, children.height, tasks.height) == (
        truth["parent_executions"],
        truth["remote"],
        truth["remote"],
    )
    assert children.get_column("shard_id").null_count() == 0


def test_no_byte_is_unaccounted() -> None:
    for path in sorted(RECORDED.glob("w2-*/pglogs/*-1.log*")):
        with Content(path).open() as stream:
            size = len(stream.read())
        parsed = list(pieces(path)) if size else []
        assert sum(piece.parsed_bytes for piece in parsed) == size, path
