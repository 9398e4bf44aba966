"""What an explanation states: the finding first, then its parts, then what moved beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl
import polars.selectors as cs

from citus_analysis.attribution.causes import Cause, Explanation, ThroughputAccount, ThroughputPart
from citus_analysis.attribution.decomposition import MOST_OF_KIND, OWN_TERMS
from citus_analysis.attribution.function_changes import ALL_FUNCTIONS, StackChanges, describe_timer_skid
from citus_analysis.attribution.plan_differences import PlanChanges
from citus_analysis.attribution.statement_changes import SegmentChange, StatementChange
from citus_analysis.runs.setting_changes import change_words
from citus_analysis.stats.findings import FindingNumber, ReportFinding, state
from citus_analysis.stats.verdicts import Comparison, Verdict
from citus_analysis.texts.numbers import (
    add_up,
    describe_estimate_with_interval,
    format_number,
    format_p_value,
    format_percent,
    format_with_decimals,
    round_to_digits,
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
_MOST_SHOWN_FUNCTIONS: Final = 3
_MOST_CHANGED_PLANS: Final = 2
_LONGEST_STATEMENT: Final = 90
_ASSOCIATION: Final = "This is an association, not a cause."
#: Executions of a statement that only one side has, to be named.
_ENOUGH_TO_NAME: Final = 20
#: A ratio within these bounds is said in percent, a larger one as a multiple.
_IN_PERCENT: Final = (0.5, 2.0)
_US_BELOW_MS: Final = 0.1
#: A sure segment of a node is stated if it is at least this share of the largest one and of the difference.
_SHOWN_PART: Final = 0.1


#: Kind of finding -> its words. Parts of sentences have the name of the sentence and their own.
TEMPLATES: Final = {
    "difference": "{other} is {ratio} {base}: {size} {more} for {operation} ({measured}).",
    "difference: in percent": "{ratio} % {verdict} ({low} to {high} %) than",
    "difference: slower": "{ratio} times as slow as",
    "difference: faster": "{ratio} times as fast as",
    "no difference": "{other} against {base}: no difference shows; {ratio} times ({measured}).",
    "equivalent": "{other} against {base}: equivalent ({measured}).",
    "no interval": "{other} against {base}: no interval ({measured}).",
    "measured": "{what} {before} to {after}; {runs} against {base_runs}",
    "causes": "Of this, {parts}.{rest}",
    "causes: rest": " The rest, {rest}, is in parts that are smaller or not sure.",
    "no cause": "No part of it is known.",
    "no sure cause": "No single part of it is sure: the largest, {part}, is {cause}.",
    "throughput": "{change}: {law}, {parts}. The rest is {rest}.",
    "throughput: change": "Throughput went from {before} to {after} operations/s{verdict}",
    "throughput: law": "by Little's law ({busy} of {threads} threads in an operation on average)",
    "throughput without parts": "{change}: {law}, no part is larger than rounding.",
    "throughput without sure parts": "{change}: {law}, no part is sure; the largest, {part}, is {cause}.",
    "segments": "Sure by itself{undecided}: {segments}.",
    "segments: undecided": ", though the whole is not decided",
    "segments: each": "the time {segment} on node {node} is {ratio} times as long ({before} to {after}), {size} {more} "
    "for {operation}",
    "statements": "By statement: {statements}{more}.",
    "statements: more": "; {number} more statements changed",
    "statements: time": "takes {ratio} times as long ({before} to {after})",
    "statements: rate": "comes {ratio} times as often ({before} to {after} per {unit})",
    "statements: one side": "comes only in {side}",
    "correlated changes": "{where}, this moved as well: {changes}. This is an association, not a cause.",
    "correlated changes: each": "{what}{node} {before}{unit} before and {after}{unit} after",
    "functions": "By perf's samples ({recordings}), {functions}.{ending}",
    "functions: each": "{name} {verb}{size} {unit} {more}{whole} ({low} to {high})",
    "functions: none beyond chance": "no function differs by more than its number of samples explains",
    "functions: none sure": "no function surely takes more or less {what}",
    "functions unknown": "{notes}",
    "plans": "{plans} This is an association, not a cause.",
    "plans: other": "{statement} has another plan: {before} became {after}{values}.",
    "plans: rows": "; its scans read {before} rows of an execution before and {after} after",
    "plans: ms": "; it took {before} ms and {after} ms",
    "plans: nodes": "In recorded plans, {nodes}.",
    "plans: node": "{node} of {statement} took {before} ms of an execution before and {after} ms after (p {p})",
    "spread": "{spreads} This is an association, not a cause.",
    "spread: each": "{what} spread {less} evenly over {places}: {other}, and before {base} (p {p}).",
    "spread: busiest": "the busiest of {places} has {busiest} % ({even} % if they were spread evenly)",
    "settings": "What differs between the sides as stated: {changes}.{compared}",
    "settings: compared": " Compared: {compared}.",
    "settings not compared": "Settings were not compared: one side or both state none.",
    "equal settings": "Settings that differ: none ({compared}).",
    "example": "Slowest example: one {statement} of {time} (trace {trace}; byte {byte:,} of {file}).",
    "top contributors": "{cause}: {statements}{run} carry {share} of it.",
}


def state_explanation(found: Explanation) -> list[ReportFinding]:
    """The explanation as findings, one for each paragraph."""
    lines = [_state_difference(found)]
    if found.decided:
        lines += [_state_causes(found) if found.named else _state_no_cause(found)]
    if found.throughput_account and found.throughput and (found.decided or found.throughput.verdict not in _NO_CHANGE):
        lines += [_state_throughput(found, found.throughput_account, found.throughput)]
    return [
        *lines,
        *_state_segment_changes(found),
        *_state_statement_changes(found),
        *(_state_correlated_changes(found) if found.decided else []),
        # Each of these is tested by itself, whatever the response times say.
        *(state_functions(found.stacks) if found.stacks else []),
        *(state_plans(found.plans, found.comparison.ratio.level) if found.plans else []),
        *(state_spread(found.skew) if found.skew.height else []),
        _state_settings(found),
        *(_state_slowest_example(found) if found.decided else []),
    ]


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
        (format_number(size), f"{format_number(low)} to {format_number(high)}", format_p_value(p), part)
        for part, size, low, high, p, _ in tabulate_causes(found).iter_rows()
    ]
    table = render_text_table(("ms", "interval", "p", "part of the difference"), rows, right=(0, 1, 2))
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
    return TEMPLATES["top contributors"].format(
        cause=f"{what[0].upper()}{what[1:]}",
        statements=pluralize(cause.top_contributors.statements, "statement"),
        run=f" of run {run}" if run else "",
        share=format_percent(cause.top_contributors.share),
    )


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


def _state_difference(found: Explanation) -> ReportFinding:
    comparison, verdict = found.comparison, found.comparison.verdict
    low, high = comparison.ratio.ends
    time = _choose_printed_times(found) if found.decided else _time
    measured = TEMPLATES["measured"].format(
        what=found.measured,
        before=time(comparison.mean_b.estimate),
        after=time(comparison.mean_a.estimate),
        runs=pluralize(comparison.mean_b.n, found.unit),
        base_runs=comparison.mean_a.n,
    )
    numbers = [replace(comparison, label_a=found.other, label_b=found.base)]
    sides = {"other": found.other, "base": found.base, "measured": measured}
    if low is None or high is None:
        return state(TEMPLATES, "no interval", numbers, **sides)
    if verdict == "equivalent":
        return state(TEMPLATES, "equivalent", numbers, **sides)
    ratio = comparison.ratio.estimate
    if verdict == "inconclusive":
        words = describe_estimate_with_interval(ratio, low, high)
        return state(TEMPLATES, "no difference", numbers, **sides, ratio=words)
    return state(
        TEMPLATES,
        "difference",
        numbers,
        **sides,
        ratio=_describe_ratio(ratio, low, high, verdict),
        size=time(abs(found.difference_us)),
        more="more" if found.difference_us > 0 else "less",
        operation=_name_operation(found),
    )


def _name_operation(found: Explanation) -> str:
    return "an operation" if found.unit == "run" else "a statement"


def _describe_ratio(ratio: float, low: float, high: float, verdict: str) -> str:
    """In percent or, beyond half and double, as a multiple."""
    if _IN_PERCENT[0] < ratio < _IN_PERCENT[1]:
        change, *ends = (abs(one - 1) * 100 for one in (ratio, low, high))
        least, most = round_to_digits(min(ends)), round_to_digits(max(ends))
        words = TEMPLATES["difference: in percent"]
        return words.format(ratio=round_to_digits(change), verdict=verdict, low=least, high=most)
    if verdict == "slower":
        return TEMPLATES["difference: slower"].format(ratio=describe_estimate_with_interval(ratio, low, high))
    return TEMPLATES["difference: faster"].format(ratio=describe_estimate_with_interval(1 / ratio, 1 / high, 1 / low))


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


def _state_causes(found: Explanation) -> ReportFinding:
    """The named parts and the rest: with the signs and decimals with which they add up to the difference as printed."""
    (shown, rest), time = _choose_shown_parts(found), _choose_printed_times(found)
    named = "; ".join(
        f"{_format_part(cause, found, time)} {_choose_verb(cause)} "
        f"{_describe_cause(cause)}{_describe_segments(cause, found, time)}"
        for cause in shown
    )
    left = time(rest * _get_difference_sign(found))
    # Where the rest is nothing as printed, the parts are all of it.
    ending = TEMPLATES["causes: rest"].format(rest=left) if left != time(0.0) else ""
    return state(TEMPLATES, "causes", map(_number_cause, shown), parts=named, rest=ending)


def _number_cause(cause: Cause) -> FindingNumber:
    """A part of the difference with its interval, in ms."""
    size, low, high = (us / US_PER_MS for us in (cause.estimate_us, cause.low_us, cause.high_us))
    return FindingNumber(_describe_cause(cause), "", size, low, high)


def _get_difference_sign(found: Explanation) -> float:
    """1 or -1: parts in the direction of the difference are positive."""
    return 1.0 if found.difference_us >= 0 else -1.0


def _state_throughput(found: Explanation, account: ThroughputAccount, compared: Comparison) -> ReportFinding:
    """The difference of throughput, the check of Little's law, and the parts that are sure of both."""
    busy, threads = (list(dict.fromkeys(map(round_to_digits, pair))) for pair in (account.in_system, account.threads))
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
    numbers: list[Comparison | FindingNumber] = [replace(compared, label_a=found.other, label_b=found.base)]
    words = {
        "change": TEMPLATES["throughput: change"].format(
            before=before, after=after, verdict=_NO_CHANGE.get(compared.verdict, "")
        ),
        "law": TEMPLATES["throughput: law"].format(busy=" and ".join(busy), threads=" and ".join(threads)),
    }
    if not account.parts:
        return state(TEMPLATES, "throughput without parts", numbers, **words)
    if not shown:
        largest = account.parts[0]
        words |= {"part": part_ops(largest), "cause": _describe_cause(largest.cause)}
        return state(TEMPLATES, "throughput without sure parts", numbers, **words)
    named = "; ".join(f"{part_ops(one)} {_choose_verb(one.cause)} {_describe_cause(one.cause)}" for one in shown)
    numbers += [
        FindingNumber(_describe_cause(one.cause), "", one.estimate_ops_s, one.low_ops_s, one.high_ops_s)
        for one in shown
    ]
    return state(TEMPLATES, "throughput", numbers, **words, parts=named, rest=ops(rest))


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


