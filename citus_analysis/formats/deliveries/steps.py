"""One step of a delivery: a property of a text that stands between its lines and the lines that a tool wrote."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from citus_analysis.formats.deliveries.placed_lines import Lines

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

    def believing(self, *, ordered: bool) -> Step:
        """The same step, whose lines are believed to be in order, or not."""
        return replace(self, believed=ordered)  # type: ignore[type-var]

    @property
    @abstractmethod
    def words(self) -> str:
        """What people call it, for `sources.delivery`: `Docker JSON`, `lines stamped by ts`."""

    @abstractmethod
    def undo(self, texts: Iterator[Lines], jobs: int = 1) -> Iterator[Lines]:
        """The lines without this step.

        Lines that do not have the step's form are handed on unchanged, so that the format that reads the text decides
        about them. Undoing any run of whole lines (whole records) of the file gives the lines made of these, so that
        one record can be looked up later.

        Args:
            texts: stretches of lines, in the order of the file.
            jobs: threads that may work on them; stretches are then read in advance.
        """

    def undone_head(self, head: bytes) -> bytes:
        """The beginning of a text without this step; a last line that may be cut is left out."""
        whole = head[: head.rfind(b"\n") + 1] or head
        return b"".join(text.data for text in self.undo(iter([Lines.of_file(whole, 0)])))

    @property
    @abstractmethod
    def is_named(self) -> bool:
        """Whether it names hosts, pods or containers, so that :meth:`views` may find several."""

    @property
    def of_node(self) -> str | None:
        """The host, pod or container whose lines are kept; None if all lines are, or the name is of something else."""
        return self.only

    @abstractmethod
    def views(self, texts: Iterator[Lines], jobs: int = 1) -> Sequence[Step]:
        """What is in a text: one step for each host, pod or container that it names, in the order of their first lines.

        Lines without a name go to the first one.

        Args:
            texts: stretches of the whole file.
            jobs: threads that may work on them.
        """
