"""An explanation in sentences: the finding first, then its parts, then what moved beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl
import polars.selectors as cs

from citus_analysis.attribution.associations import (
    plan_sentences,
    round_to_digits,
    stack_sentences,
    write_skew_sentences,
)
from citus_analysis.attribution.causes import Cause, Explanation, ThroughputAccount, ThroughputPart
from citus_analysis.attribution.decomposition import MOST_OF_KIND, OWN_TERMS
from citus_analysis.attribution.statement_changes import SegmentChange, StatementChange
from citus_analysis.runs.setting_changes import change_words
from citus_analysis.stats.verdicts import Verdict
from citus_analysis.texts.numbers import (
    add_up,
    describe_estimate_with_interval,
    format_number,
    format_p_value,
    format_percent,
    format_with_decimals,
)
from citus_analysis.texts.tables import render_text_table
from citus_analysis.texts.words import join_words, pluralize
from citus_analysis.units import US_PER_MS, US_PER_S

_MOST_CAUSES: Final = 4
_SMALL: Final = 0.01
_CAUSES, _THROUGHPUT = (
    {
        "part": pl.String(),
        **dict.fromkeys((f"estimate_{unit}", f"low_{unit}", f"high_{unit}", "p"), pl.Float64()),
        "decided": pl.Boolean(),
    }
    for unit in ("ms", "ops_s")
)
_MECHANISMS: Final = {
    **dict.fromkeys(("node", "measure", "unit"), pl.String()),
    **dict.fromkeys(("base", "other", "p", "effect_size"), pl.Float64()),
}
_STATEMENTS: Final = {
    "statement": pl.String(),
    **dict.fromkeys(("part_us", "part_low_us", "part_high_us", "base_rate", "other_rate"), pl.Float64()),
    **dict.fromkeys(("rate_ratio", "rate_ratio_low", "rate_ratio_high"), pl.Float64()),
    "rate_verdict": pl.String(),
    **dict.fromkeys(("base_time_us", "other_time_us", "time_ratio", "time_ratio_low", "time_ratio_high"), pl.Float64()),
    "time_verdict": pl.String(),
}
_NO_CHANGE: Final[Mapping[Verdict, str]] = {"inconclusive": " (no difference shows)", "equivalent": " (equivalent)"}
_MOST_CORRELATED: Final = 3
_MOST_STATEMENTS: Final = 3
_MOST_CHARACTERS: Final = 100
#: Executions of a statement that only one side has, to be named.
_ENOUGH_TO_NAME: Final = 20
#: A ratio within these bounds is said in percent, a larger one as a multiple.
_IN_PERCENT: Final = (0.5, 2.0)
_US_BELOW_MS: Final = 0.1
#: A sure segment of a node is stated if it is at least this share of the largest one and of the difference.
_SHOWN_PART: Final = 0.1


def write_explanation_sentences(found: Explanation) -> list[str]:
    """The explanation in sentences, a list entry for each paragraph."""
    lines = [_write_finding(found)]
    if found.decided:
        lines += [_write_causes(found)] if found.named else [_write_no_cause(found)]
    if found.throughput_account and found.throughput and (found.decided or found.throughput.verdict not in _NO_CHANGE):
        lines += [_write_throughput(found, found.throughput_account, found.throughput.verdict)]
    beside = [
        _write_segment_changes(found),
        _write_statement_changes(found),
        _write_correlated_changes(found) if found.decided else "",
        *_write_correlated_sentences(found),
        _changes(found),
    ]
    return [*lines, *(text for text in (*beside, _describe_slowest_example(found) if found.decided else "") if text)]


def _write_correlated_sentences(found: Explanation) -> list[str]:
    """Functions, plans and spreads that differ: each is tested by itself, whatever the response times say."""
    stacks = stack_sentences(found.stacks) if found.stacks else []
    plans = plan_sentences(found.plans, found.comparison.ratio.level) if found.plans else []
    return [*stacks, *plans, *(write_skew_sentences(found.skew) if found.skew.height else [])]


def tabulate_causes(found: Explanation) -> pl.DataFrame:
    """The causes as rows: `part`, `estimate_ms`, `low_ms`, `high_ms`, `p`, `decided`, the largest first.

    Parts of less than a hundredth of the difference that are not sure are left out.
    """
    least = abs(found.difference_us) * _SMALL
    rows = [
        (
            _describe_cause(one),
            *(us / US_PER_MS for us in (one.estimate_us, one.low_us, one.high_us)),
            one.p,
            one.decided,
        )
        for one in found.causes
        if one.decided or abs(one.estimate_us) >= least
    ]
    return pl.DataFrame(rows, schema=_CAUSES, orient="row")


def tabulate_throughput_parts(found: Explanation) -> pl.DataFrame:
    """Parts of throughput: `part`, `estimate_ops_s`, `low_ops_s`, `high_ops_s`, `p`, `decided`; none if it has none."""
    parts = found.throughput_account.parts if found.throughput_account else ()
    rows = [
        (_describe_cause(one.cause), one.estimate_ops_s, one.low_ops_s, one.high_ops_s, one.p, one.decided)
        for one in parts
    ]
    return pl.DataFrame(rows, schema=_THROUGHPUT, orient="row")


def tabulate_statement_changes(found: Explanation) -> pl.DataFrame:
    """What changed for each statement: its part of the difference (with ends), rate and mean time of both sides."""
    rows = [one.to_dict() | {"statement": _format_statement_name(one)} for one in found.statement_changes]
    known = pl.DataFrame(rows, schema=_STATEMENTS)
    in_ms = known.with_columns(cs.ends_with("_us") / US_PER_MS).rename(lambda name: name.replace("_us", "_ms"))
    return in_ms.rename({f"part_{end}_ms": f"part_ms_{end}" for end in ("low", "high")})


def tabulate_correlated_changes(found: Explanation) -> pl.DataFrame:
    """What moved on the nodes: `node`, `measure`, `unit`, `base`, `other`, `p`, `effect_size`."""
    rows = [
        (one.node, one.words, one.unit, one.base, one.other, one.p, one.effect_size) for one in found.correlated_changes
    ]
    return pl.DataFrame(rows, schema=_MECHANISMS, orient="row")


def format_explanation(found: Explanation) -> str:
    """Sentences, and a table of the causes."""
    rows = [
        (part, format_number(size), f"{format_number(low)} to {format_number(high)}", format_p_value(p))
        for part, size, low, high, p, _ in tabulate_causes(found).iter_rows()
    ]
    table = render_text_table(("part of the difference", "ms", "interval", "p"), rows, right=(1, 2, 3))
    total = f"all {pluralize(found.terms.height, 'term')}: {format_number(found.difference_us / US_PER_MS)} ms"
    shown = [
        f"{describe_top_contributors(one)}\n  ca.explorer.{one.top_contributors.call}"
        for one in found.carried
        if one.top_contributors
    ]
    return "\n".join([*found.summary_lines(), "", *table, total, *([""] if shown else []), *shown])


def describe_top_contributors(cause: Cause) -> str:
    """The statements that carry most of a cause, in words; empty if no traced statement does.

    The explorer's selection (`cause.top_contributors.selection`) contains them.
    """
    if cause.top_contributors is None:
        return ""
    what, run = _describe_cause(cause), cause.top_contributors.selection.get("run")
    where = f" of run {run}" if run else ""
    share = format_percent(cause.top_contributors.share)
    statements = pluralize(cause.top_contributors.statements, "statement")
    return f"{what[0].upper()}{what[1:]}: {statements}{where} carry {share} of it."


@dataclass(frozen=True)
class _Times:
    """How the times of an account are printed: in one unit, with the decimals with which they add up."""

    per_unit_us: float
    unit: str
    decimals: int

    @classmethod
    def of(cls, found: Explanation, shown: Sequence[Cause], rest_us: float) -> _Times:
        """The times of a difference, of both means, and of its parts and the rest; each part shows two digits."""
        size = abs(found.difference_us)
        long = [(US_PER_S, "s"), (US_PER_MS, "ms")]
        per_unit, unit = next(
            ((us, name) for us, name in long if size >= us * (1 if name == "s" else 0.1)), (1.0, "µs")
        )
        means = (found.comparison.mean_a.estimate, -found.comparison.mean_b.estimate)
        parts = [*(cause.estimate_us for cause in shown), rest_us] if shown else []
        sums = [([us / per_unit for us in part], found.difference_us / per_unit) for part in (means, parts) if part]
        least = min([size, *(abs(cause.estimate_us) for cause in shown)])
        return cls(per_unit, unit, add_up(sums, digits=_choose_decimals(least / per_unit)))

    def __call__(self, us: float) -> str:
        """A time, with its sign."""
        return f"{format_with_decimals(us / self.per_unit_us, self.decimals)} {self.unit}"


def _choose_decimals(size: float) -> int:
    """The decimals with which a number shows at least two digits."""
    return max(0, 1 - math.floor(math.log10(size))) if size else 0


def _choose_shown_parts(found: Explanation) -> tuple[tuple[Cause, ...], float]:
    """The named causes, and the rest of the difference, in µs."""
    shown = found.named[:_MOST_CAUSES]
    return shown, found.difference_us - sum(cause.estimate_us for cause in shown)


def _choose_printed_times(found: Explanation) -> _Times:
    return _Times.of(found, *_choose_shown_parts(found))


def _time(us: float, *, sign: bool = False) -> str:
    """A time as a person says it."""
    size, mark = abs(us), "-" if sign and us < 0 else ""
    if size < _US_BELOW_MS * US_PER_MS:
        return f"{mark}{round_to_digits(size)} µs"
    if size < 1000 * US_PER_MS:
        return f"{mark}{round_to_digits(size / US_PER_MS)} ms"
    return f"{mark}{round_to_digits(size / US_PER_MS / 1000)} s"


def _write_finding(found: Explanation) -> str:
    ratio, verdict = found.comparison.ratio, found.comparison.verdict
    low, high = ratio.ends
    runs = f"{pluralize(found.comparison.mean_b.n, found.unit)} against {found.comparison.mean_a.n}"
    time = _choose_printed_times(found) if found.decided else _time
    means = f"{time(found.comparison.mean_b.estimate)} to {time(found.comparison.mean_a.estimate)}"
    measured = f"{found.measured} {means}; {runs}"
    sides = f"{found.other} against {found.base}"
    if low is None or high is None:
        return f"{sides}: no interval ({measured})."
    if verdict == "equivalent":
        return f"{sides}: equivalent ({measured})."
    if verdict == "inconclusive":
        return (
            f"{sides}: no difference shows; {describe_estimate_with_interval(ratio.estimate, low, high)} "
            f"times ({measured})."
        )
    of = "an operation" if found.unit == "run" else "a statement"
    change = f"{time(abs(found.difference_us))} {'more' if found.difference_us > 0 else 'less'} for {of}"
    return (
        f"{found.other} is {_describe_ratio(ratio.estimate, low, high, verdict)} {found.base}: {change} ({measured})."
    )


def _describe_ratio(ratio: float, low: float, high: float, verdict: str) -> str:
    """In percent or, beyond half and double, as a multiple."""
    if _IN_PERCENT[0] < ratio < _IN_PERCENT[1]:
        change, *ends = (abs(one - 1) * 100 for one in (ratio, low, high))
        return (
            f"{round_to_digits(change)} % {verdict} ({round_to_digits(min(ends))} to "
            f"{round_to_digits(max(ends))} %) than"
        )
    if verdict == "slower":
        return f"{describe_estimate_with_interval(ratio, low, high)} times as slow as"
    return f"{describe_estimate_with_interval(1 / ratio, 1 / high, 1 / low)} times as fast as"


def _describe_cause(cause: Cause) -> str:
    """A cause in words, with its place and the kind of statement that it is of."""
    where = f"of node {cause.node}" if cause.segment == "child_us" else f"on node {cause.node}"
    words = [cause.words, where if cause.node else ""]
    if cause.effect == "segment" and not cause.node:
        is_placed = len(cause.parts) > 1 and all(part.node for part in cause.parts)
        words.append(f"on {pluralize(len(cause.parts), 'node')}" if is_placed else "")
    if cause.statement_kind and cause.statement_share >= MOST_OF_KIND and cause.effect in ("time", "node", "segment"):
        words.append(f"({cause.statement_kind.upper()})")
    return " ".join(word for word in words if word)


def _write_causes(found: Explanation) -> str:
    """The named parts and the rest: with the signs and decimals with which they add up to the difference as printed."""
    (shown, rest), time = _choose_shown_parts(found), _choose_printed_times(found)
    named = "; ".join(
        f"{_format_part(cause, found, time)} {_choose_verb(cause)} "
        f"{_describe_cause(cause)}{_describe_segments(cause, found, time)}"
        for cause in shown
    )
    left = time(rest * _get_difference_sign(found))
    # Where the rest is nothing as printed, the parts are all of it.
    ending = f" The rest, {left}, is in parts that are smaller or not sure." if left != time(0.0) else ""
    return f"Of this, {named}.{ending}"


def _get_difference_sign(found: Explanation) -> float:
    """1 or -1: parts in the direction of the difference are positive."""
    return 1.0 if found.difference_us >= 0 else -1.0


def _write_throughput(found: Explanation, account: ThroughputAccount, verdict: Verdict) -> str:
    """The difference of throughput, the check of Little's law, and the parts that are sure of both."""
    busy, threads = (list(dict.fromkeys(map(round_to_digits, pair))) for pair in (account.in_system, account.threads))
    used = f"{' and '.join(busy)} of {' and '.join(threads)} threads"
    sure = [one for one in account.parts if one.decided]
    shown = [one for one in sure if one.cause.effect in OWN_TERMS or (found.decided and one.cause.decided)]
    shown = shown[:_MOST_CAUSES]
    rest = account.difference_ops_s - sum(one.estimate_ops_s for one in shown)
    means, parts = (account.other_ops_s, -account.base_ops_s), [*(one.estimate_ops_s for one in shown), rest]
    sums = [(part, account.difference_ops_s) for part in (means, parts)]
    # A fifth digit of a throughput says nothing.
    decimals = add_up(
        sums, digits=min(_choose_decimals(abs(account.difference_ops_s)), _choose_decimals(account.base_ops_s / 10))
    )

    def ops(ops_s: float, *, sign: bool = True) -> str:
        return f"{'+' if sign and ops_s > 0 else ''}{format_with_decimals(ops_s, decimals)}"

    def part_ops(one: ThroughputPart) -> str:
        return f"{ops(one.estimate_ops_s)} ({ops(one.low_ops_s)} to {ops(one.high_ops_s)})"

    before, after = (ops(mean, sign=False) for mean in (account.base_ops_s, account.other_ops_s))
    change = f"Throughput went from {before} to {after} operations/s{_NO_CHANGE.get(verdict, '')}"
    law = f"by Little's law ({used} in an operation on average)"
    if not shown:
        if not account.parts:
            return f"{change}: {law}, no part is larger than rounding."
        largest = account.parts[0]
        return (
            f"{change}: {law}, no part is sure; the largest, {part_ops(largest)}, is {_describe_cause(largest.cause)}."
        )
    named = "; ".join(f"{part_ops(one)} {_choose_verb(one.cause)} {_describe_cause(one.cause)}" for one in shown)
    return f"{change}: {law}, {named}. The rest is {ops(rest)}."


