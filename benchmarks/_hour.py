"""Logs of hours, made of recorded ones: the same sessions going on, or shapes that strain memory otherwise.

One iteration of a recording is repeated on all of its nodes. Times go on from one repetition to the next, and, where
sessions go on, so do the numbers of their lines.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Final

from citus_analysis.formats import Content

__all__ = ["SHAPES", "Shape", "write_hour"]

RECORDED: Final = Path(__file__).parents[1] / "tests" / "data" / "recorded"

#: Seconds between the beginnings of two repetitions, which take 14 at most.
_STEP_S: Final = 15
#: Added to the pids of each repetition whose sessions are other ones.
_OTHER_PIDS: Final = 100_000
#: A line under the study's prefix: second, fraction, pid, number within the session, the rest.
_LINE: Final = re.compile(
    rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d{3} UTC \[)(\d+)(\] \[[^]]*\] : \[)(\d+)(-1\] .*)", re.DOTALL
)
_GPID: Final = re.compile(rb"gpid=(\d+)")


@dataclass(frozen=True)
class Shape:
    """What logs look like.

    Attributes:
        recording: of which the first iteration is repeated.
        new_sessions: each repetition has sessions of its own.
    """

    recording: str
    new_sessions: bool = False


#: Of the shapes that a cluster logs; `overlapping` logs are those of :func:`overlapping`.
SHAPES: Final = {
    "long": Shape("w2-t16-insert"),
    "few": Shape("w2-t4-insert"),
    "many_short": Shape("w2-t16-insert", new_sessions=True),
}


def write_hour(folder: Path, shape: Shape, size: int) -> int:
    """Write the logs of all nodes, of about `size` bytes together, and the nodes' names; how many bytes they have."""
    recording = RECORDED / shape.recording
    logs = {path.name.removesuffix(".zst"): _lines(path) for path in sorted(recording.glob("pglogs/PGLOG-*-1.log*"))}
    target = folder / f"hour-{shape.recording}"
    (target / "pglogs").mkdir(parents=True)
    shutil.copy(recording / "config.yml", target)
    times = max(1, round(size / sum(len(line) for lines in logs.values() for line in lines)))
    return sum(_write(target / "pglogs" / name, lines, times, shape) for name, lines in logs.items())


def overlapping(path: Path, recorded: bytes, size: int, pid_sets: int = 50) -> int:
    """A log of at least `size` bytes: recorded logs again and again, each time an hour later, pids in so many sets."""
    written = 0
    with path.open("wb") as file:
        for number in count():
            if written >= size:
                return written
            stamp = f"2026-{1 + number // 672 % 12:02}-{1 + number // 24 % 28:02} {number % 24:02}:"
            shifted = recorded.replace(b"2026-11-20 21:", stamp.encode())
            written += file.write(shifted.replace(b" UTC [", b" UTC [%d" % (1 + number % pid_sets)))
    raise AssertionError


def _lines(path: Path) -> list[bytes]:
    with Content(path).open() as stream:
        return stream.read().splitlines(keepends=True)


def _write(path: Path, lines: list[bytes], times: int, shape: Shape) -> int:
    with path.open("wb") as file:
        return sum(file.write(b"".join(repetition)) for repetition in _repetitions(lines, times, shape))


def _repetitions(lines: list[bytes], times: int, shape: Shape) -> Iterator[list[bytes]]:
    parts = [found.groups() if (found := _LINE.fullmatch(line)) else (line,) for line in lines]
    seconds = sorted({part[0] for part in parts if len(part) > 1})
    last: dict[bytes, int] = {}
    for part in parts:
        if len(part) > 1:
            last[part[2]] = max(last.get(part[2], 0), int(part[4]))
    for number in range(times):
        moved = {second: _later(second, number * _STEP_S) for second in seconds}
        add = 0 if shape.new_sessions else number
        shift = number * _OTHER_PIDS if shape.new_sessions else 0
        yield [_line(part, moved, add * last[part[2]], shift) if len(part) > 1 else part[0] for part in parts]


def _line(part: tuple[bytes, ...], moved: dict[bytes, bytes], add: int, shift: int) -> bytes:
    second, fraction, pid, vxid, line, rest = part
    if shift:
        pid = b"%d" % (int(pid) + shift)
        rest = _GPID.sub(_shifted(shift), rest)
    return b"%b%b%b%b%d%b" % (moved[second], fraction, pid, vxid, int(line) + add, rest)


def _shifted(shift: int) -> Callable[[re.Match[bytes]], bytes]:
    return lambda found: b"gpid=%d" % (int(found[1]) + shift)


def _later(second: bytes, by: int) -> bytes:
    time = datetime.strptime(second.decode(), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) + timedelta(seconds=by)
    return time.strftime("%Y-%m-%d %H:%M:%S").encode()
