"""Tables as HTML: escaped, aligned, readable numbers."""

import math

import polars as pl
import pytest

from citus_analysis.report.html import render_html_table
from citus_analysis.texts.numbers import format_aligned_number


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
    assert format_aligned_number(value) == expected


def test_everything_from_a_frame_is_escaped() -> None:
    html = render_html_table(pl.DataFrame({"<i>": ["<b>&"], "list": [["<u>", "x"]]}), "<caption>")
    assert "<b>" not in html
    assert "<i>" not in html
    assert "<u>" not in html
    assert "&lt;caption&gt;" in html


def test_missing_values_numbers_and_units_are_shown() -> None:
    frame = pl.DataFrame({"duration_us": [1.5, None], "n": [1200, None], "ok": [True, None]})
    html = render_html_table(frame, "Times")
    assert "duration [µs]" in html
    assert html.count("–") == 3
    assert "1,200" in html
    assert html.count('class="number"') == 6


def test_an_empty_table_says_so() -> None:
    assert render_html_table(pl.DataFrame({"a": []}), "Failed runs.") == '<p class="none"><b>Failed runs</b>: none.</p>'


def test_an_estimate_and_its_interval_are_one_cell() -> None:
    frame = pl.DataFrame({"x": [1], "speedup": [0.6389], "speedup_low": [0.5104], "speedup_high": [0.7881]})
    html = render_html_table(frame, "Relative")
    assert ">0.64 [0.51,&nbsp;0.79]</td>" in html
    assert "speedup low" not in html
    plain = render_html_table(pl.DataFrame({"mean": [12.3, None], "low": [11.0, None], "high": [14.0, None]}), "Means")
    assert ">12.3 [11.0,&nbsp;14.0]</td>" in plain
    with_unit = render_html_table(pl.DataFrame({"estimate_ms": [12.3], "low_ms": [11.0], "high_ms": [14.0]}), "Times")
    assert ">12.3 [11.0,&nbsp;14.0]</td>" in with_unit
    assert "–</td>" in plain


def test_a_text_that_all_rows_share_is_said_once() -> None:
    frame = pl.DataFrame({"name": ["a", "b", "c"], "method": ["Student t"] * 3, "level": [0.95] * 3, "n": [3] * 3})
    html = render_html_table(frame, "Means.")
    assert "In all rows: method Student t, level 0.95, n 3." in html
    assert html.count("<td") == 3


def test_what_the_name_of_a_system_tells_is_left_to_the_file() -> None:
    frame = pl.DataFrame({"resource": ["a", "b"], "workload": ["A", "C"], "drivers": [1, 2], "threads": [4, 16]})
    html = render_html_table(frame, "Runs.")
    assert "The CSV file has more columns." in html
    assert html.count("<th ") == 2
    ambiguous = render_html_table(frame.with_columns(resource=pl.lit("a")), "Runs.")
    assert "load generators" in ambiguous


def test_a_column_has_the_same_decimals_throughout() -> None:
    frame = pl.DataFrame({"node": ["0", "1", "2"], "client": [9.0, 24.5, 12.0], "share": [0.123456, 0.5, 0.25]})
    html = render_html_table(frame, "x")
    assert all(f">{text}</td>" in html for text in ("9.0", "24.5", "12.0", "0.123", "0.500", "0.250"))


def test_values_far_from_the_median_keep_their_digits() -> None:
    html = render_html_table(pl.DataFrame({"p99_ms": [12.97, 14.3, 1161.355, 0.0724, 13.5]}), "x")
    assert all(f">{text}</td>" in html for text in ("13.0", "14.3", "1,161", "0.072", "13.5"))


def test_p_values_and_numbers_of_shards_are_written_as_such() -> None:
    p_values, means = [2.5e-72, 0.0336, 1.0], [34188.0, 866.5, 35163.5]
    frame = pl.DataFrame({"most_used": [105434, 105435, 105436], "p_value": p_values, "mean_us": means})
    html = render_html_table(frame, "x")
    assert all(f">{text}</td>" in html for text in ("105434", "&lt; 0.001", "0.034", "34.2", "0.87", "35.2"))
    assert "mean [ms]" in html


def test_what_no_shown_row_has_is_left_to_the_file() -> None:
    frame = pl.DataFrame({"name": [str(n) for n in range(40)], "late": [None] * 30 + [1.5] * 10})
    html = render_html_table(frame, "x", rows=5)
    assert "late" not in html
    assert "5 of 40 rows; all are in the CSV file. The CSV file has more columns." in html


def test_a_cluster_without_workers_is_one_server() -> None:
    assert ">one server</td>" in render_html_table(pl.DataFrame({"workers": [0, 2]}), "x")
