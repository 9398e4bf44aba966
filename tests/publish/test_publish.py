"""Tables in a real PostgreSQL are equal to those of the dataset; only what changed is sent; nothing is half done."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import polars as pl
import pytest
from adbc_driver_postgresql import dbapi
from click.testing import CliRunner

from citus_analysis.cli import commands
from citus_analysis.core.table_definition import HASH
from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.errors import DatasetError, InputError, UnknownNameError, UsageError
from citus_analysis.publish import publish_dataset
from citus_analysis.publish.publishing import DERIVED, DISTRIBUTED_BY, Published, get_base_table_name
from citus_analysis.runner.embedded import LOOPBACK, SUPERUSER, OwnServer, find_free_port
from citus_analysis.runner.programs import copy_for_account, find_programs
from citus_analysis.schema import TABLES
from tests.citus_cluster import citus_cluster
from tests.documentation.blocks import blocks_run_by, words_of
from tests.recordings import RECORDED, copy_recordings

pytestmark = pytest.mark.server

RESOURCES = ("w2-t4-insert", "w1-t4-select", "w2-perf-select", "w2-pgbench")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("datasets") / "out"
    ingest([RECORDED / resource for resource in RESOURCES], out)
    return open_dataset(out)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="citus-analysis-"))
    folder.chmod(0o755)
    server = OwnServer(
        copy_for_account(find_programs("wheel"), folder / "programs"), folder / "server", find_free_port()
    )
    try:
        server.initialise({"fsync": "off"})
        server.start()
        yield f"postgresql://{SUPERUSER}@{LOOPBACK}:{server.port}/postgres"
    finally:
        server.remove()
        shutil.rmtree(folder)


def published_rows(url: str, schema: str, name: str) -> pl.DataFrame:
    """The rows of a table or view, in the types of the dataset."""
    table = TABLES[name]
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        # The driver gives numeric as a type of its own.
        columns = ", ".join(f'"{c.name}"::text' if c.type == HASH else f'"{c.name}"' for c in table)
        cursor.execute(f'SELECT {columns} FROM "{schema}"."{name}"')
        rows = pl.DataFrame(pl.from_arrow(cursor.fetch_arrow_table()))
    return rows.select(pl.col(c.name).cast(pl.String if c.type.is_category else c.dtype) for c in table)


def rows_of(dataset: Dataset, name: str) -> pl.DataFrame:
    rows = dataset.table(name)
    return rows.select(
        pl.col(c.name).cast(pl.String).str.replace_all("\0", "\ufffd", literal=True)
        if rows.schema[c.name] == pl.String or c.type.is_category
        else pl.col(c.name)
        for c in TABLES[name]
    )


def assert_same(url: str, schema: str, dataset: Dataset) -> None:
    for name in dataset.tables():
        expected, found = rows_of(dataset, name), published_rows(url, schema, name)
        columns = expected.columns
        assert found.sort(columns, nulls_last=True).equals(expected.sort(columns, nulls_last=True)), name


def one(url: str, query: str) -> object:
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        row = cursor.fetchone()
        return row[0] if row else None


def test_what_is_published_reads_back_equal_and_is_not_sent_again(url: str, dataset: Dataset) -> None:
    first = publish_dataset(dataset, url, schema="All")
    assert first.rows == {name: rows for name, rows in dataset.tables().items() if name in first.rows}
    assert set(first.rows) == set(dataset.tables())
    assert_same(url, "All", dataset)
    again = publish_dataset(dataset, url, schema="All")
    assert again == Published({}, 0, first.unchanged + _units(dataset))
    # Types that keep what they hold, and what columns mean.
    assert one(url, 'SELECT pg_typeof(start_time)::text FROM "All".spans LIMIT 1') == "timestamp with time zone"
    comment = one(url, "SELECT col_description('\"All\".log_events'::regclass, attnum) FROM pg_attribute"
                  " WHERE attrelid = '\"All\".log_events'::regclass AND attname = 'duration_us'")  # fmt: skip
    assert comment == f"{TABLES['log_events']['duration_us'].meaning} [µs]"
    views = one(url, "SELECT count(*) FROM pg_views WHERE schemaname = 'All'")
    assert views == len(DERIVED)


def _units(dataset: Dataset) -> int:
    return sum(len({part.table for part in state.parts}) for state in dataset.states())


def test_only_what_changed_is_sent(url: str, dataset: Dataset, tmp_path: Path) -> None:
    tree = copy_recordings(tmp_path / "raw", "w2-t4-insert", "w2-pgbench")
    ingest([tree], tmp_path / "out")
    publish_dataset(open_dataset(tmp_path / "out"), url, schema="steps")
    log = next((tree / "w2-t4-insert" / "pglogs").glob("PGLOG-1-*"))
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[: len(lines) // 2]))
    ingest([tree], tmp_path / "out")
    changed = open_dataset(tmp_path / "out")
    sent = publish_dataset(changed, url, schema="steps")
    own = pl.col("resource") == "w2-t4-insert"
    assert sent.rows["spans"] == changed.table("spans").filter(own).height
    assert 0 < sent.rows["log_events"] < changed.table("log_events").filter(own).height
    assert "client_latencies" not in sent.rows
    assert_same(url, "steps", changed)


def test_what_the_dataset_lost_is_removed(url: str, tmp_path: Path) -> None:
    ingest([RECORDED / "w2-t4-insert", RECORDED / "w1-t4-select"], tmp_path / "two")
    publish_dataset(open_dataset(tmp_path / "two"), url, schema="shrinks", tables=["clients", "runs"])
    ingest([RECORDED / "w1-t4-select"], tmp_path / "one")
    fewer = open_dataset(tmp_path / "one")
    assert publish_dataset(fewer, url, schema="shrinks", tables=["clients", "runs"]).deleted > 1
    for name in ("clients", "runs"):
        assert published_rows(url, "shrinks", name).height == fewer.table(name).height
    ingest([RECORDED / "w2-pgbench"], tmp_path / "other")
    with pytest.raises(UsageError, match="holds another dataset"):
        publish_dataset(open_dataset(tmp_path / "other"), url, schema="shrinks", tables=["clients", "runs"])


def test_a_failure_leaves_everything_as_it_was(url: str, tmp_path: Path) -> None:
    ingest([RECORDED / "w1-t4-select"], tmp_path / "out")
    publish_dataset(open_dataset(tmp_path / "out"), url, schema="whole", tables=["clients"])
    before = published_rows(url, "whole", "clients")
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("ALTER TABLE whole.clients ADD CONSTRAINT none CHECK (false) NOT VALID")
        connection.commit()
    ingest([RECORDED / "w2-t4-insert"], tmp_path / "out")
    with pytest.raises(InputError, match=r'violates check constraint "none".*nothing was changed'):
        publish_dataset(open_dataset(tmp_path / "out"), url, schema="whole", tables=["clients"])
    assert published_rows(url, "whole", "clients").equals(before)


def test_a_table_of_an_older_version_gets_its_columns(url: str, dataset: Dataset) -> None:
    publish_dataset(dataset, url, schema="older", tables=["runs", "clients"])
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        for statement in (
            "DROP VIEW older.runs",
            "ALTER TABLE older._runs DROP COLUMN status",
            "ALTER TABLE older.clients ALTER COLUMN runtime_ms TYPE text",
        ):
            cursor.execute(statement)
        connection.commit()
    publish_dataset(dataset, url, schema="older", tables=["runs"])
    assert published_rows(url, "older", "runs").columns == TABLES["runs"].names()
    with pytest.raises(DatasetError, match=r"older\.clients: column runtime_ms: is of type text"):
        publish_dataset(dataset, url, schema="older", tables=["clients"])


def test_the_page_as_typed(url: str, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines, with this server behind the name of the page's."""
    with dbapi.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE ROLE bench LOGIN")
        cursor.execute("CREATE DATABASE results OWNER bench")
    monkeypatch.setenv("PGHOSTADDR", LOOPBACK)
    monkeypatch.setenv("PGPORT", str(urlsplit(url).port))
    monkeypatch.chdir(Path(dataset.path).parent)
    (block,) = blocks_run_by(__file__)
    (export, (name, value)), *publications = [
        (words[0], tuple(words[1].split("=")) if words[0] == "export" else words[1:]) for words in words_of(block, {})
    ]
    assert (export, name) == ("export", "PGPASSWORD")
    monkeypatch.setenv(name, value)
    for program, arguments in publications:
        result = CliRunner().invoke(commands, arguments, catch_exceptions=False)
        assert (program, result.exit_code) == ("citus-analysis", 0)
    results = f"{url.removesuffix('postgres')}results"
    assert_same(results, "citus_analysis", dataset)
    assert one(results, "SELECT count(*) FROM study.runs") == dataset.tables()["runs"]


