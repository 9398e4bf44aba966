"""What an export looks like: where its records stand, and which of their fields are the text, its time and its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

#: Keys from a record down to a value.
Path: TypeAlias = tuple[str, ...]
#: In a path to records: each element of an array.
ANY: Final = "*"
#: Before a path to a field of the object that holds the array of records.
OUTER: Final = ".."


@dataclass(frozen=True)
class Shape:
    """The structure of an export.

    Attributes:
        container: `lines` (of one object each), `document` (JSON over lines), `csv` or `journal` (journald's export).
        text: path of the tool's text in a record.
        time: path of its time; empty if it has none.
        time_kind: what it is in JSON: `text`, `integer` or `number`.
        utc: times state their zone, or are in UTC as such exports define it.
        naming: paths of the fields that say whose the record is, each after what it names (`host`, `pod` ...).
        stream: path of the field that says of which stream a piece of text is; empty if none.
        part: path of the field that says whether the text continues in the next record; empty if none.
        newline: texts contain their line ends, and a text without one continues in the next record.
        prefix: path of a field that stands before the text; empty if none.
        details: paths of fields that a server log would print as lines after the text, each after its word (`DETAIL`).
        records: path of the records in a document, `*` for the elements of an array.
        form: a record is an `object`, a `pair` of time and text, or `fields`: an array of pairs of name and value.
        header: names of the columns of CSV.
        separator: what stands between columns of CSV.
    """

    container: str
    text: Path = ()
    time: Path = ()
    time_kind: str = "text"
    utc: bool = False
    naming: tuple[tuple[str, Path], ...] = ()
    stream: Path = ()
    part: Path = ()
    newline: bool = False
    prefix: Path = ()
    details: tuple[tuple[str, Path], ...] = ()
    records: Path = ()
    form: str = "object"
    header: tuple[str, ...] = ()
    separator: str = ","

    def wanted(self) -> tuple[Path, ...]:
        """All paths to read in records; those of the object around them not."""
        named = (path for _, path in (*self.naming, *self.details))
        found = dict.fromkeys((self.text, self.time, self.stream, self.part, self.prefix, *named))
        return tuple(path for path in found if path and path[0] != OUTER)
