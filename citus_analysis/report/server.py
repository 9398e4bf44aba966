"""The server report: what the logs of servers state, in words and tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import polars as pl

from citus_analysis.report.sentences import (
    compute_mean_time_parts,
    describe_joint_adjustment,
    format_decided_ratio,
    format_time_shares,
)
from citus_analysis.runs.selection import Question
from citus_analysis.serverlogs.comparison import ServerComparison, compare_servers
from citus_analysis.serverlogs.profile import ServerProfile, describe_unread_logs, server_profile
from citus_analysis.serverlogs.statements import CLIENT, NODE
from citus_analysis.serverlogs.windows import LogSource
from citus_analysis.spans.profile import convert_us_to_ms
from citus_analysis.stats.findings import (
    FindingNumber,
    ReportFinding,
    state,
)
from citus_analysis.texts.numbers import format_number
from citus_analysis.texts.words import choose_noun_form, join_words, pluralize
from citus_analysis.units import US_PER_MS, US_PER_S

#: Characters of a statement in a sentence.
_MOST_CHARACTERS: Final = 90
#: Fewest counts of 0 that share a row.
_FEW_COUNTS: Final = 2


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
#: Kind of finding -> its words. Parts of sentences have the name of the sentence and their own.
TEMPLATES: Final = {
    "severe": "The servers report {kinds}.",
    "severe: each": "{what} ({records}{state})",
    "extent": "{records} of {logs}{times} report {statements}.",
    "extent: times": ", from {begin} to {end} UTC,",
    "extent: each": "{statements} sent by {sender} ({total})",
    "extent: none": "no statements",
    "extent: total": "{seconds} s in total",
    "extent: untimed": "without durations",
    "largest": "The largest total time, {share:.0f} %, is that of {statement} ({executions}, mean {mean} ms).",
    "no durations": "The logs report no duration of a statement.",
    "no durations read": "No duration of a statement was read; not understood: {unread}.",
    "longest": "The longest single statement took {seconds} s{end}: {statement}.",
    "longest: end": " and ended at {time} UTC",
    "problems": "Problems logged: {severities}; the most frequent message is “{message}” ({times}).",
    "no problems": "No record of severity WARNING or worse was logged.",
    "no problems read": "No record of severity WARNING or worse was read; not understood: {unread}.",
    "events": "The servers logged {events}; other events may have occurred that they are not configured to log.",
    "remote": "In all logs together, {statements} took {mean} ms on average, whatever their configuration and the "
    "state of their session: {shares}.",
    "changes": "Verdicts on the mean duration of {statements} against the base ({base}): {verdicts}{joint}; {window} "
    "occur in the window only and {only_base} in the base only.",
    "no changes": "No statement has enough durations in both windows to be compared.",
    "change": "{statement}: {verdict}, ratio of mean durations {ratio}.",
    "unknown text": "a statement whose text is not available",
    "no intervals": "{percentiles} of {every} have no interval: too few values.",
    "left out": "{kinds}: {note}.",
}


def state_servers(profile: ServerProfile, comparison: ServerComparison | None = None) -> list[ReportFinding]:
    """Extent of the logs, the statements that take the most time, errors, and the servers' other reports."""
    found = [
        *_state_severe_records(profile),
        _state_log_extent(profile),
        _state_largest_statement(profile),
        *_state_longest_statement(profile),
        _state_problems(profile),
        _state_events(profile),
    ]
    extra = state_statement_changes(comparison)[:1] if comparison is not None else _state_remote_time_shares(profile)
    return [*found[: 6 - len(extra)], *extra]


def state_statement_changes(comparison: ServerComparison) -> list[ReportFinding]:
    """The number of comparisons by verdict, then a sentence for each that is decided."""
    if not comparison.n:
        return [state(TEMPLATES, "no changes")]
    texts = {tuple(row[:3]): row[3] for row in comparison.statements.select(*_KEYS, "text").iter_rows()}
    named = [
        (replace(one, label_a=text, label_b=comparison.label_base), text)
        for one in comparison.comparisons
        for text in (_shorten_statement_text(texts[tuple(one.stratum[name] for name in _KEYS)]),)
    ]
    counts = Counter(one.verdict for one, _ in named).most_common()
    first = state(
        TEMPLATES,
        "changes",
        [one for one, _ in named],
        statements=pluralize(comparison.n, "statement"),
        base=comparison.label_base,
        verdicts=join_words([f"{verdict} ({number})" for verdict, number in counts]),
        joint=f" ({text})" if (text := describe_joint_adjustment(comparison.comparisons)) else "",
        window=comparison.only_tested.height,
        only_base=comparison.only_base.height,
    )
    decided = [
        state(TEMPLATES, "change", [one], statement=text, verdict=one.verdict, ratio=format_decided_ratio(one))
        for one, text in named
        if one.verdict != "inconclusive"
    ]
    return [first, *decided]


