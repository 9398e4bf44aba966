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
from citus_analysis.formats.deliveries.lines import Lines
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


def recognise_sources(content: Content, archive: str = "") -> list[Recognised]:
    """The sources in a file; at least one, without a format if none knows the text.

    Args:
        content: the file.
        archive: kind of the archive that it is a member of.

    Raises:
        InputError: the file cannot be read.
    """
    delivery = Delivery(archive=archive, encoding=content.encoding)
    name, head = content.path.name, _head(content, delivery)
    format_, confidence = best_format(name, head)
    steps = () if confidence >= _CERTAIN else _steps(name, head)
    if not steps:
        return [Recognised(format_, delivery)]
    return [_recognised(content, own) for own in _of_each_name(content, replace(delivery, steps=steps))]


def _head(content: Content, delivery: Delivery) -> bytes:
    return delivery.head(content, HEAD_BYTES) if delivery.is_undone else content.head


def _steps(name: str, head: bytes) -> tuple[Step, ...]:
    """The steps after which a format knows the text; empty if there are none."""

    def knows(text: bytes) -> float:
        return best_format(name, text)[1]

    decoration = find_decoration(head, knows)
    return () if decoration is None else (decoration,)


def _undone(step: Step, head: bytes) -> bytes:
    whole = head[: head.rfind(b"\n") + 1] or head
    return b"".join(text.data for text in step.undo(iter([Lines.of_file(whole, 0)])))


def _of_each_name(content: Content, delivery: Delivery) -> Iterator[Delivery]:
    """A delivery for each host or container in a file."""
    for place, step in enumerate(delivery.steps):
        outer = replace(delivery, steps=delivery.steps[:place])
        names = step.names(outer.lines(content))
        if len(names) == 1:
            yield replace(delivery, node=names[0])
            return
        if names:
            for name in names:
                own = step.of(name, names)
                steps = (*delivery.steps[:place], own, *delivery.steps[place + 1 :])
                yield replace(delivery, steps=steps, name=name, node=name)
            return
    yield delivery


def _recognised(content: Content, delivery: Delivery) -> Recognised:
    return Recognised(best_format(content.path.name, _head(content, delivery))[0], delivery)
