"""The limits of the throughput of each configuration: the matrix of resources, and a verdict in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from citus_analysis.bottleneck.balance import Balance, balance, balance_of_nodes, compute_node_loads, compute_shard_skew
from citus_analysis.bottleneck.limits import RunFacts, Verdict, judge, tabulate_limit_verdicts
from citus_analysis.bottleneck.machine_work import MACHINE_SAMPLES, find_shared_machines, name_machines
from citus_analysis.bottleneck.measurements import (
    AUTOVACUUM,
    ProgramShares,
    Thresholds,
    build_resource_matrix,
    describe_program_shares,
    log_errors,
    log_errors_measured,
    measure_checkpoints,
    measure_clients,
    measure_hosts,
    measure_sessions,
)
from citus_analysis.bottleneck.resources import sum_program_loads
from citus_analysis.bottleneck.run_factors import measure_run_factors
from citus_analysis.bottleneck.run_variance import RunVariance, run_variance
from citus_analysis.bottleneck.samples import NODE, add_configuration_columns, describe_unplaced_samples
from citus_analysis.bottleneck.variance import decompose_time_variance, find_separating_properties
from citus_analysis.bottleneck.waits import compute_session_waits, count_opened_sessions, select_client_sessions
from citus_analysis.bottleneck.witnesses import read_rows_of_witnesses, read_witness_tables
from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.frames import TableSource, convert_to_polars, scan_source_table
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import InsufficientDataError
from citus_analysis.runs.selection import USUAL_QUESTION, Question, check_known, matching, split_names
from citus_analysis.runs.set_ups import LOAD, add_operation_column, add_setup_descriptions
from citus_analysis.runs.status import list_included_statuses, write_used_run_notes
from citus_analysis.runs.windows import select_measured_rows
from citus_analysis.schema import TABLES
from citus_analysis.spans.unplaced_statements import describe_unplaced_statements
from citus_analysis.texts.words import pluralize

#: Columns that identify a configuration: a resource, which has one system and its settings, the set-up, size and load.
CONFIGURATION: Final = ("resource", "set_up", "workers", *LOAD)
_SAMPLES: Final = (
    *("cpu_samples", "device_samples", "vm_samples", "pressure_samples", "net_samples", "throttle_samples"),
    *("process_samples", "checkpoints", "settings", "nodes"),
    *("clients", "client_errors", "operation_latencies", "sources"),
)
#: Of `activity_samples`, which may be large.
ACTIVITY_COLUMNS: Final = (
    *("source_id", "resource", "run_id", "iteration", "node", "sample", "sample_time", "pid", "leader_pid"),
    *("backend_type", "state", "wait_event_type", "wait_event", "application", "gpid", "worker_query"),
    "backend_start",
)
_STATEMENTS: Final = (
    *("resource", "run_id", "node", "pid", "shard_id", "executed", "failed", "start_time", "end_time"),
    *("total_us", "wait_us", "child_us", "parse_us", "statement_kind"),
)
#: Of `log_events`, for the records of autovacuum.
AUTOVACUUM_COLUMNS: Final = ("resource", "iteration", "node", "log_time", "kind", "message")


_DURING_OTHER_WORK: Final = "all of this was measured while the machine did other work"


@dataclass(frozen=True, repr=False)
class BottleneckStudy(DisplayMixin):
    """The limit of each configuration, with the measurements that it is based on.

    Attributes:
        verdicts: one per configuration.
        matrix: per configuration, node, resource and aspect (utilisation, saturation, errors): the metric's mean over
            runs with its interval and source file, or the recording that is missing (`not_measured`).
        programs: result of :func:`citus_analysis.bottleneck.resources` for each configuration.
        waits: average active sessions by node, role and wait event, for each run.
        balance: client sessions over nodes for each configuration that has several nodes.
        node_loads: connections, statements, network and CPU of each node over time.
        node_balance: their means, shares and Jain's index, for each configuration with several nodes.
        shard_skew: executions over shards for each configuration with traced statements.
        variance: variance of T by its terms, for each configuration with exact traces.
        separators: properties that separate slow statements from the others.
        run_factors: factors that may have differed between the runs of a configuration, one row per run.
        run_variance: run-to-run variance by these factors; None if there are too few repeated runs.
        thresholds: the thresholds of the verdicts.
        warnings: limitations that a reader must know.
        n: number of runs.
        method: method of the verdicts.
    """

    verdicts: tuple[Verdict, ...]
    matrix: pl.DataFrame
    programs: pl.DataFrame
    waits: pl.DataFrame
    balance: pl.DataFrame
    node_loads: pl.DataFrame
    node_balance: pl.DataFrame
    shard_skew: pl.DataFrame
    variance: pl.DataFrame
    separators: pl.DataFrame
    run_factors: pl.DataFrame
    run_variance: RunVariance | None
    thresholds: Thresholds
    warnings: tuple[str, ...] = field(default=())
    n: int = 0
    method: str = "ordered rules over means of runs (citus_analysis.bottleneck.limits)"

    def summary_lines(self) -> list[str]:
        """One line per configuration, then the warnings."""
        first = f"Limits of {pluralize(len(self.verdicts), 'configuration')}, {pluralize(self.n, 'run')}"
        named = ([one.configuration.get(name) for name in ("resource", "operation")] for one in self.verdicts)
        words = (" ".join(str(value) for value in values if value is not None) for values in named)
        return [first, *(f"{text}: {one}" for text, one in zip(words, self.verdicts, strict=True)), *self.warnings]

    def summary_table(self) -> pl.DataFrame:
        """One row per configuration."""
        return self.to_polars()

    def to_polars(self) -> pl.DataFrame:
        """One row per configuration: limit, node, confidence, evidence, deciding measurements."""
        return tabulate_limit_verdicts(self.verdicts)


def study_bottleneck(
    dataset: TableSource,
    resources: str = "*",
    *,
    thresholds: Thresholds | Mapping[str, float] | None = None,
    level: float = LEVEL,
    include_status: str | Collection[str] = (),
) -> BottleneckStudy:
    """Determine the limit of the throughput of each configuration of a dataset.

    Failed and degraded runs are included, because a server that refuses connections makes runs fail; the factors of
    differences between runs are those of runs that are ok.

    Args:
        dataset: a dataset, or another source of its tables.
        resources: glob patterns, separated by commas.
        thresholds: values from which on a measurement is a sign of a limit; a mapping needs only the names that differ
            from the defaults.
        level: confidence level of the intervals over runs.
        include_status: `degraded` to include degraded runs in the factors as well.

    Raises:
        InsufficientDataError: there is no run.
        UnknownNameError: no run is of a resource that a pattern matches, or no threshold has a given name.
        UsageError: a threshold is out of its range.
    """
    limits = Thresholds.of(thresholds)
    question = Question(resources, include_status=split_names(include_status), level=level)
    runs, doubted = select_undisturbed_runs(read_configured_runs(dataset, resources), question)
    if runs.is_empty():
        raise InsufficientDataError("there is no run", hint="ingest the files of a load generator")
    tables = _read_resource_tables(dataset, resources)
    sessions = select_client_sessions(tables["activity_samples"], runs)
    errors, autovacuum = _read_logged_errors(dataset, runs)
    measured = _collect_measurements(tables, runs, sessions, errors)
    matrix = build_resource_matrix(measured, runs, CONFIGURATION, level, tables["sources"])
    programs = sum_program_loads(tables["process_samples"], runs, CONFIGURATION)
    splits = _compute_session_balances(sessions, tables["nodes"], runs)
    loads = compute_node_loads(tables, statements := _read_measured_statements(dataset, runs), runs)
    # Runs of which nothing says what they did repeat nothing.
    known = runs.drop_nulls("operation")
    witnesses = _read_witnesses(dataset)
    factors = measure_run_factors(
        known, measured, sessions, autovacuum, tables["settings"], CONFIGURATION, question, witnesses
    )
    return BottleneckStudy(
        verdicts=tuple(_determine_verdicts(matrix, programs, splits, runs, limits)),
        matrix=matrix,
        programs=programs,
        waits=compute_session_waits(sessions, tables["nodes"]),
        balance=_balance_frame(splits),
        node_loads=loads,
        node_balance=balance_of_nodes(loads, runs, CONFIGURATION),
        shard_skew=compute_shard_skew(statements, runs, CONFIGURATION),
        variance=decompose_time_variance(statements, runs, CONFIGURATION),
        separators=find_separating_properties(statements, tables["checkpoints"], runs, CONFIGURATION),
        run_factors=factors,
        run_variance=_run_variance(factors, level),
        thresholds=limits,
        warnings=(
            *doubted,
            *_write_study_warnings(matrix, sessions, statements),
            *_describe_unplaced(tables, runs),
            *_describe_included_runs(runs, question),
        ),
        n=runs.height,
    )


def _read_witnesses(dataset: TableSource) -> pl.DataFrame | None:
    """What was measured beside the runs; None where the runner's canary was not among it."""
    if convert_to_polars(dataset.table("canaries")).is_empty():
        return None
    return read_witness_tables(read_rows_of_witnesses(dataset))[0]


