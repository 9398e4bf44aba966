r"""Output of a tool without a format module, after a heading that defines where its numbers are.

Tables: `clients` (one row), `client_metrics`, `client_series`. `citus-analysis run` writes the heading, one line of
JSON, before the tool's own output; the numbers are read from the output when it is ingested. For example::

    citus-analysis command {"tool": "sysbench", "threads": 4, "time_limit_s": 10, "summary": {"operations_done":
        "transactions: +(\\d+)", "runtime_s": "total time: +([0-9.]+)s"}, "interval": null, "metrics": []}
    SQL statistics:
        transactions:                        4096   (409.11 per sec.)
    General statistics:
        total time:                          10.0120s

(The heading is a single line, wrapped here.) Its fields:

- `summary`: name -> regular expression whose group is the number. `operations_done` and `failed_operations` are sums
  over all matching lines (a tool may count each kind of transaction separately); all others are from the last one.
  Names: `throughput_ops_s`, `throughput_ops_min`, `operations_done`, `failed_operations`, `runtime_s`, `runtime_ms`;
  missing ones are computed from the others if possible. The client is complete if it has a throughput;
- `interval`: a status line, with groups named `elapsed_s` and `throughput_ops_s`;
- `metrics`: further numbers with section, metric and unit.

Expressions have the syntax of Rust's `regex`, whose time is linear in the text. Noise: lines that match none of them.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar, Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.client_reports import (
    MAX_CLIENTS,
    MAX_COUNT,
    MEASURES,
    build_parsed_report,
    make_metric_frame,
)
from citus_analysis.formats.parsing.format import Format, Hints, Parsed
from citus_analysis.formats.parsing.lines import UNTERMINATED, line_frame, reject_oversized
from citus_analysis.operations import OVERALL
from citus_analysis.texts.documents import parse_json
from citus_analysis.units import US_PER_MS, US_PER_S

#: Names of a summary, and the unit that `client_metrics` gives each.
SUMMARY_NAMES: Final[Mapping[str, str | None]] = {
    "throughput_ops_s": "ops/sec",
    "throughput_ops_min": "ops/min",
    "operations_done": None,
    "failed_operations": None,
    "runtime_s": "s",
    "runtime_ms": "ms",
}

_UNTOUCHED: Final = "leave it as the runner wrote it"
_SIGN: Final = "citus-analysis command "
_MS_PER_S: Final = US_PER_S / US_PER_MS
#: Name of a summary -> another name, and its value in that unit.
_SCALES: Final = {"runtime_ms": ("runtime_s", 1 / _MS_PER_S), "throughput_ops_min": ("throughput_ops_s", 1 / 60)}
_MAX_TEXTS: Final = 1000
_COUNTS: Final = frozenset({"operations_done", "failed_operations"})
_SERIES: Final = ("elapsed_s", "throughput_ops_s")
#: Matches no line.
_NO_INTERVAL: Final = "(?<elapsed_s>)(?<throughput_ops_s>)[^\\s\\S]"


def find_pattern_problem(pattern: str, groups: Sequence[str] = ()) -> str | None:
    """The reason why a regular expression cannot be used; None if it can.

    Args:
        pattern: the expression.
        groups: names of the required groups; without names, one group is required.

    Example:
        >>> find_pattern_problem("tps: ([0-9.]+)"), find_pattern_problem("tps: [0-9.]+")
        (None, "'tps: [0-9.]+' has no group for the number")
    """
    try:
        found = pl.Series([""]).str.extract_groups(pattern)
    except pl.exceptions.PolarsError as error:
        return f"{pattern!r} is not a regular expression: {str(error).strip().splitlines()[-1]}"
    names = found.struct.fields
    if missing := [name for name in groups if name not in names]:
        return f"{pattern!r} has no group named {missing[0]}"
    return None if names else f"{pattern!r} has no group for the number"


@dataclass(frozen=True)
class NumberPattern:
    """A number in the output: its place and its name.

    Attributes:
        pattern: regular expression whose first group is the number.
        metric: name.
        section: operation that it belongs to.
        unit: its unit; None if it has none.
    """

    pattern: str
    metric: str
    section: str = OVERALL
    unit: str | None = None


@dataclass(frozen=True)
class Heading:
    """The first line of such a file.

    Attributes:
        tool: name of the tool.
        threads: number of client threads.
        time_limit_s: time after which it had to end; None if none was set.
        command_line: program and arguments, for readers.
        summary: name of :data:`SUMMARY_NAMES` -> regular expression.
        interval: regular expression of a status line.
        metrics: further numbers.

    Example:
        >>> heading = Heading("copy", 1, summary={"runtime_ms": "Time: ([0-9.]+) ms"})
        >>> Heading.read(heading.line()) == heading
        True
    """

    tool: str
    threads: int
    time_limit_s: int | None = None
    command_line: str = ""
    summary: Mapping[str, str] = field(default_factory=dict)
    interval: str | None = None
    metrics: Sequence[NumberPattern] = ()

    def line(self) -> bytes:
        """The heading as a line, line end included."""
        return f"{_SIGN}{json.dumps(asdict(self))}\n".encode()

    @classmethod
    def read(cls, line: bytes) -> Heading:
        """The heading from a line made by :meth:`line`.

        Raises:
            FormatError: the line is not a heading, or contains an invalid regular expression.
        """
        try:
            stated = parse_json(line.removeprefix(BOM_UTF8).removeprefix(_SIGN.encode()))
            heading = cls(**{**stated, "metrics": tuple(NumberPattern(**one) for one in stated.get("metrics", ()))})
            heading._check()
            patterns = [*heading.summary.values(), *(one.pattern for one in heading.metrics)]
            problems = [find_pattern_problem(pattern) for pattern in patterns]
            if heading.interval is not None:
                problems.append(find_pattern_problem(heading.interval, _SERIES))
            if unknown := heading.summary.keys() - SUMMARY_NAMES.keys():
                problems.append(f"the summary names {min(unknown)!r}")
        except (ValueError, TypeError, AttributeError, RecursionError, FormatError) as error:
            raise FormatError(f"its heading cannot be read: {error}", hint=_UNTOUCHED) from error
        if found := next((problem for problem in problems if problem), None):
            raise FormatError(f"its heading cannot be used: {found}", hint=_UNTOUCHED)
        return heading

    def _check(self) -> None:
        needed = [text for one in self.metrics for text in (one.pattern, one.metric, one.section)]
        optional = [self.interval or None, *(one.unit for one in self.metrics)]
        texts = [
            self.tool,
            self.command_line,
            *self.summary.values(),
            *needed,
            *(text for text in optional if text is not None),
        ]
        numbers = [self.threads, 1 if self.time_limit_s is None else self.time_limit_s]
        if not all(isinstance(text, str) for text in texts) or len(texts) > _MAX_TEXTS:
            raise TypeError("a name or an expression is not a string, or there are too many")
        if not all(type(number) is int and 0 < number <= MAX_CLIENTS for number in numbers):
            raise TypeError("the number of threads or the time limit is not a number")


class CommandOutput(Format):
    """Recognises and reads outputs with a heading of the runner."""

    name: ClassVar[str] = "command_output"
    version: ClassVar[int] = 1
    tables = ("clients", "client_metrics", "client_series")
    noise = "lines that match no expression of the heading"
    measures: ClassVar[Mapping[str, str]] = MEASURES

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the heading is present."""
        return 1.0 if head.removeprefix(BOM_UTF8).startswith(f"{_SIGN}{{".encode()) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Tables of one client: its status lines in a piece per block, the rest in the last."""
        reader: _CommandOutputReader | None = None
        for block in content.blocks():
            if block.oversized:
                yield reject_oversized(block)
                continue
            if reader is None:
                first, _, _ = block.data.partition(b"\n")
                reader = _CommandOutputReader(Heading.read(first))
            yield reader.block(block)
        if reader is None:
            raise FormatError("has no heading", path=content.path, hint=_UNTOUCHED)
        yield reader.finish()


@dataclass
class _CommandOutputReader:
    """The state of parsing one file."""

    heading: Heading
    _found: dict[NumberPattern, float] = field(default_factory=dict)

    def block(self, block: Block) -> Parsed:
        """Status lines of one block; the other numbers are kept for the end."""
        lines = line_frame(block.data, block.offset)
        summary = [NumberPattern(text, name, unit=SUMMARY_NAMES[name]) for name, text in self.heading.summary.items()]
        readings = {f"n{number}": one for number, one in enumerate([*summary, *self.heading.metrics])}
        # Output for readers may group thousands by commas.
        printed = {
            name: pl.col("text").str.extract(reading.pattern, 1).str.replace_all(",", "", literal=True)
            for name, reading in readings.items()
        }
        groups = pl.col("text").str.extract_groups(self.heading.interval or _NO_INTERVAL).struct
        texts = {**printed, **{name: groups.field(name) for name in _SERIES}}
        first = pl.col("offset") == 0
        read = lines.with_columns(
            pl.when(~first).then(_make_number_expr(text)).alias(name) for name, text in texts.items()
        )
        matched = pl.any_horizontal(first, pl.col(list(texts)).is_not_null())
        read = read.with_columns(
            kind=pl.when(~matched).then(pl.lit("noise")),
            reason=pl.when(matched & ~pl.col("terminated")).then(pl.lit(UNTERMINATED)),
        )
        good = read.filter(pl.col("kind").is_null(), pl.col("reason").is_null())
        for name, reading in readings.items():
            if len(values := good[name].drop_nulls()):
                before = self._found.get(reading, 0.0) + float(values.sum())
                self._found[reading] = before if reading.metric in _COUNTS else float(values[-1])
        return build_parsed_report(read, {"client_series": good.drop_nulls(_SERIES).select(_SERIES)})

    def finish(self) -> Parsed:
        """The client and its numbers."""
        rows = [(reading.section, reading.metric, reading.unit, value) for reading, value in self._found.items()]
        return Parsed({"clients": self._client(), "client_metrics": make_metric_frame(rows)}, 0)

    def _client(self) -> pl.DataFrame:
        totals = {one.metric: value for one, value in self._found.items() if one.metric in self.heading.summary}
        for name, (base, factor) in _SCALES.items():
            if name in totals:
                totals.setdefault(base, totals[name] * factor)
        rate, done, runtime_s = (totals.get(name) for name in ("throughput_ops_s", "operations_done", "runtime_s"))
        if rate is None and done is not None and runtime_s:
            rate = done / runtime_s
        if done is None and rate is not None and runtime_s:
            done = round(rate * runtime_s)
        counts_failures = rate is not None and "failed_operations" in self.heading.summary
        failed = totals.get("failed_operations", 0.0 if counts_failures else None)
        facts = {
            "tool": self.heading.tool,
            "throughput_ops_s": rate,
            "runtime_ms": None if runtime_s is None else runtime_s * _MS_PER_S,
            "threads": self.heading.threads,
            "time_limit_s": self.heading.time_limit_s,
            "operations_done": None if done is None else min(int(done), MAX_COUNT),
            "failed_operations": None if failed is None else min(int(failed), MAX_COUNT),
            "completed": rate is not None,
            "command_line": self.heading.command_line,
        }
        return pl.DataFrame([facts])


def _make_number_expr(text: pl.Expr) -> pl.Expr:
    number = text.cast(pl.Float64, strict=False)
    return pl.when(number.is_between(0, MAX_COUNT)).then(number)


FORMAT: Final = CommandOutput()
