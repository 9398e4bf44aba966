r"""`log_line_prefix` compiled from its string.

A prefix is a sequence of :class:`Element`: literal bytes and escapes. Each element has a small pattern; joined, and
followed by the severity word, they match the beginning of a record. Every escape of PostgreSQL 12 to 18 is
supported, with padding (``%-10u``), and ``%q``: the elements after it are absent in lines of background processes.

Example:
    >>> prefix = compile_prefix("%m [%p] %q%u@%d ")
    >>> [element.escape or element.literal for element in prefix.elements]
    ['m', b' [', 'p', b'] ', 'u', b'@', 'd', b' ']
    >>> prefix.optional_from
    4
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias
from zoneinfo import ZoneInfo

import pyarrow as pa

from citus_analysis.core.table_definition import TIME
from citus_analysis.errors import UsageError
from citus_analysis.formats.parsing.time_zones import LocalTime, is_offset, parse_zone_minutes
from citus_analysis.schema import SEVERITIES

if TYPE_CHECKING:
    import polars as pl

#: The prefix of the study; the space between `[%p]` and `[%v]` is absent in older extracts.
STUDY_PREFIX: Final = "%m [%p] [%v] : [%l-1] %q[app=%a] "
OLDER_STUDY_PREFIX: Final = "%m [%p][%v] : [%l-1] %q[app=%a] "

#: Prefix and severity must be within this many bytes of a line.
HEAD_LIMIT: Final = 1000

#: A chunk of syslog ends about this many bytes before the end of the block, because its messages may continue after it.
HELD_BACK: Final = 32 * 2**10

#: Limit of elements of the compiled scanner, syslog's header included.
MAX_ELEMENTS: Final = 64

#: Words as the server prints them; DEBUG is followed by a digit.
SEVERITY_WORDS: Final = SEVERITIES

#: `backend_type`, as `%b` prints it, of PostgreSQL 13 to 19; background workers of extensions have others.
BACKEND_TYPES: Final = (
    *("autovacuum launcher", "autovacuum worker", "background writer", "checkpointer", "client backend"),
    *("dead-end client backend", "archiver", "logger", "standalone backend", "startup", "walreceiver", "walsender"),
    *("walsummarizer", "walwriter", "stats collector", "slotsync worker", "io worker", "postmaster"),
    *("not initialized", "logical replication launcher", "logical replication worker", "parallel worker"),
    *("logical replication apply worker", "logical replication tablesync worker"),
    *("logical replication parallel apply worker", "datachecksum launcher", "datachecksum worker"),
)

_OBJECTS = (
    "ACCESS METHOD|AGGREGATE|CAST|COLLATION|CONSTRAINT|CONVERSION|DATABASE|DOMAIN|EVENT TRIGGER|EXTENSION|"
    "FOREIGN DATA WRAPPER|FOREIGN TABLE|FUNCTION|INDEX|LANGUAGE|LARGE OBJECT|MATERIALIZED VIEW|OPERATOR CLASS|"
    "OPERATOR FAMILY|OPERATOR|POLICY|PROCEDURE|PROPERTY GRAPH|PUBLICATION|ROLE|ROUTINE|RULE|SCHEMA|SEQUENCE|SERVER|"
    "STATISTICS|SUBSCRIPTION|SYSTEM|TABLESPACE|TABLE|TEXT SEARCH CONFIGURATION|TEXT SEARCH DICTIONARY|"
    "TEXT SEARCH PARSER|TEXT SEARCH TEMPLATE|TRANSFORM|TRIGGER|TYPE|USER MAPPING|VIEW"
)
_VERBS = ("ALTER", "CREATE", "DROP")
_OTHER_TAGS = (
    "ALTER DEFAULT PRIVILEGES|ANALYZE|BASE_BACKUP|BEGIN|BIND|CALL|CHECKPOINT|CLOSE CURSOR ALL|CLOSE CURSOR|CLOSE|"
    "CLUSTER|COMMENT|COMMIT PREPARED|COMMIT|COPY FROM|COPY|CREATE TABLE AS|DEALLOCATE ALL|DEALLOCATE|DECLARE CURSOR|"
    "DELETE|DISCARD ALL|DISCARD PLANS|DISCARD SEQUENCES|DISCARD TEMP|DISCARD|DO|DROP OWNED|DROP REPLICATION SLOT|"
    "EXECUTE|EXPLAIN|FETCH|GRANT ROLE|GRANT|IDENTIFY_SYSTEM|IMPORT FOREIGN SCHEMA|INSERT|LISTEN|LOAD|LOCK TABLE|MERGE|"
    "MOVE|NOTIFY|PARSE|PREPARE TRANSACTION|PREPARE|REASSIGN OWNED|REFRESH MATERIALIZED VIEW|REINDEX|RELEASE|REPACK|"
    "RESET|REVOKE ROLE|REVOKE|ROLLBACK PREPARED|ROLLBACK|SAVEPOINT|SECURITY LABEL|SELECT FOR KEY SHARE|"
    "SELECT FOR NO KEY UPDATE|SELECT FOR SHARE|SELECT FOR UPDATE|SELECT INTO|SELECT|SET CONSTRAINTS|SET|SHOW|"
    "START TRANSACTION|START_REPLICATION|TIMELINE_HISTORY|TRUNCATE TABLE|UNLISTEN|UPDATE|VACUUM|WAIT|authentication|"
    r"idle in transaction \(aborted\)|idle in transaction|idle|initializing|startup"
)
#: What `%i` prints of client backends, in PostgreSQL 12 to 19. A tag follows those that begin with it.
TAG_PATTERN: Final = rf"(?:{_OTHER_TAGS}|(?:{'|'.join(_VERBS)}) (?:{_OBJECTS}))(?: waiting)?"
_PLAIN_TAGS = (
    *_OTHER_TAGS.replace("\\", "").split("|"),
    *(f"{verb} {what}" for verb in _VERBS for what in _OBJECTS.split("|")),
)
#: The same as a list, longest first.
COMMAND_TAGS: Final = tuple(
    sorted((*_PLAIN_TAGS, *(f"{tag} waiting" for tag in _PLAIN_TAGS)), key=lambda tag: (-len(tag), tag))
)

ZONE_PATTERN: Final = r"(?:[A-Za-z]{1,10}|[+-][0-9]{2}(?::?[0-9]{2})?)"
SECOND_PATTERN: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
_TEXT = r"[^\n]*?"

#: `2026-11-20 21:03:47.877 UTC`
STAMP_PATTERN: Final = rf"{SECOND_PATTERN}\.[0-9]{{3}} {ZONE_PATTERN}"

#: Addresses as `%h` prints them. They are followed by another character.
ADDRESS_PATTERN: Final = (
    r"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?::"
    r"(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?(?:%[0-9a-z]+)?|(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4})"
)

#: One small pattern per escape. Patterns of text are lazy: they match the shortest text with which the rest fits.
#: `?` and `#` are inferred fields of which it is not known what they are: a text, and a number.
_PATTERNS: Final = {
    **dict.fromkeys("?abdhiLru", _TEXT),
    **dict.fromkeys("st", rf"{SECOND_PATTERN} {ZONE_PATTERN}"),
    "#": r"-?[0-9]{1,20}",
    "c": r"[0-9a-f]{1,16}\.[0-9a-f]{1,7}",
    "e": r"[0-9A-Z]{5}",
    "l": r"[0-9]{1,18}",
    "m": STAMP_PATTERN,
    "n": r"[0-9]{1,12}\.[0-9]{3}",
    "p": r"[0-9]{1,9}",
    "P": r"[0-9]{0,9}",
    "Q": r"-?[0-9]{0,20}",
    "v": r"(?:-?[0-9]{1,9}/[0-9]{1,18})?",
    "x": r"[0-9]{0,18}",
}
_UNKNOWN: Final = frozenset("?#")
_TIMES: Final = frozenset("mnst")
#: Values that are preferred to other texts.
LISTS: Final = {"b": BACKEND_TYPES, "i": COMMAND_TAGS}
_LIST_PATTERNS: Final = {"b": "|".join(BACKEND_TYPES), "i": TAG_PATTERN}
#: A text that is padded with spaces neither begins nor ends with one, and has no two of them side by side.
_PADDED_TEXT: Final = r"(?:[^ \n]+?(?: [^ \n]+?)*?)??"
#: A client known to be an address, perhaps with a port. What follows begins with no byte of one.
_ADDRESS_ONLY: Final = r"\[local\]|[0-9A-Fa-f:]*[.:][0-9A-Fa-f:.]*(?:\([0-9]+\))?|"
TEXT_ESCAPES: Final = frozenset(letter for letter, pattern in _PATTERNS.items() if pattern == _TEXT)
_PIECE: Final = re.compile(r"%(?P<padding>-?[0-9]*)(?P<letter>.)|(?P<literal>[^%]+|%)", re.DOTALL)

#: Severities of the details of a record, as alternatives.
DETAIL_WORDS: Final = "|".join(SEVERITY_WORDS[SEVERITY_WORDS.index("DETAIL") :])
_SEVERITY = rf"(?:{'|'.join(SEVERITY_WORDS)})[1-5]?"
SEVERITY_PATTERN: Final = rf"(?P<severity>{'|'.join(SEVERITY_WORDS)})[1-5]?: {{1,2}}"
#: The end of a record's head, anywhere in a line.
MARK_PATTERN: Final = rf"{_SEVERITY}: "

#: PostgreSQL writes a tab before each further line of a record; copies may have spaces instead.
CONTINUATION_PATTERN: Final = r"^(?:[ \t\r]|$)"
#: A line that begins with spaces and contains a severity is a record with another prefix.
STRAY_PATTERN: Final = rf"^[ \r](?:[^\n]*[^A-Za-z])?{_SEVERITY}:  "


_CLOCK = "[0-9]{2}:[0-9]{2}:[0-9]{2}"
#: The priority of syslog's line, if it was kept, its time, `Nov 20 21:03:47` or in RFC 3339's form, the host, and the
#: program.
_SYSLOG_SENDER = (
    rf"(?:<[0-9]{{1,3}}>(?:1 )?)?(?:[A-Z][a-z]{{2}} [ 0-9][0-9] {_CLOCK}"
    rf"|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T{_CLOCK}(?:\.[0-9]{{1,6}})?(?:Z|[+-][0-9]{{2}}:[0-9]{{2}})) "
    r"[^ ]+ [^ \[]+[ \[]"
)
#: What follows the process: `]:`, or (RFC 5424) an identifier and structured data.
_SYSLOG_END = r"(?:\]:| [^ ]+ (?:-|\[[^\n]*?\])) "
#: Syslog writes its header before each line of a record. PostgreSQL's numbers of message and piece follow, or the
#: number of the piece alone (`syslog_sequence_numbers = off`).
_SYSLOG = rf"{_SYSLOG_SENDER}(?P<p>[0-9]{{1,9}}){_SYSLOG_END}\[(?:(?P<l>[0-9]{{1,18}})-[0-9]+|[0-9]{{1,18}})\] "
SYSLOG_HEADER: Final = rf"^(?P<head>{_SYSLOG})"
_SYSLOG_CONTINUATION: Final = rf"^{_SYSLOG_SENDER}[0-9]+{_SYSLOG_END}\[[0-9]+(?:-[0-9]+)?\] "


@dataclass(frozen=True)
class RowHeads:
    """The beginning of a row of csvlog: its columns up to the severity, with what a :class:`Prefix` says of lines.

    Attributes:
        pattern: regular expression of it.
        language: of the severities beside the English ones; empty: none.
    """

    #: A line may be any part of a row: damaged rows are detected when rows are read.
    continuation_pattern: ClassVar[str | None] = None
    stray_pattern: ClassVar[str | None] = None
    timed: ClassVar[bool] = False
    pattern: str
    language: str = ""


@dataclass(frozen=True)
class Element:
    """A literal, or an escape with its padding (positive: spaces before it, negative: after it).

    Attributes:
        address: whether the client is known to be an address.
    """

    escape: str = ""
    padding: int = 0
    literal: bytes = b""
    address: bool = False

    @property
    def is_text(self) -> bool:
        """Whether its value can be any text, so that its end depends on what follows."""
        return self.escape in TEXT_ESCAPES and not self.address

    def pattern(self, *, named: bool, greedy: bool = False, group: str = "(?:") -> str:
        """The regular expression of this element.

        Args:
            named: whether its value is a group with its name.
            greedy: whether texts are as long as possible, not as short.
            group: beginning of the group if it is not named.
        """
        if not self.escape:
            return re.escape(self.literal.decode())
        value = f"{f'(?P<{self.escape}>' if named else group}{self._value(greedy=greedy)})"
        if self.padding == 0:
            return value
        return f" *{value}" if self.padding > 0 else f"{value} *"

    def _value(self, *, greedy: bool) -> str:
        if self.address:
            return _ADDRESS_ONLY
        pattern = _PATTERNS[self.escape]
        if pattern == _TEXT:
            pattern = _PADDED_TEXT if self.padding else _TEXT
            pattern = pattern.replace("+?", "+").replace("*?", "*").replace("??", "?") if greedy else pattern
        listed = _LIST_PATTERNS.get(self.escape)
        return pattern if listed is None else f"{listed}|{pattern}"

    def single_characters(self) -> tuple[Element, ...]:
        """A literal as one literal for each of its characters."""
        return tuple(Element(literal=character.encode()) for character in self.literal.decode())


@dataclass(frozen=True)
class Prefix:
    """A compiled `log_line_prefix`.

    Attributes:
        text: as in the server's configuration.
        elements: literals and escapes in order, `%q` left out.
        optional_from: index of the first element after `%q`; the number of elements if there is none.
        syslog: whether syslog's own header precedes the prefix. It has no year and therefore gives no time, but it
            gives process and line number.
        inferred: whether it was inferred from the log; `text` then has `%?` for each field that was not decided.
        undecided: what each of these fields may be.
        wrapped: whether a text that no escape prints begins the records, as other programs put it before lines.
        language: language of the messages (see :mod:`citus_analysis.formats.pglog.languages`); empty: English.
        verbose: whether an SQLSTATE stands before each message (`log_error_verbosity = verbose`).
    """

    text: str
    elements: tuple[Element, ...]
    optional_from: int
    syslog: bool = False
    inferred: bool = False
    undecided: tuple[str, ...] = ()
    wrapped: bool = False
    verbose: bool = False
    language: str = ""

    @cached_property
    def escapes(self) -> frozenset[str]:
        """Letters of the escapes."""
        return frozenset(element.escape for element in self.elements if element.escape)

    @property
    def continuation_pattern(self) -> str:
        """Lines that begin with a blank; in syslog, lines of PostgreSQL."""
        return _SYSLOG_CONTINUATION if self.syslog else CONTINUATION_PATTERN

    @property
    def stray_pattern(self) -> str | None:
        """Lines of records under another prefix."""
        return None if self.syslog else STRAY_PATTERN

    @cached_property
    def timed(self) -> bool:
        """Whether records begin with a time."""
        first = self.elements[0] if self.elements and self.optional_from else Element()
        return self.syslog or (first.escape in _TIMES and not first.padding)

    @cached_property
    def pattern(self) -> str:
        """Regular expression of a record's beginning, with the groups `head`, the whole, and `severity`."""
        return self._pattern(greedy=False)

    @cached_property
    def latest_patterns(self) -> tuple[str, ...]:
        """The same with texts as long as possible, for the beginning alone: with the optional part, and without.

        None, if texts can end at one place only. A separator may be part of a value. If values are others then, no one
        can tell which are meant.
        """
        elements = self.elements
        texts = [place for place, element in enumerate(elements) if element.is_text]
        ends = {place for place in texts if place + 1 < len(elements) and elements[place + 1].literal}
        if len(texts) < 2 and len(ends - {self.optional_from - 1}) == len(texts):
            return ()
        whole = replace(self, optional_from=len(elements))
        always = replace(self, elements=elements[: self.optional_from])
        return tuple(f"{one._pattern(greedy=True)}$" for one in dict.fromkeys((whole, always)))

    @property
    def texts(self) -> tuple[str, ...]:
        """Escapes of texts that give columns, in order."""
        known = [element.escape for element in self.elements if element.escape and element.escape in "udahr"]
        return tuple(letter for letter in dict.fromkeys(known) if letter != "r" or "h" not in known)

    def _pattern(self, *, greedy: bool) -> str:
        pieces, seen = [_SYSLOG] if self.syslog else [], set("pl") if self.syslog else set[str]()
        for element in self.elements:
            named = element.escape not in seen and element.escape not in _UNKNOWN
            pieces.append(element.pattern(named=named, greedy=greedy))
            seen.add(element.escape)
        always_count = self.optional_from + self.syslog
        always, optional = pieces[:always_count], pieces[always_count:]
        tail = f"(?:{''.join(optional)})?" if optional else ""
        return f"^(?P<head>{''.join(always)}{tail}{SEVERITY_PATTERN})"


