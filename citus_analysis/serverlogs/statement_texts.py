"""Texts of statements, read back from the raw logs, without constants.

A dataset does not store the texts of statements, only their fingerprints and the places of their records. The text
shown here is read from that place, with secrets redacted and constants replaced, so that one line represents all
executions. If a raw file is missing or has changed, the text is missing, with a warning; nothing else depends on it.
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.errors import CitusAnalysisError
from citus_analysis.formats.serverlog.pglog import BEYOND_BYTES, is_syslog, whole_message
from citus_analysis.formats.serverlog.pglog.languages.detected import language_of, language_of_rows
from citus_analysis.serverlogs.log_window import WindowedLogs

#: Longer texts are cut: a page need not show all of a statement.
MOST_CHARACTERS: Final = 600

_PLACE: Final = ["source_id", "byte_offset"]
#: The words before a statement in a message, with and without a duration.
_BEFORE: Final = re.compile(
    r"\b(?:statement|(?:execute|parse|bind|execute fetch from) [^\n:]*):[ \t]*|\b(?:STATEMENT|QUERY):[ \t]*"
)
#: Constants and comments, which the fingerprint of a statement leaves out. An unterminated constant extends to the end
#: of the text: in syslog, and in damaged files, a text may end within a constant.
_CONSTANT: Final = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?\*/)"
    r"|[eE]'(?:[^'\\]|''|\\.)*+'|\b[bBxXnN]?'(?:[^']|'')*+'|'(?:[^']|'')*+'"
    r"|\$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$|\$\d+"
    r'|(?P<quoted>"(?:[^"]|"")*")'
    r"|[bBeExXnN]?'.*\Z|/\*.*\Z|\$(?:[A-Za-z_]\w*|)\$.*\Z"
    r"|(?<![\w$.])(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)\b",
    re.DOTALL,
)
#: The sign of a constant, after an operator, a comma or a bracket.
_SIGN: Final = re.compile(r"""([^\w\s?)\]"]\s*)[-+]\s*\?""")
_LIST: Final = re.compile(r"\( ?\?(?: ?, ?\?)+ ?\)")
_ROWS: Final = re.compile(r"(\(\?(?:, \.\.\.)?\))(?: ?, ?\(\?(?:, \.\.\.)?\))+")
_SHARD: Final = re.compile(r"(?<=\w)_[0-9]{6,18}\b")
#: Columns of csvlog: the message, and the statement that caused it.
_SAID, _QUERY = 13, 19


@dataclass(frozen=True)
class Texts:
    """Texts of records.

    Attributes:
        rows: `source_id`, `byte_offset`, `text` (of the statement, as logged, secrets redacted; null if unavailable).
        warnings: the raw files that could not be read, with the reason.
    """

    rows: pl.DataFrame
    warnings: tuple[str, ...] = ()

    def join(self, table: pl.DataFrame, column: str, *, constants: bool = True) -> pl.DataFrame:
        """A table with `source_id` and `byte_offset`, and the texts of these records as a column, long ones cut."""
        known = self.rows["text"]
        shown = pl.Series(column, [_cut(t if constants else normalised(t)) if t else t for t in known], pl.String)
        texts = self.rows.drop("text").with_columns(shown)
        return table.join(texts, on=_PLACE, how="left", maintain_order="left")


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def opening_records(logs: WindowedLogs, fingerprints: pl.Series) -> pl.DataFrame:
    """The first record with the text of each fingerprint: `fingerprint`, `source_id`, `byte_offset`, `byte_length`."""
    named = logs.dataset.scan("log_events").filter(pl.col("statement_fingerprint").is_in(fingerprints.to_list()))
    if logs.limited:
        named = named.filter(pl.col("source_id").cast(pl.String).is_in(logs.sources["source_id"].to_list()))
    return (
        named.select(*_PLACE, "byte_length", fingerprint="statement_fingerprint")
        .group_by("fingerprint", maintain_order=True)
        .agg(pl.all().sort_by(*_PLACE).first())
        .collect(engine="streaming")
    )


def naming_records(logs: WindowedLogs, statements: pl.DataFrame) -> pl.DataFrame:
    """The record that names each of a few statements: the session's last of that fingerprint up to its duration.

    Args:
        logs: the logs.
        statements: `source_id`, `pid`, `fingerprint` and `byte_offset` (of the duration).

    Returns:
        `source_id`, `closes` (offset of the duration), and `byte_offset` and `byte_length` of the record.
    """
    keys = statements.select("source_id", "pid", "fingerprint", closes="byte_offset").drop_nulls("fingerprint")
    named = logs.dataset.scan("log_events").select(
        *_PLACE, "byte_length", "pid", fingerprint="statement_fingerprint", kind="kind"
    )
    found = named.filter(
        pl.col("kind") != "detail", pl.col("fingerprint").is_in(keys["fingerprint"].unique().to_list())
    )
    return (
        found.join(keys.lazy(), on=["source_id", "pid", "fingerprint"], nulls_equal=True)
        .filter(pl.col("byte_offset") <= pl.col("closes"))
        .group_by("source_id", "closes", maintain_order=True)
        .agg(pl.col("byte_offset", "byte_length").sort_by("byte_offset").last())
        .collect(engine="streaming")
    )


