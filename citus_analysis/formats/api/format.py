"""Interface of a format: a module that recognises files of one kind and turns them into tables.

A format yields :class:`Parsed` pieces. Each piece contains rows with :meth:`citus_analysis.schema.Table.parsed`
columns and states how many bytes ended as rows and how many are noise by the format's definition; the
remaining bytes are in `rejects`. Over all pieces, parsed + noise + rejected = the content's length: the dataset
layer checks this sum for every source.

Other packages add a format with an entry point in the group ``citus_analysis.formats`` that names an
instance of :class:`Format`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, runtime_checkable

from citus_analysis.core.array_types import Integers
from citus_analysis.core.arrow_arrays import own_words
from citus_analysis.errors import FormatError
from citus_analysis.formats.api.openings import Opening
from citus_analysis.formats.api.options import Option
from citus_analysis.formats.api.redacted_columns import redact_batch, redact_expr
from citus_analysis.formats.sources.content import Content
from citus_analysis.schema import TABLES, Rows

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

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
    """

    name: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    jobs: int = 1


@dataclass(frozen=True)
class Reject:
    """A stretch of a source that could not be understood."""

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
        rejected = _converted("rejects", reject_rows(()) if rejects is None else rejects)
        converted = {name: _converted(name, rows) for name, rows in tables.items()}
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

    def divided(self, bounds: Mapping[str, Integers], parsed: Sequence[int], noise: Sequence[int]) -> list[Parsed]:
        """A piece without rejects that has the rows of several sources, as a piece for each source.

        Args:
            bounds: table -> number of the first row of each source, and at the end the number of rows.
            parsed: :attr:`parsed_bytes` of each source.
            noise: :attr:`noise_bytes` of each source.
        """
        tables = [
            {name: _rows_between(self.tables[name], int(at[i]), int(at[i + 1])) for name, at in bounds.items()}
            for i in range(len(parsed))
        ]
        return [_as_they_are(*own, self.rejects) for own in zip(tables, parsed, noise, strict=True)]

    def with_rows(self, tables: Mapping[str, pa.RecordBatch], rejects: pa.RecordBatch) -> Parsed:
        """The piece with other values in numeric columns of its rows."""
        return _as_they_are(tables, self.parsed_bytes, self.noise_bytes, rejects)


def _as_they_are(
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
        openings: lines by which the beginning of an output of the tool is found in a text that contains several
            outputs; files of a format that declares none are never divided.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    tables: ClassVar[tuple[str, ...]]
    noise: ClassVar[str] = "nothing"
    dropped: ClassVar[str] = ""
    options: ClassVar[tuple[Option, ...]] = ()
    measures: ClassVar[Mapping[str, str]] = MappingProxyType({})
    openings: ClassVar[tuple[Opening, ...]] = ()

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

    def source_facts(self, content: Content, hints: Hints) -> Mapping[str, str]:
        """Columns of `sources` that say how a source was read; most formats have none.

        Raises:
            FormatError: the bytes are not of this format at all.
            InputError: the file cannot be read.
        """
        return {}


def _rows_between(batch: pa.RecordBatch, begin: int, end: int) -> pa.RecordBatch:
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


def _converted(table: str, rows: Rows) -> pa.RecordBatch:
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

    values = [(reject.byte_offset, reject.byte_length, reject.reason, _shown(reject.excerpt)) for reject in rows]
    frame = pl.DataFrame(values, schema=table.polars_schema(), orient="row")
    # Redact before the final cut, which could separate a secret's key from its value.
    return table.batch(frame.with_columns(redact_expr(pl.col("excerpt")).str.head(EXCERPT_CHARS)))


def _shown(text: bytes | str) -> str:
    # Cut before decoding: an excerpt of a line of 1 GiB must not take 1 GiB of memory.
    decoded = text[: 4 * EXCERPT_CHARS].decode("utf-8", "replace") if isinstance(text, bytes) else text
    return decoded[: 4 * EXCERPT_CHARS].replace("\x00", "\\0")


@runtime_checkable
class PrefixedFormat(Protocol):
    """A format of logs whose lines begin as a stated pattern says."""

    def is_explained(self, head: bytes, stated: str) -> bool:
        """Whether nearly all lines begin a record as stated, or continue one."""
