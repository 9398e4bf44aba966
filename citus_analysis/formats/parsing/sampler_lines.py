r"""Lines of samplers: columns separated by blanks, stamps before lines, the beginning of sysstat's outputs.

Of columns separated by blanks, each run of blanks is reduced to one, so that a CSV reader can split them.

Example:
    >>> split_compact_lines(b"a   1.5\t2 \r\n\n b", offset=10).rows()
    [(10, 12, 'a 1.5 2', True), (22, 1, '', True), (23, 2, 'b', False)]
"""

from __future__ import annotations

import ctypes
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Mapping
from ctypes import POINTER, Structure, c_int64, c_uint8, c_void_p
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from citus_analysis.core.compiled_code import LIBRARY_SUFFIX, load_library
from citus_analysis.core.type_aliases import Floats, Integers
from citus_analysis.formats.parsing.format import FIRST_REPORT, LineBegin, StartMarker
from citus_analysis.formats.parsing.lines import add_reject_reasons, fits, line_frame, select_readable_rows, slice_texts
from citus_analysis.formats.parsing.time_zones import get_timezone
from citus_analysis.formats.parsing.times import infer_date_order
from citus_analysis.schema import TABLES

#: A time and a tab that a logging wrapper wrote before each line (pgbench-tools, `ts '%F %.T'`).
STAMP: Final = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?)\t"
_STAMP_BEGIN: Final = LineBegin(STAMP.removeprefix("^").encode())

#: The first line of the texts of iostat, mpstat, pidstat and sar, and the beginning of their JSON.
SYSSTAT_BANNER: Final = StartMarker(b"Linux ", rb"\S+ \([^\n]*\)[ \t][^\n]*[0-9]", repeats=True)
SYSSTAT_DOCUMENT: Final = StartMarker(b"{", rb'\s*"sysstat"\s*:', whole=True)


def parse_first_report_option(options: Mapping[str, str]) -> bool | None:
    """Whether, by the option `first_report`, the first report averages since boot; None if the option is not given.

    Raises:
        UnknownNameError: the value is not one of the choices.
    """
    choice = FIRST_REPORT.value(options)
    return None if choice is None else choice == "since_boot"


def choose_clock_options(
    dates: Iterable[str], options: Mapping[str, str], *, decimal_comma: bool = False
) -> tuple[str, str, bool | None]:
    """Order of the parts of dates, time zone, and whether the first report is since boot: stated or read off."""
    return (
        infer_date_order(dates, options, decimal_comma=decimal_comma),
        get_timezone(options),
        parse_first_report_option(options),
    )


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


def split_compact_lines(data: bytes, offset: int = 0) -> pl.DataFrame:
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


# Fields of the lines of a text, and the plain numbers and times among them, as columns of numbers.
#
# Text samplers print little else, so splitting their lines is most of the work of reading them. The code is compiled
# (`native/fields.c`): lines of several reports alternate, and polars or Arrow need about ten passes over the text to
# split those of each report, at 40 to 50 MB/s. Lines with other fields, and texts that are not UTF-8, are read by the
# formats as columns of texts.
#
# A field is a number only if every reader gives it the same value: up to 15 digits, perhaps with a point or a comma
# between them. Numbers printed in another way (`1.5M`, `1e5`) are texts, which the caller converts.

#: Kinds of fields; CLOCK is `10:00:01`, MOMENT is `2026-11-22 10:00:01`, MOMENT_UTC is a moment followed by ` UTC`.
TEXT, NUMBER, CLOCK, MOMENT, MOMENT_UTC = range(5)

#: As in `native/fields.c`.
_VERSION: Final = 1
LIBRARY: Final = Path(__file__).with_name(f"_fields{LIBRARY_SUFFIX}")


@dataclass(frozen=True)
class TextFields:
    """The fields of a text.

    Attributes:
        data: the text.
        first: number of the first field of each line, and at the end the number of fields.
        begin: offset of each field in the text.
        length: length of each field in bytes.
        number: value of each field; for times, seconds since midnight or 1970 as printed; 0 for texts.
        kind: kind of each field.
    """

    data: bytes
    first: Integers
    begin: npt.NDArray[np.int32]
    length: npt.NDArray[np.int32]
    number: Floats
    kind: npt.NDArray[np.uint8]

    def texts(self, fields: Integers) -> pl.Series:
        """The texts of some fields; the data must be UTF-8."""
        return self.slices(self.begin[fields], self.length[fields])

    def slices(self, begin: npt.NDArray[np.integer], length: npt.NDArray[np.integer]) -> pl.Series:
        """The texts with these offsets and lengths; the data must be UTF-8."""
        bounds = np.zeros(len(begin) + 1, np.int64)
        np.cumsum(length, out=bounds[1:])
        places = np.repeat(begin - bounds[:-1], length)
        places += np.arange(len(places))
        return slice_texts(np.frombuffer(self.data, np.uint8)[places], bounds)


class _FieldColumns(Structure):
    _fields_ = tuple((name, c_void_p) for name in ("first", "begin", "length", "number", "kind"))


