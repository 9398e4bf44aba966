"""Tables that callers pass: polars, pandas or Arrow frames, and objects that provide tables by name.

Functions accept any of them, compute with polars, and return frames of the caller's kind:
:func:`return_callers_frame_kind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from importlib import import_module
from os import PathLike
from types import ModuleType
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeAlias, TypeGuard, TypeVar, cast, runtime_checkable

import numpy as np
import polars as pl

from citus_analysis.core.displays import DisplayMixin
from citus_analysis.core.type_aliases import Floats
from citus_analysis.errors import UsageError

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

#: A table of the caller's kind: polars (eager or lazy), pandas, Arrow or another in-memory kind that narwhals supports.
Frame: TypeAlias = "IntoDataFrame | pl.LazyFrame"


@runtime_checkable
class TableSource(Protocol):
    """An object that provides tables by name, such as a dataset."""

    def table(self, name: str, /) -> Frame:
        """The table of that name."""


@runtime_checkable
class _ScannableSource(Protocol):
    def scan(self, name: str, /) -> pl.LazyFrame:
        """A table as a lazy frame."""


def scan_source_table(source: TableSource | Mapping[str, Frame], name: str) -> pl.LazyFrame:
    """A table of a dataset or of a mapping as a lazy frame; only the parts that are used are read from a dataset.

    Raises:
        UsageError: the table is missing.

    Example:
        >>> class Tables:
        ...     def table(self, name):
        ...         return pl.DataFrame({"name": [name]})
        >>> scan_source_table(Tables(), "runs").collect().rows()
        [('runs',)]
    """
    return source.scan(name) if isinstance(source, _ScannableSource) else read_tables(source, [name])[name].lazy()


@dataclass(frozen=True)
class NamedTables:
    """Frames by name as a source of tables, for functions that take a dataset."""

    frames: Mapping[str, Frame]

    def table(self, name: str, /) -> pl.DataFrame:
        """The table of that name; settings, which few callers have, may be missing.

        Raises:
            UsageError: there is none.
        """
        if name in self.frames:
            return convert_to_polars(self.frames[name])
        if name == "settings":
            return pl.DataFrame(schema=dict.fromkeys(("resource", "name", "value"), pl.String()))
        raise UsageError(f"the table {name} is needed", hint=f"given are {', '.join(self.frames)}; pass a dataset")


def _open_named_files(source: object) -> TableSource:
    """The dataset of the files that a path, a pattern or a list of them names."""
    # Datasets are above this part.
    dataset: TableSource = import_module("citus_analysis.dataset.read_files").open_source(source)
    return dataset


def resolve_tables(source: object) -> TableSource:
    """A dataset as :func:`resolve_source` finds it, for what needs more tables than the runs.

    Raises:
        UsageError: it is a table of runs.
    """
    found = resolve_source(source)
    if isinstance(found, pl.DataFrame):
        raise UsageError("a table of runs has no traced statements", hint="pass a dataset, or files with server logs")
    return found


def resolve_source(source: object) -> TableSource | pl.DataFrame:
    """What a caller passed, as a dataset or a polars frame: the one way in for every function over runs.

    Args:
        source: a dataset or what :func:`citus_analysis.read` returns; a path, a pattern or a list of them; a polars,
            pandas or Arrow frame; columns by name; a list of records; frames by the names of tables.

    Raises:
        UsageError: it is none of these.
        InputError: a path cannot be read.

    Example:
        >>> resolve_source({"version": ["a", "b"], "tps": [1.5, 2.5]}).columns
        ['version', 'tps']
    """
    if isinstance(source, pl.DataFrame):
        return source
    for name in ("source", "dataset"):
        # What `study` and `read` return holds it.
        if isinstance(source, DisplayMixin) and isinstance(
            held := getattr(source, name, None), pl.DataFrame | TableSource
        ):
            return held
    if isinstance(source, DisplayMixin):
        raise UsageError(f"a {type(source).__name__} is a result, not runs", hint="pass what it was computed from")
    if isinstance(source, TableSource):
        return source
    if isinstance(source, str | PathLike):
        return _open_named_files(source)
    if isinstance(source, Mapping):
        return _resolve_mapping(source)
    if isinstance(source, list | tuple):
        return _resolve_list(source)
    return convert_to_polars(cast("Frame", source))


def _resolve_mapping(source: Mapping[str, object]) -> TableSource | pl.DataFrame:
    if source and all(is_frame(value) for value in source.values()):
        return NamedTables(cast("Mapping[str, Frame]", source))
    try:
        return pl.DataFrame(dict(source))
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise UsageError(
            f"columns by name make no table: {str(error).splitlines()[0]}", hint="pass lists of one length"
        ) from error


def _resolve_list(source: Sequence[object]) -> TableSource | pl.DataFrame:
    if source and all(isinstance(one, str | PathLike) for one in source):
        return _open_named_files(list(source))
    if source and all(isinstance(one, Mapping) for one in source):
        return pl.DataFrame(list(source), infer_schema_length=None)
    numbers = bool(source) and all(isinstance(one, int | float) for one in source)
    what = "one list of numbers has nothing to compare with" if numbers else "a list of these is no table"
    raise UsageError(what, hint="pass a second list, lists by name, a frame, a dataset, or paths of files")


def convert_to_numbers(values: object) -> Floats | None:
    """A list, array or series of numbers as an array; None for anything else.

    Example:
        >>> convert_to_numbers([1, 2.5]), convert_to_numbers(["a"])
        (array([1. , 2.5]), None)
    """
    if isinstance(values, str | bytes | Mapping | pl.DataFrame | pl.LazyFrame) or values is None:
        return None
    if not isinstance(values, Iterable) or hasattr(values, "columns") or hasattr(values, "column_names"):
        return None
    try:
        array = np.asarray(values if hasattr(values, "__array__") else list(values))
    except (TypeError, ValueError):
        return None
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        return None
    return array.astype(np.float64)


def convert_to_polars(frame: Frame) -> pl.DataFrame:
    """A polars, pandas or Arrow frame as a polars frame.

    Raises:
        UsageError: the object is not a frame.
    """
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    import narwhals as nw

    try:
        table: pl.DataFrame = nw.from_native(_add_index_columns(frame), eager_only=True).to_polars()
    except TypeError as error:
        raise UsageError(
            f"{type(frame).__name__} is no table", hint="pass a dataset or a polars, pandas or Arrow frame"
        ) from error
    except (ValueError, AttributeError, pl.exceptions.PolarsError) as error:
        raise UsageError(
            f"this {type(frame).__name__} cannot be read as a table: {str(error).splitlines()[0]}",
            hint="columns need distinct names that are texts, and values of one type",
        ) from error
    return table


def _add_index_columns(frame: IntoDataFrame) -> IntoDataFrame:
    """A pandas frame with the named levels of its index as columns."""
    index = getattr(frame, "index", None)
    names = [name for name in getattr(index, "names", ()) if name is not None]
    reset = getattr(frame, "reset_index", None)
    return reset(level=names) if names and reset is not None else frame


def read_tables(source: TableSource | Mapping[str, Frame], names: Sequence[str]) -> dict[str, pl.DataFrame]:
    """Tables of a dataset or of a mapping, by name.

    Raises:
        UsageError: a table is missing.
    """
    if isinstance(source, TableSource):
        return {name: convert_to_polars(source.table(name)) for name in names}
    if isinstance(source, Mapping) and set(names) <= set(source):
        return {name: convert_to_polars(source[name]) for name in names}
    raise UsageError(f"the tables {' and '.join(names)} are needed", hint="pass a dataset")


def return_callers_frame_kind(function: Callable[P, R]) -> Callable[P, R]:
    """A function of frames whose results have the kind of the first frame passed: pandas in, pandas out.

    Frames in a tuple or in the attributes of a result object are converted, too. Annotations name polars, the kind for
    callers who pass polars or a dataset.

    Example:
        >>> import pandas as pd
        >>> @return_callers_frame_kind
        ... def doubled(frame: Frame) -> pl.DataFrame:
        ...     return convert_to_polars(frame) * 2
        >>> type(doubled(pd.DataFrame({"x": [1.5]}))).__module__.partition(".")[0]
        'pandas'
    """

    @wraps(function)
    def convert_result(*args: P.args, **kwargs: P.kwargs) -> R:
        first = next(_iterate_frames((*args, *kwargs.values())), None)
        if first is None or isinstance(first, pl.DataFrame | pl.LazyFrame):
            return function(*args, **kwargs)
        # All arguments become polars frames, so that decorated functions called by this one return polars, too.
        converted = cast("Callable[..., R]", function)
        result = converted(
            *map(_convert_value_to_polars, args),
            **{name: _convert_value_to_polars(value) for name, value in kwargs.items()},
        )
        import narwhals as nw

        return _convert_result_frames(result, nw.get_native_namespace(cast("IntoDataFrame", first)))

    return convert_result


def is_frame(value: object) -> TypeGuard[Frame]:
    """Whether a value is a table of any kind; narwhals is imported only for values that are not polars frames."""
    if isinstance(value, pl.DataFrame | pl.LazyFrame):
        return True
    if value is None or isinstance(value, str | bytes | int | float | Mapping | list | tuple):
        return False
    from narwhals.dependencies import is_into_dataframe

    return is_into_dataframe(value)


def _iterate_frames(values: Iterable[object]) -> Iterator[object]:
    """The frames among arguments, and in mappings and sequences of frames."""
    for value in values:
        if is_frame(value):
            yield value
        elif isinstance(value, Mapping):
            yield from _iterate_frames(value.values())
        elif isinstance(value, list | tuple):
            yield from _iterate_frames(value)


def _convert_value_to_polars(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _convert_value_to_polars(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_convert_value_to_polars, value))
    return convert_to_polars(value) if is_frame(value) else value


def _convert_result_frames(result: T, kind: ModuleType) -> T:
    """A result with its frames converted to another kind; the annotation remains that for polars."""
    if isinstance(result, pl.DataFrame):
        import narwhals as nw

        return cast("T", nw.from_arrow(result, backend=kind).to_native())
    if isinstance(result, tuple):
        return cast("T", tuple(_convert_result_frames(value, kind) for value in result))
    if not is_dataclass(result) or isinstance(result, type):
        return result
    values = {one.name: getattr(result, one.name) for one in fields(result) if one.init}
    changed = {name: new for name, value in values.items() if (new := _convert_result_frames(value, kind)) is not value}
    return replace(result, **changed) if changed else result
