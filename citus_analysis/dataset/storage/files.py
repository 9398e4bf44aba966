"""The files of a dataset: publication, retention and removal.

A part has two names for the same bytes (hard links). This library reads the name under `_files/`, which is kept until
no reader can need it, so that an open dataset does not change. Other tools read the name in the table's own folder,
which exists from just before the part is committed until just before its replacement is committed; a pattern such as
`runs/*/*.parquet` therefore yields a row twice only for a moment.

The state of a file without a line in the manifest follows from its names: a file with both names was never committed
and is removed at once; a file with only its name under `_files/` was superseded when it last changed, and is removed
after the grace time.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from citus_analysis.dataset.storage.encoding import FILES, kept_path, public_path
from citus_analysis.dataset.storage.manifest import Manifest, Part, exclusive
from citus_analysis.dataset.storage.parts import STAGING
from citus_analysis.dataset.storage.write_errors import unwritable
from citus_analysis.errors import DatasetError
from citus_analysis.schema import TABLES

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


def tidy(folder: Path, named: Iterable[Part], grace_s: float = GRACE_S) -> Vacuumed:
    """Remove uncommitted files and files superseded before the grace time; restore missing second names.

    Args:
        folder: the dataset; the caller holds its lock.
        named: all parts of the manifest.
        grace_s: files superseded less than this many seconds ago are kept.

    Returns:
        The files that were removed.
    """
    public = {part.path for part in named}
    kept = {kept_path(path) for path in public}
    unwanted = [folder / name for name in _files(folder, STAGING)]
    superseded_before = time.time() - grace_s
    links = {name for table in TABLES for name in _files(folder, table) if name.endswith(".parquet")}
    for name in _files(folder, FILES):
        second = public_path(name)
        if name in kept:
            _mend(folder / name, folder / second)
        elif second in links or (folder / second).exists() or (folder / name).stat().st_mtime <= superseded_before:
            unwanted.append(folder / name)
    unwanted += [folder / name for name in sorted(links - public)]
    sizes = [size for path in unwanted for size in _remove(path)]
    shutil.rmtree(folder / STAGING, ignore_errors=True)
    (folder / STAGING).mkdir(exist_ok=True)
    return Vacuumed(len(sizes), sum(sizes))


def vacuum(folder: str | os.PathLike[str], *, older_than_s: float = 0.0) -> Vacuumed:
    """Remove files that an ingest superseded, without waiting for the grace time to end.

    A dataset that was opened before can no longer read them: open it again.

    Args:
        folder: the dataset.
        older_than_s: files superseded less than this many seconds ago are kept.

    Returns:
        The files that were removed.

    Raises:
        DatasetError: the folder is not a dataset, is damaged, is in use by an ingest, or cannot be written.
    """
    path = Path(folder)
    if not Manifest.load(path).exists:
        raise DatasetError("is not a dataset", path=path, way_out="name a folder that was given to ingest as --out")
    try:
        with exclusive(path):
            return tidy(path, Manifest.load(path).parts(), older_than_s)
    except OSError as error:
        raise unwritable(error, path) from error


def _files(folder: Path, below: str) -> Iterator[str]:
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


def _mend(kept: Path, public: Path) -> None:
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


def sync_file_system(folder: Path) -> None:
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
