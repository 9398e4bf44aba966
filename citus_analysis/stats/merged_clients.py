"""Merging of several load generators into one run: sums, extremes, means, and numbers that cannot be merged.

:data:`MERGE_RULES` is the table of the rules. :func:`derive_runs` and :func:`derive_operation_latencies` apply it to
the tables `clients`, `client_metrics` and `client_histogram`.

Example:
    >>> import polars as pl
    >>> drivers = pl.DataFrame({
    ...     "run_id": ["r", "r"], "throughput_ops_s": [100.0, 120.0], "runtime_ms": [5000.0, 5200.0],
    ...     "operations": [500, 600], "mean_us": [10.0, 21.0], "p99_us": [40.0, 50.0],
    ... })
    >>> merge_clients(drivers, by=["run_id"]).row(0)
    ('r', 220.0, 5200.0, 1100, 16.0, None)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import polars as pl
import polars.selectors as cs

from citus_analysis.core.frames import Frame, convert_to_polars
from citus_analysis.formats.parsing.registry import collect_summary_measures
from citus_analysis.operations import SAMPLED_PERCENTILES, is_of_workload
from citus_analysis.runs.status import add_run_status
from citus_analysis.schema import TABLES
from citus_analysis.stats.percentiles import compute_histogram_percentiles, find_overlapping_buckets
from citus_analysis.units import SECONDS_PER_UNIT, US_PER_S

Rule = Literal["sum", "min", "max", "all", "any", "each", "mean", "never"]

#: Column -> rule by which the load generators of one run are merged. `sum`: null if one summand is unknown; `min`,
#: `max`: of the known values; `all`, `any`: whether true for all, for any; `each`: the different texts, joined; `mean`:
#: weighted by `operations` if there are several clients; `never`: kept for one client, null for several.
_COLUMNS_BY_RULE: Final[dict[Rule, tuple[str, ...]]] = {
    "sum": (
        *("throughput_ops_s", "threads", "connected_threads", "operations", "operations_planned", "operations_done"),
        *("failed_operations", "reported_errors", "new_orders_per_min", "target_ops_s"),
    ),
    "min": ("start_time", "min_us"),
    "max": ("end_time", "max_us", "runtime_ms", "failed_share", "scale_factor"),
    "all": ("completed",),
    "any": ("rate_limited",),
    "each": ("notes", "tool", "script", "query_mode"),
    "mean": ("mean_us", "lag_us"),
    "never": ("p50_us", "p90_us", "p95_us", "p99_us", "p999_us"),
}
MERGE_RULES: Final = {name: rule for rule, names in _COLUMNS_BY_RULE.items() for name in names}

_RUN: Final = ("run_id", "resource")
_OUTPUT: Final = (*_RUN, "role", "part")
#: Tool that says only on standard error that its run was aborted; the others print no summary then.
_ABORTS: Final = "pgbench"
_OPERATION: Final = (*_RUN, "iteration", "role", "section")
_CLIENT: Final = ("source_id", "part")
_QUANTILES: Final = {"p50_us": 0.5, "p90_us": 0.9, "p95_us": 0.95, "p99_us": 0.99, "p999_us": 0.999}

_US_PER_UNIT: Final = {unit: seconds * US_PER_S for unit, seconds in SECONDS_PER_UNIT.items()}


def merge_clients(frame: Frame, by: Sequence[str]) -> pl.DataFrame:
    """One row per group, its load generators merged by :data:`MERGE_RULES`.

    Args:
        frame: one row per load generator, as a polars, pandas or Arrow table; `mean_us` needs a column
            `operations` as weight.
        by: columns that name a group.

    Returns:
        The `by` columns and the columns of the frame that have a rule, in the frame's order.
    """
    table = convert_to_polars(frame)
    ruled = [name for name in table.columns if name in MERGE_RULES and name not in by]
    return table.group_by(by, maintain_order=True).agg(_make_merged_expr(name) for name in ruled)


def _make_merged_expr(name: str) -> pl.Expr:
    column, weight = pl.col(name), pl.col("operations")
    known, texts = column.is_not_null() & (weight > 0), column.drop_nulls().unique().sort()
    of_one = pl.when(pl.len() == 1).then(column.first())
    by_rule: dict[Rule, pl.Expr] = {
        "sum": pl.when(~column.has_nulls()).then(column.sum()),
        "min": column.min(),
        "max": column.max(),
        "all": column.fill_null(value=False).all(),
        "any": column.fill_null(value=False).any(),
        "each": pl.when(texts.len() > 0).then(texts.str.join(" + ")),
        # The mean of a single client needs no weight, and some do not state one.
        "mean": of_one.otherwise(((column * weight).filter(known).sum() / weight.filter(known).sum()).fill_nan(None)),
        "never": of_one,
    }
    return by_rule[MERGE_RULES[name]].alias(name)


def merge_standard_errors(clients: pl.DataFrame, errors: Sequence[str]) -> pl.DataFrame:
    """Clients with one row for each load generator whose standard error was kept in a file of its own.

    What the standard output lacks, such as the times of status lines, comes from the standard error.

    Args:
        clients: the table `clients`.
        errors: `source_id` of files of standard error. One without a standard output beside it stays a client.

    Example:
        >>> facts = {"run_id": "r", "resource": "s", "role": "main", "part": None, "tool": "pgbench"}
        >>> output = {**facts, "source_id": "a", "threads": 4, "completed": True, "rate_limited": False}
        >>> error = {**facts, "source_id": "b", "threads": None, "completed": None, "rate_limited": False}
        >>> times = [{"start_time": None}, {"start_time": 7}]
        >>> rows = pl.DataFrame([one | time for one, time in zip([output, error], times)])
        >>> merge_standard_errors(rows, ["b"]).select("source_id", "threads", "completed", "start_time").rows()
        [('a', 4, True, 7)]
    """
    of_errors = pl.col("source_id").is_in(list(errors))
    outputs, found = clients.filter(~of_errors), clients.filter(of_errors)
    if found.is_empty():
        return clients
    alone = found.join(outputs, on=_OUTPUT, how="anti", nulls_equal=True)
    first = found.unique(_OUTPUT, keep="first", maintain_order=True)
    joined = outputs.join(first, on=_OUTPUT, how="left", nulls_equal=True, maintain_order="left", suffix="_error")
    aborted = (pl.col("tool_error") == _ABORTS) & ~pl.col("completed_error")
    values = [name for name in clients.columns if name not in (*_OUTPUT, "completed", "rate_limited")]
    whole = joined.with_columns(
        *(pl.coalesce(name, f"{name}_error").alias(name) for name in values),
        completed=pl.col("completed") & ~aborted.fill_null(value=False),
        rate_limited=pl.col("rate_limited") | pl.col("rate_limited_error").fill_null(value=False),
    )
    return pl.concat([whole.select(clients.columns), alone])


def derive_runs(clients: pl.DataFrame, run_identity: pl.DataFrame) -> pl.DataFrame:
    """The table `runs`: one row per run, its load generators merged, with a status and the reason for it.

    The status is that of :func:`citus_analysis.runs.status.add_run_status`. The measured window is the time in which
    all main clients ran: from the latest first status line to the earliest last one.

    Args:
        clients: the table `clients` with its identity columns; rows without a run_id are ignored.
        run_identity: one row per run with `run_id`, `resource`, `system`, `phase`, `workload`, `threads`,
            `records`, `operations`, `iteration`, `workers` and `drivers` (and `set_up`, if it is stated), from the
            names or descriptions of the files.

    Returns:
        The table `runs`, in the order of `run_identity`. Rows without a client, a phase and a number of drivers
        belong to no run (the output of `pgbench -i`, for instance) and are left out. `threads` and `operations`
        are sums over the options of all load generators, or the identity's values if a client does not state them. A
        missing workload is replaced by the script that pgbench ran, a missing phase by `run` if there is a script.
    """
    known = _add_merged_clients(run_identity, clients.filter(pl.col("run_id").is_not_null()))
    started = known.with_columns(
        threads=_make_started_sum_expr("threads", "identity_threads"),
        operations=_make_started_sum_expr("operations_planned", "identity_operations"),
        workload=pl.coalesce("workload", "script"),
        phase=pl.coalesce(pl.col("phase").cast(pl.String), pl.when(pl.col("script").is_not_null()).then(pl.lit("run"))),
        rate_limited=pl.col("rate_limited").fill_null(value=False),
    ).with_columns(
        # Clients that did not run at the same time have no window in common.
        pl.when(pl.col("measured_from") < pl.col("measured_until")).then(pl.col("measured_from", "measured_until")),
        attempted=pl.col("operations_done") + pl.col("failed_operations").fill_null(0),
    )
    columns = cs.by_name(*TABLES["runs"].names(), require_all=False)
    return TABLES["runs"].conform(add_run_status(started).select(columns))


def _add_merged_clients(run_identity: pl.DataFrame, clients: pl.DataFrame) -> pl.DataFrame:
    """Runs with the merged values of their main clients; rows for which no client was launched are left out."""
    main = clients.filter(pl.col("role") == "main")
    counts = main.group_by(_RUN).agg(
        main_clients=pl.len().cast(pl.Int32),
        incomplete=(~pl.col("completed").fill_null(value=False)).sum(),
        time_limited=pl.col("time_limit_s").is_not_null().any(),
        measured_from=pl.col("start_time").max(),
        measured_until=pl.col("end_time").min(),
    )
    monitors = clients.filter(pl.col("role") == "monitor")
    monitored = monitors.group_by(_RUN).agg(
        monitored=pl.lit(value=True),
        monitor_operations=pl.col("operations_done").sum(),
        monitor_failed_operations=pl.col("failed_operations").sum(),
    )
    joined = run_identity.rename({"threads": "identity_threads", "operations": "identity_operations"})
    for facts in (merge_clients(main, _RUN), counts, monitored):
        joined = joined.join(facts, on=_RUN, how="left", nulls_equal=True, maintain_order="left")
    filled = joined.with_columns(
        pl.col("monitored", "time_limited").fill_null(value=False), pl.col("main_clients", "incomplete").fill_null(0)
    )
    launched = (pl.col("main_clients") > 0) | pl.any_horizontal(pl.col("phase", "drivers").is_not_null(), "monitored")
    return filled.filter(launched).with_columns(
        drivers=pl.coalesce("drivers", pl.col("main_clients").clip(lower_bound=1))
    )


def _make_started_sum_expr(of_clients: str, of_identity: str) -> pl.Expr:
    """The sum over the clients, or the identity's value if a client is missing or does not state the value."""
    whole = pl.col("main_clients") >= pl.col("drivers")
    return pl.coalesce(pl.when(whole).then(pl.col(of_clients)), pl.col(of_identity), pl.col(of_clients))


