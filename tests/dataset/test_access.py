from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from citus_analysis.dataset import Dataset, access, ingest, open_dataset
from citus_analysis.errors import DatasetError, UnknownNameError, UsageError
from citus_analysis.schema import OUTSIDE_DATASET, TABLES
from tests.conftest import Tree, make_study, use_tiny_formats, write_tree
from tests.dataset.tiny_formats import log


def make_dataset(folder: Path) -> Path:
    root = write_tree(folder / "src", {**make_study(), "V3/pglogs/PGLOG-3-1.log": log(2000, bad=1)})
    with use_tiny_formats():
        ingest(root, folder / "out's")
    return folder / "out's"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that tests only read."""
    return make_dataset(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def dataset(shared: Path, tiny_formats: None) -> Dataset:
    return open_dataset(shared)


@pytest.fixture
def own(tmp_path: Path, tiny_formats: None) -> Dataset:
    """A dataset that a test may change."""
    return open_dataset(make_dataset(tmp_path))


@pytest.mark.parametrize("name", sorted(TABLES.keys() - OUTSIDE_DATASET))
def test_every_table_is_there_with_the_schemas_types(dataset: Dataset, name: str) -> None:
    frame = dataset.scan(name).collect()
    assert frame.schema == TABLES[name].polars_schema()
    assert frame.height == dataset.tables().get(name, 0)
    assert getattr(dataset, name)().equals(frame)
    assert dataset.sql(f"SELECT * FROM {name}").columns == TABLES[name].names()


def test_small_tables_are_read_once_and_no_caller_changes_them_for_others(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, scan = list[str](), Dataset.scan

    def noted(self: Dataset, name: str) -> pl.LazyFrame:
        read.append(name)
        return scan(self, name)

    monkeypatch.setattr(Dataset, "scan", noted)
    dataset.table("runs").insert_column(0, pl.Series("own", [1, 2]))
    assert dataset.table("runs").schema == TABLES["runs"].polars_schema()
    monkeypatch.setattr(access, "_KEPT_ROWS", 5)
    assert dataset.table("log_events").equals(dataset.table("log_events"))
    assert read == ["runs", "log_events", "log_events"]


def test_a_process_can_keep_datasets_open_until_they_change(
    own: Dataset, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_open", None)
    assert open_dataset(own.path) is not open_dataset(own.path)
    access.keep_open()
    kept = open_dataset(own.path)
    assert open_dataset(own.path) is kept
    ingest(tree({"V9/config.yml": "resource: V9"}), own.path)
    assert open_dataset(own.path) is not kept


def test_a_table_comes_as_the_kind_that_is_asked_for(dataset: Dataset) -> None:
    assert isinstance(dataset.table("runs"), pl.DataFrame)
    assert isinstance(dataset.table("runs", "arrow"), pa.Table)
    frame = dataset.table("runs", "pandas")
    assert isinstance(frame, pd.DataFrame)
    assert frame["throughput_ops_s"].tolist() == [100.0, 200.0]
    with pytest.raises(UnknownNameError, match="no kind of frame is named 'numpy'"):
        dataset.table("runs", "numpy")  # type: ignore[call-overload]  # what a user may type


def test_unknown_tables(dataset: Dataset) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'runs'"):
        dataset.scan("run")
    with pytest.raises(UnknownNameError):
        dataset.scan("published")


def test_what_it_says_of_itself(dataset: Dataset, shared: Path) -> None:
    assert dataset.path == shared
    assert "6 tables" in repr(dataset)
    assert dataset.content_hash[:12] in repr(dataset)


def test_folders_that_are_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"is not a dataset \(make one: citus-analysis ingest SRC --out DIR\)"):
        open_dataset(tmp_path)
    with pytest.raises(DatasetError, match="nowhere: does not exist"):
        open_dataset(tmp_path / "nowhere")


def test_rows_lead_back_to_the_text(dataset: Dataset) -> None:
    events = dataset.log_events().filter(node="1", iteration=2).reverse()
    assert dataset.log_text(events).to_list() == ["3002 77 duration 0.5", "2001 77 duration 0.5"]
    assert dataset.log_text(events.select("source_id", "byte_offset")).to_list() == [
        "3002 77 duration 0.5",
        "2001 77 duration 0.5",
    ]
    assert dataset.log_text(dataset.rejects()).to_list() == ["bad line"]
    assert dataset.log_text(dataset.rejects().clear()).to_list() == []


def test_text_of_rows_without_source(dataset: Dataset) -> None:
    rows = pl.DataFrame({"source_id": [None, dataset.rejects()["source_id"][0]], "byte_offset": [None, 31]})
    assert dataset.log_text(rows.cast({"source_id": pl.String})).to_list() == [None, "bad line"]


def test_text_of_a_file_that_changed_or_went(own: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "src/V3/pglogs/PGLOG-3-1.log"
    path.write_text(log(2000, bad=2))
    with pytest.raises(DatasetError, match=r"PGLOG-3-1.log: changed since it was read \(ingest again\)"):
        own.log_text(own.rejects())
    path.unlink()
    with pytest.raises(DatasetError, match="cannot be read: No such file or directory"):
        own.log_text(own.rejects())


def test_text_needs_to_know_where(dataset: Dataset) -> None:
    with pytest.raises(UsageError, match="the rows lack byte_offset"):
        dataset.log_text(pl.DataFrame({"source_id": ["x"]}))
    with pytest.raises(UsageError, match="the dataset has no source 'x'"):
        dataset.log_text(pl.DataFrame({"source_id": ["x"], "byte_offset": [0], "byte_length": [3]}))


def test_secrets_in_texts_are_redacted(tree: Tree, tmp_path: Path, tiny_formats: None) -> None:
    ingest(tree({"V3/a.log": "#tiny-log\nbad -p db.passwd=hunter2\n"}), tmp_path / "out")
    dataset = open_dataset(tmp_path / "out")
    assert dataset.log_text(dataset.rejects()).to_list() == ["bad -p db.passwd=***"]
    assert "hunter2" not in str(dataset.rejects()["excerpt"].to_list())


def test_sql_sees_the_partition_key_and_types(dataset: Dataset) -> None:
    query = "SELECT resource, iteration, max(throughput_ops_s) AS x FROM runs GROUP BY ALL ORDER BY ALL"
    assert dataset.sql(query).rows() == [("V3", 1, 100.0), ("V3", 2, 200.0)]
    assert dataset.sql("SELECT typeof(log_time) AS t FROM log_events LIMIT 1")["t"].to_list() == [
        "TIMESTAMP WITH TIME ZONE"
    ]


@pytest.mark.parametrize(
    "query",
    [
        "SHOW TABLES",
        "DESCRIBE runs",
        "SUMMARIZE runs",
        "EXPLAIN SELECT 1",
        "FROM runs",
        "PIVOT runs ON phase",
        "VALUES (1)",
    ],
)
def test_sql_that_reads(dataset: Dataset, query: str) -> None:
    assert dataset.sql(query).width > 0


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 1; SELECT 2", "must be one SELECT"),
        ("", "must be one SELECT"),
        ("COPY runs TO 'stolen.csv'", "must be one SELECT"),
        ("CREATE TABLE x AS SELECT 1", "must be one SELECT"),
        ("ATTACH 'x.db'", "must be one SELECT"),
        ("SET enable_external_access = true", "must be one SELECT"),
        ("INSTALL httpfs", "must be one SELECT"),
        ("SELECT * FROM read_text('/etc/hostname')", "Permission Error"),
        ("SELECT * FROM '/etc/passwd'", "Permission Error|does not exist"),
        ("SELECT * FROM read_csv('https://example.org/x.csv')", "Permission Error"),
        ("SELECT nothing FROM runs", 'Binder Error: Referenced column "nothing" not found'),
        ("SELECT * FROM rums", "Table with name rums does not exist!.*tables with rows: .*runs"),
        ("SELEC 1", "Parser Error: syntax error"),
    ],
)
def test_sql_that_is_refused(dataset: Dataset, query: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^SQL: .*({message})"):
        dataset.sql(query)


def test_sql_reads_the_dataset_that_was_opened(own: Dataset, tree: Tree) -> None:
    ingest(tree({"V4/pglogs/PGLOG-0-1.log": log(1)}), own.path)
    assert own.sql("SELECT count(*) AS n FROM log_events")["n"].to_list() == [9]
    assert open_dataset(own.path).sql("SELECT count(*) AS n FROM log_events")["n"].to_list() == [10]
