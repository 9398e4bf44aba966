r"""Chunks of whole lines that know where each of their lines stands in the file that they came from.

Example:
    >>> text = PlacedLines.from_file(b"one\ntwo\n", offset=10)
    >>> text.starts.tolist(), text.begins.tolist(), text.ends.tolist()
    ([0, 4, 8], [10, 14], [14, 18])
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from citus_analysis.core.type_aliases import Integers
from citus_analysis.errors import InputError
from citus_analysis.formats.deliveries.content import Block, find_line_starts

if TYPE_CHECKING:
    import polars as pl

#: In place of a time that is not known.
NO_TIME: Final = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class PlacedLines:
    """Some whole lines of a text (the last line of a text may lack its line end).

    Attributes:
        data: the lines, one after the other.
        starts: offset of each line in `data`, and after them the length of `data`: one more than there are lines.
        begins: for each line, the offset in the file where what it was made of begins (of compressed files and members
            of archives: in the decompressed bytes).
        ends: for each line, the offset in the file where what it was made of ends.
        times: for each line, the time that its delivery gave it, in µs since 1970-01-01 UTC; :data:`NO_TIME` for lines
            without; None where the delivery gave no times.
    """

    data: bytes
    starts: Integers
    begins: Integers
    ends: Integers
    times: Integers | None = None

    @classmethod
    def from_file(cls, data: bytes, offset: int) -> PlacedLines:
        """Lines as they stand in the file.

        Args:
            data: whole lines.
            offset: their place in the file.
        """
        starts = find_line_starts(data)
        return cls(data, starts, offset + starts[:-1], offset + starts[1:])

    def __len__(self) -> int:
        """Number of lines."""
        return len(self.begins)


def split_blocks_into_lines(blocks: Iterable[Block]) -> Iterator[PlacedLines]:
    """The lines of a file; of a line longer than the cap only its beginning, with its true place."""
    for block in blocks:
        if block.oversized:
            bounds = np.array([block.offset, block.offset + block.length], np.int64)
            yield PlacedLines(block.data + b"\n", np.array([0, len(block.data) + 1]), bounds[:1], bounds[1:])
        else:
            yield PlacedLines.from_file(block.data, block.offset)


# Where the lines of an undone text stand in the file.

_ARRAYS: Final = ("starts", "begins", "ends", "times")
#: Bounds of a text that is written as a whole.
WHOLE: Final = (0, 0, sys.maxsize, sys.maxsize)


@dataclass(frozen=True)
class Places:
    """The place in the file of each line of a text.

    Attributes:
        starts: offset of each line in the text, then the length of the text.
        begins: offset in the file where each line begins.
        ends: offset in the file where each line ends.
        in_order: whether the lines stand in the file in the order of the text.
        file_bytes: bytes of the file that the lines, and the transcript around them, were made of.
        times: the time that the delivery gave each line, as :attr:`Lines.times`; None if it gave none.
    """

    starts: Integers
    begins: Integers
    ends: Integers
    in_order: bool
    file_bytes: int
    times: Integers | None = None

    @property
    def text_bytes(self) -> int:
        """Length of the text."""
        return int(self.starts[-1])

    def of(self, offsets: Integers, lengths: Integers) -> tuple[Integers, Integers]:
        """Offsets and lengths in the file of parts of the text.

        Where several lines of the text share a place in the file (a record of an export with several lines), their
        offsets stay apart and in order. If the records of the file are not in the order of the text, both are returned
        as they are: many results depend on the order of offsets.
        """
        if not self.in_order or not len(self.begins):
            return offsets, lengths
        most = len(self.begins) - 1
        first = np.clip(np.searchsorted(self.starts, offsets, side="right") - 1, 0, most)
        last = np.clip(np.searchsorted(self.starts, offsets + lengths, side="left") - 1, first, most)
        begins = self.begins[first]
        shared = np.searchsorted(self.begins, begins, side="left")
        apart = np.where(shared < first, offsets - self.starts[shared], 0)
        own = self._own_bytes
        return np.minimum(begins + apart, self.ends[first] - 1), own[last + 1] - own[first]

    @cached_property
    def _own_bytes(self) -> Integers:
        """Bytes of the file before each line that are of the lines before it; those of a shared place count once."""
        first = np.diff(self.begins, prepend=-1) != 0
        return np.concatenate([[0], np.cumsum(np.where(first, self.ends - self.begins, 0))])

    def get_times(self, offsets: Integers) -> Integers:
        """The times that the delivery gave the lines at offsets of the text; `NO_TIME` for lines without one."""
        if self.times is None or not len(self.times):
            return np.full(len(offsets), NO_TIME)
        line = np.searchsorted(self.starts, offsets, side="right") - 1
        return self.times[np.clip(line, 0, len(self.times) - 1)]

    def back(self, offsets: Integers, lengths: Integers) -> tuple[Integers, Integers]:
        """The parts of the text, as beginnings and ends, of offsets and lengths that :meth:`of` gave."""
        if not self.in_order or not len(self.begins):
            return offsets, offsets + lengths
        line = np.clip(np.searchsorted(self.begins, offsets, side="right") - 1, 0, len(self.begins) - 1)
        first = np.searchsorted(self.begins, self.begins[line], side="left")
        begins = np.where(first < line, self.starts[first] + offsets - self.begins[first], self.starts[line])
        own = self._own_bytes
        last = np.searchsorted(own, own[first] + lengths, side="left")
        return begins, np.maximum(self.starts[np.clip(last, first + 1, len(self.begins))], begins)


def write_undone(texts: Iterator[PlacedLines], path: Path, bounds: tuple[int, int, int, int] = WHOLE) -> Places:
    """Write lines to a file, and the places of their originals beside it.

    Args:
        texts: the lines.
        path: the new file; the places are in files of the same name with an ending of their own.
        bounds: offsets in the text: the beginning of a part of it, the beginning and end of what is written of the
            part, and the end of the part. What stands around what is written is a transcript.
    """
    offset, latest, file_bytes, in_order, timed = 0, 0, 0, True, False
    files = [path.with_name(f"{path.name}.{name}") for name in _ARRAYS]
    with ExitStack() as stack:
        text_file, *arrays = (stack.enter_context(file.open("wb")) for file in (path, *files))
        for text in texts:
            starts = offset + text.starts
            offset += len(text.data)
            known = [offset if bound == WHOLE[-1] else bound for bound in bounds]
            first, begin, end, last = np.searchsorted(starts[:-1], known).tolist()
            if first < last:
                begins = text.begins[first:last]
                own = np.diff(begins, prepend=latest - 1) != 0
                file_bytes += int((text.ends[first:last] - begins)[own].sum())
                in_order = in_order and bool((np.diff(begins, prepend=latest) >= 0).all())
                latest = int(begins[-1])
            if begin < end:
                times = np.full(len(text), NO_TIME) if text.times is None else text.times
                timed = timed or text.times is not None
                for file, values in zip(arrays, (starts - bounds[1], text.begins, text.ends, times), strict=True):
                    file.write(np.ascontiguousarray(values[begin:end], np.int64).data)
                text_file.write(memoryview(text.data)[text.starts[begin] : text.starts[end]])
        arrays[0].write(np.array([text_file.tell()], np.int64).data)
    starts, begins, ends, times = map(_map_array_file, files)
    return Places(starts, begins, ends, in_order, file_bytes, times if timed else None)


def _map_array_file(path: Path) -> Integers:
    """An array in a file, of which only what is used is in memory."""
    return np.memmap(path, np.int64, "r") if path.stat().st_size else np.zeros(0, np.int64)


# One step of a delivery: a property of a text that stands between its lines and the lines that a tool wrote.

#: How sure a format is, from 0 to 1, that it can read a text of which these are the first bytes.
Knows: TypeAlias = Callable[[bytes], float]


class Step(ABC):
    """A step of a delivery. Steps are frozen dataclasses of texts, numbers and tuples of them.

    They are stored with the source in this form, and travel to other processes.

    Attributes:
        only: the name whose lines are kept: of a host, a pod or a container; None if all lines are.
        believed: the lines are believed to be in the order of their times; :meth:`undo` raises `OutOfOrderError` where
            they are not.
    """

    only: str | None
    believed: bool

    def believe(self, *, ordered: bool) -> Step:
        """The same step, whose lines are believed to be in order, or not."""
        # Every step is a dataclass, which its base class cannot state.
        return replace(self, believed=ordered)  # type: ignore[type-var]

    @property
    @abstractmethod
    def words(self) -> str:
        """What people call it, for `sources.delivery`: `Docker JSON`, `lines stamped by ts`."""

    @abstractmethod
    def undo(self, texts: Iterator[PlacedLines], jobs: int = 1) -> Iterator[PlacedLines]:
        """The lines without this step.

        Lines that do not have the step's form are handed on unchanged, so that the format that reads the text decides
        about them. Undoing any run of whole lines (whole records) of the file gives the lines made of these, so that
        one record can be looked up later.

        Args:
            texts: chunks of lines, in the order of the file.
            jobs: threads that may work on them; chunks are then read in advance.
        """

    def undone_head(self, head: bytes) -> bytes:
        """The beginning of a text without this step; a last line that may be cut is left out."""
        whole = head[: head.rfind(b"\n") + 1] or head
        return b"".join(text.data for text in self.undo(iter([PlacedLines.from_file(whole, 0)])))

    @property
    @abstractmethod
    def is_named(self) -> bool:
        """Whether it names hosts, pods or containers, so that :meth:`views` may find several."""

    @property
    def of_node(self) -> str | None:
        """The host, pod or container whose lines are kept; None if all lines are, or the name is of something else."""
        return self.only

    @abstractmethod
    def views(self, texts: Iterator[PlacedLines], jobs: int = 1) -> Sequence[Step]:
        """What is in a text: one step for each host, pod or container that it names, in the order of their first lines.

        Lines without a name go to the first one.

        Args:
            texts: chunks of the whole file.
            jobs: threads that may work on them.
        """


# Texts with their places as rows of a frame, in which they are chosen, sorted and put together.
#
# The columns are `text`, `begin` and `end` of its place in the file, and `time`, which is :data:`NO_TIME` where it is
# not known, and null where the delivery gives no times.

#: A text that never ends is handed on in parts of this size.
_TEXT_CAP: Final = 10 * 2**20


def convert_lines_to_rows(text: PlacedLines) -> pl.DataFrame:
    """Lines as rows, each with its line end; bytes that are not UTF-8 become question marks of the same number."""
    import polars as pl

    data = text.data
    try:
        data.decode()
    except UnicodeDecodeError:
        data = data.decode("utf-8", "surrogateescape").encode("utf-8", "replace")
    lines = slice_byte_texts(data, text.starts).cast(pl.String)
    return pl.DataFrame({"text": lines, "begin": text.begins, "end": text.ends})


def slice_byte_texts(data: bytes, bounds: Integers) -> pl.Series:
    """The parts that bounds divide a text into."""
    import polars as pl
    import pyarrow as pa

    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds, np.int64)), pa.py_buffer(data)]
    return pl.Series("text", pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers))


def join_text_bytes(texts: pl.Series) -> tuple[bytes, Integers]:
    """Texts one after the other, and their starts with the length at the end."""
    array = texts.rechunk().to_arrow()
    if len(array) == 0:
        return b"", np.zeros(1, np.int64)
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = memoryview(array.buffers()[2])[int(offsets[0]) : int(offsets[-1])] if array.buffers()[2] else b""
    return bytes(data), offsets - offsets[0]


def convert_rows_to_lines(rows: pl.DataFrame, *, timed: bool) -> PlacedLines:
    """Rows of one line each as a text, which keeps the times if it shall and there are any."""
    begins, ends, times = (rows[name] for name in ("begin", "end", "time"))
    known = times.fill_null(NO_TIME).to_numpy() if timed and times.null_count() < len(times) else None
    return PlacedLines(*join_text_bytes(rows["text"]), begins.to_numpy(), ends.to_numpy(), known)


def put_together(pieces: Iterator[pl.DataFrame], keys: Sequence[str] = ()) -> Iterator[pl.DataFrame]:
    """The rows with the pieces of one text as one row, where its last piece stands.

    Args:
        pieces: rows of which `open` says that the next one with the same keys continues them. If they have a column
            `joins`, it says which lines continue the one before.
        keys: columns of which each combination of values is another text.
    """
    import polars as pl

    pending: pl.DataFrame | None = None
    for piece in pieces:
        if pending is None and not piece["open"].any():
            yield piece
            continue
        found = _put_together(piece if pending is None else pl.concat([pending, piece]), keys)
        whole, rest = found.filter(~pl.col("open")), found.filter("open")
        pending = rest if rest.height else None
        if whole.height:
            yield whole
    if pending is not None:
        yield pending


def _put_together(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Rows of which only the last ones of each text may be open."""
    import polars as pl

    if "joins" in rows.columns:
        joined = pl.col("joins").shift(-1)
        # A piece lacks the line end, so that the next one continues it.
        bare = pl.when(joined).then(pl.col("text").str.strip_chars_end("\r\n")).otherwise("text")
        rows = rows.with_columns(open=joined.fill_null(value=True), text=bare)
    rows = rows.with_row_index("row")
    rows = rows.sort(keys, maintain_order=True) if keys else rows
    same = [pl.col(key) == pl.col(key).shift() for key in keys]
    goes_on = rows.select(pl.all_horizontal(pl.col("open").shift(fill_value=False), *same).fill_null(value=False))
    first = np.flatnonzero(~goes_on.to_series().to_numpy())
    last = np.append(first[1:], rows.height) - 1
    data, starts = join_text_bytes(rows["text"])
    bounds = starts[np.append(first, rows.height)]
    ends = rows[last]
    return (
        rows[first]
        .with_columns(ends["row", "end"], text=slice_byte_texts(data, bounds).cast(rows["text"].dtype))
        .with_columns(open=ends["open"] & pl.Series(np.diff(bounds) < _TEXT_CAP))
        .sort("row")
        .drop("row")
    )


