"""Types of values whose form other programs decide: the one module that names `Any` for them.

A document that was decoded from JSON or YAML, a row of a frame and an object of a library without types hold values
that a type checker cannot know. Their readers check them: pydantic and the formats by hand, frames by the schema of
their table. Values that this package makes itself have types of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

__all__ = ["FrameRow", "JsonMapping", "JsonObject", "Untyped"]

#: A decoded JSON or YAML document, to be read.
JsonMapping: TypeAlias = Mapping[str, Any]
#: The same, to be made or changed.
JsonObject: TypeAlias = dict[str, Any]
#: A row of a frame, by column.
FrameRow: TypeAlias = Mapping[str, Any]
#: A value of any kind that a document holds, or an object of a library without types.
Untyped: TypeAlias = Any
