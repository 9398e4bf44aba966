"""A file to be ingested, and all that is known about it before it is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from citus_analysis.dataset.digests import digest
from citus_analysis.dataset.identity import Identity
from citus_analysis.dataset.walk import FoundFile
from citus_analysis.formats import Format
from citus_analysis.formats.deliveries.delivery import PLAIN, Delivery
from citus_analysis.redaction import VERSION, redact_path
from citus_analysis.schema import list_table_columns
from citus_analysis.texts.words import make_printable

# What the output of a load generator says about itself in its first and last lines: threads, size, times.
#
# Only numbers that were set are taken from the contents, such as options on a printed command line; the names of files
# are compared with them.

#: Fact -> patterns of the lines that state it, in outputs of load generators.
_NUMBERS: Final = {
    "threads": (
        rb"^number of clients: ([0-9]{1,9})\s*$",
        rb"^Number of threads: ([0-9]{1,9})\s*$",
        rb"^Command line:.* -threads ([0-9]{1,9})\b",
        rb"^\"?threadcount\"?[ =:]+\"?([0-9]{1,9})\b",
        rb"Active Virtual Users configured.*?([0-9]{1,9})\s*$|([0-9]{1,9}) Active Virtual Users configured",
        rb"^\s*[<\"]?terminals[>\"]?[ =:\"]*([0-9]{1,9})\b",
        rb"--(?:client|threads|concurrency)=([0-9]{1,9})\b",
    ),
    # Only of tools whose runs have it as a column: what a file says of itself is left out of the set-up.
    "scale_factor": (rb"^scaling factor: ([0-9]{1,9})\s*$",),
    "records": (rb"^Command line:.* -p recordcount=([0-9]{1,18})\b", rb"^\"?recordcount\"?[ =:]+\"?([0-9]{1,18})\b"),
    "operations": (
        rb"^Command line:.* -p operationcount=([0-9]{1,18})\b",
        rb"^\"?operationcount\"?[ =:]+\"?([0-9]{1,18})\b",
    ),
}
_COMPILED: Final = {
    fact: tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns) for fact, patterns in _NUMBERS.items()
}
#: Condition -> patterns of the lines that state it, and its words in the name of a set-up.
#:
#: No column of runs has them; runs that differ in one are no repeats of each other.
_CONDITIONS: Final = {
    "connections": (
        (re.compile(rb"^tps = .*\((including reconnection) times\)", re.MULTILINE), "reconnecting"),
        (re.compile(rb"^tps = .*\((without initial connection) time\)", re.MULTILINE), ""),
    ),
    "duration": (
        (re.compile(rb"^duration: ([0-9]{1,9}) s\s*$", re.MULTILINE), "{}s"),
        (re.compile(rb"^    total time: +([0-9]{1,7}[05])\.0[0-9]{3}s\s*$", re.MULTILINE), "{}s"),
        (re.compile(rb"-p maxexecutiontime=([0-9]{1,9})\b"), "{}s"),
    ),
    "transactions": ((re.compile(rb"^number of transactions per client: ([0-9]{1,12})\s*$", re.MULTILINE), "{}tx"),),
    "jobs": ((re.compile(rb"^number of clients: .*\nnumber of threads: ([0-9]{1,9})\s*$", re.MULTILINE), "j{}"),),
    "script": ((re.compile(rb"^transaction type: (\S[^\n]{0,199}?)\s*$", re.MULTILINE), "{}"),),
    "query mode": ((re.compile(rb"^query mode: (\w{1,20})\s*$", re.MULTILINE), "{}"),),
    "statements": (
        (re.compile(rb"^ +read: +(?!0\b)[0-9]+\s*\n +write: +(0)\s*$", re.MULTILINE), "reads"),
        (re.compile(rb"^ +read: +(0)\s*\n +write: +(?!0\b)[0-9]+\s*$", re.MULTILINE), "writes"),
        (re.compile(rb"^ +read: +(?!0\b)[0-9]+\s*\n +write: +((?!0\b)[0-9])", re.MULTILINE), "mixed"),
    ),
    "file": ((re.compile(rb"^Command line:.* -P (?:\S*/)?(\S{1,80})", re.MULTILINE), "{}"),),
    **{
        name: ((re.compile(rb"^Command line:.* -p " + name.encode() + rb"=(\S{1,40})", re.MULTILINE), name + "={}"),)
        for name in (
            *("requestdistribution", "fieldcount", "fieldlength", "readproportion", "updateproportion"),
            *("insertproportion", "scanproportion", "readmodifywriteproportion", "jdbc.batchsize", "insertorder"),
        )
    },
}
#: Lines that state the throughput, of whatever unit: only outputs of one tool are compared.
_RATES: Final = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rb"^tps = ([0-9]{1,12}(?:\.[0-9]{1,12})?) \((?:without|excluding|including reconn)",
        rb"^ +transactions: +[0-9]+ +\(([0-9.]{1,20}) per sec",
        rb"^\[OVERALL\], Throughput\(ops/sec\), ([0-9]{1,12}(?:\.[0-9]{1,12})?)",
        rb"System achieved ([0-9]{1,12}) NOPM",
        rb"\"Throughput \(requests/second\)\": ([0-9]{1,12}(?:\.[0-9]{1,12})?)",
        rb"tpmC: ([0-9]{1,12}(?:\.[0-9]{1,12})?)",
    )
)
#: Lines that state a rate that was to be reached.
_TARGETS: Final = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (rb"^Command line:.* -target ([0-9]{1,12})\b", rb"^Target transaction rate: ([0-9]{1,12})/sec")
)
_COUNT_DONE: Final = re.compile(rb"^number of transactions actually processed: ([0-9]{1,15})", re.MULTILINE)
#: Lines that state how long a load generator ran, and the seconds of one unit.
_RUN_TIMES: Final = (
    (re.compile(rb"^\[OVERALL\], RunTime\(ms\), ([0-9]{1,15})", re.MULTILINE), 0.001),
    (re.compile(rb"^    total time: +([0-9]{1,9}\.[0-9]{1,6})s", re.MULTILINE), 1.0),
)
_WORKLOAD: Final = re.compile(rb"^Command line:.* -P \S*?workload_?([a-fA-F])\b", re.MULTILINE)
_PHASE: Final = re.compile(rb"^Command line:.* (-load|-t)(?= |$)", re.MULTILINE)
_STAMP: Final = re.compile(
    rb"(?<![0-9])(20[0-9]{2}-[01][0-9]-[0-3][0-9])[T ]([0-2][0-9]:[0-5][0-9]:[0-5][0-9])(?:[.,:]([0-9]{1,6}))?"
)


@dataclass(frozen=True)
class OwnFacts:
    """Facts in the contents of a file; None where it does not state them.

    Attributes:
        threads: of this load generator alone.
        scale_factor: size of the tables.
        records: rows in the table.
        operations: operations that this load generator was to do.
        workload: letter of one of YCSB's core workloads.
        phase: `load` or `run`.
        begin: first time in the text, in seconds; of no time zone.
        end: last time in the text.
        conditions: name and words of what else was set, such as a connection for each transaction.
        rate: throughput, in the tool's unit.
        target: operations a second that were to be reached.
        duration_s: how long it ran, as set or as measured.
    """

    threads: int | None = None
    scale_factor: int | None = None
    records: int | None = None
    operations: int | None = None
    workload: str | None = None
    phase: str | None = None
    begin: float | None = None
    end: float | None = None
    conditions: tuple[tuple[str, str], ...] = ()
    rate: float | None = None
    target: int | None = None
    duration_s: float | None = None

    def overlaps(self, other: OwnFacts) -> bool:
        """Whether both ran at the same time for at least half of the shorter one's time; False if it is not known."""
        if self.begin is None or self.end is None or other.begin is None or other.end is None:
            return False
        common = min(self.end, other.end) - max(self.begin, other.begin)
        shorter = min(self.end - self.begin, other.end - other.begin)
        return common > 0 and common >= shorter / 2