# Rows in the order of their times, where a file lists them in another one.

#: Text that may be held in memory to be sorted.
HELD_BYTES: Final = 2**30


class OutOfOrderError(InputError):
    """Lines whose order was believed are not in the order of their times."""


@dataclass
class Order:
    """Whether times are in order.

    Attributes:
        rises: a time was later than the one before it.
        last: the last time.
        latest: the latest time so far.
        late: how much earlier than the latest before it a time was, at most.
    """

    rises: bool = False
    last: int = NO_TIME
    latest: int = NO_TIME
    late: int = 0

    def add(self, times: pl.Series) -> None:
        """Take in the next times."""
        known = times.filter(times != NO_TIME).to_numpy()
        if len(known):
            steps = np.diff(known, prepend=known[0] if self.last == NO_TIME else self.last)
            latest = np.maximum(np.maximum.accumulate(known), self.latest)
            self.rises, self.late = self.rises or bool((steps > 0).any()), max(self.late, int((latest - known).max()))
            self.latest, self.last = int(latest[-1]), int(known[-1])

    @property
    def is_broken(self) -> bool:
        """A time is earlier than the one before it."""
        return self.late > 0

    @property
    def is_descending(self) -> bool:
        """The newest comes first."""
        return self.is_broken and not self.rises


def determine_name_orders(pieces: Iterable[pl.DataFrame]) -> dict[object, Order]:
    """The order of the rows of each name, in order of appearance; of rows with `name` and `time`."""
    order: dict[object, Order] = {}
    for piece in pieces:
        for (name,), rows in piece.group_by("name", maintain_order=True):
            order.setdefault(name, Order()).add(rows["time"])
    return order


