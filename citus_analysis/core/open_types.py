"""Types of values that have still to be looked at, and the values that stay `Any`, each with its reason.

This is the one module that names `Any`, and few modules use it.

Documents whose form is known have types of their own (:class:`citus_analysis.runner.journal.Detail`, the notebooks of
:mod:`citus_analysis.report.engine.notebook_document`, pydantic's models of files that users write); those whose form
is not known are :data:`Json` or `object` until they were looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

__all__ = ["FrameRow", "Json", "KeywordArguments", "UntypedLibrary"]

#: A value that was read from JSON.
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
#: A row of a frame by column, as polars gives it: the schema of the frame knows the types, the type checker does not.
FrameRow: TypeAlias = Mapping[str, Any]
#: Fields of a dataclass that were read back from a line that carries a hash of itself.
KeywordArguments: TypeAlias = Mapping[str, Any]
#: An object of a library that has no types.
UntypedLibrary: TypeAlias = Any
