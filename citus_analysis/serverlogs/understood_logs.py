"""How much of each server log a profile rests on: what was not understood must be said, not assumed to be absent."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.formats.api.log_coverage import ENGLISH, FOREIGN, LogCoverage
from citus_analysis.serverlogs.log_window import WindowedLogs
from citus_analysis.texts.counted_words import counted, listed

#: Most logs with a warning of their own.
_NAMED_LOGS: Final = 3
#: A duration of a statement about which a server says what is not known is of kind `other`.
_TIMED: Final = ("duration", "parse", "bind", "other")
_PLACE: Final = ("source_id", "byte_offset")
#: Columns of statements whose presence is shown -> columns of the result.
_FACTS: Final = {"end_time": "with_time", "user": "with_user", "client_host": "with_client"}
_COUNTS: Final = (
    *("records", "logged", "unknown", "durations", "placed", "alone", "rejected", "statements"),
    *_FACTS.values(),
)


def log_coverage(logs: WindowedLogs, statements: pl.DataFrame) -> pl.DataFrame:
    """What was understood of each log.

    Args:
        logs: the logs.
        statements: their statements, as of :func:`citus_analysis.serverlogs.read_statements`.

    Returns:
        Per log `path`; numbers of `records`, of those of severity LOG (`logged`), of those among them that are
        `unknown` and the `first_unknown`; of `durations`, of those that are `placed` in a statement, and of those that
        are `alone`, without a session; of stretches that were `rejected`; of `statements`, and of those `with_time`,
        `with_user` and `with_client`.
    """
    events = logs.scan("log_events", "log_time")
    unknown = pl.col("message").str.contains(FOREIGN) | ~pl.col("message").str.contains(ENGLISH)
    is_log = pl.col("severity") == "LOG"
    others = events.filter(is_log & (pl.col("kind") == "other")).select(*_PLACE, "message").filter(unknown)
    timed = pl.col("kind").cast(pl.String).is_in(_TIMED) & pl.col("duration_us").is_not_null()
    durations = events.filter(timed).select(*_PLACE, "pid")
    spans = logs.dataset.scan("spans").select(_PLACE)
    counts = (
        _per_log(events, records=pl.len(), logged=is_log.sum()),
        _per_log(others.sort("byte_offset"), unknown=pl.len(), first_unknown=pl.col("message").first()),
        _per_log(durations, durations=pl.len(), alone=pl.col("pid").null_count()),
        _per_log(_text_ids(durations).join(_text_ids(spans), on=_PLACE, how="semi"), placed=pl.len()),
        _per_log(logs.dataset.scan("rejects"), rejected=pl.len()),
        _per_log(statements.lazy(), statements=pl.len(), **{new: pl.col(old).count() for old, new in _FACTS.items()}),
    )
    found = logs.sources.select("source_id", "path")
    for table in counts:
        found = found.join(table, on="source_id", how="left", maintain_order="left")
    return found.drop("source_id").with_columns(pl.col(_COUNTS).fill_null(0).cast(pl.Int64))


def _text_ids(rows: pl.LazyFrame) -> pl.LazyFrame:
    # Tables store the identifiers in different types.
    return rows.with_columns(pl.col("source_id").cast(pl.String))


def _per_log(rows: pl.LazyFrame, **counts: pl.Expr) -> pl.DataFrame:
    return _text_ids(rows).group_by("source_id").agg(**counts).collect(engine="streaming")


def coverage_notes(coverage: pl.DataFrame) -> list[str]:
    """A warning for each log of which much was not understood: share, first unknown record, reason and remedy.

    Several logs are named together, with the sums of their counts.
    """
    found: list[tuple[str, LogCoverage]] = []
    for row in coverage.iter_rows(named=True):
        counts = {name: row[name] for name in ("records", "logged", "unknown", "durations", "alone", "first_unknown")}
        known = LogCoverage(**counts, astray=row["durations"] - row["placed"])
        if known.notes():
            found.append((row["path"], known))
    if len(found) <= _NAMED_LOGS:
        return [f"{path}: {note}." for path, known in found for note in known.notes()]
    together = sum((known for _, known in found), start=LogCoverage())
    return [f"{counted(len(found), 'log')}, such as {found[0][0]}: {note}." for note in together.notes()]


def unread_words(coverage: pl.DataFrame, *, of_durations: bool = False) -> str | None:
    """What could not be read of the logs, in words; None if all was.

    Args:
        coverage: as of :func:`log_coverage`.
        of_durations: whether durations that belong to no statement count, too.
    """
    totals = {name: int(coverage[name].sum()) for name in ("unknown", "rejected", "durations", "placed")}
    lost = totals["durations"] - totals["placed"] if of_durations else 0
    parts = {
        f"{totals['unknown']:,} of the LOG records": totals["unknown"],
        counted(totals["rejected"], "rejected stretch"): totals["rejected"],
        f"{lost:,} of {counted(totals['durations'], 'duration')}": lost,
    }
    shown = [words for words, number in parts.items() if number]
    return listed(shown) if shown else None
