"""The one place where every table and column is defined.

A :class:`Table` is a name, a meaning and an ordered tuple of :class:`Column`. Formats, derivations and
readers take their dtypes from here, `docs/tables.md` is written from here, and a test compares what an
ingest wrote with what stands here.

Conventions:
    - a quantity's unit is the suffix of its name (see :mod:`citus_analysis.units`);
    - times are UTC; raw times are never corrected (clock offsets have a table of their own);
    - *identity* columns (which file, resource, run, iteration, node) are filled in by the dataset layer:
      a format module yields tables without them;
    - `resource` is the hive partition key: it is stored in the folder name, not in the file.

Example:
    >>> from citus_analysis import schema
    >>> schema.TABLES["spans"]["duration_us"].unit
    'µs'
    >>> schema.TABLES["rejects"].parsed().names()
    ['byte_offset', 'byte_length', 'reason', 'excerpt']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import polars as pl

from citus_analysis.units import unit_of

__all__ = [
    "EXECUTED",
    "IDENTITY_COLUMNS",
    "KINDS",
    "MATCHES",
    "PARTITION_KEY",
    "PROTOCOL_PHASES",
    "SPAN_KINDS",
    "STATEMENT_KINDS",
    "STATUSES",
    "TABLES",
    "Column",
    "Table",
]

PARTITION_KEY: Final = "resource"

#: Columns that say where a row comes from; filled in by the dataset layer, never by a format.
IDENTITY_COLUMNS: Final = ("source_id", "resource", "run_id", "iteration", "node", "role", "part")

#: What a server log record reports (`log_events.kind`).
KINDS: Final = (
    "duration",  # LOG:  duration: 0.581 ms, alone or with the statement behind it
    "execute",  # LOG:  execute S_1: ...
    "parse",  # LOG:  duration: ... parse S_1: ... (log_min_duration_statement)
    "bind",  # LOG:  duration: ... bind S_1: ... (log_min_duration_statement)
    "statement",  # LOG:  statement: ...
    "parameters",  # DETAIL:  parameters: $1 = ... (PostgreSQL 18: Parameters:)
    "task",  # DEBUG:  task execution (0) for placement (2) on anchor shard (102009) finished in ...
    "checkpoint",
    "autovacuum",
    "lock_wait",
    "temp_file",
    "connection",
    "error",  # severity WARNING or worse without a kind of its own
    "detail",  # DETAIL/HINT/CONTEXT/STATEMENT/QUERY/LOCATION of another record
    "other",
)

#: Which part of the protocol a server log record names (`log_events.phase`).
PROTOCOL_PHASES: Final = ("parse", "bind", "execute", "statement")

STATEMENT_KINDS: Final = (
    "select",
    "insert",
    "update",
    "delete",
    "merge",
    "copy",
    "begin",
    "commit",
    "rollback",
    "prepare",  # PREPARE TRANSACTION, COMMIT/ROLLBACK PREPARED
    "set",
    "ddl",
    "utility",
    "other",
)

SEVERITIES: Final = (
    "DEBUG",
    "INFO",
    "NOTICE",
    "WARNING",
    "LOG",
    "ERROR",
    "FATAL",
    "PANIC",
    "DETAIL",
    "HINT",
    "QUERY",
    "CONTEXT",
    "STATEMENT",
    "LOCATION",
    "BACKTRACE",
)

SPAN_KINDS: Final = ("statement", "phase", "task", "remote", "local")
MATCHES: Final = ("exact", "inferred", "unmatched")
EXECUTED: Final = ("local", "remote", "multi_shard")
PROTOCOLS: Final = ("simple", "extended")
CHILD_PROTOCOLS: Final = ("text", "binary")

#: `runs.status`: ok = all planned operations succeeded; degraded = finished, but operations failed;
#: failed = no summary, or fewer operations attempted than planned.
STATUSES: Final = ("ok", "degraded", "failed")
PHASES: Final = ("load", "run")
ROLES: Final = ("main", "monitor")

_TEXT: Final = pl.String()
_FLAG: Final = pl.Boolean()
_INT: Final = pl.Int32()
_COUNT: Final = pl.Int64()
_REAL: Final = pl.Float64()
_ID: Final = pl.UInt64()
_TIME_MS: Final = pl.Datetime("ms", "UTC")
_TIME_US: Final = pl.Datetime("us", "UTC")


@dataclass(frozen=True)
class Column:
    """One column: its name (with unit suffix), dtype and meaning."""

    name: str
    dtype: pl.DataType
    meaning: str

    @property
    def unit(self) -> str | None:
        """Printable unit, read off the name's suffix; None where there is none."""
        return unit_of(self.name)


