"""Errors of a command: one clear line on stderr, and an exit code that distinguishes usage errors from defects."""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

import click

from citus_analysis.core.extras import explain_missing_package
from citus_analysis.errors import CitusAnalysisError, OutdatedDatasetWarning, UnreadFilesWarning
from citus_analysis.redaction import redact

INTERRUPTED: Final = 130
READER_LEFT: Final = 141
_UNUSABLE: Final = 3
_DEFECT: Final = 70
_ROOM_BYTES: Final = 2**20

#: Errors of the machine, which are not defects of this program.
_REFUSALS: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ELOOP}
    | {errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ENOMEM, errno.ESTALE}
)
_REPORT: Final = (
    "a defect of citus-analysis; please report the command, its output with --debug, and the output of doctor"
)


@contextmanager
def print_short_warnings() -> Iterator[None]:
    """Print warnings of the library in one line on stderr, and warnings of other packages as Python does."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, (OutdatedDatasetWarning, UnreadFilesWarning)):
                _print_message_line(str(message), "warning")
            else:
                others(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def explain(error: BaseException) -> int:
    """Print the error in one line on stderr.

    Returns:
        The exit code: 2 and 3 are errors of the user, 70 is a defect.
    """
    if isinstance(error, ModuleNotFoundError):
        error = explain_missing_package(error) or error
    match error:
        case KeyboardInterrupt() | click.Abort():
            return INTERRUPTED
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.format_message(), err=True)
            return error.exit_code
        case click.ClickException():
            context = getattr(error, "ctx", None)
            command = context.command_path if context else "citus-analysis"
            _print_message_line(f"{error.format_message()} (see {command} --help)")
            return error.exit_code
        case CitusAnalysisError():
            _print_message_line(str(error))
            return error.exit_code
        case OSError() if error.errno in _REFUSALS:
            reason = os.strerror(error.errno or 0)
            if error.filename is None:
                full = ", ".join(_list_full_file_systems()) if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
                hint = f"make room in {full}, or choose another place" if full else "--debug shows where"
                _print_message_line(f"a file cannot be read or written: {reason} ({hint})")
            else:
                hint = "make room, check permissions, or choose another place"
                _print_message_line(f"{os.fsdecode(error.filename)}: {reason} ({hint})")
            return _UNUSABLE
        case MemoryError():
            _print_message_line("not enough memory (close other programs, or work on fewer files at a time)")
            return _UNUSABLE
    _print_message_line(f"unexpected {type(error).__name__}: {error} ({_REPORT})")
    return _DEFECT


def _list_full_file_systems() -> list[str]:
    """Mount points without room for a file: an error of a write names none."""
    import psutil

    full = []
    for place in psutil.disk_partitions(all=True):
        with suppress(OSError):
            usage = psutil.disk_usage(place.mountpoint)
            if usage.total and usage.free < _ROOM_BYTES and "ro" not in place.opts.split(","):
                full.append(place.mountpoint)
    return full


def print_traceback(error: BaseException) -> None:
    """Print the traceback on stderr, redacted line by line, because causes quote files and environments."""
    lines = "".join(traceback.format_exception(error)).splitlines()
    click.echo("\n".join(map(redact, lines)), err=True)


def suppress_exit_errors() -> None:
    """After a closed pipe or a full disk, keep the interpreter from reporting the same error again at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_message_line(message: str, kind: str = "error") -> None:
    from citus_analysis.texts.words import make_printable

    click.echo(f"{kind}: {make_printable(redact(message))}", err=True)
