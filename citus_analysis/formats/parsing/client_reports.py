"""Lines of a load generator's report by kind, for tools that print one report per run, and the totals in it."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np
import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.format import Parsed, Reject, reject_rows
from citus_analysis.formats.parsing.lines import (
    UNTERMINATED,
    build_parsed_lines,
    line_frame,
    make_first_true_expr,
    reject_oversized,
)
from citus_analysis.operations import FAILED, is_counted_once
from citus_analysis.redaction import redact_expr
from citus_analysis.schema import TABLES
from citus_analysis.texts.numbers import format_number
from citus_analysis.units import US_PER_S

# Error messages that a load generator prints, counted by class.
#
# A message's class is its text with the variable parts replaced: numbers, addresses of objects, quoted
# literals. The names of exception classes move to a separate column.

#: A Java class that is named like a throwable.
THROWABLE: Final = r"(?:[a-z_]\w*\.)+[A-Z][\w$]*(?:Exception|Error|Throwable|Failure)\b"
#: A severity word of loggers and PostgreSQL tools.
SEVERITY: Final = r"\b(FATAL|SEVERE|ERROR|WARN(?:ING)?|fatal|error|warning)\b"

MESSAGE_CHARS: Final = 300

#: Limit of classes: messages that differ each time must not fill the memory.
_MAX_CLASSES: Final = 1000
_OTHER: Final = "(other messages)"

# The JDBC binding of YCSB prints the table's name and the exception without anything between them.
_GLUED: Final = r"^(Error in \w+ \w+ (?:to|of|from|in) table: ?)(\S+?)((?:org|com|net|io|java|javax|oracle|site)\.)"
_VARIABLE: Final = (
    (r"'(?:[^']|'')*'", "'*'"),
    (r"@[0-9a-f]{5,}\b|\b0x[0-9a-fA-F]+\b", "@N"),
    (r"\d+(?:[.,:]\d+)*", "N"),
)
_KEYS: Final = ("exception", "message_class")


def count_messages(lines: pl.DataFrame) -> pl.DataFrame:
    """Messages by class: the parsed columns of `client_errors`.

    Args:
        lines: the first line of each message as `text`, with its `offset`.
    """
    # Few texts are distinct, so replacements run only on distinct texts.
    distinct = lines.group_by("text").agg(pl.len().alias("count"), pl.col("offset").min().alias("first_byte_offset"))
    text = redact_expr(pl.col("text").str.replace(_GLUED, "${1}${2}: ${3}"))
    named = distinct.with_columns(
        exception=pl.coalesce(text.str.extract_all(THROWABLE).list.last(), text.str.extract(SEVERITY)).str.head(
            MESSAGE_CHARS
        ),
        message_class=_make_message_class_expr(text.str.replace_all(rf"{THROWABLE}(?:: |$)", "")),
    )
    return _sum_message_counts(named)


def _make_message_class_expr(text: pl.Expr) -> pl.Expr:
    for pattern, replacement in _VARIABLE:
        text = text.str.replace_all(pattern, replacement)
    return text.str.strip_chars().str.head(MESSAGE_CHARS)


def add_messages(counted: pl.DataFrame, more: pl.DataFrame) -> pl.DataFrame:
    """The sum of two counts of messages; beyond the limit of classes, late ones are counted together."""
    total = _sum_message_counts(pl.concat([counted, more], how="vertical_relaxed"))
    if total.height <= _MAX_CLASSES:
        return total
    late = pl.int_range(pl.len()) >= _MAX_CLASSES
    return _sum_message_counts(
        total.with_columns(
            exception=pl.when(~late).then("exception"),
            message_class=pl.when(late).then(pl.lit(_OTHER)).otherwise("message_class"),
        )
    )


def _sum_message_counts(counted: pl.DataFrame) -> pl.DataFrame:
    table = counted.group_by(_KEYS).agg(pl.col("count").sum(), pl.col("first_byte_offset").min())
    return table.sort("first_byte_offset", *_KEYS)


#: Pattern of a plain number.
NUMBER: Final = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
MAX_COUNT: Final = 10**15
#: A number with more digits before its point is no measurement, and would be rounded.
_MOST_DIGITS: Final = 15
_TOO_LONG: Final = f"a number of more than {_MOST_DIGITS} digits"
#: Pattern of such a number.
_LONG: Final = rf"[0-9]{{{_MOST_DIGITS + 1}}}"
_CUT: Final = rf"([0-9]{{{_MOST_DIGITS}}})[0-9]+"
MAX_CLIENTS: Final = 2**31 - 1
#: A line end of the same length as another.
_RETURN: Final = re.compile(rb"\r(?!\n|\Z)")
#: What differs between the same line of two reports.
_DIGITS: Final = re.compile(r"-?(?:[0-9][0-9.,/]*|nan|NaN)")


@dataclass
class ReportParser:
    """The state of parsing one file with the report of one run.

    Attributes:
        tool: who prints such lines, in words.
        kinds: kind of a line -> pattern; the first that matches decides.
        telling: kinds of lines that only this tool prints.
        once: kinds of lines that occur once in a run: from the second one on, lines are of another run.
        in_order: lines that a run prints once, as regular expressions: those of one stage of the report after the
            other. A line that comes again, or after one of a later stage, begins the report of another run, which may
            lack its first lines; the numbers in a line are not compared.
        in_any_order: regular expression of further lines that a run prints once, in any order.
        interim: regular expression of a line before an interim report; the lines of the report come once more at the
            end.
        other_run: reason to reject lines of another run.
        unknown: reason to reject a line of no kind.
        exact: kinds whose lines are rejected if they have a number of more than :data:`_MOST_DIGITS` digits: a pattern
            that reads only some of a line would cut it. None: long numbers are no reason.
        cut: whether a last line without a line end is read.
        too_long: see :func:`parse_each_block`.
        keep: kinds of lines that :meth:`finish` needs.
        recognised: whether a line that only this tool prints was seen.
        errors: the errors so far, counted.
        kept: the lines so far of the kinds to keep.
        seen: how many lines of the kinds that occur once there were so far.
    """

    tool: ClassVar[str]
    kinds: ClassVar[Mapping[str, str]]
    telling: ClassVar[Collection[str]]
    once: ClassVar[Sequence[str]] = ()
    in_order: ClassVar[Sequence[str]] = ()
    in_any_order: ClassVar[str] = "$^"
    interim: ClassVar[str] = "$^"
    other_run: ClassVar[str] = ""
    unknown: ClassVar[str]
    exact: ClassVar[Sequence[str] | None] = ()
    cut: ClassVar[bool] = False
    too_long: ClassVar[str | None] = None
    keep: ClassVar[Collection[str]] = ()
    recognised: bool = False
    errors: pl.DataFrame = field(default_factory=TABLES["client_errors"].parsed().empty)
    kept: list[pl.DataFrame] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    _stage: int = 0
    _is_interim: bool = False
    _of_report: set[str] = field(default_factory=set)
    _further: bool = False

    def pieces(self, content: Content) -> Iterator[Parsed]:
        """A piece for each block of a report, and one for the whole.

        Raises:
            FormatError: the tool printed no line of the file.
        """
        yield from parse_each_block(content, self.block, self.too_long)
        if not self.recognised:
            raise FormatError(f"contains no line of {self.tool}", path=content.path, hint="choose another --format")
        yield self.finish()

    @abstractmethod
    def block(self, block: Block) -> Parsed:
        """The rows of a block of lines."""

    @abstractmethod
    def finish(self) -> Parsed:
        """The rows that need the whole file: the client, its values and its errors."""

    def judged(self, lines: pl.DataFrame) -> pl.DataFrame:
        """The next lines, with their `kind` and the `reason` for which they are rejected (null if they are not).

        Args:
            lines: a frame of :func:`citus_analysis.formats.line_frame`.
        """
        text, kind = lines["text"], classify_texts(lines["text"], self.kinds)
        reasons = {
            self.other_run: self.is_of_other_run() | self._is_of_further_report(text),
            UNTERMINATED: pl.lit(not self.cut) & ~pl.col("terminated"),
            _TOO_LONG: pl.lit(value=False)
            if self.exact is None
            else _find_too_long_numbers(text, kind, self.kinds, self.exact),
            self.unknown: pl.col("kind").is_null(),
        }
        found = lines.with_columns(kind).with_columns(reason=make_first_true_expr(reasons))
        self.seen.update({name: int((kind == name).sum()) for name in self.once})
        return found

    def is_of_other_run(self) -> pl.Expr:
        """Whether each of the next lines is of another run."""
        return pl.any_horizontal(pl.lit(value=False), *(self.times_seen(kind) > 1 for kind in self.once))

    def _is_of_further_report(self, text: pl.Series) -> pl.Series:
        """Whether each of the next lines stands in a further report, one that may have no beginning."""
        begin = 0 if self._further else len(text)
        if self.in_order and not self._further:
            lines = (
                text.str.contains("|".join((*self.in_order, self.in_any_order, self.interim)))
                .fill_null(value=False)
                .arg_true()
            )
            begin = next((place for place in lines.to_list() if self._begins_further_report(text[place])), begin)
            self._further = begin < len(text)
        return (
            pl.Series([False]).new_from_index(0, begin).extend(pl.Series([True]).new_from_index(0, len(text) - begin))
        )

    def _begins_further_report(self, line: str) -> bool:
        if re.search(self.interim, line):
            self._begin_report(is_interim=True)
            return False
        stages = (stage for stage, pattern in enumerate(self.in_order) if re.search(pattern, line))
        stage = next(stages, self._stage)
        name = _DIGITS.sub("", line).strip()
        if stage < self._stage or name in self._of_report:
            if not self._is_interim:
                return True
            self._begin_report(is_interim=False)
        self._stage = stage
        self._of_report.add(name)
        return False

    def _begin_report(self, *, is_interim: bool) -> None:
        self._stage, self._is_interim = 0, is_interim
        self._of_report.clear()

    def times_seen(self, kind: str) -> pl.Expr:
        """How many lines of a kind of :attr:`once` there are up to each of the next lines."""
        return (pl.col("kind") == kind).fill_null(value=False).cast(pl.Int64).cum_sum() + self.seen[kind]

    def is_stray(self) -> pl.Expr:
        """Whether each of the next lines continues an error, and none was printed before it."""
        failing = (pl.col("kind") == "error").fill_null(value=False).cum_max() | bool(self.errors.height)
        return ((pl.col("kind") == "continuation") & ~failing).fill_null(value=False)

    def accepted(self, lines: pl.DataFrame) -> pl.DataFrame:
        """The lines that are not rejected, among which errors are counted."""
        good = lines.filter(pl.col("reason").is_null())
        self.recognised |= bool(good["kind"].is_in(list(self.telling)).any())
        if not (errors := good.filter(kind="error")).is_empty():
            self.errors = add_messages(self.errors, count_messages(errors))
        if self.keep:
            self.kept.append(good.filter(pl.col("kind").is_in(list(self.keep))))
        return good


def parse_each_block(
    content: Content, read: Callable[[Block], Parsed], too_long: str | None = None
) -> Iterator[Parsed]:
    """The piece of each block, as it is read; lines too long for a block are rejected, for a reason in words.

    A carriage return alone ends a line, too: a terminal shows the next one in its place.
    """
    for block in content.blocks():
        if not block.oversized:
            yield read(replace(block, data=_RETURN.sub(b"\n", block.data)) if b"\r" in block.data else block)
        elif too_long is None:
            yield reject_oversized(block)
        else:
            yield Parsed({}, 0, 0, reject_rows([Reject(block.offset, block.length, too_long, block.data)]))


def split_fitting_lines(block: Block, fits: pl.Expr, noise: pl.Expr, unknown: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Lines of a block of a file in which all lines but some noise have one form.

    Args:
        block: the block.
        fits: whether a line has the form.
        noise: whether it is noise.
        unknown: reason to reject any other.

    Returns:
        The lines with the columns of :meth:`Report.judged` (the kind is `noise` or null), and those of the form.
    """
    lines = line_frame(block.data, block.offset).with_columns(
        kind=pl.when(noise).then(pl.lit("noise")),
        reason=make_first_true_expr({UNTERMINATED: ~pl.col("terminated"), unknown: ~(fits | noise)}),
    )
    return lines, lines.filter(pl.col("reason").is_null(), pl.col("kind").is_null())


