"""Lines of sysstat's texts: rows that look the same in all locales as columns of numbers, other lines as texts.

A plain row begins with a time such as `10:00:01`, optionally followed by `AM` or `PM`, or with seconds since 1970, and
has a plain number after that. Without the compiled reader, every line is read as a text (:mod:`._lines`), with the same
rows.
"""

from __future__ import annotations

import codecs
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from citus_analysis.core.array_types import Bools, Floats, Integers
from citus_analysis.formats.deliveries.placed_lines import starts_of
from citus_analysis.formats.reading.text_fields import CLOCK, NUMBER, Fields, read_fields
from citus_analysis.formats.sysstat._lines import KINDS, TIME, classified

_NOON: Final = 12
_HALF_DAY_S: Final = 43_200
_NO_FIELD: Final = -1
_LEAST_EPOCH: Final = 1e8
_MOST_EPOCH_DIGITS: Final = 12
_SECONDS_PLACE: Final = 6
_CODES: Final = {kind: code for code, kind in enumerate(KINDS.categories)}


def split_lines(data: bytes, offset: int) -> tuple[pl.DataFrame, Fields | None]:
    """Lines of a block, and its fields.

    Returns:
        `offset`, `length`, `terminated`, `kind`, `seconds` (of the day, or since 1970); of plain rows `field` (number
        of the first field after the time) and `fields` (their number), of other lines `text` and `rest` as
        :func:`citus_analysis.formats.sysstat._lines.classified` gives them.
    """
    if not offset and data.startswith(codecs.BOM_UTF8):
        data = b"   " + data[len(codecs.BOM_UTF8) :]
    fields = read_fields(data)
    if fields is None:
        return _as_texts(classified(data, offset)), None
    bounds = starts_of(data)
    lines = pl.DataFrame({"offset": bounds[:-1] + offset, "length": np.diff(bounds)})
    lines = lines.with_columns(terminated=np.arange(lines.height) < data.count(b"\n"))
    timed, plain, seconds, first = _plain(fields)
    other = np.flatnonzero(~plain & (np.diff(fields.first) > 0))
    texts = _of_others(fields, bounds, other, timed[other], first[other])
    kind = np.where(plain, _CODES["row"], _CODES["blank"])
    kind[other] = texts["kind"].to_physical().to_numpy()
    seconds[other] = np.where(timed[other], seconds[other], texts["seconds"].fill_null(np.nan).to_numpy())
    place = np.full(lines.height, _NO_FIELD)
    place[other] = np.arange(len(other))
    shown = texts.select("text", "rest").select(pl.all().gather(pl.Series(place).replace(_NO_FIELD, None)))
    blank = pl.Series(~plain & (place == _NO_FIELD))
    lines = lines.with_columns(
        KINDS.categories.gather(kind).cast(KINDS).alias("kind"),
        pl.Series("seconds", np.where(blank, np.nan, seconds), nan_to_null=True),
        field=np.where(plain, first, _NO_FIELD),
        fields=np.where(plain, fields.first[1:] - first, 0),
    )
    return lines.hstack(shown.with_columns(text=pl.when(blank).then(pl.lit("")).otherwise("text"))), fields


def _of_others(fields: Fields, bounds: Integers, lines: Integers, timed: Bools, after: Integers) -> pl.DataFrame:
    """Columns of lines other than plain rows. Each text is read once: most are headers that differ only in their time.

    Lines that begin with a time have no `text`.
    """
    begin = np.where(timed, fields.begin[np.minimum(after, len(fields.begin) - 1)], bounds[lines])
    end = bounds[lines + 1]
    end -= np.frombuffer(fields.data, np.uint8)[end - 1] == ord("\n")
    keys = pl.DataFrame({"timed": timed, "text": fields.stretches(begin, end - begin)}).with_row_index()
    first = keys.select(pl.col("index").first().over("timed", "text")).to_series().to_numpy()
    distinct, number = np.unique(first, return_inverse=True)
    texts = _as_texts(classified(_joined(fields.data, bounds[lines[distinct]], bounds[lines[distinct] + 1])))
    return texts.select(pl.all().gather(number)).with_columns(text=pl.when(~pl.Series(timed)).then("text"))


def with_texts(lines: pl.DataFrame, data: bytes, offset: int) -> pl.DataFrame:
    """Lines of a block, with `text` and `rest` of each line."""
    if not lines["text"].null_count():
        return lines
    begin = lines["offset"].to_numpy() - offset
    texts = classified(_joined(data, begin, begin + lines["length"].to_numpy()), offset + int(begin[0]))
    return lines.with_columns(texts["text"], texts["rest"])


