"""Exceptions that callers of the library may catch, and the exit code each one means.

The tree::

    CitusAnalysisError            1   done, but something was rejected or a check failed
    ├── UsageError                2   wrong usage: an invalid parameter, name or combination
    │   └── UnknownNameError      2   no such table, report, parameter, metric ...
    ├── InputError                3   an input file or dataset cannot be used at all
    │   ├── FormatError           3   the bytes are not in the format they were read as
    │   ├── DatasetError          3   not a dataset, or one written by an incompatible version
    │   └── PublishedDataError    3   a table of published numbers is malformed
    ├── CompiledCodeError         3   what was compiled at installation is missing or of another version
    ├── InsufficientDataError     1   the data do not support the requested statistic
    ├── ReportError               1   a notebook failed while it was executed
    │   └── NothingToReportError  1   the dataset has no data for the report
    └── RunnerError               1   an experiment could not be launched, resumed or verified
        ├── EnvironmentChangedError 1 the environment differs from the one the experiment began in
        └── NotReadyError         3   the cluster, this machine or a program does not meet the experiment's needs

Two warnings are issued with :mod:`warnings`: :class:`OutdatedDatasetWarning` and :class:`UnreadFilesWarning`. Results
carry their own in `warnings`.

Every message is one line that names the file, the place in it if known, and the way out. Secrets in quoted text are
redacted.

Example:
    >>> from citus_analysis.errors import InputError
    >>> str(InputError("not a YCSB log", path="a.log", place="line 3", hint="pass --format"))
    'a.log: line 3: not a YCSB log (pass --format)'
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from itertools import takewhile
from os import PathLike, fspath
from pathlib import Path
from traceback import extract_tb, format_list
from typing import ClassVar, Final

from citus_analysis.redaction import redact, redact_path

__all__ = [
    "CitusAnalysisError",
    "CompiledCodeError",
    "DatasetError",
    "EnvironmentChangedError",
    "FormatError",
    "InputError",
    "InsufficientDataError",
    "NotReadyError",
    "NothingToReportError",
    "OutdatedDatasetWarning",
    "PublishedDataError",
    "ReportError",
    "RunnerError",
    "UnknownNameError",
    "UnreadFilesWarning",
    "UsageError",
]

#: A message names at most this many of the known names; further ones would hide the first.
_LISTED: Final = 12


class CitusAnalysisError(Exception):
    """Base of all errors of this library.

    Args:
        problem: what is wrong, in words a user understands.
        path: the file concerned, if any.
        place: place in the file (``line 3``, ``byte 120``, ``field 'threads'``).
        hint: what the user can do about it.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        problem: str,
        *,
        path: str | PathLike[str] | None = None,
        place: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.problem = redact(problem)
        self.path = None if path is None else redact_path(fspath(path))
        self.place = None if place is None else redact(place)
        self.hint = None if hint is None else redact(hint)
        message = ": ".join(part for part in (self.path, self.place, self.problem) if part)
        super().__init__(f"{message} ({self.hint})" if self.hint else message)

    def _render_traceback_(self) -> list[str]:
        """The traceback in a notebook: the lines of the caller, without those of this library."""
        ours = str(Path(__file__).parent)
        frames = list(takewhile(lambda one: not one.filename.startswith(ours), extract_tb(self.__traceback__)))
        callers = [one for one in frames if "IPython" not in Path(one.filename).parts]
        return [
            "Traceback (most recent call last):",
            *(line.rstrip("\n") for line in format_list(callers)),
            f"{type(self).__name__}: {self}",
        ]

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled with its parts: an error in another process is the same one here."""
        return _restore_error, (type(self), self.args, self.__dict__)


def _restore_error(
    kind: type[CitusAnalysisError], args: tuple[object, ...], parts: dict[str, object]
) -> CitusAnalysisError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(parts)
    return error


class UsageError(CitusAnalysisError):
    """The call is wrong: a parameter, a type or a combination is invalid."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A name is unknown; the message shows the closest known name and the first of the known names.

    Example:
        >>> str(UnknownNameError("report", "profil", ["profile", "resources"]))
        "no report is named 'profil' (did you mean 'profile'? known: profile, resources)"
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        close = _find_closest_name(name, names)
        hint = f"did you mean {close!r}? " if close else ""
        quoted = list(map(repr, names)) if any("," in other for other in names) else names
        super().__init__(f"no {kind} is named {name!r}", hint=f"{hint}known: {join_first_names(quoted) or 'none'}")


def require_known(kind: str, name: str, known: Collection[str]) -> None:
    """Raise `UnknownNameError` unless the name is one of the known.

    Example:
        >>> require_known("report", "profile", ["profile", "resources"])
    """
    if name not in known:
        raise UnknownNameError(kind, name, known)


def join_first_names(names: Sequence[str], most: int = _LISTED) -> str:
    """The first names of a list, and how many more there are.

    Example:
        >>> join_first_names(["a", "b"]), join_first_names([str(number) for number in range(40)])[-24:]
        ('a, b', '8, 9, 10, 11 and 28 more')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _find_closest_name(name: str, names: Sequence[str]) -> str | None:
    """The known name that is spelt similarly, contains the input, or begins with a similarly spelt word."""
    within = [other for other in names if name and name.casefold() in other.casefold()]
    beginnings = {other.split(",")[0]: other for other in reversed(names)}
    alike = [beginnings[word] for word in get_close_matches(name, beginnings, n=1)]
    return next(iter(get_close_matches(name, names, n=1) or within or alike), None)


class CompiledCodeError(CitusAnalysisError):
    """What was compiled when the package was installed is missing, or belongs to another version."""

    exit_code = 3


class InputError(CitusAnalysisError):
    """An input cannot be used at all."""

    exit_code = 3


class FormatError(InputError):
    """The bytes of a file are not in the format they were read as."""


class DatasetError(InputError):
    """A directory is not a dataset of this library, or a dataset of an incompatible version."""


class PublishedDataError(InputError):
    """A table of published numbers lacks a column or contains a value that is not a number."""


class InsufficientDataError(CitusAnalysisError):
    """The data do not support the requested statistic."""


class ReportError(CitusAnalysisError):
    """A report's notebook failed while it was executed."""


class NothingToReportError(ReportError):
    """The dataset has no data for a report (no samples, no sampled statements ...)."""


class RunnerError(CitusAnalysisError):
    """An experiment could not be launched, resumed or verified."""


class EnvironmentChangedError(RunnerError):
    """Versions, settings or hardware differ from those at the beginning of the experiment."""


class NotReadyError(RunnerError):
    """A prerequisite of an experiment is missing; nothing was changed yet."""

    exit_code = 3


class OutdatedDatasetWarning(UserWarning):
    """Tables of a dataset differ from those that this version would make of its sources; issued when it is opened."""


class UnreadFilesWarning(UserWarning):
    """Something of the files that a call names could not be read; issued once for each call that reads them."""