def _find_too_long_numbers(
    text: pl.Series, kind: pl.Series, kinds: Mapping[str, str], exact: Sequence[str]
) -> pl.Series:
    """Which lines have a number of too many digits: exact ones, and those that would be of a kind with fewer digits."""
    long = text.str.contains(_LONG)
    found = long & kind.is_in(list(exact)).fill_null(value=False)
    places = (long & kind.is_null()).arg_true()
    if places.len():
        shortened = classify_texts(text.gather(places).str.replace_all(_CUT, "$1"), kinds)
        found = found.scatter(places.filter(shortened.is_not_null() & (shortened != "error")), True)
    return found


def classify_texts(text: pl.Series, kinds: Mapping[str, str]) -> pl.Series:
    """Name of the first pattern that fits each text; each pattern is tried only on texts that no earlier one fits."""
    codes = np.full(len(text), len(kinds), np.uint32)
    rest = np.arange(len(text))
    for code, pattern in enumerate(kinds.values()):
        if not len(rest):
            # Patterns may take longer to compile than a small file takes to read.
            break
        fits = text.gather(rest).str.contains(pattern).to_numpy()
        codes[rest[fits]] = code
        rest = rest[~fits]
    return pl.Series("kind", [*kinds, None], dtype=pl.String).gather(codes)


