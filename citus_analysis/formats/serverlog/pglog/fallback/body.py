"""The facts in a record, from its severity and text: kind, durations, tasks, statements, messages.

One function for all log formats: the stderr log, csvlog and jsonlog differ only in how severity and text are
found. Everything is a polars expression over the text column.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.arrow_arrays import text_array
from citus_analysis.formats.reading.lines import first_true
from citus_analysis.formats.serverlog._details import DETAIL_SEVERITIES
from citus_analysis.formats.serverlog.pglog._messages import MESSAGE_SCAN, redacted
from citus_analysis.formats.serverlog.pglog.compiled.byte_views import cut_to_characters, string_views
from citus_analysis.formats.serverlog.pglog.fallback.statement_tokens import describe_tokens, tokens_expr
from citus_analysis.formats.serverlog.pglog.fallback.statement_values import parameter_values, statement_values
from citus_analysis.schema import DATA_STATEMENTS, TABLES

_BAD: Final = ("WARNING", "ERROR", "FATAL", "PANIC")
_DURATION: Final = r"^duration: (?P<whole>[0-9]{1,12})\.(?P<thousandths>[0-9]{3}) ms"
_PLAN: Final = r"^duration: [0-9]{1,12}\.[0-9]{3} ms  plan:"
#: A duration about which nothing more is said.
_BARE: Final = r"^duration: [0-9]{1,12}\.[0-9]{3} ms[\x00-\x20\x7f]*$"
#: Some servers put facts between a duration and its statement: `rows: 17  size: 8 bytes  `.
_TO_VERB: Final = r"^(?:duration: [0-9]{1,12}\.[0-9]{3} ms  (?:[A-Za-z_][A-Za-z_ ]*: [^ \n]+(?: [^ \n]+)*  )*?)?"
_CALL: Final = "fastpath function call: "
_VERB: Final = (
    rf"{_TO_VERB}(?:(?P<verb>statement|(?:parse|bind|execute fetch from|execute) (?P<name>[^\n]*?)):(?: |\r?\n)"
    rf"|(?P<call>{_CALL}))"
)
_VERB_BEGINNINGS: Final = ("duration: ", "statement:", "parse ", "bind ", "execute ", "fastpath ")
#: An SQLSTATE (`log_error_verbosity = verbose`) and a file of the server's source (services) before a message. Unless
#: all messages are known to have a state, only `00000` is read as one, because a message may begin like this.
_STATES: Final = {True: "([0-9A-Z]{5}): ", False: "(00000): "}
_FILE: Final = r"\[[A-Za-z0-9_.-]+\.[a-z]{1,3}:[0-9]{1,9}\]  "
_BOUND: Final = r"^bind [^ \n]+ to ([^\n]+)"
_TASK: Final = (
    r"^task execution \([0-9]+\) for placement \((?P<placement>[0-9]{1,18})\) "
    r"on anchor shard \((?P<shard>[0-9]{1,18})\) "
    r"finished in (?P<task>[0-9]{1,18}) microseconds on worker node (?P<host>[^ \t\n\r\x0b\x0c]*):(?P<port>[0-9]{1,5})"
)
#: What Citus says of executions on shards of the own node: the local executor since 13.2, its planner, and each local
#: execution with `citus.log_local_commands`.
_LOCAL_EXECUTION: Final = "Local executor: Using task's cached local plan"
_LOCAL_PLAN: Final = "Fast-path router query: created local execution plan"
_COMMANDED: Final = "executing the command locally: "
_CONNECTION: Final = (
    r"^established connection to (?P<host>[^ \t\n\r\x0b\x0c]*):(?P<port>[0-9]{1,5}) "
    r"for session [0-9]{1,18} in (?P<took>[0-9]{1,18}) microseconds"
)
_LOCK: Final = (
    r"^process [0-9]+ (?:still waiting for|acquired|avoided deadlock for|detected deadlock while waiting for) "
    r"[^\n]* after (?P<whole>[0-9]{1,12})\.(?P<thousandths>[0-9]{3}) ms"
)
#: Kind of a LOG record -> the beginnings of its text.
_BEGINNINGS: Final = {
    "checkpoint": ("checkpoint ", "checkpoints ", "restartpoint "),
    "autovacuum": ("automatic ",),
    "temp_file": ("temporary file: ",),
    "connection": (
        *("connection received: ", "connection authenticated: ", "connection authorized: ", "connection ready: "),
        *("replication connection authorized: ", "disconnection: "),
    ),
}
#: Messages of a server that is in danger or refuses its service: their kind, how they begin, and what their first line
#: contains.
_SEVERE: Final = (
    ("wraparound", "database ", " must be vacuumed within "),
    ("wraparound", "database is not accepting commands", ""),
    ("wraparound", "oldest xmin is far in the past", ""),
    ("wraparound", "oldest multixact is far in the past", ""),
    ("crash", "server process (PID ", ""),
    ("crash", "terminating any other active server processes", ""),
    ("crash", "all server processes terminated; reinitializing", ""),
    ("crash", "database system was not properly shut down", ""),
    ("crash", "database system was interrupted", ""),
    ("crash", "terminating connection because of crash of another server process", ""),
    ("crash", "the database system is in recovery mode", ""),
    ("out_of_memory", "out of memory", ""),
    ("out_of_memory", "out of shared memory", ""),
    ("out_of_memory", "could not fork new process for connection: Cannot allocate memory", ""),
    ("archive_failed", "archive command failed with exit code", ""),
    ("archive_failed", "archive command was terminated by", ""),
    ("archive_failed", "archiving write-ahead log file ", " failed too many times"),
    ("checksum", "page verification failed", ""),
    ("checksum", "invalid page in block", ""),
    ("deadlock", "deadlock detected", ""),
    ("deadlock", "canceling the transaction since it was involved in a distributed deadlock", ""),
    ("statement_timeout", "canceling statement due to statement timeout", ""),
    ("too_many_connections", "sorry, too many clients already", ""),
    ("too_many_connections", "remaining connection slots are reserved", ""),
    ("too_many_connections", "too many connections for ", ""),
    ("disk_full", "could not ", ": No space left on device"),
)
#: Comments with the application's trace context (sqlcommenter), and the context in one.
_COMMENTS: Final = {
    "end": r"(?s)^(?P<rest>.*)/\*(?P<comment>.*?)\*/[\x00-\x20\x7f;]*$",
    "beginning": r"(?s)^[\x00-\x20\x7f]*/\*(?P<comment>.*?)\*/(?P<rest>.*)$",
}
_CONTEXT: Final = "traceparent='(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})'"
_WORKING: Final = (
    *(
        "text",
        "excerpt",
        "statement",
        "reported_us",
        "lock_us",
        "verb",
        "name",
        "call",
        "bound",
        "task",
        "shard",
        "connect_us",
    ),
    *("verbs", "tasks", "made", "durations", "locks"),
)


def add_body(frame: pl.DataFrame, *, verbose: bool = False) -> pl.DataFrame:
    """Replace `text` by the columns read from it, fingerprints, kinds and shards of statements included.

    Args:
        frame: has `severity` and `text`; a null text is an empty one.
        verbose: whether an SQLSTATE stands before each message.
    """
    frame = _without_origin(frame.with_columns(pl.col("text").fill_null("")), verbose=verbose)
    frame = frame.with_columns(excerpt=_beginnings(frame.get_column("text")))
    frame = frame.with_columns(_groups()).with_columns(_extracted()).with_columns(_classified())
    frame = frame.with_columns(_statement_text().alias("statement"), _message_text().alias("message"))
    frame = _with_context(frame.with_columns(message=redacted(frame.get_column("message"))))
    return _with_parameters(_with_statements(frame)).drop(_WORKING)


def _without_origin(frame: pl.DataFrame, *, verbose: bool) -> pl.DataFrame:
    """Move the SQLSTATE before a message to its column, and remove the file of the server's source."""
    state, file = _STATES[verbose], f"(?:{_STATES[verbose]})?{_FILE}"
    text, severity = pl.col("text"), pl.col("severity")
    begun = (text.str.contains(f"^{state}") | text.str.contains(f"^{file}")) & ~severity.is_in(DETAIL_SEVERITIES)
    if not frame.select(begun.any()).item():
        return frame
    known = pl.col("sqlstate") if "sqlstate" in frame.columns else pl.lit(None, pl.String)
    stated = pl.when(begun).then(pl.coalesce(text.str.extract(f"^{state}", 1), known)).otherwise(known)
    said = pl.when(begun).then(text.str.replace(f"^(?:{state})?(?:{_FILE})?", "")).otherwise(text)
    return frame.with_columns(stated.alias("sqlstate"), said.alias("text"))


