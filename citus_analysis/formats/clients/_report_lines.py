"""Lines of a load generator's report by kind, for tools that print one report per run, and the totals in it."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.api.format import Parsed, Reject, reject_rows
from citus_analysis.formats.clients._messages import add_messages, count_messages
from citus_analysis.formats.reading.lines import UNTERMINATED, first_true, line_frame, reject_oversized
from citus_analysis.formats.reading.lines import accounted as counted
from citus_analysis.formats.sources.content import Block, Content
from citus_analysis.schema import TABLES
from citus_analysis.texts.number_text import readable

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


@dataclass
class Report:
    """The state of parsing one file with the report of one run.

    Attributes:
        tool: who prints such lines, in words.
        kinds: kind of a line -> pattern; the first that matches decides.
        telling: kinds of lines that only this tool prints.
        once: kinds of lines that occur once in a run: from the second one on, lines are of another run.
        other_run: reason to reject these.
        unknown: reason to reject a line of no kind.
        exact: kinds whose lines are rejected if they have a number of more than :data:`_MOST_DIGITS` digits: a pattern
            that reads only some of a line would cut it. None: long numbers are no reason.
        cut: whether a last line without a line end is read.
        too_long: see :func:`each_block`.
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

    def pieces(self, content: Content) -> Iterator[Parsed]:
        """A piece for each block of a report, and one for the whole.

        Raises:
            FormatError: the tool printed no line of the file.
        """
        yield from each_block(content, self.block, self.too_long)
        if not self.recognised:
            raise FormatError(f"contains no line of {self.tool}", path=content.path, way_out="choose another --format")
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
        text, kind = lines["text"], kinds_of(lines["text"], self.kinds)
        reasons = {
            self.other_run: self.is_of_other_run(),
            UNTERMINATED: pl.lit(not self.cut) & ~pl.col("terminated"),
            _TOO_LONG: pl.lit(value=False) if self.exact is None else _too_long(text, kind, self.kinds, self.exact),
            self.unknown: pl.col("kind").is_null(),
        }
        found = lines.with_columns(kind).with_columns(reason=first_true(reasons))
        self.seen.update({name: int((kind == name).sum()) for name in self.once})
        return found

    def is_of_other_run(self) -> pl.Expr:
        """Whether each of the next lines is of another run."""
        return pl.any_horizontal(pl.lit(value=False), *(self.times_seen(kind) > 1 for kind in self.once))

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


def each_block(content: Content, read: Callable[[Block], Parsed], too_long: str | None = None) -> Iterator[Parsed]:
    """The piece of each block, as it is read; lines too long for a block are rejected, for a reason in words."""
    for block in content.blocks():
        if not block.oversized:
            yield read(block)
        elif too_long is None:
            yield reject_oversized(block)
        else:
            yield Parsed({}, 0, 0, reject_rows([Reject(block.offset, block.length, too_long, block.data)]))


def fitting(block: Block, fits: pl.Expr, noise: pl.Expr, unknown: str) -> tuple[pl.DataFrame, pl.DataFrame]:
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
        reason=first_true({UNTERMINATED: ~pl.col("terminated"), unknown: ~(fits | noise)}),
    )
    return lines, lines.filter(pl.col("reason").is_null(), pl.col("kind").is_null())


def _too_long(text: pl.Series, kind: pl.Series, kinds: Mapping[str, str], exact: Sequence[str]) -> pl.Series:
    """Which lines have a number of too many digits: exact ones, and those that would be of a kind with fewer digits."""
    long = text.str.contains(_LONG)
    found = long & kind.is_in(list(exact)).fill_null(value=False)
    places = (long & kind.is_null()).arg_true()
    if places.len():
        shortened = kinds_of(text.gather(places).str.replace_all(_CUT, "$1"), kinds)
        found = found.scatter(places.filter(shortened.is_not_null() & (shortened != "error")), True)
    return found


def kinds_of(text: pl.Series, kinds: Mapping[str, str]) -> pl.Series:
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


def accounted(lines: pl.DataFrame, tables: Mapping[str, pl.DataFrame], noise: Sequence[str] = ("noise",)) -> Parsed:
    """The tables of a block with the account of its bytes.

    Args:
        lines: a frame of :func:`citus_analysis.formats.line_frame` with the columns of :meth:`Report.judged`.
        tables: the rows.
        noise: kinds of lines without data.
    """
    return counted(tables, lines, pl.col("kind").is_in(noise))


def whole_of(text: object, most: int) -> int | None:
    """A text of digits as a number; None for any other value, and for more than `most`."""
    digits = re.fullmatch(r"[0-9]{1,15}", str(text))
    return int(digits[0]) if digits and int(digits[0]) <= most else None


def count_of(value: float | None, most: int = MAX_COUNT) -> int | None:
    """A printed number as a count; None if it is missing or not a count.

    Example:
        >>> count_of(3.0), count_of(-1.0), count_of(None)
        (3, None, None)
    """
    return int(value) if value is not None and 0 <= value <= most else None


#: What is printed, its value, the values of its parts, and the difference that rounding explains.
Total = tuple[str, float | None, Iterable[float | None], float]


def contradictions(totals: Iterable[Total]) -> str | None:
    """The totals that are not the sums of their parts, in words; None if all are, or if a number is not known.

    The sentence belongs into `clients.notes`; which of the numbers is wrong is not known.

    Example:
        >>> contradictions([("committed", 100, [60, 39], 0.5), ("tpmC", 10.0, [10.04], 0.05)])
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
            said.append(f"{what}: {_exact(total)} printed, but its parts add up to {_exact(added)}")
    return "; ".join(said) or None


def _exact(value: float) -> str:
    """All digits of a count; digits that matter of another number."""
    return f"{value:.0f}" if float(value).is_integer() else readable(value)


def measures_named(
    latencies: str, percentile: str, percentiles: str = "50 90 95 99", *, operations: str = ""
) -> dict[str, str]:
    """Columns by the names that a tool gives the mean, the minimum, the maximum, percentiles and numbers of operations.

    Args:
        latencies: names of the mean, the minimum and the maximum, divided by `|`.
        percentile: name of a percentile, with `{}` in the place of its number.
        percentiles: their numbers.
        operations: names of the number of operations, divided by `|`.

    Example:
        >>> measures_named("avg|min|max", "p{}", "50 99.9", operations="count")["p99.9"]
        'p999_us'
    """
    counted = dict.fromkeys(filter(None, operations.split("|")), "operations")
    measured = zip(latencies.split("|"), ("mean_us", "min_us", "max_us"), strict=True)
    numbers = {percentile.format(one): f"p{one.replace('.', '')}_us" for one in percentiles.split()}
    return {**counted, **dict(measured), **numbers}


#: Measures of YCSB and its forks.
MEASURES: Final = {
    **measures_named(
        "AverageLatency|MinLatency|MaxLatency",
        "{}thPercentileLatency",
        "50 90 95 99 99.9",
        operations="Operations|Total Operations",
    ),
    **measures_named("Average|Min|Max", "p{}", "50 90 95 99 99.9"),
    "99.9PercentileLatency": "p999_us",
}
