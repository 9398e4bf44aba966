"""The manifest of a dataset on an object store: one object per commit, never changed once it is written.

The objects are `_manifest/0000000001.json`, `_manifest/0000000002.json`, ... Each is written by a conditional request
that fails if the object exists: of two processes that commit at the same time, one is refused, and no commit is lost. A
commit has the form of a line in the manifest of a folder, with its hash.

A commit with all entries shortens a long manifest; the commits before it are then removed. A reader lists the objects
again if one of them has been removed meanwhile.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

from citus_analysis.dataset.objects.object_place import ObjectPlace, Stored
from citus_analysis.dataset.storage.manifest import (
    DerivedState,
    Entry,
    Manifest,
    SourceState,
    another_writer,
    one_commit,
)
from citus_analysis.errors import DatasetError

_FOLDER: Final = "_manifest"
_DIGITS: Final = 10
#: Largest number of commits that is left at the end of an ingest; more are merged into one.
_MOST_COMMITS: Final = 50
_TRIES: Final = 5


@dataclass
class ObjectManifest(Manifest):
    """The committed state of a dataset on an object store.

    Attributes:
        place: the dataset.
        superseded: path of each file that a commit replaced -> when, in seconds since 1970 by the store's clock.
    """

    place: ObjectPlace = field(default_factory=lambda: ObjectPlace("memory://"))
    superseded: dict[str, float] = field(default_factory=dict)
    _first: int = 1
    _last: int = 0
    _writer: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def at(cls, place: ObjectPlace, folder: Path) -> ObjectManifest:
        """Read the manifest of a place; an empty one if the place has none yet.

        Args:
            place: the dataset.
            folder: local folder for copies of its files.

        Raises:
            DatasetError: the store cannot be reached, the manifest is damaged, or an incompatible version wrote it.
        """
        for _ in range(_TRIES):
            listed = place.listed(_FOLDER)
            names = sorted(name for name in listed if name.endswith(".json"))
            try:
                read = place.read_all(names)
            except FileNotFoundError:
                # Another process shortened the manifest.
                continue
            return cls(folder, place=place)._applied(names, read, listed)
        raise DatasetError("its manifest changes faster than it can be read", path=place.url, way_out="try again")

    def _applied(self, names: list[str], read: list[bytes], listed: dict[str, Stored]) -> ObjectManifest:
        numbers = [int(Path(name).stem) for name in names]
        for name, number, data in zip(names, numbers, read, strict=True):
            if number != numbers[0] + self._last - self._first + 1 and self._last:
                raise DatasetError("a commit is missing", path=f"{self.place.url}/{_FOLDER}", place=f"before {name}")
            try:
                first, second, third = data.split(b"\n")[:3]
                facts = json.loads(third)
                if facts["whole"]:
                    self.sources, self.derived = {}, {}
                    self.superseded = dict(facts["superseded"])
                before = {part.path for part in self.parts()}
                self._lines = 0
                self._read_line(1, first)
                self._read_line(2, second)
            except (ValueError, DatasetError) as error:
                way_out = "ingest into a new place"
                raise DatasetError("is damaged", path=f"{self.place.url}/{name}", way_out=way_out) from error
            if number > 1 and not self._last and not facts["whole"]:
                raise DatasetError("its first commits are missing", path=f"{self.place.url}/{_FOLDER}")
            after = {part.path for part in self.parts()}
            self._note(before - after, after, listed[name].changed)
            self._first, self._last = numbers[0], number
        return self

    def _note(self, dropped: set[str], live: set[str], at: float) -> None:
        self.superseded |= dict.fromkeys(dropped, at)
        self.superseded = {path: when for path, when in self.superseded.items() if path not in live}

    @property
    def exists(self) -> bool:
        """Whether the place contains a dataset."""
        return self._last > 0

    def compact(self) -> None:
        """Merge the commits if there are many."""
        if self._last - self._first + 1 <= _MOST_COMMITS:
            return
        first, last = self._first, self._last
        self._put(self.entries(), whole=True)
        self._first = self._last
        self.place.remove(_name(number) for number in range(first, last + 1))

    def commit(
        self, *states: SourceState | DerivedState, gone: Iterable[str] = (), emptied: Iterable[str] = ()
    ) -> None:
        """Write a commit, all or none of it.

        Raises:
            DatasetError: another process committed meanwhile.
        """
        gone, emptied = list(gone), list(emptied)
        dropped = {part.path for part in self.affected_parts(states, gone, emptied)}
        made = {part.path for state in states for part in state.parts}
        self._note(dropped - made, made, time.time())
        super().commit(*states, gone=gone, emptied=emptied)

    def _write(self, entries: list[Entry]) -> None:
        self._put(entries, whole=False)

    def _put(self, entries: list[Entry], *, whole: bool) -> None:
        facts = {"whole": whole, "writer": self._writer, "superseded": self.superseded if whole else {}}
        data = f"{one_commit(entries)}{json.dumps(facts)}\n".encode("ascii")
        if not self.place.create(_name(self._last + 1), data):
            raise another_writer(self.place.url)
        self._last += 1


def _name(number: int) -> str:
    return f"{_FOLDER}/{number:0{_DIGITS}}.json"
