"""The files of a dataset: how they come into it, how long they stay, how they go.

A part has two names for the same bytes (hard links). Under `_files/` it stays until no reader can need it: readers of
this library read it there, so that a dataset that is open does not change under them. In the table's own folder, where
every other tool looks for Parquet files, it stands from just before it is committed until just before what replaces it
is: a pattern such as `runs/*/*.parquet` never gives a row twice for long.

What a file without a line in the manifest is follows from its names: one with both was never committed and goes at
once; one that is left under `_files/` alone was superseded when it last changed, and goes after the grace time.
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
from citus_analysis.dataset.storage.parts import STAGING, Staged
from citus_analysis.dataset.storage.write_errors import unwritable
from citus_analysis.errors import DatasetError
from citus_analysis.schema import TABLES

__all__ = ["GRACE_S", "Vacuumed", "publish", "tidy", "vacuum", "withdraw"]

#: How long superseded files stay for readers that opened the dataset before, in seconds: a day.
GRACE_S: Final = 86_400.0


@dataclass(frozen=True)
class Vacuumed:
    """What was removed.

    Attributes:
        files: how many.
        bytes: what they took on disk.
    """

    files: int
    bytes: int

    def __str__(self) -> str:
        """One line."""
        return f"{self.files} superseded files removed, {self.bytes} bytes"


def publish(folder: Path, staged: Iterable[Staged]) -> None:
    """Move staged parts to where they belong and make them last; the manifest line that names them comes after this."""
    made = set[Path]()
    moved = False
    for item in staged:
        kept, public = folder / kept_path(item.part.path), folder / item.part.path
        for parent in {kept.parent, public.parent} - made:
            parent.mkdir(parents=True, exist_ok=True)
            made.add(parent)
        item.file.replace(kept)
        _link(kept, public)
        moved = True
    if moved:
        _sync_file_system(folder)


def withdraw(folder: Path, parts: Iterable[Part]) -> None:
    """Take parts out of the tables' folders, just before the manifest forgets them; the grace time begins now."""
    for part in parts:
        kept, public = folder / kept_path(part.path), folder / part.path
        if kept.exists():
            public.unlink(missing_ok=True)
        elif public.exists():
            # An older version gave it this name alone.
            kept.parent.mkdir(parents=True, exist_ok=True)
            public.replace(kept)
        with suppress(FileNotFoundError):
            os.utime(kept)


def tidy(folder: Path, named: Iterable[Part], grace_s: float = GRACE_S) -> Vacuumed:
    """Remove what was never committed and what was superseded long enough ago; link what lacks its second name.

    Args:
        folder: the dataset; the caller holds its lock.
        named: all parts of the manifest.
        grace_s: superseded files younger than this stay.

    Returns:
        The files that were removed.
    """
    public = {part.path for part in named}
    kept = {kept_path(path) for path in public}
    unwanted = list(_files(folder / STAGING))
    superseded_before = time.time() - grace_s
    for path in _files(folder / FILES):
        name = path.relative_to(folder).as_posix()
        second = folder / public_path(name)
        if name in kept:
            _mend(path, second)
        elif second.exists() or path.stat().st_mtime <= superseded_before:
            unwanted.append(path)
    for table in TABLES:
        listed = (path for path in _files(folder / table) if path.suffix == ".parquet")
        unwanted += [path for path in listed if path.relative_to(folder).as_posix() not in public]
    sizes = [size for path in unwanted for size in _remove(path)]
    shutil.rmtree(folder / STAGING, ignore_errors=True)
    (folder / STAGING).mkdir(exist_ok=True)
    return Vacuumed(len(sizes), sum(sizes))


def vacuum(folder: str | os.PathLike[str], *, older_than_s: float = 0.0) -> Vacuumed:
    """Remove files that an ingest superseded, without waiting for the grace time to end.

    A dataset that was opened before can no longer read them: open it again.

    Args:
        folder: the dataset.
        older_than_s: keep what was superseded less than so many seconds ago.

    Returns:
        What was removed.

    Raises:
        DatasetError: not a dataset, damaged, being written to, or it cannot be written.
    """
    path = Path(folder)
    if not Manifest.load(path).exists:
        raise DatasetError("is not a dataset", path=path, way_out="name the folder that was --out of an ingest")
    try:
        with exclusive(path):
            return tidy(path, Manifest.load(path).parts(), older_than_s)
    except OSError as error:
        raise unwritable(error, path) from error


def _files(folder: Path) -> Iterator[Path]:
    """All files below a folder; none where there is no such folder."""
    for root, _, names in os.walk(folder):
        yield from (Path(root, name) for name in names)


def _remove(path: Path) -> list[int]:
    """Remove one name of a file; its size where that was its last one."""
    status = path.lstat()
    path.unlink()
    return [status.st_size] if status.st_nlink == 1 else []


def _link(kept: Path, public: Path) -> None:
    """Give a file its second name; a copy where the file system has no links."""
    public.unlink(missing_ok=True)
    try:
        public.hardlink_to(kept)
    except OSError:
        shutil.copyfile(kept, public)


def _mend(kept: Path, public: Path) -> None:
    """Give a file its second name where that is missing or another file, as in a copy of the folder."""
    if not public.exists():
        _link(kept, public)
    elif not public.samefile(kept):
        temporary = public.with_suffix(".new")
        # Where the file system has no links, the copy stays.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
            temporary.hardlink_to(kept)
            temporary.replace(public)


def _sync_file_system(folder: Path) -> None:
    """Make all that was written last: one call for thousands of files takes as long as one call for each of a few."""
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