def build_parsed_report(
    lines: pl.DataFrame, tables: Mapping[str, pl.DataFrame], noise: Sequence[str] = ("noise",)
) -> Parsed:
    """The tables of a block with the account of its bytes.

    Args:
        lines: a frame of :func:`citus_analysis.formats.line_frame` with the columns of :meth:`Report.judged`.
        tables: the rows.
        noise: kinds of lines without data.
    """
    return build_parsed_lines(tables, lines, pl.col("kind").is_in(noise))


def parse_whole_number(text: object, most: int) -> int | None:
    """A text of digits as a number; None for any other value, and for more than `most`."""
    digits = re.fullmatch(r"[0-9]{1,15}", str(text))
    return int(digits[0]) if digits and int(digits[0]) <= most else None


def convert_to_count(value: float | None, most: int = MAX_COUNT) -> int | None:
    """A printed number as a count; None if it is missing or not a count.

    Example:
        >>> convert_to_count(3.0), convert_to_count(-1.0), convert_to_count(None)
        (3, None, None)
    """
    return int(value) if value is not None and 0 <= value <= most else None


#: What is printed, its value, the values of its parts, and the difference that rounding explains.
Total = tuple[str, float | None, Iterable[float | None], float]


def describe_contradictions(totals: Iterable[Total]) -> str | None:
    """The totals that are not the sums of their parts, in words; None if all are, or if a number is not known.

    The sentence belongs into `clients.notes`; which of the numbers is wrong is not known.

    Example:
        >>> describe_contradictions([("committed", 100, [60, 39], 0.5), ("tpmC", 10.0, [10.04], 0.05)])
        'committed: 100 printed, but its parts add up to 99'
    """
    said = []
    for what, total, values, tolerance in totals:
        parts = list(values)
        if total is None or not parts or any(part is None for part in parts):
            continue
        added = math.fsum(part for part in parts if part is not None)
        # A total that is not a number (NaN) contradicts, too.
        if not abs(total - added) <= tolerance:
            said.append(
                f"{what}: {_format_exact_number(total)} printed, but its parts add up to {_format_exact_number(added)}"
            )
    return "; ".join(said) or None


