"""Rows of `client_metrics`, for formats that read a summary value by value."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

#: Section, metric, unit and value.
Metric = tuple[str, str, str | None, float | None]


def metric_frame(rows: Sequence[Metric]) -> pl.DataFrame:
    """Rows of `client_metrics`."""
    schema = {"section": pl.String, "metric": pl.String, "unit": pl.String, "value": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")
