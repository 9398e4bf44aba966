"""Tables as HTML: escaped, aligned, readable numbers."""

import math

import polars as pl
import pytest

from citus_analysis.report.blocks.html_tables import html_table
from citus_analysis.texts.number_text import aligned


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0"),
        (0.95, "0.9500"),
        (12345.6, "12,346"),
        (-2.5, "−2.500"),
        (9999.96, "10,000"),
        (1e-6, "1.000e-06"),
        (1e15, "1.000e+15"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "–"),
    ],
)
def test_numbers_have_four_digits(value: float, expected: str) -> None:
    assert aligned(value) == expected


def test_everything_from_a_frame_is_escaped() -> None:
    html = html_table(pl.DataFrame({"<i>": ["<b>&"], "list": [["<u>", "x"]]}), "<caption>")
    assert "<b>" not in html
    assert "<i>" not in html
    assert "<u>" not in html
    assert "&lt;caption&gt;" in html


def test_missing_values_numbers_and_units_are_shown() -> None:
    frame = pl.DataFrame({"duration_us": [1.5, None], "n": [1200, None], "ok": [True, None]})
    html = html_table(frame, "Times")
    assert "duration [µs]" in html
    assert html.count("–") == 3
    assert "1,200" in html
    assert html.count('class="number"') == 6


def test_an_empty_table_says_so() -> None:
    assert html_table(pl.DataFrame({"a": []}), "Failed runs.") == '<p class="none"><b>Failed runs</b>: none.</p>'


def test_an_estimate_and_its_interval_are_one_cell() -> None:
    frame = pl.DataFrame({"x": [1], "speedup": [0.6389], "speedup_low": [0.5104], "speedup_high": [0.7881]})
    html = html_table(frame, "Relative")
    assert ">0.64 [0.51, 0.79]</td>" in html
    assert "speedup low" not in html
    plain = html_table(pl.DataFrame({"mean": [12.3, None], "low": [11.0, None], "high": [14.0, None]}), "Means")
    assert ">12.3 [11.0, 14.0]</td>" in plain
    assert "–</td>" in plain


def test_a_text_that_all_rows_share_is_said_once() -> None:
    frame = pl.DataFrame({"name": ["a", "b", "c"], "method": ["Student t"] * 3, "level": [0.95] * 3, "n": [3] * 3})
    html = html_table(frame, "Means.")
    assert "In all rows: method Student t, level 0.95." in html
    assert html.count("<td") == 6


def test_what_the_name_of_a_system_tells_is_left_to_the_file() -> None:
    frame = pl.DataFrame({"resource": ["a", "b"], "workload": ["A", "C"], "drivers": [1, 2], "threads": [4, 16]})
    html = html_table(frame, "Runs.")
    assert "The CSV file has more columns." in html
    assert html.count("<th ") == 2
    ambiguous = html_table(frame.with_columns(resource=pl.lit("a")), "Runs.")
    assert "load generators" in ambiguous


def test_numbers_of_few_decimals_stay_as_they_are() -> None:
    html = html_table(pl.DataFrame({"node": ["0", "1"], "client": [9.0, 24.5], "share": [0.123456, 0.5]}), "x")
    assert ">9</td>" in html
    assert ">24.5</td>" in html
    assert ">0.5000</td>" in html


def test_a_cluster_without_workers_is_one_server() -> None:
    assert ">one server</td>" in html_table(pl.DataFrame({"workers": [0, 2]}), "x")
