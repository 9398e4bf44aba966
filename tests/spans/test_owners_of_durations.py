"""A duration belongs to a statement only if the log proves it: recorded and generated logs with known owners."""

import itertools
import random
import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.schema import TABLES
from citus_analysis.spans import build_traces
from tests.spans.recordings import parse_log

RECORDED = Path(__file__).parents[1] / "data" / "durations"
TRUTH = pl.read_csv(RECORDED / "truth.csv", schema_overrides={"execution": pl.String})
#: Letters of a recorded log's name -> its prefix.
PREFIXES = {
    "mp": "%m [%p] ", "mpv": "%m [%p] [%v] ", "mpl": "%m [%p] [%l] ", "tp": "%t [%p] ",
    "mpvlqa": "%m [%p] [%v] : [%l-1] %q[app=%a] ",
}  # fmt: skip
IDENTITY = {"source_id": "a", "resource": "r", "run_id": None, "iteration": 1, "node": "1"}


def attributed(data: bytes, prefix: str) -> list[tuple[int, str, int]]:
    """Place and phase of each duration of a statement, and the place of the duration that closes the statement."""
    events = parse_log(data, log_line_prefix=prefix)["log_events"]
    named = events.with_columns(pl.lit(value).alias(name) for name, value in IDENTITY.items())
    spans = build_traces(TABLES["log_events"].conform(named), TABLES["nodes"].empty()).spans
    closing = spans.filter(pl.col("kind") == "statement").select(parent_span_id="span_id", closes="byte_offset")
    phases = spans.filter(pl.col("kind") == "phase").join(closing, on="parent_span_id")
    return phases.select("byte_offset", pl.col("name").cast(pl.String), "closes").rows()


@pytest.mark.parametrize("log", TRUTH["log"].unique(maintain_order=True))
def test_durations_of_recorded_logs_have_no_wrong_owner(log: str) -> None:
    owners = {place: rest for place, *rest in TRUTH.filter(log=log).drop("log").iter_rows()}
    is_on = log.split("-")[1] == "on"
    found = attributed((RECORDED / f"{log}.log").read_bytes(), PREFIXES[log.rpartition("-")[2]])
    executions = {owners[closes][2]: closes for _, _, closes in found if closes in owners}
    for place, name, closes in found:
        if place == closes or closes not in owners:
            continue
        (phase, statement, execution), (_, own_statement, own_execution) = owners[place], owners[closes]
        # Where only slow statements are logged, a duration alone does not tell its own (0).
        assert phase == name, f"byte {place}"
        assert statement == own_statement or not own_statement, f"byte {place}"
        assert name != "bind" or None in (execution, own_execution) or execution == own_execution, f"byte {place}"
    placed = {place for place, _, _ in found}
    binds = {
        place
        for place, (phase, _, execution) in owners.items()
        if phase == "bind" and execution in executions and owners[executions[execution]][0] == "execute"
    }
    assert not is_on or len(binds - placed) <= 0.02 * len(binds), (
        "what directly precedes an execution is its bind phase"
    )


@dataclass
class Settings:
    """What a server logs, as in postgresql.conf."""

    statement: str
    duration: bool
    least_ms: float
    sample_ms: float
    prefix: str


