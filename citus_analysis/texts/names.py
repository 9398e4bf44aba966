"""Names of systems, runs and experiments as names of files and folders.

Names are data from configurations, folders and options. Before a name becomes part of a path, it is either checked
(:func:`find_file_name_problem` gives the reason if it cannot be used) or encoded (:func:`partition_folder`).
Paths are named in legends by the parts in which they differ (:func:`find_differing_parts`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

#: Longest name in bytes that the common file systems (ext4, XFS, btrfs, APFS, NTFS) accept.
MOST_NAME_BYTES: Final = 255
#: ASCII characters without a special meaning in file systems, shell patterns and readers of hive partitions.
_PLAIN: Final = " +,()-_.~"


def find_file_name_problem(name: str) -> str | None:
    """The reason why a name cannot be used for a file or folder unchanged; None if it can.

    Example:
        >>> find_file_name_problem("w2-t16"), find_file_name_problem("../escape"), find_file_name_problem("..")
        (None, "contains '/'", "is '..', which is another folder")
        >>> find_file_name_problem("x" * 256)
        'is 256 bytes long; names of files have at most 255'
    """
    if not name:
        return "is empty"
    if name in (".", ".."):
        return f"is {name!r}, which is another folder"
    strange = next((character for character in name if character in "/\\" or not character.isprintable()), None)
    if strange is not None:
        return f"contains {strange!r}"
    return _find_length_problem(name)


def partition_folder(key: str, value: str) -> str:
    """Name of the folder of a hive partition, from which every reader of such partitions restores the value.

    Characters with a special meaning in paths or patterns are percent-encoded. Letters of any script are not, because
    each would take up to nine bytes.

    Raises:
        ValueError: the name is longer than file systems accept, or is not a string.

    Example:
        >>> partition_folder("resource", "V3/x"), partition_folder("resource", "größe=5 %")
        ('resource=V3%2Fx', 'resource=größe%3D5 %25')
    """
    try:
        folder = f"{key}=" + "".join(_encode_character(character) for character in value)
    except UnicodeEncodeError as error:
        raise ValueError("is not text") from error
    problem = _find_length_problem(folder)
    if problem:
        raise ValueError(f"is too long for the name of a folder: {folder[:40]}... {problem}")
    return folder


def _encode_character(character: str) -> str:
    if character.isascii() or not character.isprintable():
        return quote(character, safe=_PLAIN)
    return character


def _find_length_problem(name: str) -> str | None:
    size = len(os.fsencode(name))
    return f"is {size} bytes long; names of files have at most {MOST_NAME_BYTES}" if size > MOST_NAME_BYTES else None


def find_differing_parts(paths: Sequence[str]) -> dict[str, str]:
    """Path -> its parts that are not in all paths; a single path keeps its last part.

    Example:
        >>> find_differing_parts(["/sys/fs/cgroup/node1/cpu.stat", "/sys/fs/cgroup/node2/cpu.stat"])
        {'/sys/fs/cgroup/node1/cpu.stat': 'node1', '/sys/fs/cgroup/node2/cpu.stat': 'node2'}
        >>> find_differing_parts(["/sys/fs/cgroup/node1"])
        {'/sys/fs/cgroup/node1': 'node1'}
    """
    parts = {path: [part for part in path.split("/") if part] for path in paths}
    shared = set.intersection(*(set(found) for found in parts.values())) if len(parts) > 1 else set()
    return {
        path: "/".join(part for part in found if part not in shared) if shared else (found or [path])[-1]
        for path, found in parts.items()
    }


# Names of places: URLs and paths.

#: A scheme, as in `s3://bucket/key`.
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_url(place: str | os.PathLike[str]) -> bool:
    """Whether a place is named by a URL.

    Example:
        >>> is_url("s3://bucket/out"), is_url("out/s3"), is_url(Path("out"))
        (True, False, False)
    """
    return isinstance(place, str) and _URL.match(place) is not None


def convert_to_place(text: str) -> Path | str:
    """A folder as a path; a URL as it is typed, because a path would lose one of its slashes.

    Example:
        >>> convert_to_place("s3://bucket/out")
        's3://bucket/out'
    """
    return text if is_url(text) else Path(text)


def resolve_place(place: Path | str) -> Path | str:
    """The same result for all names of a folder or a URL.

    Example:
        >>> resolve_place("s3://bucket/out/"), resolve_place(Path("/tmp/../tmp")) == Path("/tmp").resolve()
        ('s3://bucket/out', True)
    """
    return place.resolve() if isinstance(place, Path) else place.rstrip("/")