def _choose_verb(cause: Cause) -> str:
    return "pass" if cause.effect == "node" and not cause.segment else "are"


def _describe_segments(cause: Cause, found: Explanation, time: _Times) -> str:
    """The segments of a node of which none has most."""
    parts = [part for part in cause.parts if part.decided][:_MOST_CAUSES]
    if cause.effect != "node" or not parts:
        return ""
    named = [f"{time(part.estimate_us * _get_difference_sign(found))} {part.words}" for part in parts]
    if cause.segment:
        return f" (all on this node, {join_words(named)})" if len(parts) > 1 else ""
    return f", {join_words(named)} among them"


def _format_part(cause: Cause, found: Explanation, time: _Times) -> str:
    """Size and interval; a part against the direction of the difference is negative."""
    size, *ends = (_get_difference_sign(found) * us for us in (cause.estimate_us, cause.low_us, cause.high_us))
    low, high = sorted(ends)
    return f"{time(size)} ({time(low)} to {time(high)})"


def _write_no_cause(found: Explanation) -> str:
    if not found.causes:
        return "No part of it is known."
    largest = found.causes[0]
    return (
        "No single part of it is sure: the largest, "
        f"{_format_part(largest, found, _choose_printed_times(found))}, is {_describe_cause(largest)}."
    )


