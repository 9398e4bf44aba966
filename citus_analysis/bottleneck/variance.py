"""The sources of the variance of T, and the properties that separate slow statements from the others.

T is the sum of the parent's own time, the child's time, and the time between (L), so Var(T) is the sum of their three
variances and twice their three covariances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.bottleneck.samples import NODE, add_configuration_columns
from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.core.type_aliases import Bools
from citus_analysis.defaults import SEED
from citus_analysis.stats.verdicts import adjust_by_holm, cliffs_delta, compute_mann_whitney_p_value

#: Fewest statements from which a variance is computed.
LEAST_STATEMENTS: Final = 30
#: Most statements of a group that are compared; of larger groups, a sample of this size is drawn.
MOST_STATEMENTS: Final = 20_000
#: Names of the terms: the variances, then the covariances (each counted twice).
TERMS: Final = ("parent", "child", "between", "parent and child", "parent and between", "child and between")
_PARTS: Final = ("parent_us", "child_us", "between_us")
#: Where a statement was executed -> its column.
_PLACES: Final = {"node": "node", "shard": "shard_id"}


def _decompose_remote_times(statements: pl.DataFrame) -> pl.DataFrame:
    """Remote statements whose child is known, with `parent_us`, `child_us` and `between_us`, which add up to T."""
    known = pl.all_horizontal(pl.col("total_us", "wait_us", "child_us").is_not_null())
    return statements.filter(~pl.col("failed").fill_null(value=False) & known).with_columns(
        parent_us=pl.col("total_us") - pl.col("wait_us"), between_us=pl.col("wait_us") - pl.col("child_us")
    )


@return_callers_frame_kind
def decompose_time_variance(statements: Frame, runs: Frame, configuration: Sequence[str]) -> pl.DataFrame:
    """Var(T) of each configuration and kind of statement, term by term.

    Args:
        statements: the table `statements`.
        runs: the runs, with the columns of `configuration`.
        configuration: columns that identify a configuration.

    Returns:
        `configuration`, `statement_kind`, `term` (one of :data:`TERMS`), `value_us2` (a covariance counted twice),
        `share` of Var(T), `variance_us2` (Var(T), over n), `n` statements. The terms of a group add up to Var(T).
    """
    apart = add_configuration_columns(
        _decompose_remote_times(convert_to_polars(statements)), convert_to_polars(runs), configuration
    )
    keys = [*configuration, "statement_kind"]
    a, b, c = (pl.col(name) for name in _PARTS)
    pairs = {TERMS[3]: (a, b), TERMS[4]: (a, c), TERMS[5]: (b, c)}
    terms = {name: part.var(ddof=0) for name, part in zip(TERMS[:3], (a, b, c), strict=True)}
    terms |= {name: 2 * pl.cov(*pair, ddof=0) for name, pair in pairs.items()}
    whole = {"variance_us2": pl.col("total_us").var(ddof=0), "n": pl.len()}
    groups = apart.group_by(keys, maintain_order=True).agg(**terms, **whole)
    groups = groups.filter(pl.col("n") >= LEAST_STATEMENTS, pl.col("variance_us2") > 0)
    long = groups.unpivot(TERMS, index=[*keys, *whole], variable_name="term", value_name="value_us2")
    shares = long.with_columns(share=pl.col("value_us2") / pl.col("variance_us2"))
    return shares.sort(*keys, "share", descending=[False] * len(keys) + [True], nulls_last=True)


@return_callers_frame_kind
def find_separating_properties(
    statements: Frame, checkpoints: Frame, runs: Frame, configuration: Sequence[str]
) -> pl.DataFrame:
    """Compare T of statements with a property and without it, to find properties that separate slow statements.

    The properties are the node and the shard of a statement, whether it was executed on another node, whether a
    checkpoint was under way, and whether it was parsed (the first use in its connection). The p-values are from
    Mann-Whitney tests, adjusted within each configuration and kind of statement by Holm's procedure. Statements of one
    run are not independent, so the effect size matters more than a small p-value. From groups of more than
    :data:`MOST_STATEMENTS` statements, a sample of this size is drawn.

    Returns:
        `configuration`, `statement_kind`, `property`, `n_with`, `n_without`, `median_with_us`, `median_without_us`,
        `cliffs_delta` (-1 to 1; above 0: slower with the property), `p_value` (adjusted).
    """
    usable = convert_to_polars(statements).filter(
        pl.col("total_us").is_not_null() & ~pl.col("failed").fill_null(value=False)
    )
    marked = _mark_checkpoint_overlap(usable, convert_to_polars(checkpoints))
    marked = add_configuration_columns(marked, convert_to_polars(runs), configuration)
    marked, names = _add_property_columns(marked), _names(marked)
    keys = [*configuration, "statement_kind"]
    rows: list[dict[str, object]] = []
    for key, group in marked.group_by(keys, maintain_order=True):
        drawn = group.sample(MOST_STATEMENTS, seed=SEED) if group.height > MOST_STATEMENTS else group
        found = [{**dict(zip(keys, key, strict=True)), **row} for row in _compare_by_property(drawn, names)]
        adjusted = adjust_by_holm([float(str(row["p_value"])) for row in found]).tolist() if found else []
        rows += [row | {"p_value": p} for row, p in zip(found, adjusted, strict=True)]
    if not rows:
        return pl.DataFrame()
    frame, size = pl.DataFrame(rows, infer_schema_length=None), pl.col("cliffs_delta").abs()
    return frame.sort(*keys, size, descending=[False] * len(keys) + [True], nulls_last=True)


def _compare_by_property(group: pl.DataFrame, names: Mapping[str, list[str]]) -> Iterator[dict[str, object]]:
    times = group["total_us"].to_numpy()
    for name, has in _iterate_property_flags(group, names):
        with_, without = times[has], times[~has]
        if min(len(with_), len(without)) < LEAST_STATEMENTS:
            continue
        yield {
            "property": name,
            "n_with": len(with_),
            "n_without": len(without),
            "median_with_us": float(np.median(with_)),
            "median_without_us": float(np.median(without)),
            "cliffs_delta": cliffs_delta(with_, without),
            "p_value": compute_mann_whitney_p_value(with_, without),
        }


def _add_property_columns(statements: pl.DataFrame) -> pl.DataFrame:
    """Statements with a column for each property: of all groups at once, because there may be many groups."""
    remote = pl.col("executed").cast(pl.String) == "remote"
    return statements.with_columns(
        pl.col(column).rank("dense").fill_null(0).alias(f"_{noun}") for noun, column in _PLACES.items()
    ).with_columns(_first_use=pl.col("parse_us").fill_null(0) > 0, _remote=remote.fill_null(value=False))


def _names(statements: pl.DataFrame) -> dict[str, list[str]]:
    """The name of each node and shard, in the order of their ranks, from 1."""
    values = {noun: statements[column].drop_nulls().unique().sort() for noun, column in _PLACES.items()}
    return {noun: ["", *(f"{noun} {value}" for value in own)] for noun, own in values.items()}


def _iterate_property_flags(group: pl.DataFrame, names: Mapping[str, list[str]]) -> Iterator[tuple[str, Bools]]:
    """Each property with the flags of the statements that have it, as arrays, because there may be many shards."""
    yield "checkpoint under way", group["_checkpoint"].to_numpy()
    yield "first use in its connection", group["_first_use"].to_numpy()
    yield "executed on another node", group["_remote"].to_numpy()
    for noun in _PLACES:
        ranks = group[f"_{noun}"].to_numpy()
        for rank in np.unique(ranks[ranks > 0]).tolist():
            yield names[noun][rank], ranks == rank


def _mark_checkpoint_overlap(statements: pl.DataFrame, checkpoints: pl.DataFrame) -> pl.DataFrame:
    """Statements with `_checkpoint`: whether the last checkpoint of their node that began before them still ran."""
    begun = checkpoints.select(*NODE, begun=pl.coalesce("start_time", "end_time"), ended="end_time").drop_nulls()
    joined = statements.sort("start_time").join_asof(
        begun.sort("begun"), left_on="start_time", right_on="begun", by=[*NODE], check_sortedness=False
    )
    return joined.with_columns(_checkpoint=(pl.col("start_time") <= pl.col("ended")).fill_null(value=False))
