"""Scanned chunks to pieces of tables: details tied, checkpoints collected; in the order of the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from citus_analysis.formats._base import Parsed, Reject, rejects_frame
from citus_analysis.formats.pglog._checkpoints import Checkpoints
from citus_analysis.formats.pglog._scan import Scanned
from citus_analysis.formats.pglog._ties import Ties
from citus_analysis.schema import TABLES

__all__ = ["pieces"]


def pieces(chunks: Iterable[Scanned]) -> Iterator[Parsed]:
    """One piece per scanned chunk; rejects that touch, across chunks too, become one."""
    table = TABLES["log_events"].parsed()
    ties, checkpoints = Ties(), Checkpoints()
    held: list[Reject] = []
    for scanned in chunks:
        frame = scanned.frame
        if "record_byte_offset" not in frame.columns:
            frame = frame.with_columns(ties.tie(frame))
        rejects = _joined(held, scanned.rejects)
        held = rejects[-1:]
        yield Parsed(
            {
                "log_events": table.conform(frame),
                "checkpoints": checkpoints.collect(frame),
            },
            parsed_bytes=scanned.parsed_bytes,
            noise_bytes=scanned.noise_bytes,
            rejects=rejects_frame(rejects[:-1]),
        )
    if held:
        yield Parsed({}, 0, rejects=rejects_frame(held))


def _joined(held: list[Reject], more: list[Reject]) -> list[Reject]:
    """The rejects in order; one that begins where the one held back ends is its continuation."""
    if held and more and held[0].byte_offset + held[0].byte_length == more[0].byte_offset:
        whole = held[0].byte_length + more[0].byte_length
        return [Reject(held[0].byte_offset, whole, held[0].reason, held[0].excerpt), *more[1:]]
    return [*held, *more]