def _format_exact_number(value: float) -> str:
    """All digits of a count; digits that matter of another number."""
    return f"{value:.0f}" if float(value).is_integer() else format_number(value)


#: Measures of YCSB and its forks.
MEASURES: Final = {
    "Operations": "operations",
    "Total Operations": "operations",
    "AverageLatency": "mean_us",
    "MinLatency": "min_us",
    "MaxLatency": "max_us",
    "50thPercentileLatency": "p50_us",
    "90thPercentileLatency": "p90_us",
    "95thPercentileLatency": "p95_us",
    "99thPercentileLatency": "p99_us",
    "99.9thPercentileLatency": "p999_us",
    "Average": "mean_us",
    "Min": "min_us",
    "Max": "max_us",
    "p50": "p50_us",
    "p90": "p90_us",
    "p95": "p95_us",
    "p99": "p99_us",
    "p99.9": "p999_us",
    "99.9PercentileLatency": "p999_us",
}

# Latencies of single operations, as YCSB and go-ycsb print them with `measurementtype=raw`.


@dataclass
class SingleLatencies:
    """The state of reading the latencies of a file.

    They are printed operation by operation, each in the order of time. `elapsed_s` counts from the first line of the
    file, so a line of another operation that began slightly earlier has a small negative value.

    Attributes:
        first_us: beginning of the operation in the first line, in microseconds since 1970.
    """

    first_us: int | None = None

    def rows(self, fields: pl.DataFrame) -> pl.DataFrame:
        """Rows of `client_latencies` for further lines: `section`, `began_us` (since 1970) and `latency_us`."""
        if self.first_us is None and fields.height:
            self.first_us = int(fields["began_us"][0])
        return fields.select(
            "section",
            "latency_us",
            time=pl.from_epoch("began_us", "us").dt.replace_time_zone("UTC").dt.cast_time_unit("ms"),
            elapsed_s=((pl.col("began_us") - (self.first_us or 0)) / US_PER_S).round(6),
            failed=pl.col("section").str.ends_with(FAILED),
        )