_KEYS: Final = ("sent_by", "statement_kind", "fingerprint")


def _shorten_statement_text(text: str | None) -> str:
    if text is None:
        return TEMPLATES["unknown text"]
    plain = " ".join(text.split()).rstrip("; ")
    return plain if len(plain) <= _MOST_CHARACTERS else f"{plain[: _MOST_CHARACTERS - 1]}…"


def _format_log_time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}"


def _state_severe_records(profile: ServerProfile) -> list[ReportFinding]:
    """What endangered the servers or refused their service, the worst first."""
    kinds = [
        TEMPLATES["severe: each"].format(
            what=_SEVERE_WORDS[kind],
            records=pluralize(records, "record"),
            state=f", SQLSTATE {sqlstate}" if sqlstate else "",
        )
        for kind, sqlstate, records in profile.severe.select("kind", "sqlstate", "records").iter_rows()
    ]
    return [state(TEMPLATES, "severe", kinds=join_words(kinds))] if kinds else []


def _state_log_extent(profile: ServerProfile) -> ReportFinding:
    begin, end = profile.begin, profile.end
    times = {"begin": _format_log_time(begin), "end": _format_log_time(end)} if begin and end else {}
    parts = [
        TEMPLATES["extent: each"].format(
            statements=pluralize(part.height, "statement"),
            sender="clients" if sent_by == CLIENT else "other nodes",
            total=_format_total(part["duration_us"]),
        )
        for sent_by in (CLIENT, NODE)
        if (part := profile.statements.filter(pl.col("sent_by") == sent_by)).height
    ]
    return state(
        TEMPLATES,
        "extent",
        records=pluralize(profile.n, "record"),
        logs=pluralize(profile.sources.height, "server log"),
        times=TEMPLATES["extent: times"].format_map(times) if times else "",
        statements=join_words(parts) if parts else TEMPLATES["extent: none"],
    )


def _format_total(durations_us: pl.Series) -> str:
    if durations_us.null_count() == durations_us.len():
        return TEMPLATES["extent: untimed"]
    return TEMPLATES["extent: total"].format(seconds=format_number(float(durations_us.sum()) / US_PER_S))


def _state_largest_statement(profile: ServerProfile) -> ReportFinding:
    timed = profile.by_fingerprint.filter(pl.col("timed") > 0)
    if timed.is_empty():
        return _state_absence("no durations", describe_unread_logs(profile.coverage, of_durations=True))
    top = timed.row(0, named=True)
    text = _shorten_statement_text(top["text"])
    return state(
        TEMPLATES,
        "largest",
        [FindingNumber(text, estimate=top["share_percent"])],
        share=top["share_percent"],
        statement=text,
        executions=pluralize(top["timed"], "execution"),
        mean=format_number(top["mean_ms"]),
    )


def _state_absence(kind: str, unread: str | None) -> ReportFinding:
    """That the logs contain nothing of a kind or, where not all of them was understood, that it was not read."""
    return state(TEMPLATES, kind) if unread is None else state(TEMPLATES, f"{kind} read", unread=unread)


def _state_longest_statement(profile: ServerProfile) -> list[ReportFinding]:
    if profile.slowest.is_empty():
        return []
    top = profile.slowest.row(0, named=True)
    text, seconds = _shorten_statement_text(top["text"]), top["duration_us"] / US_PER_S
    ended = top["end_time"]
    return [
        state(
            TEMPLATES,
            "longest",
            [FindingNumber(text, estimate=seconds)],
            seconds=format_number(seconds),
            end=TEMPLATES["longest: end"].format(time=_format_log_time(ended)) if ended else "",
            statement=text,
        )
    ]


