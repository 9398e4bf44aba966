"""Components of a statement's time, by cluster size: means of the spans, distributions, and latencies at the client.

The profile is :func:`citus_analysis.spans.coarse_profile` of the statements of the steady state
(:mod:`citus_analysis.spans.analyse.selected_statements`): those of a session's start, and those that open a connection
to another node, are counted and averaged apart. Statements of one run are not independent, so cluster sizes are
compared by the means of runs, one value per run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.core.displays import Shown
from citus_analysis.core.frames import TableSource, as_polars, lazy_table
from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.errors import UnknownNameError
from citus_analysis.runs.measured_windows import Windowed
from citus_analysis.runs.run_selection import Selection
from citus_analysis.spans.analyse.coarse import coarse_profile
from citus_analysis.spans.analyse.profile_percentiles import ESTIMATES, client_percentiles, profile_percentiles
from citus_analysis.spans.analyse.selected_statements import GROUP, SelectedStatements, select_statements
from citus_analysis.spans.analyse.unplaced_statements import unplaced_statements
from citus_analysis.stats import Comparison, compare, compare_many
from citus_analysis.stats.series.blocks import FEWEST_BLOCKS, layout_of
from citus_analysis.texts.counted_words import size_expr, threads_text

_SETUP: Final = ("resource", "run_id", "family", "workers", "threads")
_RUN: Final = ["resource", "run_id"]
#: YCSB's operation -> kind of the statement it sends.
_SENT_BY: Final = {"INSERT": "insert", "READ": "select", "UPDATE": "update", "SCAN": "select", "DELETE": "delete"}
#: Kind of the statement that an operation of `operation_latencies` sends; null for other operations.
SENT: Final = pl.col("operation").replace_strict(_SENT_BY, default=None, return_dtype=pl.String)
#: Mean latency of a group of rows of `operation_latencies`.
MEAN_OF_CLIENTS_US: Final = (pl.col("mean_us") * pl.col("operations")).sum() / pl.col("operations").sum()
_OF_CLIENT: Final = ["family", "workers", "threads", "statement_kind"]


@dataclass(frozen=True, repr=False)
class ProfileStudy(Shown):
    """Profiles of the sampled statements.

    Attributes:
        selected: the statements that are included, divided by the state of their session.
        profile: per family, workers, threads, kind and place of execution: n and mean of T, P, W, C, L.
        percentiles: the same groups: percentiles of T, P, W, C, L with intervals over the runs.
        beside_client: per family, workers, threads and kind: T of all places and states beside the latencies of the
            sampled client (`client_mean_us`) and of the main clients (`main_mean_us`).
        client_percentiles: the same groups: percentiles of T and of the sampled client, each with its interval.
        sampled: the sampled client's mean latency against the main clients' of the same runs, by kind, in the largest
            cluster that the figures show.
        sizes: T at other cluster sizes against the smallest, at equal threads, on the means of runs.
        places: T of local against remote executions of statements that commit nothing.
        matched: number of tasks of the chosen runs, and of those that were paired exactly.
        children: executions on shards that other nodes logged for the chosen runs, with a task or without.
        main: the family in which sizes are compared: the one without a name, else the one with the most statements.
        threads: number of threads that the figures show.
        unplaced: a sentence on the statements of which nothing says where they were executed.
    """

    selected: SelectedStatements
    profile: pl.DataFrame
    percentiles: pl.DataFrame
    beside_client: pl.DataFrame
    client_percentiles: pl.DataFrame
    sampled: tuple[Comparison, ...]
    sizes: tuple[Comparison, ...]
    places: tuple[Comparison, ...]
    matched: tuple[int, int]
    children: int
    main: str
    threads: int
    unplaced: tuple[str, ...] = ()

    @property
    def statements(self) -> pl.DataFrame:
        """The statements of the steady state, with `family`, `workers` and `threads`: what the profile is of."""
        return self.selected.steady

    @property
    def skip_first(self) -> int:
        """Statements at the beginning of each session that count as its start."""
        return self.selected.skip_first

    @property
    def window(self) -> Windowed:
        """The number of statements outside the measured windows of the runs."""
        return self.selected.window

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
        """Times of single statements of the steady state and the main family, a `series` per cluster size and place."""
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
    selected = select_statements(selection, dataset, skip_first=skip_first)
    main, shown = _main_family(selected), profiled_threads(selected, threads)
    # Percentiles of all runs together are dropped: they have no interval, unlike those of `percentiles`.
    profile = coarse_profile(selected.steady, by=GROUP).select(pl.exclude(r"^p\d+_us$"))
    latencies = _sampled_latencies(selected, as_polars(dataset.table("operation_latencies")))
    monitors = latencies.filter(role="monitor")
    quality = as_polars(dataset.table("match_quality")).join(setup, on=_RUN, how="semi")
    statements = lazy_table(dataset, "statements").join(setup.lazy(), on=_RUN, how="semi")
    return ProfileStudy(
        selected,
        profile,
        profile_percentiles(selected.steady, by=GROUP, level=level),
        _beside_client(selected, latencies),
        _client_percentiles(selected, monitors, level),
        tuple(_compare_clients(latencies.filter(family=main, threads=shown), level, margin)),
        tuple(_compare_sizes(selected, selection.runs, main, level, margin)),
        tuple(_compare_places(selected, main, level, margin)),
        (int(quality["tasks"].sum()), int(quality["exact"].sum())),
        int(quality["children"].sum()),
        main,
        shown,
        tuple(unplaced_statements(statements)),
    )


def _main_family(selected: SelectedStatements) -> str:
    # Where all statements are of the beginning of sessions, none is steady.
    counts = pl.concat([part.select("family") for part in (selected.steady, selected.apart)])["family"].value_counts()
    families = counts.sort("count", "family", descending=[True, False])["family"].to_list()
    return "" if "" in families else str(families[0])


def profiled_threads(selected: SelectedStatements, wanted: int = 0) -> int:
    """The number of threads that the figures show: the wanted number, or the number with the most cluster sizes.

    Raises:
        UnknownNameError: the main family was not measured with the wanted number.
    """
    columns = ["family", "threads", "workers"]
    every = pl.concat([part.select(columns) for part in (selected.steady, selected.apart)])
    main = every.filter(family=_main_family(selected))
    sizes = main.group_by("threads").agg(pl.col("workers").n_unique(), pl.len().alias("count"))
    if wanted and wanted not in sizes["threads"]:
        raise UnknownNameError("number of threads", str(wanted), map(str, sizes["threads"]))
    return wanted or int(sizes.sort("workers", "count", descending=True)["threads"][0])


def _sampled_latencies(selected: SelectedStatements, latencies: pl.DataFrame) -> pl.DataFrame:
    """Latencies that the clients of the sampled runs report, with the kind of statement of each operation."""
    columns = [*_SETUP, "statement_kind"]
    setup = pl.concat([part.select(columns) for part in (selected.steady, selected.apart)]).unique()
    of_kinds = setup.with_columns(pl.col("statement_kind").cast(pl.String))
    clients = latencies.with_columns(pl.col("role").cast(pl.String), statement_kind=SENT)
    return clients.join(of_kinds, on=[*_RUN, "statement_kind"])


def _of_every_state(selected: SelectedStatements) -> pl.DataFrame:
    """The statements of all states, because a client's latencies are of all of them, too."""
    return pl.concat([selected.steady, selected.apart])


