"""Interface of a format: a module that recognises files of one kind and turns them into tables.

A format yields :class:`Parsed` pieces. Each piece contains rows with :meth:`citus_analysis.schema.Table.parsed`
columns and states how many bytes ended as rows and how many are noise by the format's definition; the
remaining bytes are in `rejects`. Over all pieces, parsed + noise + rejected = the content's length: the dataset
layer checks this sum for every source.

Other packages add a format with an entry point in the group ``citus_analysis.formats`` that names an
instance of :class:`Format`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, runtime_checkable

from citus_analysis.core.arrow_arrays import own_words
from citus_analysis.errors import FormatError, UnknownNameError
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.redaction import redact_batch, redact_expr
from citus_analysis.schema import TABLES, Rows

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from citus_analysis.core.type_aliases import Integers

# Options of formats: facts missing from a file, which users state with `--meta` or in files next to it.
#
# A format lists the options that it reads in :attr:`Format.options`; the command line, the label files and the
# documentation take them from there. Options that several formats share are defined here once. The module imports
# neither polars nor a format, so that `--help` stays fast.


@dataclass(frozen=True)
class Option:
    """An option that a format reads.

    Attributes:
        name: its name in `--meta`; options of the same name have the same meaning in all formats.
        meaning: the fact that it states, and the behaviour without it.
        choices: each possible value with its meaning; empty if the values cannot be listed.
        selects: whether the option names the part of a file that is read; copies of the file with different values are
            then different sources.
    """

    name: str
    meaning: str
    choices: tuple[tuple[str, str], ...] = ()
    selects: bool = False

    def value(self, options: Mapping[str, str]) -> str | None:
        """The value that was given; None if none was.

        Raises:
            UnknownNameError: the value is not one of the choices.
        """
        stated = options.get(self.name)
        if stated is not None:
            self.check(stated)
        return stated

    def check(self, stated: str) -> None:
        """Check that a value is one of the choices, if the option has any.

        Raises:
            UnknownNameError: the value is not one of the choices.
        """
        known = [value for value, _ in self.choices]
        if known and stated not in known:
            raise UnknownNameError(self.name, stated, known)


TIMEZONE: Final = Option(
    "timezone",
    "IANA name of the zone of times that are printed without one, or with an abbreviation that several zones use; "
    "without it, times without a zone are UTC and ambiguous abbreviations are refused",
)
LOG_LINE_PREFIX: Final = Option(
    "log_line_prefix", "the server's setting, as in `postgresql.conf`; without it, it is inferred from the log"
)
DATE_ORDER: Final = Option(
    "date_order",
    "order of day, month and year in dates; without it, the file's dates and numbers decide",
    (("mdy", "month first"), ("dmy", "day first"), ("ymd", "year first")),
)
FIRST_REPORT: Final = Option(
    "first_report",
    "period that the first report of a sampler averages; without it, the time since boot unless the file shows that "
    "`-y` left that report out",
    (("since_boot", "the time since boot"), ("interval", "an interval, as in all other reports")),
)
VMSTAT_UNIT: Final = Option(
    "vmstat_unit",
    "unit of the memory columns; `vmstat -S` changes it without a trace in the output; without it, `K`",
    (("k", "1000 bytes"), ("K", "1024 bytes"), ("m", "1000000 bytes"), ("M", "1048576 bytes")),
)
HDR_UNIT: Final = Option(
    "hdr_unit",
    "unit of the values of an HdrHistogram log, which does not name it; without it, us",
    (("ns", "nanoseconds"), ("us", "microseconds"), ("ms", "milliseconds")),
)
HDR_CORRECTION: Final = Option(
    "hdr_correction",
    "whether an HdrHistogram log is corrected for coordinated omission; without it, the name of its section decides",
    (("raw", "as measured"), ("corrected", "measured from the scheduled start, or corrected afterwards")),
)
HAMMERDB_JOB: Final = Option(
    "hammerdb_job",
    "id of the job to read from `hammer.DB`, HammerDB's database; without it, the only job that ran a test is read",
    selects=True,
)

#: Options of the formats of this package, in the order of the help; other packages add their own.
BUILT_IN_OPTIONS: Final = (
    *(LOG_LINE_PREFIX, TIMEZONE, DATE_ORDER, FIRST_REPORT, VMSTAT_UNIT),
    *(HDR_UNIT, HDR_CORRECTION, HAMMERDB_JOB),
)

# Lines with which outputs of a tool begin, by which several outputs in one text are distinguished.
#
# A load generator or a sampler prints some lines once in each output, in an order, and not all of them in each
# version
# and with each option. A line that goes back in this order, or occurs again, is the next output's: after the report
# of
# pgbench (`transaction type:`), `starting vacuum...` belongs to another run.


@dataclass(frozen=True)
class StartMarker:
    r"""A line of an output that shows where an output begins.

    Attributes:
        begins: bytes with which the line begins.
        then: regular expression of what follows them; it may continue on the lines after.
        stage: place in the order of the output's start markers; those of one stage occur in any order.
        repeats: the line may occur again in the same output.
        continues: after the lines of another tool, the line belongs to the output before them, if its order allows
            this: both tools wrote at the same time. Otherwise it begins another output.
        ends: with this line the output is whole.
        rewinds: the line, which may occur again, begins an interim report: lines of later stages follow, and come once
            more at the end.
        whole: the output begins with this line and has no other marker: a table of CSV, or a JSON document, with which
            it ends.

    Example:
        >>> marker = StartMarker(b"sysbench ", rb"[0-9]")
        >>> marker.pattern.match(b"\nsysbench 1.0.20", 1) is not None
        True
    """

    begins: bytes
    then: bytes = b""
    stage: int = 0
    repeats: bool = False
    continues: bool = False
    ends: bool = False
    rewinds: bool = False
    whole: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """The line's beginning as a whole."""
        return re.compile(re.escape(self.begins) + self.then, re.MULTILINE)


