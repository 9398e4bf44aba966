"""Names of systems, runs and experiments where they become names of files and folders.

A name is data: it comes out of a configuration, a folder or an option. Before it becomes part of a path it either is
one part of a path already (:func:`file_name_problem` says why not) or is encoded as one (:func:`partition_folder`).
"""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import quote

__all__ = ["MOST_NAME_BYTES", "file_name_problem", "partition_folder"]

#: What the file systems in use (ext4, XFS, btrfs, APFS, NTFS) take for one name.
MOST_NAME_BYTES: Final = 255
#: ASCII that no file system, shell pattern or reader of hive partitions gives a meaning.
_PLAIN: Final = " +,()-_.~"


def file_name_problem(name: str) -> str | None:
    """Why a name cannot be the name of a file or folder as it is; None where it can.

    Example:
        >>> file_name_problem("w2-t16"), file_name_problem("../escape"), file_name_problem("..")
        (None, "contains '/'", "is '..', which is another folder")
        >>> file_name_problem("x" * 256)
        'is 256 bytes long; names of files have at most 255'
    """
    if not name:
        return "is empty"
    if name in (".", ".."):
        return f"is {name!r}, which is another folder"
    strange = next((character for character in name if character in "/\\" or not character.isprintable()), None)
    if strange is not None:
        return f"contains {strange!r}"
    return _length_problem(name)


def partition_folder(key: str, value: str) -> str:
    """Name of the folder of a hive partition, which every reader of such partitions turns back into the value.

    Whatever has a meaning in paths or patterns is percent-encoded; letters of any script stay as they are, for encoded
    they take up to nine bytes each.

    Raises:
        ValueError: the name is longer than file systems take, or is no text.

    Example:
        >>> partition_folder("resource", "V3/x"), partition_folder("resource", "größe=5 %")
        ('resource=V3%2Fx', 'resource=größe%3D5 %25')
    """
    try:
        folder = f"{key}=" + "".join(_encoded(character) for character in value)
    except UnicodeEncodeError as error:
        raise ValueError("is not text") from error
    problem = _length_problem(folder)
    if problem:
        raise ValueError(f"is too long for the name of a folder: {folder[:40]}... {problem}")
    return folder


def _encoded(character: str) -> str:
    if character.isascii() or not character.isprintable():
        return quote(character, safe=_PLAIN)
    return character


def _length_problem(name: str) -> str | None:
    size = len(os.fsencode(name))
    return f"is {size} bytes long; names of files have at most {MOST_NAME_BYTES}" if size > MOST_NAME_BYTES else None
