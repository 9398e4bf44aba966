"""`perf stat`: text and `-x` separated values, whole runs, `-I` intervals and `-r` repeats.

Table: `perf_counters`, one row per printed counter. Supported: `<not supported>` and `<not counted>`, derived
metrics (also those on lines of their own, which become rows of the event above), multiplexing shares, `-A`,
`--per-socket`, `--per-core`, `--per-thread` (`scope`), numbers with separators of any locale, and the `user`
and `sys` seconds after the counters. `elapsed_s` is the interval's end under `-I`, otherwise the elapsed time at the
end of the block; separated values without `-I` do not contain it.

In a locale with decimal commas, the commas of `-x,` both separate and divide numbers. As units, events and units of
metrics are no numbers, such a line has one reading only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.format import Format, Hints, Parsed, StartMarker
from citus_analysis.formats.parsing.lines import (
    UNTERMINATED,
    build_parsed_lines,
    line_frame,
    make_first_true_expr,
    parse_each,
)

#: The title of a run, the header of intervals.
_TITLE: Final = r"^\s*Performance counter stats for "
_MARKS: Final = rf"{_TITLE}|^#\s+time\s.*\bcounts\b.*\bevents"
_NOISE: Final = (
    r"^\s*$|^#|^\s+# [A-Z].*:$|^\s*Performance counter stats for |^\s*[0-9]+[.,][0-9]+ \([+-][0-9]+[.,][0-9]+\) #*$"
)

_NUMBER: Final = r"[0-9][0-9.,'\u00a0\u202f ]*|<not supported>|<not counted>"
_SCOPE: Final = r"CPU[0-9]+|[SNP][0-9]+(?:-[A-Z][0-9]+)*|\S*[^\s0-9.,]\S*-[0-9]+"
_METRIC: Final = r"\s*#\s+(?P<metric>-?[0-9.,]+|nan|-nan|inf)\s*(?P<metric_unit>\S.*?)"
_SPREAD: Final = r"\s*\(\s*\+-\s*(?P<variation>[0-9.,]+|nan|-nan|inf)\s*%\s*\)"
_ROW: Final = (
    rf"^\s*(?:(?P<time>[0-9]+[.,][0-9]{{9}})\s+)?(?:(?P<scope>{_SCOPE})\s+(?:[0-9]+\s+)?)?(?P<value>{_NUMBER})\s+"
    r"(?:(?P<unit>\S+)\s+)?(?P<event>[A-Za-z_]\S*)(?:\s+\((?P<old_unit>msec)\))?"
    rf"(?:{_METRIC})?(?:{_SPREAD})?(?:\s*[\(\[](?P<running>[0-9.,]+)\s*%[\)\]])?\s*$"
)
_METRIC_ROW: Final = (
    rf"^\s*(?:(?P<time>[0-9]+[.,][0-9]{{9}})\s+)?(?:{_METRIC})(?:{_SPREAD})?"
    r"(?:\s*[\(\[](?P<running>[0-9.,]+)\s*%[\)\]])?\s*$"
)
_SECONDS: Final = (
    r"^\s*(?P<seconds>[0-9]+[.,][0-9]+)(?:\s+\+-\s+[0-9.,]+)?\s+seconds\s+(?P<what>time elapsed|user|sys)"
    rf"(?:{_SPREAD})?\s*$"
)

#: First fields of separated values: the interval's time, and the scope, with a number of CPUs if it may have several.
_PREFIX: Final = (
    rf"^(?:\s*[0-9]+[.,][0-9]{{9}}SEP)?(?:(?:CPU[0-9]+|\S*[^\s0-9.,]\S*-[0-9]+)SEP|(?:{_SCOPE})SEP[0-9]+SEP)?"
)
_FIELDS: Final = (
    _PREFIX + r"(?:[0-9][0-9.,]*|<not supported>|<not counted>)SEP[\w/%]*SEP[A-Za-z_]\S*?SEP[0-9.]+(?:%SEP[0-9]+)?"
    # The share of the time in which the counter ran has two digits after its point.
    r"SEP[0-9]{1,3}[.,][0-9]{2}(?:SEP|$)"
)


def _make_comma_pattern(sign: str) -> str:
    """Pattern of a line of `-x,` in a locale with a decimal sign; a line of a metric alone has no value and no event.

    Commas within the slashes of an event do not separate.
    """
    number = rf"[0-9]+(?:{sign}[0-9]+)?"
    return (
        rf"^(?:\s*(?P<time>[0-9]+{sign}[0-9]{{9}}),)?(?:(?P<scope>{_SCOPE}),(?:[0-9]+,)?)?"
        rf"(?:(?P<value>{number}|<not supported>|<not counted>),(?P<unit>(?:[A-Za-z/%][\w/%]*)?),"
        rf"(?P<event>[A-Za-z_][^,/]*(?:/[^/]*/[^,]*)?),(?:(?P<variation>{number})%,)?[0-9]+,"
        rf"(?P<running>[0-9]{{1,3}}{sign}[0-9]{{2}})|,,,,)"
        rf"(?:,(?P<metric>(?:{number}|-?nan|inf)?),(?P<metric_unit>(?:[^,0-9][^,]*)?))?,*$"
    )


_WITH_POINTS: Final = _make_comma_pattern(r"\.")
_WITH_COMMAS: Final = _make_comma_pattern(",")
#: Stands for the separator of lines as of `_WITH_COMMAS`.
_DECIMAL_COMMA: Final = ",,"
_SEPARATORS: Final = (",", ";", "\t", "|", ":", " ")
#: Value, unit and event of a line that matches `_FIELDS`, by separator: lines of other tools seldom contain the like.
_COUNTED: Final = {
    sep: re.compile(r"[0-9>]SEP[\w/%]*SEP[A-Za-z_]".replace("SEP", re.escape(sep))) for sep in _SEPARATORS
}
#: Minimum number of separators in a line that matches `_FIELDS`.
_FEWEST_SEPARATORS: Final = 4

#: Blanks around a number, and separators that always group thousands.
_BLANKS: Final = r"^\s+|\s+$|[' \u00a0\u202f]"
_STATUS: Final = {"<not supported>": "not supported", "<not counted>": "not counted"}
_COLUMNS: Final = ("time", "scope", "value", "unit", "event", "metric", "metric_unit", "variation", "running")


class PerfStat(Format):
    """`perf stat` output."""

    name: ClassVar[str] = "perf_stat"
    version: ClassVar[int] = 3
    tables = ("perf_counters",)
    noise = "comments, titles, empty lines, the table of individual measurements (`--table`)"
    start_markers = (
        StartMarker(b"# started on ", repeats=True),
        StartMarker(b" Performance counter stats for ", repeats=True),
        StartMarker(b"Performance counter stats for ", repeats=True),
        StartMarker(b"#", rb"\s+time\s.*\bcounts\b.*\bevents", repeats=True),
    )

    def detect(self, name: str, head: bytes) -> float:
        """Detects the title, the header under -I, or fields in the order of -x."""
        # Few files contain the words, and searching for them costs less than splitting a file into lines.
        may_be_marked = b"Performance counter stats for " in head or (b"counts" in head and b"events" in head)
        if may_be_marked and line_frame(head)["text"].str.contains(_MARKS).any():
            return 0.9
        return 0.9 if _detect_separator(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Counters in order."""
        separator = _detect_separator(content.head)
        yield from parse_each(content.blocks(), partial(_parse_block, separator), None)


