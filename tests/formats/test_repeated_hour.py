"""Local times in the hour that comes twice: the order in the file decides which of the two it is."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from citus_analysis.formats.parsing.times import convert_local_to_utc, parse_times

#: Begin of the second of the two hours.
BACK = {
    "America/New_York": datetime(2025, 11, 2, 6, tzinfo=UTC),
    "Europe/Berlin": datetime(2025, 10, 26, 1, tzinfo=UTC),
}


@pytest.mark.parametrize("zone", BACK)
@pytest.mark.parametrize("step", [timedelta(seconds=1), timedelta(seconds=10), timedelta(minutes=5)])
def test_the_order_of_times_tells_the_first_hour_from_the_second(zone: str, step: timedelta) -> None:
    begin = BACK[zone] - timedelta(minutes=20)
    times = [begin + number * step for number in range(int(timedelta(hours=3) / step))]
    local = pl.Series([one.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for one in times])
    assert convert_local_to_utc(local, zone).to_list() == times
    assert local.to_frame("t").select(convert_local_to_utc(pl.col("t"), zone))["t"].to_list() == times


def test_a_sampler_that_prints_no_zone_runs_on_over_the_change() -> None:
    printed = pl.Series(["11/02/2025 01:59:50 AM", "11/02/2025 01:00:00 AM", "11/02/2025 01:00:10 AM"])
    found = parse_times(printed, timezone="America/New_York").dt.strftime("%H:%M:%S")
    assert found.to_list() == ["05:59:50", "06:00:00", "06:00:10"]