EXCERPT_CHARS: Final = 200
#: Libraries whose errors say that a value does not fit.
_CONVERTERS: Final = ("polars", "pyarrow")


@dataclass(frozen=True)
class Hints:
    """Facts about a file other than its bytes.

    Attributes:
        name: file name without folders; some formats read facts from it.
        options: values of the options that the format declares, by name.
        jobs: threads a format may use for one file.
        file_time: when the file was last changed (ISO 8601, UTC); None where that is not known, as of a member of an
            archive and of an object at a URL.
    """

    name: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    jobs: int = 1
    file_time: str | None = None


@dataclass(frozen=True)
class Reject:
    """A part of a source that could not be understood."""

    byte_offset: int
    byte_length: int
    reason: str
    excerpt: bytes | str = b""


@dataclass(frozen=True, init=False)
class Parsed:
    """A piece of a parsed source: tables, and an account of every byte.

    A format gives rows as polars frames or Arrow batches, with any of the table's parsed() columns. They are converted
    here, once, to the record batches that are stored, and secrets in their texts are redacted; absent columns become
    null.

    Attributes:
        tables: table name -> rows with the table's parsed() columns; :meth:`frame` gives them as a polars frame.
        parsed_bytes: bytes that ended as a row or as part of one.
        noise_bytes: bytes that carry no data by the format's definition.
        rejects: rows with the `rejects` table's parsed() columns; see :func:`reject_rows`.

    Raises:
        ValueError: a column is not in the table's definition.
        FormatError: a value does not fit its column.
    """

    tables: Mapping[str, pa.RecordBatch]
    parsed_bytes: int
    noise_bytes: int
    rejects: pa.RecordBatch

    def __init__(
        self, tables: Mapping[str, Rows], parsed_bytes: int, noise_bytes: int = 0, rejects: Rows | None = None
    ) -> None:
        """Convert the rows and redact their texts."""
        rejected = _convert_batch("rejects", reject_rows(()) if rejects is None else rejects)
        converted = {name: _convert_batch(name, rows) for name, rows in tables.items()}
        self._fill(tables=converted, parsed_bytes=parsed_bytes, noise_bytes=noise_bytes, rejects=rejected)

    def _fill(self, **facts: object) -> None:
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def frame(self, table: str) -> pl.DataFrame:
        """The rows of a table, or of `rejects`, with its parsed() columns; an empty frame if the piece has none."""
        parsed = TABLES[table].parsed()
        batch = self.rejects if table == "rejects" else self.tables.get(table)
        return parsed.empty() if batch is None else parsed.frame(batch)

    @property
    def rejected_bytes(self) -> int:
        """Bytes in `rejects`."""
        return int(self.frame("rejects")["byte_length"].sum()) if len(self.rejects) else 0

    def divide(self, bounds: Mapping[str, Integers], parsed: Sequence[int], noise: Sequence[int]) -> list[Parsed]:
        """A piece without rejects that has the rows of several sources, as a piece for each source.

        Args:
            bounds: table -> number of the first row of each source, and at the end the number of rows.
            parsed: :attr:`parsed_bytes` of each source.
            noise: :attr:`noise_bytes` of each source.
        """
        tables = [
            {name: _slice_batch(self.tables[name], int(at[i]), int(at[i + 1])) for name, at in bounds.items()}
            for i in range(len(parsed))
        ]
        return [_build_converted_piece(*own, self.rejects) for own in zip(tables, parsed, noise, strict=True)]

    def with_rows(self, tables: Mapping[str, pa.RecordBatch], rejects: pa.RecordBatch) -> Parsed:
        """The piece with other values in numeric columns of its rows."""
        return _build_converted_piece(tables, self.parsed_bytes, self.noise_bytes, rejects)