def derive_operation_latencies(client_metrics: pl.DataFrame, client_histogram: pl.DataFrame) -> pl.DataFrame:
    """The table `operation_latencies`: client-side latency per run, role and operation, clients merged.

    The percentiles of a single client are those that it printed (`reported`). Other percentiles, and those of several
    clients, come from the merged histograms if every client recorded one with the same edges (`histogram`, the middle
    of the bucket), else they are null. An operation is a section of the summary with a latency; failed operations
    (`READ-FAILED`) are separate.

    Args:
        client_metrics: the table with its identity columns; rows without a run_id are ignored.
        client_histogram: as `client_metrics`.
    """
    per_client = _compute_client_latencies(client_metrics.filter(pl.col("run_id").is_not_null()))
    from_histogram = _compute_histogram_quantiles(client_histogram.filter(pl.col("run_id").is_not_null()), per_client)
    reported = pl.any_horizontal(pl.col(name).is_not_null() for name in _QUANTILES)
    recorded = pl.col("p50_us_histogram").is_not_null()
    added = pl.any_horizontal(pl.col(name).is_null() & pl.col(f"{name}_histogram").is_not_null() for name in _QUANTILES)
    sources = {
        "reported, others histogram": reported & added,
        "reported, of a sample": reported & pl.col("sampled"),
        "reported": reported,
        "histogram": recorded,
    }
    table = (
        merge_clients(per_client, _OPERATION)
        .join(_select_sampled_operations(client_metrics), on=_OPERATION, how="left", nulls_equal=True)
        .with_columns(pl.col("sampled").fill_null(value=False))
        .join(from_histogram, on=_OPERATION, how="left", nulls_equal=True, suffix="_histogram")
        .with_columns(
            *(pl.coalesce(name, f"{name}_histogram") for name in _QUANTILES),
            percentile_source=pl.coalesce(*(pl.when(true).then(pl.lit(words)) for words, true in sources.items())),
            operation="section",
        )
    )
    columns = TABLES["operation_latencies"].names()
    return TABLES["operation_latencies"].conform(table.select(columns).sort("resource", "run_id", "role", "operation"))


