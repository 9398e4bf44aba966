"""Short hashes of values."""

from __future__ import annotations

import hashlib
import json

__all__ = ["digest"]


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
