"""Traces that the Perfetto UI opens: its own packets, or Chrome trace events, which chrome://tracing opens as well.

Both are written in bounded memory, one group of backends at a time.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from citus_analysis.core.output_files import open_output
from citus_analysis.spans.identifiers import make_hexadecimal_expr
from citus_analysis.spans.span_layout import ExportCount, lay_out, select_timed_spans

if TYPE_CHECKING:
    from gzip import GzipFile

# Encode many protobuf messages of one shape at a time: columns of numbers in, bytes out.
#
# Numbers are written as varints of a fixed width, which the encoding allows (every byte but the last says that another
# follows). All messages of one shape are then equally long, so that a column of numbers becomes columns of bytes,
# without a loop over messages. Perfetto's own writer pads the lengths of messages in the same way.
#
# Source: Protocol Buffers, Encoding (https://protobuf.dev/programming-guides/encoding/).

#: Bytes of many messages: one row a message.
Bytes = npt.NDArray[np.uint8]
#: A sequence of bytes that is equal in all messages, or has the same length in each.
Piece = bytes | Bytes

#: Types of fields.
VARINT, FIXED64, LENGTH = range(3)
_BITS: Final = 7
_MORE: Final = 0x80


def encode_varint(number: int) -> bytes:
    """A number in as few bytes as it takes.

    Example:
        >>> encode_varint(300).hex()
        'ac02'
    """
    encoded = bytearray()
    while number >= _MORE:
        encoded.append(number & (_MORE - 1) | _MORE)
        number >>= _BITS
    return bytes([*encoded, number])


def encode_varints(numbers: npt.NDArray[np.uint64], bytes_each: int) -> Bytes:
    """Numbers as varints of `bytes_each` bytes each.

    Example:
        >>> encode_varints(np.array([1, 300], np.uint64), 3).tolist()
        [[129, 128, 0], [172, 130, 0]]
    """
    shifts = np.arange(0, _BITS * bytes_each, _BITS, dtype=np.uint64)
    digits = ((numbers[:, None] >> shifts) & np.uint64(_MORE - 1)).astype(np.uint8)
    digits[:, :-1] |= _MORE
    return digits


def tag(number: int, wire_type: int) -> bytes:
    """The key before a field."""
    return encode_varint(number << 3 | wire_type)


def encode_field(number: int, value: int | bytes) -> bytes:
    """A field with one value.

    Example:
        >>> encode_field(9, 1).hex(), encode_field(2, b"ab").hex()
        ('4801', '12026162')
    """
    if isinstance(value, int):
        return tag(number, VARINT) + encode_varint(value)
    return tag(number, LENGTH) + encode_varint(len(value)) + value


def encode_repeated_field(number: int, values: npt.NDArray[np.uint64], bytes_each: int) -> list[Piece]:
    """A field with a number of its own in each message."""
    return [tag(number, VARINT), encode_varints(values, bytes_each)]


def measure_message_lengths(pieces: Sequence[Piece]) -> int:
    """Length of each message that these pieces make."""
    return sum(len(piece) if isinstance(piece, bytes) else piece.shape[1] for piece in pieces)


def encode_length_delimited(number: int, pieces: Sequence[Piece]) -> list[Piece]:
    """A field that contains a message made of pieces."""
    return [tag(number, LENGTH) + encode_varint(measure_message_lengths(pieces)), *pieces]


def concatenate_messages(pieces: Sequence[Piece], rows: int) -> bytes:
    """The messages that the pieces make, one after the other."""
    out = np.empty((rows, measure_message_lengths(pieces)), dtype=np.uint8)
    at = 0
    for piece in pieces:
        each = np.frombuffer(piece, np.uint8) if isinstance(piece, bytes) else piece
        out[:, at : at + each.shape[-1]] = each
        at += each.shape[-1]
    return out.tobytes()


# Traces in Perfetto's own format: protobuf packets, about a quarter of the bytes of JSON, written in bounded memory.
#
# One process per node, one thread per backend, as in JSON. Slices of a thread must nest; tasks of statements with
# several tasks overlap, so each of a statement's tasks has a track of its own below the thread (the n-th tasks of all
# statements share one). Arrows lead from a task to its remote execution: both name the same flow.
#
# Backends are independent of each other, so the spans come in groups of backends, and one group is in memory at a time.
# The reader sorts events by time and leaves those of equal times in the order of the file. Within a group the ends
# therefore come first, the innermost before the outer, and then the beginnings, the outermost first.
#
# Source: the definitions of `TracePacket`, `TrackEvent`, `TrackDescriptor`, `DebugAnnotation` and `InternedData` in
# Perfetto's `protos/perfetto/trace`.

#: Files with these suffixes are written as packets.
PACKET_SUFFIXES: Final = (".pftrace", ".perfetto-trace")

_PACKET, _INTERNED, _TRACK_EVENT, _DESCRIPTOR = 1, 12, 11, 60
_TIMESTAMP, _SEQUENCE, _FLAGS = 8, 10, 13
#: All packets form one sequence; its first packet begins the tables of texts, which all others need.
_ON_SEQUENCE: Final = encode_field(_SEQUENCE, 1)
_FIRST, _LATER = encode_field(_FLAGS, 1), encode_field(_FLAGS, 2)

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
class _InternedTexts:
    """Numbers of texts, by which packets name them."""

    _known: dict[int, dict[str, int]] = field(default_factory=dict)
    _new: list[bytes] = field(default_factory=list)

    def numbers(self, kind: int, texts: pl.Series) -> npt.NDArray[np.uint64]:
        """The number of each text; new ones are kept for the next packet of texts."""
        known = self._known.setdefault(kind, {})
        for text in texts.unique(maintain_order=True).to_list():
            if text not in known:
                known[text] = len(known) + 1
                self._new.append(encode_field(kind, encode_field(1, known[text]) + encode_field(2, text.encode())))
        return texts.replace_strict(known, return_dtype=pl.UInt64).to_numpy()

    def packet(self, flags: bytes) -> bytes:
        """The texts that no packet has named yet."""
        new, self._new = self._new, []
        return _encode_packet(_ON_SEQUENCE + flags + encode_field(_INTERNED, b"".join(new)))


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
    texts = _InternedTexts()
    keys = dict(zip(_ANNOTATIONS, texts.numbers(_KEYS, pl.Series(list(_ANNOTATIONS))).tolist(), strict=True))
    out.write(texts.packet(_FIRST))
    out.write(b"".join(_encode_descriptors(backends)))
    written = 0
    lanes = set[int]()
    for placed in groups:
        events = _build_slice_rows(placed, linked)
        del placed
        for lane in events.filter(pl.col("lane") > 0)["uuid"].unique().sort().to_list():
            if lane not in lanes:
                lanes.add(lane)
                # The track of the n-th tasks of a backend's statements.
                name = encode_field(2, f"task {lane % _LANES}".encode())
                out.write(
                    _encode_descriptor_packet(encode_field(1, lane) + name + encode_field(5, lane - lane % _LANES))
                )
        written += _write(out, events, texts, keys)
        del events  # Before the next spans are read.
    return written


def _write(out: Sink, events: pl.DataFrame, texts: _InternedTexts, keys: dict[str, int]) -> int:
    """Write events; return the number of their packets."""
    written = 0
    for kind, frame in _iterate_ordered_events(events):
        for chunk in frame.iter_slices(_CHUNK):
            out.write(_encode_event_packets(chunk, kind, texts, keys))
            written += chunk.height
    return written


def _encode_descriptors(backends: pl.DataFrame) -> Iterator[bytes]:
    for process, node in backends.select("process", "node").unique().sort("process").rows():
        described = encode_field(1, process) + encode_field(6, f"node {node}".encode())
        yield _encode_descriptor_packet(encode_field(1, process) + encode_field(3, described))
    for row in backends.iter_rows(named=True):
        name = f"{'child of ' + str(row['gpid']) if row['child'] else 'session'} [{row['pid']}]"
        thread = encode_field(1, row["process"]) + encode_field(2, row["thread"]) + encode_field(5, name.encode())
        yield _encode_descriptor_packet(encode_field(1, row["thread"] * _LANES) + encode_field(4, thread))


def _encode_descriptor_packet(descriptor: bytes) -> bytes:
    return _encode_packet(_ON_SEQUENCE + encode_field(_DESCRIPTOR, descriptor))


def _encode_packet(body: bytes) -> bytes:
    return encode_field(_PACKET, body)


def _build_slice_rows(placed: pl.DataFrame, linked: pl.Series) -> pl.DataFrame:
    """Slices with times in nanoseconds, tracks and annotations."""
    nth = pl.int_range(1, pl.len() + 1).over("trace_id", "thread", order_by="begin")
    remote = pl.when(pl.col("kind") == "remote").then("parent_span_id")
    return placed.with_columns(
        lane=pl.when("overlaps").then(nth.clip(upper_bound=_LANES - 1)).otherwise(0)
    ).with_columns(
        uuid=pl.col("thread") * _LANES + pl.col("lane"),
        begin_ns=_make_nanoseconds_expr("begin"),
        end_ns=_make_nanoseconds_expr("end"),
        depth=pl.col("kind").cast(pl.String).replace_strict({"statement": 0, "remote": 0, "phase": 1}, default=2),
        flow=pl.when(pl.col("span_id").is_in(linked.implode())).then("span_id").otherwise(remote),
        trace_id=make_hexadecimal_expr("trace_id"),
        log_end_time_us=pl.col("end_time").to_physical(),
    )


def _make_nanoseconds_expr(column: str) -> pl.Expr:
    """Microseconds as whole nanoseconds, in two parts, because a single product would be rounded to 256 ns."""
    whole = pl.col(column).floor()
    return (whole.cast(pl.Int64) * 1000 + ((pl.col(column) - whole) * 1000).round().cast(pl.Int64)).cast(pl.UInt64)


def _iterate_ordered_events(events: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """Ends, beginnings and moments, in the order that the reader keeps for equal times."""
    lasts = (pl.col("kind") != "local") & (pl.col("end_ns") > pl.col("begin_ns"))
    slices = events.filter(lasts)
    depths = slices["depth"].unique().sort().to_list()
    for depth in reversed(depths):
        yield _END, slices.filter(pl.col("depth") == depth)
    for depth in depths:
        yield _BEGIN, slices.filter(pl.col("depth") == depth)
    yield _INSTANT, events.filter(~lasts)


def _encode_event_packets(chunk: pl.DataFrame, kind: int, texts: _InternedTexts, keys: dict[str, int]) -> bytes:
    """The packets of some events, after one with the texts that are new in them."""
    if kind == _END:
        return concatenate_messages(_encode_event(chunk, kind, []), chunk.height)
    optional = ["flow", *_ANNOTATIONS]
    known = chunk.select(pl.col(name).is_not_null().cast(pl.UInt32) * 2**i for i, name in enumerate(optional))
    shapes = chunk.with_columns(shape=known.sum_horizontal()).partition_by("shape", maintain_order=True)
    encoded: list[bytes] = []
    for shape in shapes:
        pieces: list[Piece] = [
            *encode_repeated_field(_CATEGORY, texts.numbers(_CATEGORIES, shape["kind"].cast(pl.String)), _ID_BYTES),
            *encode_repeated_field(_NAME, texts.numbers(_NAMES, shape["label"]), _ID_BYTES),
        ]
        if shape["flow"][0] is not None:
            pieces += [tag(_FLOW, FIXED64), _encode_fixed64(shape["flow"].to_numpy())]
        for name, of_kind in _ANNOTATIONS.items():
            if shape[name][0] is not None:
                value = _VALUES[of_kind](shape[name], texts)
                pieces += encode_length_delimited(_ANNOTATION, [encode_field(1, keys[name]), *value])
        encoded.append(concatenate_messages(_encode_event(shape, kind, pieces), shape.height))
    return b"".join([texts.packet(_LATER), *encoded])


def _encode_event(chunk: pl.DataFrame, kind: int, pieces: list[Piece]) -> list[Piece]:
    times = chunk["end_ns" if kind == _END else "begin_ns"].to_numpy()
    tracks = encode_repeated_field(_TRACK, chunk["uuid"].cast(pl.UInt64).to_numpy(), _ID_BYTES)
    event = encode_length_delimited(_TRACK_EVENT, [encode_field(_TYPE, kind), *tracks, *pieces])
    stamped = encode_repeated_field(_TIMESTAMP, times, _TIME_BYTES)
    return encode_length_delimited(_PACKET, [*stamped, _ON_SEQUENCE + _LATER, *event])


def _encode_fixed64(numbers: npt.NDArray[np.uint64] | npt.NDArray[np.float64]) -> Bytes:
    """Numbers as 8 bytes each, the lowest byte first."""
    ordered = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder("<"))
    return ordered.view(np.uint8).reshape(len(numbers), 8)


def _encode_digit_texts(values: pl.Series, _: _InternedTexts) -> list[Piece]:
    data = np.frombuffer("".join(values.to_list()).encode("ascii"), np.uint8)
    return encode_length_delimited(6, [data.reshape(len(values), -1)])


_VALUES: Final[dict[str, Callable[[pl.Series, _InternedTexts], list[Piece]]]] = {
    "number": lambda values, _: encode_repeated_field(
        4, values.cast(pl.Int64).to_numpy().view(np.uint64), _NUMBER_BYTES
    ),
    "real": lambda values, _: [tag(5, FIXED64), _encode_fixed64(values.to_numpy())],
    "flag": lambda values, _: encode_repeated_field(2, values.cast(pl.UInt64).to_numpy(), 1),
    "text": lambda values, texts: encode_repeated_field(17, texts.numbers(_TEXTS, values), _ID_BYTES),
    "digits": _encode_digit_texts,
}

# Traces as Chrome trace events (JSON), which the Perfetto UI and chrome://tracing open, written in bounded memory.
#
# One process per node, one thread per backend. Slices of a thread must nest:
# :func:`~citus_analysis.spans.span_layout.lay_out` places them, and `args` has the raw end time. Tasks of
# statements with several tasks overlap and become asynchronous slices. Arrows lead from a task to its remote
# execution.
#
# Backends are independent of each other, so the spans come in groups of backends, and one group is in memory at a time.
# Only the times and tracks of the ends of arrows are kept to the end: some hundred bytes per remote execution.
#
# Source: Trace Event Format (Google, 2016), as Perfetto documents what it reads of it.

_JSON_CHUNK: Final = 50_000
#: Least duration of an arrow, microseconds.
_STEP: Final = 1.0
_BASE: Final = ("name", "cat", "pid", "tid", "ts")


def write_json(out: Sink, backends: pl.DataFrame, groups: Iterable[pl.DataFrame], linked: pl.Series) -> int:
    """Write a trace.

    Args:
        out: target of the bytes.
        backends: `node`, `pid`, their numbers `process` and `thread`, `gpid`, `child` (whether it ran tasks of others)
            and `begin` (a lower bound of the begins of its spans, microseconds since 1970) of each backend.
        groups: spans of some backends at a time, each backend whole, placed and labelled.
        linked: ids of tasks whose remote execution is among the spans.

    Returns:
        Number of events written.
    """
    first = backends["begin"].min()
    origin = int(first) if isinstance(first, (int, float)) else 0
    written = 0
    tails, tips = [], []
    out.write(b'{"displayTimeUnit":"ms","traceEvents":[')
    for placed in groups:
        timed = _add_event_times(placed, origin)
        written += _write_json(out, written, _build_slice_events(timed))
        tails.append(_select_arrow_tails(timed, linked))
        # Remote executions at which arrows end. An arrow takes time and must end within the slice.
        end = pl.max_horizontal("ts", pl.col("ts") + pl.col("dur") - _STEP)
        remotes = timed.filter((pl.col("kind") == "remote") & pl.col("parent_span_id").is_not_null())
        tips.append(remotes.select(to_pid="pid", to_tid="tid", to_ts="ts", to_end=end, span_id="parent_span_id"))
        del placed, timed, remotes  # Before the next ones are read.
    written += _write_json(out, written, [_names(backends)])
    written += _write_json(out, written, _build_arrow_events(pl.concat(tails), pl.concat(tips)))
    out.write(b"\n]}\n")
    return written


def _write_json(out: Sink, before: int, parts: Iterable[pl.DataFrame]) -> int:
    """Write events, separated by commas from those before; return their number."""
    written = 0
    for chunk in (chunk for part in parts for chunk in part.iter_slices(_JSON_CHUNK)):
        lines = chunk.select(event=pl.struct(pl.all()).struct.json_encode())["event"]
        out.write(b",\n" if before + written else b"\n")
        out.write(",\n".join(lines.to_list()).encode())
        written += len(lines)
    return written


def _names(backends: pl.DataFrame) -> pl.DataFrame:
    session = pl.when("child").then(pl.format("child of {}", "gpid")).otherwise(pl.lit("session"))
    threads = backends.select("process", "thread", of=pl.lit("thread"), called=pl.format("{} [{}]", session, "pid"))
    nodes = backends.group_by("process").agg(pl.format("node {}", "node").first().alias("called"))
    processes = nodes.select("process", "called", of=pl.lit("process"), thread=pl.lit(0, pl.Int64))
    return (
        pl.concat([processes.select(threads.columns), threads])
        .sort("process", "thread")
        .select(
            ph=pl.lit("M"), name=pl.format("{}_name", "of"), pid="process", tid="thread", args=pl.struct(name="called")
        )
    )


def _add_event_times(placed: pl.DataFrame, origin: int) -> pl.DataFrame:
    """Spans with the columns of their events."""
    return placed.with_columns(
        # Numbers of the node and the backend replace those of the operating system's process and thread.
        pid="process",
        tid="thread",
        ts=(pl.col("begin") - origin).round(3),
        dur=(pl.col("end") - pl.col("begin")).round(3),
        cat=pl.col("kind").cast(pl.String),
        name="label",
        args=pl.struct(
            make_hexadecimal_expr("trace_id"),
            *("shard_id", "gpid", "match", "executed", "failed", "includes_commit", "duration_us"),
            pl.col("end_time").dt.to_string("iso:strict").alias("log_end_time"),
            *("source_id", "byte_offset"),
        ),
        id=pl.format("0x{}", make_hexadecimal_expr("span_id")),
    )


def _build_slice_events(timed: pl.DataFrame) -> list[pl.DataFrame]:
    tasks, whole = timed.filter("overlaps"), timed.filter((pl.col("kind") != "local") & ~pl.col("overlaps"))
    return [
        whole.select(pl.lit("X").alias("ph"), *_BASE, "dur", "args"),
        timed.filter(pl.col("kind") == "local").select(pl.lit("i").alias("ph"), *_BASE, pl.lit("t").alias("s"), "args"),
        tasks.select(pl.lit("b").alias("ph"), *_BASE, "id", "args"),
        tasks.select(pl.lit("e").alias("ph"), *_BASE[:4], pl.col("ts") + pl.col("dur"), "id"),
    ]


def _select_arrow_tails(timed: pl.DataFrame, linked: pl.Series) -> pl.DataFrame:
    """Tasks at which arrows begin, and the begin of their statement."""
    statements = timed.filter(pl.col("kind") == "statement").select("trace_id", earliest="ts")
    tasks = timed.filter(pl.col("span_id").is_in(linked.implode()))
    return (
        tasks.select("span_id", "trace_id", *_BASE, "id").join(statements, on="trace_id", how="left").drop("trace_id")
    )


def _build_arrow_events(tails: pl.DataFrame, tips: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """From the begin of a task to its remote execution.

    The trace processor leaves out arrows that lead back in time, as some do because times have a resolution of 1 ms.
    The begin of such an arrow is moved back, and its end forward.
    """
    for some in tips.iter_slices(_JSON_CHUNK):
        arrows = (
            tails.join(some, on="span_id", how="inner")
            .with_columns(ts=pl.max_horizontal("earliest", pl.min_horizontal("ts", pl.col("to_end") - _STEP)))
            .with_columns(to_ts=(pl.col("ts") + _STEP).clip("to_ts", "to_end"))
            .with_columns(pl.col("ts", "to_ts").round(3))
        )
        yield arrows.select(pl.lit("s").alias("ph"), *_BASE, "id")
        tip = (pl.col(f"to_{name}").alias(name) for name in _BASE[2:])
        yield arrows.select(pl.lit("f").alias("ph"), pl.lit("e").alias("bp"), *_BASE[:2], *tip, "id")


#: Spans from which on a group of backends is complete: a few hundred megabytes.
_GROUP: Final = 200_000
#: Larger than any number of a process.
_NO_PID: Final = 2**62


def export_perfetto(
    spans: pl.DataFrame | pl.LazyFrame, statements: pl.DataFrame | pl.LazyFrame, out_path: Path | str
) -> ExportCount:
    """Write a trace that opens in the Perfetto UI.

    Args:
        spans: rows of table `spans`.
        statements: rows of table `statements`, for the annotations of statements.
        out_path: file to write; with the suffix `.gz` it is compressed (the UI opens that as well).

    Returns:
        Number of trace events written, and of spans left out because they, or the spans above them, have no time.
    """
    path, spans, statements = Path(out_path), spans.lazy(), statements.lazy()
    timed = select_timed_spans(spans)
    found = (
        timed.group_by("node", "pid")
        .agg(
            child=(pl.col("kind") == "remote").any(),
            gpid=pl.col("gpid").first(),
            spans=pl.len(),
            # No span is laid out before the time at which its record was written, less its duration.
            begin=(pl.coalesce("end_time", "start_time").to_physical() - pl.col("duration_us").fill_null(0)).min(),
        )
        .collect(engine="streaming")
        .sort("node", "pid")
        .with_columns(process=pl.col("node").rank("dense").cast(pl.Int64))
        .with_columns(thread=pl.int_range(1, pl.len() + 1, dtype=pl.Int64))
    )
    linked = spans.filter(pl.col("kind") == "remote").select("parent_span_id").drop_nulls().collect().to_series()
    write = write_packets if Path(path.name.removesuffix(".gz")).suffix in PACKET_SUFFIXES else write_json
    left_out: list[int] = []
    with open_output(path) as out, ExitStack() as stack:
        # Without name and time, so that the same spans give the same file.
        packed = stack.enter_context(gzip.GzipFile("", "wb", fileobj=out, mtime=0)) if path.suffix == ".gz" else out
        written = write(packed, found, _iterate_backend_groups(spans, statements, found, left_out), linked)
    return ExportCount(written, left_out=sum(left_out))


def _iterate_backend_groups(
    spans: pl.LazyFrame, statements: pl.LazyFrame, backends: pl.DataFrame, left_out: list[int]
) -> Iterator[pl.DataFrame]:
    """Spans of some backends at a time, each backend whole, as :func:`_lay_out_spans` gives them."""
    pid = pl.col("pid").fill_null(0)
    counts = backends.group_by(pid).agg(pl.col("spans").sum()).sort("pid")
    share = (pl.col("spans").cum_sum() - pl.col("spans")) // _GROUP
    # First pids from the second group on. Pids of spans without a time fall into a group, too: the spans are counted.
    firsts = counts.group_by(share.alias("share")).agg(pl.col("pid").min())["pid"].sort().to_list()[1:]
    for first, after in pairwise([0, *firsts, _NO_PID]):
        yield _lay_out_spans(spans.filter(pid >= first, pid < after).collect(), statements, backends, left_out)


def _lay_out_spans(
    spans: pl.DataFrame, statements: pl.LazyFrame, backends: pl.DataFrame, left_out: list[int]
) -> pl.DataFrame:
    """Spans laid out, with the numbers of their nodes and backends, their labels, and the facts of their statements.

    `overlaps`: a span may overlap others of its backend, as one of several tasks, or a connection: while one is made,
    tasks may already run on others. A function, so that the generator refers to no group while the next is read.
    """
    placed = lay_out(select_timed_spans(spans))
    left_out.append(spans.height - placed.height)
    own = statements.join(spans.lazy().select("trace_id"), on="trace_id", how="semi")
    facts = own.select("trace_id", pl.col("executed").cast(pl.String), "failed", "tasks").collect()
    threads = backends.select("node", "pid", "process", "thread")
    kind, name = pl.col("kind"), pl.col("name").cast(pl.String)
    on_shard = kind.is_in(["task", "remote", "local"]) & pl.col("shard_id").is_not_null()
    return (
        placed.drop("process", "track")
        .join(threads, on=["node", "pid"], how="left", nulls_equal=True)
        .join(facts, on="trace_id", how="left")
        .with_columns(
            pl.col("match").cast(pl.String),
            pl.when(kind == "statement").then(pl.col("executed", "failed")),
            overlaps=((kind == "task") & (pl.col("tasks") > 1)) | (kind == "connect"),
            label=pl.when(on_shard).then(pl.format("{} on shard {}", name, "shard_id")).otherwise(name),
        )
    )
