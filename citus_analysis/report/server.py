"""Sentences and tables of the server report."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Final

import polars as pl

from citus_analysis.report.sentences import (
    compute_mean_time_parts,
    describe_joint_adjustment,
    format_decided_ratio,
    format_time_shares,
)
from citus_analysis.serverlogs.comparison import ServerComparison
from citus_analysis.serverlogs.profile import ServerProfile, describe_unread_logs
from citus_analysis.serverlogs.statements import CLIENT, NODE
from citus_analysis.spans.profile import convert_us_to_ms
from citus_analysis.stats import Comparison
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.words import choose_noun_form, join_words, pluralize
from citus_analysis.units import US_PER_MS, US_PER_S

#: Characters of a statement in a sentence.
_MOST_CHARACTERS: Final = 90
#: Fewest counts of 0 that share a row.
_FEW_COUNTS: Final = 2


def write_server_sentences(profile: ServerProfile, comparison: ServerComparison | None = None) -> list[str]:
    """Extent of the logs, the statements that take the most time, errors, and the servers' other reports."""
    sentences = [
        *_severe(profile),
        _write_log_extent(profile),
        *_write_largest_statements(profile),
        *_write_longest_statements(profile),
        _write_error_sentence(profile),
        _write_activity_sentence(profile),
    ]
    extra = change_sentences(comparison)[:1] if comparison is not None else _write_remote_time_shares(profile)
    return [*sentences[: 6 - len(extra)], *extra]


def change_sentences(comparison: ServerComparison) -> list[str]:
    """The number of comparisons by verdict, then a sentence for each that is decided."""
    if not comparison.n:
        return ["No statement has enough durations in both windows to be compared."]
    counts = Counter(one.verdict for one in comparison.comparisons).most_common()
    words = join_words([f"{verdict} ({number})" for verdict, number in counts])
    joint = f" ({text})" if (text := describe_joint_adjustment(comparison.comparisons)) else ""
    first = (
        f"Verdicts on the mean duration of {pluralize(comparison.n, 'statement')} against the base "
        f"({comparison.label_base}): {words}{joint}; {comparison.only_tested.height} occur in the window only and "
        f"{comparison.only_base.height} in the base only."
    )
    texts = {tuple(row[:3]): row[3] for row in comparison.statements.select(*_KEYS, "text").iter_rows()}
    return [first, *(_change(one, texts) for one in comparison.comparisons if one.verdict != "inconclusive")]


_KEYS: Final = ("sent_by", "statement_kind", "fingerprint")


def _change(one: Comparison, texts: dict[tuple[object, ...], str | None]) -> str:
    text = _shorten_statement_text(texts[tuple(one.stratum[name] for name in _KEYS)])
    return f"{text}: {one.verdict}, ratio of mean durations {format_decided_ratio(one)}."


def _shorten_statement_text(text: str | None) -> str:
    if text is None:
        return "a statement whose text is not available"
    plain = " ".join(text.split()).rstrip("; ")
    return plain if len(plain) <= _MOST_CHARACTERS else f"{plain[: _MOST_CHARACTERS - 1]}…"


def _format_log_time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}"


#: What a record of each severe kind says.
_SEVERE_WORDS: Final = {
    "checksum": "pages with an invalid checksum or header",
    "crash": "crashes of a server process, and recovery after them",
    "wraparound": "transaction ids close to their wraparound",
    "disk_full": "a full disk",
    "out_of_memory": "memory that did not suffice",
    "archive_failed": "WAL files that could not be archived",
    "too_many_connections": "connections refused because there were too many",
    "deadlock": "deadlocks",
    "statement_timeout": "statements cancelled at their timeout",
}


def _severe(profile: ServerProfile) -> list[str]:
    """What endangered the servers or refused their service, the worst first."""
    if profile.severe.is_empty():
        return []
    parts = [
        f"{_SEVERE_WORDS[kind]} ({pluralize(records, 'record')}{f', SQLSTATE {state}' if state else ''})"
        for kind, state, records in profile.severe.select("kind", "sqlstate", "records").iter_rows()
    ]
    return [f"The servers report {join_words(parts)}."]


def _write_log_extent(profile: ServerProfile) -> str:
    begin, end = profile.begin, profile.end
    span = f", from {_format_log_time(begin)} to {_format_log_time(end)} UTC," if begin and end else ""
    parts = [
        f"{pluralize(part.height, 'statement')} sent by {'clients' if sent_by == CLIENT else 'other nodes'} "
        f"({_total(part['duration_us'])})"
        for sent_by in (CLIENT, NODE)
        if (part := profile.statements.filter(pl.col("sent_by") == sent_by)).height
    ]
    logs = pluralize(profile.sources.height, "server log")
    return f"{pluralize(profile.n, 'record')} of {logs}{span} report {join_words(parts) if parts else 'no statements'}."


def _total(durations_us: pl.Series) -> str:
    if durations_us.null_count() == durations_us.len():
        return "without durations"
    return f"{format_number(float(durations_us.sum()) / US_PER_S)} s in total"


