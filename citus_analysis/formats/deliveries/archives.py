"""Archives as folders: tar, as it is or compressed, and zip.

Members are written below a folder and read as files. A name that leads out of it, a link, a device and an encrypted
member are refused, each with a line that names it; so is an archive that unpacks to far more than its size.
"""

from __future__ import annotations

import errno
import tarfile
import zipfile
import zlib
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final, TypeAlias

from citus_analysis.errors import InputError
from citus_analysis.formats.deliveries.content import Content

_ZIP_MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")
#: Members of zip archives that are documents of an office program, not folders of files.
_DOCUMENTS: Final = (b"[Content_Types].xml", b"mimetype")
_SUFFIXES: Final = {"none": "", "gzip": ".gz", "bzip2": ".bz2", "zstd": ".zst", "xz": ".xz", "lz4": ".lz4"}
#: An archive may unpack to this many bytes, and beyond them to this many times its own size.
_ALWAYS_BYTES: Final = 256 * 2**20
_TIMES: Final = 250
_MEMBERS: Final = 100_000
_PIECE_BYTES: Final = 2**20
#: Folders within folders that are read: each level makes every access slower, and some programs fail at a few hundred.
DEEPEST_FOLDER: Final = 100
#: Errors of a name that this file system does not have, after which other members can be written.
_BY_NAME: Final = (errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.EILSEQ)


#: Members and the reasons why they were not unpacked; the member is empty if the archive itself is damaged.
Problems: TypeAlias = list[tuple[str, str]]


def detect_archive_kind(content: Content) -> str | None:
    """`zip`, `tar`, `tar.gz` and so on; None for a file that is no archive.

    Raises:
        InputError: the file cannot be read.
    """
    if content.compression == "none" and content.start.startswith(_ZIP_MAGIC):
        return None if is_office_document(content.start) else "zip"
    block = content.start if content.compression == "none" else content.head
    return f"tar{_SUFFIXES[content.compression]}" if _begins_tar(block[: tarfile.BLOCKSIZE]) else None


def is_office_document(start: bytes) -> bool:
    """Whether the first bytes of a zip archive are those of a document of an office program."""
    return start.startswith(_ZIP_MAGIC) and start[30:].startswith(_DOCUMENTS)


def _begins_tar(block: bytes) -> bool:
    if len(block) < tarfile.BLOCKSIZE or not block[0]:
        return False
    try:
        # The checksum of the header is right; the oldest tars have no other mark.
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def unpack(content: Content, kind: str, folder: Path) -> Problems:
    """Write the members of an archive below a folder, and return what was not unpacked.

    Args:
        content: the archive.
        kind: as of :func:`detect_archive_kind`.
        folder: an empty folder.

    Raises:
        InputError: it unpacks to too much.
    """
    problems: Problems = []
    room = _Room(content)
    members = _zip_members(content, problems) if kind == "zip" else _iterate_tar_members(content, problems)
    try:
        with closing(members):
            for name, stream in members:
                _write(folder, name, stream, room, problems)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, InputError) as error:
        if isinstance(error, InputError) and error.hint == room.WAY_OUT:
            raise
        problems.append(("", f"is damaged: {error.problem if isinstance(error, InputError) else error}"))
    return problems


@dataclass
class _Room:
    """Counts what an archive unpacks to."""

    WAY_OUT = "unpack it yourself, if you trust it, and name the folder"

    content: Content
    bytes: int = 0
    members: int = 0

    def take(self, *, size: int = 0, members: int = 0) -> None:
        self.bytes += size
        self.members += members
        problem = f"has more than {_MEMBERS} members" if self.members > _MEMBERS else ""
        if self.bytes > max(_ALWAYS_BYTES, _TIMES * self.content.path.stat().st_size):
            problem = f"unpacks to more than {_TIMES} times its size"
        if problem:
            raise InputError(problem, path=self.content.path, hint=self.WAY_OUT)


def _write(folder: Path, name: str, stream: IO[bytes], room: _Room, problems: Problems) -> None:
    room.take(members=1)
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not parts or name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
        problems.append((name, "has a name that leads out of the archive, and is not unpacked"))
        return
    if len(parts) > DEEPEST_FOLDER:
        problems.append((name, f"is nested more than {DEEPEST_FOLDER} folders deep, and is not unpacked"))
        return
    target = folder.joinpath(*parts)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            problems.append((name, "is in the archive twice; the first is read"))
            return
        with target.open("xb") as file:
            while piece := stream.read(_PIECE_BYTES):
                room.take(size=len(piece))
                file.write(piece)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in _BY_NAME:
            raise
        problems.append((name, f"cannot be unpacked: {error.strerror if isinstance(error, OSError) else error}"))


def _iterate_tar_members(content: Content, problems: Problems) -> Generator[tuple[str, IO[bytes]], None, None]:
    with closing(content.open()) as file, tarfile.open(fileobj=file, mode="r|", errorlevel=1) as archive:
        for member in archive:
            if member.isdir():
                continue
            stream = archive.extractfile(member) if member.isreg() else None
            if stream is not None:
                yield member.name, stream
            else:
                kind = "a link" if member.issym() or member.islnk() else "no regular file"
                problems.append((member.name, f"is {kind}, and is not unpacked"))


def _zip_members(content: Content, problems: Problems) -> Generator[tuple[str, IO[bytes]], None, None]:
    with zipfile.ZipFile(content.path) as archive:
        for member in archive.infolist():
            if member.is_dir():
                continue
            if member.flag_bits & 1:
                problems.append((member.filename, "is encrypted; unpack it yourself, and name the folder"))
            elif (member.external_attr >> 16) & 0o170000 == 0o120000:
                problems.append((member.filename, "is a link, and is not unpacked"))
            else:
                try:
                    stream = archive.open(member)
                except NotImplementedError as error:
                    problems.append((member.filename, f"cannot be unpacked: {error}"))
                    continue
                with stream:
                    yield member.filename, stream
