"""Audit tables of results and runs for contradictions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final, TypeAlias, cast

import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.published.checks import CHECKS, UNREAD, Finding, find_unread_columns
from citus_analysis.published.collections import COLLECTION_CHECKS, GAPS, is_of_collection, judge_collections
from citus_analysis.published.reconciliation import RECONCILED, read_runs, reconcile
from citus_analysis.published.rows import group_result_tables
from citus_analysis.published.run_checks import DOUBTFUL_SCHEMA, RUN_CHECKS, RunTables
from citus_analysis.published.tables import parse_published_frame, published, read_published
from citus_analysis.schema import TABLES

_FINDINGS: Final = TABLES["findings"]
_OF_RUNS: Final = ("runs", "clients", "operation_latencies", "client_series", "client_metrics")


@dataclass(frozen=True, repr=False)
class AuditResult(DisplayMixin):
    """The findings of an audit.

    Attributes:
        findings: frame of ``schema.TABLES["findings"]``, red first, short enough for the top of a report.
        details: every single finding, including those that `findings` counts in one row.

    Printing it shows the number of table rows, or runs, for each severity.
    """

    findings: pl.DataFrame
    details: pl.DataFrame

    @property
    def has_red(self) -> bool:
        """Whether there is a contradiction; the command line then exits with 1."""
        return self.count("red") > 0

    def count(self, severity: str) -> int:
        """Rows of tables, runs and configurations that have findings of one severity."""
        return convert_to_polars(self.details).filter(severity=severity).n_unique(["source", "table", "row"])

    def checks(self, severity: str) -> int:
        """Checks that have findings of one severity."""
        return convert_to_polars(self.details).filter(severity=severity)["check"].n_unique()

    @property
    def verdict(self) -> str:
        """The worst severity of all findings; `green` if there is none."""
        return next((severity for severity in ("red", "amber") if self.count(severity)), "green")

    def summary_lines(self) -> list[str]:
        """The number of findings by severity."""
        return [f"{self.count('red')} red, {self.count('amber')} amber, {self.count('green')} green"]

    def summary_table(self) -> pl.DataFrame:
        """The findings, red first."""
        return convert_to_polars(self.findings)


Audited: TypeAlias = "str | PathLike[str] | Frame"


@return_callers_frame_kind
def audit(tables: Audited | Sequence[Audited] | None = None, runs: Audited | None = None) -> AuditResult:
    """Check tables of results for contradictions.

    Rows that agree are one green finding per check and table.

    Args:
        tables: one or several files of results (see :func:`read_published`), or polars, pandas or Arrow frames of
            the same shapes; documents of public collections (results of ClickBench, job reports of HammerDB), of which
            the audit says which gaps between systems their own repeats decide; None audits the published tables that
            ship with the library.
        runs: single runs behind the tables (a CSV file or a frame such as the table `runs`): each row is reconciled
            with the runs of its settings (:mod:`citus_analysis.published.reconciliation`).

    Raises:
        PublishedDataError: a file is malformed, or no column of `runs` has measured values; no document of a
            collection could be read.

    Example:
        >>> result = audit()
        >>> result.has_red
        True
        >>> result.findings.filter(check="copied_sigma")["table"].to_list()
        ['5.6']
        >>> print(audit(pl.DataFrame({"clients": [64], "tps": [9000], "latency (µs)": [9300]})).findings["check"][0])
        littles_law
    """
    given = _list_audited_tables(tables)
    documents = [Path(one) for one in given if isinstance(one, str | PathLike) and is_of_collection(Path(one))]
    judged, numbers_of_results = judge_collections(documents)
    tabled = _combine_numbers(
        [one for one in given if not isinstance(one, str | PathLike) or Path(one) not in documents]
    )
    numbers = published() if tables is None else pl.concat([tabled, numbers_of_results])
    parts = group_result_tables(numbers)
    reconciled = reconcile(parts, read_runs(runs)) if runs is not None else ()
    checked = [found for check in CHECKS.values() for found in check.run(parts)]
    details = _make_findings_frame([*judged, *reconciled, *checked, *find_unread_columns(numbers, parts)])
    several = (pl.col("severity") == "green") & (pl.col("check") != GAPS)
    counted = _group_findings(details.filter(several), ["severity", "check", "source", "table"], "the first")
    order = [*COLLECTION_CHECKS, *RECONCILED, *CHECKS, UNREAD]
    return AuditResult(_sort_by_severity(details.remove(several), counted, order=order), details)


@return_callers_frame_kind
def audit_runs(
    runs: Frame,
    clients: Frame | None = None,
    operation_latencies: Frame | None = None,
    client_series: Frame | None = None,
    client_metrics: Frame | None = None,
    doubtful_samples: Frame | None = None,
) -> AuditResult:
    """Check runs for contradictions, as :func:`audit` checks tables; every report begins with the result.

    Args:
        runs: the table `runs`.
        clients: the table `clients`, to check that load generators add up and which runs were throttled.
        operation_latencies: the table of that name, for Little's law and the order of percentiles.
        client_series: the table of that name, to check that series integrate to totals.
        client_metrics: the table of that name, to check that the names of percentiles are right.
        doubtful_samples: samples whose values cannot be, as :func:`doubtful_samples` finds them.

    Returns:
        Findings whose `source` is the resource and whose `row` is the run or the configuration. Findings of one check
        that are not red are combined into one row per severity, which states the worst of them and their number.

    Example:
        >>> runs = pl.DataFrame({
        ...     "run_id": ["a"], "resource": ["w2"], "phase": ["load"], "workload": ["A"], "threads": [16],
        ...     "throughput_ops_s": [4000.0], "runtime_ms": [15000.0], "operations_done": [90000], "status": ["ok"],
        ... })
        >>> audit_runs(runs).findings.select("severity", "check", "expected", "stated").row(0)
        ('red', 'throughput_identity', '90,000 operations', '4,000 operations/s × 15 s = 60,000')
    """
    given = zip(_OF_RUNS, (runs, clients, operation_latencies, client_series, client_metrics), strict=True)
    doubtful = DOUBTFUL_SCHEMA.to_frame() if doubtful_samples is None else convert_to_polars(doubtful_samples)
    tables = RunTables(**{name: _conform_given_table(name, frame) for name, frame in given}, doubtful_samples=doubtful)
    found = [(name, *one) for name, run_check in RUN_CHECKS.items() for one in run_check(tables)]
    details = _make_findings_frame([one._replace(check=name) for name, one, _ in found])
    worst_first = details.with_columns(weight=pl.Series([weight for *_, weight in found], dtype=pl.Float64)).sort(
        "weight", descending=True, maintain_order=True
    )
    counted = _group_findings(worst_first.filter(pl.col("severity") != "red"), ["severity", "check"], "the worst")
    return AuditResult(_sort_by_severity(details.filter(severity="red"), counted, order=RUN_CHECKS), details)


def _make_findings_frame(findings: Sequence[Finding]) -> pl.DataFrame:
    return pl.DataFrame(findings, schema=_FINDINGS.polars_schema(), orient="row")


def _group_findings(findings: pl.DataFrame, by: Sequence[str], first: str) -> pl.DataFrame:
    """One row per group: its first finding, and in `row` their number."""
    several = pl.len() > 1
    counted = pl.format("{} ({} of {})", pl.col("row").first(), pl.lit(first), pl.len())
    names = _FINDINGS.names()
    rest = [pl.col(name).first() for name in names if name not in by and name != "row"]
    row = pl.when(several).then(counted).otherwise(pl.col("row").first()).alias("row")
    return findings.group_by(by, maintain_order=True).agg(*rest, row).select(names)


def _sort_by_severity(*parts: pl.DataFrame, order: Iterable[str]) -> pl.DataFrame:
    """Red first, then amber, then green; within a severity in the order of the checks."""
    ranks = {name: rank for rank, name in enumerate(order)}
    return pl.concat(parts).sort(
        pl.col("severity").to_physical(),
        -pl.col("check").replace_strict(ranks, return_dtype=pl.Int32),
        descending=True,
        maintain_order=True,
    )


def _list_audited_tables(tables: Audited | Sequence[Audited] | None) -> Sequence[Audited]:
    if tables is None:
        return ()
    return tables if isinstance(tables, list | tuple) else [cast("Audited", tables)]


def _combine_numbers(given: Sequence[Audited]) -> pl.DataFrame:
    frames = [
        _load_one_table(table, "frame" if len(given) == 1 else f"frame {i}") for i, table in enumerate(given, start=1)
    ]
    return pl.concat([TABLES["published"].empty(), *frames])


def _load_one_table(table: Audited, name: str) -> pl.DataFrame:
    return read_published(table) if isinstance(table, str | PathLike) else parse_published_frame(table, name)


def _conform_given_table(name: str, frame: Frame | None) -> pl.DataFrame:
    if frame is None:
        return TABLES[name].empty()
    given = convert_to_polars(frame)
    return TABLES[name].conform(given.select(column for column in given.columns if column in TABLES[name]))
