"""Classification of the lines of a pgbench report, and the resulting rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

import polars as pl

from citus_analysis.formats.api.name_pairs import name_pairs
from citus_analysis.formats.clients._report_lines import contradictions
from citus_analysis.units import US_PER_MS

OVERALL: Final = "OVERALL"
_INIT: Final = "INIT"
#: Metric of the transactions of a script, in reports whose number includes failed and skipped ones.
ATTEMPTED: Final = "transactions, failed and skipped ones included"

_NUMBER: Final = r"-?(?:[0-9]{1,15}(?:\.[0-9]+)?|nan|NaN)"

#: Names of values; of numbers of transactions, later versions print further ones.
_NAMES: Final = (
    r"scaling factor|partitions|duration|weight|(?:maximum |total )?number of [^=:]{1,60}"
    r"|latency (?:average|stddev|minimum|maximum)|(?:initial|average) connection time"
)
#: Kind -> pattern; the first that matches decides.
KINDS: Final = {
    "noise": r"^\s*$|^starting vacuum|^vacuuming|^dropping old tables\.|^NOTICE:  |^[0-9]+ (?:of [0-9]+ )?tuples"
    r"|^(?:creating|set) (?:tables|\w+ keys?|partitions)|^generating data|^partition method: |^script statistics:"
    r"|^(?: - )?statement latencies in milliseconds",
    "version": r"^pgbench \([0-9].*\)$",
    "progress": rf"^progress: ([0-9]{{1,10}}(?:\.[0-9]+)?) s, ({_NUMBER}) tps(?:, lat ({_NUMBER}) ms)?(.*)$",
    "type": r"^transaction type: (.+)$",
    "script": r"^SQL script [0-9]+: (.+)$",
    "mode": r"^query mode: (\w+)$",
    "init": rf"^done in ({_NUMBER}) s(?: \((.*)\))?\.$",
    "lag": rf"^rate limit schedule lag: avg ({_NUMBER}) \(max ({_NUMBER})\) ms$",
    "transactions": rf"^ - ({_NUMBER}) transactions \(({_NUMBER})% of total(?:, tps = ({_NUMBER}))?\)$",
    "processed": rf"^ - number of transactions actually processed: ({_NUMBER}) \(tps = ({_NUMBER})\)$",
    "tps": rf"^tps = ({_NUMBER})(?: (\(.*\)))?$",
    "error": r"^(?:pgbench: |(?i:client [0-9]+ |connection to |run was aborted)|(?:PANIC|FATAL|ERROR|WARNING):)",
    "value": rf"^(?: - )?({_NAMES})(?: =|:) ({_NUMBER})(?:/([0-9]{{1,15}}))?(?: (ms|s)\b)?"
    rf"(?: \((?:targets )?({_NUMBER}) ?%[^()]*\)| \([a-z ]{{1,60}}\))?$",
    # `%11.3f`, and in version 9 `%f` between tabs: other numbers are those of other tools (perf stat, time).
    "command": r"^\s+(-?[0-9]{1,15}\.[0-9]{3}|-?nan|NaN)\s+(?:([0-9]{1,15})\s+)?(?:([0-9]{1,15})\s+)?([^0-9\s].*)$",
    "old_command": r"^\t(-?[0-9]{1,15}\.[0-9]{6})\t()()\s*(\S.*)$",
    "continuation": r"^\s+\S|^(?:DETAIL|HINT|CONTEXT|LINE [0-9]+|STATEMENT|QUERY):",
}
#: Kinds of lines about a command of a script.
COMMANDS: Final = ("command", "old_command")
#: Kinds of lines that say nothing of the run as a whole, of which there may be many.
PASSING: Final = ("noise", "progress", "error", "continuation")

#: Values that describe the run, not the transactions of a script.
_SETTINGS: Final = (
    r"^(?:scaling factor|partitions|number of (?:clients|threads)|maximum number of tries|duration|"
    r"number of transactions per client|(?:initial|average) connection time)$"
)


_OWN: Final = pl.col("section")
_NONE: Final = pl.lit(None, pl.String)


def script_name(text: str) -> str:
    """Short name of a script: the name of a built-in script, or a file name without folders.

    Example:
        >>> script_name("<builtin: select only>"), script_name("/home/me/read.sql"), script_name("TPC-B (sort of)")
        ('select only', 'read.sql', 'TPC-B (sort of)')
    """
    return PurePosixPath(text.removeprefix("<builtin: ").removesuffix(">")).name


def with_sections(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines of a report, in order, with their `section` and, for commands, their `number` within it."""
    heading = pl.col("kind").is_in(["type", "script"])
    name = pl.coalesce(pl.col("text").str.extract(KINDS[kind]) for kind in ("type", "script"))
    parts = lines.with_columns(section=pl.when(heading).then(name).forward_fill(), part=heading.cum_sum())
    return parts.with_columns(number=pl.col("kind").is_in(COMMANDS).cum_sum().over("part"))