def _write_statement_changes(found: Explanation) -> str:
    """What changed for single statements, if there are several; nothing that is not decided."""
    several = len(found.statement_changes) > 1
    words = [_describe_statement_change(one, found) for one in found.statement_changes if several]
    known = [text for text in words if text]
    if not known:
        return ""
    more = f"; {len(known) - _MOST_STATEMENTS} more statements changed" if len(known) > _MOST_STATEMENTS else ""
    return f"By statement: {'; '.join(known[:_MOST_STATEMENTS])}{more}."


def _write_segment_changes(found: Explanation) -> str:
    """Segments on single nodes that are sure by themselves, and that no named part states already."""
    stated = {
        (part.segment, part.node)
        for cause in found.named
        for part in ((cause, *cause.parts) if cause.node and cause.segment else cause.parts)
        if part.decided
    }
    sure = [one for one in found.segment_changes if one.decided and (one.segment, one.node) not in stated]
    # What is a small part of the difference and of the other sure ones is no story.
    largest = max((abs(one.estimate_us) for one in sure), default=0.0)
    shown = [one for one in sure if abs(one.estimate_us) >= _SHOWN_PART * max(largest, abs(found.difference_us))]
    if not shown:
        return ""
    words = [_describe_segment_change(one, found) for one in shown[:_MOST_CAUSES]]
    whole = "" if found.decided else ", though the whole is not decided"
    return f"Sure by itself{whole}: {'; '.join(words)}."


