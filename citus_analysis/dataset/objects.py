"""A dataset on an object store, as an ingest writes it.

Parts are written below a temporary folder and uploaded by the task that made them, under names that derive from their
content: a task that is run again writes the same bytes under the same names. They belong to the dataset when a commit
names them.
"""

from __future__ import annotations

import io
import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import uuid4

from citus_analysis.dataset.digests import hash_file_content
from citus_analysis.dataset.manifest import (
    DerivedState,
    Entry,
    Manifest,
    ParquetPart,
    SourceState,
    format_single_commit,
    make_other_writer_error,
)
from citus_analysis.dataset.object_place import ObjectPlace, SilentStoreError, Stored
from citus_analysis.dataset.parts import (
    OTHER_BYTES,
    StagedPart,
    compute_file_fingerprints,
    find_footer_problem,
    find_length_problem,
    get_part_resource,
    make_defect_error,
    make_typed_exprs,
    open_dataset_of_files,
)
from citus_analysis.dataset.store import GRACE_S, FolderStore, Vacuumed, make_scratch_folder
from citus_analysis.errors import DatasetError, FormatError
from citus_analysis.schema import Table
from citus_analysis.texts.documents import parse_json
from citus_analysis.texts.names import is_url

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.fs as pafs

# The right to write to a dataset on an object store: an object that its holder writes again every few seconds.
#
# The manifest alone keeps two writers from damaging a dataset, but the second would learn of the first only after its
# first work. With the lease it learns it at once. A holder that was killed leaves the object, which then does not
# change any more: after a wait another process takes it over. Clocks are not compared.

_NAME: Final = "_lease.json"
#: Seconds between two writes by the holder, and until an object that does not change is taken over.
RENEWED_S: Final = 5.0
ABANDONED_S: Final = 17.0


@contextmanager
def hold_lease(place: ObjectPlace) -> Iterator[None]:
    """Hold the lease of a place.

    Raises:
        DatasetError: another process holds it.
    """
    name = uuid4().hex
    _take(place, name)
    ended = Event()
    renewing = Thread(target=_renew_lease, args=(place, name, ended), name="lease", daemon=True)
    renewing.start()
    try:
        yield
    except SilentStoreError:
        # The lease is taken over as one of a process that was killed.
        ended.set()
        raise
    finally:
        if not ended.is_set():
            ended.set()
            renewing.join()
            with suppress(DatasetError):
                if _read_lease_holder(place) == name:
                    place.remove([_NAME])


def _take(place: ObjectPlace, name: str) -> None:
    if place.create(_NAME, _encode_lease(name, 0)):
        return
    seen = _read_lease(place)
    until = time.monotonic() + ABANDONED_S
    while seen is not None and time.monotonic() < until:
        time.sleep(min(1.0, ABANDONED_S / 4))
        now = _read_lease(place)
        if now not in (seen, None):
            raise make_other_writer_error(place.url)
        seen = now
    place.remove([_NAME])
    if not place.create(_NAME, _encode_lease(name, 0)):
        raise make_other_writer_error(place.url)


def _renew_lease(place: ObjectPlace, name: str, ended: Event) -> None:
    signs = 0
    while not ended.wait(RENEWED_S):
        signs += 1
        # The store may be unreachable for a moment: the manifest decides which process is the writer.
        with suppress(DatasetError):
            if _read_lease_holder(place) != name:
                return
            place.write(_NAME, _encode_lease(name, signs))


def _encode_lease(name: str, signs: int) -> bytes:
    facts = {"holder": name, "host": socket.gethostname(), "pid": os.getpid(), "signs_of_life": signs}
    return json.dumps(facts).encode()


def _read_lease(place: ObjectPlace) -> bytes | None:
    try:
        return place.read_all([_NAME])[0]
    except FileNotFoundError:
        return None


def _read_lease_holder(place: ObjectPlace) -> str | None:
    text = _read_lease(place)
    return None if text is None else str(parse_json(text)["holder"])


