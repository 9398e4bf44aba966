r"""Lines of samplers: columns separated by blanks, stamps before lines, the beginning of sysstat's outputs.

Of columns separated by blanks, each run of blanks is reduced to one, so that a CSV reader can split them.

Example:
    >>> compact_lines(b"a   1.5\t2 \r\n\n b", offset=10).rows()
    [(10, 12, 'a 1.5 2', True), (22, 1, '', True), (23, 2, 'b', False)]
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Final

import polars as pl

from citus_analysis.formats.api.openings import Opening
from citus_analysis.formats.api.options import FIRST_REPORT
from citus_analysis.formats.reading.lines import line_frame
from citus_analysis.formats.reading.signs import LineBegin
from citus_analysis.formats.times.sampler_clock import date_order
from citus_analysis.formats.times.zones import timezone_of

#: A time and a tab that a logging wrapper wrote before each line (pgbench-tools, `ts '%F %.T'`).
STAMP: Final = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?)\t"
_STAMP_BEGIN: Final = LineBegin(STAMP.removeprefix("^").encode())

#: The first line of the texts of iostat, mpstat, pidstat and sar, and the beginning of their JSON.
SYSSTAT_BANNER: Final = Opening(b"Linux ", rb"\S+ \([^\n]*\)[ \t][^\n]*[0-9]", repeats=True)
SYSSTAT_DOCUMENT: Final = Opening(b"{", rb'\s*"sysstat"\s*:', whole=True)


def first_report_option(options: Mapping[str, str]) -> bool | None:
    """Whether, by the option `first_report`, the first report averages since boot; None if the option is not given.

    Raises:
        UnknownNameError: the value is not one of the choices.
    """
    choice = FIRST_REPORT.value(options)
    return None if choice is None else choice == "since_boot"


def clock_options(
    dates: Iterable[str], options: Mapping[str, str], *, decimal_comma: bool = False
) -> tuple[str, str, bool | None]:
    """Order of the parts of dates, time zone, and :func:`first_report_option`, stated or as dates and numbers tell."""
    return date_order(dates, options, decimal_comma=decimal_comma), timezone_of(options), first_report_option(options)


def may_be_stamped(data: bytes) -> bool:
    r"""Whether any line of a text may begin with a wrapper's time stamp; a quick test before :func:`is_stamped`.

    Example:
        >>> may_be_stamped(b"Linux\t(vm)\n"), may_be_stamped(b"\n2026-11-20 10:00:00\tLinux\n")
        (False, True)
    """
    # The first line may follow a byte order mark.
    return _STAMP_BEGIN.is_in(data) or data.startswith(BOM_UTF8)


def is_stamped(lines: pl.DataFrame) -> bool:
    """Whether most lines begin with a wrapper's time stamp."""
    return bool(lines.height and lines["text"].str.contains(STAMP).sum() * 2 > lines.height)


def split_stamp(lines: pl.DataFrame) -> pl.DataFrame:
    """Move the stamp from `text` to `stamp` (null if a line has none)."""
    # A stamp before an empty line lost its tab when trailing white space was removed.
    stamped = pl.col("text") + pl.lit("\t")
    return lines.with_columns(
        stamped.str.extract(STAMP).alias("stamp"),
        stamped.str.replace(STAMP, "").str.strip_chars_end().alias("text"),
    )


def compact_lines(data: bytes, offset: int = 0) -> pl.DataFrame:
    """Lines of a block: `offset` and `length` (line end included) in bytes of the source, `text`, `terminated`.

    `text` has single blanks between columns and none at its ends; bytes that are not UTF-8 become U+FFFD.
    """
    compact = pl.col("text").str.replace_all(r"[ \t\r\x0b\x0c]+", " ").str.strip_chars(" ")
    return line_frame(data, offset).with_columns(compact)


def split_columns(texts: pl.Series, count: int, numbers: frozenset[int], separator: str = " ") -> pl.DataFrame:
    r"""Split texts of exactly `count` columns into columns `0`, `1` ...: those in `numbers` are numbers, others texts.

    Numbers that cannot be read, or are not finite, are null.

    Example:
        >>> split_columns(pl.Series(["a 1.5", "b x"]), 2, frozenset({1})).rows()
        [('a', 1.5), ('b', None)]
    """
    schema = {str(index): pl.Float64() if index in numbers else pl.String() for index in range(count)}
    if texts.is_empty():
        return pl.DataFrame(schema=schema)
    data = (texts.str.join("\n").item() + "\n").encode()
    frame = pl.read_csv(
        BytesIO(data), separator=separator, has_header=False, quote_char=None, schema=schema, ignore_errors=True
    )
    if frame.height != len(texts):
        # The caller has already found the lines; a CSV reader may take other bytes for line ends.
        parts = texts.to_frame("text").select(pl.col("text").str.split(separator))
        frame = parts.select(
            pl.col("text").list.get(int(name), null_on_oob=True).cast(kind, strict=False).alias(name)
            for name, kind in schema.items()
        )
    floats = pl.col(pl.Float64)
    return frame.with_columns(pl.when(floats.is_finite()).then(floats))
