"""Logs of HdrHistogram (`.hlog`, `.hdr`): histograms of intervals, encodings V0, V1 and V2.

Tables: `client_histogram` (all intervals of a tag, merged exactly), `client_series` (one row per interval).
For example::

    #[Histogram log format version 1.3]
    "StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"
    0.127,1.007,2.769,HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPUBEJISEuATEZMQ4uASkhIR4nrxg9v2lMaxhvMekILGZkKmcCAEf2CsI=
    Tag=READ,1.134,0.999,0.442,HISTFAAAAEJ42pNpmSzMwMAgwgABTBDKT4GBgdnNYMcCBvsPEBEJISEuATEZMQ4uASkhIR4nrxg9v2lMaxhvMekILGZkKmcCAEf2CsI=

Conversion:

- the section is the interval's tag; without one, the name of the file up to the first dot: YCSB writes `READ.hdr`,
  `Intended-READ.hdr`. State `--meta hdr_correction=corrected` for a log with latencies that are corrected for
  coordinated omission: its sections then begin with `Intended-`, and never merge with raw ones;
- a log does not name the unit of its values: it is us, as YCSB writes it, unless `--meta hdr_unit=` says otherwise or
  jHiccup (ns) names itself in the log;
- `elapsed_s` is the end of the interval, `throughput_ops_s` its count divided by its length; percentiles are upper
  edges of buckets; the maximum of a line is not read, because its unit is not stated;
- `corrected` is true in sections that begin with `Intended-`, and as the option states in others; without the option
  it is null there;
- encodings V0 (HdrHistogram 1), V1 (2.0, 2.1.4) and V2 are read, compressed or not; intervals whose histogram cannot be
  decoded are rejected.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.client_reports import NUMBER, ReportParser, build_parsed_report
from citus_analysis.formats.parsing.format import HDR_CORRECTION, HDR_UNIT, Format, Hints, Parsed
from citus_analysis.formats.parsing.lines import line_frame
from citus_analysis.operations import INTENDED
from citus_analysis.schema import TABLES
from citus_analysis.units import SECONDS_PER_UNIT, US_PER_S

# Encodings of HdrHistogram: V0 (HdrHistogram 1), V1 (2.0, 2.1.4) and V2, each compressed or not, in base64.
#
# All begin with a cookie, which names the encoding and, in bits 4 to 7, the width of a count. A compressed encoding has
# the length of a zlib stream and the stream, which contains an uncompressed encoding. V0 and V1 have a count for each
# bucket; V2 has numbers in ZigZag LEB128, where a negative number is a run of empty buckets.

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

_V0, _V1, _V2 = 0x1C849308, 0x1C849301, 0x1C849303
_COMPRESSED: Final = {0x1C849309: _V0, 0x1C849302: _V1, 0x1C849304: _V2}
_COOKIE_MASK: Final = 0xFFFFFF0F
#: Cookie, digits, lowest and highest value, total count.
_HEADER_V0: Final = struct.Struct(">iiqqq")
#: Cookie, length of the counts, offset of the first, digits, lowest and highest value, ratio to doubles.
_HEADER: Final = struct.Struct(">iiiiqqd")
#: Limit of an uncompressed encoding; a histogram with five digits over 64 bits is smaller.
_LARGEST_BYTES: Final = 64 * 2**20
_WIDTHS: Final = (2, 4, 8)
_MORE: Final = 0x80
_LONGEST: Final = 8
_MAX_DIGITS: Final = 5


def decode_histogram(text: str) -> tuple[Ints, Ints, Ints] | None:
    """Lower edges, widths and counts of the buckets that are not empty, in the histogram's own unit.

    None if the text is not a histogram in one of the encodings.
    """
    try:
        digits, lowest, places, counts = _read(_decompress_encoding(base64.b64decode(text, validate=True)))
    except (zlib.error, struct.error, OverflowError, ValueError):
        return None
    if not 0 <= digits <= _MAX_DIGITS or lowest < 1:
        return None
    index, counts = places[counts > 0], counts[counts > 0]
    half = int(np.ceil(np.log2(2 * 10**digits))) - 1
    bucket = np.maximum((index >> half) - 1, 0)
    within = np.where((index >> half) > 0, (index & ((1 << half) - 1)) + (1 << half), index)
    shift = bucket + (lowest.bit_length() - 1)
    if len(shift) and int(shift.max()) + half + 1 >= 63:
        # Values beyond 63 bits.
        return None
    return within << shift, np.left_shift(np.int64(1), shift), counts


def _decompress_encoding(data: bytes) -> bytes:
    """The uncompressed encoding."""
    (cookie,) = struct.unpack_from(">i", data)
    inner = _COMPRESSED.get(cookie & _COOKIE_MASK)
    if inner is None:
        return data
    (size,) = struct.unpack_from(">i", data, 4)
    raw = zlib.decompressobj().decompress(data[8 : 8 + size], _LARGEST_BYTES)
    if struct.unpack_from(">i", raw)[0] & _COOKIE_MASK != inner:
        raise ValueError("another encoding")
    return raw


def _read(raw: bytes) -> tuple[int, int, Ints, Ints]:
    """Significant digits, lowest value, and the places and counts of buckets."""
    (cookie,) = struct.unpack_from(">i", raw)
    kind, width = cookie & _COOKIE_MASK, cookie >> 4 & 0xE
    if kind == _V0:
        _, digits, lowest, _, _ = _HEADER_V0.unpack_from(raw)
        return digits, lowest, *_decode_fixed_width(raw[_HEADER_V0.size :], width)
    if kind not in (_V1, _V2):
        raise ValueError("another encoding")
    _, length, offset, digits, lowest, _, _ = _HEADER.unpack_from(raw)
    if offset or not 0 <= length <= len(raw) - _HEADER.size:
        raise ValueError("another encoding, or cut")
    payload = raw[_HEADER.size : _HEADER.size + length]
    if kind == _V1:
        return digits, lowest, *_decode_fixed_width(payload, width)
    numbers = _decode_leb128(payload)
    steps = np.where(numbers < 0, -numbers, 1)
    return digits, lowest, np.cumsum(steps) - steps, numbers


def _decode_fixed_width(payload: bytes, width: int) -> tuple[Ints, Ints]:
    """Indices and counts of words of the same width."""
    if width not in _WIDTHS:
        raise ValueError("another width of counts")
    counts = np.frombuffer(payload[: len(payload) // width * width], dtype=f">i{width}").astype(np.int64)
    if (counts < 0).any():
        raise ValueError("a count below 0")
    return np.arange(len(counts)), counts


def _decode_leb128(data: bytes) -> Ints:
    """Numbers in ZigZag LEB128."""
    octets = np.frombuffer(data, dtype=np.uint8).astype(np.int64)
    ends = np.flatnonzero(octets < _MORE)
    if not len(ends) or ends[-1] != len(octets) - 1:
        raise ValueError("cut")
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1] + 1])
    lengths = ends - starts + 1
    if int(lengths.max()) > _LONGEST:
        raise ValueError("a count beyond 56 bits")
    place = np.arange(len(octets)) - np.repeat(starts, lengths)
    values = np.add.reduceat((octets & (_MORE - 1)) << (7 * place), starts)
    return (values >> 1) ^ -(values & 1)


__all__ = ["FORMAT", "Hdrhistogram"]

_INTERVAL: Final = (
    rf"^(?:Tag=(?<tag>[^,]{{1,100}}),)?(?<start_s>{NUMBER}),(?<length_s>{NUMBER}),{NUMBER}"
    r",(?<encoded>HIST[A-Za-z0-9+/=]+)$"
)
_KINDS: Final = {
    "interval": _INTERVAL,
    "noise": r'^$|^#|^"StartTimestamp","(?:Interval_Length|EndTimestamp)","Interval_Max",'
    r'"Interval_Compressed_Histogram"$',
}
_BROKEN: Final = "its histogram cannot be decoded"
_BUCKET: Final = ("section", "corrected", "bucket_low_us", "bucket_high_us")
_QUANTILES: Final = {"p50_us": 0.5, "p90_us": 0.9, "p95_us": 0.95, "p99_us": 0.99, "p999_us": 0.999, "p9999_us": 0.9999}


class Hdrhistogram(Format):
    """Logs of HdrHistogram, as YCSB, jHiccup, wrk2 and other tools write them."""

    name: ClassVar[str] = "hdrhistogram"
    version: ClassVar[int] = 3
    tables = ("client_histogram", "client_series")
    noise = "comments, the header, blank lines"
    dropped = "of intervals: the maximum, whose unit is not stated"
    options = (HDR_UNIT, HDR_CORRECTION)

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the head has the log's first comment or an interval."""
        if head.startswith(b"#[") and b"istogram log format version" in head[:300]:
            return 0.95
        return 0.95 if b",HIST" in head and line_frame(head)["text"].str.contains(_INTERVAL).any() else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """A piece per block with its intervals; the merged histogram comes last."""
        if not self.detect(hints.name, content.head):
            raise FormatError("is not an HdrHistogram log", path=content.path, hint="choose another --format")
        unit = HDR_UNIT.value(hints.options) or ("ns" if b"jHiccup" in content.head else "us")
        section = hints.name.partition(".")[0] or "all"
        stated = HDR_CORRECTION.value(hints.options)
        corrected = None if stated is None else stated == "corrected"
        log = _HdrLog(scale_us=SECONDS_PER_UNIT[unit] * US_PER_S, untagged=section, corrected=corrected)
        # A log may have no interval yet.
        log.recognised = True
        yield from log.pieces(content)


