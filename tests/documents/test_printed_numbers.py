"""Numbers as documents print them."""

from decimal import Decimal

import pytest

from citus_analysis.documents.printed_numbers import (
    choose_supported_quantum,
    find_following_unit,
    find_unit,
    format_like,
    is_rounded_to,
    parse_printed_number,
)
from citus_analysis.errors import FormatError


@pytest.mark.parametrize(
    ("text", "value", "quantum", "unit"),
    [
        ("8.0", "8.0", "0.1", ""),
        ("8.0 times", "8.0", "0.1", "times"),
        ("**8.0**", "8.0", "0.1", ""),
        ("1,234", "1234", "1", ""),
        ("1'234'567", "1234567", "1", ""),
        ("12\u202f345", "12345", "1", ""),
        ("1&#8239;234", "1234", "1", ""),
        ("1{,}234", "1234", "1", ""),
        ("1\\,234\\,567", "1234567", "1", ""),
        ("−1,234.5 ms", "-1234.5", "0.1", "ms"),
        ("&minus;3", "-3", "1", ""),
        ("$-3.2$", "-3.2", "0.1", ""),
        ("\\num{2192}", "2192", "1", ""),
        ("95 %", "95", "1", "%"),
        ("95\\,\\%", "95", "1", "%"),
        ("1.2e5", "1.2e5", "1e4", ""),
        ("+0.50", "0.50", "0.01", ""),
        ("0", "0", "1", ""),
    ],
)
def test_a_number_is_read_as_printed(text: str, value: str, quantum: str, unit: str) -> None:
    found = parse_printed_number(text)
    assert (found.value, found.quantum, found.unit) == (Decimal(value), Decimal(quantum), unit)


@pytest.mark.parametrize(
    "text", ["", "eight", "2,5", "1,0000", "1,234,56", "1,234'567", "8.0 timez", "8.0 9.0", "3 to 4"]
)
def test_what_has_no_reading_or_two_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_printed_number(text)


def test_words_multiply() -> None:
    found = parse_printed_number("1.2 million operations/s")
    assert (found.value, found.multiple, found.unit) == (Decimal("1.2"), Decimal(1_000_000), "operations/s")
    assert parse_printed_number("12k").multiple == 1_000


@pytest.mark.parametrize(
    ("printed", "value", "right"),
    [
        ("0.12", "0.125", True),
        ("0.13", "0.125", True),
        ("0.14", "0.125", False),
        ("2", "2.5", True),
        ("3", "2.5", True),
        ("-2", "-2.5", True),
        ("3", "2.4999", False),
        ("8.0", "7.95", True),
        ("8.0", "7.949", False),
    ],
)
def test_both_roundings_of_a_half_are_right(printed: str, value: str, right: bool) -> None:
    number = parse_printed_number(printed)
    assert is_rounded_to(number.value, Decimal(value), number.quantum) == right


@pytest.mark.parametrize(
    ("value", "like", "written"),
    [
        ("2192.4", "1,234", "2,192"),
        ("2192.4", "1234", "2192"),
        ("2192.4", "1'234.0", "2'192.4"),
        ("2192.4", "9.0", "2,192.4"),
        ("-2192.4", "1\\,234", "-2\\,192"),
        ("-3.21", "−1.0", "−3.2"),
        ("3.21", "+1.0", "+3.2"),
        ("3.21", "−1.0", "3.2"),
        ("123456", "1.2e5", "1.2e5"),
        ("0.004", "0.5", "0.004"),
    ],
)
def test_a_number_is_written_like_the_one_before(value: str, like: str, written: str) -> None:
    number = parse_printed_number(like)
    assert format_like(Decimal(value), number.quantum, number) == written


@pytest.mark.parametrize(
    ("low", "high", "quantum"), [(2.2, 3.2, "0.01"), (1_480, 4_259, "100"), (99.0, 101.0, "0.1"), (1.0, 1.0, None)]
)
def test_an_interval_supports_two_digits_of_its_half_width(low: float, high: float, quantum: str | None) -> None:
    found = choose_supported_quantum(low, high)
    assert found == (None if quantum is None else Decimal(quantum))


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        (" ms more", "ms"),
        (" operations/s.", "operations/s"),
        (" operations per second", "operations per second"),
        ("×", "×"),
        ("\\,\\% of", "%"),
        ("-fold", "fold"),
        (" runs", ""),
        (" (n = 5)", ""),
        ("", ""),
    ],
)
def test_a_unit_follows_a_number(text: str, unit: str) -> None:
    assert find_following_unit(text) == unit
    assert find_unit(unit) is not None
