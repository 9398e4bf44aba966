"""Records of server logs and all columns read from them, by regular expressions.

The same as the compiled scanner, in another technique: neither is derived from the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from itertools import pairwise
from operator import or_
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from citus_analysis.core.arrow_arrays import make_text_array
from citus_analysis.core.type_aliases import Bools, Integers
from citus_analysis.formats.deliveries.content import LINE_CAP
from citus_analysis.formats.parsing.lines import make_first_true_expr
from citus_analysis.formats.pglog.layout import MAX_SHARDS
from citus_analysis.formats.pglog.prefix import (
    HEAD_LIMIT,
    HELD_BACK,
    SYSLOG_HEADER,
    Prefix,
)
from citus_analysis.formats.pglog.records import (
    BREAK,
    CONTINUED,
    CONTROLS,
    DETAIL_SEVERITIES,
    FIRST_DETAIL,
    RECORD,
    STRAY,
    Chunk,
    ScannedChunk,
)
from citus_analysis.formats.pglog.regular_expressions import (
    build_prefix_columns,
    find_openers,
    limit_record_sizes,
    record_texts,
    scan_with,
    trim_line_ends,
)
from citus_analysis.formats.pglog.scanned_chunks import MESSAGE_SCAN, redact_messages
from citus_analysis.formats.pglog.string_views import cut_to_characters, make_string_views
from citus_analysis.schema import DATA_STATEMENTS, TABLES

# Statements without their constants: fingerprint, kind and shards.
#
# A statement is cut into tokens; blanks and comments are dropped, each constant or parameter becomes the same sign. The
# fingerprint is the FNV-1a hash (64 bits) of the tokens, each followed by the byte 0x1f, so it is the same in every
# process and on every platform. Besides constants these differences do not count:
#
# - the case of words outside double quotes, and the number at the end of a shard's name (`usertable_102009`);
# - the number of constants in a list: `IN (1, 2)` and `IN (3)`;
# - the sign of a constant after an operator, a comma or an opening bracket;
# - semicolons at the end.

SEPARATOR: Final = "\x1f"
FNV_OFFSET: Final = 0xCBF29CE484222325
FNV_PRIME: Final = 0x100000001B3
_MASK: Final = 2**64 - 1

# The separator follows the statement, so that there always is a token to match and the pattern never backtracks into
# a blank or comment to find one; unterminated literals and comments extend to it.
SQL_BLANK: Final = r"(?:[\x00-\x1e\x20\x7f]+|--[^\n\x1f]*|/\*[^\x1f]*?\*/|/\*[^\x1f]*)*"
_TAG = r"\$(?:[A-Za-z_][A-Za-z0-9_]*)?\$"
CONSTANT: Final = (
    r"[eE]'(?:[^'\\\x1f]|\\[^\x1f]|'')*\\?'?"
    r"|[bBxXnN]?'(?:[^'\x1f]|'')*'?"
    r"|\$[0-9]+"
    rf"|{_TAG}[^\x1f]*?{_TAG}|{_TAG}[^\x1f]*"
    r"|0[xXoObB][0-9A-Fa-f_]+"
    r"|(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?"
)
_QUOTED = r'(?P<quoted>"(?:[^"\x1f]|"")*)"?'
_WORD = r"(?P<word>[A-Za-z_\x80-\x{10ffff}][A-Za-z0-9_$\x80-\x{10ffff}]*)"
_TOKEN: Final = rf"{SQL_BLANK}(?:{CONSTANT}|{_QUOTED}|{_WORD}|(?P<other>[^\x00-\x1e\x20\x7f]))"

_SHARD: Final = re.compile(r"^(.+)_([0-9]{6,18})$", re.DOTALL)
_VERBS: Final = {
    **dict.fromkeys(("select", "values", "table"), "select"),
    **dict.fromkeys(("begin", "start"), "begin"),
    **dict.fromkeys(("commit", "end"), "commit"),
    **dict.fromkeys(("rollback", "abort"), "rollback"),
    **dict.fromkeys(("set", "reset"), "set"),
    **dict.fromkeys(("create", "alter", "drop", "truncate", "comment", "grant", "revoke", "reindex"), "ddl"),
    **dict.fromkeys(("insert", "update", "delete", "merge", "copy")),
    **dict.fromkeys(
        (
            *("analyze", "call", "checkpoint", "close", "cluster", "deallocate", "declare", "discard", "do", "execute"),
            *("explain", "fetch", "import", "listen", "load", "lock", "move", "notify", "prepare", "reassign"),
            *("refresh", "release", "savepoint", "security", "show", "unlisten", "vacuum"),
        ),
        "utility",
    ),
}
_MAIN_VERBS: Final = frozenset({"select", "insert", "update", "delete", "merge", "values", "table"})


@dataclass(frozen=True)
class StatementFacts:
    """The facts kept of a statement: fingerprint (64 bits), kind (`schema.STATEMENT_KINDS`), shards in their order."""

    fingerprint: int
    kind: str
    shards: tuple[int, ...]


def make_tokens_expr(text: pl.Expr) -> pl.Expr:
    """The statement as tokens, each followed by the separator; constants are empty. Two separators end the text."""
    kept = "${quoted}${word}${other}" + SEPARATOR
    ended = text.str.replace_all(SEPARATOR, " ", literal=True) + SEPARATOR
    return ended.str.replace_all(_TOKEN, kept)


def describe(statement: str) -> StatementFacts:
    """Fingerprint, kind and shards of one statement."""
    tokens: str = pl.select(make_tokens_expr(pl.lit(statement))).item()
    return describe_tokens(tokens)


@lru_cache(maxsize=4096)
def describe_tokens(tokens: str) -> StatementFacts:
    """Fingerprint, kind and shards of a statement, given as tokens by :func:`make_tokens_expr`."""
    words = [token or "?" for token in tokens.split(SEPARATOR)[:-3]]
    shards = _extract_shard_ids(words)
    words = [_lower(_SHARD.sub(r"\1_?", word)) for word in words]
    return StatementFacts(_hash(_fold_lists(_drop_signs(words))), _classify_statement(words), shards)


def _lower(word: str) -> str:
    """Lower case, ASCII only, so that every implementation agrees."""
    return word.encode().lower().decode()


def _extract_shard_ids(words: Sequence[str]) -> tuple[int, ...]:
    """The numbers at the end of names that are qualified with a schema and end like a shard's."""
    found = [int(match[2]) for dot, word in pairwise(words) if dot == "." and (match := _SHARD.match(word))]
    return tuple(dict.fromkeys(found))[:MAX_SHARDS]


