"""Connections and sessions, from the messages of `log_connections` and `log_disconnections`."""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.serverlogs.log_window import WindowedLogs

#: Value of `what` -> beginning of its message.
_STEPS: Final = {
    "received": r"^connection received: ",
    "authenticated": r"^connection authenticated: ",
    "authorized": r"^(?:replication )?connection authorized: ",
    "ready": r"^connection ready: ",
    "ended": r"^disconnection: ",
}
_SESSION_TIME: Final = r"session time: (\d+):(\d+):(\d+(?:\.\d+)?)"


def read_connections(logs: WindowedLogs) -> pl.DataFrame:
    """One row per record about a connection.

    Returns:
        `log_time`, `node`, `what` (received, authenticated, authorized, ready, ended), `user`, `database`,
        `application`, `client_host` (from the message, else from the prefix) and `session_s`, the length of an ended
        session.
    """
    message = pl.col("message")
    what = pl.coalesce(
        pl.when(message.str.contains(pattern)).then(pl.lit(name)) for name, pattern in _STEPS.items()
    ).cast(pl.Enum(list(_STEPS)))
    hours, minutes, seconds = (message.str.extract(_SESSION_TIME, group).cast(pl.Float64) for group in (1, 2, 3))
    rows = logs.scan("log_events", "log_time").filter(pl.col("kind") == "connection")
    return (
        rows.select(
            "log_time",
            "node",
            what=what,
            user=_named("user", r"\buser=(.*?)(?: database=| application_name=| host=| SSL | \(|$)"),
            database=_named("database", r"\bdatabase=(.*?)(?: application_name=| host=| SSL | \(|$)"),
            application=_named("application", r"\bapplication_name=(.*?)(?: SSL | \(|$)"),
            client_host=_named("client_host", r"\bhost=(\S+)"),
            session_s=3600 * hours + 60 * minutes + seconds,
        )
        .collect(engine="streaming")
        .sort("log_time")
    )


def summarise_sessions(connections: pl.DataFrame) -> pl.DataFrame:
    """Connections and sessions by user, database and client.

    Args:
        connections: result of :func:`read_connections`.

    Returns:
        `user`, `database`, `client_host`, `authorized` (connections that began), `sessions` (that ended), and the
        `total_s`, `mean_s` and `max_s` of sessions; the most connections first. Connections that were only received
        are not counted, because their user is not known.
    """
    group = ["user", "database", "client_host"]
    known = connections.filter(pl.col("what").cast(pl.String).is_in(["authorized", "ended"]))
    table = known.group_by(group, maintain_order=True).agg(
        (pl.col("what") == "authorized").sum().alias("authorized"),
        (pl.col("what") == "ended").sum().alias("sessions"),
        pl.col("session_s").sum().alias("total_s"),
        pl.col("session_s").mean().alias("mean_s"),
        pl.col("session_s").max().alias("max_s"),
    )
    order = ["authorized", "sessions", *group]
    return table.sort(order, descending=[True, True, False, False, False], nulls_last=True)


def connection_times(connections: pl.DataFrame, interval: str) -> pl.DataFrame:
    """Connections per interval of time: `time`, `what`, `connections`.

    Args:
        connections: result of :func:`read_connections`.
        interval: length of an interval, as polars writes it.
    """
    parts = connections.drop_nulls(["log_time", "what"]).with_columns(time=pl.col("log_time").dt.truncate(interval))
    return parts.group_by("time", pl.col("what").cast(pl.String)).agg(connections=pl.len()).sort("time", "what")


def _named(column: str, pattern: str) -> pl.Expr:
    """A value from the message, else from the prefix, which has `[unknown]` while a session begins."""
    prefix = pl.col(column).cast(pl.String)
    return pl.coalesce(pl.col("message").str.extract(pattern, 1), pl.when(prefix != "[unknown]").then(prefix))
