from datetime import UTC, datetime

import polars as pl
import pytest

from citus_analysis.errors import UnknownNameError
from citus_analysis.formats.parsing.times import infer_date_order, parse_times

EVENING = datetime(2026, 11, 20, 21, 10, 57, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("11/20/26 21:10:57", "mdy"),
        ("11/20/2026 21:10:57", "mdy"),
        ("11/20/2026 09:10:57 PM", "mdy"),
        ("20/11/2026 21:10:57", "dmy"),
        ("20/11/26 21:10:57", "dmy"),
        ("20.11.2026 21:10:57", "dmy"),
        ("20.11.2026 21.10.57", "dmy"),
        ("20-11-26 21:10:57", "dmy"),
        ("26-11-20 21:10:57", "ymd"),
        ("2026-11-20 21:10:57", "mdy"),
        ("2026-11-20T21:10:57Z", "mdy"),
        ("2026-11-20T22:10:57+0100", "mdy"),
        ("2026-11-20T22:10:57+01:00", "mdy"),
        ("2026-11-20T16:40:57-0430", "mdy"),
    ],
)
def test_every_layout_is_the_same_moment(text: str, order: str) -> None:
    assert parse_times(pl.Series([text]), order).to_list() == [EVENING]


@pytest.mark.parametrize(("text", "hour"), [("12:00:00 AM", 0), ("12:00:00 PM", 12), ("01:00:00 AM", 1)])
def test_twelve_hour_clock_at_its_turns(text: str, hour: int) -> None:
    assert parse_times(pl.Series([f"11/20/2026 {text}"])).dt.hour().to_list() == [hour]


@pytest.mark.parametrize("text", ["", "11/20/26", "13/45/26 10:00:00", "noon"])
def test_what_is_no_time_is_null(text: str) -> None:
    assert parse_times(pl.Series([text])).to_list() == [None]


def test_zone_applies_to_times_without_offset_only() -> None:
    times = parse_times(pl.Series(["11/20/26 22:10:57", "2026-11-20T21:10:57Z"]), timezone="Europe/Berlin")
    assert times.to_list() == [EVENING, EVENING]


def test_hour_that_the_clock_change_repeats_means_the_first() -> None:
    times = parse_times(pl.Series(["10/25/26 02:30:00"]), timezone="Europe/Berlin")
    assert times.to_list() == [datetime(2026, 10, 25, 0, 30, tzinfo=UTC)]


def test_hour_that_the_clock_change_skips_is_null() -> None:
    assert parse_times(pl.Series(["03/29/26 02:30:00"]), timezone="Europe/Berlin").to_list() == [None]


@pytest.mark.parametrize(
    ("dates", "comma", "order"),
    [
        (["11/20/26"], False, "mdy"),
        (["20/11/26"], False, "dmy"),
        (["05/06/26"], False, "mdy"),
        (["05/06/26"], True, "dmy"),
        (["05.06.2026"], False, "dmy"),
        (["05-06-26"], False, "dmy"),
        (["05/06/26 10:00:00", "13/06/26 10:00:00"], False, "dmy"),
        ([], False, "mdy"),
    ],
)
def test_order_of_day_and_month_by_evidence(dates: list[str], comma: bool, order: str) -> None:
    assert infer_date_order(dates, {}, decimal_comma=comma) == order


def test_option_decides_the_order_where_numbers_cannot() -> None:
    assert infer_date_order(["05/06/26"], {"date_order": "dmy"}) == "dmy"


def test_the_order_must_be_a_known_name() -> None:
    with pytest.raises(UnknownNameError, match="date_order"):
        infer_date_order([], {"date_order": "american"})
