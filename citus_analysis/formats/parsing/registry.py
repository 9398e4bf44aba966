"""Registry of formats, detection of a file's format, and the declarations of all formats.

Formats of this package are the instances `FORMAT` of the modules beside `parsing` and `deliveries`; other packages
register theirs in the entry point group :data:`GROUP`. No list has to be edited for a new format.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Final, TypeVar

from citus_analysis.errors import UnknownNameError, UsageError
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.format import Format, Option
from citus_analysis.schema import TABLES

#: Entry points of this group name instances of :class:`Format`.
GROUP: Final = "citus_analysis.formats"
#: Packages beside the formats that are not formats.
_NO_FORMATS: Final = frozenset({"deliveries", "parsing"})
_CERTAIN: Final = 1.0
#: Texts below this confidence are ignored rather than misread.
SURE_ENOUGH: Final = 0.5
_Declared = TypeVar("_Declared")


@cache
def formats() -> dict[str, Format]:
    """Name -> format: those of this package in order of their names, then those of installed packages (entry points).

    Raises:
        UsageError: two formats declare the same name differently, or a measure is not a column.
    """
    # This import takes as long as those of all formats, and format_named() does without it for this package's formats.
    from importlib.metadata import entry_points

    found = dict(_load_built_in_formats())
    for point in entry_points(group=GROUP):
        added: Format = point.load()
        found.setdefault(added.name, added)
    for one in found.values():
        _check_measures(one)
    _merge_declarations(found.values(), _map_format_options, "option")
    _merge_declarations(found.values(), lambda one: one.measures, "measure")
    return found


@cache
def _load_built_in_formats() -> Mapping[str, Format]:
    loaded = map(_load_built_in_format, _map_module_names().values())
    return MappingProxyType({one.name: one for one in sorted(loaded, key=lambda one: one.name)})


def is_built_in(name: str) -> bool:
    """Whether the format of that name is one of this package.

    Example:
        >>> is_built_in("pglog"), is_built_in("nothing")
        (True, False)
    """
    return name in _load_built_in_formats()


def format_named(name: str) -> Format:
    """The format of that name.

    Raises:
        UnknownNameError: no format has that name.
    """
    # Most modules have the name of their format; then the others need not be imported.
    if name in _map_module_names():
        found = _load_built_in_format(_map_module_names()[name])
        if found.name == name:
            return found
    known = formats()
    if name not in known:
        raise UnknownNameError("format", name, known)
    return known[name]


def get_parser_version(name: str) -> int | None:
    """The version of the format of that name; None if no format has it.

    Example:
        >>> get_parser_version("pglog") == format_named("pglog").version, get_parser_version("nothing")
        (True, None)
    """
    try:
        return format_named(name).version
    except UnknownNameError:
        return None


@cache
def format_versions() -> tuple[tuple[str, int], ...]:
    """Name and version of each format, in the order of :func:`formats`.

    Example:
        >>> dict(format_versions())["pglog"] == format_named("pglog").version
        True
    """
    return tuple((name, found.version) for name, found in formats().items())


@cache
def _map_module_names() -> Mapping[str, str]:
    """Name of each module that defines a format -> its full name."""
    names = {module.name for module in pkgutil.iter_modules(import_module(GROUP).__path__)} - _NO_FORMATS
    return MappingProxyType({name: f"{GROUP}.{name}" for name in sorted(names)})


def _load_built_in_format(module: str) -> Format:
    found: Format = import_module(module).FORMAT
    return found


def find_best_format(name: str, head: bytes) -> tuple[Format | None, float]:
    """The format with the highest confidence, and its confidence; None if no format is confident enough.

    Ties go to the first in the order of :func:`formats`.

    Args:
        name: file name without folders.
        head: the first bytes of the text.

    Example:
        >>> find_best_format("x.log", b"no tool wrote this")
        (None, 0.0)
    """
    best, confidence = _find_closest(name, head, format_versions())
    return (best, confidence) if confidence >= SURE_ENOUGH else (None, confidence)


def find_closest_format(name: str, head: bytes) -> Format | None:
    """The format with the highest confidence, however low; None if every one is sure that the text is not its own.

    Example:
        >>> find_closest_format("x.log", b"no tool wrote this") is None
        True
    """
    return _find_closest(name, head, format_versions())[0]


# The beginning of a file is looked at to recognise it, to divide it, and to say why it is not recognised.
@lru_cache(maxsize=4)
def _find_closest(name: str, head: bytes, _: tuple[tuple[str, int], ...]) -> tuple[Format | None, float]:
    confidence, best = 0.0, None
    for candidate in formats().values():
        if (found := candidate.detect(name, head)) > confidence:
            confidence, best = found, candidate
        if confidence >= _CERTAIN:
            # No later one can be more confident.
            break
    return best, confidence


def detect_format(content: Content) -> Format | None:
    """The format of a file that holds a tool's text as it is; None if no format is confident enough."""
    return find_best_format(content.path.name, content.head)[0]


def collect_known_options() -> Mapping[str, Option]:
    """Name -> option, of all formats.

    Example:
        >>> collect_known_options()["date_order"].choices[0]
        ('mdy', 'month first')
    """
    return MappingProxyType(_merge_declarations(formats().values(), _map_format_options, "option"))


def collect_summary_measures() -> Mapping[str, str]:
    """Name in a load generator's summary -> column of `operation_latencies`, of all formats.

    Example:
        >>> collect_summary_measures()["99thPercentileLatency"]
        'p99_us'
    """
    return MappingProxyType(_merge_declarations(formats().values(), lambda one: one.measures, "measure"))


def _check_measures(one: Format) -> None:
    unknown = set(one.measures.values()) - set(TABLES["operation_latencies"].names())
    if unknown:
        raise UsageError(
            f"the format {one.name} declares measures that are not columns of operation_latencies: "
            f"{', '.join(sorted(unknown))}",
            hint="see docs/tables.md for the columns",
        )


def _map_format_options(one: Format) -> Mapping[str, Option]:
    return {option.name: option for option in one.options}


def _merge_declarations(
    declaring: Iterable[Format], declared: Callable[[Format], Mapping[str, _Declared]], kind: str
) -> dict[str, _Declared]:
    """Declarations of the formats, by name.

    Raises:
        UsageError: two formats declare a name differently.
    """
    agreed: dict[str, tuple[_Declared, str]] = {}
    for one in declaring:
        for name, meant in declared(one).items():
            first, owner = agreed.setdefault(name, (meant, one.name))
            if first != meant:
                raise UsageError(
                    f"the formats {owner} and {one.name} declare the {kind} {name!r} differently",
                    hint=f"rename the {kind} of {one.name}, or uninstall its package",
                )
    return {name: meant for name, (meant, _) in agreed.items()}
