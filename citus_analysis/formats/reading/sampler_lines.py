"""Helpers shared by the formats of samplers: the beginning of sysstat's outputs, the first report, stamped lines."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Final

import polars as pl

from citus_analysis.formats.api.openings import Opening
from citus_analysis.formats.api.options import FIRST_REPORT
from citus_analysis.formats.reading.signs import LineBegin

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
