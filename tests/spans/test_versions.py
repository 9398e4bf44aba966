"""Places and pairs of statements on each recorded version of Citus and PostgreSQL: three protocols, settings, kinds."""

from __future__ import annotations

import csv
import shutil
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
import zstandard

import citus_analysis as ca
from citus_analysis.dataset import Dataset

RECORDED = Path(__file__).parents[1] / "data" / "protocols"
VERSIONS = ("citus13-postgresql16", "citus14-postgresql16", "citus14-postgresql18")
#: Statements with several tasks: parts of one INSERT, and the 200 tasks of a repartition join.
UNPROVEN = {"kind_rows": "inferred", "kind_repartition": "unmatched"}
TASK = b"DEBUG:  task execution ("

Counts = Counter[tuple[str, str]]


def truth(version: str) -> Counts:
    """The statements of each application by place, from the placements of their keys; no place: ``."""
    with (RECORDED / version / "truth.csv").open() as file:
        return Counter({(row["application"], row["executed"]): int(row["statements"]) for row in csv.DictReader(file)})


def statements(dataset: Dataset) -> pl.DataFrame:
    """The statements on data of clients with their applications."""
    names = pl.col("kind").is_in(["execute", "statement"]) & pl.col("gpid").is_null()
    openers = dataset.log_events().filter(names).sort("byte_offset")
    openers = openers.select("source_id", "pid", "byte_offset", application=pl.col("application").cast(pl.String))
    on_data = pl.col("statement_kind").is_in(["select", "insert", "update", "copy"])
    named = (
        dataset.statements()
        .filter(on_data)
        .sort("byte_offset")
        .join_asof(openers, on="byte_offset", by=["source_id", "pid"], check_sortedness=False)
    )
    return named.filter(pl.col("application").str.contains("^(pgb|binary|nolocal|nofast|pooled|kind)_"))


def places(found: pl.DataFrame) -> Counts:
    counts = found.group_by("application", pl.col("executed").cast(pl.String).fill_null("")).len()
    return Counter({(application, executed): number for application, executed, number in counts.iter_rows()})


@pytest.mark.parametrize("version", VERSIONS)
def test_every_statement_was_executed_where_its_keys_are(version: str, tmp_path: Path) -> None:
    ca.ingest(RECORDED / version, tmp_path / "out")
    dataset = ca.open_dataset(tmp_path / "out")
    found = statements(dataset)
    assert places(found) == +truth(version)
    others = found.filter(pl.col("match") != "exact").select("application", pl.col("match").cast(pl.String))
    assert dict(others.iter_rows()) == UNPROVEN


@pytest.mark.parametrize("version", VERSIONS)
def test_without_records_of_tasks_contents_find_the_children(version: str, tmp_path: Path) -> None:
    """Statements by key: 60 of each application draw from 200 keys, so some have the same values."""
    resource = tmp_path / "raw" / version
    shutil.copytree(RECORDED / version, resource)
    for packed in resource.glob("pglogs/*.zst"):
        with zstandard.open(packed, "rb") as content:
            packed.with_suffix("").write_bytes(content.read().replace(TASK, b"DEBUG:  another record ("))
        packed.unlink()
    ca.ingest(tmp_path / "raw", tmp_path / "out")
    dataset = ca.open_dataset(tmp_path / "out")
    found = statements(dataset)
    by_key = found.filter(~pl.col("application").str.starts_with("kind_"))
    counted = places(by_key)
    wanted = Counter({place: number for place, number in truth(version).items() if place in counted})
    assert all(counted[place] <= number for place, number in wanted.items())
    assert sum(counted[place] for place in wanted) >= 0.99 * sum(wanted.values())
    proofs = dataset.spans().filter(pl.col("kind") == "remote", pl.col("parent_span_id").is_not_null())
    assert set(proofs["proof"].drop_nulls()) == {"content"}