@dataclass
class Client:
    """A session of a generated log: what it executes, and to which execution each duration belongs."""

    settings: Settings
    chance: random.Random
    lines: list[str] = field(default_factory=list)
    #: Number of the line -> execution, and phase if it has a duration.
    owners: dict[int, tuple[int, str]] = field(default_factory=dict)
    _now: datetime = datetime(2026, 11, 20, 21, 0, 0, tzinfo=UTC)
    _xid: int = 1
    _execution: int = 0

    def write(self, xid: int, text: str) -> None:
        values = {
            "m": f"{self._now:%Y-%m-%d %H:%M:%S}.{self._now.microsecond // 1000:03d} UTC", "p": "100",
            "v": f"3/{xid}", "l": str(len(self.lines) + 1),
        }  # fmt: skip
        head = re.sub("%([a-z])", lambda found: values[found[1]], self.settings.prefix)
        self.lines.append(f"{head}LOG:  {text}\n")

    def message(self, phase: str, said: str, *, logged: bool, xid: int) -> None:
        """One message of a client, with the rule by which PostgreSQL logs its duration."""
        settings = self.settings
        took_ms = self.chance.choice([0.02, 0.3, 4.0, 12.0, 30.0]) * (1 + self.chance.random())
        if logged:
            self.owners[len(self.lines)] = self._execution, ""
            self.write(xid, said)
        self._now += timedelta(milliseconds=took_ms)
        sampled = 0 <= settings.sample_ms <= took_ms and self.chance.random() < 0.5
        exceeds = 0 <= settings.least_ms <= took_ms or sampled
        if exceeds or settings.duration:
            self.owners[len(self.lines)] = self._execution, phase
            text = f"  {said}" if exceeds and not logged else ""
            self.write(xid, f"duration: {took_ms:.3f} ms{text}")

    def executes(self, number: int, name: str, *, simple: bool, parsed: bool) -> None:
        """Execute a statement with a text of its own."""
        self._now += timedelta(milliseconds=self.chance.uniform(8, 40))
        self._execution, self._xid = self._execution + 1, self._xid + 1
        writes = self.chance.random() < 0.5
        text = f"INSERT INTO t{number} VALUES ($1)" if writes else f"SELECT * FROM t{number} WHERE k = $1"
        logged = self.settings.statement == "all" or (self.settings.statement == "mod" and writes)
        if simple:
            self.message("simple", f"statement: {text}", logged=logged, xid=0)
            return
        if parsed:
            self.message("parse", f"parse {name}: {text}", logged=False, xid=self._xid)
        self.message("bind", f"bind {name}: {text}", logged=False, xid=self._xid)
        self.message("execute", f"execute {name}: {text}", logged=logged, xid=self._xid)


PROTOCOLS = ("simple", "unnamed", "named", "mixed")


@pytest.mark.sharded(4)
@pytest.mark.parametrize("prefix", ["%m [%p] ", "%m [%p] [%v] [%l] "])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_durations_of_generated_logs_have_no_wrong_owner(protocol: str, prefix: str) -> None:
    for statement, duration, least_ms, sample_ms in itertools.product(
        ("none", "ddl", "mod", "all"), (False, True), (-1.0, 0.0, 10.0), (-1.0, 0.0)
    ):
        chance = random.Random(f"{statement}{duration}{least_ms}{sample_ms}{protocol}")
        client = Client(Settings(statement, duration, least_ms, sample_ms, prefix), chance)
        for number in range(12):
            kind = chance.choice(PROTOCOLS[:3]) if protocol == "mixed" else protocol
            name = f"S_{number}" if kind == "named" else "<unnamed>"
            client.executes(number, name, simple=kind == "simple", parsed=True)
        if not client.owners:
            continue
        places = dict(
            zip(itertools.accumulate(map(len, client.lines), initial=0), range(len(client.lines)), strict=False)
        )
        phases: dict[int, set[str]] = defaultdict(set)
        for place, name, closes in attributed("".join(client.lines).encode(), prefix):
            execution, phase = client.owners[places[place]]
            assert execution == client.owners[places[closes]][0], client.lines[places[place]]
            assert name == ("execute" if phase == "simple" else phase)
            phases[execution].add(phase)
        # Where each message is logged with its statement, or each statement before its duration, all are found.
        if (duration and statement == "all") or (least_ms == 0 and not duration and statement == "none"):
            everything: dict[int, set[str]] = defaultdict(set)
            for execution, phase in client.owners.values():
                everything[execution].update({phase} - {""})
            # Without %l, earlier records may be missing, so that another named statement may have been parsed.
            proven = {"bind", "execute", "simple"} | ({"parse"} if "%l" in prefix or protocol == "unnamed" else set())
            assert all(phases[one] >= everything[one] & proven for one in everything)
