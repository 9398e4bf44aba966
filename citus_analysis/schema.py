"""Definitions of all tables and columns.

A :class:`Table` has a name, a meaning and an ordered tuple of :class:`Column`. Formats, derivations and readers use the
dtypes of this module, `docs/tables.md` is generated from it, and a test compares the tables that an ingest wrote with
these definitions.

Conventions:
    - a quantity's unit is the suffix of its name (see :mod:`citus_analysis.units`);
    - times are UTC, always in µs, so that tables can be joined by them; raw times are never corrected
      (clock offsets have a separate table);
    - *identity* columns (file, resource, run, iteration, node) are added by the package `dataset`; tables of a format
      module do not contain them;
    - `resource` is the hive partition key: it is stored in the folder name, not in the file.

Example:
    >>> from citus_analysis import schema
    >>> schema.TABLES["spans"]["duration_us"].unit
    'µs'
    >>> schema.TABLES["rejects"].parsed().names()
    ['byte_offset', 'byte_length', 'reason', 'excerpt']
    >>> schema.TABLES["spans"].arrow().field("duration_us").metadata[b"unit"].decode()
    'µs'
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from citus_analysis.core.table_definition import (
    CATEGORY,
    CPU_TIME,
    FLAG,
    HASH,
    IDENTITY_COLUMNS,
    INT32,
    INT64,
    LOADS,
    PARTITION_KEY,
    REAL,
    TEXT,
    TIME,
    Column,
    Product,
    Relation,
    Rows,
    ShareRelation,
    Table,
    ValueBounds,
    Whole,
    make_enum_type,
)

__all__ = [
    "EXECUTED",
    "IDENTITY_COLUMNS",
    "KINDS",
    "MATCHES",
    "PARTITION_KEY",
    "PROOFS",
    "PROTOCOL_PHASES",
    "SPAN_KINDS",
    "STATEMENT_KINDS",
    "STATUSES",
    "TABLES",
    "Column",
    "Rows",
    "Table",
]

#: Kinds of server log records (`log_events.kind`).
KINDS: Final = (
    "duration",  # LOG:  duration: 0.581 ms, alone or followed by the statement
    "execute",  # LOG:  execute S_1: ...
    "parse",  # LOG:  duration: ... parse S_1: ... (log_min_duration_statement)
    "bind",  # LOG:  duration: ... bind S_1: ... (log_min_duration_statement)
    "statement",  # LOG:  statement: ...
    "parameters",  # DETAIL:  parameters: $1 = ... (PostgreSQL 18: Parameters:)
    "plan",  # LOG:  duration: 0.581 ms  plan: ... (auto_explain; the executor's time, within that of the statement)
    "connect",  # DEBUG:  established connection to worker2:5432 for session 1 in 18439 microseconds
    "task",  # DEBUG:  task execution (0) for placement (2) on anchor shard (102009) finished in ...
    "local",  # a local execution on a shard: the executor's record has the phase `execute`, the planner's has none
    "checkpoint",
    "autovacuum",
    "lock_wait",
    "temp_file",
    "connection",
    "error",  # severity WARNING or worse, of no other kind
    *("wraparound", "crash", "out_of_memory", "archive_failed", "checksum", "deadlock"),  # see SEVERE_KINDS
    *("statement_timeout", "too_many_connections", "disk_full"),
    "detail",  # DETAIL/HINT/CONTEXT/STATEMENT/QUERY/LOCATION of another record
    "other",
)

#: Kinds of records that say that a server is in danger or refuses its service, the worst first -> their SQLSTATE, which
#: a log names only with `%e` or as csvlog; None: their messages have none.
SEVERE_KINDS: Final[Mapping[str, str | None]] = {
    "checksum": "XX001",  # page verification failed, invalid page in block ...
    "crash": "57P02",  # a server process was terminated, and the server recovers
    "wraparound": "54000",  # database must be vacuumed within ... transactions, or accepts no commands
    "disk_full": "53100",  # could not write ...: No space left on device
    "out_of_memory": "53200",
    "archive_failed": None,  # archive command failed with exit code ...
    "too_many_connections": "53300",
    "deadlock": "40P01",
    "statement_timeout": "57014",
}

#: Parts of the protocol that server log records name (`log_events.phase`).
PROTOCOL_PHASES: Final = (
    *("parse", "bind", "execute", "statement"),
    "fetch",  # execute fetch from S_1/C_2: ..., a further part of the rows of a portal, before which nothing is bound
    "fastpath",  # fastpath function call: "loread" (OID 954)
)

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

#: Kinds of statements that read or change rows of tables; benchmarks measure these.
DATA_STATEMENTS: Final = ("select", "insert", "update", "delete", "merge", "copy")

#: Kinds of statements whose transaction writes WAL that its commit has to flush.
WRITING_STATEMENTS: Final = (*(kind for kind in DATA_STATEMENTS if kind != "select"), "ddl")

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

SPAN_KINDS: Final = ("statement", "phase", "task", "remote", "local", "connect")
MATCHES: Final = ("exact", "inferred", "unmatched")
PROOFS: Final = ("order", "content", "both")
EXECUTED: Final = ("local", "remote", "multi_shard")
PROTOCOLS: Final = ("simple", "extended")
CHILD_PROTOCOLS: Final = ("text", "binary")

#: `runs.status`, from the best to the worst; the rules are in `citus_analysis.runs.status`.
STATUSES: Final = ("ok", "doubtful", "degraded", "failed")
#: Phase of a run that only prepares others: no statistic takes it for one of them.
WARM_UP: Final = "warmup"
PHASES: Final = ("load", "run", WARM_UP)
#: Reasons why a counter's growth is not known exactly (`server_counters.note`).
COUNTER_NOTES: Final = ("first", "reset", "decreased", "new", "gone", "evictions")
#: Kinds of work of the runner's canary; the first begins a sample.
CANARY_WORKS: Final = ("cpu", "memory", "system", "wakeup", "disk")
#: Files of `/proc/pressure`.
PRESSURES: Final = ("cpu", "io", "memory", "irq")
#: Kinds of rows of `plan_nodes`.
PLAN_ITEMS: Final = ("node", "task", "subplan", "job")
#: Formats of EXPLAIN.
PLAN_FORMS: Final = ("text", "json", "yaml", "xml")
#: Where the prefix of a server log came from.
PREFIX_ORIGINS: Final = ("given", "config", "inferred")
ROLES: Final = ("main", "monitor")
#: Kinds of lines of a pooler's log.
POOLER_EVENTS: Final = ("login", "connect", "close", "error", "stats", "other")


#: Sources of the identity columns.
_PLACE: Final = "the source's path, its folder's configuration, a table of labels or --meta"
_CONTENT: Final = "hash of the resource and of the source's path within it"

_SOURCE_ID = Column("source_id", TEXT, "file the row was read from; key of `sources`", _CONTENT)
_RESOURCE = Column("resource", TEXT, "name of the system under test and its set-up; hive partition key", _PLACE)
_RUN_ID = Column("run_id", TEXT, "run the row belongs to; null if unknown", _PLACE)
_ITERATION = Column("iteration", INT32, "repetition of the same configuration, from 1", _PLACE)
_NODE = Column(
    "node", TEXT, "node of the cluster as the file's name gives it (`0` = coordinator); key of `nodes`", _PLACE
)
_ROLE = Column("role", make_enum_type(ROLES), "main = the measured load; monitor = the sampled client", _PLACE)
_PART = Column("part", INT32, "number of the load generator within the run, from 0", _PLACE)
_OFFSET = Column(
    "byte_offset",
    INT64,
    "begin of the record in the (decompressed) file, as it was delivered; in an export whose records had to be sorted "
    "by time, in the sorted text",
)
_LENGTH = Column("byte_length", INT64, "length of the record in the (decompressed) source, line end included")

_FILE = (_SOURCE_ID, _RESOURCE)
_CORRECTED: Final = (
    "from the scheduled start, or corrected for coordinated omission; null if the source does not state it"
)
_CLIENT = (_SOURCE_ID, _RESOURCE, _RUN_ID, _ITERATION, _ROLE, _PART)
_DOUBTFUL = Column("doubtful", TEXT, "columns of the row whose values cannot be, and which enter no mean; null if none")
_JUDGED = (
    Column(
        "byte_offset",
        INT64,
        "begin of the row's line, or of the JSON object of its sample, in the (decompressed) source",
    ),
    _DOUBTFUL,
)
_SAMPLE = (
    _SOURCE_ID,
    _RESOURCE,
    _RUN_ID,
    _ITERATION,
    _NODE,
    Column("sample", INT32, "number of the sample within the source, from 0"),
    Column("sample_time", TIME, "time at which the sample was printed; null if the tool printed none"),
    Column("since_boot", FLAG, "true for the sampler's first report, which averages since boot, not an interval"),
    *_JUDGED,
)


_CPU_SHARES = (
    Column("user_percent", REAL, "user, with guests"),
    Column("nice_percent", REAL, "nice; null for vmstat, which counts it as user, and for dstat and dool"),
    Column("system_percent", REAL, "system, with interrupts"),
    Column("iowait_percent", REAL, "waiting for I/O"),
    Column("steal_percent", REAL, "stolen by the hypervisor"),
    Column("idle_percent", REAL, "idle"),
    Column("irq_percent", REAL, "of system: hardware interrupts; null if not printed"),
    Column("softirq_percent", REAL, "of system: software interrupts; null if not printed"),
    Column("guest_percent", REAL, "of user and nice: virtual processors; null if not printed"),
)
#: The other shares are parts of these.
_ALL_OF_CPU: Final = Whole(tuple(column.name for column in _CPU_SHARES[:6]), decisive="idle_percent")
_KINDS_OF_REQUESTS: Final = ("read", "write", "discard")
_OF_DEVICES: Final[tuple[Relation, ...]] = (
    *(Product((f"{kind}_kb_s",), (f"{kind}s_per_s",), f"{kind}_request_kb") for kind in _KINDS_OF_REQUESTS),
    Product(
        ("read_kb_s", "write_kb_s", "discard_kb_s"), ("reads_per_s", "writes_per_s", "discards_per_s"), "request_kb"
    ),
    Product(("read_kb_s", "write_kb_s", "discard_kb_s"), ("transfers_per_s",), "request_kb"),
    Product(("total_kb_s",), ("transfers_per_s",), "request_kb"),
    *(ShareRelation(f"{kind}_merge_percent", f"{kind}_merges_per_s", f"{kind}s_per_s") for kind in _KINDS_OF_REQUESTS),
)


def _make_summary_columns(prefix: str) -> tuple[Column, ...]:
    return (
        Column("mean_us", REAL, f"mean latency {prefix}"),
        Column("min_us", REAL, f"smallest latency {prefix}"),
        Column("max_us", REAL, f"largest latency {prefix}"),
    )


_TABLES: Final = (
    Table(
        "sources",
        "One row per file that an ingest examined.",
        "every file below the SRC arguments",
        (
            *_FILE,
            Column(
                "path",
                TEXT,
                "path relative to the SRC it was found under; `results.tar.gz/run1/x.log` for a member of an archive, "
                "`sweep.log#2` for one of several sources in a file",
            ),
            Column("format", TEXT, "name of the format module; null if none recognised the file"),
            Column(
                "delivery",
                TEXT,
                "how the text stands in the file (`tar.gz, Docker JSON`), undone before the format read it; null if "
                "the file holds the text as it is",
            ),
            Column(
                "bytes",
                INT64,
                "size on disk; of one of several sources in a file: the bytes of the file that are its own",
            ),
            Column("content_hash", TEXT, "BLAKE3-128 of the bytes on disk, hexadecimal"),
            Column("rows", INT64, "rows written from it, over all tables but `rejects`"),
            Column("rejected", INT64, "rows of `rejects`"),
            Column("parser_version", INT32, "version of the format module that read it"),
            Column("compression", TEXT, "none, gzip, zstd, bzip2, xz or lz4"),
            Column("content_bytes", INT64, "size after decompression"),
            Column("parsed_bytes", INT64, "bytes that became (part of) a row"),
            Column("noise_bytes", INT64, "bytes that the format defines as carrying no data"),
            Column("rejected_bytes", INT64, "bytes in `rejects`; parsed + noise + rejected = content"),
            Column("run_id", TEXT, "run the file belongs to; null if its identity names none or several", _PLACE),
            Column("note", TEXT, "reason why it has no rows, or a remark; null if neither"),
            Column(
                "log_line_prefix",
                TEXT,
                "prefix with which a server log was read, `%?` for each field of which it is not known what it is; "
                "null for other formats",
            ),
            Column(
                "log_line_prefix_origin",
                make_enum_type(PREFIX_ORIGINS),
                "given (--meta or a label file), config (config.yml) or inferred (from the log)",
            ),
            Column(
                "log_line_prefix_undecided",
                TEXT,
                "what each field of the prefix may be that is not decided and gives no column; null if there is none",
            ),
            Column(
                "log_unread",
                TEXT,
                "how much of a server log was not understood, the first such record, the likely reason and a remedy; "
                "null if nearly all was",
            ),
            _ITERATION,
            _NODE,
            _ROLE,
            _PART,
        ),
    ),
    Table(
        "rejects",
        "Every part of a source that could not be parsed. Nothing is dropped silently.",
        "all formats",
        (
            *_FILE,
            _OFFSET,
            _LENGTH,
            Column("reason", TEXT, "why it was rejected"),
            Column("excerpt", TEXT, "its beginning (at most 200 characters), secrets redacted"),
        ),
    ),
    Table(
        "nodes",
        "The nodes of a cluster.",
        "config.yml, pg_dist_node.csv",
        (
            *_FILE,
            _NODE,
            Column("nodeid", INT32, "pg_dist_node.nodeid; gpid = nodeid * 10^10 + pid"),
            Column("groupid", INT32, "pg_dist_node.groupid; 0 is the coordinator"),
            Column("host", TEXT, "host name as Citus knows it"),
            Column("port", INT32, "port"),
        ),
        stated=frozenset({"node"}),
    ),
    Table(
        "shards",
        "Shards and their placements.",
        "pg_dist_shard.csv",
        (
            *_FILE,
            Column("relation", TEXT, "distributed table"),
            Column("shard_id", INT64, "pg_dist_shard.shardid"),
            Column("placement_id", INT64, "pg_dist_placement.placementid"),
            Column("groupid", INT32, "group that holds the placement"),
            Column("host", TEXT, "host of the placement"),
            Column("port", INT32, "port of the placement"),
            Column("hash_min", INT64, "smallest hash value of the shard"),
            Column("hash_max", INT64, "largest hash value of the shard"),
        ),
    ),
    Table(
        "settings",
        "Description of a resource: versions, hardware, server settings.",
        "config.yml",
        (
            *_FILE,
            Column("name", TEXT, "dotted name (`settings.citus.enable_binary_protocol`, `hardware`)"),
            Column("value", TEXT, "value as text, secrets redacted"),
        ),
    ),
    Table(
        "outcomes",
        "The runner's verdicts on the iterations of a resource, which the clients' output does not show.",
        "outcomes.csv",
        (
            *_FILE,
            Column("judged_iteration", INT32, "iteration of the resource that is judged"),
            Column("outcome", TEXT, "verified, degraded or failed"),
            Column("reason", TEXT, "why it is not verified; null if it is"),
            Column("measured_from", TIME, "when the runner had started all main clients; null in older files"),
            Column("measured_until", TIME, "when the first main client had ended; null in older files"),
        ),
    ),
    Table(
        "runs",
        "One row per measured run: phase x configuration x iteration, its load generators merged.",
        "derived from clients and client_metrics",
        (
            _RUN_ID,
            _RESOURCE,
            Column("system", TEXT, "database system (citus, postgresql, aurora ...)"),
            Column(
                "set_up",
                TEXT,
                "set-up of the run, as stated or read off names; runs with different set-ups never form one series",
            ),
            Column("inferred", TEXT, "names of facts that were read off names and times of files; null if none"),
            Column(
                "phase",
                make_enum_type(PHASES),
                "load = the insert phase; run = the transaction phase; warmup = before the runs that count",
            ),
            Column(
                "workload", TEXT, "YCSB core workload, upper case letter, or the workload's name, or pgbench's script"
            ),
            Column("threads", INT32, "client threads, over all load generators"),
            Column("connected_threads", INT32, "of these, those that connected; null if a client does not report it"),
            Column("records", INT64, "records in the table (load: to insert)"),
            Column("operations", INT64, "operations planned, over all load generators"),
            _ITERATION,
            Column("workers", INT32, "worker nodes of the cluster"),
            Column("drivers", INT32, "load generators"),
            Column("query_mode", TEXT, "pgbench's protocol: simple, extended or prepared; null for YCSB"),
            Column("scale_factor", INT64, "pgbench's scaling factor; null for YCSB"),
            Column("rate_limited", FLAG, "a main client had a target rate of operations"),
            Column("target_ops_s", REAL, "that rate, summed over drivers; null if none was set or printed"),
            Column("throughput_ops_s", REAL, "main clients only, summed over drivers"),
            Column("runtime_ms", REAL, "longest run time of the main clients"),
            Column("operations_done", INT64, "operations that succeeded, main clients"),
            Column("failed_operations", INT64, "operations that failed, main clients"),
            Column("monitored", FLAG, "a monitor client ran at the same time as the main clients"),
            Column("monitor_operations", INT64, "operations that succeeded, monitor client; null if there was none"),
            Column("monitor_failed_operations", INT64, "operations that failed, monitor client"),
            Column(
                "status",
                make_enum_type(STATUSES),
                "ok, doubtful, degraded or failed; only ok runs are used in statistics, unless others are allowed",
            ),
            Column(
                "status_reason",
                TEXT,
                "why the run is not ok, in words; of one that is, the failures that were counted only; else null",
            ),
            Column("notes", TEXT, "contradictions within its clients' outputs, in words; null if there are none"),
            Column("start_time", TIME, "first status line of a main client; client clock"),
            Column("end_time", TIME, "last status line of a main client; client clock"),
            Column("measured_from", TIME, "begin of the time in which all main clients ran; null if unknown"),
            Column("measured_until", TIME, "end of the time in which all main clients ran; null if unknown"),
            Column(
                "machine_speed",
                REAL,
                "speed of the machines: units of the canary's work per second of CPU time, geometric mean of its works "
                "and of the machines; null if it did not run",
            ),
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
            Column("operation", TEXT, "YCSB section: READ, INSERT, UPDATE, SCAN, READ-MODIFY-WRITE, ..."),
            Column("operations", INT64, "measured operations"),
            *_make_summary_columns("over the run"),
            Column("p50_us", REAL, "median; null if the sources do not contain it"),
            Column("p90_us", REAL, "90th percentile"),
            Column("p95_us", REAL, "95th percentile"),
            Column("p99_us", REAL, "99th percentile"),
            Column("p999_us", REAL, "99.9th percentile"),
            Column("lag_us", REAL, "pgbench: mean time by which transactions began after they were due (--rate)"),
            Column(
                "percentile_source",
                TEXT,
                "reported (by the only client); reported, of a sample (of the calls, as HammerDB 6 takes it); "
                "histogram (merged); both (histogram if not printed); or null",
            ),
        ),
    ),
    Table(
        "clients",
        "One row per load-generator process.",
        "YCSB, go-ycsb and pgbench output",
        (
            *_CLIENT,
            Column("tool", TEXT, "ycsb, go-ycsb, pgbench, or a command's tool as named in the experiment file"),
            Column("tool_version", TEXT, "version the tool printed"),
            Column("throughput_ops_s", REAL, "as the client reports it"),
            Column("runtime_ms", REAL, "as the client reports it"),
            Column("threads", INT32, "client threads"),
            Column("connected_threads", INT32, "threads that connected; null if the tool does not report it"),
            Column("target_ops_s", REAL, "rate that was set (-target); null if none was set or printed"),
            Column("rate_limited", FLAG, "a rate was set; pgbench (--rate) does not print its value"),
            Column("operations_planned", INT64, "operationcount, or insertcount for a load"),
            Column("time_limit_s", REAL, "time after which the client had to end; null if none was set"),
            Column("operations_done", INT64, "operations that returned OK"),
            Column("failed_operations", INT64, "operations that returned anything else"),
            Column("failed_share", REAL, "share of operations that failed, where their number is not known; else null"),
            Column("new_orders_per_min", REAL, "TPC-C: new orders a minute (NOPM, tpmC); null if not printed"),
            Column("reported_errors", INT64, "HammerDB: errors of virtual users that it printed; null for other tools"),
            Column("notes", TEXT, "contradictions within its output, in words; null if there are none"),
            Column("measurement_type", TEXT, "histogram, hdrhistogram, timeseries, raw ..."),
            Column("script", TEXT, "script of pgbench, or several with their weights; null for YCSB"),
            Column("scale_factor", INT64, "pgbench's scaling factor; null for YCSB"),
            Column("query_mode", TEXT, "pgbench's protocol: simple, extended or prepared; null for YCSB"),
            Column("start_time", TIME, "first status line, client clock"),
            Column("end_time", TIME, "last status line, client clock"),
            Column("completed", FLAG, "the final summary was printed"),
            Column("command_line", TEXT, "command line as printed, secrets redacted"),
        ),
    ),
    Table(
        "stated_runs",
        "One row per run that a table of results states: the facts about it that are not in `clients`.",
        "tables of results",
        (
            _SOURCE_ID,
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            Column("line", INT64, "its line in the file, from 1"),
            Column("system", TEXT, "database system"),
            Column("set_up", TEXT, "set-up: names of set-ups, and `name=value` of columns that are no other fact"),
            Column("phase", make_enum_type(PHASES), "load or run; null if the table does not say"),
            Column("workload", TEXT, "workload"),
            Column("threads", INT32, "client threads, over all load generators"),
            Column("records", INT64, "records in the table"),
            Column("operations", INT64, "operations planned"),
            Column("workers", INT32, "worker nodes of the cluster"),
            Column("remarks", TEXT, "`name=value` of texts that describe this run only: dates, files, comments"),
        ),
        stated=frozenset({"iteration"}),
    ),
    Table(
        "client_metrics",
        "Every line of a client's final summary.",
        "YCSB `[SECTION], Metric(unit), value`; pgbench summary",
        (
            *_CLIENT,
            Column("section", TEXT, "OVERALL, READ, INSERT, TOTAL_GCs, ..."),
            Column("metric", TEXT, "name without its unit: Throughput, AverageLatency, Return=OK, ..."),
            Column("unit", TEXT, "unit in brackets: ops/sec, us, ms, %; null if none"),
            Column("value", REAL, "value"),
        ),
    ),
    Table(
        "client_series",
        "Progress reports of clients: one row per status line and operation, and one for the total.",
        "YCSB status lines (-s), timeseries measurements, pgbench --progress and aggregated logs",
        (
            *_CLIENT,
            Column("section", TEXT, "operation; null for the line's total over operations"),
            Column("corrected", FLAG, _CORRECTED),
            Column("elapsed_s", REAL, "since the client's start"),
            Column("log_time", TIME, "client clock; null if not printed"),
            Column("operations_total", INT64, "operations done since the start"),
            Column("throughput_ops_s", REAL, "throughput of the interval"),
            Column("operations", INT64, "operations measured in the interval"),
            Column("failed_operations", INT64, "pgbench: operations that failed in the interval; null if not counted"),
            Column("skipped_operations", INT64, "pgbench: operations not begun, because they were late"),
            Column("retries", INT64, "pgbench: number of times that operations of the interval were tried again"),
            Column("retried_operations", INT64, "pgbench: operations of the interval that were tried again"),
            Column("queries_per_s", REAL, "sysbench: statements of all kinds"),
            Column("read_queries_per_s", REAL, "sysbench: of these, those that read"),
            Column("write_queries_per_s", REAL, "sysbench: of these, those that write"),
            Column("other_queries_per_s", REAL, "sysbench: of these, others, such as BEGIN and COMMIT"),
            Column("errors_per_s", REAL, "sysbench: transactions that the server rejected and that were tried again"),
            Column("reconnects_per_s", REAL, "sysbench: connections that were opened again"),
            *_make_summary_columns("in the interval"),
            Column("stddev_us", REAL, "pgbench: standard deviation of the latencies in the interval"),
            Column("lag_us", REAL, "pgbench: mean time by which operations began after they were due (--rate)"),
            Column("p25_us", REAL, "25th percentile in the interval"),
            Column("p50_us", REAL, "median in the interval"),
            Column("p75_us", REAL, "75th percentile in the interval"),
            Column("p90_us", REAL, "90th percentile in the interval"),
            Column("p95_us", REAL, "95th percentile in the interval"),
            Column("p99_us", REAL, "99th percentile in the interval"),
            Column("p999_us", REAL, "99.9th percentile in the interval"),
            Column("p9999_us", REAL, "99.99th percentile in the interval"),
            Column("other_percentile", REAL, "sysbench: percentile that has no column, as --percentile set it"),
            Column("other_percentile_us", REAL, "its latency; of an unnamed percentile if that is null (hooks)"),
        ),
    ),
    Table(
        "client_histogram",
        "Latency histograms; buckets of several clients merge by adding counts.",
        "YCSB histogram and hdrhistogram in verbose mode, JSON exporter",
        (
            *_CLIENT,
            Column("section", TEXT, "operation"),
            Column("corrected", FLAG, _CORRECTED),
            Column("bucket_low_us", REAL, "inclusive lower edge"),
            Column("bucket_high_us", REAL, "exclusive upper edge; infinity for the overflow bucket"),
            Column("count", INT64, "operations in the bucket"),
        ),
    ),
    Table(
        "client_latencies",
        "Single latencies of clients that logged every operation.",
        "YCSB and go-ycsb with measurementtype=raw, the raw file of BenchBase, pgbench --log",
        (
            *_CLIENT,
            Column("section", TEXT, "operation or script"),
            Column("time", TIME, "end of the operation (pgbench) or its begin (others); null if not absolute"),
            Column("elapsed_s", REAL, "since the first operation of the source"),
            Column("latency_us", REAL, "latency"),
            Column("client_thread", INT32, "client number within the load generator"),
            Column("failed", FLAG, "the operation failed"),
        ),
    ),
    Table(
        "client_errors",
        "Exceptions and error messages that a client printed, counted by message class.",
        "YCSB, go-ycsb and pgbench output",
        (
            *_CLIENT,
            Column("exception", TEXT, "Java class, or the tool's severity word"),
            Column("message_class", TEXT, "message with numbers, keys and literals replaced"),
            Column("count", INT64, "number of messages"),
            Column("first_byte_offset", INT64, "byte offset of its first occurrence"),
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
            Column("log_time", TIME, "%m or %t or %n, converted to UTC; null if not parsable"),
            Column("pid", INT32, "%p"),
            Column("backend_id", INT32, "%v before the slash"),
            Column("local_xid", INT64, "%v after the slash; 0 = outside a transaction"),
            Column("session_line", INT64, "%l: number of the line within the session"),
            Column("application", CATEGORY, "%a without a gpid"),
            Column("gpid", INT64, "Citus global pid of the parent backend, from %a of citus_internal sessions"),
            Column("user", CATEGORY, "%u"),
            Column("database", CATEGORY, "%d"),
            Column("client_host", CATEGORY, "%h or %r"),
            Column("sqlstate", CATEGORY, "%e"),
            Column("severity", make_enum_type(SEVERITIES), "severity word; DEBUG1..5 are DEBUG"),
            Column("kind", make_enum_type(KINDS), "kind of the record"),
            Column("phase", make_enum_type(PROTOCOL_PHASES), "protocol phase, if the line names it"),
            Column("duration_us", REAL, "reported duration; lock waits: time waited"),
            Column("shard_id", INT64, "task: anchor shard; statement on shards: the first that it names"),
            Column("other_shards", TEXT, "statement on shards: the others that it names, separated by blanks"),
            Column("placement_id", INT64, "task: placement"),
            Column("task_us", INT64, "task: reported microseconds"),
            Column("worker_host", CATEGORY, "task: worker"),
            Column("worker_port", INT32, "task: worker"),
            Column("statement_kind", make_enum_type(STATEMENT_KINDS), "kind of the statement in the text"),
            Column("statement_name", CATEGORY, "prepared statement of an execute line (`S_1`, `<unnamed>`)"),
            Column("statement_fingerprint", HASH, "fingerprint of the statement without constants and shard numbers"),
            Column(
                "trace_context",
                CATEGORY,
                "trace context of the application in a comment of the statement: `/*traceparent='00-...'*/`",
            ),
            Column(
                "values_hash",
                INT32,
                "statement on data, parameters: sum of the hashes (32 bits) of its constants, which is compared only",
            ),
            Column("record_byte_offset", INT64, "detail lines: byte_offset of the record they belong to"),
            Column("message", TEXT, "text of records without a statement (at most 500 characters), redacted"),
            Column("capped", FLAG, "the record was longer than the cap; its tail was skipped"),
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
            Column("start_time", TIME, "log time of `checkpoint starting`; null if the log begins later"),
            Column("end_time", TIME, "log time of `checkpoint complete`"),
            Column("reason", TEXT, "time, wal, immediate force wait, shutdown ..."),
            Column("buffers_written", INT64, "buffers written"),
            Column("buffers_percent", REAL, "share of shared_buffers written"),
            Column("wal_added", INT32, "WAL files added"),
            Column("wal_removed", INT32, "WAL files removed"),
            Column("wal_recycled", INT32, "WAL files recycled"),
            Column("write_s", REAL, "time spent writing"),
            Column("sync_s", REAL, "time spent in fsync"),
            Column("total_s", REAL, "total time"),
            Column("sync_files", INT32, "files synchronised"),
            Column("longest_sync_s", REAL, "longest single fsync"),
            Column("average_sync_s", REAL, "average fsync"),
            Column("distance_kb", REAL, "WAL between this checkpoint and the previous"),
            Column("estimate_kb", REAL, "estimate of the distance to the next"),
        ),
    ),
    Table(
        "spans",
        "Trace tree of every sampled statement: statement -> phases and tasks -> remote or local execution.",
        "derived from log_events",
        (
            Column("trace_id", HASH, "one trace per statement execution seen by a parent"),
            Column("span_id", HASH, "unique within the dataset"),
            Column("parent_span_id", HASH, "null for the root and for children without a known parent"),
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _NODE,
            Column("kind", make_enum_type(SPAN_KINDS), "kind of the span"),
            Column("name", CATEGORY, "statement kind, phase name, or shard statement"),
            Column("start_time", TIME, "end_time - duration_us; the node's own clock"),
            Column("end_time", TIME, "log time of the reporting record (1 ms resolution)"),
            Column("duration_us", REAL, "as reported by the server"),
            Column("shard_id", INT64, "shard, if the span concerns one"),
            Column("gpid", INT64, "global pid of the parent session"),
            Column("pid", INT32, "backend that reported the span"),
            Column("match", make_enum_type(MATCHES), "certainty of the link to the parent span"),
            Column("proof", make_enum_type(PROOFS), "exact links to other nodes: what proves them"),
            Column("includes_commit", FLAG, "the duration contains the commit's WAL flush; null if nothing commits"),
            Column("session_seq", INT64, "number of the statement within its session, from 0"),
            _SOURCE_ID,
            _OFFSET,
        ),
    ),
    Table(
        "statements",
        "One row per statement execution seen by a parent, with its profile.",
        "derived from log_events",
        (
            Column("trace_id", HASH, "trace of the statement"),
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _NODE,
            Column("pid", INT32, "parent backend"),
            Column("gpid", INT64, "global pid of the parent session; null if nodeids are unknown"),
            Column("session_seq", INT64, "number of the statement within its session, from 0"),
            Column("statement_kind", make_enum_type(STATEMENT_KINDS), "kind of the statement"),
            Column("statement_fingerprint", HASH, "fingerprint of the statement without constants"),
            Column("protocol", make_enum_type(PROTOCOLS), "protocol of the parent's client"),
            Column(
                "child_protocol",
                make_enum_type(CHILD_PROTOCOLS),
                "protocol between parent and child: text for a simple query, binary for the extended protocol (with "
                "parameters also where citus.enable_binary_protocol is off, and results are text)",
            ),
            Column(
                "executed",
                make_enum_type(EXECUTED),
                "place of execution; null if the statement used no shard of a cluster",
            ),
            Column("shard_id", INT64, "shard of a single-shard statement"),
            Column("tasks", INT32, "remote tasks plus local shard executions", bounds=LOADS),
            Column("start_time", TIME, "begin of the first phase; the node's own clock"),
            Column("end_time", TIME, "end of the last phase"),
            Column("parse_us", REAL, "T's share of the parse phase"),
            Column("bind_us", REAL, "T's share of the bind phase"),
            Column("execute_us", REAL, "T's share of the execute phase (simple protocol: all of it)"),
            Column("total_us", REAL, "T: sum of the protocol phases' durations"),
            Column("parent_us", REAL, "P = T - W: time of the parent itself"),
            Column(
                "connect_us",
                REAL,
                "part of P in which connections to other nodes were opened: execute phase without W; null: none",
            ),
            Column("parent_low_us", REAL, "lower bound of P, if several tasks make it uncertain"),
            Column("parent_high_us", REAL, "upper bound of P: T without the tasks of the busiest connection alone"),
            Column(
                "wait_us", REAL, "W: reported task time (several tasks: time during which at least one was in progress)"
            ),
            Column("child_us", REAL, "C: child durations (several tasks: of the critical task)"),
            Column("between_us", REAL, "L = W - C: network, queueing, connection handling"),
            Column("slowest_task_us", REAL, "largest task time"),
            Column("median_task_us", REAL, "median task time"),
            Column("match", make_enum_type(MATCHES), "certainty of the link to the children; the worst of its tasks"),
            Column("includes_commit", FLAG, "T contains the commit's WAL flush; null if nothing commits"),
            Column("failed", FLAG, "ended with an error or was cancelled"),
            _SOURCE_ID,
            _OFFSET,
        ),
    ),
    Table(
        "match_quality",
        "Quality of the pairing of parent tasks and child statements, per pair of nodes.",
        "derived with spans",
        (
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            Column("parent_node", TEXT, "node of the parents"),
            Column("child_node", TEXT, "node of the children"),
            Column("tasks", INT64, "task records of the parents"),
            Column("children", INT64, "shard statements of the children"),
            Column("exact", INT64, "pairs that are proven"),
            Column(
                "by_order", INT64, "pairs that order proves: the n-th task and the n-th child of complete sequences"
            ),
            Column("by_content", INT64, "pairs that content proves: the same values, and no other pair fits as well"),
            Column("inferred", INT64, "pairs by alignment"),
            Column(
                "unreported", INT64, "children of a statement with the same values, of whose task there is no record"
            ),
            Column("unmatched_tasks", INT64, "tasks without a child"),
            Column("unmatched_children", INT64, "children without a task"),
            Column("ambiguous", INT64, "tasks with several alignments that are equally good"),
            Column("match_rate", REAL, "(exact + inferred) / tasks"),
            Column("warning", TEXT, "limits of the matching; null if there are none"),
        ),
    ),
    Table(
        "clock_offsets",
        "Offset between the clocks of two nodes between two steps, bounded by causality over the exact pairs.",
        "derived with spans",
        (
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            Column("parent_node", TEXT, "reference clock"),
            Column("child_node", TEXT, "compared clock: child time = parent time + offset"),
            Column("pairs", INT64, "exact pairs used"),
            Column("offset_us", REAL, "estimate at the middle of the run"),
            Column("offset_low_us", REAL, "lower bound"),
            Column("offset_high_us", REAL, "upper bound"),
            Column("drift_ppm", REAL, "change of the offset over the run"),
            Column("drift_low_ppm", REAL, "lower bound"),
            Column("drift_high_ppm", REAL, "upper bound"),
            Column("reference_time", TIME, "time (parent clock) at which offset_us is valid"),
            Column("method", TEXT, "method of the estimate"),
        ),
    ),
    Table(
        "pooler_events",
        "One row per line of a connection pooler's log.",
        "log of PgBouncer",
        (
            _SOURCE_ID,
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _NODE,
            _OFFSET,
            _LENGTH,
            Column("log_time", TIME, "time of the line; the pooler's clock"),
            Column("pid", INT32, "process of the pooler"),
            Column("severity", CATEGORY, "LOG, WARNING, ERROR, FATAL, DEBUG or NOISE"),
            Column(
                "event", make_enum_type(POOLER_EVENTS), "login and close: of clients; connect and close: of servers"
            ),
            Column("side", CATEGORY, "connection of a client or to a server; null if the line names none"),
            Column("database", CATEGORY, "database of the pool"),
            Column("user", CATEGORY, "user of the pool"),
            Column("host", CATEGORY, "client's or server's address; unix for a local socket"),
            Column("port", INT32, "its port"),
            Column("age_s", REAL, "close: age of the connection"),
            Column("message", TEXT, "text of the line (at most 500 characters), redacted"),
        ),
    ),
    Table(
        "pooler_samples",
        "Values of a connection pooler at successive moments.",
        "statistics in the log of PgBouncer, output of its SHOW commands",
        (
            _SOURCE_ID,
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _NODE,
            Column("sample", INT32, "number of the report within the source, from 0"),
            Column("sample_time", TIME, "when it was printed; null if the report has no time"),
            Column("report", CATEGORY, "log, or the word after SHOW: STATS, POOLS, CLIENTS ..."),
            Column("database", CATEGORY, "database of the pool; null for sums over all"),
            Column("user", CATEGORY, "user of the pool"),
            Column("item", TEXT, "CLIENTS, SERVERS: the connection; LISTS, MEM: the list or cache; else null"),
            Column("state", CATEGORY, "CLIENTS, SERVERS: state of the connection"),
            Column("measure", CATEGORY, "name as PgBouncer prints it"),
            Column("value", REAL, "value in `unit`"),
            Column("unit", CATEGORY, "1/s, B/s, B, us, s; null for counts"),
        ),
    ),
    Table(
        "activity_samples",
        "Sessions of a server at successive moments, and the event that each was waiting for.",
        "snapshots of pg_stat_activity or citus_stat_activity",
        (
            _SOURCE_ID,
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _NODE,
            Column("sample", INT32, "number of the snapshot within the source, from 0"),
            Column("sample_time", TIME, "when the snapshot was taken; the server's clock"),
            Column("pid", INT32, "backend"),
            Column("leader_pid", INT32, "leader of a parallel worker; null for all others"),
            Column("backend_type", CATEGORY, "client backend, checkpointer, walwriter ..."),
            Column("state", CATEGORY, "active, idle, idle in transaction ...; null for background processes"),
            Column("wait_event_type", CATEGORY, "type of the event it waits for; null if it does not wait"),
            Column("wait_event", CATEGORY, "event it waits for; an active Citus parent in ClientRead waits for nodes"),
            Column("database", CATEGORY, "database of the session"),
            Column("user", CATEGORY, "role of the session"),
            Column("application", CATEGORY, "application_name"),
            Column("client_host", CATEGORY, "address of the client; null for a local socket"),
            Column("gpid", INT64, "Citus: global pid of the session; for a child, that of its parent's session"),
            Column("worker_query", FLAG, "Citus: the session works for another node's session"),
            Column("query_id", INT64, "identifier of the statement; key of pg_stat_statements"),
            Column("backend_start", TIME, "when the session began; with pid it identifies the session"),
            Column("xact_start", TIME, "when the current transaction began"),
            Column("query_start", TIME, "when the newest statement began"),
            Column("state_change", TIME, "when the state last changed"),
        ),
    ),
    Table(
        "server_counters",
        "Cumulative counters of a server's views as differences between two snapshots, never across a reset.",
        "snapshots of pg_stat_statements, pg_stat_database, pg_stat_wal, pg_stat_io, pg_stat_bgwriter, "
        "pg_stat_checkpointer, citus_stat_statements, citus_stat_counters",
        (
            _SOURCE_ID,
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _NODE,
            Column("sample", INT32, "number of the snapshot within the source, from 0"),
            Column("from_time", TIME, "when the previous snapshot was taken; null for the first"),
            Column("sample_time", TIME, "when the snapshot was taken; the server's clock"),
            Column("view", CATEGORY, "view of PostgreSQL or Citus"),
            Column("key", CATEGORY, "the view's key columns, joined by `/`; empty for a view of one row"),
            Column("counter", CATEGORY, "column of the view, in PostgreSQL's own unit (times in ms)"),
            Column("value", REAL, "growth since the previous snapshot; null if unknown for the reason in `note`"),
            Column("total", REAL, "value of the counter in the snapshot; null if the entry was absent"),
            Column(
                "note",
                make_enum_type(COUNTER_NOTES),
                "first: the only snapshot; reset, decreased: counted from nothing in between; new: absent before, and "
                "may have been evicted; gone: absent now; evictions: entries were evicted in between, the value is a "
                "lower bound; null: an exact difference",
            ),
        ),
    ),
    Table(
        "plans",
        "One row per plan of a statement.",
        "output of EXPLAIN as text, JSON, YAML or XML, also as auto_explain logged it",
        (
            _SOURCE_ID,
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _OFFSET,
            _LENGTH,
            _NODE,
            Column("plan", INT32, "number of the plan within the source, from 0; with `source_id` the key"),
            Column("form", make_enum_type(PLAN_FORMS), "format of EXPLAIN"),
            Column("query", TEXT, "statement, if auto_explain printed it; secrets redacted"),
            Column("analyzed", FLAG, "EXPLAIN ANALYZE: the statement was executed"),
            Column("timed", FLAG, "nodes have times (ANALYZE without TIMING OFF)"),
            Column("planning_us", REAL, "time of planning"),
            Column("execution_us", REAL, "time of execution; with ANALYZE it contains the cost of measuring"),
            Column("nodes", INT32, "nodes shown, those of tasks and subplans included"),
            Column("total_cost", REAL, "estimated cost of the topmost node; Citus does not estimate that of tasks"),
            Column("estimated_rows", REAL, "rows that the planner expected of the topmost node"),
            Column("actual_rows", REAL, "rows that the topmost node returned"),
            Column("task_count", INT32, "tasks of all distributed queries of the plan"),
            Column("tasks_shown", INT32, "tasks that the plan shows"),
            Column("unknown", TEXT, "facts that are unknown because tasks are not shown; null if all are shown"),
        ),
    ),
    Table(
        "plan_nodes",
        "One row per node of a plan, and per task, distributed subplan and job of a repartition join of Citus.",
        "output of EXPLAIN as text, JSON, YAML or XML, also as auto_explain logged it",
        (
            _SOURCE_ID,
            _RESOURCE,
            _RUN_ID,
            _ITERATION,
            _NODE,
            Column("plan", INT32, "number of the plan within the source; key of `plans`"),
            Column("plan_node", INT32, "number within the plan in the order of EXPLAIN, from 0"),
            Column("parent", INT32, "plan_node that receives its rows or contains it; null for the topmost"),
            Column("depth", INT32, "number of rows above it in the tree"),
            Column(
                "kind", make_enum_type(PLAN_ITEMS), "node of PostgreSQL's executor, or task, subplan or job of Citus"
            ),
            Column(
                "node_type", CATEGORY, "name as the text prints it: `HashAggregate`, `Custom Scan (Citus Adaptive)`"
            ),
            Column("schema_name", CATEGORY, "schema of the relation (VERBOSE)"),
            Column("relation", TEXT, "table, function or CTE that it reads or changes; a shard's with its number"),
            Column("alias", TEXT, "its name in the statement"),
            Column("index_name", TEXT, "index"),
            Column("subplan_name", TEXT, "`SubPlan 1`, `InitPlan 1 (returns $0)`, `CTE x`: role below its parent"),
            Column("conditions", TEXT, "conditions and filters as printed, joined by `; `; secrets redacted"),
            Column("startup_cost", REAL, "estimated cost before the first row"),
            Column("total_cost", REAL, "estimated cost of all rows"),
            Column("estimated_rows", REAL, "rows that the planner expected of one execution"),
            Column("width_bytes", INT64, "estimated size of a row"),
            Column("startup_us", REAL, "time until the first row, mean of an execution"),
            Column(
                "total_us", REAL, "time until the last row, mean of an execution, its inputs included; subplan: all"
            ),
            Column("actual_rows", REAL, "rows returned, mean of an execution; PostgreSQL before 18 rounds it"),
            Column("loops", INT64, "executions; 0 = never executed"),
            Column("removed_rows", REAL, "rows removed by filters, mean of an execution"),
            Column("workers_planned", INT32, "parallel workers planned"),
            Column("workers_launched", INT32, "parallel workers launched"),
            Column("sort_method", CATEGORY, "method of a sort"),
            Column("memory_bytes", INT64, "memory used by a sort or hash"),
            Column("disk_bytes", INT64, "disk space used by a sort or hash; null if none"),
            Column("shared_hit_blocks", INT64, "BUFFERS: blocks found in shared buffers, its inputs included"),
            Column("shared_read_blocks", INT64, "BUFFERS: blocks read"),
            Column("shared_dirtied_blocks", INT64, "BUFFERS: blocks dirtied"),
            Column("shared_written_blocks", INT64, "BUFFERS: blocks written by this backend"),
            Column("local_hit_blocks", INT64, "BUFFERS: of temporary tables"),
            Column("local_read_blocks", INT64, "BUFFERS: of temporary tables"),
            Column("local_dirtied_blocks", INT64, "BUFFERS: of temporary tables"),
            Column("local_written_blocks", INT64, "BUFFERS: of temporary tables"),
            Column("temp_read_blocks", INT64, "BUFFERS: of temporary files"),
            Column("temp_written_blocks", INT64, "BUFFERS: of temporary files"),
            Column("io_read_us", REAL, "track_io_timing: time of reading blocks of shared or temporary tables"),
            Column("io_write_us", REAL, "track_io_timing: time of writing blocks"),
            Column("wal_records", INT64, "WAL: records"),
            Column("wal_fpi", INT64, "WAL: full page images"),
            Column("wal_bytes", INT64, "WAL: bytes"),
            Column("task", INT32, "plan_node of the task that it belongs to; a task's own number"),
            Column("shard_id", INT64, "task and its nodes: shard of the first relation that it works on"),
            Column("worker_host", CATEGORY, "task and its nodes: worker"),
            Column("worker_port", INT32, "task and its nodes: worker"),
            Column("task_count", INT32, "distributed query: tasks; job: tasks of map and merge"),
            Column("tasks_shown", TEXT, "distributed query: text of Citus about the tasks shown"),
            Column(
                "received_bytes", INT64, "distributed query, task: size of the rows received; subplan: of its result"
            ),
            Column("planning_us", REAL, "task, subplan: time of planning on the worker"),
            Column("execution_us", REAL, "task, subplan: time of execution on the worker"),
            Column("query", TEXT, "task: its statement (VERBOSE); secrets redacted"),
        ),
    ),
    Table(
        "pressure_samples",
        "Time in which tasks of a host were stalled (pressure stall information).",
        "/proc/pressure, as the runner samples it or as cat, grep and tail print it; sar -q, text, CSV and JSON",
        (
            *_SAMPLE,
            Column("pressure", make_enum_type(PRESSURES), "awaited resource: cpu, io, memory or irq"),
            Column("scope", make_enum_type(("some", "full")), "some = at least one task stalled; full = all of them"),
            Column("avg10_percent", REAL, "the kernel's own mean over 10 s"),
            Column("avg60_percent", REAL, "the kernel's own mean over 60 s"),
            Column("avg300_percent", REAL, "the kernel's own mean over 300 s"),
            Column(
                "stalled_percent",
                REAL,
                "stalled share of the time since the previous sample; null for the first of counters since boot",
                # Times that are whole seconds may be nearly a second apart from the interval's.
                bounds=ValueBounds(0.0, 100.0, slack=100.0),
            ),
        ),
    ),
    Table(
        "canaries",
        "Fixed pieces of work, timed each second beside a run: how fast the machine itself was.",
        "the runner's canary",
        (
            *_SAMPLE,
            Column(
                "work",
                make_enum_type(CANARY_WORKS),
                "cpu = additions, memory = reads of distant lines, system = bytes through a pipe, wakeup = sleeps of a "
                "millisecond, disk = pages of 8 KiB forced to the disk",
            ),
            Column("operations", INT64, "number of units of this work"),
            Column("cpu_us", REAL, "CPU time of all units"),
            Column("wall_us", REAL, "time that all units took"),
        ),
    ),
    Table(
        "foreign_samples",
        "CPU time of the programs of a machine that are not the run's own, each second beside a run: of all but the "
        "kernel, servers, load generators, samplers and the runner.",
        "the runner's canary, which counts the processes that it sees in `/proc`",
        (
            *_SAMPLE,
            Column("cores", INT32, "processors of the machine"),
            Column("cpu_us", REAL, "CPU time of these programs since the previous count, of children when they end"),
            Column("wall_us", REAL, "time since the previous count"),
            Column("program", TEXT, "the program that used most; null if none used any"),
        ),
    ),
    Table(
        "backend_samples",
        "Memory and CPU time of each process of the servers of a host.",
        "the runner, from /proc/PID/smaps_rollup, status and stat",
        (
            *_SAMPLE,
            Column("pid", INT32, "process; with `node` and time it leads to the session in `activity_samples`"),
            Column("parent_pid", INT32, "its parent; of a backend the postmaster of its server"),
            Column(
                "pss_kb",
                REAL,
                "proportional set size: pages in memory, each divided by the number of processes that map it; null if "
                "the sampler had no right to read it, and in samples of CPU time alone",
            ),
            Column("own_kb", REAL, "of pss_kb: memory of its own (heap, stack), not of files and not shared"),
            Column("shared_kb", REAL, "of pss_kb: shared memory, as a rule shared_buffers"),
            Column("page_tables_kb", REAL, "the kernel's page tables of the process, which pss_kb does not contain"),
            Column("cpu_ms", REAL, "CPU time since the process began"),
        ),
    ),
    Table(
        "net_samples",
        "Network interfaces: rates since the previous sample; null for the first and if a counter decreased.",
        "/proc/net/dev, as the runner samples it; sar -n DEV,EDEV (a row for each of the two), dstat and dool",
        (
            *_SAMPLE,
            Column("interface", TEXT, "name of the interface (lo, eth0 ...)"),
            Column("receive_kb_s", REAL, "bytes received"),
            Column("transmit_kb_s", REAL, "bytes sent"),
            Column("receive_packets_per_s", REAL, "packets received"),
            Column("transmit_packets_per_s", REAL, "packets sent"),
            Column("receive_errors_per_s", REAL, "packets received with errors"),
            Column("transmit_errors_per_s", REAL, "packets that could not be sent"),
            Column("receive_drops_per_s", REAL, "received packets that were dropped"),
            Column("transmit_drops_per_s", REAL, "packets to be sent that were dropped"),
            Column(
                "utilization_percent", REAL, "sar: share of the speed that the interface states; 0 if it states none"
            ),
        ),
    ),
    Table(
        "throttle_samples",
        "Throttling of a control group by the kernel since the previous sample; null for the first.",
        "cpu.stat of control groups (version 1 and 2), as the runner samples it",
        (
            *_SAMPLE,
            Column("control_group", TEXT, "path of the group's cpu.stat"),
            Column(
                "used_percent", REAL, "CPU time used, of one CPU; null if the file does not state it", bounds=CPU_TIME
            ),
            Column("periods", INT64, "enforcement periods that passed", bounds=ValueBounds()),
            Column(
                "throttled_periods", INT64, "of these, those in which the group was throttled", bounds=ValueBounds()
            ),
            Column(
                "throttled_percent", REAL, "throttled time, summed over CPUs, of the time that passed", bounds=CPU_TIME
            ),
        ),
    ),
    Table(
        "cpu_samples",
        "CPU time shares of all CPUs of a host together.",
        "iostat (avg-cpu), vmstat, sar, mpstat, dstat and dool",
        (
            *_SAMPLE,
            Column("sampler", TEXT, "iostat, vmstat, sar, mpstat, dstat or dool"),
            *_CPU_SHARES,
        ),
        relations=(_ALL_OF_CPU,),
    ),
    Table(
        "core_samples",
        "CPU time shares of single CPUs of a host.",
        "sar and mpstat -P, dstat and dool -C",
        (
            *_SAMPLE,
            Column("sampler", TEXT, "sar, mpstat, dstat or dool"),
            Column("cpu", INT32, "number of the CPU, from 0"),
            *_CPU_SHARES,
        ),
        relations=(_ALL_OF_CPU,),
    ),
    Table(
        "device_samples",
        "Block device activity.",
        "iostat device blocks, text and JSON; sar -d and -b, dstat and dool -dr",
        (
            *_SAMPLE,
            Column("device", TEXT, "device name"),
            Column("is_group", FLAG, "true for the total of a group of devices (-g), or of all; null if not shown"),
            Column("transfers_per_s", REAL, "tps (plain iostat without -x, and -s)"),
            Column("total_kb_s", REAL, "data read, written and discarded (-x -s)"),
            Column("write_discard_kb_s", REAL, "data written and discarded (-s without -x)"),
            Column("merges_per_s", REAL, "requests of all kinds merged (-x -s)"),
            Column("reads_per_s", REAL, "read requests completed"),
            Column("read_kb_s", REAL, "data read"),
            Column("read_merges_per_s", REAL, "read requests merged"),
            Column("read_merge_percent", REAL, "share of read requests merged"),
            Column("read_await_ms", REAL, "average time of read requests, queueing included"),
            Column("read_request_kb", REAL, "average size of read requests"),
            Column("writes_per_s", REAL, "write requests completed"),
            Column("write_kb_s", REAL, "data written"),
            Column("write_merges_per_s", REAL, "write requests merged"),
            Column("write_merge_percent", REAL, "share of write requests merged"),
            Column("write_await_ms", REAL, "average time of write requests"),
            Column("write_request_kb", REAL, "average size of write requests"),
            Column("discards_per_s", REAL, "discard requests completed"),
            Column("discard_kb_s", REAL, "data discarded"),
            Column("discard_merges_per_s", REAL, "discard requests merged"),
            Column("discard_merge_percent", REAL, "share of discard requests merged"),
            Column("discard_await_ms", REAL, "average time of discard requests"),
            Column("discard_request_kb", REAL, "average size of discard requests"),
            Column("flushes_per_s", REAL, "flush requests completed"),
            Column("flush_await_ms", REAL, "average time of flush requests"),
            Column("await_ms", REAL, "average time of all requests: as printed, else weighted from r/w/d awaits"),
            Column("request_kb", REAL, "average size of all requests, as older versions print it"),
            Column("queue_length", REAL, "average queue length (aqu-sz, avgqu-sz)", bounds=LOADS),
            Column("service_ms", REAL, "svctm of older versions; do not trust it (sysstat's own words)"),
            Column("utilization_percent", REAL, "%util: share of time with a request in flight"),
        ),
        relations=_OF_DEVICES,
    ),
    Table(
        "vm_samples",
        "Memory, swap, block I/O and scheduler counters; of sar a row for each kind of report.",
        "vmstat; sar -rSWBwq, mpstat -I SUM, dstat and dool",
        (
            *_SAMPLE,
            Column("runnable", INT32, "r: processes running or waiting for a CPU", bounds=LOADS),
            Column("blocked", INT32, "b: processes in uninterruptible sleep", bounds=LOADS),
            Column("swapped_kb", INT64, "swpd"),
            Column("free_kb", INT64, "free memory"),
            Column("buffer_kb", INT64, "buff"),
            Column("cache_kb", INT64, "cache"),
            Column("inactive_kb", INT64, "inact (-a)"),
            Column("active_kb", INT64, "active (-a)"),
            Column("swap_in_kb_s", REAL, "si"),
            Column("swap_out_kb_s", REAL, "so"),
            Column("blocks_in_per_s", REAL, "bi: blocks of 1024 bytes"),
            Column("blocks_out_per_s", REAL, "bo: blocks of 1024 bytes"),
            Column("interrupts_per_s", REAL, "in"),
            Column("context_switches_per_s", REAL, "cs"),
            Column("guest_percent", REAL, "gu: CPU time of guests (newer versions)"),
            Column("available_kb", INT64, "memory available to programs without swapping"),
            Column("used_kb", INT64, "memory in use, as the sampler counts it"),
            Column("dirty_kb", INT64, "memory that waits to be written to disk"),
            Column("swap_in_pages_per_s", REAL, "pages swapped in, of the machine's page size"),
            Column("swap_out_pages_per_s", REAL, "pages swapped out, of the machine's page size"),
            Column("faults_per_s", REAL, "page faults"),
            Column("major_faults_per_s", REAL, "page faults that read from a disk"),
            Column("forks_per_s", REAL, "tasks created"),
            Column("tasks", INT32, "tasks in the process list", bounds=LOADS),
            Column("load_1", REAL, "load average of the last minute", bounds=LOADS),
            Column("load_5", REAL, "load average of the last 5 minutes", bounds=LOADS),
            Column("load_15", REAL, "load average of the last 15 minutes", bounds=LOADS),
        ),
    ),
    Table(
        "process_samples",
        "Activity of single processes and threads; a row for each kind of report.",
        "pidstat, text and JSON",
        (
            *_SAMPLE,
            Column("pid", INT32, "process; of a thread's row (-t) null"),
            Column("thread", INT32, "thread (-t); null in rows of whole processes"),
            Column("user", TEXT, "number of the user, or name (-U)"),
            Column("command", TEXT, "name of the program, or its command line (-l)"),
            Column("user_percent", REAL, "CPU time in user space, of one CPU", bounds=CPU_TIME),
            Column("system_percent", REAL, "CPU time in the kernel, of one CPU", bounds=CPU_TIME),
            Column("guest_percent", REAL, "CPU time of virtual processors, of one CPU", bounds=CPU_TIME),
            Column("wait_percent", REAL, "time in which it was runnable but waited for a CPU", bounds=CPU_TIME),
            Column("cpu_percent", REAL, "CPU time, of one CPU (with -I of all CPUs)", bounds=CPU_TIME),
            Column("cpu", INT32, "CPU that it ran on last"),
            Column("minor_faults_per_s", REAL, "page faults without reading from a disk"),
            Column("major_faults_per_s", REAL, "page faults that read from a disk"),
            Column("virtual_kb", INT64, "virtual memory"),
            Column("resident_kb", INT64, "memory that is not swapped out"),
            Column("memory_percent", REAL, "resident share of the memory"),
            Column("read_kb_s", REAL, "read from disks; null if the kernel does not report it"),
            Column("write_kb_s", REAL, "written to disks; null if the kernel does not report it"),
            Column("cancelled_write_kb_s", REAL, "written, but deleted before it reached a disk; null as above"),
            Column("io_delay_ticks", INT64, "ticks in which it waited for disks and swap", bounds=ValueBounds()),
            Column("voluntary_switches_per_s", REAL, "context switches because it waited"),
            Column("involuntary_switches_per_s", REAL, "context switches because its time was over"),
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
            *_JUDGED,
            Column("event", TEXT, "sampled event"),
            Column(
                "samples_total", INT64, "samples of the event in the report's header, abbreviated by perf to K and M"
            ),
            Column("children_percent", REAL, "share with callees; null without --children"),
            Column("self_percent", REAL, "share of the symbol itself"),
            Column("samples", INT64, "samples (-n); null if not printed"),
            Column("command", TEXT, "comm"),
            Column("pid", INT32, "process, if the report sorts by it"),
            Column("shared_object", TEXT, "binary or library; [kernel.kallsyms] for the kernel"),
            Column(
                "mode",
                TEXT,
                "privilege level as perf prints it: . user, k kernel, g guest, u guest user, H hypervisor",
            ),
            Column("symbol", TEXT, "function, or a raw address"),
            Column("parent", TEXT, "parent symbol, if the report sorts by it"),
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
            _DOUBTFUL,
            Column("event", TEXT, "sampled event"),
            Column("command", TEXT, "comm"),
            Column("pid", INT32, "process (by default, perf script prints the thread); null in most reports"),
            Column("stack", TEXT, "frames from root to leaf, joined by `;`"),
            Column("shared_object", TEXT, "binary or library of the leaf frame"),
            Column("samples", INT64, "samples with this stack; null if only a share is known", bounds=ValueBounds()),
            Column(
                "event_count",
                INT64,
                "events represented by these samples: sum of periods, or share of a report's count; null if unknown",
            ),
            Column("self_percent", REAL, "share of the event's count, or of its samples if no period is printed"),
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
            *_JUDGED,
            Column("elapsed_s", REAL, "end of the interval (-I), else the whole run's elapsed time"),
            Column("scope", TEXT, "CPU, core, socket or thread it was counted on (-A, --per-...); null = all"),
            Column("event", TEXT, "event"),
            Column("value", REAL, "counter value; null if not supported or not counted", bounds=ValueBounds()),
            Column("unit", TEXT, "unit perf prints (msec ...)"),
            Column("status", TEXT, "counted, not supported or not counted"),
            Column("running_percent", REAL, "share of the time the counter was scheduled (multiplexing)"),
            Column("variation_percent", REAL, "+- over repeats (-r)", bounds=ValueBounds()),
            Column("metric", REAL, "derived metric"),
            Column("metric_unit", TEXT, "name or unit of the derived metric"),
        ),
    ),
    Table(
        "published",
        "Numbers that others published. They are never used in a computed interval.",
        "data/published/*.csv",
        (
            Column("source", TEXT, "key of the publication"),
            Column("table", TEXT, "table, figure or section, as the publication numbers it"),
            Column("row", TEXT, "row of the table, or the sentence's subject; the same words for the same subject"),
            Column("system", TEXT, "database system that the number describes; null if none"),
            Column("workload", TEXT, "insert, select, ycsb-a, tproc-c, dbt-1 ...; null if none ran"),
            Column("metric", TEXT, "quantity stated, its unit as suffix (docs/published.md lists the names)"),
            Column("value", REAL, "stated value; null if the statement is a word"),
            Column("unit", TEXT, "stated unit"),
            Column("n", INT32, "repetitions, if known"),
            Column("stated", TEXT, "value as printed, with its precision; a leading ~ marks an approximation"),
            Column("seed", TEXT, "number of the text it was transcribed from; null for tables of users"),
            Column("location", TEXT, "line of that text, or line and column of a table file"),
            Column("note", TEXT, "conditions and doubts"),
        ),
    ),
    Table(
        "findings",
        "Findings of an audit.",
        "audit of published tables and of runs",
        (
            Column(
                "severity",
                make_enum_type(("green", "amber", "red")),
                "red = contradicts itself; amber = doubtful; green = checked and consistent",
            ),
            Column("check", TEXT, "name of the check"),
            Column("source", TEXT, "publication or dataset"),
            Column("table", TEXT, "table"),
            Column("row", TEXT, "row or run"),
            Column("expected", TEXT, "value that the other numbers imply"),
            Column("stated", TEXT, "stated value"),
            Column("explanation", TEXT, "one sentence"),
        ),
    ),
)

TABLES: Final[dict[str, Table]] = {table.name: table for table in _TABLES}

#: Tables that describe publications and audits; a dataset on disk does not contain them.
OUTSIDE_DATASET: Final = frozenset({"published", "findings"})

#: Tables that an ingest computes from server logs, and all that it computes from other tables.
TRACE_TABLES: Final = ("statements", "spans", "match_quality", "clock_offsets")
DERIVED: Final = ("runs", "operation_latencies", *TRACE_TABLES)


@lru_cache(maxsize=256)
def list_table_columns(tables: tuple[str, ...]) -> dict[str, list[tuple[str, str]]]:
    """Names and types of the columns of tables: their rows are made again when these change.

    Example:
        >>> list_table_columns(("nodes",))["nodes"][0]
        ('source_id', 'String')
    """
    return {name: [(c.name, str(c.dtype)) for c in TABLES[name]] for name in tables}