def read_fields(data: bytes, separator: str = " ") -> TextFields | None:
    """:func:`split_fields`; None if the data are not UTF-8.

    Raises:
        CompiledCodeError: the compiled code cannot be loaded.
    """
    return split_fields(data, separator) if _is_utf8(data) else None


def _is_utf8(data: bytes) -> bool:
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def split_fields(data: bytes, separator: str = " ") -> TextFields:
    """The fields of each line.

    Args:
        data: lines.
        separator: between two fields. A run of blanks is one separator; blanks at the end of a line are ignored.

    Raises:
        CompiledCodeError: the compiled code cannot be loaded.
    """
    text = np.frombuffer(data, np.uint8)
    most = _load_field_library().fields_most(text.ctypes.data, len(data), ord(separator))
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    first = np.zeros(lines + 1, np.int64)
    begin, length = np.empty(most, np.int32), np.empty(most, np.int32)
    number, kind = np.empty(most, np.float64), np.empty(most, np.uint8)
    columns = _FieldColumns(*(array.ctypes.data for array in (first, begin, length, number, kind)))
    count = _load_field_library().fields_split(text.ctypes.data, len(data), ord(separator), ctypes.byref(columns))
    return TextFields(data, first, begin[:count], length[:count], number[:count], kind[:count])


@cache
def _load_field_library() -> ctypes.CDLL:
    """The library, with the types of its functions.

    Raises:
        CompiledCodeError: it cannot be loaded.
    """
    library = load_library(LIBRARY, "fields_version", _VERSION)
    library.fields_most.argtypes = (c_void_p, c_int64, c_uint8)
    library.fields_most.restype = c_int64
    library.fields_split.argtypes = (c_void_p, c_int64, c_uint8, POINTER(_FieldColumns))
    library.fields_split.restype = c_int64
    return library


# Meaning of the columns of iostat and vmstat in all versions, and the syntax of their numbers.
#
# A printed column maps to a schema column and a factor that converts its unit to the schema's: kilobytes of
# 1024 bytes. iostat's text and JSON share one map: JSON names are the text's without `%`.

#: Printed column -> column of the schema, and the factor that converts its unit.
PrintedColumns = Mapping[str, tuple[str, float]]
_KB_PER_MB: Final = 1024.0
KB_PER_SECTOR: Final = 0.5


def map_printed_columns(columns: Mapping[str, str], factor: float = 1.0) -> dict[str, tuple[str, float]]:
    """Columns of the schema with one factor, by printed column.

    Example:
        >>> map_printed_columns({"rMB/s": "read_kb_s", "wMB/s": "write_kb_s"}, 1024.0)["wMB/s"]
        ('write_kb_s', 1024.0)
    """
    return {printed: (column, factor) for printed, column in columns.items()}


CPU: Final[PrintedColumns] = map_printed_columns(
    {
        "user": "user_percent",
        "nice": "nice_percent",
        "system": "system_percent",
        "sys": "system_percent",
        "iowait": "iowait_percent",
        "steal": "steal_percent",
        "idle": "idle_percent",
    }
)


DEVICE: Final[PrintedColumns] = {
    **map_printed_columns(
        {
            "tps": "transfers_per_s",
            "rqm/s": "merges_per_s",
            "await": "await_ms",
            "areq-sz": "request_kb",
            "aqu-sz": "queue_length",
            "avgqu-sz": "queue_length",
            "svctm": "service_ms",
            "util": "utilization_percent",
            "f/s": "flushes_per_s",
            "f_await": "flush_await_ms",
            "r/s": "reads_per_s",
            "rrqm/s": "read_merges_per_s",
            "rrqm": "read_merge_percent",
            "r_await": "read_await_ms",
            "rareq-sz": "read_request_kb",
            "w/s": "writes_per_s",
            "wrqm/s": "write_merges_per_s",
            "wrqm": "write_merge_percent",
            "w_await": "write_await_ms",
            "wareq-sz": "write_request_kb",
            "d/s": "discards_per_s",
            "drqm/s": "discard_merges_per_s",
            "drqm": "discard_merge_percent",
            "d_await": "discard_await_ms",
            "dareq-sz": "discard_request_kb",
            "rkB/s": "read_kb_s",
            "wkB/s": "write_kb_s",
            "dkB/s": "discard_kb_s",
            "kB_read/s": "read_kb_s",
            "kB_wrtn/s": "write_kb_s",
            "kB_dscd/s": "discard_kb_s",
            "kB_w+d/s": "write_discard_kb_s",
            "kB/s": "total_kb_s",
        }
    ),
    **map_printed_columns(
        {
            "rMB/s": "read_kb_s",
            "wMB/s": "write_kb_s",
            "dMB/s": "discard_kb_s",
            "MB_read/s": "read_kb_s",
            "MB_wrtn/s": "write_kb_s",
            "MB_dscd/s": "discard_kb_s",
            "MB_w+d/s": "write_discard_kb_s",
            "MB/s": "total_kb_s",
        },
        _KB_PER_MB,
    ),
    **map_printed_columns(
        {
            "rsec/s": "read_kb_s",
            "wsec/s": "write_kb_s",
            "dsec/s": "discard_kb_s",
            "sec_read/s": "read_kb_s",
            "sec_wrtn/s": "write_kb_s",
            "sec_dscd/s": "discard_kb_s",
            "sec_w+d/s": "write_discard_kb_s",
            "sec/s": "total_kb_s",
            "rBlk/s": "read_kb_s",
            "wBlk/s": "write_kb_s",
            "dBlk/s": "discard_kb_s",
            "Blk_read/s": "read_kb_s",
            "Blk_wrtn/s": "write_kb_s",
            "Blk_dscd/s": "discard_kb_s",
            "Blk_w+d/s": "write_discard_kb_s",
            "Blk/s": "total_kb_s",
            "avgrq-sz": "request_kb",
        },
        KB_PER_SECTOR,
    ),
}
VM: Final = map_printed_columns(
    {
        "r": "runnable",
        "b": "blocked",
        "swpd": "swapped_kb",
        "free": "free_kb",
        "buff": "buffer_kb",
        "cache": "cache_kb",
        "inact": "inactive_kb",
        "active": "active_kb",
        "si": "swap_in_kb_s",
        "so": "swap_out_kb_s",
        "bi": "blocks_in_per_s",
        "bo": "blocks_out_per_s",
        "in": "interrupts_per_s",
        "cs": "context_switches_per_s",
        "gu": "guest_percent",
    }
)