def take_while_in_order(pieces: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Rows that are believed to be in the order of their times, while they are.

    Raises:
        OutOfOrderError: a row is earlier than the one before it.
    """
    order = Order()
    for piece in pieces:
        order.add(piece["time"])
        if order.is_broken:
            raise OutOfOrderError("the lines are not in the order of their times", hint="ingest again")
        yield piece


def sort_pieces_by_time(
    pieces: Iterator[pl.DataFrame], late: int, refusal: InputError, *, newest_first: bool
) -> Iterator[pl.DataFrame]:
    """The rows sorted by time, those of one time in the order of the file (from its end if it is newest first).

    A row without a time stays after the one before it. A row is held until none can come that is earlier.

    Args:
        pieces: the rows in the order of the file.
        late: how much earlier than one before it a row is at most.
        refusal: raised if more than 1 GiB of text would have to be held.
        newest_first: the file lists the newest row first.

    Raises:
        InputError: more than 1 GiB of text would have to be held.
    """
    import polars as pl

    held: pl.DataFrame | None = None
    last = latest = NO_TIME
    for piece in pieces:
        keyed = piece.with_columns(key=pl.col("time").replace(NO_TIME, None).forward_fill().fill_null(last))
        last, latest = int(keyed["key"][-1]), max(latest, int(keyed["key"].max()))  # type: ignore[arg-type] # integers
        held = keyed if held is None else pl.concat([held, keyed])
        done = 0 if newest_first else int((held["key"] <= max(latest - late, NO_TIME)).sum())
        if 2 * done >= held.height:
            held = _sort_rows_by_key(held, newest_first=newest_first)
            yield held.head(done)
            held = held[done:]
        if int(held["text"].cast(pl.Binary).bin.size().sum()) > HELD_BYTES:
            raise refusal
    if held is not None and held.height:
        yield _sort_rows_by_key(held, newest_first=newest_first)


def _sort_rows_by_key(rows: pl.DataFrame, *, newest_first: bool) -> pl.DataFrame:
    return (rows.reverse() if newest_first else rows).sort("key", maintain_order=True)


# Forms of stamps before lines, and the times that they stand for.

_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
_ZONE = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})"
_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY_NAME = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"

#: `2026-11-25T16:53:47.305Z`, `Nov 25 16:53:47`, `Wed 2026-11-25 16:53:47 UTC`, `00:00:03`, `1795625627.305123`
STAMP_PATTERN: Final = (
    rf"(?:{_DAY_NAME} )?[0-9]{{4}}[-/][0-9]{{2}}[-/][0-9]{{2}}[T ]{_CLOCK}(?: ?{_ZONE}| (?:UTC|[A-Z]{{1,4}}T)\b)?"
    rf"|(?:{_DAY_NAME} )?{_MONTH} [ 0-9][0-9] (?:[0-9]{{4}} )?{_CLOCK}"
    rf"|{_CLOCK}"
    r"|1[0-9]{9}(?:\.[0-9]{1,9})?\b"
)
_ISO: Final = re.compile(
    rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})[T ]([0-9:]{{8}})([.,][0-9]{{1,9}})?(?: ?({_ZONE})| UTC)?$"
)
_EPOCH: Final = re.compile(r"1[0-9]{9}(?:\.[0-9]{1,9})?")


def has_date(stamp: str) -> bool:
    """Whether a stamp has a year, month and day, or counts from 1970, so that two of them can be compared.

    Example:
        >>> has_date("2026-11-25 16:53:47"), has_date("Nov 25 16:53:47")
        (True, False)
    """
    return _EPOCH.fullmatch(stamp) is not None or _ISO.search(stamp) is not None


def time_of_stamp(stamp: str) -> datetime | None:
    """The time of a stamp with a date and a zone, or of seconds since 1970; None of all others.

    Example:
        >>> time_of_stamp("2026-11-25T17:53:47.305123456+01:00").isoformat()
        '2026-11-25T16:53:47.305123+00:00'
        >>> time_of_stamp("Nov 25 16:53:47") is None
        True
    """
    if _EPOCH.fullmatch(stamp):
        return datetime.fromtimestamp(float(stamp), UTC)
    found = _ISO.search(stamp)
    if found is None or not (found[4] or stamp.endswith("UTC")):
        return None
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2]}{found[3] or ''}{found[4] or 'Z'}").astimezone(UTC)
    except ValueError:
        return None