# The manifest of a dataset on an object store: one object per commit, never changed once it is written.
#
# The objects are `_manifest/0000000001.json`, `_manifest/0000000002.json`, ... Each is written by a conditional request
# that fails if the object exists: of two processes that commit at the same time, one is refused, and no commit is lost.
# A commit has the form of a line in the manifest of a folder, with its hash.
#
# A commit with all entries shortens a long manifest; the commits before it are then removed. A reader lists the objects
# again if one of them has been removed meanwhile.

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
            listed = place.list_objects(_FOLDER)
            names = sorted(name for name in listed if name.endswith(".json"))
            try:
                read = place.read_all(names)
            except FileNotFoundError:
                # Another process shortened the manifest.
                continue
            return cls(folder, place=place)._apply_changes(names, read, listed)
        raise DatasetError("its manifest changes faster than it can be read", path=place.url, hint="try again")

    def _apply_changes(self, names: list[str], read: list[bytes], listed: dict[str, Stored]) -> ObjectManifest:
        numbers = [int(Path(name).stem) for name in names]
        for name, number, data in zip(names, numbers, read, strict=True):
            if number != numbers[0] + self._last - self._first + 1 and self._last:
                raise DatasetError("a commit is missing", path=f"{self.place.url}/{_FOLDER}", place=f"before {name}")
            try:
                first, second, third = data.split(b"\n")[:3]
                facts = parse_json(third)
                if facts["whole"]:
                    self.sources, self.derived = {}, {}
                    self.superseded = dict(facts["superseded"])
                before = {part.path for part in self.parts()}
                self._lines = 0
                self._read_line(1, first)
                self._read_line(2, second)
            except (ValueError, FormatError, DatasetError) as error:
                hint = "ingest into a new place"
                raise DatasetError("is damaged", path=f"{self.place.url}/{name}", hint=hint) from error
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
        data = f"{format_single_commit(entries)}{json.dumps(facts)}\n".encode("ascii")
        if not self.place.create(_name(self._last + 1), data):
            raise make_other_writer_error(self.place.url)
        self._last += 1


def _name(number: int) -> str:
    return f"{_FOLDER}/{number:0{_DIGITS}}.json"


def store_at(out: str | os.PathLike[str], *, apart: bool = False) -> Store:
    """The store that a folder or a URL names.

    Args:
        out: folder or URL.
        apart: tasks run in other processes.
    """
    return ObjectStore(ObjectPlace.of(out)) if isinstance(out, str) and is_url(out) else FolderStore(Path(out), apart)


@dataclass(frozen=True)
class ObjectStore:
    """A dataset on an object store.

    Attributes:
        place: its URL.
    """

    place: ObjectPlace
    _uploaded: set[str] = field(default_factory=set, compare=False)

    @contextmanager
    def writable(self, known: Manifest, halt: Callable[[], None]) -> Iterator[Manifest]:  # noqa: ARG002 - others could have written
        """The manifest while the lease is held; after a failure, uploaded parts that no commit names are removed.

        A store that does not answer keeps them for a day, as it does those of a process that was killed.
        """
        with make_scratch_folder() as folder, hold_lease(self.place):
            manifest = ObjectManifest.at(self.place, folder)
            if not manifest.exists:
                self._require_room(self.place.list_objects())
            try:
                yield manifest
            except SilentStoreError:
                halt()
                raise
            except BaseException:
                halt()
                live = {part.path for part in ObjectManifest.at(self.place, folder).parts()}
                self.place.remove(self._uploaded - live)
                raise

    def _require_room(self, listed: dict[str, Stored]) -> None:
        foreign = next((name for name in sorted(listed) if not name.startswith("_") and "/resource=" not in name), None)
        if foreign is not None:
            problem = f"is not a dataset, yet holds {foreign}"
            raise DatasetError(problem, path=self.place.url, hint="name an empty or new place")

    def load(self) -> Manifest:
        """The manifest, for reading."""
        return ObjectManifest.at(self.place, Path())

    @contextmanager
    def workspace(self, parts: Sequence[ParquetPart] = ()) -> Iterator[Path]:
        """A temporary folder with copies of the parts."""
        with make_scratch_folder() as folder:
            self.fetch(parts, folder)
            yield folder

    def sent(self, staged: list[StagedPart]) -> list[StagedPart]:
        """Upload the parts that a task staged."""
        for item in staged:
            self.place.upload(item.file, item.part.path)
            item.file.unlink()
        return staged

    def publish(self, staged: Sequence[StagedPart]) -> None:
        """The parts are in place; remember them until they are committed."""
        self._uploaded.update(item.part.path for item in staged)

    def withdraw(self, parts: Iterable[ParquetPart]) -> None:
        """Superseded parts stay for readers that opened the dataset earlier."""

    def clean(self, manifest: Manifest) -> None:
        """Remove files that were superseded, or uploaded and never committed, more than a day ago."""
        self.vacuum(manifest, GRACE_S)

    def vacuum(self, manifest: Manifest, older_than_s: float) -> Vacuumed:
        """Remove files that no commit names.

        Args:
            manifest: the dataset's; its lease is held.
            older_than_s: files superseded, or uploaded and never committed, less than this many seconds ago are kept.
        """
        live = {part.path for part in manifest.parts()}
        superseded = manifest.superseded if isinstance(manifest, ObjectManifest) else {}
        before = time.time() - older_than_s
        unwanted = {
            name: found.bytes
            for name, found in self.place.list_objects().items()
            if "/resource=" in name and name not in live and superseded.get(name, found.changed) <= before
        }
        self.place.remove(unwanted)
        return Vacuumed(len(unwanted), sum(unwanted.values()))

    def problems(self, parts: Sequence[ParquetPart], each: Callable[..., object]) -> dict[str, str]:  # noqa: ARG002 - one listing suffices
        """Lengths are compared, by one listing; bytes are compared when they are read."""
        return find_missing_or_cut_parts(self.place, parts) if parts else {}

    def fetch(self, parts: Iterable[ParquetPart], folder: Path) -> None:
        """Copy parts into a folder; each is compared with its record in the manifest.

        Raises:
            DatasetError: a part is damaged or missing.
        """
        for part in parts:
            file = folder / part.path
            if file.exists():
                continue
            self.place.download(part.path, file, part.bytes)
            if hash_file_content(file) != part.hash:
                raise make_defect_error(f"{self.place.url}/{part.path}", OTHER_BYTES)


