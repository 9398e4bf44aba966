"""What `native/fields.c` gives, in columns of numpy and polars: slower, but each rule by itself."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from citus_analysis.core.type_aliases import Bools, Floats, Integers
from citus_analysis.formats.parsing.sampler_lines import CLOCK, MOMENT, MOMENT_UTC, NUMBER, TextFields

__all__ = ["split_in_python"]

_NEWLINE: Final = ord("\n")
_GAPS: Final = np.isin(np.arange(256), [*b" \t\n\v\f\r"])
_MOST_DIGITS: Final = 15
_LONGEST: Final = 23
_NUMBER: Final = r"^-?[0-9]+(?:[.,][0-9]+)?$"
_CLOCK: Final = r"^(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)$"
_MOMENT: Final = (
    r"^(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-5][0-9](?: UTC)?$"
)


def split_in_python(data: bytes, separator: str) -> TextFields:
    """The fields of each line, as :func:`citus_analysis.formats.parsing.sampler_lines.split_fields` gives them."""
    text = np.frombuffer(data, np.uint8)
    starts = np.flatnonzero(np.concatenate([[_NEWLINE], text[:-1]])[: len(text)] == _NEWLINE)
    begins, ends = _between_blanks(text) if separator == " " else _between(text, starts, ord(separator))
    first = np.searchsorted(begins, np.append(starts, len(data) + 1))
    begin, length = begins.astype(np.int32), (ends - begins).astype(np.int32)
    number, kind = np.zeros(len(begin)), np.zeros(len(begin), np.uint8)
    # Longer ones are no numbers, and those that are not ASCII may not be UTF-8.
    beginning = text[np.minimum(begin, max(len(data) - 1, 0))] if len(data) else text
    numeric = ((beginning - ord("0") < 10) | (beginning == ord("-"))) & (length > 0) & (length <= _LONGEST)
    places = np.flatnonzero(numeric)
    found = TextFields(data.decode("ascii", "replace").encode("ascii", "replace"), first, begin, length, number, kind)
    number[places], kind[places] = _numbers_of(found.texts(places))
    return TextFields(data, first, begin, length, number, kind)


def _between_blanks(text: npt.NDArray[np.uint8]) -> tuple[Integers, Integers]:
    gap = np.concatenate([[True], _GAPS[text], [True]])
    edges = np.flatnonzero(gap[1:] != gap[:-1])
    return edges[::2], edges[1::2]


def _between(text: npt.NDArray[np.uint8], starts: Integers, separator: int) -> tuple[Integers, Integers]:
    stops = np.append(starts[1:] - 1, len(text) - bool(len(text) and text[-1] == _NEWLINE))[: len(starts)]
    # Where each line ends without its blanks.
    solid = np.where(_GAPS[text], -1, np.arange(len(text)))
    last = np.maximum.accumulate(solid)[np.maximum(stops - 1, 0)] if len(text) else stops
    ends = np.maximum(last + 1, starts)
    kept = ends > starts
    starts, ends = starts[kept], ends[kept]
    separators = np.flatnonzero(text == separator)
    line = np.searchsorted(starts, separators, side="right") - 1
    inside = separators[(line >= 0) & (separators < ends[np.maximum(line, 0)])] if len(starts) else separators[:0]
    return np.sort(np.concatenate([starts, inside + 1])), np.sort(np.concatenate([inside, ends]))


def _numbers_of(texts: pl.Series) -> tuple[Floats, npt.NDArray[np.uint8]]:
    """Value and kind of fields that begin as numbers do."""
    value, kind = np.zeros(len(texts)), np.zeros(len(texts), np.uint8)
    number = _matching(texts, _NUMBER) & (texts.str.count_matches("[0-9]") <= _MOST_DIGITS).to_numpy()
    plain = texts.filter(number).str.replace(",", ".", literal=True)
    value[number], kind[number] = plain.cast(pl.Float64).to_numpy(), NUMBER
    clock = _matching(texts, _CLOCK)
    hours, minutes, seconds = (texts.filter(clock).str.slice(start, 2).cast(pl.Int64) for start in (0, 3, 6))
    value[clock], kind[clock] = (hours * 3600 + minutes * 60 + seconds).to_numpy(), CLOCK
    moments = texts.str.strip_suffix(" UTC").str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)
    moment = _matching(texts, _MOMENT) & moments.is_not_null().to_numpy()
    value[moment] = moments.filter(moment).dt.epoch("s").to_numpy()
    kind[moment] = np.where(texts.filter(moment).str.ends_with(" UTC").to_numpy(), MOMENT_UTC, MOMENT)
    return value, kind


def _matching(texts: pl.Series, pattern: str) -> Bools:
    return texts.str.contains(pattern).to_numpy()