def _describe_segment_change(one: SegmentChange, found: Explanation) -> str:
    where = f"on node {one.node}"
    ratio = describe_estimate_with_interval(one.time.ratio.estimate, *one.time.deciding.ends)
    means = f"{_time(one.time.mean_b.estimate)} to {_time(one.time.mean_a.estimate)}"
    more = f"{_time(one.estimate_us)} {'more' if one.estimate_us > 0 else 'less'}"
    of = "an operation" if found.unit == "run" else "a statement"
    return f"the time {one.words} {where} is {ratio} times as long ({means}), {more} for {of}"


def _describe_statement_change(one: StatementChange, found: Explanation) -> str:
    unit = "s" if found.unit != "run" else "operation"
    words = []
    compared = (one.time, "takes", "long", _time, ""), (one.rate, "comes", "often", format_number, f" per {unit}")
    for test, verb, how, shown, per in compared:
        if test is not None and test.verdict in ("faster", "slower"):
            times = f"{verb} {describe_estimate_with_interval(test.ratio.estimate, *test.ratio.ends)} times as {how}"
            words.append(f"{times} ({shown(test.mean_b.estimate)} to {shown(test.mean_a.estimate)}{per})")
    if one.presence != "both" and max(one.base_n, one.other_n) >= _ENOUGH_TO_NAME:
        words.append(f"comes only in {found.other if one.presence == 'other' else found.base}")
    return f"{_format_statement_name(one)} {' and '.join(words)}" if words else ""


