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

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.api.options import HDR_CORRECTION, HDR_UNIT
from citus_analysis.formats.clients._report_lines import NUMBER, Report, accounted
from citus_analysis.formats.clients.hdrhistogram._encodings import Ints, decoded
from citus_analysis.formats.reading.lines import line_frame
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.operations import INTENDED
from citus_analysis.schema import TABLES
from citus_analysis.units import SECONDS_PER_UNIT, US_PER_S

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
            raise FormatError("is not an HdrHistogram log", path=content.path, way_out="choose another --format")
        unit = HDR_UNIT.value(hints.options) or ("ns" if b"jHiccup" in content.head else "us")
        section = hints.name.partition(".")[0] or "all"
        stated = HDR_CORRECTION.value(hints.options)
        corrected = None if stated is None else stated == "corrected"
        log = _Log(scale_us=SECONDS_PER_UNIT[unit] * US_PER_S, untagged=section, corrected=corrected)
        # A log may have no interval yet.
        log.recognised = True
        yield from log.pieces(content)


@dataclass
class _Log(Report):
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
        histograms = [decoded(text) for text in printed["encoded"]]
        whole = pl.Series([histogram is not None for histogram in histograms], dtype=pl.Boolean)
        broken = printed.filter(~whole)["offset"].implode()
        rows = self._intervals(printed.filter(whole), [histogram for histogram in histograms if histogram is not None])
        reason = pl.when(pl.col("offset").is_in(broken)).then(pl.lit(_BROKEN)).otherwise("reason")
        return accounted(lines.with_columns(reason=reason), {"client_series": rows})

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
        totals, reached = _reached(low + width, counts, np.array(sizes))
        seconds = pl.col("length_s").cast(pl.Float64)
        return named.with_columns(operations=pl.Series(totals)).select(
            "section",
            "corrected",
            "operations",
            elapsed_s=pl.col("start_s").cast(pl.Float64) + seconds,
            throughput_ops_s=pl.when(seconds > 0).then(pl.col("operations") / seconds),
            **{name: pl.Series(edges) * self.scale_us for name, edges in reached.items()},
        )


def _reached(high: Ints, counts: Ints, sizes: Ints) -> tuple[Ints, dict[str, list[float | None]]]:
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