#: Of a file that says nothing of itself.
UNKNOWN: Final = OwnFacts()


def own_facts(head: bytes, tail: bytes, stamped: bytes | None = None) -> OwnFacts:
    r"""Facts in the first and the last bytes of a file.

    Args:
        head: the first bytes of its text.
        tail: the last bytes.
        stamped: the first bytes as they are in the file, where each line has a time that is no part of the text.

    Example:
        >>> own_facts(b"Command line: -t -P workloads/workloadc -threads 16 -s\n", b"").workload
        'C'
    """
    numbers = {fact: _find_first_number(patterns, head + b"\n" + tail) for fact, patterns in _COMPILED.items()}
    workload, phase = _WORKLOAD.search(head), _PHASE.search(head)
    begin, end = _time(_STAMP.search(stamped or head)), _time(next(iter([*_STAMP.finditer(tail or head)][-1:]), None))
    text = head if head == tail else head + b"\n" + tail
    rate = next((float(found[1]) for pattern in _RATES if (found := pattern.search(text))), None)
    conditions = tuple(_find_conditions(text, known_workload=workload is not None))
    return OwnFacts(
        **numbers,
        conditions=conditions,
        rate=rate,
        target=_find_first_number(_TARGETS, text),
        duration_s=_find_duration(text, dict(conditions), rate),
        workload=workload[1].decode().upper() if workload else None,
        phase={b"-load": "load", b"-t": "run"}[phase[1]] if phase else None,
        begin=begin,
        end=end if begin is not None and end is not None and end > begin else None,
    )


