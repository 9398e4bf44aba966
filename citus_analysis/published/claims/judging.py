"""Claims judged: supported, contradicted, undecided, as stated only, or not covered by the data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Final, Literal

import polars as pl

from citus_analysis.core.displays import Shown
from citus_analysis.core.frames import Frame, TableSource, as_polars, in_callers_kind
from citus_analysis.defaults import LEVEL
from citus_analysis.errors import UnknownNameError
from citus_analysis.published.claims.claim_evidence import Selected, selected_printed, selected_runs
from citus_analysis.published.claims.claim_file import Claim, read_claims
from citus_analysis.published.claims.claim_form import Form
from citus_analysis.stats._validate import check_level
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.number_text import readable

ClaimVerdict = Literal["supported", "contradicted", "undecided", "as stated", "no data"]
VERDICTS: Final[tuple[ClaimVerdict, ...]] = ("supported", "contradicted", "undecided", "as stated", "no data")
_JUDGES: Final = ("runs", "printed numbers")
#: An interval whose ends are further apart than this factor says nothing; it is not shown.
_WIDEST: Final = 1_000.0
#: Suffix of metrics that are at most 1.
_SHARE: Final = "_share"
_SCHEMA: Final = {
    **dict.fromkeys(("claim", "source", "place", "judged_by", "verdict"), pl.String),
    **dict.fromkeys(("estimate", "low", "high"), pl.Float64),
    "n": pl.Int64,
    "method": pl.String,
    "runs_needed": pl.Int64,
    **dict.fromkeys(("form", "configuration", "explanation", "warnings"), pl.String),
}


@dataclass(frozen=True, repr=False, eq=False)
class JudgedClaims(Shown):
    """Claims with their verdicts.

    Attributes:
        claims: one row per claim and configuration that it is about: claim, source, place, judged_by (`runs` or
            `printed numbers`), verdict, estimate with low and high, n, method, runs_needed (further runs of each side),
            form, configuration, explanation, warnings.
        level: confidence level of all intervals together.
    """

    claims: pl.DataFrame
    level: float

    @property
    def _rows(self) -> pl.DataFrame:
        # The caller's frame may be one of pandas or Arrow.
        return as_polars(self.claims)

    def count(self, verdict: ClaimVerdict, judged_by: str | None = None) -> int:
        """The number of rows with a verdict."""
        rows = self._rows if judged_by is None else self._rows.filter(pl.col("judged_by") == judged_by)
        return int((rows["verdict"] == verdict).sum())

    @property
    def exit_code(self) -> int:
        """0: all supported, or only stated; 1: one contradicted; 4: none contradicted, but not all supported.

        Rows judged by runs count if there are any, else those judged by printed numbers.
        """
        by = next(judge for judge in _JUDGES if (self._rows["judged_by"] == judge).any())
        if self.count("contradicted", by):
            return 1
        return 4 if self.count("undecided", by) or self.count("no data", by) else 0

    def summary_lines(self) -> list[str]:
        """The number of rows by verdict."""
        counts = Counter(self._rows["verdict"])
        words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
        claims = self._rows["claim"].n_unique()
        # A claim about several configurations, or by runs and by printed numbers, has several verdicts.
        verdicts = f", {counted(self._rows.height, 'verdict')}" if self._rows.height != claims else ""
        return [f"{counted(claims, 'claim')}{verdicts}: {words}"]

    def summary_table(self) -> pl.DataFrame | None:
        """The verdicts."""
        return self._rows.select("claim", "source", "place", "judged_by", "verdict", "estimate", "low", "high", "n")

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        counts: dict[str, object] = {verdict: self.count(verdict) for verdict in VERDICTS}
        return {"level": self.level, "verdicts": counts, "claims": self._rows.to_dicts()}


@in_callers_kind
def judge_claims(
    source: TableSource | Frame | None = None,
    files: Sequence[str | PathLike[str]] = (),
    level: float = LEVEL,
) -> JudgedClaims:
    """Judge claims by runs, and by the printed numbers of their publications.

    A claim is supported if the whole interval of its ratio, difference or mean fulfils its form, contradicted if the
    whole interval lies outside, and undecided otherwise. A printed number that is known from the claim's own sentence
    only confirms nothing: the claim is `as stated`. All intervals of a call hold together at the level
    (Bonferroni: each claim has the same share of the error, and divides it among its configurations). `about` is
    judged by two one-sided tests. Printed numbers without standard deviation and n have no interval.

    Args:
        source: a dataset, or a frame of the table `runs`; None: printed numbers only.
        files: files of claims (docs/claims.md); by default the claims that ship with the library.
        level: confidence level.

    Raises:
        InputError: a file is unusable, or a form names an unknown metric or column.

    Example:
        >>> found = judge_claims()
        >>> found.claims.height >= 24
        True
    """
    check_level(level)
    claims = [claim for file in files for claim in read_claims(file)] if files else list(read_claims())
    cases = [one for claim in claims for one in _cases(claim, source)]
    rows: list[dict[str, object]] = []
    for by in _JUDGES:
        those = [one for one in cases if one.by == by]
        tested = (one for one in those if one.selected.estimate is not None and one.selected.estimate.freedom > 0)
        intervals = Counter(id(one.claim) for one in tested)
        # Each claim has the same share of the error, and divides it among its configurations.
        rows += [_judged(one, len(intervals) * intervals[id(one.claim)] or 1, level) for one in those]
    return JudgedClaims(pl.DataFrame(rows, schema=_SCHEMA), level)


@dataclass(frozen=True)
class _Case:
    """A claim in one configuration, and what judges it."""

    claim: Claim
    form: Form | None
    by: Literal["runs", "printed numbers"]
    selected: Selected


def _cases(claim: Claim, source: TableSource | Frame | None) -> Iterator[_Case]:
    try:
        if source is not None and claim.form is not None:
            yield from (_Case(claim, claim.form, "runs", one) for one in selected_runs(source, claim.form))
        if claim.printed is not None:
            found = selected_printed(claim.stated.source, claim.printed, claim.stated.place)
            yield _Case(claim, claim.printed, "printed numbers", found)
        elif source is None:
            reason = "no printed number bears on it: name a dataset"
            yield _Case(claim, claim.form, "printed numbers", Selected("", None, reason))
    except UnknownNameError as error:
        raise claim.refused(error) from error


def _judged(one: _Case, family: int, level: float) -> dict[str, object]:
    stated, estimate = one.claim.stated, one.selected.estimate
    row: dict[str, object] = {
        "claim": stated.claim,
        "source": stated.source,
        "place": stated.place,
        "judged_by": one.by,
        "verdict": "no data",
        "form": None if one.form is None else str(one.form),
        "configuration": one.selected.configuration,
        "explanation": one.selected.reason,
        "warnings": "; ".join(one.selected.warnings),
    }
    if estimate is None or one.form is None:
        return row
    low, high = one.form.bound.ends(one.form.quantity)
    # The two one-sided tests of an equivalence leave the whole error probability on each side.
    equivalence = one.form.bound.kind == "about"
    tail = (1 - level) / family / (1 if equivalence else 2)
    ends = estimate.ends(tail)
    if ends is not None and one.form.metric.endswith(_SHARE):
        ends = min(ends[0], 1.0), min(ends[1], 1.0)
    row |= {"estimate": estimate.shown, "n": estimate.n}
    if ends is None:
        return row | _without_interval(one, estimate.shown, low, high)
    verdict = "supported" if low <= ends[0] and ends[1] <= high else "undecided"
    verdict = "contradicted" if ends[1] < low or ends[0] > high else verdict
    verdict = "as stated" if verdict == "supported" and one.selected.is_own else verdict
    missing = estimate.runs_missing(low, high, tail) if verdict == "undecided" else None
    several = f", simultaneous over {family}" if family > 1 else ""
    method = estimate.method + (", two one-sided tests" if equivalence else "") + several
    each = "" if one.form.quantity == "mean" else " of each side"
    advice = "" if missing is None else f"; about {counted(missing, 'more run')}{each} would decide"
    shown: tuple[float | None, float | None] = ends
    if estimate.logarithm and ends[1] > _WIDEST * ends[0]:
        shown = (None, None)
        words = f"{readable(estimate.shown)}; {counted(estimate.n, 'run')}{each} are too few for an interval"
    else:
        words = f"{readable(estimate.shown)} [{readable(ends[0])}, {readable(ends[1])}] for '{one.form.bound}'"
    return row | {
        "verdict": verdict,
        "low": shown[0],
        "high": shown[1],
        "method": method,
        "runs_needed": missing,
        "explanation": words + advice,
    }


def _without_interval(one: _Case, value: float, low: float, high: float) -> dict[str, object]:
    """The verdict without a spread: printed values are taken as they are, one run decides nothing."""
    if one.by == "runs":
        return {"verdict": "undecided", "explanation": "one run has no spread: two of each side at least are needed"}
    verdict = "supported" if low <= value <= high and not math.isnan(value) else "contradicted"
    words = f"{verdict} by the printed values ({readable(value)}), without interval"
    if verdict == "supported" and one.selected.is_own:
        verdict, words = "as stated", f"the sentence itself states {readable(value)}; no other number bears on it"
    return {"verdict": verdict, "method": "printed values, without interval", "explanation": words}