@dataclass
class _HdrLog(ReportParser):
    """The state of parsing one file."""

    tool = "an HdrHistogram log"
    kinds = _KINDS
    telling = ("interval",)
    unknown = "not a line of an HdrHistogram log"
    scale_us: float = 1.0
    untagged: str = ""
    corrected: bool | None = None
    merged: pl.DataFrame = field(default_factory=lambda: TABLES["client_histogram"].parsed().empty())

    def block(self, block: Block) -> Parsed:
        """Intervals of one block; their counts are added up."""
        lines = self.judged(line_frame(block.data, block.offset))
        intervals = lines.filter(pl.col("reason").is_null(), kind="interval")
        printed = intervals.select("offset", part=pl.col("text").str.extract_groups(_INTERVAL)).unnest("part")
        # A loop, because each histogram is compressed separately.
        histograms = [decode_histogram(text) for text in printed["encoded"]]
        whole = pl.Series([histogram is not None for histogram in histograms], dtype=pl.Boolean)
        broken = printed.filter(~whole)["offset"].implode()
        rows = self._intervals(printed.filter(whole), [histogram for histogram in histograms if histogram is not None])
        reason = pl.when(pl.col("offset").is_in(broken)).then(pl.lit(_BROKEN)).otherwise("reason")
        return build_parsed_report(lines.with_columns(reason=reason), {"client_series": rows})

    def finish(self) -> Parsed:
        """The histogram of all intervals."""
        return Parsed({"client_histogram": self.merged}, 0)

    def _intervals(self, printed: pl.DataFrame, histograms: list[tuple[Ints, Ints, Ints]]) -> pl.DataFrame:
        """Rows of `client_series`; the buckets are added to those of the blocks before."""
        if not histograms:
            return pl.DataFrame()
        low, width, counts = (np.concatenate(arrays) for arrays in zip(*histograms, strict=True))
        sizes = [len(histogram[2]) for histogram in histograms]
        named = printed.with_columns(section=pl.coalesce("tag", pl.lit(self.untagged)))
        if self.corrected:
            named = named.with_columns(section=INTENDED + pl.col("section").str.strip_prefix(INTENDED))
        known = pl.when(pl.col("section").str.starts_with(INTENDED)).then(pl.lit(value=True))
        named = named.with_columns(corrected=known.otherwise(pl.lit(self.corrected, pl.Boolean)))
        keys = named.select("section", "corrected")
        edges = {"bucket_low_us": low, "bucket_high_us": low + width}
        buckets = keys[np.repeat(np.arange(len(sizes)), sizes)].with_columns(
            **{name: pl.Series(values) * self.scale_us for name, values in edges.items()}, count=pl.Series(counts)
        )
        merged = pl.concat([self.merged.select(buckets.columns), buckets]).group_by(_BUCKET).agg(pl.col("count").sum())
        self.merged = TABLES["client_histogram"].parsed().conform(merged.sort(_BUCKET))
        totals, reached = _find_quantile_buckets(low + width, counts, np.array(sizes))
        seconds = pl.col("length_s").cast(pl.Float64)
        return named.with_columns(operations=pl.Series(totals)).select(
            "section",
            "corrected",
            "operations",
            elapsed_s=pl.col("start_s").cast(pl.Float64) + seconds,
            throughput_ops_s=pl.when(seconds > 0).then(pl.col("operations") / seconds),
            **{name: pl.Series(edges) * self.scale_us for name, edges in reached.items()},
        )


def _find_quantile_buckets(high: Ints, counts: Ints, sizes: Ints) -> tuple[Ints, dict[str, list[float | None]]]:
    """The number of operations of each interval, and the last value of the bucket that each quantile is in."""
    summed = np.concatenate([np.zeros(1, np.int64), counts.cumsum()])
    ends = sizes.cumsum()
    before = summed[ends - sizes]
    totals = summed[ends] - before
    found: dict[str, list[float | None]] = {}
    for name, quantile in _QUANTILES.items():
        wanted = before + np.ceil(quantile * totals).astype(np.int64)
        place = np.searchsorted(summed[1:], wanted)
        edges = high[np.minimum(place, len(high) - 1)] - 1 if len(high) else np.zeros(len(sizes))
        found[name] = [float(edge) if total else None for edge, total in zip(edges, totals, strict=True)]
    return totals, found


FORMAT: Final = Hdrhistogram()
