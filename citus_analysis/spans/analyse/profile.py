"""Components of a statement's time, by cluster size: means of the spans, distributions, and latencies at the client.

The profile is :func:`citus_analysis.spans.coarse_profile`. Only statements within the measured window of their run are
included, because the servers are idle if the sampled client runs longer than the main clients. Statements of one run
are not independent, so cluster sizes are compared by the means of runs, one value per run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.core.displays import Shown
from citus_analysis.core.frames import TableSource, as_polars, lazy_table
from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.runs.measured_windows import Windowed, within_measured
from citus_analysis.runs.run_selection import Selection
from citus_analysis.schema import DATA_STATEMENTS
from citus_analysis.spans.analyse.coarse import after_warm_up, coarse_profile, summarised
from citus_analysis.spans.analyse.profile_percentiles import (
    ESTIMATES,
    IN_ORDER,
    client_percentiles,
    profile_percentiles,
)
from citus_analysis.spans.analyse.unplaced_statements import unplaced_statements
from citus_analysis.stats import Comparison, compare, compare_many
from citus_analysis.texts.counted_words import size_expr, threads_text

_SETUP: Final = ("resource", "run_id", "family", "workers", "threads")
_GROUP: Final = ["family", "workers", "threads", "statement_kind", "executed"]
#: YCSB's operation -> kind of the statement it sends.
_SENT_BY: Final = {"INSERT": "insert", "READ": "select", "UPDATE": "update", "SCAN": "select", "DELETE": "delete"}
#: Kind of the statement that an operation of `operation_latencies` sends; null for other operations.
SENT: Final = pl.col("operation").replace_strict(_SENT_BY, default=None, return_dtype=pl.String)
#: Mean latency of a group of rows of `operation_latencies`.
MEAN_OF_CLIENTS_US: Final = (pl.col("mean_us") * pl.col("operations")).sum() / pl.col("operations").sum()
#: Columns of statements that profiles need.
_PROFILED: Final = (*_SETUP, "statement_kind", "executed", "failed", *IN_ORDER, *summarised())
_OF_CLIENT: Final = ["family", "workers", "threads", "statement_kind"]


@dataclass(frozen=True, repr=False)
class ProfileStudy(Shown):
    """Profiles of the sampled statements.

    Attributes:
        statements: the statements that are included, with `family`, `workers`, `threads` and `name`.
        profile: per family, workers, threads, kind and place of execution: n and mean of T, P, W, C, L.
        percentiles: the same groups: percentiles of T, P, W, C, L with intervals over the runs.
        beside_client: per family, workers, threads and kind: T of all places beside the monitor client's latency.
        client_percentiles: the same groups: percentiles of both, each with its interval.
        sizes: T at other cluster sizes against the smallest, at equal threads, on the means of runs.
        places: T of local against remote executions of statements that commit nothing.
        matched: number of tasks of the chosen runs, and of those that were paired exactly.
        children: executions on shards that other nodes logged for the chosen runs, with a task or without.
        main: the family in which sizes are compared: the one without a name, else the one with the most statements.
        threads: number of threads that the figures show.
        skip_first: statements left out at the beginning of each session.
        window: the sampled statements within the measured windows of the chosen runs, and the number outside.
        unplaced: a sentence on the statements of which nothing says where they were executed.
    """

    statements: pl.DataFrame
    profile: pl.DataFrame
    percentiles: pl.DataFrame
    beside_client: pl.DataFrame
    client_percentiles: pl.DataFrame
    sizes: tuple[Comparison, ...]
    places: tuple[Comparison, ...]
    matched: tuple[int, int]
    children: int
    main: str
    threads: int
    skip_first: int
    window: Windowed
    unplaced: tuple[str, ...] = ()

    @property
    def load(self) -> str:
        """The number of client threads that the figures show, in words."""
        return threads_text(self.threads)

    def summary_table(self) -> pl.DataFrame:
        """The profile."""
        return self.profile

    def kinds(self, *, main: bool = True) -> list[str]:
        """Kinds of statements in the figures, of the main family or of all others."""
        return sorted({str(kind) for kind in self._shown(self.profile, main=main)["statement_kind"]})

    def spans_of(self, kind: str, *, main: bool = True) -> pl.DataFrame:
        """Means of P, C and L of remote executions and T of local ones, with a `name` per bar, for a figure.

        The name says if a time does not contain the commit, or contains it in an unusual place.

        Args:
            kind: kind of the statement.
            main: the main family; else all others.
        """
        rows = self._shown(self.profile, main=main).filter(pl.col("statement_kind") == kind)
        remote = (pl.col("executed") == "remote") & pl.col("quantity").is_in(["P", "C", "L"])
        local = (pl.col("executed") == "local") & (pl.col("quantity") == "T")
        family = pl.lit("") if main else pl.format("{}, ", "family")
        hidden = pl.col("warning").is_not_null().any().over("family", "workers", "executed")
        commit = pl.when(hidden & local).then(pl.lit(" (no commit)")).when(hidden).then(pl.lit(" (commit in L)"))
        name = pl.format("{}{}, {}", family, size_expr(), pl.col("executed").cast(pl.String))
        ordered = rows.filter(remote | local).sort("family", "workers", "executed", descending=[False, False, True])
        return ordered.with_columns(name=name + commit.otherwise(pl.lit("")))

    def times_of(self, kind: str) -> pl.DataFrame:
        """Times of single statements of the main family, with a `series` per cluster size and place."""
        shown = self.statements.lazy().filter(
            pl.col("threads") == self.threads,
            pl.col("family") == self.main,
            pl.col("statement_kind") == kind,
            pl.col("executed").is_in(["remote", "local"]),
        )
        rows = shown.select("workers", "executed", "total_us").collect().sort("workers", "executed")
        series = pl.format("{}, {}", size_expr(), pl.col("executed").cast(pl.String))
        return rows.select(series.alias("series"), "total_us")

    def _shown(self, rows: pl.DataFrame, *, main: bool = True) -> pl.DataFrame:
        family = pl.col("family") == self.main if main else pl.col("family") != self.main
        return rows.filter(pl.col("threads") == self.threads, family)


def study_profile(
    selection: Selection,
    dataset: TableSource,
    *,
    skip_first: int = 5,
    threads: int = 0,
    level: float = LEVEL,
    margin: float = MARGIN,
) -> ProfileStudy:
    """Profile the sampled statements of the chosen runs.

    Args:
        selection: runs with their set-up; only statements of these runs enter.
        dataset: gives `statements`, `match_quality` and `operation_latencies`.
        skip_first: statements left out at the beginning of each session (plans and connections are made there).
        threads: number of threads that the figures show; 0: the number with the most cluster sizes.
        level: confidence level of comparisons.
        margin: relative difference that is considered equivalent.

    Raises:
        InsufficientDataError: none of the runs has sampled statements.
        UnknownNameError: no run has that number of threads.
    """
    setup = selection.runs.select(_SETUP)
    window = _windowed(selection, dataset)
    found = _entered(window)
    main = _main_family(found)
    # Percentiles of all runs together are dropped: they have no interval, unlike those of `percentiles`.
    of_main = found.lazy().filter(family=main).select(*_SETUP, "statement_kind", "executed", "total_us").collect()
    kept = after_warm_up(found, skip_first, _PROFILED)
    profile = coarse_profile(kept, by=_GROUP).select(pl.exclude(r"^p\d+_us$"))
    latencies = _of_monitors(found, selection, as_polars(dataset.table("operation_latencies")))
    quality = as_polars(dataset.table("match_quality")).join(setup, on=["resource", "run_id"], how="semi")
    statements = lazy_table(dataset, "statements").join(setup.lazy(), on=["resource", "run_id"], how="semi")
    return ProfileStudy(
        found,
        profile,
        profile_percentiles(kept, by=_GROUP, level=level),
        _beside_client(kept, latencies),
        _client_percentiles(kept, latencies, level),
        tuple(_compare_sizes(of_main, level, margin)),
        tuple(_compare_places(of_main, level, margin)),
        (int(quality["tasks"].sum()), int(quality["exact"].sum())),
        int(quality["children"].sum()),
        main,
        profiled_threads(found, threads),
        skip_first,
        window,
        tuple(unplaced_statements(statements)),
    )


def profiled_statements(selection: Selection, dataset: TableSource) -> pl.DataFrame:
    """The sampled statements of the chosen runs' measured windows, with their runs' `family`, `workers` and `threads`.

    Raises:
        InsufficientDataError: there are none.
    """
    return _entered(_windowed(selection, dataset))


def _windowed(selection: Selection, dataset: TableSource) -> Windowed:
    statements = lazy_table(dataset, "statements").filter(
        pl.col("statement_kind").cast(pl.String).is_in(DATA_STATEMENTS) & pl.col("executed").is_not_null()
    )
    setup = selection.runs.lazy().select(_SETUP)
    found = statements.join(setup, on=["resource", "run_id"], maintain_order="left").collect()
    return within_measured(found, selection.runs)


def _entered(window: Windowed) -> pl.DataFrame:
    if window.rows.is_empty() and window.outside:
        raise InsufficientDataError(
            f"all {window.outside} sampled statements of these runs began before or ended after the time in which all "
            "main clients ran",
            way_out="let the main clients run longer, or the sampled client end with them",
        )
    if window.rows.is_empty():
        raise InsufficientDataError("no sampled statements in these runs", way_out="see the table statements")
    return window.rows


def _main_family(statements: pl.DataFrame) -> str:
    families = statements["family"].value_counts(sort=True)["family"].to_list()
    return "" if "" in families else str(families[0])


def profiled_threads(statements: pl.DataFrame, wanted: int = 0) -> int:
    """The number of threads that the figures show: the wanted number, or the number with the most cluster sizes.

    Raises:
        UnknownNameError: the main family was not measured with the wanted number.
    """
    main = statements.select("family", "threads", "workers").filter(family=_main_family(statements))
    sizes = main.group_by("threads").agg(pl.col("workers").n_unique(), pl.len().alias("count"))
    if wanted and wanted not in sizes["threads"]:
        raise UnknownNameError("number of threads", str(wanted), map(str, sizes["threads"]))
    return wanted or int(sizes.sort("workers", "count", descending=True)["threads"][0])


def _of_monitors(statements: pl.DataFrame, selection: Selection, latencies: pl.DataFrame) -> pl.DataFrame:
    """Latencies that the monitor clients of the sampled runs report, with the kind of statement of each operation."""
    sampled = statements.select("resource", "run_id").unique()
    setup = selection.runs.select(_SETUP).join(sampled, on=["resource", "run_id"], how="semi")
    monitor = latencies.filter(pl.col("role").cast(pl.String) == "monitor").join(setup, on=["resource", "run_id"])
    return monitor.with_columns(statement_kind=SENT).drop_nulls("statement_kind")


def _beside_client(statements: pl.DataFrame, latencies: pl.DataFrame) -> pl.DataFrame:
    """The server's T over all places of execution, and the latency of the client that sent the same statements."""
    server = coarse_profile(statements, by=_OF_CLIENT, quantities=["T"])
    client = latencies.group_by(_OF_CLIENT).agg(
        pl.len().alias("client_runs"), MEAN_OF_CLIENTS_US.alias("client_mean_us")
    )
    shown = server.select(*_OF_CLIENT, "n", "mean_us").with_columns(pl.col("statement_kind").cast(pl.String))
    return shown.join(client, on=_OF_CLIENT, how="left").sort(_OF_CLIENT)