def _state_problems(profile: ServerProfile) -> ReportFinding:
    if profile.error_groups.is_empty():
        return _state_absence("no problems", describe_unread_logs(profile.coverage))
    counts = Counter(profile.errors["severity"])
    severities = [name for name in ("PANIC", "FATAL", "ERROR", "WARNING") if counts[name]]
    top = profile.error_groups.row(0, named=True)
    return state(
        TEMPLATES,
        "problems",
        [FindingNumber(name, estimate=counts[name]) for name in severities],
        severities=join_words([f"{counts[name]} {name}" for name in severities]),
        message=_shorten_statement_text(top["normalised"]),
        times=pluralize(top["count"], "time"),
    )


def _state_events(profile: ServerProfile) -> ReportFinding:
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
    denied = [f"no {join_words(none, word='or')}"] if none else []
    events = ", but ".join([*([join_words(some)] if some else []), *denied])
    return state(TEMPLATES, "events", [FindingNumber(what, estimate=counts[what]) for what in nouns], events=events)


def _state_remote_time_shares(profile: ServerProfile) -> list[ReportFinding]:
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
    number, mean_ms = int(rows.filter(pl.col("quantity") == "T")["n"][0]), means["T"] / US_PER_MS
    what = f"remote {kind.upper()}"
    return [
        state(
            TEMPLATES,
            "remote",
            [FindingNumber(what, estimate=mean_ms)],
            statements=pluralize(number, what),
            mean=format_number(mean_ms),
            shares=format_time_shares(means),
        )
    ]


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


#: The columns of changes of plans that the page shows; the file has all.
_SHOWN_OF_PLANS: Final = (
    *("statement", "node", "last_old", "first_new", "before", "after", "old_ms", "new_ms", "ratio", "low", "high"),
    *("old_cost", "new_cost", "old_executions", "new_executions", "in_tasks_of", "stayed_on"),
)


def select_shown_plan_changes(changes: pl.DataFrame) -> pl.DataFrame:
    """Changes of plans for readers.

    Args:
        changes: `PlanHistory.changes` of :func:`citus_analysis.plans.plan_changes`.
    """
    return changes.select(_SHOWN_OF_PLANS)


