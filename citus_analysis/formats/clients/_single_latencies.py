"""Latencies of single operations, as YCSB and go-ycsb print them with `measurementtype=raw`."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from citus_analysis.operations import FAILED
from citus_analysis.units import US_PER_S


@dataclass
class SingleLatencies:
    """The state of reading the latencies of a file.

    They are printed operation by operation, each in the order of time. `elapsed_s` counts from the first line of the
    file, so a line of another operation that began slightly earlier has a small negative value.

    Attributes:
        first_us: beginning of the operation in the first line, in microseconds since 1970.
    """

    first_us: int | None = None

    def rows(self, fields: pl.DataFrame) -> pl.DataFrame:
        """Rows of `client_latencies` for further lines: `section`, `began_us` (since 1970) and `latency_us`."""
        if self.first_us is None and fields.height:
            self.first_us = int(fields["began_us"][0])
        return fields.select(
            "section",
            "latency_us",
            time=pl.from_epoch("began_us", "us").dt.replace_time_zone("UTC").dt.cast_time_unit("ms"),
            elapsed_s=((pl.col("began_us") - (self.first_us or 0)) / US_PER_S).round(6),
            failed=pl.col("section").str.ends_with(FAILED),
        )