def _beside_client(selected: SelectedStatements, latencies: pl.DataFrame) -> pl.DataFrame:
    """The server's T over all places and states, and the latencies of the client that sent them and of the others."""
    server = coarse_profile(_of_every_state(selected), by=_OF_CLIENT, quantities=["T"])
    clients = latencies.group_by(_OF_CLIENT).agg(
        pl.col("run_id").filter(role="monitor").n_unique().alias("client_runs"),
        *(_mean_latency(role).alias(name) for role, name in (("monitor", "client_mean_us"), ("main", "main_mean_us"))),
    )
    shown = server.select(*_OF_CLIENT, "n", "mean_us").with_columns(pl.col("statement_kind").cast(pl.String))
    return shown.join(clients, on=_OF_CLIENT, how="left").sort(_OF_CLIENT)


def _mean_latency(role: str) -> pl.Expr:
    mine = pl.col("role") == role
    sum_us, operations = (
        one.filter(mine).sum() for one in (pl.col("mean_us") * pl.col("operations"), pl.col("operations"))
    )
    return pl.when(operations > 0).then(sum_us / operations)


def _compare_clients(latencies: pl.DataFrame, level: float, margin: float) -> Iterator[Comparison]:
    """The sampled client against the main clients of the same runs, in the largest cluster, per kind."""
    for (kind,), part in latencies.sort("statement_kind").group_by("statement_kind", maintain_order=True):
        largest = part.filter(pl.col("workers").fill_null(0) == pl.col("workers").fill_null(0).max())
        means = largest.group_by(_RUN).agg(monitor=_mean_latency("monitor"), main=_mean_latency("main"))
        both = means.filter((pl.col("monitor") > 0) & (pl.col("main") > 0)).sort(_RUN)
        if both.height:
            one = _compare_pairs(both["monitor"], both["main"], level, margin, "latency_us")
            one.stratum.update(kind=str(kind), workers=largest["workers"][0])
            yield one


