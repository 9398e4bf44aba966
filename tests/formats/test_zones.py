"""What abbreviations of time zones mean, held against the time zone database, and where they mean too little."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import pytest

from citus_analysis.errors import CitusAnalysisError, FormatError, UnknownNameError
from citus_analysis.formats import Content, Hints, detect_format
from citus_analysis.formats.parsing.time_zones import _MINUTES, AMBIGUOUS, LocalTime, get_timezone, parse_zone_minutes

#: Since the oldest version of PostgreSQL whose logs are read.
YEARS = range(2019, 2027)


@pytest.fixture(scope="module")
def offsets() -> dict[str, set[int]]:
    """Minutes east of UTC that the zones of the database mean by each abbreviation."""
    found: dict[str, set[int]] = defaultdict(set)
    moments = [datetime(year, month, 15, tzinfo=UTC) for year in YEARS for month in range(1, 13)]
    for zone in map(ZoneInfo, available_timezones()):
        for local in (moment.astimezone(zone) for moment in moments):
            offset = local.utcoffset()
            assert offset is not None
            found[(local.tzname() or "").upper()].add(int(offset.total_seconds() // 60))
    return found


def test_an_abbreviation_means_what_all_zones_mean_by_it(offsets: dict[str, set[int]]) -> None:
    understood = {name: {minutes} for name, minutes in _MINUTES.items() if name in offsets}
    assert len(understood) > 30
    assert understood == {name: offsets[name] for name in understood}


def test_an_abbreviation_of_several_zones_means_nothing(offsets: dict[str, set[int]]) -> None:
    several = {name for name, minutes in offsets.items() if len(minutes) > 1}
    assert {"CST", "IST"} <= several <= set(AMBIGUOUS)
    assert not set(AMBIGUOUS) & set(_MINUTES)


def test_zones_that_an_error_names_exist() -> None:
    assert {name for names in AMBIGUOUS.values() for name in names} <= available_timezones()


@pytest.mark.parametrize(
    ("name", "minutes"),
    [("UTC", 0), ("pdt", -420), ("+03", 180), ("-0330", -210), ("+05:30", 330), ("IST", None), ("XYZ", None)],
)
def test_minutes_east_of_utc(name: str, minutes: int | None) -> None:
    assert parse_zone_minutes(name) == minutes


def test_an_ambiguous_one_is_refused_unless_the_zone_uses_it() -> None:
    path = Path("some.log")
    LocalTime.of(path, {"timezone": "Asia/Kolkata"}).check(["IST", "UTC"])
    LocalTime.of(path, {"timezone": "America/Chicago"}).check(["CST", "CDT"])
    with pytest.raises(FormatError, match=r"^some\.log: the times are in IST.*--meta timezone=Asia/Kolkata\)$"):
        LocalTime.of(path, {}).check(["UTC", "IST"])
    with pytest.raises(FormatError, match="none of them in Europe/Berlin"):
        LocalTime.of(path, {"timezone": "Europe/Berlin"}).check(["IST"])


def test_a_zone_must_exist() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'Europe/Berlin'"):
        get_timezone({"timezone": "Europe/Berlim"})


CSV_TAIL = ',"a","d",7,"[local]",65a1.62c,1,"SELECT",2026-07-01 12:00:00 @,3/4,0,LOG,00000,"x",,,,,,,,,"psql",,,0\n'
JSON_TAIL = '","pid":7,"error_severity":"LOG","message":"x"}\n'
SOURCES = {
    "postgresql-1.log": "2026-07-01 12:00:00.000 @ [7] LOG:  x\n",
    "postgresql-2.log": "2026-07-01 12:00:00 @ [7] LOG:  x\n",
    "postgresql.csv": "2026-07-01 12:00:00.000 @" + CSV_TAIL,
    "postgresql.json": '{"timestamp":"2026-07-01 12:00:00.000 @' + JSON_TAIL,
    "vmstat.out": (Path(__file__).parents[1] / "data/samplers/vmstat-t-ist.out").read_text().replace("IST", "@"),
}


@pytest.mark.parametrize("zone", sorted(AMBIGUOUS))
@pytest.mark.parametrize("name", SOURCES)
def test_every_format_refuses_to_guess(tmp_path: Path, name: str, zone: str) -> None:
    path = tmp_path / name
    path.write_text(SOURCES[name].replace("@", zone))
    found = detect_format(Content(path))
    assert found is not None
    with pytest.raises(CitusAnalysisError, match=f"in {zone}, .*--meta timezone={AMBIGUOUS[zone][0]}"):
        list(found.parse(Content(path), Hints(name)))


@pytest.mark.parametrize("name", SOURCES)
def test_every_format_believes_the_option(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(SOURCES[name].replace("@", "IST"))
    found = detect_format(Content(path))
    assert found is not None
    (piece,) = found.parse(Content(path), Hints(name, {"timezone": "Asia/Kolkata"}))
    table, column = ("vm_samples", "sample_time") if name == "vmstat.out" else ("log_events", "log_time")
    expected = "2026-11-21 10:02:27" if name == "vmstat.out" else "2026-07-01 06:30:00"
    assert f"{piece.frame(table)[column][0]:%Y-%m-%d %H:%M:%S}" == expected
