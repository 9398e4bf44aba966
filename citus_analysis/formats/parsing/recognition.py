"""The sources in a file: how the text of each stands in it, and the format that reads the text.

A format that knows a file as it is wins. Otherwise the file's delivery is undone as far as the text of some format
appears: first exports of log services, then decorated lines, one inside the other where need be. The text of each host
or container is then divided into the outputs of tools in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import PurePosixPath
from typing import Final

import numpy as np

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import HEAD_BYTES, Content
from citus_analysis.formats.deliveries.delivery import Delivery
from citus_analysis.formats.deliveries.line_prefixes import ANSI, LinePrefix, find_line_prefix
from citus_analysis.formats.deliveries.log_services import find_exports
from citus_analysis.formats.deliveries.placed_lines import (
    STAMP_PATTERN,
    Knows,
    OutOfOrderError,
    PlacedLines,
    Step,
    time_of_stamp,
)
from citus_analysis.formats.parsing.format import Format, PrefixedFormat
from citus_analysis.formats.parsing.outputs import (
    MOST_BYTES,
    ToolOutput,
    find_outputs,
    find_start_markers,
    list_start_markers,
    parse_pieces,
)
from citus_analysis.formats.parsing.registry import find_best_format, find_closest_format, format_named
from citus_analysis.formats.parsing.transcripts import measure_shell_prefix, split_end
from citus_analysis.redaction import redact

# The time that a delivery gave to the last line of a source: tools that print no times ended then.

_STAMP: Final = re.compile(STAMP_PATTERN.encode())
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_of_last_line(content: Content, delivery: Delivery) -> datetime | None:
    """The time of the last line of a source that is no transcript; None if its delivery gives lines no time.

    Args:
        content: the file.
        delivery: of a source in it.

    Raises:
        InputError: the file cannot be read.
    """
    stamped = any(not isinstance(step, LinePrefix) or "(?P<stamp>" in step.pattern for step in delivery.steps)
    last = _find_last_line(content, delivery) if stamped else None
    if last is None:
        return None
    text, row = last
    if text.times is not None:
        return _EPOCH + timedelta(microseconds=int(text.times[row])) if text.times[row] >= 0 else None
    with closing(content.open()) as stream:
        stream.seek(int(text.begins[row]))
        found = _STAMP.search(stream.read(int(text.ends[row] - text.begins[row])))
    return None if found is None else time_of_stamp(found[0].decode())


def _find_last_line(content: Content, delivery: Delivery) -> tuple[PlacedLines, int] | None:
    offset, last = 0, None
    _, begin, end, _ = delivery.bounds
    for text in delivery.lines(content):
        starts = offset + text.starts
        offset += len(text.data)
        filled = (starts[:-1] >= begin) & (starts[1:] <= end) & (np.diff(starts) > 1)
        rows = np.flatnonzero(filled)
        last = (text, int(rows[-1])) if len(rows) else last
    return last


#: A format that is this sure of a text reads it as it is.
_CERTAIN: Final = 0.9
_UNCERTAIN: Final = 0.6
#: A further line of a record as rsyslog stores it.
_ESCAPED: Final = b"\n #011"
#: The beginning of a record whose prefix has a time.
_TIMED: Final = re.compile(rb"[^\n]{0,40}?(?:" + STAMP_PATTERN.encode() + rb")")
#: A cell of several lines in psql's aligned output: the rule below the heading, and lines that end with a plus.
_CELL: Final = re.compile(rb"\A[^\n]*\n-{3,}\r?\n(?:[^\n]*\n){0,50}? [^\n]*\+\r?\n")
_PLAN_HEADING: Final = re.compile(rb"[\s|]*QUERY PLAN[\s|]*\n")
_SERVER_LOG: Final = "pglog"
#: What tail prints before the lines of each of several files.
_HEADING: Final = re.compile(rb"(?m)^==> (\S[^\n]*) <==\r?\n")
_SEVERAL: Final = 2
#: Formats of these tables describe the system, not a run.
_DESCRIBING: Final = frozenset({"settings", "nodes", "shards"})
#: What tools print, of which a text that somebody delivered has at least one in its first lines. A text without any is
#: not taken apart, which would take as long as reading a large file. Searches for fixed bytes take microseconds.
_SIGNS: Final = (
    # Server logs as csvlog and jsonlog; severities of others are searched for as they stand before two blanks.
    *(b",%b," % word for word in (b"LOG", b"ERROR", b"FATAL", b"WARNING", b"PANIC", b"NOTICE", b"INFO")),
    *(b'"%b"' % word for word in (b"LOG", b"FATAL", b"PANIC")),
    *(b"error_severity", b"duration: ", b" stats: ", b"C-0x", b"S-0x"),
    # Load generators.
    *(b"pgbench (", b"sysbench 1.", b"go-tpc", b"[Current]", b"[Summary]", b"tpmTotal", b"dstat"),
    *(b"transaction type: ", b"number of clients: ", b"tps = ", b"latency average = ", b"latency average: "),
    *(b"SQL statistics", b"Threads started", b"YCSB Client", b"[OVERALL]", b"ops/sec", b"- Takes(s): "),
    *(b"tpmC", b"NOPM", b"Vuser ", b"bexhoma version", b"Goodput", b"HammerDB", b"HAMMERDB"),
    *(b"[Histogram", b"Percentile", b"StartTimestamp", b"cluster_size"),
    # Samplers.
    *(b"avg-cpu", b"Device", b"%idle", b"%usr", b"%user", b"%CPU", b"swpd", b"await", b"avg10=", b"-total-"),
    *(b"kB_rd/s", b"cswch/s", b"minflt/s", b"fd-nr", b"kbmemfree", b"proc/s", b"runq-sz", b"pgpgin", b"rxpck/s"),
    *(b"pswpin/s", b"bread/s", b"_x86_64_", b"_aarch64_", b"sysstat"),
    *(b"Overhead", b"cpu-clock", b"task-clock", b"cycles", b"Performance counter", b"counter-value"),
    # PostgreSQL's plans and views.
    *(b"QUERY PLAN", b"(cost=", b"(actual ", b"Node Type", b"Node-Type", b"relname", b"datname", b"wait_event"),
    *(b"queryid", b"usename", b"total_requests", b"cl_active", b"sv_active", b"total_xact_count"),
    # Archives in texts.
    b"H4sI",
)
_OWN_PACKAGE: Final = "citus_analysis."
#: Most lines of a log of transactions are numbers.
_NUMBERS: Final = re.compile(rb"(?m)[0-9]+(?: [0-9]+){5,}\s*$")
#: The header of a table of results.
_RATES: Final = re.compile(rb"(?i)\b(?:tps|qps|throughput|ops_?s|\w*_per_s(?:ec)?)\b")
_SEPARATED: Final = re.compile(rb"[^{}()=:]{0,400}[,;\t|][^{}()=:]{0,400}")
_FIRST_LINES: Final = 5
_COLOURS: Final = re.compile(ANSI.encode())
_FIRST_BYTES: Final = 2048
#: Bytes at the begin and at the end of what was read in which signatures are searched for.
_SEARCHED_BYTES: Final = 16 * 2**10


@cache
def _list_signs() -> tuple[bytes, ...]:
    """What shows that a text is of a tool; of formats that others added, what begins an output."""
    added = (
        marker.begins
        for marker, owners in list_start_markers().items()
        if not any(type(one).__module__.startswith(_OWN_PACKAGE) for one in owners)
    )
    return tuple(dict.fromkeys((*_SIGNS, *added)))


def _find_sign(text: bytes) -> int:
    """Where a text first has a sign of a tool or a server; -1 if nowhere, so that no format knows any part of it."""
    if b"\x1b[" in text:
        text = _COLOURS.sub(b"", text)
    first = text[:_FIRST_BYTES]
    heads = first.split(b"\n", _FIRST_LINES)[:_FIRST_LINES]
    if _NUMBERS.search(first) or any(_SEPARATED.fullmatch(line) and _RATES.search(line) for line in heads):
        return 0
    # A text in which another encoding is hidden has zero bytes between the letters.
    bare = text.replace(b"\0", b"") if b"\0" in text else text
    if len(bare) > 2 * _SEARCHED_BYTES and (place := _find_sign(bare[:_SEARCHED_BYTES])) >= 0:
        return place
    if len(bare) > 2 * _SEARCHED_BYTES:
        # What is delivered shows it again at the end of what was read.
        place = _find_sign(bare[-_SEARCHED_BYTES:])
        return place + len(bare) - _SEARCHED_BYTES if place >= 0 else -1
    places = [place for sign in _list_signs() if (place := bare.find(sign)) >= 0]
    if (severity := format_named(_SERVER_LOG).find_sign(bare)) >= 0:
        places.append(severity)
    return min(places, default=-1)


#: Of a long file that no format knows, so much is searched for outputs at its begin, in its middle and at its end.
_WINDOW_BYTES: Final = 2**20
#: Formats of these tables read the output of load generators.
_CLIENT_TABLES: Final = frozenset({"clients", "client_latencies"})


@dataclass(frozen=True)
class Recognised:
    """A source in a file.

    Attributes:
        format: the format of its text; None if no format knows it.
        delivery: how the text stands in the file.
        ended: time of the last line of a load generator's output, if its delivery stamps lines.
        problem: reason why it cannot be read.
    """

    format: Format | None
    delivery: Delivery = field(default_factory=Delivery)
    ended: datetime | None = None
    problem: str | None = None


def recognise_sources(
    content: Content, forced: Format | None = None, log_line_prefix: str | None = None
) -> list[Recognised]:
    """The sources in a file; at least one, without a format if none knows the text.

    Args:
        content: the file.
        forced: read all of them as this format; only their delivery is recognised.
        log_line_prefix: the stated one: a text that it explains is a server's log, whatever its lines begin with.

    Raises:
        InputError: the file cannot be read.
    """
    delivery = Delivery(encoding=content.encoding)
    text = _Text(content, forced, log_line_prefix)
    head = text.head(delivery)
    described = None if forced is None else find_best_format(content.path.name, head)[0]
    if described is not None and not _DESCRIBING.isdisjoint(described.tables):
        # Files that describe other files keep their meaning even if a format is forced.
        return [Recognised(described, delivery)]
    format_, confidence = text.best(head)
    steps = text.steps(head, certain=confidence >= _CERTAIN)
    if not steps:
        return text.outputs(forced or format_, delivery)
    undone = replace(delivery, steps=steps)
    if (log := text.ordered_log(undone)) is not None:
        return [log]
    delivered = _list_named_deliveries(content, undone)
    sources = [source for own in delivered for source in text.outputs(forced or text.best(text.head(own))[0], own)]
    # Names may also be something else, such as words of a table.
    return sources if any(source.format for source in sources) else [Recognised(None, delivery)]


@dataclass(frozen=True)
class _Text:
    """Recognises the text of one file."""

    content: Content
    forced: Format | None
    log_line_prefix: str | None = None

    def head(self, delivery: Delivery) -> bytes:
        return delivery.head(self.content, HEAD_BYTES) if delivery.is_undone else self.content.head

    def best(self, head: bytes) -> tuple[Format | None, float]:
        """The format of a text after a shell's lines, and its confidence: certain if its lines are the tool's own."""
        name, of, text = self.content.path.name, self.forced, head[measure_shell_prefix(head) :]
        if _CELL.match(text) and not _PLAN_HEADING.match(text):
            # Padded and marked at the ends of its lines: not the text that was read.
            return None, 0.0
        if self.log_line_prefix is not None and of is None and self._is_stated_log(text):
            return format_named(_SERVER_LOG), _CERTAIN
        of, confidence = find_best_format(name, text) if of is None else (of, of.detect(name, text))
        if of is None or confidence < _CERTAIN:
            return of, confidence
        if of.name == _SERVER_LOG:
            # The server begins each further line of a record with a tab.
            begun = b"\n\t" in text or not (b"\t" in text or _ESCAPED in text)
        else:
            begun = not of.start_markers or any(mark.format is of for mark in find_start_markers(text))
        return of, confidence if begun else _UNCERTAIN

    def _is_stated_log(self, text: bytes) -> bool:
        """Whether the stated prefix explains a text."""
        log = format_named(_SERVER_LOG)
        return isinstance(log, PrefixedFormat) and log.is_explained(text, self.log_line_prefix or "")

    def steps(self, head: bytes, *, certain: bool) -> tuple[Step, ...]:
        """The steps after which a format knows the text; empty if there are none.

        Args:
            head: the beginning of the text.
            certain: a format knows the text as it is.
        """
        if certain:
            known = find_line_prefix(head, self._plain, only_known=True)
            return () if known is None else (known,)
        if self._needs_sign and _find_sign(head) < 0:
            return ()
        finders = (
            (find_exports, self._recognise_after_prefix, self._find_line_prefix),
            (self._find_line_prefix, self._recognise_export, find_exports),
        )
        for outer, knows, inner in finders:
            step = outer(head, knows)
            if step is not None:
                text = step.undone_head(head)
                within = None if self._plain(text) >= _CERTAIN else inner(text, self._plain)
                return (step,) if within is None else (step, within)
        return ()

    def _find_line_prefix(self, text: bytes, knows: Knows) -> LinePrefix | None:
        return find_line_prefix(text, knows, self._whole)

    @property
    def _needs_sign(self) -> bool:
        return self.log_line_prefix is None and self.forced is None

    def _plain(self, text: bytes) -> float:
        return 0.0 if self._needs_sign and _find_sign(text) < 0 else self.best(text)[1]

    def _recognise_after_prefix(self, text: bytes) -> float:
        if self._needs_sign and _find_sign(text) < 0:
            return 0.0
        confidence = self._plain(text)
        decorated = confidence < _CERTAIN and self._find_line_prefix(text, self._plain)
        return _CERTAIN if decorated else confidence

    def _whole(self, text: bytes) -> float:
        """Confidence in a text from which nothing was taken but a decoration: records have their times."""
        of, confidence = self.best(text)
        if of is None or of.name != _SERVER_LOG or b"\n\t" in text or _TIMED.match(text):
            return max(confidence, self._recognise_export(text))
        return 0.0

    def _recognise_export(self, text: bytes) -> float:
        confidence = self._plain(text)
        return _CERTAIN if confidence < _CERTAIN and find_exports(text, self._plain) else confidence

    def outputs(self, of: Format | None, delivery: Delivery) -> list[Recognised]:
        """The sources in a text: one for each output of a tool, or the text as a whole."""
        whole = Recognised(of, delivery)
        if of is not None and "log_events" in of.tables and (logs := self._headed_logs(of, delivery)):
            return logs
        if of is not None and not of.start_markers:
            return [self._add_times(replace(whole, delivery=self._without_shell(delivery)))]
        if self.forced is not None:
            return [self._add_times(whole)]
        if of is None and not delivery.is_undone and not self._shows_outputs():
            return [self._add_times(whole)]
        text = delivery.head(self.content, MOST_BYTES + 1)
        if len(text) > MOST_BYTES or (of is None and b"\0" in text):
            return [self._add_times(whole)]
        try:
            found = find_outputs(text, lambda head: self.best(head)[0])
        except FormatError as error:
            return [replace(whole, problem=f"{error.problem} ({error.hint})")]
        if not found or (len(found) == 1 and not found[0].transcript_bytes and not found[0].transcript_after_bytes):
            return [self._add_times(whole)]
        return [
            self._add_times(
                Recognised(format_named(one.format_name), _make_output_delivery(delivery, one, number, len(found)))
            )
            for number, one in enumerate(found, 1)
        ]

    def _shows_outputs(self) -> bool:
        """Whether head, middle or tail of a long file that no format knows have a start marker; short ones may."""
        content = self.content
        size = content.path.stat().st_size if content.compression == "none" else 0
        if size <= 3 * _WINDOW_BYTES:
            return True
        with content.path.open("rb") as file:
            for offset in (0, (size - _WINDOW_BYTES) // 2, size - _WINDOW_BYTES):
                file.seek(offset)
                if find_start_markers(file.read(_WINDOW_BYTES)):
                    return True
        return False

    def _headed_logs(self, of: Format, delivery: Delivery) -> list[Recognised]:
        """The logs in a text that tail printed, which puts the name of each file before its lines; none in others."""
        if not _HEADING.match(self.head(delivery)):
            return []
        text = delivery.head(self.content, MOST_BYTES + 1)
        found = list(_HEADING.finditer(text))
        names = [one[1].decode("utf-8", "replace") for one in found]
        if len(set(names)) < _SEVERAL:
            return []
        if len(text) > MOST_BYTES:
            problem = "holds the logs of several files, and more than 64 MiB"
            return [Recognised(of, delivery, problem=f"{problem} (give each file by itself)")]
        stems = [PurePosixPath(name).stem for name in names]
        # Names of folders distinguish files of the same name.
        whole = len(set(stems)) < len(set(names))
        nodes = [
            "-".join(PurePosixPath(name).with_suffix("").parts[-2:]) if whole else PurePosixPath(name).stem
            for name in names
        ]
        return [
            self._add_times(
                replace(
                    Recognised(of, delivery),
                    delivery=replace(
                        delivery,
                        begin=one.start(),
                        end=found[number].start() if number < len(found) else len(text),
                        before=one.end() - one.start(),
                        name=node if nodes.count(node) == 1 else f"{node}#{number}",
                        node=node,
                    ),
                )
            )
            for number, (one, node) in enumerate(zip(found, nodes, strict=True), 1)
        ]

    def ordered_log(self, delivery: Delivery) -> Recognised | None:
        """A server's log whose lines name no hosts or containers, and are believed to be in order; None of others.

        Before others are read, all of the file is looked through. Here that would take as long as reading it does.
        """
        if len(delivery.steps) != 1 or delivery.steps[0].is_named:
            return None
        own = replace(delivery, steps=(delivery.steps[0].believe(ordered=True),))
        try:
            head = self.head(own)
        except OutOfOrderError:
            return None
        of = self.forced or self.best(head)[0]
        if of is None or of.name != _SERVER_LOG or measure_shell_prefix(head):
            return None
        return self._add_times(Recognised(of, own))

    def _without_shell(self, delivery: Delivery) -> Delivery:
        """The delivery without the lines of a shell before and after the text."""
        before = measure_shell_prefix(self.head(delivery))
        text = delivery.head(self.content, MOST_BYTES + 1) if before else b""
        if not before or len(text) > MOST_BYTES:
            return replace(delivery, before=before)
        return replace(delivery, before=before, end=len(text), after=len(text) - split_end(text, lambda _: False))

    def _add_times(self, source: Recognised) -> Recognised:
        """The source with what the stamps of its lines say, where its text says nothing."""
        if source.format is None or not source.delivery.steps:
            return source
        if "log_events" in source.format.tables and self._lacks_times(source.format, source.delivery):
            steps = (
                replace(step, timed=True) if isinstance(step, LinePrefix) else step for step in source.delivery.steps
            )
            return replace(source, delivery=replace(source.delivery, steps=tuple(steps)))
        if _CLIENT_TABLES.isdisjoint(source.format.tables):
            return source
        return replace(source, ended=time_of_last_line(self.content, source.delivery))

    def _lacks_times(self, of: Format, delivery: Delivery) -> bool:
        """Whether the first records of a server's log have no times."""
        pieces = parse_pieces(of, self.head(delivery), self.content.path.name) or []
        times = [piece.tables["log_events"].column("log_time") for piece in pieces if "log_events" in piece.tables]
        return any(time.null_count for time in times)