def _client_percentiles(selected: SelectedStatements, latencies: pl.DataFrame, level: float) -> pl.DataFrame:
    """Percentiles of T on the server and of the client's latency, one row per percentile."""
    server = profile_percentiles(_of_every_state(selected), by=_OF_CLIENT, quantities=["T"], level=level)
    client = client_percentiles(latencies, _OF_CLIENT, level=level)
    parts = [
        part.with_columns(pl.col("statement_kind").cast(pl.String), measured=pl.lit(name)).select(
            *_OF_CLIENT, "measured", "percentile", *ESTIMATES
        )
        for name, part in (("server (T)", server), ("client", client))
    ]
    return pl.concat(parts).sort(*_OF_CLIENT, "percentile", "measured", descending=[False] * 5 + [True])


def _run_means(statements: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    return statements.group_by(*by, *_RUN).agg(pl.col("total_us").mean()).sort(*by, "run_id")


def _compare_sizes(
    selected: SelectedStatements, runs: pl.DataFrame, main: str, level: float, margin: float
) -> Iterator[Comparison]:
    """Largest against smallest cluster, remote executions, per kind and threads; by block, if there are blocks."""
    remote = selected.steady.filter((pl.col("executed") == "remote") & (pl.col("family") == main))
    order = [name for name in ("iteration", "start_time") if name in runs.columns]
    for (kind,), part in remote.group_by("statement_kind", maintain_order=True):
        found = []
        for (threads,), rows in part.sort("threads").group_by("threads", maintain_order=True):
            low, high = rows["workers"].min(), rows["workers"].max()
            if low != high:
                means = _run_means(rows, ["workers"]).join(runs.select(*_RUN, *order), on=_RUN, how="left")
                layout = layout_of(means.filter(workers=high), means.filter(workers=low), "total_us")
                one = compare(
                    layout.a,
                    layout.b,
                    margin,
                    level=level,
                    higher_is_better=False,
                    metric="total_us",
                    blocked=layout.paired,
                    iterations=layout.iterations,
                )
                one.stratum.update(kind=str(kind), threads=threads, small=low, large=high)
                found.append(one)
        yield from compare_many(found, level=level)


def _compare_places(selected: SelectedStatements, main: str, level: float, margin: float) -> Iterator[Comparison]:
    """Local against remote executions of statements that commit nothing, because only these are comparable.

    Both of a run are a pair: they were measured at the same time.
    """
    of_main = selected.steady.filter((pl.col("family") == main) & (pl.col("statement_kind") == "select"))
    found = []
    for (workers, threads), rows in of_main.sort("workers", "threads").group_by(
        "workers", "threads", maintain_order=True
    ):
        means = _run_means(rows, ["executed"])
        local, remote = (means.filter(executed=place).drop("executed") for place in ("local", "remote"))
        both = local.join(remote, on=_RUN, suffix="_remote")
        if both.height:
            one = _compare_pairs(both["total_us"], both["total_us_remote"], level, margin, "total_us")
            one.stratum.update(workers=workers, threads=threads)
            found.append(one)
    yield from compare_many(found, level=level)


def _compare_pairs(a_us: pl.Series, b_us: pl.Series, level: float, margin: float, metric: str) -> Comparison:
    """Times of the same runs, which were measured at the same time."""
    paired = a_us.len() >= FEWEST_BLOCKS
    a, b = a_us.to_numpy(), b_us.to_numpy()
    return compare(a, b, margin, level=level, higher_is_better=False, metric=metric, blocked=paired)
