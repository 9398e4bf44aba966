"""The headlines of the page on published results, recomputed from the tables of printed numbers."""

from __future__ import annotations

import math
from functools import cache
from typing import Final

import numpy as np
import pandas as pd
from scipy import stats

from tests.recomputed.headlines import Expected, Said, binds
from tests.recomputed.truth import Truth
from tests.recordings import ROOT

#: A mean known less precisely than this share of itself leaves differences of that size open.
_RESOLVED: Final = 0.1
#: Shorter runs have too few seconds for their mean.
_SHORT_S: Final = 30
#: Differences that the digits of numbers such as `2.3` and `1.1 million` may hide.
_ROUNDED: Final = 0.03
#: Of connections that wait for the system, at most this share is explained by clients that work between operations.
_WAITING: Final = 0.6


@cache
def _read_numbers() -> pd.DataFrame:
    """All rows of all publications; words such as `Yes` have no value."""
    return pd.concat(pd.read_csv(path) for path in sorted((ROOT / "data" / "published").glob("*.csv")))


@cache
def _read_table(source: str, table: str) -> pd.DataFrame:
    """A table as printed: its rows, with a column for each metric."""
    numbers = _read_numbers()
    rows = numbers[(numbers["source"] == source) & (numbers["table"] == table)]
    return rows.drop_duplicates(["row", "metric"]).pivot(index="row", columns="metric", values="value")


def _find_repetitions(rows: pd.DataFrame) -> pd.Series:
    """The n at which deviation and normal quantile give the printed interval; NaN where none does."""
    half = (rows["interval_high_ops_s"] - rows["interval_low_ops_s"]) / 2
    n = (stats.norm.ppf(0.975) * rows["sigma_ops_s"] / half) ** 2
    return n.round().where((n / n.round() - 1).abs() < 1e-3)


@cache
def _read_scaling() -> pd.DataFrame:
    """Table 5.7 by workers, with n and the half width by Student's t."""
    rows = _read_table("thesis", "5.7").sort_values("workers")
    n = _find_repetitions(rows)
    return rows.assign(n=n, half=stats.t.ppf(0.975, n - 1) * rows["sigma_ops_s"] / np.sqrt(n))


def _read_row(source: str, table: str, row: str) -> dict[str, float]:
    """The numbers of one row, by metric."""
    numbers = _read_table(source, table).loc[[row]].dropna(axis="columns").to_dict("records")[0]
    return {str(name): float(value) for name, value in numbers.items()}


def _contradicts(stated: float, derived: float) -> bool:
    return abs(stated / derived - 1) > _ROUNDED


@binds(
    "published",
    "The audit of <n> numbers from <n> publications found <n> contradictions and <n> doubtful statements.",
)
def count_findings(truth: Truth, said: Said) -> Expected:
    """Each contradiction and each doubt, by a computation of its own."""
    numbers = _read_numbers()
    counts = [numbers["value"].count(), numbers["source"].nunique()]
    return [*counts, sum(_find_contradictions()), sum(_find_doubts())]


def _find_contradictions() -> list[bool]:
    numbers = _read_numbers()
    connections, scaling = _read_table("thesis", "5.6"), _read_scaling()
    copied = set(connections["sigma_ops_s"]) & set(scaling["sigma_ops_s"])
    rows = numbers.groupby(["row", "metric"])["value"].nunique()
    servers = _read_table("postgres_xc", "1")
    factors = servers["throughput_ops_s"] / servers["throughput_ops_s"]["PostgreSQL, 1 server"]
    proxy = _read_row("postgres_xc", "section 5.1", "GTM without proxy, estimate")
    network = _read_row("postgres_xc", "section 7.3", "Gigabit network")
    days = _read_row("citus_docs", "rates per day", "INSERTs per day, larger cluster")
    little = _read_table("thesis", "equation 5.2").iloc[0]
    return [
        *_find_repetitions(connections).isna(),
        len(copied) > 1,
        rows["Aurora, read replicas", "replicas"] > 1,
        rows["monitor client", "sampling_percent"] > 1,
        *(_contradicts(a, b) for a, b in zip(servers["scale_factor"], factors, strict=True)),
        _contradicts(proxy["network_bytes_per_s"], proxy["snapshots_per_s"] * proxy["network_bytes_per_snapshot"]),
        _contradicts(days["operations_per_day"], days["throughput_ops_s"] * 86_400),
        _contradicts(little["throughput_ops_s"], little["connections"] / little["latency_ms"] * 1000),
        network["transfer_mb_s"] > network["link_gbit_s"] * 125,
    ]