def _describe_included_runs(runs: pl.DataFrame, question: Question) -> list[str]:
    """Words on degraded runs in the factors; the limits are those of all runs."""
    statuses = list_included_statuses(question.include_status)
    return write_used_run_notes(runs.filter(pl.col("status").is_in(statuses))) if len(statuses) > 1 else []


def read_configured_runs(dataset: TableSource, resources: str = "*") -> pl.DataFrame:
    """All runs of the chosen resources, including failed ones, with the columns of :data:`CONFIGURATION`.

    Raises:
        UnknownNameError: no run is of a resource that a pattern matches.
    """
    everything = convert_to_polars(dataset.table("runs")).with_columns(pl.col("phase", "status").cast(pl.String))
    check_known(everything, resources)
    return add_setup_descriptions(
        add_operation_column(matching(everything, resources)), convert_to_polars(dataset.table("settings"))
    )


def select_undisturbed_runs(runs: pl.DataFrame, question: Question = USUAL_QUESTION) -> tuple[pl.DataFrame, list[str]]:
    """Runs without doubtful ones of configurations that have others, and words on those that are left out or kept.

    Args:
        runs: result of :func:`read_configured_runs`.
        question: its statuses; `doubtful` among them keeps all.
    """
    doubtful = pl.col("status") == "doubtful"
    number = runs.filter(doubtful).height
    if not number or "doubtful" in list_included_statuses(question.include_status):
        return runs, []
    kept = runs.filter(~doubtful | doubtful.all().over(CONFIGURATION))
    only = kept.filter(doubtful).select(CONFIGURATION).n_unique()
    them = f", except for those of {pluralize(only, 'configuration')} without other runs, whose evidence says so"
    was, is_ = ("was", "is") if number == 1 else ("were", "are")
    return kept, [
        f"{pluralize(number, 'run')} {was} made while the machine did other work (the resources page has the seconds) "
        f"and {is_} left out{them if only else ''}."
    ]


