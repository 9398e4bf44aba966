"""Facts about a whole iostat text, from its beginning and from the options."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from citus_analysis.formats.api.format import Hints
from citus_analysis.formats.reading.sampler_lines import first_report_option
from citus_analysis.formats.samplers._iostat_lines import dated_texts, has_decimal_commas
from citus_analysis.formats.times.sampler_clock import date_order
from citus_analysis.formats.times.zones import timezone_of

__all__ = ["Style"]


@dataclass(frozen=True)
class Style:
    """Facts about the whole file."""

    stamped: bool
    order: str
    timezone: str
    first_report: bool | None

    @classmethod
    def of(cls, dated: Iterable[str], hints: Hints, *, stamped: bool, decimal_comma: bool) -> Style:
        """The facts, from the options and the beginning of the file.

        Args:
            dated: banners and lines with a time.
            hints: the options.
            stamped: a wrapper stamped the lines.
            decimal_comma: numbers are printed with a comma.
        """
        # A banner's kernel version looks like a date.
        dates = [re.sub(r"^.*\)", "", text) for text in dated]
        return cls(
            stamped=stamped,
            order=date_order(dates, hints.options, decimal_comma=decimal_comma),
            timezone=timezone_of(hints.options),
            first_report=first_report_option(hints.options),
        )

    @classmethod
    def of_lines(cls, lines: pl.DataFrame, hints: Hints) -> Style:
        """The facts, from the options and the classified lines of the beginning."""
        dated = lines.filter(pl.col("kind").is_in(["banner", "time"]))["text"]
        values = lines.filter(pl.col("kind") == "cpu_values")["text"]
        comma = bool(values.str.contains(r"[0-9],[0-9]").any())
        return cls.of(dated, hints, stamped="stamp" in lines.columns, decimal_comma=comma)

    @classmethod
    def of_plain(cls, head: bytes, hints: Hints) -> Style:
        """The same without queries, if the beginning is ASCII, no line is stamped, and no time lacks its date."""
        return cls.of(dated_texts(head), hints, stamped=False, decimal_comma=has_decimal_commas(head))
