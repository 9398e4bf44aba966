"""Conversion of blocks of lines to tables, with state carried from block to block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import polars as pl

from citus_analysis.core.column_types import TIME
from citus_analysis.formats.api.format import Parsed
from citus_analysis.formats.clients._report_lines import Report
from citus_analysis.formats.clients._single_latencies import SingleLatencies
from citus_analysis.formats.clients.ycsb import _status, _summary
from citus_analysis.formats.clients.ycsb._client import Client
from citus_analysis.formats.clients.ycsb._json import json_values
from citus_analysis.formats.clients.ycsb._lines import KINDS, ONCE, STATES_FACTS, TELLING, classified_lines
from citus_analysis.formats.clients.ycsb._raw import raw_fields, uniform_fields
from citus_analysis.formats.reading.lines import first_true, reject_runs
from citus_analysis.formats.sources.content import Block

#: Number of status lines kept to find repetitions: a day at one per second.
_REMEMBERED: Final = 100_000
_SHOWN: Final = pl.Schema({"log_time": TIME.polars, "operations_total": pl.Int64()})
_NO_BUCKET: Final = "not a bucket of a histogram that YCSB records"


@dataclass
class Parser(Report):
    """The state of parsing one file.

    Attributes:
        timezone: IANA zone of the client's clock.
    """

    tool = "a YCSB client"
    kinds = KINDS
    telling = TELLING
    other_run = "output of a second client in the same file; put each client's output into a file of its own"
    unknown = "not a line of a YCSB client"
    too_long = "too long for a line of a YCSB client"
    timezone: str = "UTC"
    client: Client = field(default_factory=Client)
    _ended: bool = False
    _once: set[str] = field(default_factory=set)
    _with_percentiles: set[str] = field(default_factory=set)
    _json: tuple[str | None, str | None] = (None, None)
    _shown: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_SHOWN))
    _raw: SingleLatencies = field(default_factory=SingleLatencies)

    def block(self, block: Block) -> Parsed:
        """Tables of one block of the client's output."""
        if not self._ended and (fields := uniform_fields(block.data)) is not None:
            self.recognised = True
            return Parsed({"client_latencies": self._latencies(fields)}, block.length)
        lines = self.judged(classified_lines(block.data, block.offset))
        good = self.accepted(lines)
        of_kind = {kind: good.filter(kind=kind) for kind in ("summary", "json", "status", "raw")}
        values = self._values(of_kind["summary"], of_kind["json"])
        points = _summary.with_kinds(values.filter(_summary.IS_POINT), self._with_percentiles)
        tables = {
            "client_metrics": self._metrics(values.filter(~_summary.IS_POINT)),
            "client_series": pl.concat(
                [self._series(of_kind["status"]), _summary.series_rows(points)], how="diagonal_relaxed"
            ),
            "client_histogram": _summary.histogram_rows(points),
            "client_latencies": self._latencies(raw_fields(of_kind["raw"]["text"])),
        }
        for kind in points["kind"].drop_nulls().head(1):
            self.client.saw(kind)
        return _accounted(block, lines, points, tables)

    def finish(self) -> Parsed:
        """The client's own row and its errors, which are complete at the end."""
        client = pl.DataFrame([self.client.facts()], infer_schema_length=None, strict=False)
        return Parsed({"clients": client, "client_errors": self.errors}, 0)

    def judged(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Lines with the `reason` of their rejection, null if they are not rejected."""
        foreign = self._from_second_client(lines)
        # The label (-l) directly precedes the time of each status line.
        label = pl.col("glued") & (pl.col("text") == pl.lit(self.client.label, pl.String))
        unknown = pl.col("kind").is_null() & ~label.fill_null(value=False)
        again = pl.lit(value=False) if foreign is None else pl.col("offset") >= foreign
        return lines.with_columns(reason=first_true({self.other_run: again, self.unknown: unknown | self.is_stray()}))

    def _from_second_client(self, lines: pl.DataFrame) -> int | None:
        """Offset from which lines are those of a second client; the banner before it is read."""
        if self._ended:
            return 0
        for offset, kind, line in lines.filter(STATES_FACTS).select("offset", "kind", "text").iter_rows():
            text = next((text for text in ONCE if line.startswith(text)), None)
            if text in self._once:
                self._ended = True
                return int(offset)
            if text is not None:
                self._once.add(text)
            self.client.add_banner(kind, line)
        return None

    def _values(self, summary: pl.DataFrame, json: pl.DataFrame) -> pl.DataFrame:
        """Named values of the summary, for every exporter."""
        values = _summary.named_values(summary)
        if not json.is_empty():
            more, fields = json_values(json, self._json)
            self._json = fields.select("section", "name").row(-1)
            values = pl.concat([values, more])
        percentiles = values.filter(pl.col("name").str.contains(_summary.PERCENTILE, literal=True))
        self._with_percentiles |= set(percentiles["section"])
        return values

    def _metrics(self, values: pl.DataFrame) -> pl.DataFrame:
        metrics = _summary.metric_rows(values)
        self.client.add_metrics(metrics)
        return metrics

    def _series(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Rows of status lines; repetitions (on the other stream) are left out."""
        status = _status.status_fields(lines, self.timezone)
        status = status.join(self._shown, on=_status.SHOWN, how="anti", maintain_order="left")
        dated = status.filter(pl.col("log_time").is_not_null()).select(_status.SHOWN)
        self._shown = pl.concat([self._shown, dated]).tail(_REMEMBERED)
        if status.is_empty():
            return pl.DataFrame()
        self.client.add_status(status)
        series = _status.series_rows(status, pl.lit(self.client.clock_start, TIME.polars))
        self.client.add_series(series)
        return series.drop("offset")

    def _latencies(self, fields: pl.DataFrame) -> pl.DataFrame:
        if fields.is_empty():
            return pl.DataFrame()
        self.client.saw("raw")
        return self._raw.rows(fields)


def _with_no_buckets(lines: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    """The rejected lines, and those whose values are in no bucket of a histogram."""
    no_bucket = points.filter(pl.col("kind").is_null()).select(
        "offset", "length", text=pl.format("[{}], {}, {}", "section", "name", "value"), reason=pl.lit(_NO_BUCKET)
    )
    bad = lines.filter(pl.col("reason").is_not_null()).select(no_bucket.columns)
    return pl.concat([bad, no_bucket]).sort("offset")


def _accounted(block: Block, lines: pl.DataFrame, points: pl.DataFrame, tables: dict[str, pl.DataFrame]) -> Parsed:
    """The block's tables with an account of its bytes."""
    rejects = reject_runs(_with_no_buckets(lines, points) if points["kind"].null_count() else lines)
    noise = int(lines.filter(pl.col("reason").is_null(), kind="noise")["length"].sum())
    rejected = int(rejects["byte_length"].sum())
    return Parsed(tables, block.length - noise - rejected, noise, rejects)
