"""Logs of one server written for a test, with what is true of their statements."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

START = datetime(2026, 11, 20, 21, 0, 0, tzinfo=UTC)
#: Prefixes with a process or session, and without.
WITH_SESSION = ("%m [%p] ", "%t %c %u@%d ", "%t:%r:%u@%d:[%p]:", "%m [%p] %q%u@%d ", "%n %p %l ")
WITHOUT_SESSION = ("%t ", "%m ", "%m %u@%d ", "%m rhost=%r app=%a:user=%u:db=%d:", "%t %u@%r (%d) [%x] ")


@dataclass(frozen=True)
class Execution:
    """An execution of a statement: milliseconds of its phases; without parse and bind over the simple protocol."""

    statement: str
    execute_ms: float
    parse_ms: float | None = None
    bind_ms: float | None = None

    @property
    def phases(self) -> dict[str, float]:
        """What the server may log, in order."""
        if self.bind_ms is None:
            return {"statement": self.execute_ms}
        found = {"parse <unnamed>": self.parse_ms, "bind <unnamed>": self.bind_ms, "execute <unnamed>": self.execute_ms}
        return {name: time for name, time in found.items() if time is not None}

    def logged(self, limit_ms: float) -> dict[str, float]:
        """The phases that took at least the limit (`log_min_duration_statement`)."""
        return {name: time for name, time in self.phases.items() if time >= limit_ms}


@dataclass
class Server:
    """A server, the prefix of its log, and whether it logs an SQLSTATE and a place in its source with each message."""

    prefix: str
    verbose: bool = False
    limit_ms: float = 0.0
    lines: list[str] = field(default_factory=list)
    _now: datetime = START
    _numbers: dict[int, int] = field(default_factory=dict)

    def record(self, pid: int, severity: str, text: str, state: str = "00000") -> None:
        """Write a record, and where its message is from."""
        self._now += timedelta(milliseconds=1)
        said = f"{state}: {text}" if self.verbose else text
        self._line(pid, severity, said)
        if self.verbose:
            self._line(pid, "LOCATION", "exec_simple_query, postgres.c:1182")

    def detail(self, pid: int, severity: str, text: str) -> None:
        """Write a detail of the record before."""
        self._line(pid, severity, text)

    def _line(self, pid: int, severity: str, text: str) -> None:
        self._numbers[pid] = self._numbers.get(pid, 0) + 1
        self.lines.append(f"{self._head(pid)}{severity}:  {text.replace(chr(10), chr(10) + chr(9))}\n")

    def _head(self, pid: int) -> str:
        second = f"{self._now:%Y-%m-%d %H:%M:%S}"
        millisecond = f"{self._now.microsecond // 1000:03d}"
        values = {
            "m": f"{second}.{millisecond} UTC", "t": f"{second} UTC", "n": f"{self._now.timestamp():.3f}",
            "p": str(pid), "c": f"6553f1a0.{pid:x}", "l": str(self._numbers[pid]), "u": "app", "d": "shop",
            "r": f"10.0.0.9({40000 + pid})", "a": "a client", "x": "0", "q": "",
        }  # fmt: skip
        text = self.prefix
        for letter, value in values.items():
            text = text.replace(f"%{letter}", value)
        return text

    def executes(self, pid: int, one: Execution) -> None:
        """Write what the server logs of an execution."""
        for phase, time_ms in one.logged(self.limit_ms).items():
            self.record(pid, "LOG", f"duration: {time_ms:.3f} ms  {phase}: {one.statement}")

    def data(self) -> bytes:
        """The log."""
        return "".join(self.lines).encode()

    def statements(self, sessions: Sequence[Sequence[Execution]], *, told_apart: bool) -> list[float]:
        """The times of the statements of which something is logged, in ms, sorted.

        Args:
            sessions: the executions of each session.
            told_apart: whether records tell their session; otherwise each bind and each execution stands for itself.
        """
        found: list[float] = []
        for logged in (one.logged(self.limit_ms) for session in sessions for one in session):
            known = [time for name, time in logged.items() if not name.startswith("parse")]
            found += [sum(logged.values())] * bool(known) if told_apart else known
        return sorted(round(time, 3) for time in found)


def sessions_of(seed: int, protocols: Sequence[str]) -> list[list[Execution]]:
    """Some sessions whose executions take times of any size; no statement follows itself."""
    chance = random.Random(seed)
    return [[_execution(chance, number, protocols) for number in range(chance.randrange(1, 9))] for _ in range(3)]


def _execution(chance: random.Random, number: int, protocols: Sequence[str]) -> Execution:
    breaks = chance.choice([" ", "\n", "\n\n  "])
    statement = f"SELECT *{breaks}FROM {'abcdefg'[number % 7]}_table WHERE id = $1"
    times = [round(chance.choice([0.05, 0.5, 5.0]) * (1 + chance.random()), 3) for _ in range(3)]
    if chance.choice(protocols) == "simple":
        return Execution(statement, times[0])
    return Execution(statement, times[0], times[1] if chance.random() < 0.5 else None, times[2])


def mixed(seed: int, sessions: Sequence[Sequence[Execution]]) -> Iterator[tuple[int, Execution]]:
    """Process and execution, sessions alternating."""
    chance, places = random.Random(seed), [0] * len(sessions)
    while left := [number for number, place in enumerate(places) if place < len(sessions[number])]:
        number = chance.choice(left)
        yield 1000 + number, sessions[number][places[number]]
        places[number] += 1
