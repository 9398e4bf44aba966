"""Printed digits and the values they allow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.published._numbers import Range, resolution, stated_range


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
    assert resolution(value, stated) == pytest.approx(step)


@given(st.floats(1e-6, 1e9), st.integers(0, 6))
def test_a_rounded_and_a_truncated_number_allow_the_value(value: float, decimals: int) -> None:
    rounded = f"{value:.{decimals}f}"
    if float(rounded):
        assert stated_range(float(rounded), rounded, 10.0**-decimals).overlaps(Range.exact(value))
    cut = rounded if float(rounded) <= value else f"{float(rounded) - 10.0**-decimals:.{decimals}f}"
    if float(cut) > 0:
        assert stated_range(float(cut), cut, 10.0**-decimals).overlaps(Range.exact(value))


@given(st.tuples(*[st.floats(0.1, 1e4)] * 4))
def test_arithmetic_contains_the_arithmetic_of_members(values: tuple[float, float, float, float]) -> None:
    a, b = Range(*sorted(values[:2])), Range(*sorted(values[2:]))
    for x in (a.low, a.high):
        for y in (b.low, b.high):
            assert (a + b).overlaps(Range.exact(x + y))
            assert (a - b).overlaps(Range.exact(x - y))
            assert (a * b).overlaps(Range.exact(x * y))
            assert (a / b).overlaps(Range.exact(x / y))
