"""Warnings, errors and deadlocks of server logs, by severity, SQLSTATE and message."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.schema import SEVERE_KINDS
from citus_analysis.serverlogs.log_window import WindowedLogs

#: Severities that count as an error or a warning, the worst first.
SEVERITIES_SHOWN: Final = ("PANIC", "FATAL", "ERROR", "WARNING")
#: SQLSTATE, or message, of a transaction that was cancelled to resolve a deadlock; Citus has a message of its own.
_DEADLOCK: Final = r"^(?:40P01: )?deadlock detected|distributed deadlock"
#: The SQLSTATE that `log_error_verbosity = verbose` writes before a message.
_STATE: Final = r"^([0-9A-Z]{5}): "
#: Parts in which messages of the same cause differ: texts in quotes, numbers.
_VARYING: Final = ((r'"[^"]*"', '"?"'), (r"'[^']*'", "'?'"), (r"\b\d+(?:[.:/-]\d+)*\b", "?"), (r"\s+", " "))


def read_errors(logs: WindowedLogs) -> pl.DataFrame:
    """One row per record of severity WARNING or worse.

    Returns:
        `source_id`, `byte_offset`, `byte_length`, `node`, `log_time`, `severity`, `sqlstate`, `user`, `database`,
        `application`, `message` (redacted, at most 500 characters), `normalised` (without values) and `deadlock`.
    """
    message = pl.col("message")
    normalised = message.str.replace(_STATE, "")
    state = pl.coalesce(pl.col("sqlstate").cast(pl.String), message.str.extract(_STATE, 1))
    for pattern, replacement in _VARYING:
        normalised = normalised.str.replace_all(pattern, replacement)
    rows = logs.scan("log_events", "log_time").filter(pl.col("severity").cast(pl.String).is_in(SEVERITIES_SHOWN))
    return rows.select(
        *("source_id", "byte_offset", "byte_length", "node", "log_time"),
        pl.col("severity", "user", "database", "application").cast(pl.String),
        "message",
        sqlstate=state,
        normalised=normalised.str.strip_chars(),
        deadlock=(state == "40P01").fill_null(value=False) | message.str.contains(_DEADLOCK).fill_null(value=False),
    ).collect(engine="streaming")


def read_severe(logs: WindowedLogs) -> pl.DataFrame:
    """Records that say that a server is in danger or refuses its service, the worst kind first.

    Returns:
        `kind` (of :data:`citus_analysis.schema.SEVERE_KINDS`), `sqlstate` of the kind, `records`, `first_time`,
        `last_time` and `example`, a message as logged.
    """
    order = pl.Enum(list(SEVERE_KINDS))
    rows = logs.scan("log_events", "log_time").filter(pl.col("kind").cast(pl.String).is_in(list(SEVERE_KINDS)))
    found = rows.select(
        pl.col("kind").cast(pl.String).cast(order), *("log_time", "source_id", "byte_offset", "message")
    ).sort("source_id", "byte_offset")
    table = found.group_by("kind", maintain_order=True).agg(
        records=pl.len().cast(pl.Int64),
        first_time=pl.col("log_time").min(),
        last_time=pl.col("log_time").max(),
        example=pl.col("message").first(),
    )
    state = pl.col("kind").cast(pl.String).replace_strict(dict(SEVERE_KINDS), return_dtype=pl.String)
    columns = ("kind", "sqlstate", "records", "first_time", "last_time", "example")
    return table.sort("kind").with_columns(sqlstate=state).select(columns).collect()


def summarise_errors(errors: pl.DataFrame) -> pl.DataFrame:
    """Errors by severity, SQLSTATE and message without values, the most frequent first.

    Args:
        errors: result of :func:`read_errors`.

    Returns:
        `severity`, `sqlstate`, `normalised`, `count`, `users`, `databases`, `first_time`, `last_time`, `example` (a
        message as logged) and its `source_id` and `byte_offset`.

    Example:
        >>> row = {"source_id": "a", "severity": "ERROR", "sqlstate": "42P01", "user": "u", "database": "d"}
        >>> words = [f'relation "{name}" does not exist' for name in ("x", "y")]
        >>> same = {"normalised": 'relation "?" does not exist', "log_time": None}
        >>> rows = [row | same | {"message": text, "byte_offset": 10} for text in words]
        >>> summarise_errors(pl.DataFrame(rows)).select("sqlstate", "normalised", "count").rows()
        [('42P01', 'relation "?" does not exist', 2)]
    """
    table = errors.group_by("severity", "sqlstate", "normalised", maintain_order=True).agg(
        pl.len().alias("count"),
        pl.col("user").n_unique().alias("users"),
        pl.col("database").n_unique().alias("databases"),
        pl.col("log_time").min().alias("first_time"),
        pl.col("log_time").max().alias("last_time"),
        pl.col("message").first().alias("example"),
        pl.col("source_id", "byte_offset").first(),
    )
    worst = pl.col("severity").cast(pl.Enum(SEVERITIES_SHOWN))
    return table.sort("count", worst, "normalised", descending=[True, False, False], nulls_last=True)


def errors_over_time(errors: pl.DataFrame, interval: str) -> pl.DataFrame:
    """Errors per interval of time: `time`, `severity`, `errors`.

    Args:
        errors: result of :func:`read_errors`.
        interval: length of an interval, as polars writes it.
    """
    parts = errors.drop_nulls("log_time").with_columns(time=pl.col("log_time").dt.truncate(interval))
    return parts.group_by("time", "severity", maintain_order=True).agg(errors=pl.len()).sort("time", "severity")
