"""Compare two windows of server logs, or the logs of two servers, with one verdict per statement.

Durations that follow each other in a log are not independent: they share the load, the cache, a checkpoint. So the
durations of a statement are divided, in the order of time, into blocks of equal number, and the means of the blocks are
compared (batch means). If the effective sample size of the durations or of the blocks' means is smaller than the number
of blocks, it is used instead of this number.

References:
    Schmeiser, B. (1982). Batch size effects in the analysis of simulation output. Operations Research 30.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.type_aliases import Floats
from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.serverlogs.profile import ServerProfile
from citus_analysis.stats import Comparison, check_independence, compare, compare_many
from citus_analysis.stats.warmup import estimate_effective_sample_size
from citus_analysis.texts.words import pluralize

#: Blocks that the durations of a statement are cut into: more would add little to the freedom of t (Schmeiser).
BLOCKS: Final = 20
#: Fewest blocks, and fewest durations in a block: with fewer, the spread of the means is hardly known.
_FEWEST_BLOCKS: Final = 8
_BLOCK_SIZE: Final = 5
#: Fewest durations of a statement that are compared.
FEWEST: Final = _FEWEST_BLOCKS * _BLOCK_SIZE

_KEYS: Final = ["sent_by", "statement_kind", "fingerprint"]
_METHOD: Final = (
    f"means of up to {BLOCKS} blocks of successive durations, Welch t and TOST on the log of the ratio, with the "
    "effective number of blocks (autocorrelation), adjusted over all statements by Holm"
)
_SEQUENTIAL: Final = (
    "Windows of one server follow each other in time: other changes between them (load, data, cache) look like "
    "differences of the statements."
)


@dataclass(frozen=True, repr=False)
class ServerComparison(DisplayMixin):
    """Statements of one profile against those of a base.

    Attributes:
        comparisons: one per statement with enough durations on both sides; `stratum` names its fingerprint, and
            `faster` means a shorter mean duration.
        statements: one row per statement that both sides have, up to the number asked for: counts, means and p95 of
            both sides, `ratio` with `low` and `high`, `verdict` (null if there are too few durations) and `note`.
        only_tested: statements that the base does not have, as in `ServerProfile.by_fingerprint`.
        only_base: statements that only the base has.
        errors: errors of both sides by message: `count`, `count_base`.
        label: the tested window in words.
        label_base: the base in words.
        n: number of statements compared.
        method: the method of the comparison.
        warnings: limitations that a reader must know.
    """

    comparisons: tuple[Comparison, ...]
    statements: pl.DataFrame
    only_tested: pl.DataFrame
    only_base: pl.DataFrame
    errors: pl.DataFrame
    label: str
    label_base: str
    n: int
    method: str = _METHOD
    warnings: tuple[str, ...] = ()

    def summary_table(self) -> pl.DataFrame:
        """The statements compared."""
        return self.statements


def compare_servers(
    tested: ServerProfile, base: ServerProfile, *, most: int = 20, level: float = LEVEL, margin: float = MARGIN
) -> ServerComparison:
    """Compare the mean durations of statements that two profiles have in common.

    Args:
        tested: the profile in question (after).
        base: the profile that it is compared with (before).
        most: statements compared, those with the largest total time of both sides first.
        level: confidence level.
        margin: relative difference that is considered equivalent.

    Example::

        before = ca.server_profile(ds, until="2026-03-01 12:00")
        after = ca.server_profile(ds, since="2026-03-01 12:00")
        ca.compare_servers(after, before).statements
    """
    shared = _select_shared_statements(tested, base).head(most)
    enough = shared.filter(pl.min_horizontal("timed", "timed_base") >= FEWEST)
    durations = [_collect_durations(side, enough) for side in (tested, base)]
    found = [
        _compare_statement_times(
            row, *(side[tuple(row[name] for name in _KEYS)] for side in durations), level=level, margin=margin
        )
        for row in enough.iter_rows(named=True)
    ]
    comparisons = compare_many(found, level=level)
    warnings = [_SEQUENTIAL, *dict.fromkeys((*tested.warnings, *base.warnings))]
    return ServerComparison(
        comparisons,
        _tabulate_compared_statements(shared, comparisons),
        tested.by_fingerprint.join(base.by_fingerprint, on=_KEYS, how="anti", maintain_order="left", nulls_equal=True),
        base.by_fingerprint.join(tested.by_fingerprint, on=_KEYS, how="anti", maintain_order="left", nulls_equal=True),
        _compare_error_counts(tested, base),
        tested.window.label,
        base.window.label,
        len(comparisons),
        warnings=tuple(warnings),
    )


def _select_shared_statements(tested: ServerProfile, base: ServerProfile) -> pl.DataFrame:
    columns = ["text", "statements", "timed", "total_s", "mean_ms", "p95_ms"]
    theirs = base.by_fingerprint.select(*_KEYS, *columns)
    both = tested.by_fingerprint.select(*_KEYS, *columns).join(theirs, on=_KEYS, suffix="_base", how="inner")
    order = pl.col("total_s") + pl.col("total_s_base")
    shared = both.sort(order, "fingerprint", descending=[True, False], nulls_last=True)
    return shared.with_columns(text=pl.coalesce("text", "text_base")).drop("text_base")


def _collect_durations(profile: ServerProfile, wanted: pl.DataFrame) -> dict[tuple[object, ...], Floats]:
    """The durations of the wanted statements in the order of time, by sender, kind and fingerprint."""
    rows = profile.statements.join(wanted.select(_KEYS), on=_KEYS, how="semi").drop_nulls("duration_us")
    ordered = rows.select(*_KEYS, "end_time", "byte_offset", "duration_us").sort("end_time", "byte_offset")
    return {key: part["duration_us"].to_numpy() for key, part in ordered.group_by(_KEYS, maintain_order=True)}


def compute_block_means(durations: Floats) -> tuple[Floats, float]:
    """Means of blocks of successive durations, and the effective number of independent blocks.

    Example:
        >>> means, effective = compute_block_means(np.tile([1.0, 3.0], 500))
        >>> len(means), float(means.mean()), effective
        (20, 2.0, 20.0)
    """
    blocks = min(BLOCKS, len(durations) // _BLOCK_SIZE)
    means = np.array([part.mean() for part in np.array_split(durations, blocks)])
    worth = min(estimate_effective_sample_size(durations).effective, check_independence(means).effective, float(blocks))
    return means, max(2.0, worth)


def _compare_statement_times(
    row: dict[str, object], a: Floats, b: Floats, *, level: float, margin: float
) -> Comparison:
    (means_a, worth_a), (means_b, worth_b) = compute_block_means(a), compute_block_means(b)
    found = compare(
        means_a,
        means_b,
        margin,
        level=level,
        higher_is_better=False,
        label_a="the window",
        label_b="the base",
        metric="duration_us",
        effective=(worth_a, worth_b),
    )
    notes = [
        f"{name}: {pluralize(blocks, 'block')} of durations, worth {worth:.0f} independent"
        for name, blocks, worth in (("window", len(means_a), worth_a), ("base", len(means_b), worth_b))
        if worth < blocks - 0.5
    ]
    stratum = {name: row[name] for name in _KEYS}
    return replace(found, stratum=stratum, warnings=(*notes, *found.warnings))


def _tabulate_compared_statements(shared: pl.DataFrame, comparisons: tuple[Comparison, ...]) -> pl.DataFrame:
    rows = [
        {name: one.stratum[name] for name in _KEYS}
        | {"ratio": one.ratio.estimate, "low": one.deciding.low, "high": one.deciding.high}
        | {"verdict": one.verdict, "n_blocks": one.mean_a.n, "note": "; ".join(one.warnings)}
        for one in comparisons
    ]
    schema = {name: shared.schema[name] for name in _KEYS} | dict.fromkeys(("ratio", "low", "high"), pl.Float64())
    schema |= {"verdict": pl.String(), "n_blocks": pl.Int64(), "note": pl.String()}
    judged = shared.join(pl.DataFrame(rows, schema=schema), on=_KEYS, how="left", maintain_order="left")
    few = pl.format("not compared: fewer than {} durations on one side", pl.lit(FEWEST))
    return judged.with_columns(
        note=pl.when(pl.col("verdict").is_null()).then(few).otherwise("note"),
        difference_ms=pl.col("mean_ms") - pl.col("mean_ms_base"),
    )


def _compare_error_counts(tested: ServerProfile, base: ServerProfile) -> pl.DataFrame:
    keys = ["severity", "sqlstate", "normalised"]
    sides = [side.error_groups.select(*keys, "count") for side in (tested, base)]
    both = sides[0].join(sides[1], on=keys, how="full", coalesce=True, nulls_equal=True, suffix="_base")
    return both.with_columns(pl.col("count", "count_base").fill_null(0)).sort("count", "count_base", descending=True)
