"""Comparisons that have no side with the base's set-up and size: within an experiment, and at an equal amount of CPU.

A page compares set-ups with one base at one size. Two questions of a study have no answer there: an experiment that
varies one thing (a protocol, a setting) asks about its own set-ups, and one server has no number of workers in common
with a cluster, although both may use the same amount of CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.core.frames import TableSource, as_polars
from citus_analysis.defaults import LEVEL, MARGIN, METRIC
from citus_analysis.errors import InsufficientDataError
from citus_analysis.report.comparison_sentences import as_place
from citus_analysis.report.sentence_parts import range_of, times_of
from citus_analysis.runs.run_selection import Selection
from citus_analysis.runs.run_status import AS_SELECTED
from citus_analysis.runs.setups import LOAD
from citus_analysis.scaling import configuration_costs
from citus_analysis.stats import Comparison, compare_runs
from citus_analysis.texts.counted_words import counted, size_text
from citus_analysis.texts.number_text import p_text, readable, with_interval

#: What runs of systems with the same amount of CPU share: their load. Protocol, load generators and limit belong to
#: the set-up.
_SAME_LOAD: Final = tuple(name for name in LOAD if name not in ("query_mode", "drivers", "limit"))
#: vCPUs are products of decimal fractions; this many digits make equal ones equal.
_CPU_DIGITS: Final = 6


@dataclass(frozen=True)
class OtherPair:
    """A comparison and what its two sides have in common.

    Attributes:
        common: what both sides share, in words: the experiment, or the amount of CPU.
        comparison: the comparison.
        sizes: the nodes of either side and their quota, where both sides have the same amount of CPU.
    """

    common: str
    comparison: Comparison
    sizes: tuple[str, str] | None = None

    @property
    def names(self) -> tuple[str, str]:
        """The names of both sides."""
        return self.comparison.label_a, self.comparison.label_b


def other_pairs(
    selection: Selection, dataset: TableSource, base: str, *, level: float = LEVEL, margin: float = MARGIN
) -> list[OtherPair]:
    """Compare set-ups of one experiment with one another, and systems whose nodes have the same amount of CPU in all.

    Set-ups of the experiment that the base belongs to are compared with the base elsewhere. The first set-up in the
    order of the alphabet is the base within an experiment; these are the comparisons of `compare DIR --by variant` with
    this base. Systems are compared by their most frequent set-up, at equal load.

    Args:
        selection: runs with their set-up.
        dataset: gives `settings`, which name the experiments, and `nodes`.
        base: the variant that the page compares with.
        level: confidence level.
        margin: relative difference that counts as none.

    Returns:
        The comparisons; verdicts are adjusted over all variants that can be compared with the base of an experiment,
        and over all systems.
    """
    runs = selection.runs
    if "experiment" not in runs.columns:
        runs = runs.with_columns(experiment=pl.lit(None, pl.String))
    costs = configuration_costs(runs, as_polars(dataset.table("nodes")))
    vcpus = costs.select("resource", "nodes", vcpus=pl.col("vcpus").round(_CPU_DIGITS)).unique("resource")
    runs = runs.join(vcpus, on="resource", how="left", maintain_order="left")
    return [*_within_experiments(runs, base, level, margin), *_at_equal_cpu(runs, base, level, margin)]


def _within_experiments(runs: pl.DataFrame, base: str, level: float, margin: float) -> list[OtherPair]:
    others = runs.drop_nulls("experiment").filter(~(pl.col("variant") == base).any().over("experiment"))
    first = others.group_by("experiment", maintain_order=True).agg(pl.col("variant").unique().sort())
    pairs = []
    for experiment, (start, *rest) in first.sort("experiment").iter_rows():
        if not rest:
            continue
        for one in _compared(runs, start, None, level, margin):
            made_by = {name for side in one.sides or () for name in side["experiment"].unique()}
            if made_by == {experiment}:
                pairs.append(OtherPair(f"all other settings of {experiment}", one))
    return pairs


def _at_equal_cpu(runs: pl.DataFrame, base: str, level: float, margin: float) -> list[OtherPair]:
    systems = runs.drop_nulls("vcpus").filter(pl.col("vcpus") > 0)
    counts = systems.group_by("system", "variant").len()
    usual = counts.sort(pl.col("variant") == base, "len", "variant", descending=[True, True, False])
    usual = usual.unique("system", keep="first", maintain_order=True)
    systems = systems.filter(pl.col("variant").is_in(usual["variant"].implode()))
    if systems["variant"].n_unique() < 2 or base not in systems["variant"]:
        return []
    held = [name for name in ("vcpus", *_SAME_LOAD) if name in systems.columns]
    return [_with_quotas(one) for one in _compared(systems, base, held, level, margin)]


def _with_quotas(one: Comparison) -> OtherPair:
    """A comparison with the amount of CPU that the nodes of both sides may use."""
    first, second = one.sides or (pl.DataFrame(), pl.DataFrame())
    return OtherPair(f"{readable(first['vcpus'][0])} cores in all", one, (_quota(first), _quota(second)))


def _quota(runs: pl.DataFrame) -> str:
    nodes, cores = int(runs["nodes"][0]), runs["vcpus"][0] / runs["nodes"][0]
    if nodes == 1:
        return f"one server that may use {readable(cores)} cores"
    workers = runs["workers"][0]
    coordinator = " and a coordinator" if workers == nodes - 1 else ""
    what = f"{size_text(workers)}{coordinator}" if coordinator else counted(nodes, "node")
    return f"{what} that may use {readable(cores)} cores each"


def _compared(
    runs: pl.DataFrame, base: str, within: Sequence[str] | None, level: float, margin: float
) -> Sequence[Comparison]:
    """The comparisons with a variant; none if no two meet."""
    try:
        found = compare_runs(
            runs, METRIC, "variant", base, within=within, level=level, margin=margin, allow=AS_SELECTED
        )
    except InsufficientDataError:
        return ()
    return found.comparisons


def pair_sentences(pairs: Sequence[OtherPair]) -> list[str]:
    """One sentence for each decided comparison, and one for the others."""
    words = [_sentence(one) for one in pairs if one.comparison.verdict != "inconclusive"]
    undecided = len(pairs) - len(words)
    if not undecided:
        return words
    if len(pairs) == 1:
        return ["The comparison of another pair of set-ups is inconclusive."]
    are = "is" if undecided == 1 else "are"
    return [*words, f"{undecided} of the {len(pairs)} comparisons of other pairs {are} inconclusive."]


def _sentence(pair: OtherPair) -> str:
    one = pair.comparison
    name, base = as_place(one)
    if pair.sizes is not None:
        name, base = f"{name} ({pair.sizes[0]})", f"{base} ({pair.sizes[1]})"
    threads = _threads(one)
    load = "" if threads is None else f" with {counted(threads, 'thread')}"
    fast = "as fast" if one.verdict == "equivalent" else f"{times_of(one)} times as fast"
    within = f", within {one.margin * 100:g} %" if one.verdict == "equivalent" else ""
    same = f", with {pair.common}" if pair.sizes is None else ""
    operation = f"{_operation(one)}{load}"
    return f"{name}, {operation} is {fast} as {base}{within} ({range_of(one)}){same}."


def _threads(one: Comparison) -> int | None:
    side = one.sides[0] if one.sides else pl.DataFrame()
    return side["threads"][0] if "threads" in side.columns else None


def _operation(one: Comparison) -> str:
    side = one.sides[0] if one.sides else pl.DataFrame()
    return str(side["operation"][0]) if "operation" in side.columns else one.holm_family


def other_pairs_table(pairs: Sequence[OtherPair]) -> pl.DataFrame:
    """One row per comparison, with intervals in the cells."""
    rows = [
        {
            "operation": _operation(one),
            "in_common": pair.common + (f" ({' and '.join(pair.sizes)})" if pair.sizes else ""),
            "set_up": one.label_a,
            "base": one.label_b,
            "threads": _threads(one),
            "ratio": with_interval(one.ratio.estimate, *one.deciding.ends),
            "verdict": one.verdict,
            "p_adjusted": p_text(one.known_p_values()["p_difference_adjusted"]),
            "runs": f"{one.mean_a.n} and {one.mean_b.n}",
        }
        for pair in pairs
        for one in (pair.comparison,)
    ]
    text = dict.fromkeys(("operation", "in_common", "set_up", "base"), pl.String())
    rest = dict.fromkeys(("ratio", "verdict", "p_adjusted", "runs"), pl.String())
    return pl.DataFrame(rows, schema={**text, "threads": pl.Int64(), **rest})