def _detect_separator(head: bytes) -> str | None:
    """The separator of `-x`, `_DECIMAL_COMMA` if it also divides numbers; None for text."""
    lines = (line for line in head[:4096].decode("utf-8", "replace").splitlines() if line.strip() and line[0] != "#")
    # The regular expressions of polars take linear time for any text; those of Python do not.
    line = next(lines, "")
    likely = [sep for sep in _SEPARATORS if line.count(sep) >= _FEWEST_SEPARATORS and _COUNTED[sep].search(line)]
    if not likely or not any(map(str.isdigit, line)):
        return None
    first = pl.Series([line])
    if "," in likely and first.str.contains(_WITH_COMMAS).any():
        return _DECIMAL_COMMA
    return next((sep for sep in likely if first.str.contains(_FIELDS.replace("SEP", re.escape(sep))).any()), None)


def _parse_block(separator: str | None, block: Block, last_event: str | None) -> tuple[Parsed, str | None]:
    text = pl.col("text")
    lines = line_frame(block.data, block.offset).with_columns(
        noise=text.str.contains(_NOISE), run=text.str.contains(_TITLE).cum_sum()
    )
    fields = _parse_stat_fields(lines.filter(~pl.col("noise")), separator)
    # A metric on a line of its own belongs to the counter above.
    above = pl.col("event").forward_fill().fill_null(pl.lit(last_event, pl.String))
    fields = fields.with_columns(event=pl.when("read").then(above))
    lines = lines.join(fields.select("offset", "read"), on="offset", how="left", maintain_order="left")
    read = pl.col("read").fill_null(value=False)
    stray = ~pl.col("noise") & ~read
    reasons = {UNTERMINATED: ~pl.col("terminated"), "neither a counter nor a metric of perf stat": stray}
    lines = lines.with_columns(reason=make_first_true_expr(reasons))
    good = fields.join(lines.filter(pl.col("reason").is_null()), on="offset", how="semi", maintain_order="left")
    counters = good.filter(pl.col("what").ne_missing("time elapsed"))
    *_, event = last_event, *good["event"].drop_nulls().tail(1)
    return build_parsed_lines({"perf_counters": build_counter_rows(counters)}, lines, ~read), event


