"""Numbers, ratios and names as the sentences of reports have them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from citus_analysis.plots.published_figures import model_name
from citus_analysis.scaling.models import MODELS
from citus_analysis.stats import Comparison, Interval
from citus_analysis.texts.numbers import (
    describe_estimate_with_interval,
    format_adding_up,
    format_estimate_with_interval,
)
from citus_analysis.texts.words import join_words, load_text

#: Shares in percent without decimals add up within this.
_ROUNDED: Final = 0.005
_MODEL: Final = re.compile(rf"\b({'|'.join(MODELS)})\b")


def replace_model_names(sentence: str) -> str:
    """A sentence with the models of scalability named as in figures.

    Example:
        >>> replace_model_names("amdahl and usl cannot be distinguished")
        'Amdahl and USL cannot be distinguished'
    """
    return _MODEL.sub(lambda model: model_name(model[0]), sentence)


def format_load(configuration: Mapping[str, object]) -> str:
    """Workers and threads of runs, as far as they are known; empty if neither is.

    Example:
        >>> format_load({"operation": "INSERT", "workers": None, "threads": 16})
        '16 threads'
    """
    workers, threads = (
        value if isinstance(value := configuration[name], int) else None for name in ("workers", "threads")
    )
    return load_text(workers, threads)


def format_operation_with_load(configuration: Mapping[str, object]) -> str:
    """The operation of runs with their workers and threads.

    Example:
        >>> format_operation_with_load({"operation": "INSERT", "workers": 2, "threads": 16})
        'INSERT with 2 workers and 16 threads'
    """
    load = format_load(configuration)
    return f"{configuration['operation']} with {load}" if load else str(configuration["operation"])


def format_interval_cells(rows: pl.DataFrame, estimate: str) -> pl.Series:
    """Cells of a table for readers: an estimate with its interval, whose ends are in `low` and `high`.

    Example:
        >>> ratios = pl.DataFrame({"ratio": [0.6389], "low": [0.5104], "high": [0.7881]})
        >>> format_interval_cells(ratios, "ratio").to_list()
        ['0.64 [0.51, 0.79]']
    """
    cells = [format_estimate_with_interval(*row) for row in rows.select(estimate, "low", "high").iter_rows()]
    return pl.Series(cells, dtype=pl.String)


def compute_mean_time_parts(profile: pl.DataFrame) -> dict[str, float]:
    """Mean T, P, C and L of the rows of a profile, which have one kind of statement.

    Empty if one of them is missing, or if P, C and L are not parts of T, because the children of many are unknown.

    Example:
        >>> compute_mean_time_parts(pl.DataFrame({"quantity": ["T"], "mean_us": [10.0]}))
        {}
    """
    means = dict(profile.select(pl.col("quantity").cast(pl.String), "mean_us").iter_rows())
    if not {"T", "P", "C", "L"} <= means.keys():
        return {}
    return means if abs(means["P"] + means["C"] + means["L"] - means["T"]) <= _ROUNDED * means["T"] else {}


def format_time_shares(means_us: Mapping[str, float]) -> str:
    """The shares of the parent, the child and the time between them in the mean T of remote statements.

    Example:
        >>> format_time_shares({"T": 10.0, "P": 5.0, "C": 4.0, "L": 1.0})
        '50 % in the parent, 40 % in the child and 10 % between them'
    """
    parts = {"P": "in the parent", "C": "in the child", "L": "between them"}
    shares, _ = format_adding_up([100 * means_us[symbol] / means_us["T"] for symbol in parts], 100.0, more=1)
    return join_words([f"{share} % {words}" for share, words in zip(shares, parts.values(), strict=True)])


def format_ratio(comparison: Comparison) -> str:
    """A ratio in a sentence: how many times as much.

    Example:
        >>> from citus_analysis.stats import compare
        >>> format_ratio(compare([20.0, 21, 22], [10.0, 11, 12])), format_ratio(compare([150.0], [100.0]))
        ('1.91', '1.50')
    """
    return describe_estimate_with_interval(comparison.deciding.estimate)


def format_ratio_interval(comparison: Comparison) -> str:
    """The interval of :func:`format_ratio`, or the reason why there is none.

    Example:
        >>> from citus_analysis.stats import compare
        >>> (
        ...     format_ratio_interval(compare([20.0, 21, 22], [10.0, 11, 12])),
        ...     format_ratio_interval(compare([150.0], [100.0])),
        ... )
        ('1.58 to 2.30', 'a single run')
    """
    one = comparison.deciding
    if not one.exists:
        return "a single run" if one.n < 2 else "too few runs for an interval"
    return describe_estimate_with_interval(one.estimate, one.low, one.high).partition(" (")[2].removesuffix(")")


def format_interval(interval: Interval, digits: int = 2) -> str:
    """An estimate with its interval, or the estimate with the reason why it has none.

    Example:
        >>> format_interval(Interval(0.8123, 0.75, 0.88, 0.95, 3, "Student t"))
        '0.81 [0.75, 0.88]'
        >>> format_interval(Interval.absent(0.8, 0.95, 1, "Student t", "one run"))
        '0.80 (one run: no interval)'
    """
    if not interval.exists:
        return f"{interval.estimate:.{digits}f} (one run: no interval)"
    return f"{interval.estimate:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def format_decided_ratio(comparison: Comparison, digits: int = 2) -> str:
    """A ratio with the interval of the deciding test, and the level of a test of equivalence, which differs.

    Example:
        >>> from citus_analysis.stats import compare
        >>> (
        ...     format_decided_ratio(compare([20.0, 21, 22], [10.0, 11, 12])),
        ...     format_decided_ratio(compare([102, 100, 98], [100, 101, 99])),
        ... )
        ('1.91 [1.58, 2.30]', '1.00 [0.97, 1.03] (90 %, two one-sided tests)')
    """
    text = format_interval(comparison.deciding, digits)
    if comparison.verdict != "equivalent":
        return text
    return f"{text} ({comparison.deciding.level * 100:g} %, two one-sided tests)"


def describe_joint_adjustment(comparisons: Sequence[Comparison]) -> str:
    """Words for intervals of ratios that were adjusted together; empty if none was.

    Example:
        >>> from citus_analysis.stats import compare, compare_many
        >>> one = compare([20.0, 21, 22], [10.0, 11, 12])
        >>> describe_joint_adjustment([one]), describe_joint_adjustment(compare_many([one] * 4))
        ('', 'simultaneous 95 % intervals over 4 comparisons')
        >>> describe_joint_adjustment([*compare_many([one] * 4), *compare_many([one] * 2)])
        'simultaneous 95 % intervals over 2 or 4 comparisons'
    """
    sizes = sorted({one.family_size for one in comparisons if one.ratio.exists})
    if not sizes or max(sizes) < 2:
        return ""
    numbers = " or ".join(map(str, sizes))
    return f"simultaneous {comparisons[0].ratio.level * 100:g} % intervals over {numbers} comparisons"