def _state_no_cause(found: Explanation) -> ReportFinding:
    if not found.causes:
        return state(TEMPLATES, "no cause")
    largest = found.causes[0]
    part = _format_part(largest, found, _choose_printed_times(found))
    return state(TEMPLATES, "no sure cause", [_number_cause(largest)], part=part, cause=_describe_cause(largest))


def _state_statement_changes(found: Explanation) -> list[ReportFinding]:
    """What changed for single statements, if there are several; nothing that is not decided."""
    several = len(found.statement_changes) > 1
    words = [_describe_statement_change(one, found) for one in found.statement_changes if several]
    known = [text for text in words if text]
    if not known:
        return []
    rest = len(known) - _MOST_STATEMENTS
    more = TEMPLATES["statements: more"].format(number=rest) if rest > 0 else ""
    return [state(TEMPLATES, "statements", statements="; ".join(known[:_MOST_STATEMENTS]), more=more)]


def _state_segment_changes(found: Explanation) -> list[ReportFinding]:
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
        return []
    words = [_describe_segment_change(one, found) for one in shown[:_MOST_CAUSES]]
    numbers = [replace(one.time, label_a=f"{one.words}, node {one.node}", label_b=found.base) for one in shown]
    undecided = "" if found.decided else TEMPLATES["segments: undecided"]
    return [state(TEMPLATES, "segments", numbers, undecided=undecided, segments="; ".join(words))]


