"""Texts of statements without constants: whole ones, and those whose end is missing."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.serverlogs.statements import RecordTexts, normalise_statement

_QUOTED = st.sampled_from(["'{}'", "E'{}'", "$${}$$", "$tag${}$tag$", "/* {} */", "'a''{}''b'"])


@given(form=_QUOTED, cut=st.integers(0, 80))
def test_a_constant_that_is_cut_off_is_a_constant(form: str, cut: int) -> None:
    text = f"SELECT a FROM t WHERE b = {form.format('ZQZQZQ' * 4)} AND c = 1"
    assert "ZQ" not in normalise_statement(text[:cut])
    assert "ZQ" not in normalise_statement(text)


@pytest.mark.parametrize("text", ["SELECT 'it''s", "SELECT E'it\\'s", "SELECT 'a' || 'b"])
def test_the_end_of_a_text_ends_its_last_constant(text: str) -> None:
    assert normalise_statement(text) in ("SELECT ?", "SELECT ? || ?")


def test_long_statements_lose_their_constants_before_they_are_cut() -> None:
    rows = ", ".join(f"'{'x' * 100} secret {n}'::text" for n in range(12))
    texts = RecordTexts(
        pl.DataFrame({"source_id": ["s"], "byte_offset": [0], "text": [f"INSERT INTO t VALUES ({rows})"]})
    )
    table = pl.DataFrame({"source_id": ["s"], "byte_offset": [0]})
    assert texts.join(table, "text", constants=False)["text"][0] == (
        "INSERT INTO t VALUES (" + ", ".join(["?::text"] * 12) + ")"
    )
    assert len(texts.join(table, "text")["text"][0]) == 600
