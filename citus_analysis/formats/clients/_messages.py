"""Error messages that a load generator prints, counted by class.

A message's class is its text with the variable parts replaced: numbers, addresses of objects, quoted
literals. The names of exception classes move to a separate column.

Example:
    >>> counted = count_messages(pl.DataFrame({"offset": [0, 90], "text": [
    ...     "Error in processing insert to table: usertableorg.postgresql.util.PSQLException: ERROR: no user17",
    ...     "Error in processing insert to table: usertableorg.postgresql.util.PSQLException: ERROR: no user4"]}))
    >>> counted.select("exception", "message_class", "count").row(0)
    ('org.postgresql.util.PSQLException', 'Error in processing insert to table: usertable: ERROR: no userN', 2)
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.formats.api.redacted_columns import redact_expr

#: A Java class that is named like a throwable.
THROWABLE: Final = r"(?:[a-z_]\w*\.)+[A-Z][\w$]*(?:Exception|Error|Throwable|Failure)\b"
#: A severity word of loggers and PostgreSQL tools.
SEVERITY: Final = r"\b(FATAL|SEVERE|ERROR|WARN(?:ING)?|fatal|error|warning)\b"

MESSAGE_CHARS: Final = 300

#: Limit of classes: messages that differ each time must not fill the memory.
_MAX_CLASSES: Final = 1000
_OTHER: Final = "(other messages)"

# The JDBC binding of YCSB prints the table's name and the exception without anything between them.
_GLUED: Final = r"^(Error in \w+ \w+ (?:to|of|from|in) table: ?)(\S+?)((?:org|com|net|io|java|javax|oracle|site)\.)"
_VARIABLE: Final = (
    (r"'(?:[^']|'')*'", "'*'"),
    (r"@[0-9a-f]{5,}\b|\b0x[0-9a-fA-F]+\b", "@N"),
    (r"\d+(?:[.,:]\d+)*", "N"),
)
_KEYS: Final = ("exception", "message_class")


def count_messages(lines: pl.DataFrame) -> pl.DataFrame:
    """Messages by class: the parsed columns of `client_errors`.

    Args:
        lines: the first line of each message as `text`, with its `offset`.
    """
    # Few texts are distinct, so replacements run only on distinct texts.
    distinct = lines.group_by("text").agg(pl.len().alias("count"), pl.col("offset").min().alias("first_byte_offset"))
    text = redact_expr(pl.col("text").str.replace(_GLUED, "${1}${2}: ${3}"))
    named = distinct.with_columns(
        exception=pl.coalesce(text.str.extract_all(THROWABLE).list.last(), text.str.extract(SEVERITY)).str.head(
            MESSAGE_CHARS
        ),
        message_class=_class_of(text.str.replace_all(rf"{THROWABLE}(?:: |$)", "")),
    )
    return _summed(named)


def _class_of(text: pl.Expr) -> pl.Expr:
    for pattern, replacement in _VARIABLE:
        text = text.str.replace_all(pattern, replacement)
    return text.str.strip_chars().str.head(MESSAGE_CHARS)


def add_messages(counted: pl.DataFrame, more: pl.DataFrame) -> pl.DataFrame:
    """The sum of two counts of messages; beyond the limit of classes, late ones are counted together."""
    total = _summed(pl.concat([counted, more], how="vertical_relaxed"))
    if total.height <= _MAX_CLASSES:
        return total
    late = pl.int_range(pl.len()) >= _MAX_CLASSES
    return _summed(
        total.with_columns(
            exception=pl.when(~late).then("exception"),
            message_class=pl.when(late).then(pl.lit(_OTHER)).otherwise("message_class"),
        )
    )


def _summed(counted: pl.DataFrame) -> pl.DataFrame:
    table = counted.group_by(_KEYS).agg(pl.col("count").sum(), pl.col("first_byte_offset").min())
    return table.sort("first_byte_offset", *_KEYS)
