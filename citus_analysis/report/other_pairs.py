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
from citus_analysis.report.comparison_text import POOLED, apart_words
from citus_analysis.report.sentence_parts import range_of, times_of
from citus_analysis.runs.run_selection import Selection
from citus_analysis.runs.run_status import AS_SELECTED
from citus_analysis.runs.setups import LOAD
from citus_analysis.scaling import configuration_costs
from citus_analysis.stats import Comparison, compare_runs
from citus_analysis.texts.counted_words import counted, size_text
from citus_analysis.texts.number_text import p_text, readable, with_interval

#: What runs of an experiment share, besides the experiment; the protocol is what an experiment may vary.
_SAME_LOAD: Final = tuple(name for name in LOAD if name not in (*POOLED, "query_mode", "drivers", "limit"))
#: vCPUs are products of decimal fractions; this many digits make equal ones equal.
_CPU_DIGITS: Final = 6


@dataclass(frozen=True)
class OtherPair:
    """A comparison and what its two sides have in common.

    Attributes:
        common: what both sides share, in words: the experiment, or the amount of CPU.
        comparison: the comparison.
    """

    common: str
    comparison: Comparison


def other_pairs(
    selection: Selection, dataset: TableSource, base: str, *, level: float = LEVEL, margin: float = MARGIN
) -> list[OtherPair]:
    """Compare set-ups of one experiment with one another, and systems whose nodes have the same amount of CPU in all.

    Set-ups of the experiment that the base belongs to are compared with the base elsewhere. The first set-up in the
    order of the alphabet is the base within an experiment. Systems are compared by their most frequent set-up.

    Args:
        selection: runs with their set-up.
        dataset: gives `settings`, which name the experiments, and `nodes`.
        base: the variant that the page compares with.
        level: confidence level.
        margin: relative difference that counts as none.

    Returns:
        The comparisons; their verdicts are adjusted over all of one operation and kind.
    """
    named = as_polars(dataset.table("settings")).filter(pl.col("name") == "experiment")
    experiments = named.select("resource", experiment="value").unique("resource")
    runs = selection.runs.join(experiments, on="resource", how="left", maintain_order="left")
    costs = configuration_costs(runs, as_polars(dataset.table("nodes")))
    vcpus = costs.select("resource", vcpus=pl.col("vcpus").round(_CPU_DIGITS)).unique("resource")
    runs = runs.join(vcpus, on="resource", how="left", maintain_order="left")
    return [*_within_experiments(runs, base, level, margin), *_at_equal_cpu(runs, base, level, margin)]


def _within_experiments(runs: pl.DataFrame, base: str, level: float, margin: float) -> list[OtherPair]:
    others = runs.drop_nulls("experiment").filter(~(pl.col("variant") == base).any().over("experiment"))
    found = _compared(others, "variant", None, ("experiment", "workers", *_SAME_LOAD), level, margin)
    return [OtherPair(f"all other settings of {one.stratum['experiment']}", one) for one in found]


def _at_equal_cpu(runs: pl.DataFrame, base: str, level: float, margin: float) -> list[OtherPair]:
    systems = runs.drop_nulls("vcpus").filter(pl.col("vcpus") > 0)
    counts = systems.group_by("system", "variant").len()
    usual = counts.sort(pl.col("variant") == base, "len", "variant", descending=[True, True, False])
    usual = usual.unique("system", keep="first", maintain_order=True)
    systems = systems.filter(pl.col("variant").is_in(usual["variant"].implode()))
    found = _compared(systems, "variant", base, ("vcpus", *_SAME_LOAD), level, margin)
    return [OtherPair(_equal_cpu(systems, one), one) for one in found]


def _equal_cpu(systems: pl.DataFrame, one: Comparison) -> str:
    """The amount of CPU that both sides have, and the sizes of the systems that have it."""
    same = systems.filter(pl.col("vcpus") == one.stratum["vcpus"], pl.col("variant").is_in([one.label_a, one.label_b]))
    sizes = [size_text(workers) for workers in same["workers"].drop_nulls().unique().sort(descending=True)]
    return f"{readable(same['vcpus'][0])} cores in all ({' and '.join(sizes)})"


def _compared(
    runs: pl.DataFrame, by: str, base: str | None, within: Sequence[str], level: float, margin: float
) -> Sequence[Comparison]:
    """The comparisons; none if no two levels meet."""
    if runs[by].n_unique() < 2 or (base is not None and base not in runs[by]):
        return ()
    held = [name for name in within if name in runs.columns]
    try:
        found = compare_runs(
            runs, METRIC, by, base, within=held, pool=POOLED, level=level, margin=margin, allow=AS_SELECTED
        )
    except InsufficientDataError:
        return ()
    return found.comparisons


def pair_sentences(pairs: Sequence[OtherPair]) -> list[str]:
    """One sentence for each decided comparison, and one for the others."""
    words = [_sentence(one) for one in pairs if one.comparison.verdict != "inconclusive"]
    undecided = len(pairs) - len(words)
    are = "is" if undecided == 1 else "are"
    return [*words, *([f"{undecided} of these {len(pairs)} comparisons {are} inconclusive."] if undecided else [])]


def _sentence(pair: OtherPair) -> str:
    one = pair.comparison
    name, base = apart_words(one.label_a, one.label_b)
    same = ", equivalent" if one.verdict == "equivalent" else ""
    threads = one.stratum["threads"]
    load = f" with {counted(threads, 'thread')}" if isinstance(threads, int) else ""
    ratio = f"{times_of(one)} times the throughput of {base} ({range_of(one)}{same})"
    return f"{name}: {ratio} for {one.stratum['operation']}{load}, both with {pair.common}."


def other_pairs_table(pairs: Sequence[OtherPair]) -> pl.DataFrame:
    """One row per comparison, with intervals in the cells."""
    rows = [
        {
            "operation": one.stratum.get("operation"),
            "in_common": pair.common,
            "set_up": one.label_a,
            "base": one.label_b,
            "threads": one.stratum.get("threads"),
            "ratio": with_interval(one.ratio.estimate, *one.ratio.ends),
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
