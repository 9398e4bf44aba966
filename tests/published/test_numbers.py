"""Printed digits and the values they allow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.published.rows import Range, compute_column_resolution, compute_resolution, compute_stated_range
from citus_analysis.texts.numbers import parse_stated_numbers


@pytest.mark.parametrize(
    ("value", "stated", "step"),
    [
        (28.5, "28.5", 0.1),
        (25.0, "25.0", 0.1),
        (9_000, "9,000", 100),
        (9_000, "~9,000", 1_000),
        (16_600, "16,600", 100),
        (5_568, "5,568", 1),
        (1.75e6, "1.75M+", 1e4),
        (9_000, "9K", 1_000),
        (93_519, "93.519", 1),
        (1.1e6, "1.1 million", 1e5),
        (0, "0.00", 0.01),
        (4, "four", 0),
        (5 / 3, "~5/3", 1 / 3),
    ],
)
def test_resolution_of_printed_numbers(value: float, stated: str, step: float) -> None:
    assert compute_resolution(value, stated) == pytest.approx(step)


@pytest.mark.parametrize(
    ("texts", "steps"),
    [
        (["12300", "9870", "456"], [100, 10, 1]),  # three significant digits
        (["12300.0", "9870.0", "456.0"], [100, 10, 1]),  # the same, from a frame of floats
        (["2,500", "5,568"], [1, 1]),
        (["12300", "45600", "123400"], [100, 100, 100]),  # rounded to hundreds
        (["12300.5", "9870.0"], [0.1, 0.1]),
        (["62479.00", "111322.13"], [0.01, 0.01]),
        (["1.2", "12.3", "123"], [0.1, 0.1, 1]),
        (["3e+03", "1.62e+03"], [10, 10]),  # %.3g drops zeros
        (["~9,000", "8,123"], [1_000, 1]),
    ],
)
def test_columns_are_read_together(texts: list[str], steps: list[float]) -> None:
    assert compute_column_resolution([parse_stated_numbers(text)[0] for text in texts], texts) == pytest.approx(steps)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("12.3k", (12_300,)),
        ("1.75M+", (1_750_000,)),
        ("12345 ± 120", (12_345, 120)),
        ("12.3k ± 0.4k", (12_300, 400)),
        ("16,600", (16_600,)),
        (".5", (0.5,)),
        ("12 nodes", ()),
        ("1e400", ()),
        ("", ()),
    ],
)
def test_numbers_in_cells(text: str, numbers: tuple[float, ...]) -> None:
    assert parse_stated_numbers(text) == pytest.approx(numbers)


@given(st.floats(1e-6, 1e9), st.integers(0, 6))
def test_a_rounded_and_a_truncated_number_allow_the_value(value: float, decimals: int) -> None:
    rounded = f"{value:.{decimals}f}"
    if float(rounded):
        assert compute_stated_range(float(rounded), rounded, 10.0**-decimals).overlaps(Range.exact(value))
    cut = rounded if float(rounded) <= value else f"{float(rounded) - 10.0**-decimals:.{decimals}f}"
    if float(cut) > 0:
        assert compute_stated_range(float(cut), cut, 10.0**-decimals).overlaps(Range.exact(value))


@given(st.tuples(*[st.floats(0.1, 1e4)] * 4))
def test_arithmetic_contains_the_arithmetic_of_members(values: tuple[float, float, float, float]) -> None:
    a, b = Range(*sorted(values[:2])), Range(*sorted(values[2:]))
    for x in (a.low, a.high):
        for y in (b.low, b.high):
            assert (a + b).overlaps(Range.exact(x + y))
            assert (a - b).overlaps(Range.exact(x - y))
            assert (a * b).overlaps(Range.exact(x * y))
            assert (a / b).overlaps(Range.exact(x / y))
