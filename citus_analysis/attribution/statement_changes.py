"""What changed for each statement, by its text without constants: how often it comes, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import numpy as np
import polars as pl

from citus_analysis.attribution.observed import STATEMENTS_PER_S, STRETCHES, Observed, ObservedSample
from citus_analysis.core.frames import TableSource
from citus_analysis.core.type_aliases import Floats, Integers
from citus_analysis.serverlogs.statements import find_opening_records, normalise_statement, read_texts
from citus_analysis.serverlogs.windows import LogSource, LogWindow, WindowedLogs
from citus_analysis.stats.verdicts import Comparison, compare, compare_many

#: Statements that are compared: those with the most time on both sides.
_MOST: Final = 50
#: Fewest executions on a side whose mean time, or number, is compared.
_FEWEST: Final = 20
_OF_RATES: Final = {"faster": "more often", "slower": "less often"}
_KIND: Final = ("statement_kind", "statement_fingerprint")


@dataclass(frozen=True)
class StatementChange:
    """One statement on both sides of a difference.

    Attributes:
        statement_kind: select, insert ...
        statement: its text without constants; empty if the raw logs are not readable any more.
        statement_fingerprint: that of its records; None if no record names the statement.
        base_n: executions of the base that were traced.
        other_n: executions of the other side.
        part_us: all terms of the account that are of this statement.
        part_low_us: lower end of its interval, which holds together with those of the other statements.
        part_high_us: upper end.
        rate: how often it comes: per second in logs without runs, otherwise per operation; None with too few
            executions. `faster` means more often.
        time: its mean time (µs); None with too few executions.
        segment: the segment, of those on `node`, whose time changed most.
        node: the node with it.
    """

    statement_kind: str
    statement: str
    statement_fingerprint: int | None
    base_n: int
    other_n: int
    part_us: float
    part_low_us: float
    part_high_us: float
    rate: Comparison | None
    time: Comparison | None
    segment: str = ""
    node: str = ""

    @property
    def presence(self) -> Literal["both", "base", "other"]:
        """The sides that have it."""
        if not self.base_n:
            return "other"
        return "both" if self.other_n else "base"

    def to_dict(self) -> dict[str, object]:
        """As plain values, with the ratios of rates and times."""
        names = ("statement_kind", "statement", "statement_fingerprint", "base_n", "other_n", "presence", "segment")
        parts = ("node", "part_us", "part_low_us", "part_high_us")
        plain = {name: getattr(self, name) for name in (*names, *parts)}
        return plain | _record("rate", self.rate) | _record("time_us", self.time)


def _record(name: str, one: Comparison | None) -> dict[str, object]:
    means = {f"base_{name}": one and one.mean_b.estimate, f"other_{name}": one and one.mean_a.estimate}
    ends = one.ratio.ends if one else (None, None)
    ratio = f"{name.removesuffix('_us')}_ratio"
    ratios = {ratio: one and one.ratio.estimate, f"{ratio}_low": ends[0], f"{ratio}_high": ends[1]}
    verdict = one and (_OF_RATES.get(one.verdict, one.verdict) if name == "rate" else one.verdict)
    return {**means, **ratios, f"{name.removesuffix('_us')}_verdict": verdict}


def find_statement_changes(
    sides: Observed, parts: pl.DataFrame, level: float, margin: float
) -> tuple[StatementChange, ...]:
    """The statements with the most time on both sides, the largest part of the difference first.

    Rates and mean times are compared over the runs (or stretches), by Welch's t on the log of the ratio, adjusted over
    all of them by Holm.

    Args:
        sides: what was observed.
        parts: one row per kind of statement, in the order of the kinds: `part_us`, `low_us`, `high_us`, `segment`,
            `node`.
        level: confidence level.
        margin: relative difference that counts as none.
    """
    kinds = sides.cells["kind"].to_numpy().astype(np.int64)
    named = sides.cells.unique("kind").sort("kind").select(*_KIND)
    executions = [_count_executions(sides.timed, number, named) for number in (0, 1)]
    measured = [_sum_statements_by_kind(side, kinds, parts.height) for side in sides.both]
    whole = np.sum([totals.sum(axis=0) for _, totals in measured], axis=0)
    chosen = [int(kind) for kind in np.argsort(-whole, kind="stable")[:_MOST]]
    texts = _read_statement_texts(sides.sources, named[chosen]["statement_fingerprint"])
    enough = [kind for kind in chosen if min(executions[0][kind], executions[1][kind]) >= _FEWEST]
    tests = list(_compare_rates_and_means(measured, enough, (sides.other.name, sides.base.name), level, margin))
    adjusted = iter(compare_many([one for one in tests if one is not None], level=level))
    compared = [one and next(adjusted) for one in tests]
    found = {kind: compared[2 * i : 2 * i + 2] for i, kind in enumerate(enough)}
    rows = [
        StatementChange(
            named[kind, "statement_kind"] or "",
            texts.get(named[kind, "statement_fingerprint"], ""),
            named[kind, "statement_fingerprint"],
            int(executions[0][kind]),
            int(executions[1][kind]),
            *parts.row(kind)[:3],
            *found.get(kind, (None, None)),
            *parts.row(kind)[3:],
        )
        for kind in chosen
    ]
    return tuple(sorted(rows, key=lambda one: -abs(one.part_us)))


def _count_executions(timed: pl.DataFrame, side: int, named: pl.DataFrame) -> Integers:
    counts = timed.filter(side=side).group_by(_KIND).len().with_columns(pl.col("statement_kind").cast(pl.String))
    found = named.join(counts, on=_KIND, how="left", nulls_equal=True, maintain_order="left")
    return found["len"].fill_null(0).to_numpy().astype(np.int64)


def _sum_statements_by_kind(side: ObservedSample, kinds: Integers, number: int) -> tuple[Floats, Floats]:
    """How often each kind of statement comes, and its time in all, by run and kind."""
    is_of = np.eye(number)[kinds]
    counts, totals = side.counts @ is_of, side.times.sum(axis=2) @ is_of
    per_s = side.table.get_column(STATEMENTS_PER_S, default=None)
    if per_s is None:
        return counts, totals
    # In stretches without any statement, each kind comes 0 times.
    scaled = np.stack([counts, totals]) * per_s.to_numpy()[:, None]
    padded = np.pad(scaled, ((0, 0), (0, STRETCHES - side.runs), (0, 0)))
    return padded[0], padded[1]


def _compare_rates_and_means(
    measured: list[tuple[Floats, Floats]], chosen: list[int], labels: tuple[str, str], level: float, margin: float
) -> Iterator[Comparison | None]:
    """The comparison of rates and that of mean times, for each kind."""
    compared = partial(compare, margin=margin, level=level, label_a=labels[0], label_b=labels[1])
    for kind in chosen:
        rates = [counts[:, kind] for counts, _ in measured]
        times = [totals[counts[:, kind] > 0, kind] / counts[counts[:, kind] > 0, kind] for counts, totals in measured]
        for values, better, metric in ((rates, True, "rate"), (times, False, "time_us")):
            base, other = values
            few = min(base.size, other.size) < 2
            yield None if few else compared(other, base, higher_is_better=better, metric=metric)


def _read_statement_texts(sources: tuple[TableSource, TableSource], fingerprints: pl.Series) -> dict[int, str]:
    """Fingerprint -> text without constants, where a raw log still has it."""
    texts: dict[int, str] = {}
    for source in sources:
        wanted = fingerprints.drop_nulls().filter(~fingerprints.drop_nulls().is_in(list(texts)))
        if not isinstance(source, LogSource) or wanted.is_empty():
            continue
        logs = WindowedLogs.of(source, LogWindow())
        records = find_opening_records(logs, wanted)
        rows = records.join(read_texts(logs, records).rows, on=["source_id", "byte_offset"]).drop_nulls("text")
        texts |= {name: normalise_statement(text) for name, text in rows.select("fingerprint", "text").iter_rows()}
    return texts