def _select_sampled_operations(metrics: pl.DataFrame) -> pl.DataFrame:
    """Operations whose percentiles are those of a sample of the calls."""
    with_samples = metrics.filter(pl.col("metric") == SAMPLED_PERCENTILES)
    return with_samples.select(_OPERATION).unique().with_columns(sampled=pl.lit(value=True))


def _compute_client_latencies(metrics: pl.DataFrame) -> pl.DataFrame:
    """One row per client and section; values are null if nothing was measured, because tools then print sentinels."""
    measures = collect_summary_measures()
    fields = [name for name in TABLES["operation_latencies"].names() if name in MERGE_RULES]
    # A latency in a unit that is not known is not known.
    in_us = pl.col("value") * pl.col("unit").fill_null("us").replace_strict(_US_PER_UNIT, default=None)
    long = metrics.filter(
        pl.col("metric").is_in(list(measures)), pl.col("unit").fill_null("") != "%", is_of_workload()
    ).with_columns(field=pl.col("metric").replace_strict(dict(measures), return_dtype=pl.String), value=in_us)
    wide = long.group_by(*_OPERATION, *_CLIENT, maintain_order=True).agg(
        pl.col("value").filter(pl.col("field") == field).first().alias(field) for field in fields
    )
    measured = (pl.col("operations") > 0) | pl.col("operations").is_null()
    return wide.with_columns(
        pl.col("operations").cast(pl.Int64),
        *(pl.when(measured).then(pl.col(field)).fill_nan(None) for field in fields if field != "operations"),
    )


def _compute_histogram_quantiles(buckets: pl.DataFrame, per_client: pl.DataFrame) -> pl.DataFrame:
    """Quantiles of the operations for which every client recorded a histogram with the same edges."""
    lacking = (
        per_client.filter(pl.col("operations") > 0)
        .join(buckets, on=[*_OPERATION, *_CLIENT], how="anti", nulls_equal=True)
        .select(_OPERATION)
    )
    usable = buckets.join(lacking, on=_OPERATION, how="anti", nulls_equal=True)
    usable = usable.join(find_overlapping_buckets(usable, _OPERATION), on=_OPERATION, how="anti", nulls_equal=True)
    long = compute_histogram_percentiles(usable, list(_QUANTILES.values()), _OPERATION)
    return long.group_by(_OPERATION, maintain_order=True).agg(
        pl.col("value_us").filter(pl.col("quantile") == quantile).first().alias(name)
        for name, quantile in _QUANTILES.items()
    )