def failed_records(logs: WindowedLogs, errors: pl.DataFrame) -> pl.DataFrame:
    """The `STATEMENT:` records that belong to a few errors.

    Args:
        logs: the logs.
        errors: `source_id` and `byte_offset` of their records.

    Returns:
        `source_id`, `error_offset`, and `byte_offset` and `byte_length` of the record that has the statement.
    """
    details = logs.dataset.scan("log_events").filter(
        pl.col("kind") == "detail",
        pl.col("statement_fingerprint").is_not_null(),
        pl.col("record_byte_offset").is_in(errors["byte_offset"].unique().to_list()),
    )
    wanted = errors.select("source_id", error_offset="byte_offset").unique()
    return (
        details.select(*_PLACE, "byte_length", error_offset="record_byte_offset")
        .join(wanted.lazy(), on=["source_id", "error_offset"], how="semi")
        .group_by("source_id", "error_offset", maintain_order=True)
        .agg(pl.col("byte_offset", "byte_length").sort_by("byte_offset").first())
        .collect(engine="streaming")
    )


def read_texts(logs: WindowedLogs, records: pl.DataFrame) -> Texts:
    """The statements that records name, read from the raw files.

    Args:
        logs: the logs; each of their files is read once.
        records: `source_id`, `byte_offset`, `byte_length`.
    """
    found: list[pl.DataFrame] = []
    warnings: list[str] = []
    wanted = records.select(*_PLACE, "byte_length").drop_nulls().unique(_PLACE).sort(_PLACE)
    for (source_id,), part in wanted.group_by("source_id", maintain_order=True):
        log = logs.sources.filter(source_id=source_id).row(0, named=True)
        texts: list[str | None] = [None] * part.height
        try:
            texts = [statement_in(raw, log["format"]) for raw in _whole_records(logs, part)]
        except CitusAnalysisError as error:
            warnings.append(f"Texts of statements in {log['path']} are missing: the file {error.problem}.")
        found.append(part.select(_PLACE).with_columns(text=pl.Series(texts, dtype=pl.String)))
    empty = pl.DataFrame(schema={"source_id": pl.String, "byte_offset": pl.Int64, "text": pl.String})
    return Texts(pl.concat([empty, *found]), tuple(warnings))


def _whole_records(logs: WindowedLogs, records: pl.DataFrame) -> pl.Series:
    """The raw text of records of one log; for syslog, with the text after it, which may continue the message."""
    raw = logs.dataset.log_text(records)
    if not any(map(is_syslog, raw)):
        return raw
    return logs.dataset.log_text(records.with_columns(pl.col("byte_length") + BEYOND_BYTES))


def statement_in(raw: str, log_format: str) -> str | None:
    """The statement in a record's raw text; None if it names none.

    Example:
        >>> statement_in("2026-03-01 10:00:00 UTC [7] LOG:  duration: 0.1 ms  execute S_1: SELECT 1", "pglog")
        'SELECT 1'
    """
    said, query = _said(raw, log_format)
    found = _BEFORE.search(said)
    text = said[found.end() :] if found else query
    if not text:
        return None
    return text.replace("\n\t", "\n").strip()


def _said(raw: str, log_format: str) -> tuple[str, str | None]:
    """The message of a record, and the statement that csvlog and jsonlog (CloudNativePG in `record`) add to it.

    If redaction damaged the form of the record, its whole text is the message.
    """
    if log_format == "pgcsvlog":
        fields = next(csv.reader([raw], strict=False), [])
        return (_row_in_english(fields[_SAID]), fields[_QUERY]) if len(fields) > _QUERY else (raw, None)
    if log_format == "pgjsonlog":
        try:
            record = json.loads(raw)
        except ValueError:
            return raw, None
        known = record if isinstance(record, dict) else {}
        known = within if isinstance(within := known.get("record"), dict) else known
        said = known.get("message") or known.get("textPayload")
        query = known.get("statement") or known.get("query")
        return (_row_in_english(said) if isinstance(said, str) else raw), (query if isinstance(query, str) else None)
    return _in_english(whole_message(raw)), None


def _row_in_english(message: str) -> str:
    language = language_of_rows([("LOG", message)])
    if not language:
        return message
    # Few logs are in another language.
    from citus_analysis.formats.serverlog.pglog.languages.translation import message_in_english

    return message_in_english(message, language)


def _in_english(raw: str) -> str:
    if _BEFORE.search(raw) or not (language := language_of(raw.encode())):
        return raw
    # Few logs are in another language.
    from citus_analysis.formats.serverlog.pglog.languages.translation import in_english

    return in_english(raw.encode(), language).decode()


def normalised(text: str) -> str:
    """A statement on one line, without comments, with `?` for constants, parameters and numbers of shards.

    Example:
        >>> normalised("SELECT *  FROM t_102008 WHERE a = 'x''y' AND b IN (1, 2.5, $3) -- why")
        'SELECT * FROM t_? WHERE a = ? AND b IN (?, ...)'
        >>> normalised("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        'INSERT INTO t VALUES (?, ...), ...'
    """
    plain = _CONSTANT.sub(_without_value, text)
    plain = _SIGN.sub(r"\1?", _SHARD.sub("_?", " ".join(plain.split())))
    return _ROWS.sub(r"\1, ...", _LIST.sub("(?, ...)", plain)).strip()


def _without_value(match: re.Match[str]) -> str:
    if match["quoted"]:
        return match["quoted"]
    return " " if match["comment"] else "?"
