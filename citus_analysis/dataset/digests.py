"""Short hashes of values, and of files."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from blake3 import blake3

#: Bytes that are read at once, of a small file, and of one that is larger than that: after each block, a thread waits
#: up to 5 ms for the interpreter if another one keeps it busy.
_SMALL, _LARGE = 2**18, 2**22


def digest(value: object, size: int = 8) -> str:
    """Short stable hash of a JSON-serialisable value.

    Args:
        value: the value; mappings hash alike in any order of their keys.
        size: bytes of the hash, which has two characters for each.

    Example:
        >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
        True
    """
    data = json.dumps(value, sort_keys=True, ensure_ascii=True).encode("ascii")
    return hashlib.blake2b(data, digest_size=size).hexdigest()


def hash_file_content(path: Path) -> str:
    """BLAKE3-128 of the bytes on disk, hexadecimal.

    Every ingest hashes all bytes, so speed matters: BLAKE2b takes four times as long.
    """
    hasher = blake3()
    with path.open("rb", buffering=0) as file:
        chunk = memoryview(bytearray(_LARGE if os.fstat(file.fileno()).st_size > _SMALL else _SMALL))
        while size := file.readinto(chunk):
            hasher.update(chunk[:size])
    return hasher.hexdigest(length=16)