def _write_largest_statements(profile: ServerProfile) -> list[str]:
    timed = profile.by_fingerprint.filter(pl.col("timed") > 0)
    if timed.is_empty():
        unread = describe_unread_logs(profile.coverage, of_durations=True)
        return [
            _describe_absence(
                "The logs report no duration of a statement", "No duration of a statement was read", unread
            )
        ]
    top = timed.row(0, named=True)
    rest = f"{pluralize(top['timed'], 'execution')}, mean {format_number(top['mean_ms'])} ms"
    return [
        f"The largest total time, {top['share_percent']:.0f} %, is that of "
        f"{_shorten_statement_text(top['text'])} ({rest})."
    ]


def _describe_absence(logged: str, read: str, unread: str | None) -> str:
    """That something is not in the logs; if not all of them was understood, that it was not read."""
    return f"{logged}." if unread is None else f"{read}; not understood: {unread}."


def _write_longest_statements(profile: ServerProfile) -> list[str]:
    if profile.slowest.is_empty():
        return []
    top = profile.slowest.row(0, named=True)
    took = f"The longest single statement took {format_number(top['duration_us'] / US_PER_S)} s"
    when = f" and ended at {_format_log_time(top['end_time'])} UTC" if top["end_time"] else ""
    return [f"{took}{when}: {_shorten_statement_text(top['text'])}."]


def _write_error_sentence(profile: ServerProfile) -> str:
    if profile.error_groups.is_empty():
        words = "record of severity WARNING or worse was"
        return _describe_absence(f"No {words} logged", f"No {words} read", describe_unread_logs(profile.coverage))
    counts = Counter(profile.errors["severity"])
    words = join_words([f"{counts[name]} {name}" for name in ("PANIC", "FATAL", "ERROR", "WARNING") if counts[name]])
    top = profile.error_groups.row(0, named=True)
    first = f"“{_shorten_statement_text(top['normalised'])}” ({pluralize(top['count'], 'time')})"
    return f"Problems logged: {words}; the most frequent message is {first}."


def _write_activity_sentence(profile: ServerProfile) -> str:
    counts = dict(profile.overview().select("what", "count").iter_rows())
    size = float(profile.temp_files["size_bytes"].sum()) / 1e6
    of_files = f" ({format_number(size)} MB)" if size else ""
    nouns = {
        "lock waits": ("lock wait", ""),
        "deadlocks": ("deadlock", ""),
        "checkpoints completed": ("completed checkpoint", ""),
        "automatic vacuums": ("automatic vacuum", ""),
        "temporary files": ("temporary file", of_files),
        "sessions ended": ("ended session", ""),
    }
    some = [f"{pluralize(counts[what], noun)}{more}" for what, (noun, more) in nouns.items() if counts[what]]
    none = [choose_noun_form(2, noun) for what, (noun, _) in nouns.items() if not counts[what]]
    said = ", but ".join([*([join_words(some)] if some else []), *([f"no {join_words(none)}"] if none else [])])
    return f"The servers logged {said}; other events may have occurred that they are not configured to log."


def select_shown_counts(overview: pl.DataFrame) -> pl.DataFrame:
    """Overall counts for readers: one row names all that did not occur, or was not logged.

    Args:
        overview: result of :meth:`~citus_analysis.serverlogs.ServerProfile.overview`.

    Example:
        >>> counts = {"what": ["records", "deadlocks", "lock waits"], "count": [7, 0, 0], "total_s": [None, None, 0.0]}
        >>> select_shown_counts(pl.DataFrame(counts)).select("what", "count").rows()
        [('records', 7), ('none, or not logged: deadlocks, lock waits', 0)]
    """
    none = overview.filter(pl.col("count") == 0)
    some = overview.filter(pl.col("count") > 0)
    if none.height < _FEW_COUNTS:
        return overview
    row = {"what": f"none, or not logged: {', '.join(none['what'])}", "count": 0, "total_s": None}
    return pl.concat([some, pl.DataFrame([row], schema=some.schema)])


def _write_remote_time_shares(profile: ServerProfile) -> list[str]:
    """Shares of the parent, the child and the time between them, for the kind with the most remote statements.

    The mean is one of a log's content, as `pg_stat_statements` has it: over all configurations and states of sessions.
    """
    remote = profile.distributed.filter(pl.col("executed") == "remote").sort("n", descending=True)
    if remote.is_empty():
        return []
    kind = str(remote["statement_kind"][0])
    rows = remote.filter(pl.col("statement_kind") == kind)
    means = compute_mean_time_parts(rows)
    if not means:
        return []
    number = pluralize(int(rows.filter(pl.col("quantity") == "T")["n"][0]), f"remote {kind.upper()}")
    mean = f"{format_number(means['T'] / US_PER_MS)} ms"
    states = "whatever their configuration and the state of their session"
    return [f"In all logs together, {number} took {mean} on average, {states}: {format_time_shares(means)}."]