# Counts of single latencies to the microsecond, for load generators that log each operation.


class LatencyCounts:
    """How often each latency of each section occurred so far; bounded by the number of distinct latencies."""

    def __init__(self) -> None:
        self._counted = pl.DataFrame(schema={"section": pl.String, "bucket_low_us": pl.Float64, "count": pl.Int64})

    def add(self, rows: pl.DataFrame) -> None:
        """Count more operations, rows with `section` and `latency_us`."""
        fresh = rows.group_by("section", bucket_low_us=pl.col("latency_us").cast(pl.Float64)).agg(
            count=pl.len().cast(pl.Int64)
        )
        both = pl.concat([self._counted, fresh])
        summed = both.group_by("section", "bucket_low_us").agg(pl.col("count").sum())
        self._counted = summed.sort("section", "bucket_low_us")

    def histogram(self) -> pl.DataFrame:
        """Rows of `client_histogram`."""
        whole = self._counted.with_columns(bucket_high_us=pl.col("bucket_low_us") + 1)
        return TABLES["client_histogram"].parsed().conform(whole)

    def summary(self, names: tuple[str, str, str, str]) -> pl.DataFrame:
        """Rows of `client_metrics`: number, mean and extremes of each section's latencies, under the given names."""
        low, weight = pl.col("bucket_low_us"), pl.col("count")
        number, mean, least, most = names
        values = {
            (number, None): weight.sum().cast(pl.Float64),
            (mean, "us"): (low * weight).sum() / weight.sum(),
            (least, "us"): low.min(),
            (most, "us"): low.max(),
        }
        parts = [
            self._counted.group_by("section").agg(metric=pl.lit(name), unit=pl.lit(unit, pl.String), value=value)
            for (name, unit), value in values.items()
        ]
        return TABLES["client_metrics"].parsed().conform(pl.concat(parts).sort("section", "metric"))


# The values of each operation in the output of go-tpc and go-ycsb, in three styles: plain, table, JSON.
#
# The styles differ in form only: each has a line (in JSON an object) per operation, with a name, a unit and a number
# for each value (`Avg(ms): 40.4`).

_TEXT: Final = r'"[^"\\{}]{0,100}"'
_PAIR: Final = rf"{_TEXT}:{_TEXT}"
_OBJECT: Final = rf"\{{{_PAIR}(?:,{_PAIR})*\}}"
#: A line of objects whose values are texts.
JSON: Final = rf"^\[{_OBJECT}(?:,{_OBJECT})*\]$"
_LABELS: Final = {"prefix": "Prefix", "section": "Operation"}
_UNIT: Final = r"\(([mu]?s)\)$"


_NAMES: Final = {
    "Takes": "RunTime",
    "Count": "Operations",
    "OPS": "Throughput",
    "Avg": "AverageLatency",
    "Min": "MinLatency",
    "Max": "MaxLatency",
}
#: YCSB's name of a value.
METRIC: Final = (
    pl.when(pl.col("name").str.ends_with("th"))
    .then(pl.col("name") + "PercentileLatency")
    .otherwise(pl.col("name").replace(_NAMES))
)


