"""Types of values that are not checked yet, and the only use of `Any`, with its reason.

Only this module names `Any`, and only one module uses it.

Documents of a known form have types of their own (:class:`citus_analysis.runner.journal.Detail`, the notebooks of
:mod:`citus_analysis.report.engine.notebook_document`, pydantic's models of files that users write, lines of the
manifest by :mod:`citus_analysis.dataset.storage.checked_fields`); others are :data:`Json` or `object` until they are
checked.
"""

from __future__ import annotations

from typing import Any, TypeAlias

#: A value that was read from JSON.
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
#: An object of fsspec, which has no types and whose file systems have methods that its base class does not name.
UntypedLibrary: TypeAlias = Any