def _format_statement_name(one: StatementChange) -> str:
    text = one.statement.rstrip("; ") or f"{one.statement_kind.upper()} {one.statement_fingerprint or ''}".strip()
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"


def _write_correlated_changes(found: Explanation) -> str:
    node = found.named[0].node if found.named else ""
    mine = [one for one in found.correlated_changes if node and one.node == node]
    where = f"On node {node}" if mine else "On the nodes"
    words = [
        f"{one.words}{'' if mine or not one.node else f' (node {one.node})'} "
        f"{format_number(one.base)}{_format_unit(one.unit)} before and "
        f"{format_number(one.other)}{_format_unit(one.unit)} after"
        for one in (mine or found.correlated_changes)[:_MOST_CORRELATED]
    ]
    if not words:
        return ""
    return f"{where}, this moved as well: {'; '.join(words)}. This is an association, not a cause."


def _format_unit(unit: str) -> str:
    return f" {unit}" if unit else ""


def _changes(found: Explanation) -> str:
    words = change_words(found.changes)
    if words:
        which = f" Compared: {found.compared}." if found.compared else ""
        return f"What differs between the sides as stated: {words}.{which}"
    if not found.compared:
        return "Settings were not compared: one side or both state none."
    return f"Settings that differ: none ({found.compared})."


def _describe_slowest_example(found: Explanation) -> str:
    if found.examples.is_empty():
        return ""
    row = found.examples.row(0, named=True)
    return (
        f"Slowest example: one {str(row['statement_kind']).upper()} of {_time(row['total_us'])} "
        f"(trace {row['trace_id']}; byte {row['byte_offset']:,} of {row['file']})."
    )