#: The first columns of a table of statements; the others follow.
_FIRST: Final = ("text", "statements", "total_s", "share_percent", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms")


def format_shown_statements(table: pl.DataFrame) -> pl.DataFrame:
    """Statements by fingerprint, the columns for readers first; the fingerprint as hexadecimal text."""
    hexadecimal = [None if value is None else f"{value:016x}" for value in table["fingerprint"]]
    names = pl.Series("fingerprint", hexadecimal, pl.String)
    shown = table.with_columns(names, pl.col(pl.Enum).cast(pl.String))
    first = [name for name in _FIRST if name in shown.columns]
    return shown.select(*first, *(name for name in shown.columns if name not in (*first, "fingerprint")), "fingerprint")


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


@dataclass(frozen=True)
class ServerReport:
    """What the page of the servers shows.

    Attributes:
        profile: the servers in the window.
        comparison: their statements against those of the base; None if the page has no base.
    """

    profile: ServerProfile
    comparison: ServerComparison | None = None

    @property
    def findings(self) -> list[ReportFinding]:
        """What the page begins with."""
        return state_servers(self.profile, self.comparison)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Limits of all numbers of the page."""
        return self.profile.warnings

    @property
    def changes(self) -> list[ReportFinding]:
        """Statements whose mean duration differs from that of the base; none without a base."""
        return [] if self.comparison is None else state_statement_changes(self.comparison)

    @property
    def percentile_notes(self) -> list[str]:
        """Limits of the intervals of percentiles, each remark once, and the reasons why some are missing."""
        found = self.profile.percentiles
        remarks = found["warnings"].drop_nulls().str.split("; ").explode().unique(maintain_order=True)
        absent = found.filter(pl.col("low_us").is_null()).height
        general = [f"{remark[:1].upper()}{remark[1:]}." for remark in remarks if remark.startswith("one run:")]
        few = {"percentiles": pluralize(absent, "percentile"), "every": found.height}
        return [*general, *([TEMPLATES["no intervals"].format_map(few)] if absent else [])]

    @property
    def distributed_notes(self) -> list[str]:
        """What times of distributed statements leave out or contain, each note once with its statements."""
        said: dict[str, list[str]] = {}
        for row in self.profile.distributed.iter_rows(named=True):
            # A warning about P repeats that about T, which contains P.
            warning = row["warning"] if row["quantity"] != "P" else None
            for text in (warning, row["note"]):
                if text:
                    said.setdefault(text, []).append(f"{row['executed']} {str(row['statement_kind']).upper()}")
        about = {text: join_words(sorted(set(kinds))) for text, kinds in said.items()}
        template = TEMPLATES["left out"]
        return [template.format(kinds=f"{kinds[:1].upper()}{kinds[1:]}", note=text) for text, kinds in about.items()]

    def coverage_table(self) -> pl.DataFrame:
        """What was understood of each log."""
        return tabulate_coverage(self.profile)

    def statements_table(self) -> pl.DataFrame:
        """Statements by fingerprint, those with the largest total time first."""
        return format_shown_statements(self.profile.by_fingerprint)

    def percentiles_table(self) -> pl.DataFrame:
        """Percentiles of statements with their intervals, in ms: one row per statement, its text first."""
        known = self.profile.percentiles.with_columns(pl.col(pl.Enum).cast(pl.String))
        rows = known.select("text", "sent_by", "n").unique(["text", "sent_by"], maintain_order=True)
        for (percentile,), part in known.group_by("percentile", maintain_order=True):
            name = f"p{percentile:g}_ms"
            named = {"estimate_ms": name, "low_ms": f"{name}_low", "high_ms": f"{name}_high"}
            columns = convert_us_to_ms(part.select("text", "sent_by", "estimate_us", "low_us", "high_us")).rename(named)
            rows = rows.join(columns, on=["text", "sent_by"], how="left", nulls_equal=True, maintain_order="left")
        return rows

    def group_tables(self) -> dict[str, pl.DataFrame]:
        """Statements by kind, database, user ..."""
        return group_tables(self.profile)

    def ratios_table(self) -> pl.DataFrame:
        """Mean durations of statements over those of the base, for a figure; empty without a base."""
        if self.comparison is None:
            return pl.DataFrame()
        rows = self.comparison.statements.drop_nulls("verdict")
        names = [f"{number}. {_shorten_statement_text(text)[:40]}" for number, text in enumerate(rows["text"], 1)]
        return rows.with_columns(pl.Series("name", names, pl.String)).select("name", "ratio", "low", "high", "verdict")


def study_servers(
    dataset: LogSource,
    question: Question,
    *,
    logs: str = "*",
    since: str = "",
    until: str = "",
    interval_s: int = 0,
    base_resources: str = "",
    base_logs: str = "",
    base_since: str = "",
    base_until: str = "",
    statements: int = 50,
    longest: int = 20,
) -> ServerReport:
    r"""Profile servers from their logs as the page of the servers shows it, against a base if one is named.

    Args:
        dataset: a dataset with server logs.
        question: the resources that enter, level and margin.
        logs: glob patterns of the logs' paths, separated by commas.
        since: ISO 8601, UTC if it names no zone; empty: from the beginning.
        until: likewise; empty: to the end.
        interval_s: length of the intervals over time; 0: chosen by the time covered.
        base_resources: resources of the base; empty: the same. Without any of the base's arguments there is no base.
        base_logs: logs of the base; empty: the same.
        base_since: the base's records from this time on.
        base_until: the base's records before this time.
        statements: number of statements whose text is read back from the logs.
        longest: number of single statements that are listed.

    Raises:
        UsageError: a time or an interval is wrong.
        UnknownNameError: a pattern matches nothing.
        InsufficientDataError: no record is in the window.

    Example:
        >>> import citus_analysis as ca
        >>> found = study_servers(ca.open_dataset("dataset"), ca.runs.Question())  # doctest: +SKIP
        >>> print(*found.findings, sep="\n")  # doctest: +SKIP
    """
    resources, level = question.resources, question.level
    profile = server_profile(
        dataset,
        since=since,
        until=until,
        resources=resources,
        logs=logs,
        interval_s=interval_s,
        texts=statements,
        longest=longest,
        level=level,
    )
    if not (base_resources or base_logs or base_since or base_until):
        return ServerReport(profile)
    base = server_profile(
        dataset, since=base_since, until=base_until, resources=base_resources or resources, logs=base_logs or logs
    )
    return ServerReport(profile, compare_servers(profile, base, level=level, margin=question.margin))
