"""Datasets that an older version wrote.

A column that a table got since is null in the old rows until a source is read again, and whoever opens the dataset is
told where another version derived its tables or read its sources.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.dataset.manifest import Manifest, ParquetPart
from citus_analysis.dataset.parts import compute_file_fingerprints
from citus_analysis.errors import OutdatedDatasetWarning, UsageError
from tests.conftest import Tree
from tests.dataset.tiny_formats import TinyClient, TinyLog

LACKING = {"log_events": "duration_us", "runs": "status", "clients": "throughput_ops_s"}


def make_older(out: Path, table: str, column: str, share: slice) -> None:
    """Take a column out of some of a table's files, as if it had not been there when they were written."""
    paths = sorted(out.glob(f"{table}/*/*.parquet"))[share]
    assert paths
    for path in paths:
        frame = pl.read_parquet(path, hive_partitioning=False)
        frame.drop(column).write_parquet(path)
    record_files(out)


def record_files(out: Path) -> None:
    """Commit what is known of the files as they are now."""
    manifest = Manifest.load(out)
    for state in manifest.states():
        manifest.commit(replace(state, parts=tuple(recorded(out, part) for part in state.parts)))


def recorded(out: Path, part: ParquetPart) -> ParquetPart:
    size, footer_hash, hash_ = compute_file_fingerprints(memoryview((out / part.path).read_bytes()))
    return replace(part, bytes=size, footer_hash=footer_hash, hash=hash_)


@pytest.fixture
def out(tree: Tree, study: dict[str, str], tmp_path: Path, tiny_formats: None) -> Path:
    ingest(tree(study), tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.sharded(2)
@pytest.mark.parametrize("share", [slice(None), slice(0, 1), slice(-1, None)], ids=["all", "first", "last"])
@pytest.mark.parametrize("table", LACKING)
def test_the_column_is_null_in_older_rows(out: Path, table: str, share: slice) -> None:
    column = LACKING[table]
    before = open_dataset(out).table(table)
    assert before.get_column(column).null_count() == 0
    make_older(out, table, column, share)
    dataset = open_dataset(out)
    frame = dataset.table(table)
    assert frame.schema == before.schema
    assert frame.drop(column).equals(before.drop(column))
    files = sorted(out.glob(f"{table}/*/*.parquet"))
    unknown = frame.get_column(column).null_count()
    assert 0 < unknown <= frame.height
    assert (unknown == frame.height) is (len(files[share]) == len(files))
    counted = dataset.sql(f"SELECT count(*) AS n, count({column}) AS known FROM {table}")
    assert counted.rows() == [(frame.height, frame.height - unknown)]


def test_sources_that_are_gone_keep_their_older_rows(tree: Tree, out: Path) -> None:
    make_older(out, "log_events", "duration_us", slice(None))
    root = tree({})
    (root / "V3/pglogs/PGLOG-0-1.log").unlink()
    # Another version of the schema gives another key, so that what is there is read again.
    manifest = Manifest.load(out)
    for state in list(manifest.sources.values()):
        if state.path.endswith(".log") and "pglogs" in state.path:
            manifest.commit(type(state)(**{**vars(state), "state_key": "older"}))
    assert ingest(root, out).read == 3
    events = open_dataset(out).log_events()
    nulls = events.filter(pl.col("duration_us").is_null())
    assert nulls.height > 0
    assert nulls.select("node", "iteration").unique().rows() == [("0", 1)]


@pytest.mark.parametrize("name", ["runs", "traces"])
def test_derived_tables_of_another_version_are_pointed_out(tree: Tree, out: Path, name: str) -> None:
    manifest = Manifest.load(out)
    state = next(state for state in manifest.derived.values() if state.name == name)
    manifest.commit(replace(state, state_key="older"))
    with pytest.warns(OutdatedDatasetWarning, match=f"{name} of V3 .* ingest did not end.*ingest the sources again"):
        open_dataset(out)
    ingest(tree({}), out)
    assert open_dataset(out).runs().height > 0


def test_sources_that_another_parser_read_are_pointed_out(
    tree: Tree, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_dataset(out).outdated == ""
    monkeypatch.setattr(TinyClient, "version", 7)
    monkeypatch.setattr(TinyLog, "version", 2)
    told = (
        "parsers of other versions read 4 sources of tiny_client (version 1, now 7) and 4 sources of tiny_log "
        "(version 1, now 2); figures may differ (ingest the sources again, with the options of before: "
        f"citus-analysis ingest SRC... --out {out})"
    )
    with pytest.warns(OutdatedDatasetWarning, match=re.escape(f"{out}: {told}")):
        open_dataset(out)
    assert ingest(tree({}), out).read == 8
    assert open_dataset(out).outdated == ""


def test_a_parser_that_is_no_longer_installed_is_none_of_another_version(out: Path) -> None:
    manifest = Manifest.load(out)
    state = next(state for state in manifest.sources.values() if state.format == "tiny_log")
    manifest.commit(replace(state, format="of_another_package"))
    assert open_dataset(out).outdated == ""


def test_a_misspelt_column_is_still_named(out: Path) -> None:
    with pytest.raises(UsageError, match="nothing"):
        open_dataset(out).sql("SELECT nothing FROM runs")
