"""Formats whose small sources are read several at once.

A query takes as long for the ten lines of a small file as for ten thousand, so that the queries of a file, and not its
bytes, cost the time. A format that implements :class:`JoinableFormat` reads many such files in one pass. It does so
only for files that it reads without any doubt: where something is rejected, the files are read one by one, by
:meth:`Format.parse`, which alone decides about damaged sources. The rows are the same in either case.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import numpy as np

from citus_analysis.core.array_types import Integers
from citus_analysis.errors import CitusAnalysisError
from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.schema import Rows

if TYPE_CHECKING:
    import polars as pl

__all__ = ["JOINED_BYTES", "JoinableFormat", "Joined", "parse_joined"]

#: Size of a source that is read together with others, at most.
JOINED_BYTES: Final = 2**18

#: One source alone would gain nothing.
_FEWEST: Final = 2
#: Sources of which each half is tried if one of them is not clean; fewer are then read alone.
_MANY: Final = 16

P = ParamSpec("P")
Result = TypeVar("Result")
Source = tuple[Content, Hints]


@dataclass(frozen=True)
class Joined:
    r"""Sources one after the other; each ends with a line end.

    Attributes:
        begins: where each source begins, and at the end where the last one ends.

    Example:
        >>> joined = Joined.of([b"a\nb\n", b"c\n"])
        >>> joined.begins.tolist(), joined.bounds(np.array([0, 2, 4])).tolist()
        ([0, 4, 6], [0, 2, 3])
    """

    data: bytes
    begins: Integers

    @classmethod
    def of(cls, sources: Sequence[bytes]) -> Joined:
        """The sources joined."""
        return cls(b"".join(sources), np.cumsum([0, *map(len, sources)]))

    @property
    def block(self) -> Block:
        """All sources as one block."""
        return Block(0, self.data, len(self.data))

    @cached_property
    def lengths(self) -> list[int]:
        """Bytes of each source."""
        return [int(length) for length in np.diff(self.begins)]

    def bounds(self, offsets: Integers) -> Integers:
        """For sorted offsets, the number of those before each source, and at the end of all."""
        return np.searchsorted(offsets, self.begins)

    def sources(self, offsets: Integers) -> Integers:
        """For offsets, the number of the source that each is in."""
        return np.searchsorted(self.begins, offsets, side="right") - 1

    def sums(self, offsets: Integers, values: Integers) -> list[int]:
        """The sum of values in each source; their offsets are sorted."""
        total = np.concatenate([[0], np.cumsum(values)])[self.bounds(offsets)]
        return [int(part) for part in np.diff(total)]

    def own_samples(self, rows: pl.DataFrame, begins: Integers) -> tuple[pl.DataFrame, Integers]:
        """Rows with `sample` and `byte_offset` counted from 0 in each source, and the number of the first row of each.

        Args:
            rows: in the order of `sample`, which like `byte_offset` is counted through all sources.
            begins: offsets of the first lines of the samples.
        """
        import polars as pl

        first = self.bounds(begins)
        bounds = np.searchsorted(rows["sample"].to_numpy(), first)
        own = rows["sample"] - pl.Series(np.repeat(first[:-1], np.diff(bounds)), dtype=rows.schema["sample"])
        offset = rows["byte_offset"] - pl.Series(np.repeat(self.begins[:-1], np.diff(bounds)))
        return rows.with_columns(sample=own, byte_offset=offset), bounds

    def divided(self, tables: Mapping[str, tuple[Rows, Integers]], lines: pl.DataFrame) -> list[Parsed]:
        """A piece for each source, if nothing is rejected.

        Args:
            tables: table -> the rows of all sources, and their bounds as of :meth:`Parsed.divided`.
            lines: `offset` and `length` of each line, and whether it is `noise`.
        """
        noise = self.sums(lines["offset"].to_numpy(), lines["length"].to_numpy() * lines["noise"].to_numpy())
        parsed = [length - own for length, own in zip(self.lengths, noise, strict=True)]
        together = Parsed({name: rows for name, (rows, _) in tables.items()}, sum(parsed), sum(noise))
        return together.divided({name: bounds for name, (_, bounds) in tables.items()}, parsed, noise)


class JoinableFormat(Format):
    """A format that reads several small sources in one pass."""

    @abstractmethod
    def kind(self, data: bytes, source: Source) -> Hashable | None:
        """Sources of an equal kind are joined: what the format has to know of a source before it reads its lines.

        Args:
            data: the source, which ends with a line end.
            source: where it comes from, and its options.

        Returns:
            the kind; None for a source that is read alone.

        Raises:
            CitusAnalysisError: it cannot be read.
        """

    @abstractmethod
    def parse_joined(self, joined: Joined, first: Source) -> list[Parsed] | None:
        """A piece for each source, with all of its rows; None if anything is rejected.

        Args:
            joined: sources of one kind.
            first: one of them.
        """


def parse_joined(format_: JoinableFormat, sources: Sequence[Source]) -> list[Parsed | None]:
    """The rows of sources that can be read together; None for a source that is to be read alone."""
    pieces: list[Parsed | None] = [None] * len(sources)
    kinds: dict[Hashable, list[tuple[int, bytes]]] = {}
    for place, source in enumerate(sources):
        data = _whole(source[0])
        if data is not None and (kind := _unless_defect(format_.kind, data, source)) is not None:
            kinds.setdefault(kind, []).append((place, data))
    for members in kinds.values():
        for (place, data), piece in _divided(format_, members, sources):
            if piece.parsed_bytes + piece.noise_bytes == len(data):
                pieces[place] = piece
    return pieces


def _divided(
    format_: JoinableFormat, members: Sequence[tuple[int, bytes]], sources: Sequence[Source]
) -> Iterator[tuple[tuple[int, bytes], Parsed]]:
    """The pieces of sources of one kind; where one of many is not clean, its half is left out."""
    if len(members) < _FEWEST:
        return
    joined = Joined.of([data for _, data in members])
    found = _unless_defect(format_.parse_joined, joined, sources[members[0][0]])
    if found is not None:
        yield from zip(members, found, strict=True)
    elif len(members) >= _MANY:
        half = len(members) // 2
        yield from _divided(format_, members[:half], sources)
        yield from _divided(format_, members[half:], sources)


def _unless_defect(function: Callable[P, Result | None], *arguments: P.args, **options: P.kwargs) -> Result | None:
    """The result; None after an error: which source is at fault, and how, is found by reading each alone."""
    try:
        return function(*arguments, **options)
    except Exception:  # noqa: BLE001 - as where a source is read alone
        return None


def _whole(content: Content) -> bytes | None:
    """All bytes of a small source of plain lines of ASCII; None for others, and for damaged ones."""
    try:
        data = content.read(JOINED_BYTES)
    except CitusAnalysisError:
        return None
    # A mark at the beginning of a text, and characters that are replaced, are matters of a single source.
    return data if data.endswith(b"\n") and data.isascii() else None