Heads: TypeAlias = Prefix | RowHeads


@lru_cache(maxsize=256)
def compile_prefix(text: str) -> Prefix:
    """Compile a `log_line_prefix` string.

    Raises:
        UsageError: the string contains an escape unknown to PostgreSQL 12 to 18, or too many elements.
    """
    elements: list[Element] = []
    optional_from: int | None = None
    known = _PATTERNS.keys() - _UNKNOWN
    for piece in _PIECE.finditer(text):
        letter = piece["letter"]
        if literal := "%" if letter == "%" else piece["literal"]:
            goes_on = elements and elements[-1].literal and optional_from != len(elements)
            before = elements.pop().literal if goes_on else b""
            elements.append(Element(literal=before + literal.encode()))
        elif letter == "q":
            optional_from = len(elements) if optional_from is None else optional_from
        elif letter in known:
            digits = piece["padding"]
            elements.append(Element(letter, int(digits) if digits.strip("-") else 0))
        else:
            raise UsageError(
                f"log_line_prefix has an unknown escape %{letter}",
                place=repr(text),
                hint=f"PostgreSQL knows {' '.join(f'%{escape}' for escape in sorted(known))} %q %%",
            )
    if len(elements) >= MAX_ELEMENTS:
        raise UsageError(
            f"log_line_prefix has {len(elements)} escapes and texts between them",
            place=repr(text),
            hint=f"use a prefix with fewer than {MAX_ELEMENTS}",
        )
    return Prefix(text, tuple(elements), len(elements) if optional_from is None else optional_from)


