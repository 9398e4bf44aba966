"""The coarse profile: how the time of statements divides on average, and how it is distributed.

Two functions compute the same means. :func:`coarse_profile` summarises statements whose tasks and children are paired,
so it gives the distribution of every quantity. :func:`log_line_profile` averages log lines without pairing them, as the
study did, and gives means only. The means of T, W and C are equal if every task has its child in the logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.schema import DATA_STATEMENTS
from citus_analysis.units import US_PER_MS

#: Symbol of the study -> column of `statements`.
QUANTITIES: Final = {"T": "total_us", "P": "parent_us", "W": "wait_us", "C": "child_us", "L": "between_us"}

_BOUNDS: Final = ("parent_low_us", "parent_high_us")
_PERCENTILES: Final = (25, 50, 75, 95, 99)
#: The place of a statement in its session.
_PLACE: Final = ("resource", "iteration", "source_id", "pid", "byte_offset", "session_seq")


@return_callers_frame_kind
def coarse_profile(
    statements: Frame,
    *,
    by: Sequence[str] = ("statement_kind", "executed"),
    quantities: Sequence[str] = tuple(QUANTITIES),
    skip_first: int = 0,
) -> pl.DataFrame:
    """Mean and percentiles of T, P, W, C and L per group of statements.

    Args:
        statements: rows of table `statements`. Statements that failed or touched no shard are left out.
        by: columns of `statements` to group by.
        quantities: symbols of the times.
        skip_first: this many statements at the beginning of each session are left out (plans and connections are
            made there); statements that touched no shard do not count.

    Returns:
        Per group and quantity: `n`, `mean_us`, `p25_us` ... `p99_us` (of all runs together;
        null if n is too small; see :mod:`citus_analysis.spans.profile` for intervals), `warning`:
        why a comparison with another group may mislead, and `note`: the part of P that made connections, and the
        bounds of P if statements have several tasks.
    """
    kept = select_after_warm_up(convert_to_polars(statements), skip_first, [*by, *list_summary_columns(quantities)])
    parts = [_summarise_quantity(kept, by, symbol, QUANTITIES[symbol]) for symbol in quantities]
    order = pl.Enum(list(QUANTITIES))
    profile = pl.concat(parts).with_columns(pl.col("quantity").cast(order)).filter(pl.col("n") > 0)
    return profile.sort(*by, "quantity", nulls_last=True)


def list_summary_columns(quantities: Sequence[str] = tuple(QUANTITIES)) -> tuple[str, ...]:
    """Columns that the summary of some quantities needs besides those to group by."""
    of_parents = (*_BOUNDS, "connect_us") if "P" in quantities else ()
    return (*(QUANTITIES[symbol] for symbol in quantities), *of_parents, "includes_commit", "child_protocol")


def select_after_warm_up(statements: pl.DataFrame, skip_first: int, columns: Sequence[str]) -> pl.DataFrame:
    """The statements that touched a shard and did not fail, without the first ones of each session.

    Args:
        statements: rows of table `statements`.
        skip_first: number of statements to leave out at the beginning of each session.
        columns: columns of the result; copies of all columns would not fit into memory for an hour of statements.
    """
    wanted = list(dict.fromkeys(columns))
    touched, done = pl.col("executed").is_not_null(), ~pl.col("failed")
    if not skip_first:
        entering = statements.select((touched & done).fill_null(value=False)).to_series()
        return statements.select(wanted) if entering.all() else statements.select(wanted).filter(entering)
    number = number_in_sessions(statements)
    return statements.select(wanted).filter((number >= skip_first) & statements.select(done).to_series())


def number_in_sessions(statements: pl.DataFrame) -> pl.Series:
    """The number of each statement that touched a shard among those of its session, from 0; null for others.

    Args:
        statements: rows of table `statements`.
    """
    # Only the columns that determine the order are sorted.
    touched = pl.col("executed").is_not_null()
    placed = statements.lazy().select(*_PLACE, "executed").with_row_index("row").filter(touched)
    ordered = placed.drop("executed").collect().sort(_PLACE[:-1])
    restarted = pl.any_horizontal(
        pl.col("source_id").ne_missing(pl.col("source_id").shift(1)),
        pl.col("pid").ne_missing(pl.col("pid").shift(1)),
        (pl.col("session_seq") <= pl.col("session_seq").shift(1)).fill_null(value=False),
    )
    sessions = ordered.select("row", session=restarted.cum_sum())
    numbers = sessions.select("row", number=pl.int_range(pl.len()).over("session"))
    rows = pl.DataFrame({"row": pl.int_range(statements.height, dtype=pl.UInt32, eager=True)})
    return rows.join(numbers, on="row", how="left", maintain_order="left")["number"]


def _summarise_quantity(kept: pl.DataFrame, by: Sequence[str], symbol: str, column: str) -> pl.DataFrame:
    value = pl.col(column).drop_nulls()
    percentiles = [
        # p99 of 50 values would be their maximum under another name.
        pl.when(value.len() * (100 - percent) >= 100)
        .then(value.quantile(percent / 100, "linear"))
        .alias(f"p{percent}_us")
        for percent in _PERCENTILES
    ]
    return kept.group_by(list(by)).agg(
        pl.lit(symbol).alias("quantity"),
        value.len().alias("n"),
        value.mean().alias("mean_us"),
        *percentiles,
        _commit_warning(symbol).alias("warning"),
        _note(symbol).alias("note"),
    )


def _note(symbol: str) -> pl.Expr:
    """A note on the part of P that made connections, and on the bounds of P."""
    if symbol != "P":
        return pl.lit(None, pl.String)
    made, known = pl.col("connect_us").is_not_null(), pl.col("parent_us").is_not_null()
    several = known & pl.col("parent_high_us").is_not_null()
    share = (pl.col("connect_us").fill_null(0.0).sum() / known.sum() / US_PER_MS).round(2)
    low, high = (pl.coalesce(name, "parent_us").filter(known).mean().truediv(US_PER_MS).round(2) for name in _BOUNDS)
    parts = (
        pl.when(made.any()).then(
            pl.format("connections were made by {} of {}: {} ms of P's mean", made.sum(), known.sum(), share)
        ),
        pl.when(several.any()).then(
            pl.format("tasks overlap, and times have a resolution of 1 ms: P's mean is between {} and {} ms", low, high)
        ),
    )
    said = pl.concat_str(*parts, separator="; ", ignore_nulls=True)
    return pl.when(said != "").then(said)


def _commit_warning(symbol: str) -> pl.Expr:
    writes = pl.col("includes_commit").is_not_null()
    if symbol in ("C", "L"):
        hidden = (writes & (pl.col("child_protocol") == "binary")).any()
        text = {
            "C": "binary protocol: the children's durations end before the commit, its WAL flush is not in C",
            "L": "binary protocol: the children's durations end before the commit, its WAL flush is in L",
        }[symbol]
    elif symbol in ("T", "P"):
        hidden = (writes & ~pl.col("includes_commit")).any()
        text = f"{symbol} ends before the commit (at Sync or COMMIT): it does not contain the WAL flush"
    else:
        return pl.lit(None, pl.String)
    return pl.when(hidden).then(pl.lit(text))


@return_callers_frame_kind
def log_line_profile(log_events: Frame, *, skip_first: int = 0) -> pl.DataFrame:
    """Means over log lines without pairing them, as the study computed them.

    T = durations of parents / number of their statements; W = mean of the task lines; C = durations of children /
    number of their statements on shards; P = T - W; L = W - C. P is valid only if all statements are remote, as in the
    study, because W is a mean over remote statements; otherwise compare T, W and C.

    Args:
        log_events: rows of table `log_events`.
        skip_first: statements left out at the beginning of each session, of parents as of children.

    Returns:
        Per statement kind and quantity (`T`, `W`, `C`, `P`, `L`): `n` lines or statements, `mean_us`.
    """
    lines = _number_session_lines(convert_to_polars(log_events))
    names = ["statement_kind"]
    data = lines.filter(pl.col("statement_kind").is_in(DATA_STATEMENTS) & (pl.col("number") > skip_first))
    timed = pl.col("duration_us").is_not_null()
    opener = pl.col("opens")
    parent = data.filter(pl.col("gpid").is_null())
    child = data.filter(pl.col("gpid").is_not_null() & pl.col("shard_id").is_not_null())
    total = parent.group_by(names).agg(n_T=opener.sum(), T=pl.col("duration_us").filter(timed).sum() / opener.sum())
    wait = parent.group_by(names).agg(n_W=pl.col("task_us").count(), W=pl.col("task_us").mean())
    children = child.group_by(names).agg(n_C=opener.sum(), C=pl.col("duration_us").filter(timed).sum() / opener.sum())
    means = (
        total.join(wait, on=names, how="left")
        .join(children, on=names, how="left")
        .with_columns(P=pl.col("T") - pl.col("W"), L=pl.col("W") - pl.col("C"), n_P="n_W", n_L="n_C")
    )
    rows = [
        means.select(*names, quantity=pl.lit(symbol), n=pl.col(f"n_{symbol}"), mean_us=pl.col(symbol))
        for symbol in QUANTITIES
    ]
    return pl.concat(rows).sort(*names, "quantity")


def _number_session_lines(log_events: pl.DataFrame) -> pl.DataFrame:
    """Lines of each session with the number and kind of the statement that they belong to.

    The first duration after the n-th statement line is the statement's own; later ones (parse and bind) belong to
    the next statement.
    """
    kind = pl.col("kind").cast(pl.String)
    opens = kind.is_in(["execute", "statement"]) & (pl.col("gpid").is_not_null() | pl.col("shard_id").is_null())
    session = ["source_id", "pid", "session"]
    before = pl.col("opens").cum_sum().over(session)
    durations_before = pl.col("timed").cum_sum().over(*session, "statement")
    lines = (
        log_events.sort("source_id", "pid", "byte_offset")
        .with_columns(
            opens=opens,
            timed=pl.col("duration_us").is_not_null() & (kind == "duration"),
            session=(pl.col("session_line") <= pl.col("session_line").shift(1)).fill_null(value=True).cum_sum(),
            kind_of=pl.when(opens).then("statement_kind"),
            shard_of=pl.when(opens).then("shard_id"),
        )
        .filter(pl.col("opens") | pl.col("timed") | pl.col("task_us").is_not_null())
        .with_columns(statement=before)
        .with_columns(
            number=pl.col("statement") + (pl.col("timed") & ((durations_before > 1) | (pl.col("statement") == 0)))
        )
    )
    named = lines.with_columns(
        statement_kind=pl.col("kind_of").drop_nulls().first().over(*session, "number"),
        shard_id=pl.col("shard_of").drop_nulls().first().over(*session, "number"),
    )
    return named.select("gpid", "opens", "number", "statement_kind", "shard_id", "duration_us", "task_us")
