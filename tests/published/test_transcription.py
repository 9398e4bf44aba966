"""Every published number stands in the text it was transcribed from, at the line that is given for it."""

import math
import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.published import published
from citus_analysis.schema import TABLES

SEEDS = Path(__file__).parents[2].parent / "shared" / "seeds"
#: Words that the texts print for a number, and numbers that are printed in another unit than ours.
WORDS = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "four": 4,
    "five": 5,
    "ten": 10,
    "twenty": 20,
    "two orders of magnitude": 100,
    "5/3": 5 / 3,
}
MULTIPLES = {
    "Billion": 1e9,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "million": 1e6,
    "Million": 1e6,
    "billion": 1e9,
    "thousand": 1e3,
}
OTHER_UNIT = {
    ("sigmod", "~10s+"): 10_000.0,  # seconds in ms
    ("sigmod", "1 hour"): 3_600.0,
    ("sigmod", "20 minutes"): 1_200.0,
    ("postgres_xc", "~600Megabytes"): 6e8,
    ("postgres_xc", "100GB/s"): 1e5,  # MB/s
    ("thesis", "93.519"): 93_519.0,  # points that group thousands
    ("thesis", "~50.000"): 50_000.0,
    ("thesis", "~500.000"): 500_000.0,
    ("thesis", "~200 thousand"): -200_000.0,  # a decrease
    ("citus_docs", "~1"): 1e9,  # "1 to 4 billion"
}


def plain(text: str) -> str:
    """The text without the marks of its typesetting."""
    text = re.sub(r"\\frac\{(\d+)\}\{(\d+)\}", r"\1/\2", text)
    return re.sub(r"\s+", " ", re.sub(r"\\!|\\mathrm|\\%|\\sim|[${}`]|\*\*", "", text))


def names_value(stated: str, source: str, value: float) -> bool:
    """The printed text means the value, with the multiple it is printed with."""
    if (source, stated) in OTHER_UNIT:
        return OTHER_UNIT[source, stated] == value
    text = stated.lstrip("~")
    if text in WORDS:
        return math.isclose(WORDS[text], value, rel_tol=1e-9)
    found = re.match(r"([\d,]+(?:\.\d+)?)\s*([Bb]illion|thousand|[Mm]illion|[kKM](?![a-zA-Z]))?", text)
    assert found, stated
    return math.isclose(float(found[1].replace(",", "")) * MULTIPLES.get(found[2] or "", 1), value)


@pytest.fixture(scope="module")
def seeds() -> Mapping[str, list[str]]:
    if not SEEDS.is_dir():
        pytest.skip("the texts of the publications are not here (../shared/seeds)")
    return {path.name.split("_")[0]: path.read_text(encoding="utf-8").split("\n") for path in SEEDS.glob("*.txt")}


@pytest.mark.parametrize("source", ["thesis", "postgres_xc", "citus_docs", "hammerdb_talk", "sigmod"])
def test_numbers_stand_where_they_are_said_to_stand(source: str, seeds: Mapping[str, list[str]]) -> None:
    missing = []
    for row in published(source).iter_rows(named=True):
        line = plain(seeds[row["seed"]][int(row["location"].removeprefix("line ")) - 1])
        printed = row["stated"].lstrip("~")
        if not re.search(rf"(?<![\d.,]){re.escape(printed)}(?!\d)", line):
            missing.append((row["table"], row["row"], row["metric"], printed, row["location"]))
    assert not missing


def test_values_are_what_the_printed_text_means() -> None:
    numbers = published().filter(pl.col("value").is_not_null())
    wrong = [
        (row["source"], row["stated"], row["value"])
        for row in numbers.iter_rows(named=True)
        if not names_value(row["stated"], row["source"], row["value"])
    ]
    assert not wrong


def test_every_row_says_where_it_comes_from() -> None:
    frame = published()
    assert frame.schema == TABLES["published"].polars_schema()
    assert (
        frame.select(pl.col("source", "table", "row", "metric", "stated", "seed", "location").null_count()).row(0)
        == (0,) * 7
    )


def test_a_statement_is_transcribed_once() -> None:
    frame = published()
    assert not frame.select("source", "table", "row", "metric", "location").is_duplicated().any()


@pytest.mark.parametrize(
    ("source", "tables"),
    [
        ("thesis", {"4.1", "4.2", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "5.8", "5.9", "equation 5.2"}),
        ("postgres_xc", {"1", "2", "3"}),
        ("sigmod", {"1", "2", "3"}),
        ("citus_docs", {"insert throughput", "update throughput", "bulk copy"}),
        ("hammerdb_talk", {"1000 users", "2000 users", "shard count", "1000 users, high availability"}),
    ],
)
def test_every_table_is_there(source: str, tables: set[str]) -> None:
    assert tables <= set(published(source)["table"])


@pytest.mark.parametrize("system", ["citus", "citus (managed)", "aurora", "spanner", "postgres-xc", "postgresql"])
def test_every_system_has_numbers(system: str) -> None:
    assert published().filter(pl.col("system") == system, pl.col("value") > 0).height