# Conversion of a log's clock readings and zones to UTC.
#
# A prefix prints an abbreviation (`CET`) or an offset (`+02`). :mod:`citus_analysis.formats.parsing.time_zones` defines
# the abbreviations, unless the option `timezone` names the server's zone: then that zone decides, and when its clock
# was set back, the abbreviation distinguishes the two readings. The epoch (`%n`) needs no zone.

_US_PER_MS: Final = 1000
_US_PER_MINUTE: Final = 60_000_000
#: Offsets of zones are constant within a quarter of an hour: each is looked up once.
_US_PER_QUARTER: Final = 15 * _US_PER_MINUTE
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_clock(text: pl.Expr) -> pl.Expr:
    """Clock readings in microseconds since 1970, from `2026-11-20 21:03:47.877`, with or without the `.877`."""
    import polars as pl

    # In two steps: polars is several times faster for times without a fraction.
    second = text.str.slice(0, 19).str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False).cast(pl.Int64)
    return second + text.str.slice(20, 3).cast(pl.Int64, strict=False).fill_null(0) * _US_PER_MS


def convert_clock_to_utc(clock: pa.Array, zone: pa.DictionaryArray, local: LocalTime) -> pa.Array:
    """Clock readings (microseconds) with their zones as UTC; null if the zone is unknown.

    Args:
        clock: clock readings, microseconds since 1970.
        zone: abbreviation or offset per reading.
        local: rules for the log's times.

    Raises:
        FormatError: a zone is ambiguous, and the option `timezone` is not given.
    """
    zones = zone.dictionary.to_pylist()
    if zones == ["UTC"] and not zone.null_count:
        return pa.Array.from_buffers(TIME.arrow, len(clock), clock.buffers(), clock.null_count, clock.offset)
    local.check(zones)
    import polars as pl

    server = local.zone
    frame = pl.DataFrame(pa.RecordBatch.from_arrays([clock, zone], names=["clock", "zone"]))
    minutes = {name: parse_zone_minutes(name) for name in zones}
    loose = [name for name in zones if server is not None and not is_offset(name) and minutes[name] != 0]
    frame = frame.with_columns(pl.col("zone").cast(pl.String))
    fixed = pl.col("zone").replace_strict(minutes, default=None, return_dtype=pl.Int64)
    if loose and server is not None:
        frame = frame.with_columns(quarter=pl.col("clock").floordiv(_US_PER_QUARTER))
        keys = frame.filter(pl.col("zone").is_in(loose)).select("quarter", "zone").unique()
        found = keys.with_columns(
            looked_up=pl.Series(
                [_find_zone_offset_minutes(server, int(quarter), str(name)) for quarter, name in keys.iter_rows()],
                dtype=pl.Int64,
            )
        )
        frame = frame.join(found, on=["quarter", "zone"], how="left", maintain_order="left")
        fixed = pl.coalesce("looked_up", fixed)
    return frame.select((pl.col("clock") - fixed * _US_PER_MINUTE).cast(TIME.polars)).to_series().to_arrow()


def _find_zone_offset_minutes(server: ZoneInfo, quarter: int, name: str) -> int | None:
    """The offset of a clock reading in the server's zone; the abbreviation selects one of two possible readings."""
    local = (_EPOCH + timedelta(minutes=15 * quarter)).replace(tzinfo=server)
    readings = [local.replace(fold=0), local.replace(fold=1)]
    named = next((reading for reading in readings if reading.tzname() == name), None)
    if named is None:
        return parse_zone_minutes(name)
    offset = named.utcoffset()
    return None if offset is None else int(offset.total_seconds() // 60)