def _parse_stat_fields(lines: pl.DataFrame, separator: str | None) -> pl.DataFrame:
    if separator is None:
        return _parse_printed_lines(lines)
    if separator == _DECIMAL_COMMA:
        return _parse_lines_by_pattern(lines, _WITH_COMMAS)
    if separator != ",":
        return _parse_separated_lines(lines, separator)
    fits = lines["text"].str.contains(_WITH_POINTS)
    parts = [
        _parse_lines_by_pattern(lines.filter(fits), _WITH_POINTS),
        _parse_separated_lines(lines.filter(~fits), separator),
    ]
    return pl.concat(parts, how="diagonal").sort("offset")


def _parse_lines_by_pattern(lines: pl.DataFrame, pattern: str) -> pl.DataFrame:
    """Fields of lines of :func:`_make_comma_pattern`, as text."""
    groups = lines.select("offset", part=pl.col("text").str.extract_groups(pattern)).unnest("part")
    texts = {name: pl.when(pl.col(name) != "").then(name) for name in _COLUMNS}
    none = pl.lit(None, pl.String)
    # All groups of a line that does not match are null.
    read = pl.any_horizontal(pl.col("value", "metric").is_not_null())
    return groups.select("offset", **texts, what=none, elapsed=none, read=read)


def _parse_printed_lines(lines: pl.DataFrame) -> pl.DataFrame:
    """Fields of text lines, as text; `read` is true for recognised lines."""
    row = pl.col("text").str.extract_groups(_ROW).struct
    metric = pl.col("text").str.extract_groups(_METRIC_ROW).struct
    seconds = pl.col("text").str.extract_groups(_SECONDS).struct
    what = seconds.field("what")
    fields = {name: row.field(name) for name in _COLUMNS}
    fields["unit"] = pl.coalesce(row.field("unit"), row.field("old_unit"))
    for name in ("time", "metric", "metric_unit", "variation", "running"):
        fields[name] = pl.coalesce(fields[name], metric.field(name))
    spent = what.is_in(["user", "sys"])
    of_times = {"value": seconds.field("seconds"), "event": what, "unit": pl.lit("seconds")}
    fields |= {name: pl.when(spent).then(value).otherwise(fields[name]) for name, value in of_times.items()}
    understood = pl.coalesce(row.field("event"), metric.field("metric"), what).is_not_null()
    ended = pl.when(what == "time elapsed").then(seconds.field("seconds"))
    read = lines.select("offset", "run", **fields, what=what, ended=ended, read=understood)
    # The elapsed time follows the counters of its run and precedes their user and sys seconds.
    after, before = (fill.over("run") for fill in (pl.col("ended").backward_fill(), pl.col("ended").forward_fill()))
    spent = pl.col("what").is_in(["user", "sys"]).fill_null(value=False)
    return read.with_columns(elapsed=pl.when(spent).then(before).otherwise(after)).drop("ended", "run")


