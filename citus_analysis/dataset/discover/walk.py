"""List the files below the SRC arguments.

Hidden files and folders, other datasets and special files (pipes, sockets, devices) are left out. Symbolic links to
folders are followed, but each folder is entered only once, so that loops end. A file with several names is listed
once, under the first name.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from citus_analysis.errors import InputError
from citus_analysis.redaction import redact_path
from citus_analysis.texts.printable import printable

MANIFEST_NAME: Final = "_manifest.jsonl"


@dataclass(frozen=True)
class Archive:
    """An archive whose members are read as files.

    Attributes:
        path: the archive, or its URL.
        relative: its path below the SRC, as it is shown.
        kind: what it is (`tar.gz`).
        folder: the folder that its members were unpacked to.
    """

    path: str
    relative: str
    kind: str
    folder: Path


@dataclass(frozen=True)
class Found:
    """A file below a SRC.

    Attributes:
        root: the SRC folder it was found under (for a SRC that is a file: its folder).
        path: absolute path.
        bytes: size.
        mtime_ns: time of its last change.
        named: the file itself was a SRC argument.
        origin: its URL, if `path` is only its outline.
        archive: the archive that it was unpacked from.
    """

    root: Path
    path: Path
    bytes: int
    mtime_ns: int
    named: bool = False
    origin: str | None = None
    archive: Archive | None = None

    @cached_property
    def relative(self) -> str:
        """Path below the SRC, printable, redacted; a member of an archive is below the archive."""
        if self.archive is not None:
            return f"{self.archive.relative}/{display(self._member)}"
        return display(self.path.relative_to(self.root))

    @cached_property
    def location(self) -> str:
        """Absolute path, with bytes that are not UTF-8 as surrogates; or URL."""
        if self.archive is not None:
            return f"{self.archive.path}/{os.fspath(self._member)}"
        return self.origin or os.fspath(self.path)

    @property
    def _member(self) -> Path:
        return self.path if self.archive is None else self.path.relative_to(self.archive.folder)

    @cached_property
    def recorded(self) -> str:
        """The location as recorded in the manifest, redacted."""
        return redact_path(self.location)


@dataclass(frozen=True)
class Walk:
    """The files that a walk found, and the paths that it could not read (path, reason)."""

    files: list[Found]
    problems: list[tuple[str, str]]


def display(path: Path) -> str:
    """A path to show or to store: redacted and printable, also where the file system's bytes are not UTF-8.

    Example:
        >>> display(Path("token=s3cret") / "b.log")
        'token=***/b.log'
    """
    return printable(redact_path(path_text(path)))


def path_text(path: Path) -> str:
    """A path as text, secrets not redacted: for reading facts from it and comparing it with other paths.

    Example:
        >>> path_text(Path("a") / "b.log")
        'a/b.log'
    """
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def unreadable(error: OSError) -> str:
    """The message for a file that cannot be read.

    Example:
        >>> unreadable(PermissionError(13, "Permission denied"))
        'cannot be read: Permission denied'
    """
    return f"cannot be read: {error.strerror or error}"


def is_there(path: Path) -> bool:
    """Whether a file exists and is visible to the process; a path without permission counts as absent."""
    return os.path.exists(path)  # noqa: PTH110 - pathlib raises an error where permission is lacking


def size_and_time(path: Path) -> tuple[int, int] | None:
    """Size of a file in bytes and the time of its last change in ns; None: it cannot be seen.

    Example:
        >>> size_and_time(Path("no-such-file")) is None
        True
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def file_at(location: str) -> Path | None:
    """The file that a location leads to: itself, the file that a part of it names (`x.log#2`), or an archive.

    Example:
        >>> file_at("/no/such/file.log") is None
        True
    """
    place = Path(location)
    if os.path.lexists(place):
        return place
    words = place.name.split("#")
    for count in range(len(words) - 1, 0, -1):
        name = "#".join(words[:count])
        if name and os.path.lexists(place.with_name(name)):
            return place.with_name(name)
    return next((above for above in place.parents if above.is_file()), None)


def walk(sources: Iterable[Path]) -> Walk:
    """All files below the sources, in a stable order.

    Raises:
        InputError: a source does not exist or cannot be opened.
    """
    problems: list[tuple[str, str]] = []
    files: dict[Path, Found] = {}
    seen: set[Path] = set()
    for source in sources:
        # abspath, not resolve: identity is read off the path as the user sees it.
        top = Path(os.path.abspath(source))  # noqa: PTH100 - pathlib only resolves
        try:
            is_folder = stat.S_ISDIR(top.stat().st_mode)
            if is_folder:
                next(top.iterdir(), None)
        except OSError as error:
            way_out = "check the path and its permissions"
            raise InputError(unreadable(error), path=display(source), way_out=way_out) from error
        root = top if is_folder else top.parent
        for path in _files(top, seen, problems) if is_folder else (top,):
            _add(path, root, not is_folder, files, problems)
    return Walk(sorted(files.values(), key=lambda file: os.fsencode(file.path)), problems)


def _add(path: Path, root: Path, named: bool, files: dict[Path, Found], problems: list[tuple[str, str]]) -> None:
    try:
        status, real = path.stat(), path.resolve()
        problem = None if stat.S_ISREG(status.st_mode) else "is not a regular file"
    except OSError as error:
        problem = unreadable(error)
    if problem:
        problems.append((display(path.relative_to(root)), problem))
    elif real not in files or (files[real].path.is_symlink() and not path.is_symlink()):
        files[real] = Found(root, path, status.st_size, status.st_mtime_ns, named)


def _files(top: Path, seen: set[Path], problems: list[tuple[str, str]]) -> Iterator[Path]:
    # Links to folders come last, so that files keep the name they have without the link.
    folders, links = [top], deque[Path]()
    while folders or links:
        folder = folders.pop() if folders else links.popleft()
        try:
            real = folder.resolve()
            if real in seen or (folder / MANIFEST_NAME).exists():
                continue
            seen.add(real)
            entries = sorted(folder.iterdir(), key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            problems.append((display(folder.relative_to(top)), unreadable(error)))
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            # What cannot be looked at is listed as a file; the problem is reported when it is read.
            if not os.path.isdir(entry):  # noqa: PTH112 - pathlib raises an error
                yield entry
            elif entry.is_symlink():
                links.append(entry)
            else:
                folders.append(entry)