def _make_output_delivery(delivery: Delivery, one: ToolOutput, number: int, count: int) -> Delivery:
    """The delivery of one output in a text."""
    name = delivery.name
    if count > 1:
        name = f"{name}#{number}" if name else str(number)
    return replace(
        delivery,
        begin=one.begin,
        end=one.end,
        before=one.transcript_bytes,
        after=one.transcript_after_bytes,
        name=name,
        preceding_text=one.preceding_text,
    )


def _list_named_deliveries(content: Content, delivery: Delivery) -> Iterator[Delivery]:
    """A delivery for each host or container in a file."""
    found = [delivery]
    for place in range(len(delivery.steps)):
        found = [view for one in found for view in one.views(content, place)]
    several = len(found) > 1
    for one in found:
        names = [step.only for step in one.steps if step.only]
        nodes = [step.of_node for step in one.steps if step.of_node]
        yield replace(one, name="/".join(names) if several else "", node=nodes[0] if nodes else None)


# What a file that no format knows comes nearest to, and the line where the likeness ends.

_SHOWN: Final = 80
#: The longest text before a line of a tool, and the lines that are looked at.
_DECORATED: Final = 200
_MOST_LINES: Final = 400
#: Lines of a server's log have one of these after its prefix.
_SEVERITY: Final = re.compile(rb"\b(?:LOG|ERROR|FATAL|WARNING|STATEMENT|DETAIL):\s")
_FEW: Final = 2


