"""Log of PgBouncer (1.5 to 1.24), to `pooler_events` and, of its statistics, `pooler_samples`.

For example::

    2026-11-25 22:11:42.131 UTC [13003] LOG C-0x55d0: bench/app@127.0.0.1:60620 login attempt: db=bench user=app tls=no
    2026-11-25 22:11:43.574 UTC [13003] LOG stats: 4149 xacts/s, 4149 queries/s, in 256785 B/s, out 273678 B/s,
    xact 609 us, query 609 us, wait 1318063 us                                                       (in one line)

Until version 1.11 the process has no brackets, and the statistics end with `wait time 1318063 us`.

Its records are not in `log_events`: a login at the pooler and the connection that it opens would be counted as
connections of the server, which logs them itself. The statistics are means over `stats_period` before the line; the
waiting time is that of a client for a connection to the server, per transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.format import TIMEZONE, Format, Hints, LineBegin, Parsed
from citus_analysis.formats.parsing.lines import (
    UNTERMINATED,
    line_frame,
    make_first_true_expr,
    reject_oversized,
    reject_runs,
)
from citus_analysis.formats.parsing.time_zones import LocalTime
from citus_analysis.formats.parsing.times import time_expr
from citus_analysis.formats.pglog.prefix import convert_clock_to_utc, parse_clock
from citus_analysis.redaction import redact_expr
from citus_analysis.schema import TABLES

_HEAD: Final = (
    r"^(?P<m>[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{3})?)"
    r"(?: (?P<z>[A-Za-z]{1,5}|[+-][0-9:]{2,6}))? \[?(?P<p>[0-9]{1,9})\]? "
    r"(?P<severity>NOISE|DEBUG|LOG|WARNING|ERROR|FATAL) (?P<text>.*)$"
)
_SIGN: Final = LineBegin(
    rb"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]{8,12}(?: [A-Za-z0-9:+-]{1,6})? \[?[0-9]{1,9}\]? [A-Z]{3,7} "
    rb"(?:[CS]-0x[0-9a-f]+: |[Ss]tats: [0-9]|process up: [Pp]g[Bb]ouncer|(?:kernel f|F)ile descriptor limit"
    rb"|listening on )"
)
#: Client or server, database, user, host and port of a connection.
_CONNECTION: Final = (
    r"^(?P<side>[CS])-0x[0-9a-fA-F]+: (?P<database>[^/]*)/(?P<user>[^@]*)@(?P<host>\S*?):(?P<port>[0-9]{1,5}) "
    r"(?P<said>.*)$"
)
_AGE: Final = r"\(age=([0-9]{1,9})s?\)$"
_STATISTICS: Final = r"^[Ss]tats: [0-9]"
#: `4149 xacts/s`, `in 256785 B/s` and `xact 609 us`.
_VALUE: Final = (
    r"^(?:(?P<count>[0-9]{1,18}) (?P<of>[a-z ]+)/s|(?P<name>[a-z ]+) (?P<value>[0-9]{1,18}) (?P<unit>[bB]/s|us))$"
)
#: Characters of a message that are kept.
_LONGEST: Final = 500
_SIDES: Final = {"C": "client", "S": "server"}


class PgBouncer(Format):
    """Log of the connection pooler PgBouncer."""

    name: ClassVar[str] = "pgbouncer"
    version: ClassVar[int] = 2
    tables = ("pooler_events", "pooler_samples")
    noise = "empty lines"
    options = (TIMEZONE,)

    def detect(self, name: str, head: bytes) -> float:
        """By a line that only PgBouncer logs."""
        return 0.97 if _SIGN.is_in(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """A piece for each block of lines.

        Raises:
            FormatError: no line is one of PgBouncer's, or the zone of its times is ambiguous.
        """
        local = LocalTime.of(content.path, hints.options)
        samples = seen = 0
        for block in content.blocks():
            if block.oversized:
                yield reject_oversized(block)
                continue
            piece = _parse_pgbouncer_block(block, local, samples)
            seen += len(piece.tables["pooler_events"])
            samples += len(piece.frame("pooler_samples")["sample"].unique())
            yield piece
        if not seen and content.head.strip():
            raise FormatError("contains no line of PgBouncer", path=content.path, hint="choose another --format")


def _parse_pgbouncer_block(block: Block, local: LocalTime, samples: int) -> Parsed:
    lines = line_frame(block.data, block.offset)
    heads = lines.select(pl.col("text").str.extract_groups(_HEAD)).unnest("text").rename({"text": "all"})
    empty = lines["text"] == ""
    heads = heads.with_columns(clock=parse_clock(pl.col("m")))
    lines = lines.with_columns(
        reason=pl.when(~empty).then(
            make_first_true_expr(
                {UNTERMINATED: ~pl.col("terminated"), "not a line of PgBouncer's log": heads["clock"].is_null()}
            )
        )
    )
    good = lines["reason"].is_null() & ~empty
    kept = lines.filter(good).hstack(heads.filter(good))
    events = _build_pooler_events(kept.with_columns(_convert_line_times_to_utc(kept, local)))
    table = TABLES["pooler_events"].parsed()
    tables = {
        "pooler_events": table.conform(events.select(pl.col(name) for name in table.names() if name in events.columns)),
        "pooler_samples": _build_pooler_samples(events, samples),
    }
    return Parsed(tables, int(kept["length"].sum()), int(lines.filter(empty)["length"].sum()), reject_runs(lines))


def _convert_line_times_to_utc(lines: pl.DataFrame, local: LocalTime) -> pl.Series:
    """The lines' times in UTC: by the zone that they name, or else that of the option, or else UTC."""
    if lines["z"].null_count() == lines.height:
        zone = local.zone.key if local.zone else "UTC"
        return lines.select(time_expr(pl.col("m"), zone).alias("log_time")).to_series()
    zones = pl.Series(lines["z"].fill_null("UTC"), dtype=pl.Categorical).to_arrow()
    return pl.Series("log_time", convert_clock_to_utc(lines["clock"].to_arrow(), zones, local))