def _parse_separated_lines(lines: pl.DataFrame, separator: str) -> pl.DataFrame:
    """Fields of separated lines, as text."""
    shaped = pl.col("text").str.contains(_FIELDS.replace("SEP", re.escape(separator)))
    prefix = rf"({_PREFIX[1:]})".replace("SEP", re.escape(separator))
    lines = lines.with_columns(prefix=pl.col("text").str.extract(f"^{prefix}"))
    head = pl.col("prefix").str.strip_suffix(separator).str.split(separator)
    timed = head.list.first().str.contains(r"^\s*[0-9]+[.,][0-9]{9}$")
    body = pl.col("text").str.slice(pl.col("prefix").str.len_chars()).str.split(separator)
    varied = body.list.get(3, null_on_oob=True).str.ends_with("%").fill_null(value=False)
    rest = body.list.slice(varied.cast(pl.Int64) + 3)
    metric_only = body.list.len() >= _METRIC_ONLY_FIELDS
    nothing = (body.list.get(0) == "") & (body.list.get(2, null_on_oob=True) == "") & metric_only
    first, later = ("value", "unit", "event"), ("running", "metric", "metric_unit")
    texts = {
        "time": pl.when(timed).then(head.list.first()),
        "scope": pl.when(timed).then(head.list.get(1, null_on_oob=True)).otherwise(head.list.first()),
        "variation": pl.when(varied).then(body.list.get(3, null_on_oob=True).str.strip_suffix("%")),
        **{name: body.list.get(index, null_on_oob=True) for index, name in enumerate(first)},
        **{name: rest.list.get(index, null_on_oob=True) for index, name in enumerate(later, 1)},
    }
    empty_as_null = {name: pl.when(text.str.strip_chars() != "").then(text) for name, text in texts.items()}
    none = pl.lit(None, pl.String)
    return lines.select("offset", **empty_as_null, what=none, elapsed=none, read=shaped | nothing)


_METRIC_ONLY_FIELDS: Final = 7


def build_counter_rows(fields: pl.DataFrame) -> pl.DataFrame:
    """Rows of `perf_counters` from texts (`time`, `elapsed`, `scope`, `event`, `value` ...) and their `offset`."""
    value = pl.col("value")
    status = value.replace_strict(_STATUS, default="counted", return_dtype=pl.String)
    return fields.select(
        *("scope", "event", "unit", "metric_unit"),
        byte_offset="offset",
        elapsed_s=_make_decimal_expr(pl.coalesce("time", "elapsed")),
        value=_count(value),
        status=pl.when(value.is_not_null()).then(status),
        running_percent=_make_decimal_expr(pl.col("running")),
        variation_percent=_make_decimal_expr(pl.col("variation")),
        metric=_make_decimal_expr(pl.col("metric")),
    )


def _make_decimal_expr(text: pl.Expr) -> pl.Expr:
    """A number whose last separator is the decimal one; null if it is not a finite number."""
    plain = text.str.replace_all(_BLANKS, "").str.replace_all(",", ".", literal=True)
    # Remove the thousands separators before the last separator.
    digits = plain.str.replace(r"\.([0-9]+)$", ",$1").str.replace_all(".", "", literal=True)
    number = digits.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
    return pl.when(number.is_finite()).then(number)


def _count(text: pl.Expr) -> pl.Expr:
    """A counter's value: separators of one kind, each followed by three digits, group thousands (`1.234.567`)."""
    plain = text.str.replace_all(_BLANKS, "")
    grouped = plain.str.contains(r"^[0-9]{1,3}(?:,[0-9]{3})+$") | plain.str.contains(r"^[0-9]{1,3}(?:\.[0-9]{3})+$")
    whole = plain.str.replace_all(r"[.,]", "").cast(pl.Float64, strict=False)
    return pl.when(grouped).then(whole).otherwise(_make_decimal_expr(plain))


FORMAT = PerfStat()