def _describe_segment_change(one: SegmentChange, found: Explanation) -> str:
    return TEMPLATES["segments: each"].format(
        segment=one.words,
        node=one.node,
        ratio=describe_estimate_with_interval(one.time.ratio.estimate, *one.time.deciding.ends),
        before=_time(one.time.mean_b.estimate),
        after=_time(one.time.mean_a.estimate),
        size=_time(one.estimate_us),
        more="more" if one.estimate_us > 0 else "less",
        operation=_name_operation(found),
    )


def _describe_statement_change(one: StatementChange, found: Explanation) -> str:
    words = []
    compared = ("time", one.time, _time), ("rate", one.rate, format_number)
    for kind, test, shown in compared:
        if test is not None and test.verdict in ("faster", "slower"):
            ratio = describe_estimate_with_interval(test.ratio.estimate, *test.ratio.ends)
            before, after = shown(test.mean_b.estimate), shown(test.mean_a.estimate)
            unit = "s" if found.unit != "run" else "operation"
            words.append(TEMPLATES[f"statements: {kind}"].format(ratio=ratio, before=before, after=after, unit=unit))
    if one.presence != "both" and max(one.base_n, one.other_n) >= _ENOUGH_TO_NAME:
        side = found.other if one.presence == "other" else found.base
        words.append(TEMPLATES["statements: one side"].format(side=side))
    return f"{_format_statement_name(one)} {' and '.join(words)}" if words else ""