def _find_doubts() -> list[bool]:
    scaling, monitored = _read_scaling(), _read_table("thesis", "5.3")
    printed = (scaling["interval_high_ops_s"] - scaling["interval_low_ops_s"]) / 2
    precision = stats.t.ppf(0.975, 3) * monitored["sigma_ops_s"] / 2 / monitored["throughput_ops_s"]
    numbers = _read_numbers()
    few = numbers[(numbers["metric"] == "throughput_ops_s") & (numbers["n"] < 3)]
    shares, sizes = _read_table("thesis", "5.8"), _read_table("thesis", "4.2")
    waiting = sizes["throughput_ops_s"] * sizes["client_latency_ms"] / 1000 / sizes["connections"]
    length = sizes["operations"] / sizes["throughput_ops_s"]
    monitor = _read_table("thesis", "section 5.3")["runtime_s"].dropna()
    return [
        *scaling["n"].notna(),
        scaling["n"].nunique() > 1,
        *(printed / scaling["half"] < 0.9),
        *(precision > _RESOLVED),
        *(scaling["half"] / scaling["throughput_ops_s"] > _RESOLVED),
        *few["row"].notna(),
        *(shares["server_latency_p50_ms"] > shares["client_latency_ms"]),
        *(waiting < _WAITING),
        *(length < _SHORT_S),
        *(monitor < _SHORT_S),
    ]


@binds(
    "published",
    "In table <n> of the thesis (<text>), <n> standard deviations agree digit by digit with table <n>; its own "
    "intervals need other values.",
)
def find_copied(truth: Truth, said: Said) -> Expected:
    """Deviations that two tables share."""
    first, second = (set(_read_table("thesis", table)["sigma_ops_s"]) for table in ("5.6", "5.7"))
    assert {float(text) for text in said.words[0].split(", ")} == first & second
    return [5.6, len(first & second), 5.7]


@binds(
    "published",
    "In table <n> of the paper on Postgres-XC, <n> is stated for “Postgres-XC, <n> server”, but <n> (digits allow "
    "<n> to <n>) follows from the rest.",
)
def divide_servers(truth: Truth, said: Said) -> Expected:
    """The scale factor is a ratio to one PostgreSQL server, whose digits may be rounded or cut off."""
    rows = _read_table("postgres_xc", "1")
    stated, base = rows.loc["Postgres-XC, 1 server"], rows["throughput_ops_s"]["PostgreSQL, 1 server"]
    rate = stated["throughput_ops_s"]
    ends = (rate - 0.5) / (base + 1), (rate + 1) / (base - 0.5)
    return [1, stated["scale_factor"], stated["servers"], rate / base, *ends]


@binds(
    "published",
    "In equation <n> of the thesis, <n> million is stated for “SELECT, <n> workers”, but <n> operations/s (<n> / "
    "<n> ms) follows from the rest.",
)
def apply_littles_law(truth: Truth, said: Said) -> Expected:
    """Connections over the time of an operation."""
    row = _read_table("thesis", "equation 5.2").iloc[0]
    derived = row["connections"] / row["latency_ms"] * 1000
    return [5.2, row["throughput_ops_s"] / 1e6, 2, derived, row["connections"], row["latency_ms"]]


@binds(
    "published",
    "The intervals of table <n> imply <n>, <n>, <n>, <n>, <n> repetitions and have <n> % to <n> % of the width "
    "that Student's t gives for so few.",
)
def narrow_intervals(truth: Truth, said: Said) -> Expected:
    """The normal quantile in place of Student's."""
    rows = _read_scaling()
    share = (rows["interval_high_ops_s"] - rows["interval_low_ops_s"]) / 2 / rows["half"] * 100
    return [5.7, *rows["n"], share.min(), share.max()]


@binds(
    "published",
    "In table <n>, throughput with <n> workers is <n> times that with <n> workers (<n> to <n>), an efficiency of <n> % "
    "(<n> % to <n> %). Of the models, Amdahl and USL cannot be distinguished by these values; Amdahl is the "
    "simplest. For the Universal Scalability Law, the data do not support a peak: its <n> % interval has no upper "
    "end, while sizes <n> to <n> were measured.",
)
def divide_scaling(truth: Truth, said: Said) -> Expected:
    """Welch's interval of the logarithm of a ratio of means."""
    rows = _read_scaling()
    first, last = rows.iloc[0], rows.iloc[-1]
    parts = [(row["sigma_ops_s"] / row["throughput_ops_s"]) ** 2 / row["n"] for row in (first, last)]
    df = sum(parts) ** 2 / sum(part**2 / (row["n"] - 1) for part, row in zip(parts, (first, last), strict=True))
    half = stats.t.ppf(0.975, df) * math.sqrt(sum(parts))
    ratio = last["throughput_ops_s"] / first["throughput_ops_s"]
    speedups = [ratio, ratio * math.exp(-half), ratio * math.exp(half)]
    sizes = first["workers"], last["workers"]
    efficiencies = [100 * one * sizes[0] / sizes[1] for one in speedups]
    return [5.7, sizes[1], speedups[0], sizes[0], *speedups[1:], *efficiencies, 95, *sizes]
