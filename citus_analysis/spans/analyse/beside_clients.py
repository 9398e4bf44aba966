"""Tables of a profile with one row per configuration: parts of a statement's time, and its percentiles beside clients.

The share of operations that was sampled is a dimension of a configuration: logging every statement of its sessions
may slow a client down, and a short sample may miss rare events.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, TableSource, as_polars, in_callers_kind
from citus_analysis.defaults import LEVEL
from citus_analysis.runs.setups import setting_text
from citus_analysis.spans.analyse.coarse import coarse_profile, summarised
from citus_analysis.spans.analyse.profile import MEAN_OF_CLIENTS_US, SENT, ProfileStudy
from citus_analysis.spans.analyse.profile_percentiles import IN_ORDER, profile_percentiles
from citus_analysis.units import US_PER_MS

_RUN: Final = ["resource", "run_id"]
_CONFIGURATION: Final = ["statement_kind", "family", "workers", "threads"]
#: Columns of `runs` in which repeats agree.
_REPEATED: Final = (
    "resource",
    "set_up",
    *("phase", "workload", "workers", "threads", "drivers", "records", "operations"),
)
_ESTIMATE: Final = {"estimate_us": "", "low_us": "_low", "high_us": "_high"}
#: Role of a client -> prefix of its columns.
_ROLES: Final = {"main": "client", "monitor": "sampled_client"}


def sampled_percent(runs: pl.DataFrame) -> pl.DataFrame:
    """run_id, resource, sampled_percent: share of a run's operations that the sampled client did.

    The share varies among the repeats of a configuration, because the sampled client has a fixed rate. A share between
    half and twice the median of the repeats is replaced by this median. Shares are rounded to one significant digit.

    Args:
        runs: rows of the table `runs`.

    Example:
        >>> run = {"run_id": "a", "resource": "r", "operations_done": 60_000, "monitor_operations": 60}
        >>> sampled_percent(pl.DataFrame([run]))["sampled_percent"].to_list()
        [0.1]
    """
    sampled = pl.col("monitor_operations")
    share = 100 * sampled / (pl.col("operations_done") + sampled)
    repeats = [name for name in _REPEATED if name in runs.columns]
    known = runs.with_columns(sampled_percent=pl.when(share > 0).then(share))
    mine, usual = pl.col("sampled_percent"), pl.col("sampled_percent").median().over(repeats)
    close = mine.is_between(usual / 2, usual * 2)
    known = known.with_columns(sampled_percent=pl.when(close).then(usual).otherwise(mine).round_sig_figs(1))
    return known.select("run_id", "resource", "sampled_percent")


def parts_by_configuration(study: ProfileStudy) -> pl.DataFrame:
    """Mean parts of a statement's time, a row for each configuration and place of execution.

    Returns:
        `statement`, `set_up`, `workers`, `threads`, `executed`, `n`, and in ms: `whole_ms` (T), `parent_ms` (P),
        `child_ms` (C), `between_ms` (L); parts that do not exist are null. `commit` names a part that is known not to
        contain the commit.
    """
    index = [*_CONFIGURATION, "executed"]
    names = {"T": "whole_ms", "P": "parent_ms", "C": "child_ms", "L": "between_ms"}
    rows = study.profile.with_columns(pl.col("quantity").cast(pl.String), (pl.col("mean_us") / US_PER_MS).alias("mean"))
    wide = rows.filter(pl.col("quantity").is_in(list(names))).pivot(
        "quantity", index=index, values="mean", aggregate_function="first", maintain_order=True
    )
    missing = [pl.lit(None, pl.Float64).alias(symbol) for symbol in names if symbol not in wide.columns]
    counts = rows.filter(quantity="T").select(*index, "n")
    hidden = (
        rows.drop_nulls("warning")
        .group_by(index)
        .agg(commit=pl.format("not in {}", pl.col("quantity").filter(pl.col("quantity").is_in(["T", "C"])).first()))
    )
    local = pl.col("executed").cast(pl.String) == "local"
    return (
        wide.with_columns(missing)
        .join(counts, on=index, how="left")
        .join(hidden, on=index, how="left")
        # A local statement has no child: all of its time is the parent's.
        .with_columns(pl.when(local).then(None).otherwise(pl.col(symbol)).alias(symbol) for symbol in ("P", "C", "L"))
        .select(*index, "n", *(pl.col(symbol).alias(name) for symbol, name in names.items()), "commit")
        .pipe(_named, study.main, ["executed"])
    )


def states_by_configuration(study: ProfileStudy) -> pl.DataFrame:
    """The states of sessions, a row for each configuration, place of execution and state.

    Returns:
        `statement`, `set_up`, `workers`, `threads`, `executed`, and the columns of
        :meth:`~citus_analysis.spans.analyse.selected_statements.SelectedStatements.states`.
    """
    return study.selected.states().pipe(_named, study.main, ["executed", "state"])


def _named(table: pl.DataFrame, main: str, then: list[str]) -> pl.DataFrame:
    """Columns and rows in reading order: the usual set-up first, cluster sizes below each other."""
    statement = pl.col("statement_kind").cast(pl.String).str.to_uppercase()
    set_up = pl.col("family").replace("", setting_text("family", ""))
    ordered = table.sort(pl.col("family") != main, "family", statement, "threads", "workers", *then, nulls_last=True)
    return ordered.select(statement.alias("statement"), set_up.alias("set_up"), pl.exclude("statement_kind", "family"))


@in_callers_kind
def in_milliseconds(table: Frame) -> pl.DataFrame:
    """A table whose times in µs (`..._us`) are in ms (`..._ms`).

    Example:
        >>> in_milliseconds(pl.DataFrame({"mean_us": [1500.0], "n": [3]})).row(0, named=True)
        {'mean_ms': 1.5, 'n': 3}
    """
    frame = as_polars(table)
    times = [name for name in frame.columns if name.endswith("_us")]
    scaled = frame.with_columns(pl.col(times) / US_PER_MS)
    return scaled.rename({name: f"{name.removesuffix('_us')}_ms" for name in times})


def beside_clients(study: ProfileStudy, dataset: TableSource, *, level: float = LEVEL) -> pl.DataFrame:
    """Percentiles of T on the server beside the latency that clients report, a row per configuration.

    T is the time of the sampled statements of the steady state, of all places of execution. The main clients'
    statements are not logged, so the two describe different statements of the same runs; the sampled client's latency
    is of all its statements, also of those that opened connections.

    Args:
        study: the profile.
        dataset: gives `runs` and `operation_latencies`.
        level: confidence level of the intervals of percentiles
            (:func:`citus_analysis.spans.analyse.profile_percentiles.profile_percentiles`).

    Returns:
        `statement`, `set_up`, `workers`, `threads`, `sampled_percent`, `runs`, `n` statements; of T: `p50_ms`,
        `p95_ms`, `p99_ms`, each with its interval (`..._low`, `..._high`; null where there are too few statements),
        and `mean_ms`; mean latency of the main clients: `client_mean_ms`, and of the client that sent the sampled
        statements: `sampled_client_mean_ms`. The usual set-up comes first.
    """
    shares = sampled_percent(as_polars(dataset.table("runs")))
    group = [*_CONFIGURATION, "sampled_percent"]
    wanted = [*_RUN, *_CONFIGURATION, "executed", "failed", *IN_ORDER, *summarised("T")]
    statements = study.statements.select(wanted).join(shares, on=_RUN, how="left", maintain_order="left")
    profile = coarse_profile(statements, by=group, quantities=["T"])
    means = in_milliseconds(profile.select(*group, "n", "mean_us"))
    found = profile_percentiles(statements, by=group, quantities=["T"], level=level)
    table = means.join(_wide(found, group), on=group, how="left", nulls_equal=True)
    latencies = as_polars(dataset.table("operation_latencies"))
    of_runs = study.statements.select(*_RUN, *_CONFIGURATION).unique().join(shares, on=_RUN, how="left")
    for role, prefix in _ROLES.items():
        table = table.join(_of_clients(latencies, of_runs, role, prefix), on=group, how="left", nulls_equal=True)
    percentiles = [name for name in table.columns if name.startswith("p") and "_ms" in name]
    clients = [f"{prefix}_mean_ms" for prefix in _ROLES.values()]
    shown = table.select(*group, "runs", "n", *percentiles, "mean_ms", *clients)
    return shown.pipe(_named, study.main, ["sampled_percent"])


def _wide(percentiles: pl.DataFrame, group: list[str]) -> pl.DataFrame:
    """One row per group, with the columns `p50_ms`, `p50_ms_low`, `p50_ms_high` and so on, and the number of runs."""
    runs = percentiles.group_by(group).agg(pl.col("runs").max())
    for (percent,), part in percentiles.group_by("percentile", maintain_order=True):
        named = [(pl.col(us) / US_PER_MS).alias(f"p{percent:g}_ms{end}") for us, end in _ESTIMATE.items()]
        runs = runs.join(part.select(*group, *named), on=group, how="left", nulls_equal=True)
    return runs


def _of_clients(latencies: pl.DataFrame, of_runs: pl.DataFrame, role: str, prefix: str) -> pl.DataFrame:
    """Latency of the clients of one role, of the operations that send each kind of statement."""
    mine = latencies.filter(pl.col("role").cast(pl.String) == role).with_columns(kind=SENT)
    keyed = of_runs.with_columns(kind=pl.col("statement_kind").cast(pl.String))
    joined = mine.join(keyed, on=["resource", "run_id", "kind"])
    mean_ms = (MEAN_OF_CLIENTS_US / US_PER_MS).alias(f"{prefix}_mean_ms")
    return joined.group_by([*_CONFIGURATION, "sampled_percent"]).agg(mean_ms)
