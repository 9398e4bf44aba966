"""Links between the pieces of a pass: the tasks of each execution, and the owners of child executions.

Tasks are paired group by group, and statements are built piece by piece. In between, the links of many groups are laid
aside, divided into stretches of pieces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.spans.read.divided import Bring, Keep
from citus_analysis.spans.read.streamed import Piece

#: Pairs of tasks with children, owners of children, links of statements with children without a task.
LinkFrames = Sequence[pl.DataFrame]

#: Most rows in memory before they are laid aside, and pieces of a stretch: some 50 MB each.
MOST_ROWS: Final = 200_000
STRETCH_PIECES: Final = 8


class PieceLinks:
    """The links of all pieces, each frame by execution.

    Args:
        pieces: all pieces, in order.
        keep: lays arrays aside; None: they stay in memory.
    """

    def __init__(self, pieces: Sequence[Piece], keep: Keep | None) -> None:
        self._pieces = pieces
        self._at_once = len(pieces) if keep is None else STRETCH_PIECES
        ends = [pieces[number].first for number in range(self._at_once, len(pieces), self._at_once)]
        self._kinds = tuple(_ByExecution(ends, keep) for _ in range(3))

    def add(self, frames: LinkFrames) -> None:
        """Add links of some executions."""
        for kind, frame in zip(self._kinds, frames, strict=True):
            kind.add(frame)

    def by_piece(self) -> Iterator[tuple[Piece, LinkFrames]]:
        """Each piece with its links; can be called once."""
        for stretch, begin in enumerate(range(0, len(self._pieces), self._at_once)):
            frames = [kind.stretch(stretch) for kind in self._kinds]
            for piece in self._pieces[begin : begin + self._at_once]:
                ends = piece.first, piece.first + piece.count
                places = (np.searchsorted(frame["execution"].to_numpy(), ends).tolist() for frame in frames)
                yield piece, [frame[begin:end] for frame, (begin, end) in zip(frames, places, strict=True)]


@dataclass
class _ByExecution:
    """Rows of one kind.

    Args:
        ends: the first execution after each stretch but the last.
        keep: as in :class:`PieceLinks`.
    """

    ends: Sequence[int]
    keep: Keep | None
    _waiting: list[pl.DataFrame] = field(default_factory=list)
    _aside: defaultdict[int, list[Bring]] = field(default_factory=lambda: defaultdict(list))
    _none: pl.DataFrame = field(default_factory=pl.DataFrame)

    def add(self, rows: pl.DataFrame) -> None:
        self._none = rows.clear()
        self._waiting.append(rows)
        if self.keep is not None and sum(frame.height for frame in self._waiting) >= MOST_ROWS:
            self._lay_aside(self.keep)

    def _lay_aside(self, keep: Keep) -> None:
        rows = self._waited()
        ends = np.searchsorted(rows["execution"].to_numpy(), self.ends).tolist()
        for stretch, (begin, end) in enumerate(pairwise([0, *ends, rows.height])):
            if end > begin:
                stream = BytesIO()
                rows[begin:end].write_ipc_stream(stream)
                self._aside[stretch].append(keep({"rows": np.frombuffer(stream.getbuffer(), np.uint8)}))

    def _waited(self) -> pl.DataFrame:
        rows, self._waiting = _by_execution([self._none, *self._waiting]), []
        return rows

    def stretch(self, number: int) -> pl.DataFrame:
        """The rows of a stretch, by execution."""
        if self.keep is None:
            return self._waited()
        if self._waiting:
            self._lay_aside(self.keep)
        laid = self._aside.pop(number, [])
        return _by_execution([self._none, *(pl.read_ipc_stream(bring()["rows"].tobytes()) for bring in laid)])


def _by_execution(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    rows = pl.concat(frames)
    return rows if rows["execution"].is_sorted() else rows.sort("execution", maintain_order=True)
