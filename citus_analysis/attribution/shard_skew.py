"""Skew: how unevenly executions and their time are spread over shards and nodes on both sides, and whether it changed.

The coefficient of variation of the shards' shares is estimated from the traced statements that one shard answers. A
few hundred executions are spread unevenly by chance alone, so that part is subtracted: for k shards with times T_i
out of T, and statements of times t_j,

    CV^2 = k * sum(T_i^2) / T^2 - 1 - (k - 1) * sum(t_j^2) / T^2,

which for numbers of executions is Pearson's chi-square less its k - 1 degrees of freedom, over their number. Its mean
is 0 for an even spread; values of the runs of both sides are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from citus_analysis.attribution.correlated_changes import CorrelatedChange, compare_node_means
from citus_analysis.attribution.observed import RUN
from citus_analysis.core.frames import convert_to_polars
from citus_analysis.core.type_aliases import Floats
from citus_analysis.stats.distributions import compute_chi2_tail
from citus_analysis.stats.verdicts import adjust_by_holm

if TYPE_CHECKING:
    from citus_analysis.attribution.observed import Observed, ObservedSample

_DRAWS: Final = 400
_SEED: Final = 47
_OVER: Final = {"shards": "shard_id", "nodes": "executed_on"}
_OF: Final = {"executions": pl.lit(1.0), "time": pl.col("total_us")}
_OF_SIDE: Final = {
    **dict.fromkeys(("places", "executions"), pl.Int64()),
    **dict.fromkeys(("busiest_percent", "busiest_if_even_percent", "cv_percent", "even_p"), pl.Float64()),
}
_ROW: Final = {
    **dict.fromkeys(("of", "over"), pl.String()),
    **{f"{side}_{name}": kind for side in ("base", "other") for name, kind in _OF_SIDE.items()},
    **dict.fromkeys(("p", "effect_size"), pl.Float64()),
    "decided": pl.Boolean(),
}


def compare_shard_skew(sides: Observed, *, level: float) -> pl.DataFrame:
    """The spread of both sides over shards and nodes; no rows unless both have statements of several shards.

    Args:
        sides: both sides of a difference.
        level: confidence level.

    Returns:
        `of` (`executions`, or `time` of their statements), `over` (`shards` or `nodes`), for each side its number of
        them, traced `executions`, the share of the busiest (mean of the runs), the share that it would have on average
        if the spread were even, `cv_percent` (0 is even) and `even_p` (chi-square test of an even spread of
        executions); `p` of the test that the sides' spreads are equal (Welch over runs, adjusted by Holm),
        `effect_size` (Cohen's d) and `decided`.
    """
    executed_on = pl.when(pl.col("executed").cast(pl.String) == "local").then("node").otherwise("child_node")
    timed = sides.timed.with_columns(executed_on=executed_on).filter(pl.col("shard_id").is_not_null())
    rows: list[dict[str, object]] = []
    tests: list[CorrelatedChange] = []
    for over, place in _OVER.items():
        placed = timed.drop_nulls(place)
        counts = [_count_shards_or_nodes(sides, i, placed, place) for i in (0, 1)]
        if min(counts) < 2 or placed["side"].n_unique() < 2:
            continue
        for of, weight in _OF.items():
            spreads = [_spread_evenly(placed.filter(side=i), place, weight, counts[i]) for i in (0, 1)]
            test = compare_node_means("", "", spreads[0][0], spreads[1][0], level)
            if test is not None:
                named = zip(("base", "other"), spreads, strict=True)
                stated = {f"{side}_{name}": value for side, (_, one) in named for name, value in one.items()}
                rows.append({"of": of, "over": over, **stated})
                tests.append(test)
    for row, one, p in zip(rows, tests, adjust_by_holm([one.p for one in tests]), strict=True):
        row |= {"p": float(p), "effect_size": one.effect_size, "decided": float(p) < 1 - level}
    return pl.DataFrame(rows, schema=_ROW)


def _count_shards_or_nodes(sides: Observed, i: int, placed: pl.DataFrame, place: str) -> int:
    """Number of shards or nodes of a side: as stated, or if more were seen in a run, or none is stated, those."""
    side = sides.both[i]
    seen = placed.filter(side=i).group_by(RUN).agg(pl.col(place).n_unique())[place].max()
    return max(_read_stated_number(sides, side, i, place), int(seen) if isinstance(seen, int) else 0)


def _read_stated_number(sides: Observed, side: ObservedSample, i: int, place: str) -> int:
    if place != "shard_id":
        workers = side.table["workers"].max() if "workers" in side.table.columns else None
        return int(workers) if isinstance(workers, int) else 0
    settings = convert_to_polars(sides.sources[i].table("settings"))
    mine = settings.filter(pl.col("name") == "shard_count", pl.col("resource").is_in(side.table["resource"].implode()))
    stated = mine["value"].cast(pl.Int64, strict=False).max()
    return int(stated) if isinstance(stated, int) else 0


def _spread_evenly(placed: pl.DataFrame, place: str, weight: pl.Expr, places: int) -> tuple[Floats, dict[str, object]]:
    """The squared coefficient of variation of each run, and what is stated of the side."""
    weighted = placed.with_columns(weight=weight)
    own = (pl.col("weight") ** 2).sum()
    sums = weighted.group_by(*RUN, place).agg(total=pl.col("weight").sum(), own=own, n=pl.len())
    whole = pl.col("total").sum()
    runs = (
        sums.group_by(RUN, maintain_order=True)
        .agg(
            n=pl.col("n").sum(),
            equal=(whole**2 / pl.col("own").sum()).round().clip(lower_bound=1),
            busiest=pl.col("total").max() / whole,
            squares=places * (pl.col("total") ** 2).sum() / whole**2
            - 1
            - (places - 1) * pl.col("own").sum() / whole**2,
            pearson=places * (pl.col("n") ** 2).sum() / pl.col("n").sum() - pl.col("n").sum(),
        )
        .sort(RUN)
    )
    draws = np.random.default_rng(_SEED)
    numbers = runs["n"].to_numpy()
    # Times vary: so many equal times would spread as they do by chance.
    equal = runs["equal"].to_numpy().astype(np.int64)
    even = [float(draws.multinomial(n, np.full(places, 1 / places), _DRAWS).max(axis=1).mean()) / n for n in equal]
    mean = runs["squares"].mean()
    return runs["squares"].to_numpy(), {
        "places": places,
        "executions": int(numbers.sum()),
        "busiest_percent": 100 * float(runs["busiest"].to_numpy().mean()),
        "busiest_if_even_percent": 100 * float(np.mean(even)),
        "cv_percent": 100 * max(mean if isinstance(mean, float) else 0.0, 0.0) ** 0.5,
        "even_p": compute_chi2_tail(float(runs["pearson"].sum()), (places - 1) * runs.height),
    }
