"""Which field of an export holds a tool's text: that whose values, in order of time, are a text that a format knows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from citus_analysis.formats.deliveries.exports._rows import SEVERITY
from citus_analysis.formats.deliveries.exports._samples import Sample, samples
from citus_analysis.formats.deliveries.exports._shape import OUTER, Path, Shape
from citus_analysis.formats.deliveries.exports._value_times import nanoseconds, states_zone
from citus_analysis.formats.deliveries.exports._words import DETAILS, NAMING, TEXTS, TIMES
from citus_analysis.formats.deliveries.exports.export_step import Export
from citus_analysis.formats.deliveries.exports.readers._json_tables import Number, member, value_at
from citus_analysis.formats.deliveries.placed_lines import NO_TIME
from citus_analysis.formats.deliveries.steps import Knows

#: A field is taken for a tool's text from this confidence on.
SURE: Final = 0.9
#: Confidence in a text that is itself an export.
_NESTED: Final = 0.95
_DEEPEST: Final = 3
#: Fields that are tried, and names of records that are distinguished for it.
_TRIED, _NAMES_TRIED = 12, 8
_DEEPEST_FIELD: Final = 8
#: Share of a field's values that decide what it is; others are damaged, or of other programs.
_NEARLY: Final = 0.9
_MARK: Final = b"\xef\xbb\xbf"
#: The least length of a piece of a longer line, and of a character that may be cut at its end.
_PIECE, _CHARACTER = 4096, 4
#: Fields that say whether a text continues.
_PARTS: Final = ("logtag", "_p", "partial_last", "CONTAINER_PARTIAL_LAST")
_STREAMS: Final = ("stream", "source")
_STREAM_WORDS: Final = {b"stdout", b"stderr"}


def find_exports(head: bytes, knows: Knows, sure: float = SURE) -> Export | None:
    """The export that a text is; None if it is none, or if no field of it is a text that a format knows.

    A text that a format reads as it is may be an export too; which of the two counts is for the caller to decide. The
    text of an export may be an export again.

    Args:
        head: the first bytes of the text, which may end inside a record.
        knows: how sure the formats are of a text.
        sure: the least confidence in the text. With less than the default, a server log whose prefix nobody has stated
            yet is found as well, but so may be what is none.
    """
    return _found(head, knows, sure, 1)


def _found(head: bytes, knows: Knows, sure: float, depth: int) -> Export | None:
    for sample in samples(head.removeprefix(_MARK).lstrip()):
        found = _Choice(sample, knows, sure, depth).export()
        if found is not None:
            return found
    return None


def _bare(name: str) -> str:
    """A name without what differs between spellings of it."""
    return re.sub(r"[^a-z0-9@]", "", name.lower())


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def _paths(record: object, path: Path = ()) -> Iterator[Path]:
    """Paths to all values of a record that are no objects; names of fields that are damaged are passed over."""
    if isinstance(record, Mapping) and len(path) < _DEEPEST_FIELD:
        for key, value in record.items():
            if key != OUTER and not _SURROGATE.search(key):
                yield from _paths(value, (*path, key))
    elif path:
        yield path


@dataclass(frozen=True)
class _Field:
    """The values of one field of the first records; None where a record has none."""

    path: Path
    values: tuple[bytes | None, ...]
    kind: str

    @property
    def said(self) -> list[bytes]:
        return [value for value in self.values if value is not None]


class _Choice:
    """Chooses the fields of a sample."""

    def __init__(self, sample: Sample, knows: Knows, sure: float, depth: int) -> None:
        self._sample, self._knows, self._least, self._depth = sample, knows, sure, depth
        paths = dict.fromkeys(path for record in sample.records for path in _paths(record))
        self._fields = [self._field(path) for path in paths]

    def _field(self, path: Path) -> _Field:
        values = tuple(value_at(record, path) for record in self._sample.records)
        return _Field(path, values, _kind_of(self._sample.records, path))

    def export(self) -> Export | None:
        """The export whose text a format is surest of; None if none is sure enough."""
        time = self._time()
        naming = self._naming(time)
        taken = {time and time.path, *(path for _, path in naming)}
        shape = _timed(replace(self._sample.shape, naming=naming), time)
        texts = [one for one in self._fields if one.kind == "text" and one.path not in taken and any(one.said)]
        texts.sort(key=lambda one: (_rank(one.path, TEXTS), -sum(map(len, one.said))))
        best: Shape | None = None
        sure = self._least
        for text in texts[:_TRIED]:
            for candidate in self._with_text(shape, text):
                confidence = self._confidence(candidate, text)
                if confidence > sure or (best is None and confidence >= sure):
                    best, sure = candidate, confidence
        return None if best is None else Export.of(best)

    def _time(self) -> _Field | None:
        times = [one for one in self._fields if one.kind != "other" and _are_times(one)]
        return min(times, key=lambda one: (_rank(one.path, TIMES), len(one.path)), default=None)

    def _naming(self, time: _Field | None) -> tuple[tuple[str, Path], ...]:
        """For each kind of name the field with the most usual name that does not differ in every record."""
        outer = [
            _Field((OUTER, *path), tuple(value_at(one, path) for one in self._sample.outer), "text")
            for path in dict.fromkeys(path for one in self._sample.outer for path in _paths(one))
        ]
        found = []
        for kind, usual in NAMING.items():
            named = [one for one in (*self._fields, *outer) if _rank(one.path, usual) < len(usual)]
            named = [one for one in named if _is_name(one, kind) and one is not time]
            if named:
                found.append((kind, min(named, key=lambda one: (_rank(one.path, usual), len(one.path))).path))
        return tuple(found)

    def _with_text(self, shape: Shape, text: _Field) -> Iterator[Shape]:
        """The shape with this text, and with a prefix that stands in a field beside it."""
        beside = {_bare(one.path[-1]): one for one in self._fields if one.path[:-1] == text.path[:-1] and one != text}
        said = text.said
        lined = _are_lines(said)
        stream = next(
            (one.path for one in self._fields if one.path[-1] in _STREAMS and set(one.said) <= _STREAM_WORDS), ()
        )
        part = next((one.path for one in self._fields if one.path[-1] in _PARTS and one.kind == "text"), ())
        details = tuple(
            (word, beside[name].path)
            for name, word in DETAILS.items()
            if name in beside and beside[name].kind == "text" and any(map(SEVERITY.match, said))
        )
        # CloudWatch Insights states times in UTC and does not say so.
        utc = shape.utc or (*shape.time, *text.path) == ("@timestamp", "@message")
        found = replace(shape, text=text.path, utc=utc, newline=lined, part=part, details=details)
        found = replace(found, stream=stream if lined or part else ())
        prefix = beside.get("prefix")
        if prefix is not None and any(prefix.said):
            yield replace(found, prefix=prefix.path)
        yield found

    def _confidence(self, shape: Shape, text: _Field) -> float:
        """How sure formats are of the text of any name."""
        prefix = next((one.values for one in self._fields if one.path == shape.prefix), None)
        ends = b"" if shape.newline else b"\n"
        best = 0.0
        for rows in self._rows_of_names(shape):
            values = [
                (prefix[row] or b"" if prefix else b"") + (text.values[row] or b"")
                for row in rows
                if text.values[row] is not None
            ]
            whole = b"".join(value if value.endswith(b"\n") else value + ends for value in values)
            best = max(best, self._sure(whole)) if whole.strip() else best
        return best

    def _sure(self, text: bytes) -> float:
        known = self._knows(text)
        if known < _NESTED and self._depth < _DEEPEST and text.lstrip()[:1] in (b"{", b"["):
            return max(known, _NESTED if _found(text, self._knows, self._least, self._depth + 1) else 0.0)
        return known

    def _rows_of_names(self, shape: Shape) -> list[list[int]]:
        """Records of each of the first names, in order of time."""
        count = len(self._sample.records)
        times = np.zeros(count, np.int64)
        field = next((one for one in self._fields if one.path == shape.time), None)
        if field is not None:
            times = nanoseconds(pa.array(field.values, pa.binary()))
        rows = range(count)
        if count > 1 and times[0] > times[-1] and (np.diff(times) <= 0).all():
            rows = range(count - 1, -1, -1)
        groups: dict[tuple[bytes | None, ...], list[int]] = {}
        for row in sorted(rows, key=lambda row: int(times[row])):
            groups.setdefault(self._name_of(row, shape), []).append(row)
        return sorted(groups.values(), key=len, reverse=True)[:_NAMES_TRIED]

    def _name_of(self, row: int, shape: Shape) -> tuple[bytes | None, ...]:
        record, around = self._sample.records[row], self._sample.outer[row] if self._sample.outer else None
        return tuple(
            value_at(around, path[1:]) if path[0] == OUTER else value_at(record, path) for _, path in shape.naming
        )


def _kind_of(records: Sequence[Mapping[str, object]], path: Path) -> str:
    """What nearly all values of a field are: `text`, `integer`, `number` or `other`."""
    kinds = Counter(kind for record in records if (kind := _kind(record, path)) is not None)
    if kinds["number"]:
        kinds["number"] += kinds.pop("integer", 0)
    kind, count = kinds.most_common(1)[0] if kinds else ("other", 0)
    return kind if count >= _NEARLY * kinds.total() else "other"


def _kind(record: object, path: Path) -> str | None:
    value = member(record, path)
    if value is None:
        return None
    if isinstance(value, Number):
        return "integer" if value.removeprefix("-").isdigit() else "number"
    # Bytes in journald's JSON are arrays.
    return "text" if isinstance(value, str | list) else "other"


def _rank(path: Path, usual: Sequence[str]) -> int:
    """The place of a field's name, or of that with the name of the object it is in, among the usual ones."""
    names = (_bare(path[-1]), _bare("".join(path[-2:])))
    return min((usual.index(name) for name in names if name in usual), default=len(usual))


def _are_times(one: _Field) -> bool:
    said = one.said
    if 2 * len(said) < len(one.values):
        return False
    return bool((nanoseconds(pa.array(said, pa.binary())) != NO_TIME).all())


def _timed(shape: Shape, time: _Field | None) -> Shape:
    if time is None:
        return shape
    return replace(shape, time=time.path, time_kind=time.kind, utc=all(map(states_zone, time.said)))


def _are_lines(said: Sequence[bytes]) -> bool:
    """Whether texts contain their line ends: half of them do, or all that do not are pieces of the same length."""
    others = [len(value) for value in said if not value.endswith(b"\n")]
    pieces = bool(others) and min(others) >= _PIECE and max(others) - min(others) <= _CHARACTER
    return 2 * len(others) <= len(said) or (pieces and len(others) < len(said))


def _is_name(one: _Field, kind: str) -> bool:
    """Most records have one of few values, none of which is empty; a file with its folder, as no source file is."""
    said = one.said
    if kind == "file" and not all(b"/" in value for value in said):
        return False
    few = len(set(said)) <= max(1, len(said) // 2) and 2 * len(said) >= len(one.values)
    return one.kind == "text" and bool(said) and few and all(said)