def metric_rows(lines: pl.DataFrame) -> pl.DataFrame:
    """Rows of `client_metrics`, in the order of the lines.

    Args:
        lines: a frame of :func:`with_sections`.
    """
    value = _group("value", 1)
    of_value = pl.when(value.str.contains(_SETTINGS)).then(pl.lit(OVERALL)).otherwise("section")
    tps = pl.concat_str(pl.lit("tps"), _group("tps", 2), separator=" ", ignore_nulls=True)
    frames = [
        _rows(lines, "value", value, 2, unit=_group("value", 4), section=of_value),
        _rows(lines, "value", value, 5, unit=pl.lit("%"), section=of_value),
        _rows(lines, "tps", tps, 1, section=pl.lit(OVERALL)),
        _rows(lines, "lag", pl.lit("rate limit schedule lag average"), 1, unit=pl.lit("ms")),
        _rows(lines, "lag", pl.lit("rate limit schedule lag maximum"), 2, unit=pl.lit("ms")),
        _rows(lines, "transactions", _transactions(), 1),
        _rows(lines, "transactions", _transactions(), 2, unit=pl.lit("%")),
        _rows(lines, "transactions", pl.lit("tps"), 3),
        _rows(lines, "processed", pl.lit("transactions"), 1),
        _rows(lines, "processed", pl.lit("tps"), 2),
        *(
            _rows(lines, kind, pl.format(f"{what} of command {{}}: {{}}", "number", _group(kind, 4)), n, unit)
            for kind in COMMANDS
            for n, (what, unit) in enumerate((("latency", pl.lit("ms")), ("failures", _NONE), ("retries", _NONE)), 1)
        ),
        _rows(lines, "init", pl.lit("done"), 1, unit=pl.lit("s"), section=pl.lit(_INIT)),
        _init_steps(lines),
    ]
    return pl.concat(frames).sort("offset", maintain_order=True).drop("offset")


def _group(kind: str, number: int) -> pl.Expr:
    return pl.col("text").str.extract(KINDS[kind], number)


def _transactions() -> pl.Expr:
    """Version 18 counts failed and skipped transactions of a script here too, and prints its throughput elsewhere."""
    processed = _group("transactions", 3).is_not_null()
    return pl.when(processed).then(pl.lit("transactions")).otherwise(pl.lit(ATTEMPTED))


def _rows(
    lines: pl.DataFrame, kind: str, metric: pl.Expr, value: int, unit: pl.Expr = _NONE, section: pl.Expr = _OWN
) -> pl.DataFrame:
    """One row per line of the kind that has the `value`-th group of its pattern."""
    number = _group(kind, value).cast(pl.Float64, strict=False)
    rows = lines.filter(kind=kind).select("offset", section=section, metric=metric, unit=unit, value=number)
    return rows.drop_nulls("value")


def _init_steps(lines: pl.DataFrame) -> pl.DataFrame:
    """`server-side generate 1.05 s, vacuum 0.15 s`: the steps of `pgbench -i`."""
    printed = _group("init", 2).str.extract_all(rf"[a-z][a-z -]*? {_NUMBER} s")
    steps = lines.filter(pl.col("kind") == "init").select("offset", step=printed).explode("step").drop_nulls("step")
    return steps.select(
        "offset",
        section=pl.lit(_INIT),
        metric=pl.col("step").str.extract(rf"^(.*) {_NUMBER} s$"),
        unit=pl.lit("s"),
        value=pl.col("step").str.extract(rf"({_NUMBER}) s$").cast(pl.Float64),
    )


#: Columns of `client_series` by the word after their number.
_COUNTED: Final = name_pairs(
    "failed_operations=failed skipped_operations=skipped retried_operations=retried retries=retries"
)


def progress_rows(lines: pl.DataFrame) -> pl.DataFrame:
    """Progress lines as `seconds` (since the start, or since 1970), throughput, mean latency and counts of the rest."""
    group = pl.col("text").str.extract_groups(KINDS["progress"]).struct
    return lines.select(
        seconds=group.field("1").cast(pl.Float64),
        throughput_ops_s=group.field("2").cast(pl.Float64).fill_nan(None),
        mean_us=group.field("3").cast(pl.Float64, strict=False).fill_nan(None) * US_PER_MS,
        stddev_us=group.field("4").str.extract(rf" stddev ({_NUMBER})").cast(pl.Float64).fill_nan(None) * US_PER_MS,
        lag_us=group.field("4").str.extract(rf", lag ({_NUMBER}) ms").cast(pl.Float64).fill_nan(None) * US_PER_MS,
        **{
            column: group.field("4").str.extract(rf"\b([0-9]{{1,15}}) {word}\b").cast(pl.Int64)
            for column, word in _COUNTED.items()
        },
    )


_PROCESSED = "number of transactions actually processed"
_LIMIT = "number of transactions above "


def contradicting_totals(metrics: pl.DataFrame, lines: pl.DataFrame, values: Mapping[str, float]) -> str | None:
    """The totals of a report that are not the sums of their parts, in words.

    Args:
        metrics: its rows of `client_metrics`.
        lines: its lines with their `kind`.
        values: metric -> its value of the whole run.
    """
    own = metrics.filter(pl.col("unit").is_null(), pl.col("section").ne_missing(OVERALL))
    # Of the scripts: processed transactions, and in version 18 all transactions, failed and skipped ones included.
    counts = (own.filter(metric=name)["value"] for name in ("transactions", ATTEMPTED))
    scripts, attempted = (float(count.sum()) if len(count) else None for count in counts)
    limited = lines.filter(pl.col("text").str.starts_with(_LIMIT), kind="value")["text"].head(1)
    # The transactions of which those above the latency limit are a part.
    measured = next(iter(limited.str.extract(KINDS["value"], 3).cast(pl.Float64)), None)
    done = values.get(_PROCESSED)
    lost = sum(values.get(f"number of {which}", 0.0) for which in ("failed transactions", "transactions skipped"))
    if done is None:
        return None
    # Some versions count skipped transactions among those that could have been late.
    late = done if measured is None else min(max(measured, done), done + lost)
    return contradictions(
        [
            (_PROCESSED, done, [scripts], 0.5),
            ("transactions of all scripts", attempted, [done, lost], 0.5),
            ("transactions with a latency", measured, [late], 0.5),
        ]
    )
