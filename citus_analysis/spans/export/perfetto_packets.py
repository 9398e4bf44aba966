"""Traces in Perfetto's own format: protobuf packets, about a quarter of the bytes of JSON, written in bounded memory.

One process per node, one thread per backend, as in JSON. Slices of a thread must nest; tasks of statements with several
tasks overlap, so each of a statement's tasks has a track of its own below the thread (the n-th tasks of all statements
share one). Arrows lead from a task to its remote execution: both name the same flow.

Backends are independent of each other, so the spans come in groups of backends, and one group is in memory at a time.
The reader sorts events by time and leaves those of equal times in the order of the file. Within a group the ends
therefore come first, the innermost before the outer, and then the beginnings, the outermost first.

Source: the definitions of `TracePacket`, `TrackEvent`, `TrackDescriptor`, `DebugAnnotation` and `InternedData` in
Perfetto's `protos/perfetto/trace`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from citus_analysis.spans.export import wire
from citus_analysis.spans.export.hexadecimal import hexadecimal

if TYPE_CHECKING:
    from gzip import GzipFile

#: Files with these suffixes are written as packets.
PACKET_SUFFIXES: Final = (".pftrace", ".perfetto-trace")

_PACKET, _INTERNED, _TRACK_EVENT, _DESCRIPTOR = 1, 12, 11, 60
_TIMESTAMP, _SEQUENCE, _FLAGS = 8, 10, 13
#: All packets form one sequence; its first packet begins the tables of texts, which all others need.
_ON_SEQUENCE: Final = wire.field(_SEQUENCE, 1)
_FIRST, _LATER = wire.field(_FLAGS, 1), wire.field(_FLAGS, 2)

_CATEGORY, _ANNOTATION, _TYPE, _NAME, _TRACK, _FLOW = 3, 4, 9, 10, 11, 47
_BEGIN, _END, _INSTANT = 1, 2, 3
#: Field of `InternedData` for each kind of text.
_CATEGORIES, _NAMES, _KEYS, _TEXTS = 1, 2, 3, 29
_TIME_BYTES, _ID_BYTES, _NUMBER_BYTES = 9, 5, 10
#: Tracks of one backend: the thread, and one for each task that a statement may have.
_LANES: Final = 2**14
_CHUNK: Final = 100_000

#: Annotation -> its kind: number, real, flag, text (kept once) or hexadecimal digits.
_ANNOTATIONS: Final = {
    "trace_id": "digits",
    "shard_id": "number",
    "gpid": "number",
    "match": "text",
    "executed": "text",
    "failed": "flag",
    "includes_commit": "flag",
    "duration_us": "real",
    "log_end_time_us": "number",
    "source_id": "text",
    "byte_offset": "number",
}


#: The target of bytes: a file, or a compressor that writes to a file.
Sink: TypeAlias = "IO[bytes] | GzipFile"


@dataclass
class _Texts:
    """Numbers of texts, by which packets name them."""

    _known: dict[int, dict[str, int]] = field(default_factory=dict)
    _new: list[bytes] = field(default_factory=list)

    def numbers(self, kind: int, texts: pl.Series) -> npt.NDArray[np.uint64]:
        """The number of each text; new ones are kept for the next packet of texts."""
        known = self._known.setdefault(kind, {})
        for text in texts.unique(maintain_order=True).to_list():
            if text not in known:
                known[text] = len(known) + 1
                self._new.append(wire.field(kind, wire.field(1, known[text]) + wire.field(2, text.encode())))
        return texts.replace_strict(known, return_dtype=pl.UInt64).to_numpy()

    def packet(self, flags: bytes) -> bytes:
        """The texts that no packet has named yet."""
        new, self._new = self._new, []
        return _packet(_ON_SEQUENCE + flags + wire.field(_INTERNED, b"".join(new)))


def write_packets(out: Sink, backends: pl.DataFrame, groups: Iterable[pl.DataFrame], linked: pl.Series) -> int:
    """Write a trace.

    Args:
        out: target of the bytes.
        backends: `node`, `pid`, their numbers `process` and `thread`, `gpid` and `child` (whether it ran tasks of
            others) of each backend.
        groups: spans of some backends at a time, each backend whole, placed and labelled.
        linked: ids of tasks whose remote execution is among the spans.

    Returns:
        Number of events written.
    """
    texts = _Texts()
    keys = dict(zip(_ANNOTATIONS, texts.numbers(_KEYS, pl.Series(list(_ANNOTATIONS))).tolist(), strict=True))
    out.write(texts.packet(_FIRST))
    out.write(b"".join(_descriptors(backends)))
    written = 0
    lanes = set[int]()
    for placed in groups:
        events = _events(placed, linked)
        del placed
        for lane in events.filter(pl.col("lane") > 0)["uuid"].unique().sort().to_list():
            if lane not in lanes:
                lanes.add(lane)
                # The track of the n-th tasks of a backend's statements.
                name = wire.field(2, f"task {lane % _LANES}".encode())
                out.write(_described(wire.field(1, lane) + name + wire.field(5, lane - lane % _LANES)))
        written += _write(out, events, texts, keys)
        del events  # Before the next spans are read.
    return written


def _write(out: Sink, events: pl.DataFrame, texts: _Texts, keys: dict[str, int]) -> int:
    """Write events; return the number of their packets."""
    written = 0
    for kind, frame in _in_order(events):
        for chunk in frame.iter_slices(_CHUNK):
            out.write(_encoded(chunk, kind, texts, keys))
            written += chunk.height
    return written


def _descriptors(backends: pl.DataFrame) -> Iterator[bytes]:
    for process, node in backends.select("process", "node").unique().sort("process").rows():
        described = wire.field(1, process) + wire.field(6, f"node {node}".encode())
        yield _described(wire.field(1, process) + wire.field(3, described))
    for row in backends.iter_rows(named=True):
        name = f"{'child of ' + str(row['gpid']) if row['child'] else 'session'} [{row['pid']}]"
        thread = wire.field(1, row["process"]) + wire.field(2, row["thread"]) + wire.field(5, name.encode())
        yield _described(wire.field(1, row["thread"] * _LANES) + wire.field(4, thread))


def _described(descriptor: bytes) -> bytes:
    return _packet(_ON_SEQUENCE + wire.field(_DESCRIPTOR, descriptor))


def _packet(body: bytes) -> bytes:
    return wire.field(_PACKET, body)


def _events(placed: pl.DataFrame, linked: pl.Series) -> pl.DataFrame:
    """Slices with times in nanoseconds, tracks and annotations."""
    nth = pl.int_range(1, pl.len() + 1).over("trace_id", "thread", order_by="begin")
    remote = pl.when(pl.col("kind") == "remote").then("parent_span_id")
    return placed.with_columns(
        lane=pl.when("overlaps").then(nth.clip(upper_bound=_LANES - 1)).otherwise(0)
    ).with_columns(
        uuid=pl.col("thread") * _LANES + pl.col("lane"),
        begin_ns=_nanoseconds("begin"),
        end_ns=_nanoseconds("end"),
        depth=pl.col("kind").cast(pl.String).replace_strict({"statement": 0, "remote": 0, "phase": 1}, default=2),
        flow=pl.when(pl.col("span_id").is_in(linked.implode())).then("span_id").otherwise(remote),
        trace_id=hexadecimal("trace_id"),
        log_end_time_us=pl.col("end_time").to_physical(),
    )


def _nanoseconds(column: str) -> pl.Expr:
    """Microseconds as whole nanoseconds, in two parts, because a single product would be rounded to 256 ns."""
    whole = pl.col(column).floor()
    return (whole.cast(pl.Int64) * 1000 + ((pl.col(column) - whole) * 1000).round().cast(pl.Int64)).cast(pl.UInt64)


def _in_order(events: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """Ends, beginnings and moments, in the order that the reader keeps for equal times."""
    lasts = (pl.col("kind") != "local") & (pl.col("end_ns") > pl.col("begin_ns"))
    slices = events.filter(lasts)
    depths = slices["depth"].unique().sort().to_list()
    for depth in reversed(depths):
        yield _END, slices.filter(pl.col("depth") == depth)
    for depth in depths:
        yield _BEGIN, slices.filter(pl.col("depth") == depth)
    yield _INSTANT, events.filter(~lasts)


def _encoded(chunk: pl.DataFrame, kind: int, texts: _Texts, keys: dict[str, int]) -> bytes:
    """The packets of some events, after one with the texts that are new in them."""
    if kind == _END:
        return wire.messages(_event(chunk, kind, []), chunk.height)
    optional = ["flow", *_ANNOTATIONS]
    known = chunk.select(pl.col(name).is_not_null().cast(pl.UInt32) * 2**i for i, name in enumerate(optional))
    shapes = chunk.with_columns(shape=known.sum_horizontal()).partition_by("shape", maintain_order=True)
    encoded: list[bytes] = []
    for shape in shapes:
        pieces: list[wire.Piece] = [
            *wire.repeated_field(_CATEGORY, texts.numbers(_CATEGORIES, shape["kind"].cast(pl.String)), _ID_BYTES),
            *wire.repeated_field(_NAME, texts.numbers(_NAMES, shape["label"]), _ID_BYTES),
        ]
        if shape["flow"][0] is not None:
            pieces += [wire.tag(_FLOW, wire.FIXED64), _fixed(shape["flow"].to_numpy())]
        for name, of_kind in _ANNOTATIONS.items():
            if shape[name][0] is not None:
                value = _VALUES[of_kind](shape[name], texts)
                pieces += wire.length_delimited(_ANNOTATION, [wire.field(1, keys[name]), *value])
        encoded.append(wire.messages(_event(shape, kind, pieces), shape.height))
    return b"".join([texts.packet(_LATER), *encoded])


def _event(chunk: pl.DataFrame, kind: int, pieces: list[wire.Piece]) -> list[wire.Piece]:
    times = chunk["end_ns" if kind == _END else "begin_ns"].to_numpy()
    tracks = wire.repeated_field(_TRACK, chunk["uuid"].cast(pl.UInt64).to_numpy(), _ID_BYTES)
    event = wire.length_delimited(_TRACK_EVENT, [wire.field(_TYPE, kind), *tracks, *pieces])
    stamped = wire.repeated_field(_TIMESTAMP, times, _TIME_BYTES)
    return wire.length_delimited(_PACKET, [*stamped, _ON_SEQUENCE + _LATER, *event])


def _fixed(numbers: npt.NDArray[np.uint64] | npt.NDArray[np.float64]) -> wire.Bytes:
    """Numbers as 8 bytes each, the lowest byte first."""
    ordered = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder("<"))
    return ordered.view(np.uint8).reshape(len(numbers), 8)


def _digits(values: pl.Series, _: _Texts) -> list[wire.Piece]:
    data = np.frombuffer("".join(values.to_list()).encode("ascii"), np.uint8)
    return wire.length_delimited(6, [data.reshape(len(values), -1)])


_VALUES: Final[dict[str, Callable[[pl.Series, _Texts], list[wire.Piece]]]] = {
    "number": lambda values, _: wire.repeated_field(4, values.cast(pl.Int64).to_numpy().view(np.uint64), _NUMBER_BYTES),
    "real": lambda values, _: [wire.tag(5, wire.FIXED64), _fixed(values.to_numpy())],
    "flag": lambda values, _: wire.repeated_field(2, values.cast(pl.UInt64).to_numpy(), 1),
    "text": lambda values, texts: wire.repeated_field(17, texts.numbers(_TEXTS, values), _ID_BYTES),
    "digits": _digits,
}