def describe_closest_format(name: str, head: bytes) -> str:
    """The nearest reading of a text in words.

    Args:
        name: file name without folders.
        head: the first bytes of the text.
    """
    lines = head.splitlines()
    readings = (
        _describe_psql_cell(lines),
        _describe_experiment_log(head),
        _describe_start_marker(lines),
        _describe_server_log(lines),
        _describe_weak_match(name, head),
        _describe_table_head(lines),
    )
    first = next((line for line in lines if line.strip()), b"")
    return next(filter(None, readings), f"no format knows such text; it begins with {_quote_line(first)}")


def _describe_psql_cell(lines: Sequence[bytes]) -> str | None:
    """A text in a cell of psql's aligned output."""
    ruled = len(lines) > _FEW and set(lines[1].strip()) == {ord("-")}
    if not ruled or not any(line.startswith(b" ") and line.rstrip().endswith(b"+") for line in lines):
        return None
    return "is a text in a table that psql aligned; write it out with psql -At"


def _describe_experiment_log(head: bytes) -> str | None:
    """The log of an experiment manager, which has tables of results instead of the outputs of the tools."""
    if b"bexhoma version" not in head:
        return None
    return (
        "is of an experiment of bexhoma, without a table of its runs (a load, or TPC-H before version 0.9); "
        "give the logs of its pods, or a table as CSV"
    )


