"""What the functions that wrap texts share: the lines of a text, and times that rise from line to line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

#: 2026-11-25 16:53:47.305123456 UTC, in nanoseconds.
START_NS: Final = int(datetime(2026, 11, 25, 16, 53, 47, tzinfo=UTC).timestamp()) * 10**9 + 305_123_456
#: Between two lines: 1.7 ms and some, so that digits of all places change.
STEP_NS: Final = 1_704_321


def lines_of(text: bytes) -> list[bytes]:
    r"""The lines of a text without their ends; one that ends in `\n` has no empty line after that."""
    lines = text.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def joined(lines: Iterable[bytes]) -> bytes:
    """Lines with an end after each, the last one included."""
    return b"".join(line + b"\n" for line in lines)


def stamped(text: bytes, step_ns: int = STEP_NS, start_ns: int = START_NS) -> Iterator[tuple[int, bytes]]:
    """Each line with the time at which it came, in nanoseconds since 1970."""
    return ((start_ns + number * step_ns, line) for number, line in enumerate(lines_of(text)))


def formatted(time_ns: int, form: str) -> str:
    """A time as strftime prints it in UTC."""
    return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime(form)


def iso(time_ns: int, digits: int = 9, zone: str = "Z") -> str:
    """ISO 8601 with some digits of the second: `2026-11-25T16:53:47.305123456Z`."""
    fraction = f".{time_ns % 10**9:09}"[: digits + 1] if digits else ""
    return formatted(time_ns, "%Y-%m-%dT%H:%M:%S") + fraction + zone


def rfc3339_nano(time_ns: int) -> str:
    """As Go prints `time.RFC3339Nano`: zeros at the end of the fraction are left out, the point with them."""
    fraction = f".{time_ns % 10**9:09}".rstrip("0").rstrip(".")
    return formatted(time_ns, "%Y-%m-%dT%H:%M:%S") + fraction + "Z"


def merged(texts: Mapping[str, bytes], starts_ns: Mapping[str, int] | None = None) -> list[tuple[int, str, bytes]]:
    """The lines of several sources in the order of their times: time, source, line.

    The sources begin a third of a step after one another, so that their lines alternate.
    """
    found: list[tuple[int, str, bytes]] = []
    for number, (name, text) in enumerate(texts.items()):
        start = (starts_ns or {}).get(name, START_NS + number * (STEP_NS // 3))
        found += [(time, name, line) for time, line in stamped(text, start_ns=start)]
    return sorted(found, key=lambda entry: entry[0])