def _drop_signs(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for index, word in enumerate(words):
        before = words[index - 1] if index else "("
        is_sign = word in {"+", "-"} and words[index + 1 : index + 2] == ["?"]
        if not (is_sign and _is_operator(before)):
            kept.append(word)
    return kept


def _is_operator(word: str) -> bool:
    return len(word) == 1 and word not in '?)]"' and not (word.isalnum() or word == "_" or word > "\x7f")


def _fold_lists(words: Sequence[str]) -> list[str]:
    """Replace `? , ? , ?` by `?`, and drop semicolons at the end."""
    kept: list[str] = []
    for word in words:
        if word == "?" and kept[-2:] == ["?", ","]:
            kept.pop()
        else:
            kept.append(word)
    while kept and kept[-1] == ";":
        kept.pop()
    return kept


def _hash(words: Sequence[str]) -> int:
    value = FNV_OFFSET
    for byte in "".join(word + SEPARATOR for word in words).encode():
        value = ((value ^ byte) * FNV_PRIME) & _MASK
    return value


def _classify_statement(words: Sequence[str]) -> str:
    verb, rest = _find_main_verb(words)
    kind = _VERBS.get(verb, "other") or verb
    if verb in {"commit", "rollback"} and rest[:1] == ["prepared"]:
        return "prepare"
    if verb == "prepare" and rest[:1] == ["transaction"]:
        return "prepare"
    if verb == "rollback" and "to" in rest[:3]:
        return "utility"
    return kind


def _find_main_verb(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The word that names the statement's kind, and the tokens after it; after WITH, the main verb outside brackets."""
    first = next((index for index, word in enumerate(words) if word != "("), len(words))
    if first == len(words):
        return "", ()
    if words[first] != "with":
        return words[first], words[first + 1 :]
    depth = 0
    for index, word in enumerate(words[first:], first):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in _MAIN_VERBS:
            return word, words[index + 1 :]
    return "", ()


# Hashes of the constants of statements and of the values of parameters, like `native/statement.c`.
#
# A parent's statement and the statement that it sends to a child have the same values, in any order and in other forms:
# `WHERE k = $1` with the parameter `'user1'`, and `WHERE (k OPERATOR(pg_catalog.=) 'user1'::text)`. The hash of a
# statement is the sum of the hashes of its values without their quotes, so the sums of a statement and of its
# parameters add up to that of the child's statement. The hash of a value does not depend on the process or the
# platform.

_NAME: Final = r'"(?:[^"\x1f]|"")*"?|[A-Za-z_\x80-\xff][A-Za-z0-9_$\x80-\xff]*'
_VALUE_TOKEN: Final = re.compile(
    rf"{SQL_BLANK}(?:(?P<value>{CONSTANT})|(?P<name>{_NAME})|(?P<other>[^\x00-\x1e\x20\x7f]))".encode("latin-1")
)
_PARAMETER: Final = re.compile(rb"'(?:[^']|'')*'?")
#: Where a token is in a cast, `'a'::character varying(255)`: after the first colon, in the type, in its brackets.
_NO_CAST, _COLON, _TYPE, _LENGTHS = range(4)
_MULTIPLIER: Final = 0x9E3779B97F4A7C15
_VALUE_WORD: Final = 2**64 - 1


def hash_statement_values(statement: str) -> int:
    """The hash of the constants of a statement, 32 bits with a sign; 0 if it has none."""
    said = statement.encode()
    found, place = 0, 0
    # The token before, if it is an operator or nothing, and whether it is a minus that may belong to a constant.
    operator, minus = True, False
    cast = _NO_CAST
    for token in _VALUE_TOKEN.finditer(said.replace(SEPARATOR.encode(), b" ") + SEPARATOR.encode()):
        if token["value"] is not None:
            begin, end = token.span("value")
            if cast != _LENGTHS:
                found += _hash_constant(said[begin:end], said[begin - (minus and begin == place) : end])
                cast = _NO_CAST
        else:
            cast = _cast_after(
                cast, token["other"], adjoins=token.end() - len(token["name"] or token["other"]) == place
            )
        other = token["other"]
        minus = other == b"-" and operator
        operator = other is not None and other not in b"?)]"
        place = token.end()
    return convert_to_signed_32_bits(found)


def _cast_after(cast: int, token: bytes | None, *, adjoins: bool) -> int:
    """Where the next token is in a cast, after a name (None) or another token that is no constant."""
    if token is None or token in b",.":
        return cast if cast in (_TYPE, _LENGTHS) else _NO_CAST
    if token == b":":
        return _TYPE if cast == _COLON and adjoins else _COLON
    if token == b"(":
        return _LENGTHS if cast == _TYPE and adjoins else _NO_CAST
    return _TYPE if token == b")" and cast == _LENGTHS else _NO_CAST


def hash_parameter_values(parameters: str) -> int:
    """The hash of the values in a list of parameters (`$1 = 'user7', $2 = NULL`)."""
    return convert_to_signed_32_bits(
        sum(_hash_constant(value, value) for value in _PARAMETER.findall(parameters.encode()))
    )


def _hash_constant(constant: bytes, signed: bytes) -> int:
    """The hash of a constant without its quotes; 0 for parameters and for texts between dollars."""
    if constant[:1] in b"$?":
        return 0
    if constant[:1].isdigit() or constant[:1] == b".":
        return _value_hash(signed)
    said = constant[1 if constant[:1] == b"'" else 2 :]
    return _value_hash(said[:-1] if said.endswith(b"'") else said)


@lru_cache(maxsize=65536)
def _value_hash(text: bytes) -> int:
    found = len(text)
    for place in range(0, len(text), 8):
        found = _mix_hash_bits(found ^ int.from_bytes(text[place : place + 8], "little"))
    # The lowest five bits of a sum are the number of its texts.
    return (_mix_hash_bits(_mix_hash_bits(found)) & ~31) + 1


def _mix_hash_bits(value: int) -> int:
    value = value * _MULTIPLIER & _VALUE_WORD
    return value ^ value >> 29


def convert_to_signed_32_bits(value: int) -> int:
    """A sum of hashes as a signed number of 32 bits.

    Example:
        >>> convert_to_signed_32_bits(2**31 + 2**32)
        -2147483648
    """
    return (value + 2**31) % 2**32 - 2**31


# The facts in a record, from its severity and text: kind, durations, tasks, statements, messages.
#
# One function for all log formats: the stderr log, csvlog and jsonlog differ only in how severity and text are
# found. Everything is a polars expression over the text column.

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
    frame = _strip_message_origin(frame.with_columns(pl.col("text").fill_null("")), verbose=verbose)
    frame = frame.with_columns(excerpt=_take_text_beginnings(frame.get_column("text")))
    frame = (
        frame.with_columns(_make_pattern_group_exprs())
        .with_columns(_make_extracted_exprs())
        .with_columns(_make_classified_exprs())
    )
    frame = frame.with_columns(
        _make_statement_text_expr().alias("statement"), _make_message_text_expr().alias("message")
    )
    frame = _add_trace_context(frame.with_columns(message=redact_messages(frame.get_column("message"))))
    return _add_parameter_hash(_add_statement_facts(frame)).drop(_WORKING)


def _strip_message_origin(frame: pl.DataFrame, *, verbose: bool) -> pl.DataFrame:
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


def _take_text_beginnings(texts: pl.Series) -> pl.Series:
    """The whole characters in the first :data:`MESSAGE_SCAN` bytes of each text."""
    array = make_text_array(texts)
    _, bounds, data = array.buffers()
    buffer = np.frombuffer(data or b"", np.uint8)
    ends = np.frombuffer(bounds, np.int64)[array.offset : array.offset + len(array) + 1]
    starts, lengths = ends[:-1], np.diff(ends)
    return make_string_views(buffer, starts, cut_to_characters(buffer, starts, lengths, MESSAGE_SCAN))


def _add_statement_facts(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the facts from `statement`: fingerprint, kind, values, other shards, and `shard_id` if the row has none."""
    distinct = frame.select(pl.col("statement").drop_nulls().unique(maintain_order=True))
    distinct = distinct.with_columns(tokens=make_tokens_expr(pl.col("statement")))
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
    values = [(hash_statement_values(text) or None) if counts else None for text, counts in said]
    found = found.with_columns(values_hash=pl.Series(values, dtype=pl.Int32))
    joined = frame.join(found, on="statement", how="left", maintain_order="left")
    return joined.with_columns(shard_id=pl.coalesce("shard_id", "statement_shard")).drop("statement_shard")


def _add_trace_context(frame: pl.DataFrame) -> pl.DataFrame:
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


def _add_parameter_hash(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the hash of the values of parameters."""
    lists = frame.filter(pl.col("kind") == "parameters").select("text").unique("text", maintain_order=True)
    values = [hash_parameter_values(text) or None for text in lists.get_column("text")]
    known = lists.with_columns(parameters=pl.Series(values, dtype=pl.Int32))
    joined = frame.join(known, on="text", how="left", maintain_order="left")
    given = pl.when(pl.col("kind") == "parameters").then("parameters").otherwise("values_hash")
    return joined.with_columns(values_hash=given).drop("parameters")


def _make_pattern_group_exprs() -> list[pl.Expr]:
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


def _make_extracted_exprs() -> list[pl.Expr]:
    verb, task, made = pl.col("verbs"), pl.col("tasks"), pl.col("made")
    number = {"placement_id": "placement", "shard_id": "shard", "task_us": "task"}
    return [
        _make_microseconds_expr(pl.col("durations")).alias("reported_us"),
        _make_microseconds_expr(pl.col("locks")).alias("lock_us"),
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


def _make_microseconds_expr(groups: pl.Expr) -> pl.Expr:
    """`12.345` milliseconds as exactly 12345.0; integers until the last step."""
    whole, thousandths = groups.struct.field("whole"), groups.struct.field("thousandths")
    return (whole.cast(pl.Int64) * 1000 + thousandths.cast(pl.Int64)).cast(pl.Float64)


def _make_classified_exprs() -> list[pl.Expr]:
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
        _make_record_kind_expr(word).cast(TABLES["log_events"]["kind"].dtype).alias("kind"),
        pl.when(_make_is_local_execution_expr()).then(pl.lit("execute")).otherwise(word).alias("phase"),
        pl.coalesce("reported_us", "lock_us", "connect_us").alias("duration_us"),
        name.alias("statement_name"),
    ]


def _make_record_kind_expr(word: pl.Expr) -> pl.Expr:
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
        "local": _make_is_local_execution_expr() | ((severity == "DEBUG") & _begins(_LOCAL_PLAN)),
        "lock_wait": pl.col("lock_us").is_not_null(),
        **{kind: (severity == "LOG") & _begins(*beginnings) for kind, beginnings in _BEGINNINGS.items()},
        **{kind: (severity == "LOG") & found for kind, found in _severe().items()},
    }
    named = word.replace({"fetch": "execute", "fastpath": "statement"})
    return pl.coalesce(make_first_true_expr(cases), named, make_first_true_expr(cases_without_phase), pl.lit("other"))


def _severe() -> dict[str, pl.Expr]:
    """Whether a text is of each severe kind, the first that it may be."""
    text, found = pl.col("text"), dict[str, pl.Expr]()
    for kind, begins, holds in _SEVERE:
        own = text.str.starts_with(begins)
        own = own & text.str.contains(rf"\A[^\n]*{holds}") if holds else own
        found[kind] = found[kind] | own if kind in found else own
    return found


def _make_is_local_execution_expr() -> pl.Expr:
    """Whether a record says that a statement was executed on a shard of the own node."""
    severity = pl.col("severity")
    commanded = ~severity.is_in([*DETAIL_SEVERITIES, *_BAD, "LOG", "DEBUG"]) & _begins(_COMMANDED)
    return commanded | ((severity == "DEBUG") & _begins(_LOCAL_EXECUTION))


def _begins(*beginnings: str) -> pl.Expr:
    text = pl.col("text")
    return pl.any_horizontal([text.str.starts_with(beginning) for beginning in beginnings])


def _make_statement_text_expr() -> pl.Expr:
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


def _make_message_text_expr() -> pl.Expr:
    kind = pl.col("kind").cast(pl.String)
    silent = kind.is_in(["duration", "execute", "parse", "bind", "statement", "parameters", "plan", "connect", "task"])
    return pl.when(~silent & ~pl.col("severity").is_in(["STATEMENT", "QUERY"])).then(pl.col("excerpt"))


# Values of a prefix that could also end elsewhere, found as in `native/prefix.c`, and dropped.


def drop_ambiguous_values(heads: pl.DataFrame, prefix: Prefix) -> pl.DataFrame:
    """The fields of prefixes without values that are others if texts end as late as possible.

    The texts between such values are dropped, too.

    Args:
        heads: the fields of each record, as :func:`find_openers` gives them.
        prefix: the prefix.
    """
    if not prefix.latest_patterns or heads.is_empty():
        return heads
    names = [name for name in heads.columns if name not in ("head", "severity")]
    latest = _match_latest_fields(heads, prefix.latest_patterns, names)
    matched = latest.get_column("severity").is_not_null()
    differs = {name: matched & ~heads.get_column(name).eq_missing(latest.get_column(name)) for name in names}
    texts = [name for name in prefix.texts if name in differs]
    between = {
        name: _has_any_difference(differs, texts[: place + 1]) & _has_any_difference(differs, texts[place:])
        for place, name in enumerate(texts)
    }
    dropped = differs | between
    return heads.with_columns(pl.when(~pl.lit(dropped[name])).then(pl.col(name)).alias(name) for name in names)


def _match_latest_fields(heads: pl.DataFrame, patterns: Sequence[str], names: Sequence[str]) -> pl.DataFrame:
    """The fields as the first pattern that fits gives them."""
    given = [
        heads.select(pl.col("head").str.extract_groups(pattern).alias("fields")).unnest("fields").to_dict()
        for pattern in patterns
    ]
    fits = given[0]["severity"].is_not_null()
    nothing = pl.Series([None] * len(heads), dtype=pl.String)
    return pl.DataFrame(
        {
            name: given[0][name] if len(given) == 1 else given[0][name].zip_with(fits, given[1].get(name, nothing))
            for name in ("severity", *names)
        }
    )


def _has_any_difference(differs: dict[str, pl.Series], names: list[str]) -> pl.Series:
    return reduce(or_, (differs[name] for name in names))


# Messages that PostgreSQL passes to syslog in pieces, joined as in `native/syslog.c`.
#
# Each piece is a line with syslog's header; lines of other processes may be between the pieces. A line continues the
# last message of its process if it has that message's number.

#: Lines of a message that began earlier than the first line; lines with another number than their process's message.
_UNKNOWN, _NONE = -1, -2


def join_message_texts(data: bytes, heads: pl.DataFrame, starts: Integers, sizes: Integers) -> pl.Series:
    """The text of each record: all lines of its message, also those after other records, without syslog's headers.

    Args:
        data: whole records.
        heads: fields of the records' prefixes.
        starts: first byte of each record.
        sizes: number of bytes of each record.
    """
    if not len(starts):
        return pl.Series([], dtype=pl.String)
    buffer = np.frombuffer(data, np.uint8)
    bounds = np.unique(np.concatenate([starts, np.flatnonzero(buffer == 10) + 1, [len(data)]]))
    begins, ends = bounds[:-1], bounds[1:]
    record = np.searchsorted(starts, begins, side="right") - 1
    inside = (record >= 0) & (begins < (starts + sizes)[record])
    begins, ends, record = begins[inside], ends[inside], record[inside]
    opens = begins == starts[record]
    lines = _parse_syslog_headers(data, begins, ends - begins - (buffer[ends - 1] == 10))
    lines = lines.with_columns(
        pl.when(pl.lit(opens)).then(heads[record].get_column(name)).otherwise(pl.col(name)).alias(name)
        for name in ("head", "p", "l")
    )
    message = _assign_message_lines(lines, opens)
    pieces = begins + lines.get_column("head").str.len_bytes().fill_null(0).to_numpy()
    # A record longer than the cap, which is cut, ends its message.
    most = np.where(sizes > LINE_CAP, starts + limit_record_sizes(buffer, starts, sizes), len(data))
    limits = most[record[np.maximum(message, 0)]]
    ends = np.maximum(np.minimum(trim_line_ends(buffer, pieces, ends), limits), pieces)
    kept = opens | ((message >= 0) & (pieces < limits))
    texts = pl.DataFrame(
        {
            "message": message[kept],
            "opens": opens[kept],
            "piece": make_string_views(buffer, pieces[kept], (ends - pieces)[kept]),
        }
    )
    broken = pl.when(~pl.col("opens") & pl.col("piece").str.contains(BREAK)).then(pl.lit("\n")).otherwise(pl.lit(""))
    piece = pl.col("piece")
    for spelled, control in CONTROLS.items():
        piece = piece.str.replace_all(spelled, control, literal=True)
    joined = texts.group_by("message").agg(text=(broken + piece).str.join("")).sort("message")
    return joined.get_column("text").str.strip_chars_end("\r\n")


def find_last_between_messages(data: bytes, prefix: Prefix) -> int | None:
    """The last record, some bytes before the end, after which no line continues a message from before it.

    Returns:
        None if the last opener is not a record.
    """
    lines = find_openers(data, prefix)
    openers = np.flatnonzero(lines.roles != CONTINUED)
    if not len(openers) or lines.roles[openers[-1]] != RECORD:
        return None
    opener = np.maximum.accumulate(np.where(lines.roles != CONTINUED, np.arange(len(lines.roles)), -1))
    goes_on = (opener >= 0) & (lines.roles[opener] != STRAY)
    begins, ends = lines.starts[:-1][goes_on], lines.starts[1:][goes_on]
    opens = lines.roles[goes_on] == RECORD
    buffer = np.frombuffer(data, np.uint8)
    headers = _parse_syslog_headers(data, begins, ends - begins - (buffer[ends - 1] == 10))
    message = _assign_message_lines(headers, opens)
    known = np.where(message >= 0, message, np.where(message == _NONE, len(message), _UNKNOWN))
    for strict in (True, False):
        before = known if strict else np.where(known == _UNKNOWN, len(message), known)
        first = np.minimum.accumulate(before[::-1])[::-1]
        between = begins[opens & (first >= np.arange(len(first)))]
        if len(between):
            early = between[between <= len(data) - HELD_BACK]
            return int((early if len(early) else between)[-1])
    return None


def _parse_syslog_headers(data: bytes, begins: Integers, lengths: Integers) -> pl.DataFrame:
    """Syslog's header of each line, its process and number as text; null if the line has none."""
    buffer = np.frombuffer(data, np.uint8)
    shown = cut_to_characters(buffer, begins, lengths, HEAD_LIMIT)
    lines = pl.DataFrame({"line": make_string_views(buffer, begins, shown)})
    return lines.select(pl.col("line").str.extract_groups(SYSLOG_HEADER).alias("fields")).unnest("fields")


def _assign_message_lines(lines: pl.DataFrame, opens: Bools) -> Integers:
    """Number of the line that began each line's message, or :data:`_UNKNOWN` or :data:`_NONE`."""
    place = pl.int_range(pl.len())
    number = pl.col("l").cast(pl.Int64).fill_null(-1)
    own = lines.select(opens=pl.lit(opens), place=place, process=pl.col("p").cast(pl.Int64), number=number)
    last = own.with_columns(
        pl.when("opens").then(pl.col(name)).forward_fill().over("process").alias(f"last_{name}")
        for name in ("place", "number")
    )
    found = (
        pl.when(pl.col("process").is_null())
        .then(_NONE)
        .when(pl.col("last_place").is_null())
        .then(_UNKNOWN)
        .when(pl.col("last_number") == pl.col("number"))
        .then(pl.col("last_place"))
        .otherwise(_NONE)
    )
    return last.select(found.cast(pl.Int64)).to_series().to_numpy()


# Records of a chunk of a stderr log, by regular expressions.


def scan(chunk: Chunk, prefix: Prefix) -> ScannedChunk:
    """The records of a chunk."""
    return scan_with(chunk, prefix, partial(_build_stderr_rows, prefix))


def _build_stderr_rows(
    prefix: Prefix, data: bytes, offset: int, heads: pl.DataFrame, starts: Integers, sizes: Integers
) -> tuple[pl.DataFrame, Integers]:
    rows = record_texts(data, offset, heads, starts, sizes)
    if prefix.syslog:
        rows = rows.with_columns(text=join_message_texts(data, heads, starts, sizes))
    return add_body(
        rows.hstack(build_prefix_columns(drop_ambiguous_values(heads, prefix))), verbose=prefix.verbose
    ), sizes


# Detail lines linked to their records, as the compiled scanner links them.

_LINKED: Final = "record_byte_offset"


class PythonLinks:
    """Links the details in the chunks of one source, in order; keeps the last record of each process between chunks."""

    def __init__(self) -> None:
        #: Process -> offset and number of its last record, and the number of details since.
        self._last: dict[int | None, tuple[int, int | None, int]] = {}

    def link(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the next chunk with `record_byte_offset`."""
        pids, lines, offsets = (rows.column(name).to_pylist() for name in ("pid", "session_line", "byte_offset"))
        severities = rows.column("severity").indices.to_pylist()
        linked = [
            self._next(pid, line, None if severity >= FIRST_DETAIL else offset)
            for pid, line, offset, severity in zip(pids, lines, offsets, severities, strict=True)
        ]
        return rows.set_column(rows.schema.get_field_index(_LINKED), _LINKED, pa.array(linked, pa.int64()))

    def _next(self, pid: int | None, line: int | None, record: int | None) -> int | None:
        """The link for the next row of a process; `record` is the row's offset, or None if the row is a detail."""
        if record is not None:
            self._last[pid] = record, line, 0
            return None
        if pid not in self._last:
            return None
        target, record_line, seen = self._last[pid]
        self._last[pid] = target, record_line, seen + 1
        # In syslog, a record and its details have the same number.
        gapless = line is None or line == record_line or line - (-1 if record_line is None else record_line) == seen + 1
        return target if gapless else None
