"""Tables of published numbers are read strictly: what is wrong is named with file, line and column."""

from pathlib import Path

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.errors import PublishedDataError, UnknownNameError
from citus_analysis.published import audit, published, read_published


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "mine.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_one_table_of_one_publication() -> None:
    frame = published("thesis", "5.7")
    assert set(frame["row"]) == {f"INSERT, {w} workers of 16 vCPUs" for w in (2, 4, 8, 16, 32)}
    assert frame.filter(pl.col("metric") == "sigma_ops_s")["value"].to_list() == [
        2374.32,
        7473.57,
        3216.34,
        6253.53,
        19700.41,
    ]


@pytest.mark.parametrize(("source", "table"), [("thesys", None), ("thesis", "5.77"), (None, "9.9")])
def test_unknown_names_are_refused_with_the_known_ones(source: str | None, table: str | None) -> None:
    with pytest.raises(UnknownNameError, match="known: "):
        published(source, table)


def test_long_table_of_a_user(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'source,table,row,metric,value,unit,n,note\nus,1,a,throughput_ops_s,"16,600",operations/s,5,\n'
        "us,1,a,latency_ms,15.3,ms,,x\n",
    )
    frame = read_published(path)
    assert frame.select("source", "row", "metric", "value", "n", "stated", "location").rows() == [
        ("us", "a", "throughput_ops_s", 16600.0, 5, "16,600", "line 2, column value"),
        ("us", "a", "latency_ms", 15.3, None, "15.3", "line 3, column value"),
    ]


def test_wide_table_of_a_user(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeffset-up,workers,tps,sd,repeats\r\nsmall,2,62479,2374.32,5\r\nlarge,4,,7473.57,\r\n")
    frame = read_published(path)
    assert frame.select("source", "table", "row", "metric", "value", "n").rows() == [
        ("mine", "mine", "small", "workers", 2.0, 5),
        ("mine", "mine", "small", "tps", 62479.0, 5),
        ("mine", "mine", "small", "sd", 2374.32, 5),
        ("mine", "mine", "large", "workers", 4.0, None),
        ("mine", "mine", "large", "sd", 7473.57, None),
    ]


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", "line 1", "no header"),
        ("row,metric\na,b\n", "line 1, column 'value'", "missing"),
        ("row,value\na,1\n", "line 1, column 'metric'", "missing"),
        ("metric,value,colour\na,1,red\n", "line 1, column 'colour'", "no such column"),
        ("metric,value,value\na,1,2\n", "line 1, column 'value'", "repeated"),
        ("metric,value\nthroughput_ops_s,fast\n", "line 2, column 'value'", "'fast' is not a number"),
        ("metric,value\n\nthroughput_ops_s,\n", "line 3, column 'value'", "not a number"),
        ("metric,value\nthroughput_ops_s,nan\n", "line 2, column 'value'", "not a number"),
        ("metric,value\n,1\n", "line 2, column 'metric'", "empty"),
        ("metric,value\na,1,2\n", "line 2", "has 3 cells"),
        ("metric,value,n\na,1,2.5\n", "line 2, column 'n'", "repetitions"),
        ('metric,value\na,"1\n', "line 2", "not CSV"),
        ("set-up,remark\na,b\n", "line 1", "no column contains numbers"),
        ("set-up,tps\na,1\nb,oops\n", "line 3, column 'tps'", "'oops' is not a number"),
    ],
)
def test_malformed_tables_are_named(tmp_path: Path, text: str, place: str, problem: str) -> None:
    with pytest.raises(PublishedDataError) as caught:
        read_published(written(tmp_path, text))
    assert caught.value.place == place
    assert problem in caught.value.problem
    assert "mine.csv" in str(caught.value)


def test_other_encodings_and_absent_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(PublishedDataError, match="line 2: is not UTF-8"):
        read_published(written(tmp_path, "metric,value\nlatenz_µs,1\n", "latin-1"))
    with pytest.raises(PublishedDataError, match="cannot be read"):
        read_published(tmp_path / "absent.csv")


def test_the_package_is_called_like_its_function() -> None:
    called = ca.published("thesis", "5.7")  # type: ignore[operator] # a module that can be called
    assert called.equals(published("thesis", "5.7"))
    assert ca.audit is audit
    assert ca.read_published is read_published
