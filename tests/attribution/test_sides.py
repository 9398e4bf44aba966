"""Texts that name a side: what they choose, and what they are refused with."""

import polars as pl
import pytest

from citus_analysis.attribution.observed import check_same_load, parse_window
from citus_analysis.errors import CitusAnalysisError, UnknownNameError, UsageError
from citus_analysis.runs.selection import select_named_runs

RUNS = pl.DataFrame(
    {
        "resource": ["a-w1", "a-w8", "b-w8", "b-w8"],
        "set_up": ["a", "a", "b", "b"],
        "run_id": ["1", "2", "3", "4"],
        "workers": [1, 8, 8, 8],
        "operation": ["SELECT", "SELECT", "SELECT", "INSERT"],
    }
)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("a-w1", ["1"]),
        ("a-*", ["1", "2"]),
        ("b", ["3", "4"]),
        ("3", ["3"]),
        ("INSERT", ["4"]),
        ("workers=8", ["2", "3", "4"]),
        ("workers=8,set_up=b", ["3", "4"]),
        ("set_up=a|b", ["1", "2", "3", "4"]),
    ],
)
def test_a_side_is_a_name_or_values_of_columns(text: str, chosen: list[str]) -> None:
    assert select_named_runs(RUNS, text)["run_id"].to_list() == chosen


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("c", r"no side is named .c. .*a-w1"),
        ("workers=2", r"no workers is named .2. .*1, 8"),
        ("worker=8", r"no column is named .worker. .*workers"),
    ],
)
def test_an_unknown_side_is_refused_with_the_known_ones(text: str, words: str) -> None:
    with pytest.raises(UnknownNameError, match=words):
        select_named_runs(RUNS, text)


def test_runs_of_several_loads_are_no_side() -> None:
    with pytest.raises(UsageError, match=r"the runs of b differ in operation .*INSERT.*SELECT.*--only operation="):
        check_same_load([("b", select_named_runs(RUNS, "b"))])


def test_windows_are_in_utc_unless_they_say_otherwise() -> None:
    window = parse_window("2026-03-01T10:00+02:00..2026-03-01T09:00")
    assert window is not None
    assert (window.begin.hour, window.end.hour) == (8, 9)


@pytest.mark.parametrize("text", ["2026-03-01T10:00..2026-03-01T09:00", "2026-03-01T10:00..later"])
def test_a_window_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(CitusAnalysisError, match="2026-03-01T10:00"):
        parse_window(text)