def _client_percentiles(statements: pl.DataFrame, latencies: pl.DataFrame, level: float) -> pl.DataFrame:
    """Percentiles of T on the server and of the client's latency, one row per percentile."""
    server = profile_percentiles(statements, by=_OF_CLIENT, quantities=["T"], level=level)
    client = client_percentiles(latencies, _OF_CLIENT, level=level)
    parts = [
        part.with_columns(pl.col("statement_kind").cast(pl.String), measured=pl.lit(name)).select(
            *_OF_CLIENT, "measured", "percentile", *ESTIMATES
        )
        for name, part in (("server (T)", server), ("client", client))
    ]
    return pl.concat(parts).sort(*_OF_CLIENT, "percentile", "measured", descending=[False] * 5 + [True])


def _run_means(statements: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    return statements.group_by(*by, "resource", "run_id").agg(pl.col("total_us").mean()).sort(*by, "run_id")


def _compare_sizes(statements: pl.DataFrame, level: float, margin: float) -> Iterator[Comparison]:
    """Largest against smallest cluster, remote executions, per kind and threads."""
    remote = statements.filter(pl.col("executed") == "remote")
    for (kind,), part in remote.group_by("statement_kind", maintain_order=True):
        found = []
        for (threads,), rows in part.sort("threads").group_by("threads", maintain_order=True):
            low, high = rows["workers"].min(), rows["workers"].max()
            if low != high:
                means = _run_means(rows, ["workers"])
                one = _times(means.filter(workers=high), means.filter(workers=low), level, margin)
                one.stratum.update(kind=str(kind), threads=threads, small=low, large=high)
                found.append(one)
        yield from compare_many(found, level=level)


def _compare_places(statements: pl.DataFrame, level: float, margin: float) -> Iterator[Comparison]:
    """Local against remote executions of statements that commit nothing, because only these are comparable."""
    selects = statements.filter(pl.col("statement_kind") == "select").sort("workers", "threads")
    found = []
    for (workers, threads), rows in selects.group_by("workers", "threads", maintain_order=True):
        means = _run_means(rows, ["executed"])
        local, remote = means.filter(executed="local"), means.filter(executed="remote")
        if local.height and remote.height:
            one = _times(local, remote, level, margin)
            one.stratum.update(workers=workers, threads=threads)
            found.append(one)
    yield from compare_many(found, level=level)


def _times(a: pl.DataFrame, b: pl.DataFrame, level: float, margin: float) -> Comparison:
    a_us, b_us = a["total_us"].to_numpy(), b["total_us"].to_numpy()
    return compare(a_us, b_us, margin, level=level, higher_is_better=False, metric="total_us")
