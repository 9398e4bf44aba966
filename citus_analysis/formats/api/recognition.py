"""The sources in a file: how the text of each stands in it, and the format that reads the text.

A format that knows a file as it is wins. Otherwise the file's delivery is undone as far as the text of some format
appears: first exports of log services, then decorated lines, one inside the other where need be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from citus_analysis.formats.api.format import Format
from citus_analysis.formats.api.registry import best_format
from citus_analysis.formats.deliveries.common_beginnings import find_decoration
from citus_analysis.formats.deliveries.delivery import Delivery
from citus_analysis.formats.deliveries.steps import Step
from citus_analysis.formats.sources.content import HEAD_BYTES, Content

__all__ = ["Recognised", "recognise_sources"]

#: A format that is this sure of a text reads it as it is.
_CERTAIN: Final = 0.9


@dataclass(frozen=True)
class Recognised:
    """A source in a file.

    Attributes:
        format: the format of its text; None if no format knows it.
        delivery: how the text stands in the file.
        began: time of its first line, if its delivery says so.
        ended: time of its last line.
    """

    format: Format | None
    delivery: Delivery = field(default_factory=Delivery)
    began: datetime | None = None
    ended: datetime | None = None


def recognise_sources(content: Content, forced: Format | None = None) -> list[Recognised]:
    """The sources in a file; at least one, without a format if none knows the text.

    Args:
        content: the file.
        forced: read all of them as this format; only their delivery is recognised.

    Raises:
        InputError: the file cannot be read.
    """
    delivery = Delivery(encoding=content.encoding)
    text = _Text(content.path.name, forced)
    head = text.head(content, delivery)
    format_, confidence = text.best(head)
    steps = () if confidence >= _CERTAIN else text.steps(head)
    if not steps:
        return [Recognised(forced or format_, delivery)]
    delivered = _of_each_name(content, replace(delivery, steps=steps))
    return [Recognised(forced or text.best(text.head(content, own))[0], own) for own in delivered]


@dataclass(frozen=True)
class _Text:
    """Recognises the text of one file."""

    name: str
    forced: Format | None

    def head(self, content: Content, delivery: Delivery) -> bytes:
        return delivery.head(content, HEAD_BYTES) if delivery.is_undone else content.head

    def best(self, head: bytes) -> tuple[Format | None, float]:
        """The format of a text, and its confidence."""
        if self.forced is not None:
            return self.forced, self.forced.detect(self.name, head)
        return best_format(self.name, head)

    def steps(self, head: bytes) -> tuple[Step, ...]:
        """The steps after which a format knows the text; empty if there are none."""
        decoration = find_decoration(head, lambda text: self.best(text)[1])
        return () if decoration is None else (decoration,)


def _of_each_name(content: Content, delivery: Delivery) -> Iterator[Delivery]:
    """A delivery for each host or container in a file."""
    for place, step in enumerate(delivery.steps):
        outer = replace(delivery, steps=delivery.steps[:place])
        names = step.names(outer.lines(content))
        if len(names) == 1:
            yield replace(delivery, node=names[0])
            return
        for name in names:
            steps = (*delivery.steps[:place], step.of(name, names), *delivery.steps[place + 1 :])
            yield replace(delivery, steps=steps, name=name, node=name)
        if names:
            return
    yield delivery
