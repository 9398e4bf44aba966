"""The manifest of a dataset: one line per commit, appended after the files that it names are in place.

The manifest is authoritative: a Parquet file that no line names does not belong to the dataset. A process killed at any
moment leaves each source in its previous or its new state; a last line without a line end was never committed and is
ignored.

Each line carries a hash of its own text. A line that changed since it was written is reported as damage. This includes
the last line: a writer that was killed leaves the beginning of a line, never a whole line followed by other bytes. A
manifest that lost whole lines at its end is equal to the manifest before these lines.

Lines of version 1 have no hashes, and record only the names of files. Version 1 is readable; the next commit rewrites
the manifest, and sources whose files have no recorded hashes are read again if they still exist.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from types import UnionType
from typing import BinaryIO, Final, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from blake3 import blake3

from citus_analysis.dataset.identity import Facts
from citus_analysis.dataset.walk import MANIFEST_NAME
from citus_analysis.errors import DatasetError

# Dataclasses made of values that were read from JSON: each value is held to the type of its field.

T = TypeVar("T")


def build_checked_dataclass(kind: Callable[..., T], values: Mapping[str, object]) -> T:
    """An object of a dataclass.

    Args:
        kind: the dataclass. Of a field that is a list, a tuple or a mapping, the elements are not looked at.
        values: by name of the field; fields with a default may be absent.

    Raises:
        TypeError: a value is not of its field's type, no field has this name, or a field without a default is absent.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Stored:
        ...     path: str
        ...     rows: int | None = None
        >>> build_checked_dataclass(Stored, {"path": "a.parquet"})
        Stored(path='a.parquet', rows=None)
        >>> build_checked_dataclass(Stored, {"path": 3})
        Traceback (most recent call last):
        TypeError: path is int, which is none of: str
    """
    types = _list_field_types(kind)
    for name, value in values.items():
        # A name that is no field is refused by the dataclass itself.
        if name in types and not isinstance(value, types[name]):
            allowed = ", ".join(each.__name__ for each in types[name])
            raise TypeError(f"{name} is {type(value).__name__}, which is none of: {allowed}")
    return kind(**values)


@cache
def _list_field_types(kind: Callable[..., object]) -> dict[str, tuple[type, ...]]:
    """The types that the value of each field may have."""
    hints = get_type_hints(kind)
    members = {name: get_args(hint) if isinstance(hint, UnionType) else (hint,) for name, hint in hints.items()}
    return {name: tuple(get_origin(each) or each for each in given) for name, given in members.items()}


# Errors for a dataset that cannot be written: a full disk, a quota, a read-only folder.

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def make_write_error(error: OSError, path: Path, place: str | None = None) -> DatasetError:
    """The error for a file that cannot be written, with the way out.

    Example:
        >>> str(make_write_error(OSError(errno.ENOSPC, "Detail: ..."), Path("out"), "runs of V3"))
        'out: runs of V3: cannot be written: No space left on device (make room and ingest again; the rest is kept)'
    """
    # Arrow keeps the operating system's error number, but replaces the message.
    reason = os.strerror(error.errno) if error.errno else str(error)
    hint = "make room and ingest again; the rest is kept" if error.errno in _NO_ROOM else "check permissions"
    where = error.filename if isinstance(error.filename, str | bytes) else path
    return DatasetError(f"cannot be written: {reason}", path=os.fsdecode(where), place=place, hint=hint)


@contextmanager
def translate_write_errors(path: Path, place: str) -> Iterator[None]:
    """Turns a failure to write into a :class:`DatasetError`.

    Args:
        path: file or folder that is written.
        place: part of it.
    """
    try:
        yield
    except OSError as error:
        raise make_write_error(error, path, place) from error


_VERSION: Final = 2
#: What separates the hash over the inputs of a resource from what the dataset as a whole adds.
BESIDE_OWN: Final = "+"
_HEADERS: Final = {version: {"dataset": "citus_analysis", "version": version} for version in (1, _VERSION)}
_HASH_BYTES: Final = 8
#: Text before and after the entries of a line, and the length of the line's hash in hexadecimal digits.
_BEFORE: Final = '{"hash":"', '","entries":'
_AFTER: Final = "}"
_LOCK_NAME: Final = "_lock"
_CURRENT_FOR: Final = "current_for"

#: A state as it is written, the end of one (`gone`: a source; `emptied`: a resource), or the hash of `current_for`.
Entry: TypeAlias = dict[str, object]


@dataclass(frozen=True)
class ParquetPart:
    """One Parquet file of a dataset.

    Attributes:
        path: below the dataset, in the folder of the table.
        bytes: length of the file, with hashes of its footer and of the whole file (hexadecimal); None if an older
            version wrote it.
    """

    table: str
    path: str
    rows: int
    bytes: int | None = None
    footer_hash: str | None = None
    hash: str | None = None

    def __post_init__(self) -> None:
        # Parts are read and removed by these names, and a dataset may come from an untrusted source.
        if self.path.startswith("/") or ".." in self.path.split("/"):
            raise ValueError(f"{self.path!r} leads out of the dataset")


_PART_FIELDS: Final = tuple(field.name for field in fields(ParquetPart))


@dataclass(frozen=True)
class SourceState:
    """The state of a source when it was last read.

    Attributes:
        location: where the file was then, redacted (file system bytes beyond UTF-8 as surrogates).
        state_key: hash over all that its rows depend on; equal keys mean equal rows.
        delivery: how its text stands in its file, in words; null for a file that holds it as it is.
        delivered: the same, as :meth:`Delivery.of` reads it.
        is_client: a load generator wrote it.
        recognised_by: hash over the formats that were tried to determine `format`; empty if the user stated it.
        problem: reason why it could not be read; null if it was read.
        read_as: columns of `sources` in which its format says how it was read.
        stated: what was stated of it when it was read: `format`, facts and options of `--meta`, redacted; None if an
            older version read it.
    """

    source_id: str
    resource: str
    path: str
    location: str
    state_key: str
    content_hash: str
    bytes: int
    format: str | None = None
    parser_version: int | None = None
    delivery: str | None = None
    delivered: dict[str, object] = field(default_factory=dict)
    compression: str = "none"
    content_bytes: int | None = None
    parsed_bytes: int | None = None
    noise_bytes: int | None = None
    rejected_bytes: int | None = None
    rejected: int = 0
    identity: Facts = field(default_factory=dict)
    is_client: bool = False
    run_id: str | None = None
    recognised_by: str = ""
    note: str | None = None
    problem: str | None = None
    read_as: dict[str, str] = field(default_factory=dict)
    stated: dict[str, str] | None = None
    parts: tuple[ParquetPart, ...] = ()

    @property
    def iteration(self) -> int | None:
        """The iteration that the source belongs to, if it is known."""
        number = self.identity.get("iteration")
        return number if isinstance(number, int) else None

    @property
    def states_runs(self) -> bool:
        """Whether it is a table of results, which has the rows of several runs."""
        return any(part.table == "stated_runs" for part in self.parts)

    @property
    def rows(self) -> int:
        """Rows over all tables but `rejects`."""
        return sum(part.rows for part in self.parts if part.table != "rejects")


@dataclass(frozen=True)
class DerivedState:
    """Tables that were computed from one resource's other tables.

    Attributes:
        name: which computation.
        state_key: hash over its inputs; of `runs` also over what the whole dataset added to them, after a plus.
    """

    resource: str
    name: str
    state_key: str
    parts: tuple[ParquetPart, ...] = ()

    @property
    def own_key(self) -> str:
        """The hash over the inputs of its own resource."""
        return self.state_key.partition(BESIDE_OWN)[0]


@dataclass
class Manifest:
    """The committed state of a dataset."""

    folder: Path
    sources: dict[str, SourceState] = field(default_factory=dict)
    derived: dict[tuple[str, str], DerivedState] = field(default_factory=dict)
    #: Hash of the code that found all entries to be those that it would make itself; None after any other commit.
    current_for: str | None = None
    #: Names of the few derivations, by which the tables of one resource among thousands are found.
    _derivations: set[str] = field(default_factory=set)
    _version: int = _VERSION
    _lines: int = 0
    _end: int = 0
    _held: list[Entry] | None = None
    _status: tuple[int, int, int] | None = None

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read the manifest of a folder; an empty one if the folder has none yet.

        Raises:
            DatasetError: the manifest is damaged, or an incompatible version wrote it.
        """
        manifest = cls(folder)
        try:
            # Taken before the file is read, so that an entry appended meanwhile is noticed as a change.
            manifest._status = _read_file_status(manifest.path)
            data = manifest.path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return manifest
        except OSError as error:
            raise DatasetError(f"cannot be read: {error.strerror}", path=manifest.path) from error
        # Bytes after the last line end are from a writer that was killed.
        manifest._end = data.rfind(b"\n") + 1
        lines = data[: manifest._end].split(b"\n")[:-1]
        for number, line in enumerate(lines, 1):
            manifest._read_line(number, line)
        if _holds_more_than_a_line(data[manifest._end :]):
            raise manifest._make_damage_error(len(lines) + 1)
        return manifest

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Whether a folder contains a dataset; its entries, of which there may be thousands, are not read.

        A manifest that is damaged or cannot be read is found by whoever loads it.
        """
        try:
            with (folder / MANIFEST_NAME).open("rb") as file:
                return file.readline().endswith(b"\n")
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True

    def reload(self) -> Manifest:
        """The current manifest; the same object if its file has not changed.

        Raises:
            DatasetError: the manifest is damaged, or an incompatible version wrote it.
        """
        return self if self.is_current else self.load(self.folder)

    @property
    def is_current(self) -> bool:
        """Whether its file has not changed since it was read."""
        return self._status is not None and self._status == _read_file_status(self.path)

    @property
    def path(self) -> Path:
        """The manifest's file."""
        return self.folder / MANIFEST_NAME

    @property
    def exists(self) -> bool:
        """Whether the folder contains a dataset."""
        return self._lines > 0

    def states(self) -> list[SourceState | DerivedState]:
        """All entries."""
        return [*self.sources.values(), *self.derived.values()]

    def entries(self) -> list[Entry]:
        """All entries as they are written."""
        stamp: list[Entry] = [] if self.current_for is None else [{_CURRENT_FOR: self.current_for}]
        return [*map(_encode_state, self.states()), *stamp]

    def parts(self) -> list[ParquetPart]:
        """All parts, those of sources in order of resource and path first."""
        ordered = sorted(self.sources.values(), key=lambda s: (s.resource, s.path, s.source_id))
        computed = sorted(self.derived.values(), key=lambda d: (d.resource, d.name))
        return [part for parts in (*(s.parts for s in ordered), *(d.parts for d in computed)) for part in parts]

    def affected_parts(
        self, states: Sequence[SourceState | DerivedState], gone: Iterable[str], emptied: Iterable[str]
    ) -> list[ParquetPart]:
        """The parts of all entries that a commit of these would replace or remove."""
        ids = [*(state.source_id for state in states if isinstance(state, SourceState)), *gone]
        keys = [(state.resource, state.name) for state in states if isinstance(state, DerivedState)]
        lost = set(emptied)
        keys += [key for key in self.derived if key[0] in lost] if lost else []
        replaced = [*map(self.sources.get, ids), *map(self.derived.get, keys)]
        return [part for state in replaced if state is not None for part in state.parts]

    @property
    def holding(self) -> bool:
        """Whether commits are being deferred."""
        return self._held is not None

    def commit(
        self, *states: SourceState | DerivedState, gone: Iterable[str] = (), emptied: Iterable[str] = ()
    ) -> None:
        """Append states, all or none of them.

        Args:
            states: new states; they replace earlier states of the same source or derivation.
            gone: ids of sources that no longer belong to the dataset.
            emptied: resources whose derived tables no longer belong to the dataset.
        """
        entries = [*map(_encode_state, states)]
        entries += [{"gone": source_id} for source_id in gone]
        entries += [{"emptied": resource} for resource in emptied]
        self._commit_entries(entries)

    def mark_current(self, code: str) -> None:
        """Record that code with this hash would make all entries as they are; the next commit takes it back."""
        if self.current_for != code:
            self._commit_entries([{_CURRENT_FOR: code}])

    def _commit_entries(self, entries: list[Entry]) -> None:
        for entry in entries:
            self._apply(entry)
        if self._held is None:
            self._write(entries)
        else:
            self._held += entries

    def hold(self) -> None:
        """Defer further commits until :meth:`release`, which writes them as one."""
        self._held = []

    def release(self) -> None:
        """Commit the deferred states at once."""
        held, self._held = self._held, None
        if held:
            self._write(held)

    def compact(self) -> None:
        """Rewrite the manifest without superseded lines once these are the greater part."""
        if self._lines < 2 * len(self.states()) + 16:
            return
        # If there is no space for the shorter manifest, the longer one remains, which is equivalent.
        with suppress(OSError):
            self._rewrite()

    def _rewrite(self) -> None:
        lines = [json.dumps(_HEADERS[_VERSION]), *(_format_commit_line([entry]) for entry in self.entries())]
        data = "".join(f"{line}\n" for line in lines).encode("ascii")
        temporary = self.path.with_suffix(".new")
        try:
            with temporary.open("wb") as file:
                _write_through(file, data)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        temporary.replace(self.path)
        flush_folder(self.folder)
        self._version, self._lines, self._end = _VERSION, len(lines), len(data)

    def _write(self, entries: list[Entry]) -> None:
        if self._version != _VERSION:
            # The entries are already applied and therefore part of the rewritten manifest.
            with translate_write_errors(self.path, "byte 0"):
                self._rewrite()
            return
        if not self._lines:
            self._append(json.dumps(_HEADERS[_VERSION]))
        self._append(_format_commit_line(entries))

    def _append(self, line: str) -> None:
        data = f"{line}\n".encode("ascii")
        with (
            translate_write_errors(self.path, f"byte {self._end}"),
            self.path.open("r+b" if self._end else "wb") as file,
        ):
            file.truncate(self._end)
            file.seek(self._end)
            _write_through(file, data)
        self._end += len(data)
        self._lines += 1

    def _read_line(self, number: int, line: bytes) -> None:
        try:
            if number == 1:
                self._version = self._read_version(json.loads(line))  # noqa: TID251 - no limit of a document bounds a dataset
            else:
                entries = line if self._version == 1 else _extract_entries(line)
                for entry in json.loads(entries):  # noqa: TID251 - likewise
                    self._apply(entry)
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise self._make_damage_error(number) from error
        self._lines += 1

    def _read_version(self, header: object) -> int:
        version = next((version for version, known in _HEADERS.items() if header == known), None)
        if version is None:
            raise DatasetError("was not written by this version", path=self.path, hint="ingest into a new folder")
        return version

    def _make_damage_error(self, number: int) -> DatasetError:
        return DatasetError("is damaged", path=self.path, place=f"line {number}", hint="ingest into a new folder")

    def _apply(self, entry: Mapping[str, object]) -> None:
        if _CURRENT_FOR in entry:
            self.current_for = str(entry[_CURRENT_FOR])
            return
        self.current_for = None
        if "gone" in entry:
            self.sources.pop(str(entry["gone"]), None)
            return
        if "emptied" in entry:
            for name in self._derivations:
                self.derived.pop((str(entry["emptied"]), name), None)
            return
        stated = {**entry, "parts": _parse_stored_parts(entry["parts"])}
        if "source_id" in entry:
            source = build_checked_dataclass(SourceState, stated)
            self.sources[source.source_id] = source
        else:
            derived = build_checked_dataclass(DerivedState, stated)
            self.derived[derived.resource, derived.name] = derived
            self._derivations.add(derived.name)