def _read_resource_tables(dataset: TableSource, resources: str) -> dict[str, pl.DataFrame]:
    activity = scan_source_table(dataset, "activity_samples").select(ACTIVITY_COLUMNS).collect()
    small = {name: convert_to_polars(dataset.table(name)) for name in _SAMPLES}
    tables = {name: matching(rows, resources) for name, rows in {**small, "activity_samples": activity}.items()}
    machines = find_shared_machines(tables["nodes"], tables["throttle_samples"], tables["process_samples"])
    return tables | {name: name_machines(tables[name], machines) for name in MACHINE_SAMPLES}


def _read_logged_errors(dataset: TableSource, runs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The result of :func:`log_errors` for logs of runs, and the records of autovacuum of all logs.

    Logs are large, and most have no such record, so only those that have some are read a second time.
    """
    events = scan_source_table(dataset, "log_events").filter(_make_resource_filter_expr(runs["resource"]))
    counts = log_errors(events)
    having = counts.filter(pl.col("what") == AUTOVACUUM)["resource"]
    if having.is_empty():
        records = TABLES["log_events"].empty().select(AUTOVACUUM_COLUMNS)
    else:
        own = events.filter(_make_resource_filter_expr(having) & (pl.col("kind") == AUTOVACUUM))
        records = own.select(AUTOVACUUM_COLUMNS).collect(engine="streaming")
    return counts.drop_nulls("run_id"), records


def _make_resource_filter_expr(resources: pl.Series) -> pl.Expr:
    return pl.col("resource").is_in(resources.unique().implode())


def _collect_measurements(
    tables: dict[str, pl.DataFrame], runs: pl.DataFrame, sessions: pl.DataFrame, errors: pl.DataFrame
) -> pl.DataFrame:
    parts = [
        *measure_hosts(tables, runs),
        *measure_sessions(sessions, tables["settings"]),
        *measure_checkpoints(tables["checkpoints"], runs, errors.unique([*NODE]), tables["settings"]),
        *log_errors_measured(errors),
        *measure_clients(runs, tables["clients"], tables["operation_latencies"], tables["client_errors"]),
    ]
    return pl.concat(parts)


def _read_measured_statements(dataset: TableSource, runs: pl.DataFrame) -> pl.DataFrame:
    rows = (
        scan_source_table(dataset, "statements")
        .filter(_make_resource_filter_expr(runs["resource"]))
        .select(_STATEMENTS)
        .collect()
    )
    return select_measured_rows(rows, runs).rows


def _run_variance(factors: pl.DataFrame, level: float) -> RunVariance | None:
    try:
        return run_variance(factors, CONFIGURATION, level=level)
    except InsufficientDataError:
        return None


def _compute_session_balances(
    sessions: pl.DataFrame, nodes: pl.DataFrame, runs: pl.DataFrame
) -> list[tuple[dict[str, object], Balance]]:
    """Client sessions over the nodes that have any, or over all nodes if only one has."""
    placed = add_configuration_columns(count_opened_sessions(sessions), runs, CONFIGURATION).sort(NODE)
    found = []
    for key, group in placed.group_by(CONFIGURATION, maintain_order=True):
        sums = group.group_by("node").agg(pl.col("opened").sum()).sort("node")
        counts = {str(node): int(opened) for node, opened in sums.iter_rows()}
        if len(counts) == 1:
            counts |= {node: 0 for node in _list_queryable_nodes(nodes, str(key[0])) if node not in counts}
        if len(counts) > 1:
            found.append((dict(zip(CONFIGURATION, key, strict=True)), balance(list(counts.values()), list(counts))))
    return found


def _list_queryable_nodes(nodes: pl.DataFrame, resource: str) -> list[str]:
    """Nodes that clients could query: all of a cluster with several workers, none of a cluster with one worker."""
    mine = nodes.filter(pl.col("resource") == resource).drop_nulls("node")
    workers = mine.filter(pl.col("groupid") != 0)["node"].n_unique()
    return [str(node) for node in mine["node"].unique().sort()] if workers > 1 else []


def _balance_frame(splits: list[tuple[dict[str, object], Balance]]) -> pl.DataFrame:
    rows = [
        {**key, "node": node, "sessions": count, "jain_index": one.jain, "p_value": one.p_value, "method": one.method}
        for key, one in splits
        for node, count in zip(one.nodes, one.counts, strict=True)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _determine_verdicts(
    matrix: pl.DataFrame,
    programs: pl.DataFrame,
    splits: list[tuple[dict[str, object], Balance]],
    runs: pl.DataFrame,
    limits: Thresholds,
) -> list[Verdict]:
    verdicts = []
    values = _partition_by_configuration(matrix.filter(pl.col("value").is_not_null()))
    loads = _partition_by_configuration(programs)
    for key, group in runs.group_by(CONFIGURATION, maintain_order=True):
        configuration = dict(zip(CONFIGURATION, key, strict=True))
        split = next((one for known, one in splits if known == configuration), None)
        shares = describe_program_shares(loads.get(key, programs.clear()))
        facts = _build_run_facts(values.get(key, matrix.clear()), group, split, shares)
        verdict = judge(facts, limits, configuration, group.height)
        if (group["status"] == "doubtful").all():
            verdict = replace(verdict, evidence=(*verdict.evidence, _DURING_OTHER_WORK))
        verdicts.append(verdict)
    return verdicts


def _partition_by_configuration(rows: pl.DataFrame) -> dict[tuple[object, ...], pl.DataFrame]:
    return rows.partition_by(CONFIGURATION, maintain_order=True, as_dict=True)


def _build_run_facts(
    values: pl.DataFrame, runs: pl.DataFrame, split: Balance | None, programs: ProgramShares
) -> RunFacts:
    # The largest value of all nodes; for the time between checkpoints, the smallest.
    smallest = pl.when(pl.col("unit") == "s").then(-pl.col("value")).otherwise("value")
    top = values.sort(smallest, descending=True).unique(["part", "metric"], keep="first", maintain_order=True)
    rows = list(top.select("part", "metric", "value", "node").iter_rows())
    reached = (runs["throughput_ops_s"] / runs["target_ops_s"]).min()
    missing = (runs["threads"] - runs["connected_threads"]).max()
    return RunFacts(
        values={(part, metric): value for part, metric, value, _ in rows},
        nodes={(part, metric): node for part, metric, _, node in rows},
        balance=split,
        rate_limited=bool(runs["rate_limited"].fill_null(value=False).all()),
        reached_share=float(reached) if isinstance(reached, float) else None,
        missing_threads=max(0, int(missing)) if isinstance(missing, int) else 0,
        programs=programs,
    )


def _write_study_warnings(matrix: pl.DataFrame, sessions: pl.DataFrame, statements: pl.DataFrame) -> list[str]:
    stopped = matrix.filter((pl.col("metric") == "periods stopped by a quota") & (pl.col("part") == "CPU"))
    warnings = describe_unplaced_statements(statements.lazy())
    if sessions.is_empty():
        warnings.append("No snapshots of sessions: waits are not known (the runner records them, samplers.activity).")
    if stopped.filter(pl.col("value") > 0).height and not sessions.is_empty():
        warnings.append(
            "A quota stopped servers together with the session that takes the snapshots: they show the servers only "
            "while they run, so shares of session time are biased towards waiting for the client."
        )
    return warnings


def _describe_unplaced(tables: Mapping[str, pl.DataFrame], runs: pl.DataFrame) -> list[str]:
    """Samples that enter no mean. Those of CPUs and devices without a time do, if their file names its run."""
    placed = pl.col("sample_time").is_null() & pl.col("run_id").is_not_null()
    used = {name: tables[name].filter(~placed) for name in ("cpu_samples", "device_samples")}
    return describe_unplaced_samples({**tables, **used}, runs)
