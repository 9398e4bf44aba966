"""Counters of the server that BenchBase keeps beside its results, `.metrics.json`, to `server_counters`.

BenchBase reads the views once, after its run: each row's `note` is `first`, `total` is the count since the last reset
of the view, and `value` is null. For example::

    {"pg_stat_database": [{"datname": "bb", "xact_commit": "4190", "stats_reset": null, ...}, ...],
     "pg_stat_user_tables": [{"schemaname": "public", "relname": "stock", "n_tup_upd": "18042", ...}, ...]}

The file contains no time: `sample_time` comes from its name (`tpcc_2026-11-22_19-35-56.metrics.json`, the host's local
time; state its zone with `--meta timezone=`), else null. `key` is the database, the table (`public/stock`) or the
index. Not kept: texts, times, identifiers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.format import TIMEZONE, Format, Hints, Parsed
from citus_analysis.formats.parsing.time_zones import get_timezone
from citus_analysis.formats.parsing.times import time_expr
from citus_analysis.formats.server_views import is_counter
from citus_analysis.schema import TABLES
from citus_analysis.texts.documents import parse_json

_LIMIT_BYTES: Final = 64 * 2**20
_SIGN: Final = re.compile(rb'\A\s*\{\s*"pg_stat(?:io)?_[a-z_]{1,50}"\s*:\s*\[\s*(?:\{\s*"[a-z_0-9]{1,63}"\s*:|\])')
_NAMED: Final = ("datname", "schemaname", "relname", "indexrelname")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,2})?")
_TIME: Final = re.compile(r"_([0-9]{4}-[0-9]{2}-[0-9]{2})_([0-9]{2})-([0-9]{2})-([0-9]{2})\.metrics\.json")


class BenchbaseMetrics(Format):
    """Counters of PostgreSQL's views that BenchBase keeps at the end of a run."""

    name: ClassVar[str] = "benchbase_metrics"
    version: ClassVar[int] = 1
    tables = ("server_counters",)
    options = (TIMEZONE,)

    def detect(self, name: str, head: bytes) -> float:
        """By the name of the first view."""
        return 0.95 if _SIGN.search(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece."""
        data = content.read(_LIMIT_BYTES)
        try:
            document = parse_json(data)
        except FormatError as error:
            raise FormatError(f"holds no views as JSON: {error.problem}", path=content.path) from error
        if not isinstance(document, dict):
            raise FormatError("holds no views as JSON", path=content.path)
        named = _TIME.search(hints.name)
        time = f"{named[1]} {named[2]}:{named[3]}:{named[4]}" if named else None
        rows = [row for view, entries in document.items() for row in _counters(view, entries)]
        schema = {"view": pl.String, "key": pl.String, "counter": pl.String, "total": pl.Float64}
        table = TABLES["server_counters"].parsed()
        counters = pl.DataFrame(rows, schema=schema, orient="row").with_columns(
            sample=pl.lit(0, pl.Int32),
            sample_time=time_expr(pl.lit(time, pl.String), get_timezone(hints.options)),
            note=pl.lit("first"),
        )
        yield Parsed({"server_counters": table.conform(counters)}, len(data))


def _counters(view: object, entries: object) -> Iterator[tuple[str, str, str, float]]:
    """View, key, counter and value, of which a snapshot has some thousand."""
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict):
            continue
        key = "/".join(str(entry[name]) for name in _NAMED if entry.get(name) is not None)
        for name, value in entry.items():
            if is_counter(name) and isinstance(value, str) and _NUMBER.fullmatch(value):
                yield str(view), key, name, float(value)


FORMAT: Final = BenchbaseMetrics()