def _find_conditions(text: bytes, *, known_workload: bool) -> Iterator[tuple[str, str]]:
    for name, patterns in _CONDITIONS.items():
        if name == "file" and known_workload:
            continue
        for pattern, words in patterns:
            if found := pattern.search(text):
                yield name, make_printable(words.format(found[1].decode("utf-8", "replace")))
                break


def _find_duration(text: bytes, conditions: Mapping[str, str], rate: float | None) -> float | None:
    if stated := conditions.get("duration"):
        return float(stated.removesuffix("s"))
    for pattern, seconds in _RUN_TIMES:
        if found := pattern.search(text):
            return float(found[1]) * seconds
    done = _COUNT_DONE.search(text)
    return int(done[1]) / rate if done and rate else None


def _find_first_number(patterns: tuple[re.Pattern[bytes], ...], text: bytes) -> int | None:
    found = next(filter(None, (pattern.search(text) for pattern in patterns)), None)
    return None if found is None else int(next(filter(None, found.groups())))


def _time(match: re.Match[bytes] | None) -> float | None:
    if match is None:
        return None
    day, time, fraction = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day.decode()} {time.decode()}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp() + (float(b"0." + fraction) if fraction else 0.0)


#: Formats of these tables read the output of load generators.
_CLIENT_TABLES: Final = frozenset({"clients", "client_latencies"})


@dataclass(frozen=True, kw_only=True)
class SourceFile(FoundFile):
    """A file that a walk found, or one of several sources in it, its identity and its format.

    `Identifier.identify` fills the first four attributes, `recognise` the hash, the delivery, the format, the problem
    and the cuts, `name_sources` the name and `find_duplicates` the file that it repeats.

    Attributes:
        identity: its run, resource, node, ...
        key: its path within the resource; resource and key determine its `source_id`.
        stated_options: values of options of formats, whether its own format declares them or not.
        configured: names of the options among them that only a `config.yml` states.
        stated: facts and options that the user stated for all files, as texts, and `format` if that was stated.
        states_facts: it holds facts about other files (`runs.csv`, `identity.yml`, ...).
        hash: of the bytes on disk; empty where they cannot be read.
        delivery: how its text stands in the file.
        format: its format; None if no format recognises it.
        forced: the user stated the format.
        problem: reason why it cannot be read.
        unread_reason: a likely reason why no format recognises it.
        source_id: stable name, from the resource and the path within it.
        own: what the output of a load generator says of itself, where its name does not state its run.
        fingerprint: hash of the beginning of a measurement whose run nobody states; empty for others.
        same_as: path of another file that contributed the same content.
        cuts: where splits of it begin that can be read by themselves, without the first; empty if it is not cut.
    """

    identity: Identity
    key: str
    stated_options: Mapping[str, str]
    configured: frozenset[str] = frozenset()
    stated: Mapping[str, str] = field(default_factory=dict)
    states_facts: bool = False
    hash: str = ""
    delivery: Delivery = PLAIN
    format: Format | None = None
    forced: bool = False
    problem: str | None = None
    unread_reason: str = ""
    source_id: str = ""
    own: OwnFacts = UNKNOWN
    fingerprint: str = ""
    same_as: str | None = None
    cuts: tuple[int, ...] = ()

    @cached_property
    def relative(self) -> str:
        """Path below the SRC, printable, redacted; with the number or name of one of several sources in a file."""
        return self._with_part(super().relative)

    @cached_property
    def location(self) -> str:
        """Absolute path or URL, with the number or name of one of several sources in a file."""
        return self._with_part(super().location)

    def _with_part(self, path: str) -> str:
        return f"{path}#{make_printable(redact_path(self.delivery.name))}" if self.delivery.is_part else path

    @property
    def is_unrecognised(self) -> bool:
        """Whether no format recognises the file and it states no facts about others."""
        return self.format is None and not self.problem and not self.states_facts

    @property
    def is_client(self) -> bool:
        """Whether a load generator wrote the file."""
        return self.format is not None and not _CLIENT_TABLES.isdisjoint(self.format.tables)

    @property
    def options(self) -> dict[str, str]:
        """The values of the options that this file's format declares."""
        if self.format is None:
            return {}
        stated = dict(self.stated_options)
        server_timezone = stated.pop("log_timezone", None)
        if server_timezone and "log_events" in self.format.tables:
            stated.setdefault("timezone", server_timezone)
        return {option.name: stated[option.name] for option in self.format.options if option.name in stated}

    def state_key(self, assignment: object) -> str:
        """Hash over everything that the file's rows depend on."""
        columns = list_table_columns(self.format.tables if self.format else ())
        parser = (self.format.name, self.format.version) if self.format else None
        facts = (self.hash, parser, VERSION, columns, self.options, self.identity.to_dict(), self.same_as, self.problem)
        delivered = (self.delivery.stored(),) if self.delivery != PLAIN else ()
        return digest((facts, assignment, *delivered), size=16)