#: Location of a dataset: both kinds have the same methods.
Store: TypeAlias = FolderStore | ObjectStore


def find_missing_or_cut_parts(place: ObjectPlace, parts: Iterable[ParquetPart]) -> dict[str, str]:
    """Path -> defect, of parts that are not there or have another length than was written."""
    lengths = {name: stored.bytes for name, stored in place.list_objects().items()}
    return {part.path: problem for part in parts if (problem := find_length_problem(lengths.get(part.path), part))}


# Read tables of a dataset on an object store: only the columns and row groups that a query needs are fetched.
#
# Arrow reads the files, for both polars and DuckDB: both hand it the columns and conditions of a query, and it fetches
# the byte ranges that these need. DuckDB's own reader over fsspec would do the same without verifying the bytes.
#
# A small file is fetched whole and compared with the manifest. Of a larger one the footer is compared with the
# manifest, and each page with the checksum that Parquet keeps of it; only the few bytes of pages' headers have none.

#: Bytes at the end of a file that are fetched first: most footers, and small files whole.
_TAIL_BYTES: Final = 2**16


@dataclass(frozen=True)
class ObjectReader:
    """Reads parts of a dataset.

    Attributes:
        place: the dataset.
    """

    place: ObjectPlace

    def scan(self, table: Table, parts: Sequence[ParquetPart]) -> pl.LazyFrame:
        """The rows of some parts with the table's columns and dtypes."""
        import polars as pl

        if not parts:
            return table.empty().lazy()
        rows = pl.scan_pyarrow_dataset(self.dataset(table, parts))
        return rows.select(make_typed_exprs(table))

    def dataset(self, table: Table, parts: Sequence[ParquetPart]) -> ds.Dataset:
        """Some parts as a dataset of Arrow."""
        import pyarrow.dataset as ds

        options = ds.ParquetFragmentScanOptions(pre_buffer=True, page_checksum_verification=True)
        parquet = ds.ParquetFileFormat(default_fragment_scan_options=options)
        files = [(part.path, get_part_resource(part)) for part in parts]
        return open_dataset_of_files(table, files, _make_file_system(self.place, parts), parquet)


def _make_file_system(place: ObjectPlace, parts: Sequence[ParquetPart]) -> pafs.FileSystem:
    """A file system of Arrow that knows these parts."""
    import pyarrow as pa
    import pyarrow.fs as pafs

    known = {part.path: part for part in parts}

    class Handler(pafs.FSSpecHandler):  # type: ignore[misc] # pyarrow has no types
        def open_input_file(self, path: str) -> pa.NativeFile:
            return pa.PythonFile(_Ranges(place, known[path]), mode="r")

    return pafs.PyFileSystem(Handler(place.fs))


class _Ranges(io.RawIOBase):
    """A part, of which only the ranges that are asked for are fetched.

    Raises:
        DatasetError: its footer is not the one that was written.
    """

    def __init__(self, place: ObjectPlace, part: ParquetPart) -> None:
        self._place, self._part, self._position = place, part, 0
        self._size = part.bytes or 0

    @cached_property
    def _tail(self) -> bytes:
        """The end of the file, with the footer."""
        tail = self._fetch(max(0, self._size - _TAIL_BYTES), self._size)
        problem, wanted = find_footer_problem(memoryview(tail), self._part)
        if len(tail) == self._size and compute_file_fingerprints(memoryview(tail))[2] != self._part.hash:
            problem = OTHER_BYTES
        elif wanted > len(tail):
            tail = self._fetch(max(0, self._size - wanted), self._size)
            problem, _ = find_footer_problem(memoryview(tail), self._part)
        if problem:
            raise make_defect_error(f"{self._place.url}/{self._part.path}", problem)
        return tail

    def _fetch(self, begin: int, end: int) -> bytes:
        return self._place.read_range(self._part.path, begin, end)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence] + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        begin = self._position
        end = self._size if size is None or size < 0 else min(begin + size, self._size)
        self._position = max(begin, end)
        if begin >= end:
            return b""
        tail_begin = self._size - len(self._tail)
        if begin >= tail_begin:
            return self._tail[begin - tail_begin : end - tail_begin]
        return self._fetch(begin, min(end, tail_begin)) + self._tail[: max(0, end - tail_begin)]