def _format_statement_name(one: StatementChange) -> str:
    text = one.statement.rstrip("; ") or f"{one.statement_kind.upper()} {one.statement_fingerprint or ''}".strip()
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"


def _state_correlated_changes(found: Explanation) -> list[ReportFinding]:
    node = found.named[0].node if found.named else ""
    mine = [one for one in found.correlated_changes if node and one.node == node]
    shown = (mine or found.correlated_changes)[:_MOST_CORRELATED]
    if not shown:
        return []
    words = [
        TEMPLATES["correlated changes: each"].format(
            what=one.words,
            node="" if mine or not one.node else f" (node {one.node})",
            before=format_number(one.base),
            after=format_number(one.other),
            unit=f" {one.unit}" if one.unit else "",
        )
        for one in shown
    ]
    where = f"On node {node}" if mine else "On the nodes"
    return [state(TEMPLATES, "correlated changes", where=where, changes="; ".join(words))]


def state_functions(found: StackChanges) -> list[ReportFinding]:
    """Functions whose CPU time per operation, or share of the samples, differs."""
    notes = [f"{note[0].upper()}{note[1:]}." for note in found.notes]
    if found.functions.is_empty():
        return [state(TEMPLATES, "functions unknown", notes=" ".join(notes))] if notes else []
    sure = found.functions.filter("decided")
    if max(found.recordings) == 1:
        rows = found.functions.filter((pl.col("low") > 0) | (pl.col("high") < 0))
        none = TEMPLATES["functions: none beyond chance"]
    else:
        what = "CPU time per operation" if found.unit == "µs" else "of the samples"
        rows, none = sure, TEMPLATES["functions: none sure"].format(what=what)
    notes += [note] if (note := describe_timer_skid(found.event)) else []
    numbers = [
        FindingNumber(row["function"], "", row["difference"], row["low"], row["high"])
        for row in rows.head(_MOST_SHOWN_FUNCTIONS + 1).iter_rows(named=True)
    ]
    return [
        state(
            TEMPLATES,
            "functions",
            numbers,
            recordings=f"{pluralize(found.recordings[0], 'recording')} of perf against {found.recordings[1]}, "
            f"{found.event}",
            functions=_describe_functions(rows, found.unit) or none,
            ending=" ".join(["", *([_ASSOCIATION] if sure.height else []), *notes]),
        )
    ]


