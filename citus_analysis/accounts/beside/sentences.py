"""What moved beside an account, in sentences: functions in perf's samples, plans, and the spread over shards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from citus_analysis.accounts.beside.plan_changes import PlanChanges
from citus_analysis.accounts.beside.stack_changes import ALL_FUNCTIONS, CLOCK_EVENTS, StackChanges
from citus_analysis.texts.counted_words import counted, listed
from citus_analysis.texts.number_text import p_text

_MOST_FUNCTIONS: Final = 3
_MOST_STATEMENTS: Final = 2
_LONGEST_STATEMENT: Final = 90
_ASSOCIATION: Final = "This is an association, not a cause."


def stack_sentences(found: StackChanges) -> list[str]:
    """Functions whose CPU time per operation, or share of the samples, differs."""
    notes = [f"{note[0].upper()}{note[1:]}." for note in found.notes]
    if found.functions.is_empty():
        return [" ".join(notes)] if notes else []
    what = "CPU time per operation" if found.unit == "µs" else "of the samples"
    runs = f"{counted(found.recordings[0], 'recording')} of perf against {found.recordings[1]}, {found.event}"
    sure = found.functions.filter("decided")
    if max(found.recordings) == 1:
        beyond = found.functions.filter((pl.col("low") > 0) | (pl.col("high") < 0))
        words = _functions(beyond, found.unit) or "no function differs by more than its number of samples explains"
    else:
        words = _functions(sure, found.unit) or f"no function surely takes more or less {what}"
    ending = f" {_ASSOCIATION}" if sure.height else ""
    notes += [note] if (note := skid_note(found.event)) else []
    return [" ".join([f"By perf's samples ({runs}), {words}.{ending}", *notes])]


def skid_note(event: str | None) -> str:
    """What a timer of perf cannot see, as where a virtual machine has no counters of the processor; else empty.

    Example:
        >>> skid_note("cpu-clock:ppp").partition(":")[0], skid_note("cycles")
        ('The event cpu-clock is a timer', '')
    """
    # Behind a colon are modifiers.
    name = (event or "").partition(":")[0]
    if name not in CLOCK_EVENTS:
        return ""
    return (
        f"The event {name} is a timer: its samples fall where interrupts are let in again, so that functions of the "
        "kernel that keep them out are counted under those that let them in (_raw_spin_unlock_irqrestore, "
        "finish_task_switch)."
    )


def function_rows(found: StackChanges, most: int = 25) -> pl.DataFrame:
    """Functions as rows of a table, with the unit of their values; the surest and largest changes first."""
    unit = "µs of CPU per operation" if found.unit == "µs" else "% of the samples"
    return found.functions.head(most).with_columns(unit=pl.lit(unit))


def gone_rows(found: StackChanges, most: int = 25) -> pl.DataFrame:
    """Functions that only the base called: `function`, `called_by` (the two above it) and their value in the base."""
    above = pl.col("path").str.extract(r"([^;]*(?:;[^;]*)?);[^;]*$").str.replace(";", " > ")
    return found.gone.head(most).select(function="frame", called_by=above, base="base")


def rounded(value: float, digits: int = 2) -> str:
    """A number as a person says it, with two digits.

    Example:
        >>> rounded(1234.5), rounded(0.0123)
        ('1,200', '0.012')
    """
    return f"{float(f'{value:.{digits}g}'):,.10g}"


def _functions(rows: pl.DataFrame, unit: str) -> str:
    """The functions with the largest changes, the whole first, with their intervals."""
    words: list[str] = []
    for row in rows.head(_MOST_FUNCTIONS + 1).iter_rows(named=True):
        more = "more" if row["difference"] > 0 else "less"
        ends = sorted((abs(row["low"]), abs(row["high"])))
        size, low, high = (rounded(one) for one in (abs(row["difference"]), *ends))
        name = "all functions together" if row["function"] == ALL_FUNCTIONS else row["function"]
        verb = "take" if row["function"] == ALL_FUNCTIONS else "takes"
        # What is measured is said once.
        whole = "" if words else " CPU per operation" if unit == "µs" else " of them"
        change = f"{size} {'µs' if unit == 'µs' else 'points of percent'} {more}{whole}"
        words.append(f"{name} {f'{verb} ' if not words else ''}{change} ({low} to {high})")
    return "; ".join(words)


def plan_sentences(found: PlanChanges, level: float) -> list[str]:
    """Statements with another plan, and nodes of the same plans that take another time."""
    lines = [_plan(row) for row in found.statements.filter("changed").head(_MOST_STATEMENTS).iter_rows(named=True)]
    slower = found.nodes.filter(pl.col("p") < 1 - level).head(_MOST_STATEMENTS)
    nodes = [
        f"{row['node']} of {_short(row['statement'])} took {rounded(row['base_self_ms'])} ms of an execution before "
        f"and {rounded(row['other_self_ms'])} ms after (p {p_text(row['p'])})"
        for row in slower.iter_rows(named=True)
    ]
    lines += [f"In recorded plans, {listed(nodes)}."] if nodes else []
    return [" ".join([*lines, _ASSOCIATION])] if lines else []


def _plan(row: dict[str, object]) -> str:
    plans = [f"({counted(int(str(row[f'{side}_plans'])), 'plan')})" for side in ("base", "other")]
    changed = f"{row['before'] or 'a shorter plan'} {plans[0]} became {row['after'] or 'a shorter plan'} {plans[1]}"
    words = [f"{_short(str(row['statement']))} has another plan: {changed}"]
    texts = {"rows": "its scans read {} rows of an execution before and {} after", "ms": "it took {} ms and {} ms"}
    values = {name: (row[f"base_{name}"], row[f"other_{name}"]) for name in texts}
    for name, (before, after) in values.items():
        if isinstance(before, float) and isinstance(after, float):
            words.append(texts[name].format(rounded(before), rounded(after)))
    return "; ".join(words) + "."


def _short(statement: str) -> str:
    return statement if len(statement) <= _LONGEST_STATEMENT else f"{statement[: _LONGEST_STATEMENT - 1]}…"


def skew_sentences(skew: pl.DataFrame) -> list[str]:
    """Spreads over shards and nodes that differ between the sides."""
    lines = list(_spreads(skew.filter("decided")))
    return [" ".join([*lines, _ASSOCIATION])] if lines else []


def _spreads(rows: pl.DataFrame) -> Iterator[str]:
    for row in rows.iter_rows(named=True):
        less = "less" if row["effect_size"] > 0 else "more"
        what = "Executions are" if row["of"] == "executions" else "The time of executions is"
        sides = [
            f"the busiest of {row[f'{side}_places']} has {rounded(row[f'{side}_busiest_percent'])} % "
            f"({rounded(row[f'{side}_busiest_if_even_percent'])} % if they were spread evenly)"
            for side in ("other", "base")
        ]
        spread = f"{what} spread {less} evenly over {row['over']}: {sides[0]}, and before {sides[1]}"
        yield f"{spread} (p {p_text(row['p'])})."
