"""Single latencies of go-ycsb's `measurementtype=raw` (or `csv`): `READ,1795429297434646,4382`.

They follow the line `Run finished`, or are in the file of `measurement.output_file`, grouped by operation. Lines of
`TOTAL` repeat those of the operations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import polars as pl

from citus_analysis.formats.reading.latency_counts import LatencyCounts
from citus_analysis.operations import FAILED
from citus_analysis.units import US_PER_S

HEADER: Final = "operation,timestamp_us,latency_us"
#: A line of an operation, and its repetition; times until the year 2286.
RAW: Final = r"^[A-Z][A-Z_]*,[0-9]{1,16},[0-9]{1,15}$"
TOTAL: Final = r"^TOTAL,[0-9]{1,16},[0-9]{1,15}$"
_METRICS: Final = ("Operations", "AverageLatency", "MinLatency", "MaxLatency")


@dataclass
class GoLatencies:
    """The latencies of a file so far.

    Attributes:
        counts: number of operations per latency, by YCSB's names of operations.
        first_us: beginning of the operation in the first line, in microseconds since 1970.
    """

    counts: LatencyCounts = field(default_factory=LatencyCounts)
    first_us: int | None = None

    def rows(self, texts: pl.Series, section: pl.Expr) -> pl.DataFrame:
        """Rows of `client_latencies` for lines of operations.

        Args:
            texts: the lines.
            section: expression for YCSB's name of the operation in the column `section`.
        """
        parts = texts.to_frame("text").select(pl.col("text").str.split_exact(",", 2)).unnest("text")
        began = pl.col("field_1").cast(pl.Int64)
        fields = parts.select(section=pl.col("field_0"), began=began, latency_us=pl.col("field_2").cast(pl.Float64))
        fields = fields.with_columns(section=section)
        if self.first_us is None and fields.height:
            self.first_us = int(fields["began"][0])
        self.counts.add(fields)
        return fields.select(
            "section",
            "latency_us",
            time=pl.from_epoch("began", "us").dt.replace_time_zone("UTC").dt.cast_time_unit("ms"),
            elapsed_s=(pl.col("began") - (self.first_us or 0)) / US_PER_S,
            failed=pl.col("section").str.ends_with(FAILED),
        )

    def metrics(self) -> pl.DataFrame:
        """Number, mean and extremes under YCSB's names: rows of `client_metrics`."""
        return self.counts.summary(_METRICS)
