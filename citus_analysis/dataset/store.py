"""Location of a dataset: a folder, or a URL of an object store.

An ingest reads and writes through a store. A task that runs in another process is given the store, so a store travels:
it holds a path or a URL, nothing that is open.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from citus_analysis.dataset.manifest import Manifest, ParquetPart, lock_dataset, make_write_error
from citus_analysis.dataset.parts import (
    FILES,
    STAGING,
    StagedPart,
    find_content_problem,
    get_kept_path,
    get_public_path,
    locate_part,
)
from citus_analysis.errors import DatasetError
from citus_analysis.schema import TABLES

# The files of a dataset: publication, retention and removal.
#
# A part has two names for the same bytes (hard links). This library reads the name under `_files/`, which is kept until
# no reader can need it, so that an open dataset does not change. Other tools read the name in the table's own folder,
# which exists from just before the part is committed until just before its replacement is committed; a pattern such as
# `runs/*/*.parquet` therefore yields a row twice only for a moment.
#
# The state of a file without a line in the manifest follows from its names: a file with both names was never committed
# and is removed at once; a file with only its name under `_files/` was superseded when it last changed, and is removed
# after the grace time.

#: How long superseded files stay for readers that opened the dataset before, in seconds: a day.
GRACE_S: Final = 86_400.0


@dataclass(frozen=True)
class Vacuumed:
    """Files that were removed.

    Attributes:
        files: number of files.
        bytes: disk space that they occupied.
    """

    files: int
    bytes: int

    def __str__(self) -> str:
        """One line."""
        return f"{self.files} superseded files removed, {self.bytes} bytes"


def tidy(folder: Path, named: Iterable[ParquetPart], grace_s: float = GRACE_S) -> Vacuumed:
    """Remove uncommitted files and files superseded before the grace time; restore missing second names.

    Args:
        folder: the dataset; the caller holds its lock.
        named: all parts of the manifest.
        grace_s: files superseded less than this many seconds ago are kept.

    Returns:
        The files that were removed.
    """
    public = {part.path for part in named}
    kept = {get_kept_path(path) for path in public}
    unwanted = [folder / name for name in _iterate_files(folder, STAGING)]
    superseded_before = time.time() - grace_s
    links = {name for table in TABLES for name in _iterate_files(folder, table) if name.endswith(".parquet")}
    for name in _iterate_files(folder, FILES):
        second = get_public_path(name)
        if name in kept:
            _restore_public_name(folder / name, folder / second)
        elif second in links or (folder / second).exists() or (folder / name).stat().st_mtime <= superseded_before:
            unwanted.append(folder / name)
    unwanted += [folder / name for name in sorted(links - public)]
    sizes = [size for path in unwanted for size in _remove(path)]
    shutil.rmtree(folder / STAGING, ignore_errors=True)
    (folder / STAGING).mkdir(exist_ok=True)
    return Vacuumed(len(sizes), sum(sizes))


def _iterate_files(folder: Path, below: str) -> Iterator[str]:
    """All files below a folder of the dataset, relative to it; none if it does not exist.

    Texts, not paths: a dataset of thousands of sources has tens of thousands of files, and each ingest looks at all.
    """
    top = os.fspath(folder)
    for root, _, names in os.walk(os.path.join(top, below)):  # noqa: PTH118 - texts are wanted
        beginning = root[len(top) :].lstrip(os.sep)
        yield from (f"{beginning}/{name}" for name in names)


def _remove(path: Path) -> list[int]:
    """Remove one name of a file; return its size if that was its last name, else 0."""
    status = path.lstat()
    path.unlink()
    return [status.st_size] if status.st_nlink == 1 else []


def link(kept: Path, public: Path) -> None:
    """Give a file its second name; a copy if the file system has no hard links."""
    with suppress(OSError):
        os.link(kept, public)
        return
    # Also where the name exists: an earlier state of the source had it.
    public.unlink(missing_ok=True)
    try:
        os.link(kept, public)
    except OSError:
        shutil.copyfile(kept, public)


def _restore_public_name(kept: Path, public: Path) -> None:
    """Restore a file's second name if it is missing or another file, as in a copy of the folder."""
    try:
        second = public.stat()
    except FileNotFoundError:
        link(kept, public)
        return
    if not os.path.samestat(kept.stat(), second):
        temporary = public.with_suffix(".new")
        # On a file system without hard links the copy is kept.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
            temporary.hardlink_to(kept)
            temporary.replace(public)


