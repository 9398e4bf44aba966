"""List the files below the SRC arguments.

Hidden files and folders, other datasets and special files (pipes, sockets, devices) are left out. Symbolic links to
folders are followed, but each folder is entered only once, so that loops end. A file with several names is listed
once, under the first name.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from citus_analysis.dataset.identity import LABEL_FILES
from citus_analysis.dataset.object_place import ObjectPlace, Stored, translate_store_errors
from citus_analysis.errors import InputError
from citus_analysis.formats import Content
from citus_analysis.formats.deliveries.archives import DEEPEST_FOLDER, detect_archive_kind, unpack
from citus_analysis.formats.parsing.cuttable import HEAD_BYTES_NEEDED, LOOK_BACK_BYTES
from citus_analysis.redaction import redact_path
from citus_analysis.study_tree import CONFIG_NAMES
from citus_analysis.texts.names import is_url
from citus_analysis.texts.words import make_printable

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
class FoundFile:
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
class FileWalk:
    """The files that a walk found, and the paths that it could not read (path, reason)."""

    files: list[FoundFile]
    problems: list[tuple[str, str]]


def display(path: Path) -> str:
    """A path to show or to store: redacted and printable, also where the file system's bytes are not UTF-8.

    Example:
        >>> display(Path("token=s3cret") / "b.log")
        'token=***/b.log'
    """
    return make_printable(redact_path(convert_path_to_text(path)))


def convert_path_to_text(path: Path) -> str:
    """A path as text, secrets not redacted: for reading facts from it and comparing it with other paths.

    Example:
        >>> convert_path_to_text(Path("a") / "b.log")
        'a/b.log'
    """
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def describe_read_error(error: OSError) -> str:
    """The message for a file that cannot be read.

    Example:
        >>> describe_read_error(PermissionError(13, "Permission denied"))
        'cannot be read: Permission denied'
    """
    return f"cannot be read: {error.strerror or error}"


def is_there(path: Path) -> bool:
    """Whether a file exists and is visible to the process; a path without permission counts as absent."""
    return os.path.exists(path)  # noqa: PTH110 - pathlib raises an error where permission is lacking


def read_size_and_time(path: Path) -> tuple[int, int] | None:
    """Size of a file in bytes and the time of its last change in ns; None: it cannot be seen.

    Example:
        >>> read_size_and_time(Path("no-such-file")) is None
        True
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def find_file_at(location: str) -> Path | None:
    """The file that a location leads to: itself, the file that a part of it names (`x.log#2`), or an archive.

    Example:
        >>> find_file_at("/no/such/file.log") is None
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


def walk(sources: Iterable[Path]) -> FileWalk:
    """All files below the sources, in a stable order.

    Raises:
        InputError: a source does not exist or cannot be opened.
    """
    problems: list[tuple[str, str]] = []
    files: dict[Path, FoundFile] = {}
    seen: set[Path] = set()
    for source in sources:
        # abspath, not resolve: identity is read off the path as the user sees it.
        top = Path(os.path.abspath(source))  # noqa: PTH100 - pathlib only resolves
        try:
            is_folder = stat.S_ISDIR(top.stat().st_mode)
            if is_folder:
                next(top.iterdir(), None)
        except OSError as error:
            hint = "check the path and its permissions"
            raise InputError(describe_read_error(error), path=display(source), hint=hint) from error
        root = top if is_folder else top.parent
        for path in _iterate_files(top, seen, problems) if is_folder else (top,):
            _add(path, root, not is_folder, files, problems)
    return FileWalk(sorted(files.values(), key=lambda file: os.fsencode(file.path)), problems)


def _add(path: Path, root: Path, named: bool, files: dict[Path, FoundFile], problems: list[tuple[str, str]]) -> None:
    try:
        status, real = path.stat(), path.resolve()
        problem = None if stat.S_ISREG(status.st_mode) else "is not a regular file"
    except OSError as error:
        problem = describe_read_error(error)
    if problem:
        problems.append((display(path.relative_to(root)), problem))
    elif real not in files or (files[real].path.is_symlink() and not path.is_symlink()):
        files[real] = FoundFile(root, path, status.st_size, status.st_mtime_ns, named)


def _iterate_files(top: Path, seen: set[Path], problems: list[tuple[str, str]]) -> Iterator[Path]:
    # Links to folders come last, so that files keep the name they have without the link.
    folders, links = [top], deque[Path]()
    while folders or links:
        folder = folders.pop() if folders else links.popleft()
        try:
            real = folder.resolve()
            if real in seen or (folder / MANIFEST_NAME).exists():
                continue
            if len(folder.parts) - len(top.parts) > DEEPEST_FOLDER:
                problems.append(
                    (display(folder.relative_to(top)), f"is nested more than {DEEPEST_FOLDER} folders deep")
                )
                continue
            seen.add(real)
            entries = sorted(folder.iterdir(), key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            problems.append((display(folder.relative_to(top)), describe_read_error(error)))
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


# Sources at URLs: an outline of each on this machine, and a copy of a file where and while it is read.
#
# The outline has the names, sizes and times of the files, and their first bytes, so that everything that finds and
# identifies files works on it. Files that may describe others are in it whole. Contents are fetched by the task that
# reads them, on whichever machine it runs.

#: Bytes at the beginning of a file that are in its outline.
_HEAD_BYTES: Final = 4096
#: Files that may state facts about others, up to this size, are fetched whole.
_DESCRIBING: Final = (".yml", ".yaml", ".csv")
_DESCRIBING_BYTES: Final = 4 * 2**20


@contextmanager
def outline_url_sources(sources: Iterable[str | os.PathLike[str]]) -> Iterator[tuple[list[Path], dict[Path, str]]]:
    """Sources as paths, URLs as paths of their outlines; and the URL of each file in an outline.

    Raises:
        InputError: there is nothing at a URL.
        DatasetError: a store cannot be reached.
    """
    given = list(sources)
    if not any(is_url(source) for source in given):
        # Where there is no room for outlines, files can still be read.
        yield [Path(source) for source in given], {}
        return
    origins: dict[Path, str] = {}
    with tempfile.TemporaryDirectory(prefix="citus-analysis-") as folder:
        tops = ((source, Path(folder).resolve() / str(number)) for number, source in enumerate(given))
        yield [_build_outline(str(one), top, origins) if is_url(one) else Path(one) for one, top in tops], origins


def _build_outline(url: str, folder: Path, origins: dict[Path, str]) -> Path:
    place = ObjectPlace.of(url)
    top = folder / urlsplit(place.url).netloc / urlsplit(place.url).path.strip("/")
    listed = {name: stored for name, stored in place.list_objects().items() if not _leaves(name)}
    if not listed or list(listed) == [""]:
        # The URL of a single file.
        above, _, name = place.url.rpartition("/")
        listed = {key: stored for key, stored in ObjectPlace.of(above).list_objects(name).items() if key == name}
        if not listed:
            raise InputError("there is nothing at this URL", path=place.url, hint="check the bucket and the path")
        place, top = ObjectPlace.of(above), top.parent
    for name, head in _fetch_object_heads(place, listed).items():
        file = top / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(head)
        os.truncate(file, listed[name].bytes)
        os.utime(file, (listed[name].changed, listed[name].changed))
        origins[file] = f"{place.url}/{name}"
    return top if len(listed) != 1 or place.url.endswith(top.name) else top / next(iter(listed))


def _leaves(name: str) -> bool:
    """Whether a name would lead out of the outline; object stores allow any."""
    return ".." in PurePosixPath(name).parts or name.endswith("/")


def _fetch_object_heads(place: ObjectPlace, listed: Mapping[str, Stored]) -> dict[str, bytes]:
    """The first bytes of each object."""
    ends = {}
    for name, stored in listed.items():
        is_whole = name.endswith(_DESCRIBING) and stored.bytes <= _DESCRIBING_BYTES
        if stored.bytes:
            ends[name] = stored.bytes if is_whole else min(stored.bytes, _HEAD_BYTES)
    # One that was removed since it was listed is reported as one that does not exist.
    with translate_store_errors(place.url):
        read = place.read_all(list(ends), list(ends.values()))
    return dict.fromkeys(listed, b"") | dict(zip(ends, read, strict=True))


def walk_outlined_paths(paths: Sequence[Path], origins: Mapping[Path, str]) -> FileWalk:
    """What is below the paths of :func:`outline_url_sources`, with the URLs of files in outlines."""
    found = walk(paths)
    return replace(found, files=[replace(file, origin=origins.get(file.path)) for file in found.files])


@contextmanager
def open_local_copy(found: FoundFile, begin: int = 0, end: int | None = None) -> Iterator[Path]:
    """A file as it can be read: itself, or a copy of the object at its URL.

    Args:
        found: the file.
        begin: first byte that is needed.
        end: end of those that are needed; None: all. A copy then holds these, with the bytes that may be looked at
            before them and at the beginning of the file, and zero bytes elsewhere.

    Raises:
        InputError: it changed since it was found, or cannot be fetched.
    """
    if found.origin is None:
        yield found.path
        return
    with download_url(found.origin) if end is None else _download_split(found.origin, begin, end, found.bytes) as path:
        if path.stat().st_size != found.bytes:
            raise InputError("changed while it was read", path=found.relative, hint="ingest again")
        yield path


@contextmanager
def download_url(url: str) -> Iterator[Path]:
    """A copy of the file at a URL, under its own name, while it is used."""
    with _make_download_path(url) as (place, name, path):
        place.download(name, path)
        yield path


@contextmanager
def _download_split(url: str, begin: int, end: int, size: int) -> Iterator[Path]:
    needed = [(0, min(HEAD_BYTES_NEEDED, size)), (max(0, begin - 2 * LOOK_BACK_BYTES), end)]
    with _make_download_path(url) as (place, name, path), path.open("wb") as file:
        # The object at the URL may have another length by now.
        length = place.length(name)
        for first, last in needed if length == size else ():
            file.seek(first)
            file.write(place.read_range(name, first, last))
        file.truncate(length)
        file.flush()
        yield path


@contextmanager
def _make_download_path(url: str) -> Iterator[tuple[ObjectPlace, str, Path]]:
    """The place and name of a URL, and a path of the same name in a folder of its own."""
    above, _, name = url.rpartition("/")
    with tempfile.TemporaryDirectory(prefix="citus-analysis-") as folder:
        yield ObjectPlace.of(above), name, Path(folder) / name


# Archives among the files of a walk: unpacked to a temporary folder, their members take their place.
#
# A member has the identity that it would have if the archive were a folder of the same name without its endings, beside
# the same descriptions (`config.yml`, `runs.csv`, `identity.yml`).

_ENDING: Final = re.compile(r"\.(?:tar(?:\.\w+)?|tgz|tbz2?|txz|tzst|zip)$", re.IGNORECASE)
#: An archive in an archive is unpacked, too; one in that is not.
_NESTED: Final = 1
DESCRIBING_FILES: Final = (*CONFIG_NAMES, *LABEL_FILES)


def get_archive_folder_name(archive: str) -> str:
    """The name of the folder that an archive of some name is taken for.

    Example:
        >>> get_archive_folder_name("results.tar.gz")
        'results'
    """
    return _ENDING.sub("", archive) or archive


@contextmanager
def unpack_archives(walked: FileWalk) -> Iterator[FileWalk]:
    """The files of a walk with the members of archives in place of these; they exist within the block.

    An archive that cannot be unpacked, and each member that is refused, becomes a problem of the walk.
    """
    kinds = [_detect_archive_kind(found) for found in walked.files]
    if not any(kinds):
        yield walked
        return
    with tempfile.TemporaryDirectory(prefix="citus-analysis-") as folder:
        plain = [found for found, kind in zip(walked.files, kinds, strict=True) if kind is None]
        packed = [(found, kind) for found, kind in zip(walked.files, kinds, strict=True) if kind is not None]
        parts = [
            _list_archive_members(found, kind, Path(folder).resolve() / str(n), 0)
            for n, (found, kind) in enumerate(packed)
        ]
        files = [*plain, *(file for part in parts for file in part.files)]
        problems = [*walked.problems, *(problem for part in parts for problem in part.problems)]
        yield FileWalk(files, problems)


def _detect_archive_kind(found: FoundFile) -> str | None:
    with suppress(InputError, OSError), open_local_copy(found) as path:
        return detect_archive_kind(Content(path))
    # The attempt to read it gives the reason.
    return None


def _list_archive_members(found: FoundFile, kind: str, place: Path, depth: int) -> FileWalk:
    """The members of one archive.

    Args:
        found: the archive.
        kind: as of :func:`detect_archive_kind`.
        place: a new folder for what it is unpacked to.
        depth: number of archives that it is in.
    """
    name = get_archive_folder_name(found.path.name)
    # Below a SRC that is a folder, the archive is one of its folders; a SRC of its own is the top itself.
    above = Path() if found.named else found.path.parent.relative_to(found.root)
    folder = place / above / name
    folder.mkdir(parents=True)
    _link_descriptions(found, place)
    try:
        with open_local_copy(found) as path:
            problems = unpack(Content(path), kind, folder)
    except InputError as error:
        return FileWalk([], [(found.relative, f"{error.problem} ({error.hint})")])
    archive = Archive(found.location, found.relative, kind, folder)
    walked = walk([folder])
    named = [(_format_member_path(found, member), problem) for member, problem in problems]
    problems = [*named, *((_format_member_path(found, path), problem) for path, problem in walked.problems)]
    root = folder if found.named else place
    files: list[FoundFile] = []
    for number, file in enumerate(replace(file, root=root, archive=archive) for file in walked.files):
        inner = _detect_archive_kind(file)
        if inner is None or depth >= _NESTED:
            files.append(file)
            continue
        part = _list_archive_members(
            replace(file, named=False), inner, place.with_name(f"{place.name}-{number}"), depth + 1
        )
        files += part.files
        problems += part.problems
    return FileWalk(files, problems)


def _format_member_path(found: FoundFile, member: str) -> str:
    return f"{found.relative}/{display(Path(member))}" if member else found.relative


def _link_descriptions(found: FoundFile, place: Path) -> None:
    """Make the descriptions beside an archive, and in the folders above it, visible beside what it is unpacked to."""
    folder = found.path.parent
    for above in (one for one in (folder, *folder.parents) if one == found.root or found.root in one.parents):
        target = place / above.relative_to(found.root)
        for name in DESCRIBING_FILES:
            if is_there(above / name) and not (target / name).exists():
                (target / name).symlink_to(above / name)


def extract_member(archive: Path, location: str, part: str, folder: Path) -> Path:
    """A member of an archive, unpacked once more.

    Args:
        archive: the archive.
        location: of the source (:attr:`Found.location`).
        part: as of :attr:`Delivery.name`.
        folder: an empty folder that it is unpacked to.

    Raises:
        InputError: the archive cannot be read.
    """
    found = FoundFile(archive.parent, archive, 0, 0, named=True)
    wanted = location.removesuffix(f"#{part}") if part else location
    members = _list_archive_members(found, _detect_archive_kind(found) or "", folder / "0", 0).files
    return next((member.path for member in members if member.location == wanted), Path(wanted))
