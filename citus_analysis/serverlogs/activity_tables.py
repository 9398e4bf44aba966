"""Lock waits, autovacuum and temporary files, from the messages of server logs."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.serverlogs.log_window import WindowedLogs
from citus_analysis.spans.analyse.tail import autovacuum_seconds
from citus_analysis.units import US_PER_S

#: `process 12 still waiting for ShareLock on transaction 9 after 1000.1 ms`, `process 12 acquired ShareLock on ...`
_LOCK: Final = r"^process \d+ .*?(?P<mode>\w+Lock) on (?P<target>[a-z][a-z ]*[a-z])(?: [0-9(\[]|\b)"


def read_lock_waits(logs: WindowedLogs) -> pl.DataFrame:
    """One row per record of `log_lock_waits`.

    Returns:
        `source_id`, `byte_offset`, `node`, `log_time`, `pid`, `user`, `database`, `application`, `event` (waiting,
        acquired, deadlock), `lock_mode`, `target` (transaction, relation, tuple ...), `waited_s` and `message`.
    """
    message = pl.col("message")
    groups = message.str.extract_groups(_LOCK)
    event = pl.coalesce(
        pl.when(message.str.contains(r"^process \d+ acquired ")).then(pl.lit("acquired")),
        pl.when(message.str.contains("deadlock")).then(pl.lit("deadlock")),
        pl.lit("waiting"),
    )
    rows = logs.scan("log_events", "log_time").filter(pl.col("kind") == "lock_wait")
    return rows.select(
        *("source_id", "byte_offset", "node", "log_time", "pid"),
        pl.col("user", "database", "application").cast(pl.String),
        event=event,
        lock_mode=groups.struct.field("mode"),
        target=groups.struct.field("target"),
        waited_s=pl.col("duration_us") / US_PER_S,
        message="message",
    ).collect(engine="streaming")


def summarise_lock_waits(waits: pl.DataFrame) -> pl.DataFrame:
    """Lock waits by mode and target.

    A wait is logged once after `deadlock_timeout` (`waiting`), and again when the lock is acquired, with the whole time
    waited. A wait that was given up has only the first record, so its time is not known.

    Args:
        waits: result of :func:`read_lock_waits`.

    Returns:
        `lock_mode`, `target`, `waits`, `acquired`, `deadlocks`, and `total_s`, `mean_s` and `max_s` of the waits for
        acquired locks.
    """
    acquired = pl.col("event") == "acquired"
    time = pl.col("waited_s").filter(acquired)
    table = waits.group_by("lock_mode", "target", maintain_order=True).agg(
        (pl.col("event") == "waiting").sum().alias("waits"),
        acquired.sum().alias("acquired"),
        (pl.col("event") == "deadlock").sum().alias("deadlocks"),
        time.sum().alias("total_s"),
        time.mean().alias("mean_s"),
        time.max().alias("max_s"),
    )
    return table.sort("total_s", "waits", "lock_mode", "target", descending=[True, True, False, False])


def read_autovacuum(logs: WindowedLogs) -> pl.DataFrame:
    """Autovacuum's work by table.

    Returns:
        `relation`, `vacuums`, `analyzes`, `elapsed_s` (null if no record states it within its first 500 characters),
        `longest_s`, `tuples_removed` and `pages_removed`, the most work first.
    """
    message = pl.col("message")
    number = {
        "elapsed_s": autovacuum_seconds(),
        "tuples_removed": message.str.extract(r"tuples: (\d+) removed", 1).cast(pl.Int64),
        "pages_removed": message.str.extract(r"pages: (\d+) removed", 1).cast(pl.Int64),
    }
    rows = (
        logs.scan("log_events", "log_time")
        .filter(pl.col("kind") == "autovacuum")
        .select(
            relation=message.str.extract(r'(?:of table|for table) "([^"]+)"', 1),
            vacuum=message.str.contains(r"^automatic (?:aggressive )?vacuum "),
            analyze=message.str.starts_with("automatic analyze "),
            **number,
        )
        .collect(engine="streaming")
    )
    return (
        rows.group_by("relation", maintain_order=True)
        .agg(
            pl.col("vacuum").sum().alias("vacuums"),
            pl.col("analyze").sum().alias("analyzes"),
            pl.when(pl.col("elapsed_s").count() > 0).then(pl.col("elapsed_s").sum()).alias("elapsed_s"),
            pl.col("elapsed_s").max().alias("longest_s"),
            pl.col("tuples_removed", "pages_removed").sum(),
        )
        .sort("elapsed_s", "vacuums", "relation", descending=[True, True, False], nulls_last=True)
    )


def read_temp_files(logs: WindowedLogs) -> pl.DataFrame:
    """One row per temporary file.

    Returns:
        `source_id`, `byte_offset`, `node`, `log_time`, `user`, `database`, `application`, `size_bytes`, and the
        `fingerprint` of the statement, if the log names it (`STATEMENT:`).
    """
    events = logs.scan("log_events", "log_time")
    named = events.filter(pl.col("kind") == "detail", pl.col("statement_fingerprint").is_not_null()).select(
        "source_id", byte_offset="record_byte_offset", fingerprint="statement_fingerprint"
    )
    files = events.filter(pl.col("kind") == "temp_file").select(
        *("source_id", "byte_offset", "node", "log_time"),
        pl.col("user", "database", "application").cast(pl.String),
        size_bytes=pl.col("message").str.extract(r"size (\d+)", 1).cast(pl.Int64),
    )
    known = files.join(named, on=["source_id", "byte_offset"], how="left").collect(engine="streaming")
    return known.unique(["source_id", "byte_offset"], keep="first").sort("log_time", "byte_offset")