def _parse_stored_parts(listed: object) -> tuple[ParquetPart, ...]:
    """Parts from lists of the values of their fields, in the order of the fields."""
    if not isinstance(listed, list):
        raise TypeError("parts are no list")
    return tuple(
        build_checked_dataclass(ParquetPart, {_PART_FIELDS[at]: value for at, value in enumerate(stored)})
        for stored in listed
    )


def _read_file_status(path: Path) -> tuple[int, int, int] | None:
    """Inode, length and time of the last change of a file; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _encode_state(state: SourceState | DerivedState) -> Entry:
    # Not `asdict`, which makes deep copies.
    return {**vars(state), "parts": [[*vars(part).values()] for part in state.parts]}


def format_single_commit(entries: list[Entry]) -> str:
    """The text of a manifest that consists of one commit: a line that names its version, and one with the entries."""
    return f"{json.dumps(_HEADERS[_VERSION])}\n{_format_commit_line(entries)}\n"


def _format_commit_line(entries: list[Entry]) -> str:
    # ASCII only: names that are not UTF-8 contain lone surrogates, which can only be written as escapes.
    text = json.dumps(entries, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return text.join((_format_line_beginning(text.encode("ascii")), _AFTER))


def _format_line_beginning(entries: bytes) -> str:
    return blake3(entries).hexdigest(length=_HASH_BYTES).join(_BEFORE)


def _extract_entries(line: bytes) -> bytes:
    """The entries of a line.

    Raises:
        ValueError: the line changed since it was written.
    """
    entries = line[sum(map(len, _BEFORE)) + 2 * _HASH_BYTES : -len(_AFTER)]
    if line != entries.join((_format_line_beginning(entries).encode("ascii"), _AFTER.encode("ascii"))):
        raise ValueError("the line does not match its hash")
    return entries


def _holds_more_than_a_line(rest: bytes) -> bool:
    """Whether bytes other than a line end follow a whole line, which a killed writer never leaves."""
    try:
        _, end = json.JSONDecoder().raw_decode(rest.decode("ascii", "replace"))
    except ValueError:
        return False
    return end < len(rest)


def _write_through(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Flush renames in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def lock_dataset(folder: Path) -> Iterator[None]:
    """Lock a dataset against other ingests. The lock is released when the process ends, however it ends.

    Raises:
        DatasetError: another ingest is writing to it.
    """
    with (folder / _LOCK_NAME).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise make_other_writer_error(folder) from error
        yield


def make_other_writer_error(place: Path | str) -> DatasetError:
    """The error of a process beside another that writes to the same dataset."""
    return DatasetError("another ingest is writing to this dataset", path=place, hint="wait for it to end")