@dataclass(frozen=True)
class Table:
    """One table: name, meaning, where its rows come from, and its columns in order."""

    name: str
    meaning: str
    source: str
    columns: tuple[Column, ...]
    #: Identity columns that the file itself states, so that its format yields them.
    stated: frozenset[str] = frozenset()

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def __getitem__(self, name: str) -> Column:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def names(self) -> list[str]:
        """Column names in order."""
        return [column.name for column in self.columns]

    def parsed(self) -> Table:
        """The part of the table that a format module yields: all but the identity columns it does not state."""
        kept = tuple(c for c in self.columns if c.name not in IDENTITY_COLUMNS or c.name in self.stated)
        return Table(self.name, self.meaning, self.source, kept, self.stated)

    def polars_schema(self) -> pl.Schema:
        """Column names and dtypes for polars."""
        return pl.Schema({column.name: column.dtype for column in self.columns})

    def empty(self) -> pl.DataFrame:
        """A frame of this table without rows."""
        return pl.DataFrame(schema=self.polars_schema())

    def require_known(self, names: Iterable[str]) -> None:
        """Raise where a name is none of this table's columns.

        Raises:
            ValueError: it is not.
        """
        unknown = [name for name in names if name not in self]
        if unknown:
            raise ValueError(f"{self.name} defines no column {', '.join(unknown)}")

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Bring a frame to this table's columns, order and dtypes; absent columns become null.

        Raises:
            ValueError: the frame has a column that the table does not define.
        """
        self.require_known(frame.columns)
        present = set(frame.columns)
        return frame.select(
            pl.col(c.name).cast(c.dtype) if c.name in present else pl.lit(None, c.dtype).alias(c.name)
            for c in self.columns
        )


_SOURCE_ID = Column("source_id", _TEXT, "file the row was read from; key of `sources`")
_RESOURCE = Column("resource", _TEXT, "name of the system under test and its set-up; hive partition key")
_RUN_ID = Column("run_id", _TEXT, "run the row belongs to; null where it cannot be told")
_ITERATION = Column("iteration", _INT, "repetition of the same configuration, from 1")
_NODE = Column("node", _TEXT, "node of the cluster as the file's name gives it (`0` = coordinator); key of `nodes`")
_ROLE = Column("role", pl.Enum(ROLES), "main = the measured load; monitor = the sampled client")
_PART = Column("part", _INT, "number of the load generator within the run, from 0")
_OFFSET = Column("byte_offset", _COUNT, "where the record begins in the (decompressed) source")
_LENGTH = Column("byte_length", _COUNT, "length of the record in the (decompressed) source, line end included")

_FILE = (_SOURCE_ID, _RESOURCE)
_CLIENT = (_SOURCE_ID, _RESOURCE, _RUN_ID, _ITERATION, _ROLE, _PART)
_SAMPLE = (
    _SOURCE_ID,
    _RESOURCE,
    _RUN_ID,
    _ITERATION,
    _NODE,
    Column("sample", _INT, "number of the sample within the source, from 0"),
    Column("sample_time", _TIME_MS, "when the sample was printed; null where the tool printed no time"),
    Column("since_boot", _FLAG, "true for the sampler's first report, which averages since boot, not an interval"),
)


def _summary(prefix: str) -> tuple[Column, ...]:
    return (
        Column("mean_us", _REAL, f"mean latency {prefix}"),
        Column("min_us", _REAL, f"smallest latency {prefix}"),
        Column("max_us", _REAL, f"largest latency {prefix}"),
    )


_TABLES: Final = (
    Table(
        "sources",
        "One row per file that an ingest saw.",
        "every file below the SRC arguments",
        (
            *_FILE,
            Column("path", _TEXT, "path relative to the SRC it was found under"),
            Column("format", _TEXT, "name of the format module; null where none recognised the file"),
            Column("bytes", _COUNT, "size on disk"),
            Column("content_hash", _TEXT, "BLAKE3-128 of the bytes on disk, hexadecimal"),
            Column("rows", _COUNT, "rows written from it, over all tables but `rejects`"),
            Column("rejected", _COUNT, "rows of `rejects`"),
            Column("parser_version", _INT, "version of the format module that read it"),
            Column("compression", _TEXT, "none, gzip, zstd or bzip2"),
            Column("content_bytes", _COUNT, "size after decompression"),
            Column("parsed_bytes", _COUNT, "bytes that ended as (part of) a row"),
            Column("noise_bytes", _COUNT, "bytes that the format defines as carrying no data"),
            Column("rejected_bytes", _COUNT, "bytes in `rejects`; parsed + noise + rejected = content"),
            Column("run_id", _TEXT, "run the file belongs to, where its identity names exactly one"),
            Column("note", _TEXT, "why it has no rows or what to know about it; null where nothing"),
            _ITERATION,
            _NODE,
            _ROLE,
            _PART,
        ),
    ),
    Table(
        "rejects",
        "Every stretch of a source that could not be understood. Nothing is dropped silently.",
        "all formats",
        (
            *_FILE,
            _OFFSET,
            _LENGTH,
            Column("reason", _TEXT, "why it was rejected"),
            Column("excerpt", _TEXT, "its beginning (at most 200 characters), secrets redacted"),
        ),
    ),
    Table(
        "nodes",
        "The nodes of a cluster.",
        "config.yml, pg_dist_node.csv",
        (
            *_FILE,
            _NODE,
            Column("nodeid", _INT, "pg_dist_node.nodeid; gpid = nodeid * 10^10 + pid"),
            Column("groupid", _INT, "pg_dist_node.groupid; 0 is the coordinator"),
            Column("host", _TEXT, "host name as Citus knows it"),
            Column("port", _INT, "port"),
        ),
        stated=frozenset({"node"}),
    ),
    Table(
        "shards",
        "Shards and where they are placed.",
        "pg_dist_shard.csv",
        (
            *_FILE,
            Column("relation", _TEXT, "distributed table"),
            Column("shard_id", _COUNT, "pg_dist_shard.shardid"),
            Column("placement_id", _COUNT, "pg_dist_placement.placementid"),
            Column("groupid", _INT, "group that holds the placement"),
            Column("host", _TEXT, "host of the placement"),
            Column("port", _INT, "port of the placement"),
            Column("hash_min", _COUNT, "smallest hash value of the shard"),
            Column("hash_max", _COUNT, "largest hash value of the shard"),
        ),
    ),
    Table(
        "settings",
        "What is known of a resource: versions, hardware, server settings.",
        "config.yml",
        (
            *_FILE,
            Column("name", _TEXT, "dotted name (`settings.citus.enable_binary_protocol`, `hardware`)"),
            Column("value", _TEXT, "value as text, secrets redacted"),
        ),
    ),
    Table(
        "outcomes",
        "How the runner judged the iterations of a resource: what the clients' own output does not show.",
        "outcomes.csv",
        (
            *_FILE,
            Column("judged_iteration", _INT, "iteration of the resource that is judged"),
            Column("outcome", _TEXT, "verified or failed"),
            Column("reason", _TEXT, "why it failed; null where it did not"),
        ),
    ),
    Table(
        "runs",
        "One row per measured run: phase x configuration x iteration, its load generators merged.",
        "derived from clients and client_metrics",
        (
            _RUN_ID,
            _RESOURCE,
            Column("system", _TEXT, "database system (citus, postgresql, aurora ...)"),
            Column("phase", pl.Enum(PHASES), "load = the insert phase; run = the transaction phase"),
            Column("workload", _TEXT, "YCSB core workload, upper case letter, or the workload's name"),
            Column("threads", _INT, "client threads, over all load generators"),
            Column("records", _COUNT, "records in the table (load: to insert)"),
            Column("operations", _COUNT, "operations planned, over all load generators"),
            _ITERATION,
            Column("workers", _INT, "worker nodes of the cluster"),
            Column("drivers", _INT, "load generators"),
            Column("throughput_ops_s", _REAL, "main clients only, summed over drivers"),
            Column("runtime_ms", _REAL, "longest run time of the main clients"),
            Column("operations_done", _COUNT, "operations that succeeded, main clients"),
            Column("failed_operations", _COUNT, "operations that failed, main clients"),
            Column("monitored", _FLAG, "a monitor client ran beside the main clients"),
            Column("status", pl.Enum(STATUSES), "ok, degraded or failed; only ok runs enter statistics by default"),
            Column("status_reason", _TEXT, "why the run is not ok, in words; null when it is"),
            Column("start_time", _TIME_MS, "first status line of a main client; client clock"),
            Column("end_time", _TIME_MS, "last status line of a main client; client clock"),
        ),
    ),
    Table(
        "operation_latencies",
        "Client-side latency per run and operation, load generators merged (percentiles never averaged).",
        "derived from client_metrics and client_histogram",
        (
            _RUN_ID,
            _RESOURCE,
            _ITERATION,
            _ROLE,
            Column("operation", _TEXT, "YCSB section: READ, INSERT, UPDATE, SCAN, READ-MODIFY-WRITE, ..."),
            Column("operations", _COUNT, "measured operations"),
            *_summary("over the run"),
            Column("p50_us", _REAL, "median; null where the sources do not carry it"),
            Column("p90_us", _REAL, "90th percentile"),
            Column("p95_us", _REAL, "95th percentile"),
            Column("p99_us", _REAL, "99th percentile"),
            Column("p999_us", _REAL, "99.9th percentile"),
            Column(
                "percentile_source",
                _TEXT,
                "reported (one client's own), histogram (merged), or null: several clients without histograms",
            ),
        ),
    ),
    Table(
        "clients",
        "One row per load-generator process.",
        "YCSB and pgbench output",
        (
            *_CLIENT,
            Column("tool", _TEXT, "ycsb or pgbench"),
            Column("tool_version", _TEXT, "version the tool printed"),
            Column("throughput_ops_s", _REAL, "as the client reports it"),
            Column("runtime_ms", _REAL, "as the client reports it"),
            Column("threads", _INT, "client threads"),
            Column("target_ops_s", _REAL, "throttle (-target); null when unthrottled"),
            Column("operations_planned", _COUNT, "operationcount, or insertcount for a load"),
            Column("time_limit_s", _REAL, "the client was to end after this time; null when it was not"),
            Column("operations_done", _COUNT, "operations that returned OK"),
            Column("failed_operations", _COUNT, "operations that returned anything else"),
            Column("measurement_type", _TEXT, "histogram, hdrhistogram, timeseries, raw ..."),
            Column("query_mode", _TEXT, "pgbench's protocol: simple, extended or prepared; null for YCSB"),
            Column("start_time", _TIME_MS, "first status line, client clock"),
            Column("end_time", _TIME_MS, "last status line, client clock"),
            Column("completed", _FLAG, "the final summary was printed"),
            Column("command_line", _TEXT, "command line as printed, secrets redacted"),
        ),
    ),
    Table(
        "client_metrics",
        "Every line of a client's final summary.",
        "YCSB `[SECTION], Metric(unit), value`; pgbench summary",
        (
            *_CLIENT,
            Column("section", _TEXT, "OVERALL, READ, INSERT, TOTAL_GCs, ..."),
            Column("metric", _TEXT, "name without its unit: Throughput, AverageLatency, Return=OK, ..."),
            Column("unit", _TEXT, "unit in brackets: ops/sec, us, ms, %; null where none"),
            Column("value", _REAL, "value"),
        ),
    ),
    Table(
        "client_series",
        "What a client reported while it ran: one row per status line and operation, and one for the total.",
        "YCSB status lines (-s), timeseries measurements, pgbench --progress and aggregated logs",
        (
            *_CLIENT,
            Column("section", _TEXT, "operation; null for the line's total over operations"),
            Column("elapsed_s", _REAL, "since the client's start"),
            Column("log_time", _TIME_MS, "client clock; null where not printed"),
            Column("operations_total", _COUNT, "operations done since the start"),
            Column("throughput_ops_s", _REAL, "throughput of the interval"),
            Column("operations", _COUNT, "operations measured in the interval"),
            *_summary("in the interval"),
            Column("p90_us", _REAL, "90th percentile in the interval"),
            Column("p99_us", _REAL, "99th percentile in the interval"),
            Column("p999_us", _REAL, "99.9th percentile in the interval"),
            Column("p9999_us", _REAL, "99.99th percentile in the interval"),
        ),
    ),
    Table(
        "client_histogram",
        "Latency histograms; buckets of several clients merge by adding counts.",
        "YCSB histogram and hdrhistogram in verbose mode, JSON exporter",
        (
            *_CLIENT,
            Column("section", _TEXT, "operation"),
            Column("bucket_low_us", _REAL, "inclusive lower edge"),
            Column("bucket_high_us", _REAL, "exclusive upper edge; infinity for the overflow bucket"),
            Column("count", _COUNT, "operations in the bucket"),
        ),
    ),
    Table(
        "client_latencies",
        "Single latencies, where a client logged every operation.",
        "YCSB measurementtype=raw, pgbench --log",
        (
            *_CLIENT,
            Column("section", _TEXT, "operation or script"),
            Column("time", _TIME_US, "when the operation ended (pgbench) or began (YCSB); null where not absolute"),
            Column("elapsed_s", _REAL, "since the first operation of the source"),
            Column("latency_us", _REAL, "latency"),
            Column("client_thread", _INT, "client number within the load generator"),
            Column("failed", _FLAG, "the operation failed"),
        ),
    ),
    Table(
        "client_errors",
        "Exceptions and error messages a client printed in between, counted by message class.",
        "YCSB and pgbench output",
        (
            *_CLIENT,
            Column("exception", _TEXT, "Java class, or the tool's severity word"),
            Column("message_class", _TEXT, "message with numbers, keys and literals replaced"),
            Column("count", _COUNT, "how often"),
            Column("first_byte_offset", _COUNT, "where it stands first"),
        ),
    ),
    Table(
        "log_events",
        "One row per record of a PostgreSQL server log (a record with its continuation lines).",
        "PostgreSQL server logs: stderr with any log_line_prefix, csvlog, jsonlog",
        (
            _SOURCE_ID,
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _OFFSET,
            _LENGTH,
            _NODE,
            Column("log_time", _TIME_MS, "%m or %t or %n, converted to UTC; null where not parsable"),
            Column("pid", _INT, "%p"),
            Column("backend_id", _INT, "%v before the slash"),
            Column("local_xid", _COUNT, "%v after the slash; 0 = outside a transaction"),
            Column("session_line", _COUNT, "%l: number of the line within the session"),
            Column("application", pl.Categorical(), "%a without a gpid"),
            Column("gpid", _COUNT, "Citus global pid of the parent backend, from %a of citus_internal sessions"),
            Column("user", pl.Categorical(), "%u"),
            Column("database", pl.Categorical(), "%d"),
            Column("client_host", pl.Categorical(), "%h or %r"),
            Column("sqlstate", pl.Categorical(), "%e"),
            Column("severity", pl.Enum(SEVERITIES), "severity word; DEBUG1..5 are DEBUG"),
            Column("kind", pl.Enum(KINDS), "what the record reports"),
            Column("phase", pl.Enum(PROTOCOL_PHASES), "protocol phase, where the line names it"),
            Column("duration_us", _REAL, "reported duration; lock waits: time waited"),
            Column("shard_id", _COUNT, "task: anchor shard; statement on a shard: its shard"),
            Column("placement_id", _COUNT, "task: placement"),
            Column("task_us", _COUNT, "task: reported microseconds"),
            Column("worker_host", pl.Categorical(), "task: worker"),
            Column("worker_port", _INT, "task: worker"),
            Column("statement_kind", pl.Enum(STATEMENT_KINDS), "kind of the statement in the text"),
            Column("statement_name", pl.Categorical(), "prepared statement of an execute line (`S_1`, `<unnamed>`)"),
            Column("statement_fingerprint", _ID, "same statement with other constants and shard numbers: same value"),
            Column("record_byte_offset", _COUNT, "detail lines: byte_offset of the record they belong to"),
            Column("message", _TEXT, "text of records that carry no statement (at most 500 characters), redacted"),
            Column("capped", _FLAG, "the record was longer than the cap; its tail was skipped"),
        ),
    ),
    Table(
        "checkpoints",
        "One row per completed checkpoint or restartpoint.",
        "derived from `checkpoint starting` and `checkpoint complete` records",
        (
            _SOURCE_ID,
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _NODE,
            _OFFSET,
            Column("start_time", _TIME_MS, "log time of `checkpoint starting`; null where the log begins later"),
            Column("end_time", _TIME_MS, "log time of `checkpoint complete`"),
            Column("reason", _TEXT, "time, wal, immediate force wait, shutdown ..."),
            Column("buffers_written", _COUNT, "buffers written"),
            Column("buffers_percent", _REAL, "share of shared_buffers written"),
            Column("wal_added", _INT, "WAL files added"),
            Column("wal_removed", _INT, "WAL files removed"),
            Column("wal_recycled", _INT, "WAL files recycled"),
            Column("write_s", _REAL, "time spent writing"),
            Column("sync_s", _REAL, "time spent in fsync"),
            Column("total_s", _REAL, "total time"),
            Column("sync_files", _INT, "files synchronised"),
            Column("longest_sync_s", _REAL, "longest single fsync"),
            Column("average_sync_s", _REAL, "average fsync"),
            Column("distance_kb", _REAL, "WAL between this checkpoint and the previous"),
            Column("estimate_kb", _REAL, "estimate of the distance to the next"),
        ),
    ),
    Table(
        "spans",
        "Trace tree of every sampled statement: statement -> phases and tasks -> remote or local execution.",
        "derived from log_events",
        (
            Column("trace_id", _ID, "one trace per statement execution seen by a parent"),
            Column("span_id", _ID, "unique within the dataset"),
            Column("parent_span_id", _ID, "null for the root and for children without a known parent"),
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _NODE,
            Column("kind", pl.Enum(SPAN_KINDS), "what the span stands for"),
            Column("name", pl.Categorical(), "statement kind, phase name, or shard statement"),
            Column("start_time", _TIME_US, "end_time - duration_us; the node's own clock"),
            Column("end_time", _TIME_US, "log time of the reporting record (1 ms resolution)"),
            Column("duration_us", _REAL, "as reported by the server"),
            Column("shard_id", _COUNT, "shard, where the span is on one"),
            Column("gpid", _COUNT, "global pid of the parent session"),
            Column("pid", _INT, "backend that reported the span"),
            Column("match", pl.Enum(MATCHES), "how sure the link to the parent span is"),
            Column(
                "includes_commit", _FLAG, "the duration contains the commit's WAL flush; null where nothing commits"
            ),
            Column("session_seq", _COUNT, "number of the statement within its session, from 0"),
            _SOURCE_ID,
            _OFFSET,
        ),
    ),
    Table(
        "statements",
        "One row per statement execution seen by a parent, with its profile.",
        "derived from log_events",
        (
            Column("trace_id", _ID, "trace of the statement"),
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _NODE,
            Column("pid", _INT, "parent backend"),
            Column("gpid", _COUNT, "global pid of the parent session; null where nodeids are unknown"),
            Column("session_seq", _COUNT, "number of the statement within its session, from 0"),
            Column("statement_kind", pl.Enum(STATEMENT_KINDS), "kind of the statement"),
            Column("statement_fingerprint", _ID, "same statement with other constants: same value"),
            Column("protocol", pl.Enum(PROTOCOLS), "protocol of the parent's client"),
            Column("child_protocol", pl.Enum(CHILD_PROTOCOLS), "protocol between parent and child"),
            Column(
                "executed", pl.Enum(EXECUTED), "where the statement ran; null where it touched no shard of a cluster"
            ),
            Column("shard_id", _COUNT, "shard of a single-shard statement"),
            Column("tasks", _INT, "remote tasks plus local shard executions"),
            Column("start_time", _TIME_US, "begin of the first phase; the node's own clock"),
            Column("end_time", _TIME_US, "end of the last phase"),
            Column("parse_us", _REAL, "T's share of the parse phase"),
            Column("bind_us", _REAL, "T's share of the bind phase"),
            Column("execute_us", _REAL, "T's share of the execute phase (simple protocol: all of it)"),
            Column("total_us", _REAL, "T: sum of the protocol phases' durations"),
            Column("parent_us", _REAL, "P = T - W: time the parent computed"),
            Column("wait_us", _REAL, "W: reported task time (several tasks: time during which at least one was out)"),
            Column("child_us", _REAL, "C: child durations (several tasks: of the critical task)"),
            Column("latency_us", _REAL, "L = W - C: network, queueing, connection handling"),
            Column("slowest_task_us", _REAL, "largest task time"),
            Column("median_task_us", _REAL, "median task time"),
            Column("match", pl.Enum(MATCHES), "how sure the link to the children is; the worst of its tasks"),
            Column("includes_commit", _FLAG, "T contains the commit's WAL flush; null where nothing commits"),
            Column("failed", _FLAG, "ended with an error or was cancelled"),
            _SOURCE_ID,
            _OFFSET,
        ),
    ),
    Table(
        "match_quality",
        "How well parent tasks and child statements were paired, per pair of nodes.",
        "derived with spans",
        (
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            Column("parent_node", _TEXT, "node of the parents"),
            Column("child_node", _TEXT, "node of the children"),
            Column("tasks", _COUNT, "task records of the parents"),
            Column("children", _COUNT, "shard statements of the children"),
            Column("exact", _COUNT, "pairs by order, sequences complete"),
            Column("inferred", _COUNT, "pairs by alignment"),
            Column("unmatched_tasks", _COUNT, "tasks without a child"),
            Column("unmatched_children", _COUNT, "children without a task"),
            Column("ambiguous", _COUNT, "tasks for which several alignments are as good"),
            Column("match_rate", _REAL, "(exact + inferred) / tasks"),
            Column("warning", _TEXT, "what limits the matching; null when nothing does"),
        ),
    ),
    Table(
        "clock_offsets",
        "Offset between the clocks of two nodes, bounded by causality over the exact pairs.",
        "derived with spans",
        (
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            Column("parent_node", _TEXT, "reference clock"),
            Column("child_node", _TEXT, "clock that is compared: child time = parent time + offset"),
            Column("pairs", _COUNT, "exact pairs used"),
            Column("offset_us", _REAL, "estimate at the middle of the run"),
            Column("offset_low_us", _REAL, "lower bound"),
            Column("offset_high_us", _REAL, "upper bound"),
            Column("drift_ppm", _REAL, "change of the offset over the run"),
            Column("drift_low_ppm", _REAL, "lower bound"),
            Column("drift_high_ppm", _REAL, "upper bound"),
            Column("reference_time", _TIME_US, "time (parent clock) for which offset_us holds"),
            Column("method", _TEXT, "how it was estimated"),
        ),
    ),
    Table(
        "cpu_samples",
        "CPU time shares.",
        "iostat (avg-cpu), vmstat",
        (
            *_SAMPLE,
            Column("sampler", _TEXT, "iostat or vmstat"),
            Column("user_percent", _REAL, "user"),
            Column("nice_percent", _REAL, "nice; null for vmstat, which counts it as user"),
            Column("system_percent", _REAL, "system"),
            Column("iowait_percent", _REAL, "waiting for I/O"),
            Column("steal_percent", _REAL, "stolen by the hypervisor"),
            Column("idle_percent", _REAL, "idle"),
        ),
    ),
    Table(
        "device_samples",
        "Block device activity.",
        "iostat device blocks, text and JSON",
        (
            *_SAMPLE,
            Column("device", _TEXT, "device name"),
            Column("is_group", _FLAG, "true for the total of a group of devices (-g); null where that is not shown"),
            Column("transfers_per_s", _REAL, "tps (plain iostat without -x, and -s)"),
            Column("total_kb_s", _REAL, "data read, written and discarded (-x -s)"),
            Column("write_discard_kb_s", _REAL, "data written and discarded (-s without -x)"),
            Column("merges_per_s", _REAL, "requests of all kinds merged (-x -s)"),
            Column("reads_per_s", _REAL, "read requests completed"),
            Column("read_kb_s", _REAL, "data read"),
            Column("read_merges_per_s", _REAL, "read requests merged"),
            Column("read_merge_percent", _REAL, "share of read requests merged"),
            Column("read_await_ms", _REAL, "average time of read requests, queueing included"),
            Column("read_request_kb", _REAL, "average size of read requests"),
            Column("writes_per_s", _REAL, "write requests completed"),
            Column("write_kb_s", _REAL, "data written"),
            Column("write_merges_per_s", _REAL, "write requests merged"),
            Column("write_merge_percent", _REAL, "share of write requests merged"),
            Column("write_await_ms", _REAL, "average time of write requests"),
            Column("write_request_kb", _REAL, "average size of write requests"),
            Column("discards_per_s", _REAL, "discard requests completed"),
            Column("discard_kb_s", _REAL, "data discarded"),
            Column("discard_merges_per_s", _REAL, "discard requests merged"),
            Column("discard_merge_percent", _REAL, "share of discard requests merged"),
            Column("discard_await_ms", _REAL, "average time of discard requests"),
            Column("discard_request_kb", _REAL, "average size of discard requests"),
            Column("flushes_per_s", _REAL, "flush requests completed"),
            Column("flush_await_ms", _REAL, "average time of flush requests"),
            Column("await_ms", _REAL, "average time of all requests: as printed, else weighted from r/w/d awaits"),
            Column("request_kb", _REAL, "average size of all requests, as older versions print it"),
            Column("queue_length", _REAL, "average queue length (aqu-sz, avgqu-sz)"),
            Column("service_ms", _REAL, "svctm of older versions; do not trust it (sysstat's own words)"),
            Column("utilization_percent", _REAL, "%util: share of time with a request in flight"),
        ),
    ),
    Table(
        "vm_samples",
        "Memory, swap, block I/O and scheduler counters.",
        "vmstat",
        (
            *_SAMPLE,
            Column("runnable", _INT, "r: processes running or waiting for a CPU"),
            Column("blocked", _INT, "b: processes in uninterruptible sleep"),
            Column("swapped_kb", _COUNT, "swpd"),
            Column("free_kb", _COUNT, "free memory"),
            Column("buffer_kb", _COUNT, "buff"),
            Column("cache_kb", _COUNT, "cache"),
            Column("inactive_kb", _COUNT, "inact (-a)"),
            Column("active_kb", _COUNT, "active (-a)"),
            Column("swap_in_kb_s", _REAL, "si"),
            Column("swap_out_kb_s", _REAL, "so"),
            Column("blocks_in_per_s", _REAL, "bi: blocks of 1024 bytes"),
            Column("blocks_out_per_s", _REAL, "bo: blocks of 1024 bytes"),
            Column("interrupts_per_s", _REAL, "in"),
            Column("context_switches_per_s", _REAL, "cs"),
            Column("guest_percent", _REAL, "gu: CPU time of guests (newer versions)"),
        ),
    ),
    Table(
        "perf_symbols",
        "Share of samples per symbol.",
        "perf report --stdio",
        (
            _SOURCE_ID,
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _NODE,
            Column("event", _TEXT, "sampled event"),
            Column("samples_total", _COUNT, "samples of the event in the report's header, which perf cuts to K and M"),
            Column("children_percent", _REAL, "share with callees; null without --children"),
            Column("self_percent", _REAL, "share of the symbol itself"),
            Column("samples", _COUNT, "samples (-n); null where not printed"),
            Column("command", _TEXT, "comm"),
            Column("pid", _INT, "process, where the report sorts by it"),
            Column("shared_object", _TEXT, "binary or library; [kernel.kallsyms] for the kernel"),
            Column(
                "mode",
                _TEXT,
                "privilege level as perf prints it: . user, k kernel, g guest, u guest user, H hypervisor",
            ),
            Column("symbol", _TEXT, "function, or a raw address"),
            Column("parent", _TEXT, "parent symbol, where the report sorts by it"),
        ),
    ),
    Table(
        "perf_stacks",
        "Call stacks with their weight.",
        "perf script, perf report call graphs (text and folded)",
        (
            _SOURCE_ID,
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _NODE,
            Column("event", _TEXT, "sampled event"),
            Column("command", _TEXT, "comm"),
            Column("pid", _INT, "process (perf script prints the thread unless told otherwise); null in most reports"),
            Column("stack", _TEXT, "frames from root to leaf, joined by `;`"),
            Column("shared_object", _TEXT, "binary or library of the leaf frame"),
            Column("samples", _COUNT, "samples with this stack; null where only a share is known"),
            Column("event_count", _COUNT, "events these samples stand for (sum of periods); null where not printed"),
            Column("self_percent", _REAL, "share of the event's count, or of its samples where no period is printed"),
        ),
    ),
    Table(
        "perf_counters",
        "Counter values.",
        "perf stat: text, CSV (-x), intervals (-I)",
        (
            _SOURCE_ID,
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _NODE,
            Column("elapsed_s", _REAL, "end of the interval (-I), else the whole run's elapsed time"),
            Column("scope", _TEXT, "CPU, core, socket or thread it was counted on (-A, --per-...); null = all"),
            Column("event", _TEXT, "event"),
            Column("value", _REAL, "counter value; null where not supported or not counted"),
            Column("unit", _TEXT, "unit perf prints (msec ...)"),
            Column("status", _TEXT, "counted, not supported or not counted"),
            Column("running_percent", _REAL, "share of the time the counter was scheduled (multiplexing)"),
            Column("variation_percent", _REAL, "+- over repeats (-r)"),
            Column("metric", _REAL, "derived metric"),
            Column("metric_unit", _TEXT, "what the derived metric is"),
        ),
    ),
    Table(
        "published",
        "Numbers that others published. Never mixed into a computed interval.",
        "data/published/*.csv",
        (
            Column("source", _TEXT, "key of the publication"),
            Column("table", _TEXT, "table, figure or section, as the publication numbers it"),
            Column("row", _TEXT, "row of the table, or the sentence's subject; the same subject has the same words"),
            Column("system", _TEXT, "database system the number is about; null where it is about none"),
            Column("workload", _TEXT, "insert, select, ycsb-a, tproc-c, dbt-1 ...; null where none ran"),
            Column("metric", _TEXT, "what is stated, its unit as suffix (docs/published.md lists the names)"),
            Column("value", _REAL, "stated value; null where the statement is a word"),
            Column("unit", _TEXT, "stated unit"),
            Column("n", _INT, "repetitions, if known"),
            Column("stated", _TEXT, "value as printed, which tells its precision; ~ in front: an approximation"),
            Column("seed", _TEXT, "number of the text it was transcribed from; null for tables of users"),
            Column("location", _TEXT, "where it stands: line of that text, or line and column of a table file"),
            Column("note", _TEXT, "conditions and doubts"),
        ),
    ),
    Table(
        "findings",
        "What an audit found.",
        "audit of published tables and of runs",
        (
            Column(
                "severity",
                pl.Enum(("green", "amber", "red")),
                "red = contradicts itself; amber = doubtful; green = checked and consistent",
            ),
            Column("check", _TEXT, "name of the check"),
            Column("source", _TEXT, "publication or dataset"),
            Column("table", _TEXT, "table"),
            Column("row", _TEXT, "row or run"),
            Column("expected", _TEXT, "what the other numbers imply"),
            Column("stated", _TEXT, "what is stated"),
            Column("explanation", _TEXT, "one sentence"),
        ),
    ),
)

TABLES: Final[dict[str, Table]] = {table.name: table for table in _TABLES}

#: Tables that describe publications and audits; they are no part of a dataset on disk.
OUTSIDE_DATASET: Final = frozenset({"published", "findings"})

#: Tables that an ingest computes from other tables.
DERIVED: Final = ("runs", "operation_latencies", "statements", "spans", "match_quality", "clock_offsets")
