"""Statement executions of server logs, each with its session's user, database, application and client.

Statements of clients come from the table `statements`, which joins the records of one execution. Executions of a Citus
node for another node's statement come from the table `spans`: their time is part of the time of the statement that sent
them, so the two are never added up.

An hour of logs has millions of rows. They are linked to their records by one number, made of the log and the offset,
which is looked up in sorted arrays: a join over texts would take several times as long.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.type_aliases import Integers
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import CitusAnalysisError, FormatError
from citus_analysis.formats.pglog import BEYOND_BYTES, is_syslog, whole_message
from citus_analysis.formats.pglog.languages import detect_language, detect_row_language
from citus_analysis.schema import STATEMENT_KINDS
from citus_analysis.serverlogs.windows import WindowedLogs
from citus_analysis.spans.profile import ESTIMATES, estimate_percentile_columns
from citus_analysis.stats.run_percentiles import RunValues
from citus_analysis.texts.documents import parse_json
from citus_analysis.units import US_PER_MS, US_PER_S

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
    of_clients = _read_client_executions(logs, names)
    rows = pl.concat([of_clients, _read_node_executions(logs, names).select(of_clients.columns)])
    keys = _encode_record_places(rows)
    order = np.argsort(keys, kind="stable")
    rows, keys = rows[order], keys[order]
    wanted = pl.col("duration_us").is_not_null()
    if rows["duration_us"].null_count():
        wanted |= _OPENS | pl.col("severity").cast(pl.String).is_in(_ERRORS) | (pl.col("kind") == "task")
    heads = logs.scan("log_events", "log_time").filter(wanted)
    session = _look_up_records(_read(heads, names, *_SESSION), _SESSION, keys)
    paths = dict(logs.sources.select(pl.col("source_id", "path")).iter_rows())
    node = pl.coalesce(
        pl.when(pl.col("node") != pl.col("source_id").cast(pl.String)).then("node"),
        pl.col("source_id").cast(pl.String).replace(paths),
    )
    return rows.hstack(session).with_columns(node=node)


def _read_client_executions(logs: WindowedLogs, names: pl.Enum) -> pl.DataFrame:
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


def _read_node_executions(logs: WindowedLogs, names: pl.Enum) -> pl.DataFrame:
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
    return spans.with_columns(fingerprint=_find_session_fingerprints(spans, openers))


def _find_session_fingerprints(spans: pl.DataFrame, openers: pl.DataFrame) -> pl.Series:
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


def _look_up_records(records: pl.DataFrame, columns: tuple[str, ...], keys: Integers) -> pl.DataFrame:
    """Columns of the records at these places; null if there is no record."""
    known = _encode_record_places(records)
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


def _encode_record_places(rows: pl.DataFrame) -> Integers:
    """Log and offset as one number."""
    number = pl.col("source_id").to_physical().cast(pl.Int64)
    return rows.select(number * 2**_OFFSET_BITS + pl.col("byte_offset")).to_series().to_numpy()


# Tables of statement executions: by any column, over time, and the slowest.

#: Percentiles of tables; a percentile is shown if at least one value is expected beyond it.
PERCENTILES: Final = (50, 95, 99)
#: Lengths of intervals over time, in seconds, and their names to polars.
INTERVALS: Final = {
    1: "1s", 10: "10s", 60: "1m", 600: "10m", 3_600: "1h", 21_600: "6h", 86_400: "1d", 604_800: "7d", 2_592_000: "30d",
}  # fmt: skip
#: Most statements from which the interval of a percentile is computed; of more, every second, third ... is used.
_MOST_FOR_INTERVAL: Final = 200_000
#: Most intervals that are distinguishable in a figure over time.
_MOST_INTERVALS: Final = 150


def summarise_statements(
    statements: pl.DataFrame, by: Sequence[str], percentiles: Sequence[int] = PERCENTILES
) -> pl.DataFrame:
    """Count, total and mean time, share and percentiles of each group, the largest total time first.

    Args:
        statements: result of :func:`read_statements`.
        by: columns to group by.
        percentiles: in per cent; each costs a sort.

    Returns:
        The `by` columns, `statements`, `timed` (statements with a duration), `failed`, `total_s`, `share_percent` (of
        the total time of all groups with the same `sent_by`, or of all), `mean_ms`, `min_ms`, `p50_ms`, `p95_ms`,
        `p99_ms` (null if the group is too small), `max_ms`, `first_time` and `last_time`.

    Example:
        >>> frame = pl.DataFrame({"user": ["a", "a", "b"], "duration_us": [1e3, 3e3, 4e3], "failed": [False] * 3})
        >>> frame = frame.with_columns(end_time=pl.lit(None, pl.Datetime("us", "UTC")))
        >>> summarise_statements(frame, ["user"]).select("user", "statements", "mean_ms", "share_percent").rows()
        [('a', 2, 2.0, 50.0), ('b', 1, 4.0, 50.0)]
    """
    time = pl.col("duration_us")
    table = statements.group_by(list(by), maintain_order=True).agg(
        pl.len().alias("statements"),
        time.count().alias("timed"),
        pl.col("failed").sum(),
        (time.sum() / US_PER_S).alias("total_s"),
        (time.mean() / US_PER_MS).alias("mean_ms"),
        (time.min() / US_PER_MS).alias("min_ms"),
        *(_make_percentile_expr(time, percent) for percent in percentiles),
        (time.max() / US_PER_MS).alias("max_ms"),
        pl.col("end_time").min().alias("first_time"),
        pl.col("end_time").max().alias("last_time"),
    )
    whole = pl.col("total_s").sum().over("sent_by") if "sent_by" in by else pl.col("total_s").sum()
    share = pl.when(whole > 0).then(100 * pl.col("total_s") / whole)
    table = table.with_columns(pl.col(pl.Categorical).cast(pl.String), share_percent=share)
    place = table.columns.index("total_s") + 1
    columns = [*table.columns[:place], "share_percent", *table.columns[place:-1]]
    order = ["total_s", "statements", *by]
    return table.select(columns).sort(order, descending=[True, True, *[False] * len(by)], nulls_last=True)


def _make_percentile_expr(time: pl.Expr, percent: int) -> pl.Expr:
    value = time.quantile(percent / 100, "linear") / US_PER_MS
    return pl.when(time.count() * (100 - percent) >= 100).then(value).alias(f"p{percent}_ms")


def estimate_percentile_intervals(
    statements: pl.DataFrame, groups: pl.DataFrame, *, percentiles: Sequence[float] = PERCENTILES, level: float = LEVEL
) -> pl.DataFrame:
    """Percentiles of groups of statements with intervals: order statistics at the effective sample size.

    Statements that follow each other are correlated, so the effective sample size is smaller than their number;
    `method` states it (:func:`citus_analysis.stats.run_percentile_interval`).

    Args:
        statements: result of :func:`read_statements`.
        groups: one row per wanted group, with the columns to group by.
        percentiles: in per cent.
        level: confidence level.

    Returns:
        The columns of `groups`, `percentile`, `estimate_us` (interpolated between order statistics), `low_us` and
        `high_us` (null if there are too few data; `warnings` gives the reason), `runs` (1: the window), `n`, `method`,
        `warnings`.
    """
    by = groups.columns
    rows: list[dict[str, object]] = []
    order = [name for name in ("end_time", "source_id", "byte_offset") if name in statements.columns]
    wanted = groups.unique(maintain_order=True).with_row_index("_group")
    timed = statements.drop_nulls("duration_us").select(*by, *order, "duration_us")
    placed = timed.join(wanted, on=by, nulls_equal=True).sort("_group", *order, nulls_last=True)
    for _, part in placed.group_by("_group", maintain_order=True):
        step = -(-part.height // _MOST_FOR_INTERVAL)
        run = RunValues(part["duration_us"].cast(pl.Float64).gather_every(step).to_numpy())
        key = part.select(by).row(0, named=True)
        for q in percentiles:
            found = estimate_percentile_columns([run], float(q), level)
            # The same estimate as in the other tables of the profile, so that percentiles agree.
            known = {"estimate_us": part["duration_us"].quantile(q / 100, "linear")} if "estimate_us" in found else {}
            rows.append({**key, **found, **known, "method": _format_thinned_method(str(found["method"]), step)})
    schema = {**{name: groups.schema[name] for name in by}, "percentile": pl.Float64(), **ESTIMATES}
    return pl.DataFrame(rows, schema=schema)


def _format_thinned_method(method: str, step: int) -> str:
    return method if step == 1 or not method else f"{method}; one of {step} statements"


def choose_time_interval(times: pl.Series) -> int:
    """The shortest of :data:`INTERVALS` (seconds) that divides the time covered into a readable number of parts."""
    first, last = times.min(), times.max()
    covered = (last - first).total_seconds() if isinstance(first, datetime) and isinstance(last, datetime) else 0.0
    return next((length for length in INTERVALS if covered / length <= _MOST_INTERVALS), max(INTERVALS))


def count_statements_over_time(statements: pl.DataFrame, interval_s: int) -> pl.DataFrame:
    """Statements per interval of time and sender.

    Args:
        statements: result of :func:`read_statements`.
        interval_s: length of the intervals, one of :data:`INTERVALS`.

    Returns:
        `time` (begin of the interval), `sent_by`, `statements`, `statements_per_s`, `failed`, `total_s`, `mean_ms`,
        `p95_ms`, `max_ms`; intervals without statements have no row.
    """
    timed = statements.drop_nulls("end_time")
    parts = timed.with_columns(time=pl.col("end_time").dt.truncate(INTERVALS[interval_s]))
    table = summarise_statements(parts, ["time", "sent_by"], (95,)).sort("time", "sent_by")
    rate = pl.col("statements") / interval_s
    of_times = ("failed", "total_s", "mean_ms", "p95_ms", "max_ms")
    return table.select("time", "sent_by", "statements", rate.alias("statements_per_s"), *of_times)


def select_slowest_statements(statements: pl.DataFrame, most: int) -> pl.DataFrame:
    """The `most` statements of the longest duration, the longest first."""
    longest = statements.drop_nulls("duration_us").top_k(most, by="duration_us")
    texts = pl.col("source_id", "user", "database", "application", "client_host").cast(pl.String)
    return longest.with_columns(texts).sort("duration_us", "source_id", "byte_offset", descending=[True, False, False])


# Texts of statements, read back from the raw logs, without constants.
#
# A dataset does not store the texts of statements, only their fingerprints and the places of their records. The text
# shown here is read from that place, with secrets redacted and constants replaced, so that one line represents all
# executions. If a raw file is missing or has changed, the text is missing, with a warning; nothing else depends on
# it.

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
class RecordTexts:
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
        shown = pl.Series(
            column, [_cut_text(t if constants else normalise_statement(t)) if t else t for t in known], pl.String
        )
        texts = self.rows.drop("text").with_columns(shown)
        return table.join(texts, on=_PLACE, how="left", maintain_order="left")


def _cut_text(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def find_opening_records(logs: WindowedLogs, fingerprints: pl.Series) -> pl.DataFrame:
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


def find_naming_records(logs: WindowedLogs, statements: pl.DataFrame) -> pl.DataFrame:
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


def find_failed_records(logs: WindowedLogs, errors: pl.DataFrame) -> pl.DataFrame:
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


def read_texts(logs: WindowedLogs, records: pl.DataFrame) -> RecordTexts:
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
            texts = [extract_statement(raw, log["format"]) for raw in _read_whole_records(logs, part)]
        except CitusAnalysisError as error:
            warnings.append(f"Texts of statements in {log['path']} are missing: the file {error.problem}.")
        found.append(part.select(_PLACE).with_columns(text=pl.Series(texts, dtype=pl.String)))
    empty = pl.DataFrame(schema={"source_id": pl.String, "byte_offset": pl.Int64, "text": pl.String})
    return RecordTexts(pl.concat([empty, *found]), tuple(warnings))


def _read_whole_records(logs: WindowedLogs, records: pl.DataFrame) -> pl.Series:
    """The raw text of records of one log; for syslog, with the text after it, which may continue the message."""
    raw = logs.dataset.log_text(records)
    if not any(map(is_syslog, raw)):
        return raw
    return logs.dataset.log_text(records.with_columns(pl.col("byte_length") + BEYOND_BYTES))


def extract_statement(raw: str, log_format: str) -> str | None:
    """The statement in a record's raw text; None if it names none.

    Example:
        >>> extract_statement("2026-03-01 10:00:00 UTC [7] LOG:  duration: 0.1 ms  execute S_1: SELECT 1", "pglog")
        'SELECT 1'
    """
    said, query = _parse_record_message(raw, log_format)
    found = _BEFORE.search(said)
    text = said[found.end() :] if found else query
    if not text:
        return None
    return text.replace("\n\t", "\n").strip()


def _parse_record_message(raw: str, log_format: str) -> tuple[str, str | None]:
    """The message of a record, and the statement that csvlog and jsonlog (CloudNativePG in `record`) add to it.

    If redaction damaged the form of the record, its whole text is the message.
    """
    if log_format == "pgcsvlog":
        fields = next(csv.reader([raw], strict=False), [])
        return (_translate_message(fields[_SAID]), fields[_QUERY]) if len(fields) > _QUERY else (raw, None)
    if log_format == "pgjsonlog":
        try:
            record = parse_json(raw)
        except FormatError:
            return raw, None
        known = record if isinstance(record, dict) else {}
        known = within if isinstance(within := known.get("record"), dict) else known
        said = known.get("message") or known.get("textPayload")
        query = known.get("statement") or known.get("query")
        return (_translate_message(said) if isinstance(said, str) else raw), (query if isinstance(query, str) else None)
    return _translate_record(whole_message(raw)), None


def _translate_message(message: str) -> str:
    language = detect_row_language([("LOG", message)])
    if not language:
        return message
    # Few logs are in another language.
    from citus_analysis.formats.pglog.translation import translate_message

    return translate_message(message, language)


def _translate_record(raw: str) -> str:
    if _BEFORE.search(raw) or not (language := detect_language(raw.encode())):
        return raw
    # Few logs are in another language.
    from citus_analysis.formats.pglog.translation import translate_to_english

    return translate_to_english(raw.encode(), language).decode()


def normalise_statement(text: str) -> str:
    """A statement on one line, without comments, with `?` for constants, parameters and numbers of shards.

    Example:
        >>> normalise_statement("SELECT *  FROM t_102008 WHERE a = 'x''y' AND b IN (1, 2.5, $3) -- why")
        'SELECT * FROM t_? WHERE a = ? AND b IN (?, ...)'
        >>> normalise_statement("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        'INSERT INTO t VALUES (?, ...), ...'
    """
    plain = _CONSTANT.sub(_replace_value, text)
    plain = _SIGN.sub(r"\1?", _SHARD.sub("_?", " ".join(plain.split())))
    return _ROWS.sub(r"\1, ...", _LIST.sub("(?, ...)", plain)).strip()


def _replace_value(match: re.Match[str]) -> str:
    if match["quoted"]:
        return match["quoted"]
    return " " if match["comment"] else "?"
