"""Names in the order in which a person counts."""

import polars as pl
import pytest

from citus_analysis.texts.words import make_natural_expr, make_natural_key


@pytest.mark.parametrize(
    "names",
    [
        ["w1-t4", "w1-t16", "w2-t4", "w10-t4"],
        ["1", "2", "10", "a"],
        ["a", "a1", "a1b", "a2"],
        ["v1.9", "v1.10"],
    ],
)
def test_numbers_in_names_count(names: list[str]) -> None:
    assert sorted(set(names), key=make_natural_key) == names
    assert pl.DataFrame({"n": names[::-1]}).sort(make_natural_expr("n"))["n"].to_list() == names
