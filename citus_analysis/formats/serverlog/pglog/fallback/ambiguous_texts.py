"""Values of a prefix that could also end elsewhere, found as in `native/prefix.c`, and dropped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import polars as pl

from citus_analysis.formats.serverlog.pglog._prefix import Prefix


def without_ambiguous(heads: pl.DataFrame, prefix: Prefix) -> pl.DataFrame:
    """The fields of prefixes without values that are others if texts end as late as possible.

    The texts between such values are dropped, too.

    Args:
        heads: the fields of each record, as :func:`find_openers` gives them.
        prefix: the prefix.
    """
    if not prefix.latest_patterns or heads.is_empty():
        return heads
    names = [name for name in heads.columns if name not in ("head", "severity")]
    latest = _latest(heads, prefix.latest_patterns, names)
    matched = latest.get_column("severity").is_not_null()
    differs = {name: matched & ~heads.get_column(name).eq_missing(latest.get_column(name)) for name in names}
    texts = [name for name in prefix.texts if name in differs]
    between = {
        name: _any(differs, texts[: place + 1]) & _any(differs, texts[place:]) for place, name in enumerate(texts)
    }
    dropped = differs | between
    return heads.with_columns(pl.when(~pl.lit(dropped[name])).then(pl.col(name)).alias(name) for name in names)


def _latest(heads: pl.DataFrame, patterns: Sequence[str], names: Sequence[str]) -> pl.DataFrame:
    """The fields as the first pattern that fits gives them."""
    given = [
        heads.select(pl.col("head").str.extract_groups(pattern).alias("fields")).unnest("fields").to_dict()
        for pattern in patterns
    ]
    fits = given[0]["severity"].is_not_null()
    nothing = pl.Series([None] * len(heads), dtype=pl.String)
    return pl.DataFrame(
        {
            name: given[0][name] if len(given) == 1 else given[0][name].zip_with(fits, given[1].get(name, nothing))
            for name in ("severity", *names)
        }
    )


def _any(differs: dict[str, pl.Series], names: list[str]) -> pl.Series:
    return reduce(or_, (differs[name] for name in names))
