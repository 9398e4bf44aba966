"""Formats whose sources can be cut, so that several processes read one large source at the same time.

A source is cut where records begin, and each split is read by itself. Offsets count from the beginning of the source,
so rows do not depend on the cuts. Results that depend on other splits are kept in a :class:`Seam`: records that
become rows only together with those of other splits, and the number of rows that are counted through the source.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.format import Format, Hints, Parsed

#: Bytes at the beginning of a source, and before a split, that may be examined to read the split.
HEAD_BYTES_NEEDED: Final = 2 * 2**20
LOOK_BACK_BYTES: Final = 2**20


@dataclass
class Seam:
    """Facts of a split of a source that depend on the others; filled while the split is parsed.

    Attributes:
        alone: the split yields the same rows as in the whole source; otherwise the source must be read in one piece.
        laid_aside: records that become rows only together with those of other splits, as Arrow streams.
        numbered: number of rows that are counted through the source.
    """

    alone: bool = True
    laid_aside: list[bytes] = field(default_factory=list)
    numbered: int = 0


class CuttableFormat(Format):
    """A format whose uncompressed sources can be read in splits."""

    @abstractmethod
    def cuts(self, content: Content, hints: Hints, split_bytes: int) -> list[int]:
        """Offsets at which splits of about `split_bytes` may begin, in order, without the first split.

        Raises:
            FormatError: the bytes are not of this format at all.
            InputError: the file cannot be read.
        """

    @abstractmethod
    def parse_split(self, content: Content, hints: Hints, seam: Seam) -> Iterator[Parsed]:
        """The tables of a split, as :meth:`parse` yields them for a whole source.

        Args:
            content: with the beginning and end of the split.
            hints: facts about the file.
            seam: facts that depend on other splits are added to it.
        """

    @abstractmethod
    def parse_numbered(self, content: Content, hints: Hints, first: int) -> Iterator[Parsed]:
        """The rows of a split that are counted through the source; other bytes count as noise.

        Args:
            content: with the beginning and end of the split.
            hints: facts about the file.
            first: number of such rows in the splits before.
        """

    @abstractmethod
    def parse_together(self, seams: Sequence[Seam]) -> Iterator[Parsed]:
        """The rows that depend on several splits, from the seams of all splits in order."""