def flush_file_system(folder: Path) -> None:
    """Flush all writes to disk. A single call for thousands of files takes as long as a call for each of a few."""
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), os.fspath(folder))
    finally:
        os.close(descriptor)


#: Parts whose bytes a thread compares at a time: most are small.
_CHECKED_AT_ONCE: Final = 32


@dataclass(frozen=True)
class FolderStore:
    """A dataset in a folder of this machine, or of a file system that all machines share.

    Attributes:
        folder: the folder.
        apart: tasks run in other processes: each stages in a folder of its own, so that a task that is run again
            cannot meet the files of one that was given up.
    """

    folder: Path
    apart: bool = False

    @contextmanager
    def writable(self, known: Manifest, halt: Callable[[], None]) -> Iterator[Manifest]:
        """The manifest of a dataset, locked against other ingests; on failure, half-written files are removed.

        Args:
            known: the manifest as :meth:`load` gave it, which is not read again if it did not change.
            halt: ends all work that writes.
        """
        folder = self.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            foreign = next((entry for entry in sorted(folder.iterdir()) if not entry.name.startswith("_")), None)
            manifest = known.reload()
            begun = (folder / STAGING).is_dir()
            if foreign is not None and not manifest.exists and not begun:
                problem = f"is not a dataset, yet holds {foreign.name}"
                raise DatasetError(problem, path=folder, hint="name an empty or new folder")
            with lock_dataset(folder):
                # Another ingest may have ended between the first look and the lock.
                manifest = manifest.reload()
                tidy(folder, manifest.parts())
                try:
                    yield manifest
                except BaseException:
                    # Writers must have finished before files that the manifest does not name are removed.
                    halt()
                    tidy(folder, Manifest.load(folder).parts())
                    raise
        except OSError as error:
            raise make_write_error(error, folder) from error

    def load(self) -> Manifest:
        """The manifest, for reading."""
        return Manifest.load(self.folder)

    @contextmanager
    def workspace(self, parts: Sequence[ParquetPart] = ()) -> Iterator[Path]:
        """A folder for one task: the dataset's own, or one below its staging folder with links to the parts."""
        if not self.apart:
            yield self.folder
            return
        folder = self.folder / STAGING / uuid4().hex
        (folder / STAGING).mkdir(parents=True)
        self.fetch(parts, folder)
        yield folder

    def sent(self, staged: list[StagedPart]) -> list[StagedPart]:
        """Nothing to do: the driver sees the same folder."""
        return staged

    def publish(self, staged: Sequence[StagedPart]) -> None:
        """Move staged parts into place and flush them to disk; the manifest line that names them is written after."""
        for item in staged:
            kept, public = self.folder / get_kept_path(item.part.path), self.folder / item.part.path
            for path in (kept, public):
                path.parent.mkdir(parents=True, exist_ok=True)
            item.file.replace(kept)
            link(kept, public)
        if staged:
            flush_file_system(self.folder)

    def withdraw(self, parts: Iterable[ParquetPart]) -> None:
        """Remove parts from the tables' folders, just before the manifest drops them; the grace time begins now."""
        for part in parts:
            kept, public = self.folder / get_kept_path(part.path), self.folder / part.path
            if kept.exists():
                public.unlink(missing_ok=True)
            elif public.exists():
                # An older version wrote this name only.
                kept.parent.mkdir(parents=True, exist_ok=True)
                public.replace(kept)
            with suppress(FileNotFoundError):
                os.utime(kept)

    def clean(self, manifest: Manifest) -> None:
        """Remove uncommitted and superseded files."""
        tidy(self.folder, manifest.parts())

    def problems(
        self, parts: Sequence[ParquetPart], each: Callable[..., Iterable[tuple[ParquetPart, str | None]]]
    ) -> dict[str, str]:
        """Path -> defect, of damaged or missing parts; `each` applies a function to items in parallel."""
        checked = each(lambda part: find_content_problem(self.folder, part), parts, _CHECKED_AT_ONCE)
        return {part.path: problem for part, problem in checked if problem}

    def fetch(self, parts: Iterable[ParquetPart], folder: Path) -> None:
        """Link parts into another folder; nothing to do in the dataset's own."""
        if folder == self.folder:
            return
        for part in parts:
            link = folder / part.path
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.exists():
                link.symlink_to(Path(locate_part(self.folder, part)).absolute())


@contextmanager
def make_scratch_folder() -> Iterator[Path]:
    """A temporary folder of this machine in which parts can be staged."""
    folder = Path(tempfile.mkdtemp(prefix="citus-analysis-"))
    try:
        (folder / STAGING).mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