def _beginnings(texts: pl.Series) -> pl.Series:
    """The whole characters in the first :data:`MESSAGE_SCAN` bytes of each text."""
    array = text_array(texts)
    _, bounds, data = array.buffers()
    buffer = np.frombuffer(data or b"", np.uint8)
    ends = np.frombuffer(bounds, np.int64)[array.offset : array.offset + len(array) + 1]
    starts, lengths = ends[:-1], np.diff(ends)
    return string_views(buffer, starts, cut_to_characters(buffer, starts, lengths, MESSAGE_SCAN))


def _with_statements(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the facts from `statement`: fingerprint, kind, values, other shards, and `shard_id` if the row has none."""
    distinct = frame.select(pl.col("statement").drop_nulls().unique(maintain_order=True))
    distinct = distinct.with_columns(tokens=tokens_expr(pl.col("statement")))
    tokens = distinct.get_column("tokens").unique(maintain_order=True)
    described = [describe_tokens(text) for text in tokens]
    facts = pl.DataFrame(
        {
            "tokens": tokens,
            "statement_fingerprint": pl.Series([fact.fingerprint for fact in described], dtype=pl.UInt64),
            "statement_kind": pl.Series([fact.kind for fact in described], dtype=pl.String),
            "statement_shard": pl.Series([next(iter(fact.shards), None) for fact in described], dtype=pl.Int64),
            "other_shards": pl.Series(
                [" ".join(map(str, fact.shards[1:])) or None for fact in described], dtype=pl.String
            ),
        }
    )
    found = distinct.join(facts, on="tokens", maintain_order="left").drop("tokens")
    on_data = found.get_column("statement_kind").is_in(DATA_STATEMENTS)
    said = zip(found.get_column("statement"), on_data, strict=True)
    values = [(statement_values(text) or None) if counts else None for text, counts in said]
    found = found.with_columns(values_hash=pl.Series(values, dtype=pl.Int32))
    joined = frame.join(found, on="statement", how="left", maintain_order="left")
    return joined.with_columns(shard_id=pl.coalesce("shard_id", "statement_shard")).drop("statement_shard")


def _with_context(frame: pl.DataFrame) -> pl.DataFrame:
    """Move the application's trace context from a comment at the end or the beginning of a statement to its column."""
    statement = pl.col("statement")
    if not frame.get_column("statement").str.contains("traceparent='", literal=True).any():
        return frame.with_columns(trace_context=pl.lit(None, pl.String))
    found = {place: statement.str.extract_groups(pattern) for place, pattern in _COMMENTS.items()}
    contexts = {place: groups.struct.field("comment").str.extract(_CONTEXT, 1) for place, groups in found.items()}
    rest = pl.lit(None, pl.String)
    for place, groups in reversed(found.items()):
        rest = pl.when(contexts[place].is_not_null()).then(groups.struct.field("rest")).otherwise(rest)
    return frame.with_columns(trace_context=pl.coalesce(*contexts.values()), statement=pl.coalesce(rest, statement))


def _with_parameters(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the hash of the values of parameters."""
    lists = frame.filter(pl.col("kind") == "parameters").select("text").unique("text", maintain_order=True)
    values = [parameter_values(text) or None for text in lists.get_column("text")]
    known = lists.with_columns(parameters=pl.Series(values, dtype=pl.Int32))
    joined = frame.join(known, on="text", how="left", maintain_order="left")
    given = pl.when(pl.col("kind") == "parameters").then("parameters").otherwise("values_hash")
    return joined.with_columns(values_hash=given).drop("parameters")


def _groups() -> list[pl.Expr]:
    """The groups of the patterns; each pattern is matched once."""
    text = pl.col("text")
    log, debug = pl.col("severity") == "LOG", pl.col("severity") == "DEBUG"
    # The beginning of a text is cheap to compare, and most texts begin differently.
    return [
        pl.when((log | debug) & _begins(*_VERB_BEGINNINGS)).then(text).str.extract_groups(_VERB).alias("verbs"),
        pl.when(debug & _begins("task execution (")).then(text).str.extract_groups(_TASK).alias("tasks"),
        pl.when(debug & _begins("established connection to ")).then(text).str.extract_groups(_CONNECTION).alias("made"),
        pl.when(log & _begins("duration: ")).then(text).str.extract_groups(_DURATION).alias("durations"),
        pl.when(log & _begins("process ")).then(text).str.extract_groups(_LOCK).alias("locks"),
        pl.when(debug & _begins("bind ")).then(text).str.extract(_BOUND, 1).alias("bound"),
    ]


def _extracted() -> list[pl.Expr]:
    verb, task, made = pl.col("verbs"), pl.col("tasks"), pl.col("made")
    number = {"placement_id": "placement", "shard_id": "shard", "task_us": "task"}
    return [
        _microseconds(pl.col("durations")).alias("reported_us"),
        _microseconds(pl.col("locks")).alias("lock_us"),
        verb.struct.field("verb"),
        verb.struct.field("name"),
        verb.struct.field("call"),
        task.struct.field("task"),
        task.struct.field("shard"),
        *(task.struct.field(group).cast(pl.Int64).alias(column) for column, group in number.items()),
        made.struct.field("took").cast(pl.Float64).alias("connect_us"),
        pl.coalesce(task.struct.field("host"), made.struct.field("host")).alias("worker_host"),
        pl.coalesce(task.struct.field("port"), made.struct.field("port")).cast(pl.Int32).alias("worker_port"),
    ]


def _microseconds(groups: pl.Expr) -> pl.Expr:
    """`12.345` milliseconds as exactly 12345.0; integers until the last step."""
    whole, thousandths = groups.struct.field("whole"), groups.struct.field("thousandths")
    return (whole.cast(pl.Int64) * 1000 + thousandths.cast(pl.Int64)).cast(pl.Float64)


def _classified() -> list[pl.Expr]:
    word = (
        pl.when(pl.col("bound").is_not_null())
        .then(pl.lit("bind"))
        .when(pl.col("call").is_not_null())
        .then(pl.lit("fastpath"))
        .when(pl.col("verb").str.starts_with("execute fetch from"))
        .then(pl.lit("fetch"))
        .otherwise(pl.col("verb").str.extract("^(statement|parse|bind|execute)"))
    )
    # `S_1/C_2` is a statement and its portal.
    name = pl.coalesce("name", "bound").str.replace("/.*$", "")
    return [
        _kind(word).cast(TABLES["log_events"]["kind"].dtype).alias("kind"),
        pl.when(_of_local_execution()).then(pl.lit("execute")).otherwise(word).alias("phase"),
        pl.coalesce("reported_us", "lock_us", "connect_us").alias("duration_us"),
        name.alias("statement_name"),
    ]


def _kind(word: pl.Expr) -> pl.Expr:
    """The kind of a record, of which a word may name the protocol phase."""
    severity = pl.col("severity")
    timed, bare = pl.col("reported_us").is_not_null(), pl.col("text").str.contains(_BARE)
    parameters = (severity == "DETAIL") & _begins("parameters: ", "Parameters: ")
    cases = {
        "parameters": parameters,
        "detail": severity.is_in(DETAIL_SEVERITIES),
        **{kind: severity.is_in(_BAD) & found for kind, found in _severe().items()},
        "error": severity.is_in(_BAD),
        "plan": timed & pl.col("text").str.contains(_PLAN),
        "duration": timed & ~word.is_in(["parse", "bind"]).fill_null(value=False) & (bare | word.is_not_null()),
        "other": timed & word.is_null(),
    }
    cases_without_phase = {
        "task": pl.col("task").is_not_null(),
        "connect": pl.col("connect_us").is_not_null(),
        "local": _of_local_execution() | ((severity == "DEBUG") & _begins(_LOCAL_PLAN)),
        "lock_wait": pl.col("lock_us").is_not_null(),
        **{kind: (severity == "LOG") & _begins(*beginnings) for kind, beginnings in _BEGINNINGS.items()},
        **{kind: (severity == "LOG") & found for kind, found in _severe().items()},
    }
    named = word.replace({"fetch": "execute", "fastpath": "statement"})
    return pl.coalesce(first_true(cases), named, first_true(cases_without_phase), pl.lit("other"))


def _severe() -> dict[str, pl.Expr]:
    """Whether a text is of each severe kind, the first that it may be."""
    text, found = pl.col("text"), dict[str, pl.Expr]()
    for kind, begins, holds in _SEVERE:
        own = text.str.starts_with(begins)
        own = own & text.str.contains(rf"\A[^\n]*{holds}") if holds else own
        found[kind] = found[kind] | own if kind in found else own
    return found


def _of_local_execution() -> pl.Expr:
    """Whether a record says that a statement was executed on a shard of the own node."""
    severity = pl.col("severity")
    commanded = ~severity.is_in([*DETAIL_SEVERITIES, *_BAD, "LOG", "DEBUG"]) & _begins(_COMMANDED)
    return commanded | ((severity == "DEBUG") & _begins(_LOCAL_EXECUTION))


def _begins(*beginnings: str) -> pl.Expr:
    text = pl.col("text")
    return pl.any_horizontal([text.str.starts_with(beginning) for beginning in beginnings])


def _statement_text() -> pl.Expr:
    text = pl.col("text")
    return (
        pl.when(pl.col("severity").is_in(["STATEMENT", "QUERY"]))
        .then(text)
        .when(pl.col("verb").is_not_null())
        .then(text.str.replace(_VERB, ""))
        .when(pl.col("call").is_not_null())
        .then(text.str.extract(f"{_TO_VERB}((?s:{_CALL}.*))", 1))
        .when((pl.col("kind") == "local") & _begins(_COMMANDED))
        .then(text.str.slice(len(_COMMANDED)))
    )


def _message_text() -> pl.Expr:
    kind = pl.col("kind").cast(pl.String)
    silent = kind.is_in(["duration", "execute", "parse", "bind", "statement", "parameters", "plan", "connect", "task"])
    return pl.when(~silent & ~pl.col("severity").is_in(["STATEMENT", "QUERY"])).then(pl.col("excerpt"))
