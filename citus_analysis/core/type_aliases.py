"""Types of numpy arrays, for annotations."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

# Types of values that are not checked yet, and the only use of `Any`, with its reason.
#
# Only this module and :mod:`citus_analysis.texts.documents` name `Any`.
#
# Documents of a known form have types of their own (:class:`citus_analysis.runner.journal.EntryDetail`, the notebooks
# of :mod:`citus_analysis.report.notebooks`, pydantic's models of files that users write, lines of the manifest by
# :mod:`citus_analysis.dataset.manifest`); others are :data:`Json` or `object` until they are checked.

#: A value that was read from JSON.
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
#: An object of fsspec, which has no types and whose file systems have methods that its base class does not name.
UntypedLibrary: TypeAlias = Any