#: Suffixes that `iostat --human` appends to sizes, in kB.
_HUMAN: Final = {suffix: 1024.0**power for power, suffix in enumerate("BkMGTP", -1)}


def number_expr(text: pl.Expr, factor: float = 1.0) -> pl.Expr:
    """A printed number times `factor`; a human-readable suffix (`1.5M`) states the unit and replaces the factor.

    Decimal commas are read as points (iostat prints no thousands separators); other text is null.

    Args:
        text: printed numbers.
        factor: factor that converts their unit.

    Example:
        >>> frame = pl.DataFrame({"text": ["1.50", "1,50", "1.5M", "15.2%", "x"]})
        >>> frame.select(number_expr(pl.col("text"), 2.0))["text"].to_list()
        [3.0, 3.0, 1536.0, 30.4, None]
    """
    plain = text.str.replace(",", ".", literal=True).str.strip_suffix("%")
    number = plain.str.strip_chars_end("BkMGTP").cast(pl.Float64, strict=False)
    suffix = plain.str.slice(-1).replace_strict(_HUMAN, default=factor, return_dtype=pl.Float64)
    return pl.when(number.is_finite()).then(number * suffix)


def make_range_exprs(table: str, names: Iterable[str]) -> dict[str, pl.Expr]:
    """Whether numbers are within the ranges of their columns; those that the table lacks may be any real numbers."""
    kinds = TABLES[table].parsed().polars_schema()
    return {name: fits(pl.col(name), kinds.get(name, pl.Float64())) for name in names}


def round_whole_columns(rows: pl.DataFrame, table: str) -> pl.DataFrame:
    """Rows of a table with rounded values in its columns of whole numbers."""
    kinds = TABLES[table].parsed().polars_schema()
    whole = [name for name, kind in kinds.items() if kind.is_integer() and name in rows.columns]
    return rows.with_columns(pl.col(name).round().cast(kinds[name]) for name in whole)


def parse_rows_under_headers(
    lines: pl.DataFrame, rows: pl.DataFrame, read: Callable[[str, pl.DataFrame], pl.DataFrame]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows that can be read, in the order of the source, and the lines with the `reason` of the others.

    Args:
        lines: the lines with their `offset` and `reason`.
        rows: those that contain values, with their `header`.
        read: returns, for a header and the lines under it, their values with `offset` and `reason`.
    """
    frames = [read(str(header), group) for (header,), group in rows.group_by("header", maintain_order=True)]
    fields = pl.concat([rows.select("offset", "reason").clear(), *frames], how="diagonal").sort("offset")
    return select_readable_rows(fields).rename({"offset": "byte_offset"}), add_reject_reasons(lines, fields)


def fill_derived_await(devices: pl.DataFrame) -> pl.DataFrame:
    """Fill a missing `await_ms` with the mean of the awaits of reads, writes and discards, weighted by requests.

    Flush requests are left out, as in sysstat's own combined figure. Without requests the result is null.
    """
    pairs = ((f"{kind}s_per_s", f"{kind}_await_ms") for kind in ("read", "write", "discard"))
    present = [pair for pair in pairs if pair[0] in devices.columns and pair[1] in devices.columns]
    if not present:
        return devices
    requests = pl.sum_horizontal(rate for rate, _ in present)
    waited = pl.sum_horizontal(pl.col(rate) * pl.col(wait) for rate, wait in present)
    derived = pl.when(requests > 0).then(waited / requests)
    printed = [name for name in devices.columns if name == "await_ms"]
    return devices.with_columns(await_ms=pl.coalesce(*printed, derived))
