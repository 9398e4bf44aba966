"""Logs of HdrHistogram (`.hlog`, `.hdr`): histograms of intervals, encodings V0, V1 and V2.

Tables: `client_histogram` (all intervals of a tag, merged exactly), `client_series` (one row per interval).
For example::

    #[Histogram log format version 1.3]
    "StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"
    0.127,1.007,2.769,HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPUBEJISEuATEZMQ4uASkhIR4nrxg9v2lMaxhvMekILGZkKmcCAEf2CsI=
    Tag=READ,1.134,0.999,0.442,HISTFAAAAEJ42pNpmSzMwMAgwgABTBDKT4GBgdnNYMcCBvsPEBEJISEuATEZMQ4uASkhIR4nrxg9v2lMaxhvMekILGZkKmcCAEf2CsI=

Conversion:

- the section is the interval's tag; without one, the name of the file up to the first dot: YCSB writes `READ.hdr`,
  `Intended-READ.hdr`. State `--meta hdr_correction=corrected` of a log whose latencies are corrected for coordinated
  omission: its sections then begin with `Intended-`, and never merge with raw ones;
- a log does not name the unit of its values: it is us, as YCSB writes it, unless `--meta hdr_unit=` says otherwise or
  jHiccup (ns) names itself in the log;
- `elapsed_s` is the end of the interval, `throughput_ops_s` its count by its length; percentiles are upper edges of
  buckets;
- `corrected` says whether the latencies of a row are corrected: where the option states it, and in sections that begin
  with `Intended-`; null where neither says;
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
from citus_analysis.formats.api.options import HDR_CORRECTION, HDR_UNIT, Option
from citus_analysis.formats.clients._report_lines import judged
from citus_analysis.formats.clients.hdrhistogram._encodings import decoded
from citus_analysis.formats.reading.lines import line_frame, reject_oversized, reject_runs
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.operations import INTENDED
from citus_analysis.schema import TABLES
from citus_analysis.units import SECONDS_PER_UNIT, US_PER_S

__all__ = ["FORMAT", "Hdrhistogram"]

_N: Final = r"[0-9]{1,15}(?:[.][0-9]{1,9})?"
_INTERVAL: Final = rf"^(?:Tag=([^,]{{1,100}}),)?({_N}),({_N}),({_N}),(HIST[A-Za-z0-9+/=]+)$"
_KINDS: Final = {
    "interval": _INTERVAL,
    "noise": r'^$|^#|^"StartTimestamp","(?:Interval_Length|EndTimestamp)","Interval_Max",'
    r'"Interval_Compressed_Histogram"$',
}
_UNKNOWN: Final = "no line of an HdrHistogram log"
_BROKEN: Final = "its histogram cannot be decoded"
_QUANTILES: Final = {"p90_us": 0.9, "p99_us": 0.99, "p999_us": 0.999, "p9999_us": 0.9999}


class Hdrhistogram(Format):
    """Logs of HdrHistogram, as YCSB, jHiccup, wrk2 and other tools write them."""

    name: ClassVar[str] = "hdrhistogram"
    version: ClassVar[int] = 2
    tables: ClassVar[tuple[str, ...]] = ("client_histogram", "client_series")
    noise: ClassVar[str] = "comments, the header, blank lines"
    options: ClassVar[tuple[Option, ...]] = (HDR_UNIT, HDR_CORRECTION)

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the head has the log's first comment or an interval."""
        if head.startswith(b"#[") and b"istogram log format version" in head[:300]:
            return 0.95
        return 0.95 if b",HIST" in head and line_frame(head)["text"].str.contains(_INTERVAL).any() else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """A piece per block with its intervals; the merged histogram comes last."""
        if not self.detect(hints.name, content.head):
            raise FormatError("is no HdrHistogram log", path=content.path, way_out="choose another --format")
        unit = HDR_UNIT.value(hints.options) or ("ns" if b"jHiccup" in content.head else "us")
        section = hints.name.partition(".")[0] or "all"
        stated = HDR_CORRECTION.value(hints.options)
        corrected = None if stated is None else stated == "corrected"
        log = _Log(SECONDS_PER_UNIT[unit] * US_PER_S, section, corrected)
        for block in content.blocks():
            yield reject_oversized(block) if block.oversized else log.block(block)
        yield log.finish()


@dataclass
class _Log:
    """The state of one file's parse."""

    scale_us: float
    untagged: str
    corrected: bool | None
    _merged: pl.DataFrame = field(default_factory=lambda: TABLES["client_histogram"].parsed().empty())

    def block(self, block: Block) -> Parsed:
        """Intervals of one block; their counts are added up."""
        lines = judged(line_frame(block.data, block.offset), _KINDS, _UNKNOWN)
        good = lines.filter(pl.col("reason").is_null())
        series: list[dict[str, object]] = []
        broken: list[int] = []
        frames = [self._merged]
        for offset, text in good.filter(pl.col("kind") == "interval").select("offset", "text").iter_rows():
            frame = self._interval(text, series)
            if frame is None:
                broken.append(offset)
            else:
                frames.append(frame)
        keys = ("section", "corrected", "bucket_low_us", "bucket_high_us")
        merged = pl.concat(frame.select(*keys, "count") for frame in frames).group_by(keys).agg(pl.col("count").sum())
        self._merged = TABLES["client_histogram"].parsed().conform(merged.sort(keys))
        lines = lines.with_columns(
            reason=pl.when(pl.col("offset").is_in(broken)).then(pl.lit(_BROKEN)).otherwise("reason")
        )
        noise = int(good.filter(pl.col("kind") == "noise")["length"].sum())
        parsed = int(lines.filter(pl.col("reason").is_null())["length"].sum()) - noise
        table = TABLES["client_series"].parsed()
        rows = table.conform(pl.DataFrame(series)) if series else table.empty()
        return Parsed({"client_series": rows}, parsed, noise, reject_runs(lines))

    def finish(self) -> Parsed:
        """The histogram of all intervals."""
        return Parsed({"client_histogram": self._merged}, 0)

    def _interval(self, text: str, series: list[dict[str, object]]) -> pl.DataFrame | None:
        *tags, start_s, length_s, _, encoded = text.split(",")
        try:
            low, width, counts = decoded(encoded)
        except ValueError:
            return None
        name = tags[0].removeprefix("Tag=") if tags else self.untagged
        section = INTENDED + name if self.corrected and not name.startswith(INTENDED) else name
        corrected = True if section.startswith(INTENDED) else self.corrected
        total, seconds = int(counts.sum()), float(length_s)
        high = low + width
        reached = {
            column: float(high[np.searchsorted(counts.cumsum(), quantile * total)] - 1) * self.scale_us
            for column, quantile in _QUANTILES.items()
            if total
        }
        series.append(
            {
                "section": section,
                "corrected": corrected,
                "elapsed_s": float(start_s) + seconds,
                "operations": total,
                "throughput_ops_s": total / seconds if seconds else None,
                **dict.fromkeys(_QUANTILES),
                **reached,
            }
        )
        edges = {"bucket_low_us": low * self.scale_us, "bucket_high_us": high * self.scale_us, "count": counts}
        return pl.DataFrame(edges).with_columns(section=pl.lit(section), corrected=pl.lit(corrected, pl.Boolean))


FORMAT: Final = Hdrhistogram()