def _build_pooler_events(lines: pl.DataFrame) -> pl.DataFrame:
    found = lines.with_columns(pl.col("all").str.extract_groups(_CONNECTION).alias("of")).unnest("of")
    said = pl.coalesce("said", "all")
    cases = {
        "login": said.str.starts_with("login attempt:"),
        "connect": said.str.starts_with("new connection to server"),
        "close": said.str.starts_with("closing because:"),
        "error": said.str.starts_with("pooler error:") | pl.col("severity").is_in(["WARNING", "ERROR", "FATAL"]),
        "stats": said.str.contains(_STATISTICS),
    }
    return found.with_columns(
        byte_offset="offset",
        byte_length="length",
        pid=pl.col("p").cast(pl.Int32, strict=False),
        side=pl.col("side").replace_strict(_SIDES, default=None, return_dtype=pl.String),
        port=pl.col("port").cast(pl.Int32, strict=False),
        age_s=pl.col("said").str.extract(_AGE).cast(pl.Float64),
        message=redact_expr(said).str.head(_LONGEST),
        event=make_first_true_expr(cases).fill_null("other"),
    )


def _build_pooler_samples(events: pl.DataFrame, first: int) -> pl.DataFrame:
    """The statistics, one row for each value; samples are numbered from `first`."""
    table = TABLES["pooler_samples"].parsed()
    stats = events.filter(pl.col("event") == "stats")
    if stats.is_empty():
        return table.empty()
    values = stats.select(
        pl.int_range(first, first + pl.len(), dtype=pl.Int32).alias("sample"),
        pl.col("log_time").alias("sample_time"),
        pl.col("all")
        .str.replace("^[Ss]tats: ", "")
        # Version 1.8 lacks the comma before it, too.
        .str.replace(r",? wait time ([0-9]+ us)$", ", wait ${1}")
        .str.split(",")
        .alias("value"),
    ).explode("value")
    split = values.with_columns(pl.col("value").str.strip_chars().str.extract_groups(_VALUE)).unnest("value")
    return table.conform(
        split.filter(pl.coalesce("count", "value").is_not_null())
        .select(
            "sample",
            "sample_time",
            report=pl.lit("log"),
            measure=pl.coalesce("of", "name"),
            unit=pl.when(pl.col("of").is_not_null()).then(pl.lit("1/s")).otherwise(pl.col("unit").str.to_uppercase()),
            value=pl.coalesce("count", "value").cast(pl.Float64),
        )
        .with_columns(pl.col("unit").str.replace("US", "us", literal=True).str.replace("/S", "/s", literal=True))
    )


FORMAT: Final = PgBouncer()