def _describe_functions(rows: pl.DataFrame, unit: str) -> str:
    """The functions with the largest changes, the whole first, with their intervals."""
    words: list[str] = []
    for row in rows.head(_MOST_SHOWN_FUNCTIONS + 1).iter_rows(named=True):
        ends = sorted((abs(row["low"]), abs(row["high"])))
        size, low, high = (round_to_digits(one) for one in (abs(row["difference"]), *ends))
        is_all = row["function"] == ALL_FUNCTIONS
        verb = "take " if is_all else "takes "
        words.append(
            TEMPLATES["functions: each"].format(
                name="all functions together" if is_all else row["function"],
                # What is measured is said once.
                verb="" if words else verb,
                whole="" if words else " CPU per operation" if unit == "µs" else " of them",
                size=size,
                unit="µs" if unit == "µs" else "points of percent",
                more="more" if row["difference"] > 0 else "less",
                low=low,
                high=high,
            )
        )
    return "; ".join(words)


def state_plans(found: PlanChanges, level: float) -> list[ReportFinding]:
    """Statements with another plan, and nodes of the same plans that take another time."""
    changed = found.statements.filter("changed").head(_MOST_CHANGED_PLANS)
    lines = [_describe_plan(row) for row in changed.iter_rows(named=True)]
    slower = found.nodes.filter(pl.col("p") < 1 - level).head(_MOST_CHANGED_PLANS)
    nodes = [
        TEMPLATES["plans: node"].format(
            node=row["node"],
            statement=_shorten_statement(row["statement"]),
            before=round_to_digits(row["base_self_ms"]),
            after=round_to_digits(row["other_self_ms"]),
            p=format_p_value(row["p"]),
        )
        for row in slower.iter_rows(named=True)
    ]
    lines += [TEMPLATES["plans: nodes"].format(nodes=join_words(nodes))] if nodes else []
    return [state(TEMPLATES, "plans", plans=" ".join(lines))] if lines else []


def _describe_plan(row: Mapping[str, object]) -> str:
    plans = [f"({pluralize(int(str(row[f'{side}_plans'])), 'plan')})" for side in ("base", "other")]
    values = ""
    for name in ("rows", "ms"):
        before, after = row[f"base_{name}"], row[f"other_{name}"]
        if isinstance(before, float) and isinstance(after, float):
            shown = {"before": round_to_digits(before), "after": round_to_digits(after)}
            values += TEMPLATES[f"plans: {name}"].format_map(shown)
    return TEMPLATES["plans: other"].format(
        statement=_shorten_statement(str(row["statement"])),
        before=f"{row['before'] or 'a shorter plan'} {plans[0]}",
        after=f"{row['after'] or 'a shorter plan'} {plans[1]}",
        values=values,
    )


def _shorten_statement(statement: str) -> str:
    return statement if len(statement) <= _LONGEST_STATEMENT else f"{statement[: _LONGEST_STATEMENT - 1]}…"


def state_spread(skew: pl.DataFrame) -> list[ReportFinding]:
    """Spreads over shards and nodes that differ between the sides."""
    lines = []
    for row in skew.filter("decided").iter_rows(named=True):
        other, base = (
            TEMPLATES["spread: busiest"].format(
                places=row[f"{side}_places"],
                busiest=round_to_digits(row[f"{side}_busiest_percent"]),
                even=round_to_digits(row[f"{side}_busiest_if_even_percent"]),
            )
            for side in ("other", "base")
        )
        lines.append(
            TEMPLATES["spread: each"].format(
                what="Executions are" if row["of"] == "executions" else "The time of executions is",
                less="less" if row["effect_size"] > 0 else "more",
                places=row["over"],
                other=other,
                base=base,
                p=format_p_value(row["p"]),
            )
        )
    return [state(TEMPLATES, "spread", spreads=" ".join(lines))] if lines else []


def _state_settings(found: Explanation) -> ReportFinding:
    if words := change_words(found.changes):
        compared = TEMPLATES["settings: compared"].format(compared=found.compared) if found.compared else ""
        return state(TEMPLATES, "settings", changes=words, compared=compared)
    if not found.compared:
        return state(TEMPLATES, "settings not compared")
    return state(TEMPLATES, "equal settings", compared=found.compared)


def _state_slowest_example(found: Explanation) -> list[ReportFinding]:
    return [
        state(
            TEMPLATES,
            "example",
            statement=str(row["statement_kind"]).upper(),
            time=_time(row["total_us"]),
            trace=row["trace_id"],
            byte=row["byte_offset"],
            file=row["file"],
        )
        for row in found.examples.head(1).iter_rows(named=True)
    ]