def _as_texts(lines: pl.DataFrame) -> pl.DataFrame:
    no_fields = {"field": pl.lit(_NO_FIELD, pl.Int64), "fields": pl.lit(0, pl.Int64)}
    return lines.with_columns(seconds=_seconds_of_day(), **no_fields).drop("clock")


def _joined(data: bytes, begin: Integers, end: Integers) -> bytes:
    """Some lines of the data, joined."""
    lengths = end - begin
    before = np.cumsum(lengths) - lengths
    places = np.repeat(begin - before, lengths) + np.arange(int(lengths.sum()))
    return np.frombuffer(data, np.uint8)[places].tobytes()


def _plain(fields: Fields) -> tuple[Bools, Bools, Floats, Integers]:
    """Which lines begin with a time and which are plain rows; the time in seconds, and the first field after it."""
    begins, counts = fields.first[:-1], np.diff(fields.first)
    if not len(fields.kind):
        nothing = np.zeros(len(begins), np.bool_)
        return nothing, nothing, np.zeros(len(begins)), begins
    first = np.minimum(begins, len(fields.kind) - 1)
    half, late = _halves(fields, first, counts)
    clock, value = fields.kind[first] == CLOCK, fields.number[first]
    least = 10.0 ** (np.minimum(fields.length[first], _MOST_EPOCH_DIGITS) - 1)
    # The text has as many digits as characters, so it has neither a sign nor a point.
    epoch = (fields.kind[first] == NUMBER) & (value >= np.maximum(least, _LEAST_EPOCH)) & (value < _LEAST_EPOCH * 1000)
    after = first + 1 + half
    numbers = np.append(0, np.cumsum(fields.kind == NUMBER))
    numeric = numbers[fields.first[1:]] - numbers[np.minimum(first + 1, fields.first[1:])] > 0
    # LINUX RESTART, COM
    event = np.isin(_byte(fields, np.minimum(after, len(fields.kind) - 1)), np.frombuffer(b"LC", np.uint8))
    timed = (counts > 1 + half) & (clock | (epoch & ~half))
    return timed, timed & numeric & ~event, np.where(half, value % _HALF_DAY_S + late * _HALF_DAY_S, value), after


def _halves(fields: Fields, first: Integers, counts: Integers) -> tuple[Bools, Bools]:
    """Whether `AM` or `PM` comes after the first field of each line, and which of them."""
    second = np.minimum(first + 1, len(fields.kind) - 1)
    if not (b" AM " in fields.data or b" PM " in fields.data):
        return np.zeros(len(first), np.bool_), np.zeros(len(first), np.bool_)
    one, two = _byte(fields, second), _byte(fields, second, 1)
    # A leap second at the end of a half day would otherwise begin that half again.
    leap = _byte(fields, first, _SECONDS_PLACE) == ord("6")
    half = (counts > 1) & (fields.length[second] == len("AM")) & (two == ord("M")) & ~leap
    late = one == ord("P")
    return half & (late | (one == ord("A"))), half & late


def _byte(fields: Fields, field: Integers, place: int = 0) -> npt.NDArray[np.uint8]:
    """The byte at a place of each of some fields; a later byte if the field is shorter."""
    text = np.frombuffer(fields.data, np.uint8)
    return text[np.minimum(fields.begin[field] + place, len(text) - 1)]


@cache
def _seconds_of_day() -> pl.Expr:
    """Seconds since midnight of printed times, or since 1970; null without a time."""
    part = pl.col("clock").str.extract_groups(rf"^{TIME}$").struct
    before, after = part.field("1"), part.field("5")
    hour, minute, second = (part.field(group).cast(pl.Int64) for group in "234")
    late = (before.is_in(["下午", "오후"]) | after.is_in(["P", "p"])).fill_null(value=False)
    halved = before.is_not_null() | after.is_not_null()
    hour = pl.when(halved).then(hour % _NOON + late.cast(pl.Int64) * _NOON).otherwise(hour)
    possible = (hour < 24) & (minute < 60) & (second <= 60)
    epoch = pl.col("clock").str.extract(r"^([0-9]{9,11})$").cast(pl.Int64)
    return pl.coalesce(pl.when(possible).then(hour * 3600 + minute * 60 + second), epoch).cast(pl.Float64)
