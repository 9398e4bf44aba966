"""No cell of a CSV file makes a spreadsheet compute; numbers stay numbers."""

from __future__ import annotations

import csv
import io
from datetime import date

import polars as pl
import pytest

from citus_analysis.texts.tables import guard_formula_cells


@pytest.mark.parametrize(
    "text", ["=1+1", "+A1", "-load -db x", "@SUM(1)", "\t=1", "\r=1", "\n=1", "\uff1d1+1", "-", "-1-1"]
)
def test_what_looks_like_a_formula_is_text(text: str) -> None:
    for kind in (pl.String, pl.Categorical, pl.Enum([text])):
        written = guard_formula_cells(pl.DataFrame({"a": pl.Series([text], dtype=kind), "b": [1]})).write_csv()
        assert list(csv.reader(io.StringIO(written, newline="")))[1] == ["'" + text, "1"]


@pytest.mark.parametrize("text", ["-5", "+1.5e-7", "-.5", "w2", "a=b", "", " =1", None])
def test_numbers_and_other_texts_stay(text: str | None) -> None:
    frame = pl.DataFrame({"a": pl.Series([text], dtype=pl.String)})
    assert guard_formula_cells(frame).equals(frame)


def test_other_columns_stay() -> None:
    frame = pl.DataFrame({"a": [-1.5, None], "b": [True, False], "c": [date(2026, 1, 1), None], "d": [-1, 2]})
    assert guard_formula_cells(frame).equals(frame)


def test_names_of_columns_are_guarded() -> None:
    assert guard_formula_cells(pl.DataFrame({"=cmd()": [1], "a": ["x"]})).columns == ["'=cmd()", "a"]