def _describe_start_marker(lines: Sequence[bytes]) -> str | None:
    """A line of a tool, and what stands before it."""
    begins = b"|".join(re.escape(marker.begins) for marker in list_start_markers() if len(marker.begins) > _FEW)
    anywhere = re.compile(rb"(?:^|(?<=[ |:>\t]))(?:" + begins + rb")")
    for number, line in enumerate(lines[:_MOST_LINES]):
        found = anywhere.search(line[: 2 * _DECORATED])
        own = next(
            (marker for marker in list_start_markers() if found and marker.pattern.match(line, found.start())), None
        )
        if found is None or own is None or found.start() > _DECORATED:
            continue
        tool, before = list_start_markers()[own][0].name, line[: found.start()]
        place = f"line {number + 1}: {_quote_line(line)}"
        if not before.strip():
            return f"looks like {tool} ({place}), but its results are not there"
        other = next((at for at, one in enumerate(lines) if one.strip() and not one.startswith(before.rstrip())), None)
        ends = "" if other is None else f", but line {other + 1} does not begin so"
        return f"looks like {tool} after {_quote_line(before)} ({place}){ends}"
    return None


def _describe_server_log(lines: Sequence[bytes]) -> str | None:
    for number, line in enumerate(lines, 1):
        if _SEVERITY.search(line[: 2 * _DECORATED]):
            return (
                f"looks like a server's log (line {number}: {_quote_line(line)}), but no log_line_prefix explains its "
                "lines; state it: --meta log_line_prefix='...'"
            )
    return None


def _describe_table_head(lines: Sequence[bytes]) -> str | None:
    """The names of the columns of a table, without a row below them."""
    filled = [line.strip() for line in lines if line.strip() and not line.startswith(b"#")]
    words = re.split(rb"[,;\t|]", filled[0]) if len(filled) == 1 else []
    if len(words) > 1 and all(re.fullmatch(rb'\s*"?[A-Za-z_][\w %()/.-]*"?\s*', word) for word in words):
        return f"is the header of a table ({_quote_line(filled[0])}) without any row"
    return None


def _describe_weak_match(name: str, head: bytes) -> str | None:
    closest = find_closest_format(name, head)
    return None if closest is None else f"has some resemblance to {closest.name}, not enough to read it"


def _quote_line(line: bytes) -> str:
    text = redact(line[: 2 * _SHOWN].decode("utf-8", "replace"))
    return repr(text[:_SHOWN] + ("..." if len(text) > _SHOWN else ""))
