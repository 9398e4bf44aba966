"""Time zones as programs name them: the meaning of abbreviations, and the zone of a source's times.

A log or a report prints an abbreviation (`CET`) or an offset (`+02`). An abbreviation is accepted if all zones use it
for the same offset. Ambiguous ones (`IST` is India's, Israel's and Ireland's) are refused unless the option `timezone`
names the zone: a guess could shift a whole source by hours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from citus_analysis.errors import FormatError, UnknownNameError
from citus_analysis.formats.parsing.format import TIMEZONE

#: Minutes east of Greenwich.
_MINUTES: Final = {
    "UTC": 0, "GMT": 0, "Z": 0, "UCT": 0, "WET": 0, "ZULU": 0, "CET": 60, "MET": 60, "WEST": 60, "WAT": 60,
    "CEST": 120, "MEST": 120, "EET": 120, "CAT": 120, "SAST": 120, "EEST": 180, "MSK": 180, "IDT": 180,
    "EAT": 180, "TRT": 180, "MSD": 240, "PKT": 300, "NPT": 345, "WIB": 420, "HKT": 480, "SGT": 480, "PHT": 480,
    "AWST": 480, "WITA": 480, "JST": 540, "KST": 540, "WIT": 540, "ACST": 570, "AEST": 600, "ACDT": 630,
    "AEDT": 660, "NZST": 720, "NZDT": 780, "NDT": -150, "BRT": -180, "ART": -180, "NST": -210, "EDT": -240,
    "CLT": -240, "COT": -300, "PET": -300, "MDT": -360, "MST": -420, "PDT": -420, "AKDT": -480, "AKST": -540,
    "HST": -600,
}  # fmt: skip

#: Abbreviations of several zones, with the zones that the error names. The time zone database itself uses CDT, CST, IST
#: and PST for different offsets. It once did so for the others, or people and programs do (Bangladesh, Australia,
#: Arabia).
AMBIGUOUS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "ADT": ("America/Halifax", "Asia/Baghdad"),
        "AST": ("America/Halifax", "Asia/Riyadh"),
        "BST": ("Europe/London", "Asia/Dhaka"),
        "CDT": ("America/Chicago", "America/Havana"),
        "CST": ("America/Chicago", "Asia/Shanghai", "America/Havana"),
        "EST": ("America/New_York", "Australia/Sydney"),
        "IST": ("Asia/Kolkata", "Asia/Jerusalem", "Europe/Dublin"),
        "PST": ("America/Los_Angeles", "Asia/Manila"),
    }
)

_OFFSET: Final = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})?")
#: Years in which a zone's abbreviations are looked up.
_YEARS: Final = range(1990, 2040)
#: Number of names that an error shows, and the names shown if none resembles the given one.
_SHOWN: Final = 5
_SOME: Final = ("America/New_York", "Asia/Kolkata", "Europe/Berlin", "UTC")


def is_offset(name: str) -> bool:
    """Whether a zone is stated as an offset: `+02`, `-0330`, `+05:30`."""
    return _OFFSET.fullmatch(name) is not None


def parse_zone_minutes(name: str) -> int | None:
    """Minutes east of UTC of an abbreviation or offset; None if it is ambiguous or unknown.

    Example:
        >>> parse_zone_minutes("PDT"), parse_zone_minutes("-0330"), parse_zone_minutes("IST"), parse_zone_minutes("XYZ")
        (-420, -210, None, None)
    """
    match = _OFFSET.fullmatch(name)
    if match is None:
        return _MINUTES.get(name.upper())
    minutes = 60 * int(match[2]) + int(match[3] or 0)
    return -minutes if match[1] == "-" else minutes


def get_timezone(options: Mapping[str, str]) -> str:
    """The zone that the option `timezone` names, by default UTC.

    Raises:
        UnknownNameError: it is not an IANA time zone.
    """
    name = TIMEZONE.value(options) or "UTC"
    if name != "UTC" and name not in _list_known_zones():
        meant = AMBIGUOUS.get(name.upper()) or get_close_matches(name, _list_known_zones(), _SHOWN) or _SOME
        raise UnknownNameError("time zone", name, meant)
    return name


@cache
def _list_known_zones() -> frozenset[str]:
    return frozenset(available_timezones())


@dataclass(frozen=True)
class LocalTime:
    """Rules for the times of one source.

    Attributes:
        path: path of the source.
        zone: zone of its clock; None if the option `timezone` is not given.
    """

    path: Path
    zone: ZoneInfo | None

    @classmethod
    def of(cls, path: Path, options: Mapping[str, str]) -> LocalTime:
        """Rules with the zone that the option `timezone` names.

        Raises:
            UnknownNameError: it is not an IANA time zone.
        """
        return cls(path, ZoneInfo(get_timezone(options)) if TIMEZONE.value(options) else None)

    def check(self, names: Iterable[str]) -> None:
        """Check that the zones that a source names are unambiguous.

        Raises:
            FormatError: one of them is ambiguous, and the zone is not given or never uses it.
        """
        for name in names:
            meanings = AMBIGUOUS.get(name.upper())
            if meanings is None or (self.zone is not None and name.upper() in _list_zone_abbreviations(self.zone)):
                continue
            given = "" if self.zone is None else f", none of them in {self.zone.key}"
            raise FormatError(
                f"the times are in {name}, which is the time of several zones ({', '.join(meanings)}){given}",
                path=self.path,
                hint=f"name the zone: --meta timezone={meanings[0]}",
            )


@lru_cache(maxsize=16)
def _list_zone_abbreviations(zone: ZoneInfo) -> frozenset[str]:
    """Abbreviations of a zone in the middle of each month of `_YEARS`."""
    months = (datetime(year, month, 15, tzinfo=zone) for year in _YEARS for month in range(1, 13))
    return frozenset((moment.tzname() or "").upper() for moment in months)
