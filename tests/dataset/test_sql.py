"""A query reads the dataset's tables: it cannot write, and it opens no other file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.dataset.sql import require_reading
from citus_analysis.errors import DatasetError, UsageError
from citus_analysis.runs.set_ups import add_setup_descriptions
from tests.conftest import Tree

SECRET = "not-for-queries"

#: One statement at least of each type that DuckDB knows, and what hides it.
CHANGING = [
    "ALTER TABLE runs ADD COLUMN x INTEGER",
    "ANALYZE",
    "ATTACH '{out}/new.db'",
    "BEGIN",
    "CALL enable_logging(storage = 'file', storage_path = '{out}')",
    "CHECKPOINT",
    "COMMENT ON TABLE runs IS 'x'",
    "COPY (PIVOT runs ON phase) TO '{manifest}'",
    "COPY (SELECT 1) TO '{manifest}'",
    "COPY FROM DATABASE memory TO other",
    "COPY runs FROM '{secret}'",
    "CREATE FUNCTION f(x) AS x",
    "CREATE SECRET (TYPE S3)",
    "CREATE TABLE x AS PIVOT runs ON phase",
    "CREATE TABLE x AS SELECT 1",
    "DEALLOCATE p",
    "DELETE FROM sources",
    "DETACH memory",
    "DROP VIEW runs",
    "EXECUTE p",
    "EXPLAIN (ANALYZE) COPY (SELECT 1) TO '{manifest}'",
    "EXPLAIN (ANALYZE, FORMAT JSON) COPY (SELECT 1) TO '{manifest}'",
    "EXPLAIN ANALYZE COPY (PIVOT runs ON phase) TO '{manifest}'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{manifest}'",
    "EXPLAIN ANALYZE INSERT INTO sources SELECT * FROM sources",
    "EXPLAIN ANALYZE WITH x AS (COPY runs TO '{manifest}') SELECT 1",
    "EXPLAIN COPY (SELECT 1) TO '{manifest}'",
    "/* SELECT */ explain -- SELECT\n analyze copy (SELECT 1) TO '{manifest}'",
    "EXPORT DATABASE '{out}'",
    "IMPORT DATABASE '{out}'",
    "INSERT INTO sources SELECT * FROM sources",
    "INSTALL httpfs",
    "LOAD httpfs",
    "MERGE INTO sources USING sources s ON true WHEN MATCHED THEN DELETE",
    "PIVOT (FROM enable_logging(storage = 'file', storage_path = '{out}')) ON phase",
    "PIVOT (FROM \"read_text\"('{secret}')) ON filename",
    "PRAGMA enable_profiling",
    "PREPARE p AS SELECT 1",
    "RESET threads",
    "SELECT 1; COPY (SELECT 1) TO '{manifest}'",
    "SELECT * FROM enable_logging(storage = 'file', storage_path = '{out}')",
    "SELECT * FROM enable_profiling(save_location = '{manifest}')",
    "SELECT * FROM checkpoint()",
    "SELECT * FROM query('COPY (SELECT 1) TO ''{manifest}''')",
    "SELECT * FROM query('FROM read_text(''{secret}'')')",
    "SELECT * FROM query_table(['{secret}'])",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{secret}'')'))",
    "SET enable_external_access = true",
    "SET VARIABLE x = 1",
    "TRUNCATE sources",
    "UPDATE sources SET rows = 0",
    "USE memory",
    "VACUUM",
    "WITH x AS (COPY runs TO '{manifest}') PIVOT runs ON phase",
    "WITH x AS (COPY runs TO '{manifest}') SELECT 1",
    "WITH x AS (DELETE FROM sources RETURNING *) FROM x",
    "WITH x AS (INSERT INTO sources SELECT * FROM sources RETURNING *) FROM x",
    "WITH x AS (UPDATE sources SET rows = 0 RETURNING *) FROM x",
]

READING = [
    "DESCRIBE SELECT 1",
    "DESCRIBE runs",
    "EXPLAIN (FORMAT JSON) SELECT 1",
    "EXPLAIN (SELECT 1)",
    "EXPLAIN ANALYZE FROM runs",
    "EXPLAIN PIVOT runs ON phase",
    "EXPLAIN SELECT 1",
    "FROM runs",
    "FROM runs SELECT count(*) AS copy, count(*) AS delete -- COPY",
    "PIVOT (FROM runs WHERE workload <> 'INSERT') ON phase",
    "PIVOT runs ON phase IN ('load', 'run') USING count(*)",
    "SELECT 'COPY', $$ INSERT $$, E'a\\'b', 'é' AS \"größe\" ;",
    "SELECT * FROM range(3)",
    "SHOW TABLES",
    "SUMMARIZE runs",
    "TABLE runs",
    "UNPIVOT (SELECT 1 AS a, 2 AS b) ON a, b",
    "VALUES (1)",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3) FROM r",
    "WITH a AS MATERIALIZED (FROM runs) SELECT (SELECT count(*) FROM a)",
    "select 1 union all (select 2 except select 3)",
]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("beside the dataset")
    (folder / "secret.txt").write_text(f"{SECRET}\n", encoding="utf-8")
    return {
        "out": str(folder / "new"),
        "manifest": str(folder / "out" / "_manifest.jsonl"),
        "secret": str(folder / "secret.txt"),
    }


@pytest.fixture(scope="module")
def dataset(places: dict[str, str]) -> Dataset:
    log = Path(places["secret"]).with_name("PGLOG-1-1.log")
    log.write_text("2026-11-20 21:03:47.877 UTC [7] [3/4] : [1-1] LOG:  duration: 1.000 ms\n", encoding="utf-8")
    folder = Path(places["manifest"]).parent
    ingest([log], folder)
    return open_dataset(folder)


@pytest.fixture
def untouched(dataset: Dataset) -> Iterator[None]:
    """Whatever the test does, the dataset and the folder that it lies in stay as they are."""

    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in Path(dataset.path).parent.rglob("*") if path.is_file()}

    before = files()
    yield
    assert files() == before


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("query", CHANGING)
def test_what_changes_or_opens_anything_is_refused(dataset: Dataset, places: dict[str, str], query: str) -> None:
    with pytest.raises(UsageError, match=r"^SQL: (must be one SELECT|Permission Error|Parser Error)"):
        dataset.sql(query.format(**places))


@pytest.mark.parametrize("query", READING)
def test_what_only_reads_is_answered(dataset: Dataset, query: str) -> None:
    assert dataset.sql(query).width > 0


def test_every_type_of_statement_is_tried() -> None:
    """The list above keeps up with DuckDB; the types left out are those that no text makes."""
    with duckdb.connect() as connection:
        tried = {kind.type.name for query in CHANGING for kind in connection.extract_statements(query)}
    without_text = {"INVALID", "SELECT", "ANALYZE", "CREATE_FUNC", "VARIABLE_SET", "LOGICAL_PLAN", "RELATION"}
    without_text |= {"EXTENSION", "COPY_DATABASE"}
    assert set(duckdb.StatementType.__members__) - tried <= without_text


def table_functions() -> list[str]:
    kinds = "('table', 'pragma', 'table_macro')"
    query = f"SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN {kinds} ORDER BY 1"
    with duckdb.connect() as connection:
        return [name for (name,) in connection.execute(query).fetchall()]


@pytest.mark.usefixtures("untouched")
def test_no_table_function_opens_a_file_or_changes_anything(dataset: Dataset, places: dict[str, str]) -> None:
    answered = []
    with duckdb.connect() as connection:
        for name in table_functions():
            with suppress(UsageError):
                require_reading(connection, f"SELECT * FROM \"{name}\"('{places['secret']}')")
                answered.append(name)
    assert "range" in answered
    assert not [name for name in answered if name.startswith(("read_", "enable_", "parquet_", "query", "glob"))]
    for name in answered:
        with suppress(UsageError):
            assert SECRET not in str(dataset.sql(f"SELECT * FROM {name}('{places['secret']}')").rows())


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM '{secret}'",
        "SELECT * FROM '{secret}/../*'",
        "FROM glob('{secret}')",
        "SELECT getenv('HOME')",
        "SELECT * FROM 'https://example.org/x.csv'",
        "SELECT * FROM 's3://bucket/x.parquet'",
        "FROM read_parquet('{manifest}')",
        "FROM sniff_csv('{secret}')",
        "FROM parquet_metadata('{secret}')",
        "DESCRIBE TABLE '{secret}'",
        "SUMMARIZE FROM read_csv('{secret}')",
        "SELECT (SELECT content FROM read_text('{secret}'))",
        "SELECT * FROM runs, LATERAL (FROM read_blob('{secret}'))",
    ],
)
def test_no_expression_opens_a_file(dataset: Dataset, places: dict[str, str], query: str) -> None:
    with pytest.raises(UsageError, match=r"^SQL: (Permission Error|Catalog Error)"):
        dataset.sql(query.format(**places))


def test_no_function_of_a_text_reads_the_file_that_it_names(places: dict[str, str]) -> None:
    query = """SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('scalar', 'macro')
        AND len(parameters) = 1 AND function_name SIMILAR TO '[a-z_0-9]+'"""
    with duckdb.connect() as connection:
        names = {name for (name,) in connection.execute(query).fetchall()} - {"sleep_ms"}
        assert len(names) > 100
        for name in names:
            with suppress(duckdb.Error):
                assert SECRET not in str(connection.execute(f"SELECT {name}('{places['secret']}')").fetchall())


def test_frames_of_the_caller_are_tables_and_other_variables_are_not(dataset: Dataset) -> None:
    frame, number, runs = pd.DataFrame({"x": [1]}), 1, pd.DataFrame({"x": [2]})
    assert dataset.sql("FROM frame").rows() == [(1,)]
    assert "x" not in dataset.sql("FROM runs").columns, f"a table of the dataset is never replaced: {runs}"
    with pytest.raises(UsageError, match="Table with name number does not exist"):
        dataset.sql("FROM number")
    assert (len(frame), number) == (1, 1)


@pytest.mark.parametrize("query", ["SELECT 1\0; COPY runs TO 'x'", "SELECT '\udcff'"])
def test_what_is_no_text_is_refused(dataset: Dataset, query: str) -> None:
    with pytest.raises(UsageError, match="contains bytes that are not text"):
        dataset.sql(query)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT iteratoin FROM runs", r'not found in FROM clause! \(Candidate bindings: "iteration".*\)$'),
        ("SELECT * FROM rnus", r'does not exist! \(Did you mean "runs"\? tables with rows: .*\)$'),
        ("SELECT medan(1)", r'does not exist! \(Did you mean "median"\?\)$'),
        (
            "SELECT INTERVAL 1 DAY AS x",
            r"column 'x' is of type month_day_nano_interval \(cast it: x::VARCHAR, or epoch",
        ),
        ("SELECT 1 AS a, 2 AS a", r"two columns are named 'a' \(name one of them with AS\)"),
    ],
)
def test_errors_keep_the_way_out(dataset: Dataset, query: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        dataset.sql(query)


def test_what_commands_print_of_set_ups_is_a_table(tree: Tree, tmp_path: Path) -> None:
    ingest([tree({"results.csv": "workers,threads,tps\n1,8,100\n2,8,190\n"})], tmp_path / "out")
    found = open_dataset(tmp_path / "out")
    joined = found.sql("SELECT run_id, family, settings FROM runs JOIN set_ups USING (resource, run_id)")
    described = add_setup_descriptions(found.runs(), found.table("settings"))
    assert joined.sort("run_id").equals(described.select(joined.columns).sort("run_id"))
    assert joined.height == found.runs().height > 0


@pytest.mark.parametrize("query", ["SELECT family FROM runs", "SELECT r.cpu_per_node FROM runs r"])
def test_a_column_of_set_ups_is_found_by_its_name(dataset: Dataset, query: str) -> None:
    with pytest.raises(UsageError, match=r"it is a column of set_ups: FROM runs JOIN set_ups"):
        dataset.sql(query)


def test_a_file_that_cannot_be_read_is_no_empty_answer(tree: Tree, tmp_path: Path) -> None:
    line = "2026-11-20 21:03:47.877 UTC [7] [3/4] : [1-1] LOG:  duration: 1.000 ms\n"
    ingest([tree({"PGLOG-1-1.log": line})], tmp_path / "out")
    dataset = open_dataset(tmp_path / "out")
    next((tmp_path / "out" / "log_events").rglob("*.parquet")).write_bytes(b"")
    with pytest.raises(DatasetError, match=r"is damaged: it has 0 bytes .*\(ingest the sources again"):
        dataset.sql("SELECT count(*) FROM log_events")