@dataclass
class GoReport(ReportParser):
    """The state of parsing the output of one of these tools.

    Attributes:
        plain: pattern of a line of the plain style, with the groups `section` and `values` (`Count: 68, TPM: 2257.0`),
            and `prefix` if the tool prints one.
        table: pattern of a line of a table, with the same groups.
        columns: names of the values of a table's line.
        summary: (section, name) -> value of the summary, the first of each.
    """

    plain: ClassVar[str]
    table: ClassVar[str]
    columns: ClassVar[Sequence[str]]
    summary: dict[tuple[str, str], float] = field(default_factory=dict)

    def printed(self, lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """One row for each printed value, and the lines, of which those of JSON with other values are rejected, too.

        Args:
            lines: lines with their `offset`, `text`, `kind` (`plain`, `table`, `json`, others) and `reason`.

        Returns:
            Columns `offset`, `prefix` (null if the tool prints none), `section`, `name`, `unit` (null if none is
            printed) and `value`; and the lines.
        """
        good = lines.filter(pl.col("reason").is_null())
        parts = [
            _parse_plain_values(good, self.plain),
            _parse_table_values(good, self.table, self.columns),
            _parse_json_values(good),
        ]
        values = pl.concat(part.select("offset", "prefix", "section", "name", "value") for part in parts)
        numbers = values.with_columns(
            prefix=pl.col("prefix").str.strip_chars("[] "),
            name=pl.col("name").str.replace(_UNIT, ""),
            unit=pl.col("name").str.extract(_UNIT),
            value=pl.when(pl.col("value").str.contains(f"^{NUMBER}$")).then("value").cast(pl.Float64),
        )
        needed = ["section", "value", *(["prefix"] if "<prefix>" in self.plain else [])]
        broken = numbers.filter(pl.any_horizontal(pl.col(needed).is_null()))["offset"].implode()
        is_broken = pl.col("offset").is_in(broken)
        reason = pl.when(is_broken).then(pl.lit(self.unknown)).otherwise("reason")
        return numbers.filter(~is_broken), lines.with_columns(reason=reason)

    def add_summary(self, values: pl.DataFrame) -> None:
        """Keep values of the summary."""
        for section, name, value in values.select("section", "name", "value").iter_rows():
            self.summary.setdefault((section, name), value)

    def sections(self, name: str) -> dict[str, float]:
        """The values of a name in the summary, by section."""
        return {section: value for (section, known), value in self.summary.items() if known == name}


def select_succeeded_values(values: Mapping[str, float]) -> list[float]:
    """The values of operations that succeeded, of which no other contains one."""
    return [value for section, value in values.items() if is_counted_once(section)]


def sum_failed_values(values: Mapping[str, float]) -> float:
    """The sum over the sections of failures."""
    return sum(value for section, value in values.items() if section.endswith(FAILED))


def pivot_to_columns(values: pl.DataFrame, names: Iterable[str], by: Sequence[str]) -> pl.DataFrame:
    """The first value of each name as a column, in one row for each group."""
    of = {name: pl.col("value").filter(pl.col("name") == name).first() for name in names}
    return values.group_by(by, maintain_order=True).agg(**of)


def _select_lines_of_kind(lines: pl.DataFrame, kind: str, pattern: str) -> pl.DataFrame:
    """Offset, prefix, section and values of the lines of a kind."""
    groups = lines.filter(pl.col("kind") == kind).select("offset", part=pl.col("text").str.extract_groups(pattern))
    found = groups.unnest("part")
    return found if "prefix" in found.columns else found.with_columns(prefix=pl.lit(None, pl.String))


def _parse_plain_values(lines: pl.DataFrame, pattern: str) -> pl.DataFrame:
    single = (
        _select_lines_of_kind(lines, "plain", pattern).with_columns(pl.col("values").str.split(", ")).explode("values")
    )
    parts = pl.col("values").str.splitn(": ", 2).struct
    return single.with_columns(name=parts.field("field_0"), value=parts.field("field_1"))


def _parse_table_values(lines: pl.DataFrame, pattern: str, names: Sequence[str]) -> pl.DataFrame:
    found = _select_lines_of_kind(lines, "table", pattern)
    cells = found.with_columns(value=pl.col("values").str.extract_all(NUMBER), name=pl.lit(list(names)))
    return cells.explode("value", "name")


def _parse_json_values(lines: pl.DataFrame) -> pl.DataFrame:
    text = lines.filter(pl.col("kind") == "json").select("offset", object=pl.col("text").str.extract_all(_OBJECT))
    objects = text.explode("object").with_columns(
        pl.col("object").str.extract(rf'"{printed}":"([^"]*)"').alias(label) for label, printed in _LABELS.items()
    )
    pairs = objects.with_columns(pair=pl.col("object").str.extract_all(_PAIR)).explode("pair")
    parts = pl.col("pair").str.extract_groups(r'^"(?<name>[^"]*)":"(?<value>[^"]*)"$')
    named = pairs.with_columns(parts.alias("part")).unnest("part")
    return named.filter(~pl.col("name").is_in(list(_LABELS.values())))


# Rows of `client_metrics`, for formats that read a summary value by value.

#: Section, metric, unit and value.
MetricCell = tuple[str, str, str | None, float | None]


def make_metric_frame(rows: Sequence[MetricCell]) -> pl.DataFrame:
    """Rows of `client_metrics`."""
    schema = {"section": pl.String, "metric": pl.String, "unit": pl.String, "value": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")
