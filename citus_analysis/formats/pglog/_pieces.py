"""Scanned chunks to pieces of tables.

Whatever a chunk tells alone is prepared by the thread that scanned it; what needs the order of the source (details
tied to their records, checkpoints brought together, rejects joined) is left for the one that writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from citus_analysis.formats._base import Parsed, Reject, rejects_frame
from citus_analysis.formats.pglog._checkpoints import Checkpoints, checkpoint_records
from citus_analysis.formats.pglog._scan import Scanned
from citus_analysis.formats.pglog._ties import Ties, Tying
from citus_analysis.formats.pglog._times import to_utc
from citus_analysis.schema import TABLES

__all__ = ["Prepared", "pieces", "prepared"]

_TABLE: Final = TABLES["log_events"].parsed()


@dataclass(frozen=True)
class Prepared:
    """A scanned chunk with all that it tells alone.

    Attributes:
        scanned: rejects and bytes.
        frame: the rows of `log_events`, `record_byte_offset` still null where details are to be tied.
        checkpoints: the records about checkpoints.
        tying: what details are tied by; None where the format itself ties them.
    """

    scanned: Scanned
    frame: pl.DataFrame
    checkpoints: pl.DataFrame
    tying: Tying | None


def prepared(scanned: Scanned, server: ZoneInfo | None) -> Prepared:
    """A scanned chunk made ready, given the server's time zone where it is known."""
    found = scanned.frame
    log_time = to_utc(found.get_column("clock"), found.get_column("zone"), server).alias("log_time")
    frame = _TABLE.conform(found.drop("clock", "zone").with_columns(log_time))
    tying = None if "record_byte_offset" in found.columns else Tying.of(frame)
    return Prepared(scanned, frame, checkpoint_records(frame), tying)


def pieces(chunks: Iterable[Prepared]) -> Iterator[Parsed]:
    """One piece per chunk, which must come in order; rejects that touch, across chunks too, become one."""
    ties, checkpoints = Ties(), Checkpoints()
    held: list[Reject] = []
    for chunk in chunks:
        frame, scanned = chunk.frame, chunk.scanned
        if chunk.tying is not None:
            frame = frame.with_columns(ties.tie(chunk.tying))
        rejects = _joined(held, scanned.rejects)
        held = rejects[-1:]
        yield Parsed(
            {"log_events": frame, "checkpoints": checkpoints.collect(chunk.checkpoints)},
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