def _build_converted_piece(
    tables: Mapping[str, pa.RecordBatch], parsed_bytes: int, noise_bytes: int, rejects: pa.RecordBatch
) -> Parsed:
    """A piece of rows that were converted and redacted before."""
    piece = object.__new__(Parsed)
    piece._fill(tables=tables, parsed_bytes=parsed_bytes, noise_bytes=noise_bytes, rejects=rejects)
    return piece


class Format(ABC):
    """One file format. Instances have no state; the registry keeps one of each.

    Attributes:
        name: its name in `--format` and `sources.format`.
        version: incremented whenever the same bytes would give other rows; sources are then parsed again.
        tables: names of the tables it can yield.
        noise: description of the bytes that carry no data and are neither parsed nor rejected.
        dropped: values of parsed lines that no column keeps; empty if there are none.
        options: options that users may set for its files; `Hints.options` contains only these.
        measures: for load generators, names of values in `client_metrics` -> the corresponding columns of
            `operation_latencies`; values with a unit of time are converted.
        start_markers: lines by which the beginning of an output of the tool is found in a text that contains several
            outputs; files of a format that declares none are never divided.
        elapsed: the time since the begin of a run in a line of its series, as the only group of a regular expression
            with line begins; in a further run it begins again.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    tables: ClassVar[tuple[str, ...]]
    noise: ClassVar[str] = "nothing"
    dropped: ClassVar[str] = ""
    options: ClassVar[tuple[Option, ...]] = ()
    measures: ClassVar[Mapping[str, str]] = MappingProxyType({})
    start_markers: ClassVar[tuple[StartMarker, ...]] = ()
    elapsed: ClassVar[re.Pattern[bytes] | None] = None

    @abstractmethod
    def detect(self, name: str, head: bytes) -> float:
        """Confidence, from 0 (no) to 1 (certain), that a file is of this format.

        Args:
            name: file name without folders.
            head: the first bytes of the decompressed content, up to `HEAD_BYTES`.
        """

    @abstractmethod
    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """The source's tables, in order of the source, in pieces of bounded size.

        Raises:
            FormatError: the bytes are not of this format at all.
            InputError: the file cannot be read.
        """

    def find_sign(self, text: bytes) -> int:
        """Where a text first shows that the tool wrote it, beside its start markers; -1 if nowhere."""
        return -1

    def source_facts(self, content: Content, hints: Hints) -> Mapping[str, str]:
        """Columns of `sources` that say how a source was read; most formats have none.

        Raises:
            FormatError: the bytes are not of this format at all.
            InputError: the file cannot be read.
        """
        return {}


def _slice_batch(batch: pa.RecordBatch, begin: int, end: int) -> pa.RecordBatch:
    """Some of the rows; their dictionaries hold only their own words."""
    rows = batch.slice(begin, end - begin)
    if begin == 0 and end == len(batch):
        return rows
    import pyarrow as pa

    # The words of an ordered one are its categories, whether they occur or not.
    columns = [
        own_words(column) if pa.types.is_dictionary(column.type) and not column.type.ordered else column
        for column in rows.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _convert_batch(table: str, rows: Rows) -> pa.RecordBatch:
    definition = TABLES[table].parsed()
    try:
        batch = definition.batch(rows)
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _CONVERTERS:
            raise
        raise FormatError(f"a value does not fit its column of {table}: {error}".splitlines()[0]) from error
    return redact_batch(definition.judged(batch))


def reject_rows(rejects: Iterable[Reject]) -> pa.RecordBatch:
    """Rejects as rows of the `rejects` table; excerpts are decoded, cut and redacted."""
    rows = list(rejects)
    table = TABLES["rejects"].parsed()
    if not rows:
        return table.no_rows()
    import polars as pl

    values = [
        (reject.byte_offset, reject.byte_length, reject.reason, _format_excerpt(reject.excerpt)) for reject in rows
    ]
    frame = pl.DataFrame(values, schema=table.polars_schema(), orient="row")
    # Redact before the final cut, which could separate a secret's key from its value.
    return table.batch(frame.with_columns(redact_expr(pl.col("excerpt")).str.head(EXCERPT_CHARS)))


def _format_excerpt(text: bytes | str) -> str:
    # Cut before decoding: an excerpt of a line of 1 GiB must not take 1 GiB of memory.
    decoded = text[: 4 * EXCERPT_CHARS].decode("utf-8", "replace") if isinstance(text, bytes) else text
    return decoded[: 4 * EXCERPT_CHARS].replace("\x00", "\\0")


@runtime_checkable
class PrefixedFormat(Protocol):
    """A format of logs whose lines begin as a stated pattern says."""

    def is_explained(self, head: bytes, stated: str) -> bool:
        """Whether nearly all lines begin a record as stated, or continue one."""


# Signature: bytes that only the files of one format contain, by which they are recognised.
#
# Every file is shown to every format, so most searches find nothing and read the whole beginning of the file. A search
# for fixed bytes takes a hundredth of the time of one for a regular expression with alternatives, and a regular
# expression that begins with a fixed byte is searched for faster than one that begins with `^` and is tried at each
# byte.


@dataclass(frozen=True)
class Signature:
    r"""A regular expression of bytes, and fixed bytes without which it cannot match: a quick test.

    Attributes:
        pattern: the bytes.
        words: each match of the pattern contains one of these.

    Example:
        >>> signature = Signature(re.compile(rb"^sysbench [0-9]", re.MULTILINE), (b"sysbench ",))
        >>> signature.within(b"# sysbench 1.0"), signature.within(b"#\nsysbench 1.0")
        (False, True)
    """

    pattern: re.Pattern[bytes]
    words: tuple[bytes, ...]

    def within(self, head: bytes) -> bool:
        """Whether the beginning of a file contains a sign."""
        return any(word in head for word in self.words) and self.pattern.search(head) is not None


class LineBegin:
    r"""A regular expression that is searched for at the beginnings of lines only.

    Args:
        pattern: what a line begins with.

    Example:
        >>> begin = LineBegin(rb"[0-9]+ ")
        >>> begin.is_in(b"a 1 b"), begin.is_in(b"a\n1 b"), begin.count(b"1 a\n\n2 b\n")
        (False, True, 2)
    """

    def __init__(self, pattern: bytes) -> None:
        self._first = re.compile(pattern)
        self._later = re.compile(rb"\n(?:%b)" % pattern)

    def is_in(self, head: bytes) -> bool:
        """Whether a line of a text begins with it."""
        return self._first.match(head) is not None or self._later.search(head) is not None

    def count(self, head: bytes) -> int:
        """Number of lines of a text that begin with it."""
        return (self._first.match(head) is not None) + sum(1 for _ in self._later.finditer(head))