def tabulate_coverage(profile: ServerProfile) -> pl.DataFrame:
    """Of each log, the shares in % of what was understood; null where there is nothing of the kind."""
    shares = {
        "known_kind_percent": ("logged", pl.col("logged") - pl.col("unknown")),
        "in_statement_percent": ("durations", pl.col("placed")),
    }
    shares |= {f"{name}_percent": ("statements", pl.col(name)) for name in ("with_time", "with_user", "with_client")}
    return profile.coverage.select(
        *("path", "records", "rejected", "durations", "statements"),
        **{name: pl.when(pl.col(of) > 0).then(100 * part / pl.col(of)) for name, (of, part) in shares.items()},
        first_unknown="first_unknown",
    )


#: The first columns of a table of statements; the others follow.
_FIRST: Final = ("text", "statements", "total_s", "share_percent", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms")


def format_shown_statements(table: pl.DataFrame) -> pl.DataFrame:
    """Statements by fingerprint, the columns for readers first; the fingerprint as hexadecimal text."""
    hexadecimal = [None if value is None else f"{value:016x}" for value in table["fingerprint"]]
    names = pl.Series("fingerprint", hexadecimal, pl.String)
    shown = table.with_columns(names, pl.col(pl.Enum).cast(pl.String))
    first = [name for name in _FIRST if name in shown.columns]
    return shown.select(*first, *(name for name in shown.columns if name not in (*first, "fingerprint")), "fingerprint")


def format_shown_percentiles(profile: ServerProfile) -> pl.DataFrame:
    """Percentiles of statements with their intervals, in ms: one row per statement, its text first."""
    known = profile.percentiles.with_columns(pl.col(pl.Enum).cast(pl.String))
    rows = known.select("text", "sent_by", "n").unique(["text", "sent_by"], maintain_order=True)
    for (percentile,), part in known.group_by("percentile", maintain_order=True):
        name = f"p{percentile:g}_ms"
        named = {"estimate_ms": name, "low_ms": f"{name}_low", "high_ms": f"{name}_high"}
        columns = convert_us_to_ms(part.select("text", "sent_by", "estimate_us", "low_us", "high_us")).rename(named)
        rows = rows.join(columns, on=["text", "sent_by"], how="left", nulls_equal=True, maintain_order="left")
    return rows


def write_percentile_notes(profile: ServerProfile) -> list[str]:
    """Limits of the intervals of the percentiles, each remark once, and the reasons why some are missing."""
    remarks = profile.percentiles["warnings"].drop_nulls().str.split("; ").explode().unique(maintain_order=True)
    absent = profile.percentiles.filter(pl.col("low_us").is_null()).height
    general = [f"{remark[:1].upper()}{remark[1:]}." for remark in remarks if remark.startswith("one run:")]
    few = [f"{pluralize(absent, 'percentile')} of {profile.percentiles.height} have no interval: too few values."]
    return [*general, *(few if absent else [])]


#: Columns of statements that only the CSV file has: extremes in time, and identifiers for programs.
_FOR_PROGRAMS: Final[tuple[str, ...]] = ("min_ms", "first_time", "last_time", "fingerprint", "statement_kind")


def drop_technical_columns(table: pl.DataFrame) -> pl.DataFrame:
    """A table of statements without columns that readers do not compare: repeated counts, extremes in time.

    The number of timed statements is left out if all are timed, the number of failed ones if none failed.
    """
    others = table.columns[1:]
    dropped = [name for name in _FOR_PROGRAMS if name in others]
    if "timed" in others and (table["timed"] == table["statements"]).all():
        dropped.append("timed")
    if "failed" in others and not table["failed"].sum():
        dropped.append("failed")
    return table.drop(dropped)


def group_tables(profile: ServerProfile) -> dict[str, pl.DataFrame]:
    """Statements by kind, database, user ..., for the columns that have a value in the logs."""
    return {
        name: table.with_columns(pl.col(pl.Enum).cast(pl.String))
        for name, table in profile.by_group.items()
        if table[name].count()
    }


def write_distributed_notes(distributed: pl.DataFrame) -> list[str]:
    """Notes on parts that times of distributed statements leave out or contain, each once with its statements.

    Args:
        distributed: `statement_kind`, `executed`, `quantity`, `warning` and `note`.
    """
    said: dict[str, list[str]] = {}
    for row in distributed.iter_rows(named=True):
        # A warning about P repeats that about T, which contains P.
        warning = row["warning"] if row["quantity"] != "P" else None
        for text in (warning, row["note"]):
            if text:
                said.setdefault(text, []).append(f"{row['executed']} {str(row['statement_kind']).upper()}")
    about = {text: join_words(sorted(set(kinds))) for text, kinds in said.items()}
    return [f"{kinds[:1].upper()}{kinds[1:]}: {text}." for text, kinds in about.items()]


def tabulate_statement_ratios(comparison: ServerComparison) -> pl.DataFrame:
    """Compared statements with `name`, `ratio`, `low`, `high` and `verdict`, for a figure."""
    rows = comparison.statements.drop_nulls("verdict")
    names = [f"{number}. {_shorten_statement_text(text)[:40]}" for number, text in enumerate(rows["text"], 1)]
    return rows.with_columns(pl.Series("name", names, pl.String)).select("name", "ratio", "low", "high", "verdict")