def test_the_command(url: str, dataset: Dataset) -> None:
    def run(*arguments: str) -> tuple[int, str, BaseException | None]:
        result = CliRunner().invoke(commands, ["publish", str(dataset.path), *arguments])
        return result.exit_code, result.output, result.exception

    code, output, _ = run("--to", url, "--schema", "cli", "--tables", "runs,clients")
    assert (code, output.split(",")[-1].strip()) == (0, "0 removed")
    code, output, _ = run("--to", "postgresql://nobody@192.0.2.1/x", "--dry-run", "--tables", "runs")
    assert code == 0
    assert 'CREATE TABLE "citus_analysis"."_runs" ("run_id" text' in output
    assert "create_distributed_table('\"citus_analysis\".\"_runs\"', 'run_id'" in output
    code, output, error = run("--to", url.replace("@", ":hunter2secret@"))
    assert isinstance(error, UsageError)
    assert "hunter2secret" not in f"{output}{error}"
    assert isinstance(run("--to", f"{url}?password=hunter2secret")[2], UsageError)
    assert isinstance(run("--to", "mysql://x")[2], UsageError)
    assert isinstance(run("--to", url, "--tables", "spanss")[2], UnknownNameError)


def test_a_server_that_is_not_there_is_one_line(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PGPASSWORD", "hunter2secret")
    with pytest.raises(InputError, match=r"127\.0\.0\.1/x: .*refused") as caught:
        publish_dataset(dataset, "postgresql://nobody@127.0.0.1:1/x")
    assert "\n" not in str(caught.value)
    assert "hunter2secret" not in str(caught.value)


def test_rows_of_derived_tables_are_behind_views() -> None:
    assert {get_base_table_name(name) for name in DERIVED}.isdisjoint(TABLES)


def test_on_a_cluster_of_citus_rows_of_a_run_are_on_one_node(tmp_path: Path) -> None:
    sources = [RECORDED / "w2-t4-insert", RECORDED / "w2-pgbench"]
    ingest(sources, tmp_path / "out")
    dataset = open_dataset(tmp_path / "out")
    with citus_cluster(tmp_path / "servers") as cluster:
        url = f"postgresql://{SUPERUSER}@{LOOPBACK}:{cluster.nodes()[0].port}/postgres"
        # Some of the tables: making the shards of each takes a second.
        chosen = ("runs", "spans", "clients", "nodes", "log_events")
        # One by one, as tables that a later version has are added.
        for name in chosen:
            first = publish_dataset(dataset, url, tables=[name])
            assert first.distributed
            assert first.rows == {name: dataset.tables()[name]}
        for name in chosen:
            expected = rows_of(dataset, name)
            if DISTRIBUTED_BY in expected.columns:
                expected = expected.with_columns(pl.col(DISTRIBUTED_BY).fill_null(""))
            found = published_rows(url, "citus_analysis", name)
            assert found.sort(expected.columns, nulls_last=True).equals(
                expected.sort(expected.columns, nulls_last=True)
            ), name
        kinds = "SELECT string_agg(DISTINCT citus_table_type, ',' ORDER BY citus_table_type) FROM citus_tables WHERE"
        spans = "table_name = 'citus_analysis._spans'::regclass"
        assert one(url, f"{kinds} {spans}") == "distributed"
        assert one(url, f"{kinds} table_name = 'citus_analysis.nodes'::regclass") == "reference"
        assert one(url, f"SELECT distribution_column FROM citus_tables WHERE {spans}") == DISTRIBUTED_BY
        # What belongs to one run is joined where it is.
        joined = "SELECT count(*) FROM citus_analysis.spans JOIN citus_analysis.runs USING (run_id)"
        assert one(url, joined) == dataset.table("spans").filter(pl.col("run_id").is_not_null()).height
        assert publish_dataset(dataset, url, tables=chosen).rows == {}
        ingest(sources, tmp_path / "out", meta={"workers": "7"})
        publish_dataset(open_dataset(tmp_path / "out"), url, tables=chosen)
        assert one(url, "SELECT string_agg(DISTINCT workers::text, ',') FROM citus_analysis.runs") == "7"
