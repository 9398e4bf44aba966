"""Statement executions of server logs, each with its session's user, database, application and client.

Statements of clients come from the table `statements`, which joins the records of one execution. Executions of a Citus
node for another node's statement come from the table `spans`: their time is part of the time of the statement that sent
them, so the two are never added up.

An hour of logs has millions of rows. They are linked to their records by one number, made of the log and the offset,
which is looked up in sorted arrays: a join over texts would take several times as long.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.array_types import Integers
from citus_analysis.schema import STATEMENT_KINDS
from citus_analysis.serverlogs.log_window import WindowedLogs

#: The sender of a statement (`sent_by`).
CLIENT, NODE = "client", "another node"
SENDER: Final = pl.Enum([CLIENT, NODE])

_SESSION: Final = ("user", "database", "application", "client_host")
_KIND: Final = pl.Enum(STATEMENT_KINDS)
#: Bits of the offset in the number of a place; no file is larger.
_OFFSET_BITS: Final = 44
_ERRORS: Final = ("ERROR", "FATAL", "PANIC")
#: Whether a record names the statement of an execution.
_OPENS: Final = pl.col("statement_fingerprint").is_not_null() & (pl.col("kind") != "detail")


def read_statements(logs: WindowedLogs) -> pl.DataFrame:
    """One row per statement execution that ended in the window, in order of logs and offsets.

    Returns:
        `source_id` and `byte_offset` of the record that reported the duration, `node`, `pid`, `end_time`, `sent_by`,
        `statement_kind`, `fingerprint`, `duration_us` (null if the log states none, or the statement failed),
        `failed`, and the session's `user`, `database`, `application` and `client_host`.
    """
    names = pl.Enum(logs.sources["source_id"].to_list())
    of_clients = _of_clients(logs, names)
    rows = pl.concat([of_clients, _of_nodes(logs, names).select(of_clients.columns)])
    keys = _places(rows)
    order = np.argsort(keys, kind="stable")
    rows, keys = rows[order], keys[order]
    wanted = pl.col("duration_us").is_not_null()
    if rows["duration_us"].null_count():
        wanted |= _OPENS | pl.col("severity").cast(pl.String).is_in(_ERRORS) | (pl.col("kind") == "task")
    heads = logs.scan("log_events", "log_time").filter(wanted)
    session = _looked_up(_read(heads, names, *_SESSION), _SESSION, keys)
    paths = dict(logs.sources.select(pl.col("source_id", "path")).iter_rows())
    node = pl.coalesce(
        pl.when(pl.col("node") != pl.col("source_id").cast(pl.String)).then("node"),
        pl.col("source_id").cast(pl.String).replace(paths),
    )
    return rows.hstack(session).with_columns(node=node)


def _of_clients(logs: WindowedLogs, names: pl.Enum) -> pl.DataFrame:
    failed = pl.col("failed").fill_null(value=False)
    rows = logs.scan("statements", "end_time").select(
        pl.col("source_id").cast(names),
        *("byte_offset", "node", "pid", "end_time"),
        sent_by=pl.lit(CLIENT, SENDER),
        statement_kind=pl.col("statement_kind").cast(_KIND),
        fingerprint="statement_fingerprint",
        duration_us=pl.when(~failed).then("total_us"),
        failed=failed,
    )
    return rows.collect(engine="streaming")


def _of_nodes(logs: WindowedLogs, names: pl.Enum) -> pl.DataFrame:
    """Executions for another node, with the fingerprint of the session's last statement; spans have no fingerprint."""
    kinds = dict(zip(STATEMENT_KINDS, STATEMENT_KINDS, strict=True))
    rows = logs.scan("spans", "end_time").filter(pl.col("kind") == "remote").select(
        pl.col("source_id").cast(names),
        *("byte_offset", "node", "pid", "end_time"),
        sent_by=pl.lit(NODE, SENDER),
        statement_kind=pl.col("name").cast(pl.String).replace_strict(kinds, default=None, return_dtype=_KIND),
        duration_us="duration_us",
        failed=pl.lit(value=False),
    )  # fmt: skip
    spans = rows.collect(engine="streaming")
    opens = pl.lit(value=False) if spans.is_empty() else pl.col("gpid").is_not_null() & _OPENS
    openers = _read(logs.dataset.scan("log_events").filter(opens), names, "pid", fingerprint="statement_fingerprint")
    return spans.with_columns(fingerprint=_session_places(spans, openers))


def _session_places(spans: pl.DataFrame, openers: pl.DataFrame) -> pl.Series:
    """The fingerprint of the last opener before each span in the same log and process."""
    session = pl.col("source_id").to_physical().cast(pl.Int64) * 2**32 + pl.col("pid").fill_null(0)
    both = pl.concat([spans.select(session), openers.select(session)])["source_id"].rank("dense").cast(pl.Int64)
    number = both.to_numpy() << _OFFSET_BITS
    wanted = number[: spans.height] + spans["byte_offset"].to_numpy()
    known = number[spans.height :] + openers["byte_offset"].to_numpy()
    order = np.argsort(known, kind="stable")
    place = np.searchsorted(known[order], wanted, side="right") - 1
    same = (place >= 0) & (known[order][place] >> _OFFSET_BITS == wanted >> _OFFSET_BITS) if len(known) else place >= 0
    rows = pl.Series(np.where(same, order[place] if len(order) else place, -1))
    return openers["fingerprint"].gather(rows.replace(-1, None).cast(pl.UInt32))


def _read(rows: pl.LazyFrame, names: pl.Enum, *columns: str, **named: str) -> pl.DataFrame:
    in_window = pl.col("source_id").cast(names, strict=False)
    picked = rows.select(in_window, "byte_offset", *columns, **named).drop_nulls("source_id")
    return picked.collect(engine="streaming")


def _looked_up(records: pl.DataFrame, columns: tuple[str, ...], keys: Integers) -> pl.DataFrame:
    """Columns of the records at these places; null if there is no record."""
    known = _places(records)
    if np.any(known[1:] < known[:-1]):
        order = np.argsort(known, kind="stable")
        records, known = records[order], known[order]
    if not len(known):
        return pl.DataFrame(
            {name: [None] * len(keys) for name in columns}, schema=dict.fromkeys(columns, pl.Categorical)
        )
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    rows = pl.Series(np.where(known[place] == keys, place, -1)).replace(-1, None).cast(pl.UInt32)
    return pl.DataFrame([records[name].gather(rows) for name in columns])


def _places(rows: pl.DataFrame) -> Integers:
    """Log and offset as one number."""
    number = pl.col("source_id").to_physical().cast(pl.Int64)
    return rows.select(number * 2**_OFFSET_BITS + pl.col("byte_offset")).to_series().to_numpy()
