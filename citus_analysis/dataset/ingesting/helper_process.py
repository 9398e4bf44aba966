"""A process that reads small sources and computes small derived tables beside this one.

Parsers of small files spend their time in the interpreter, which runs one thread at a time. A helper is a new Python
process that imports the library and answers calls: a function of a module with its arguments in, its result out, both
pickled. It is started directly and not by :mod:`multiprocessing`, which would import the caller's main module again: a
script that calls `ingest` without a guard would start itself.

A helper ends with the process that started it, however that ends: the kernel kills it, so that it never writes to a
dataset which another ingest has locked meanwhile.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar, cast

__all__ = ["Helper", "NoAnswerError", "serve"]

_Result = TypeVar("_Result")
_PR_SET_PDEATHSIG: Final = 1
#: The paths are handed over first, because formats of other packages may stand on paths that a program added.
_PROGRAM: Final = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from citus_analysis.dataset.ingesting.helper_process import serve; serve()"
)


class NoAnswerError(Exception):
    """The helper did not answer: the call failed there, cannot be handed over, or the process ended.

    The caller does the work itself then, which shows the reason where there is one.
    """


class Helper:
    """A process that answers one call at a time.

    Raises:
        NoAnswerError: no further process can be started.

    Example:
        >>> helper = Helper()
        >>> helper.call(divmod, 7, 2)
        (3, 1)
        >>> helper.end()
    """

    def __init__(self) -> None:
        if not sys.executable or getattr(sys, "frozen", False):
            raise NoAnswerError
        command = [sys.executable, "-P", "-W", "ignore", "-c", _PROGRAM]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
        except OSError as error:
            raise NoAnswerError from error
        self._requests, self._replies = self._process.stdin, self._process.stdout
        self._send(pickle.dumps(sys.path) + pickle.dumps(os.getpid()))

    def call(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """The result of a function of a module.

        Raises:
            NoAnswerError: there is none.
        """
        try:
            self._send(pickle.dumps((function, arguments)))
            assert self._replies is not None  # noqa: S101 - it was asked for
            answered, result = pickle.load(self._replies)  # noqa: S301 - written by our own process
        except (OSError, EOFError, ValueError, TypeError, AttributeError, pickle.PickleError) as error:
            raise NoAnswerError from error
        if not answered:
            raise NoAnswerError
        return cast(_Result, result)

    def end(self) -> None:
        """End the process, also in the middle of a call."""
        self._process.kill()
        for stream in (self._requests, self._replies):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._process.wait()

    def _send(self, data: bytes) -> None:
        assert self._requests is not None  # noqa: S101 - it was asked for
        with suppress(BrokenPipeError):
            self._requests.write(data)
            self._requests.flush()


def serve() -> None:
    """Answer calls until the other side closes its end."""
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # What a format of another package prints must not get between the replies.
    os.dup2(2, 1)
    _end_with(pickle.load(requests))  # noqa: S301 - written by the process that started this one
    _import_ahead()
    while True:
        try:
            function, arguments = pickle.load(requests)  # noqa: S301 - as above
        except EOFError:
            return
        pickle.dump(_answer(function, arguments), replies)
        replies.flush()


def _answer(function: Callable[..., object], arguments: tuple[object, ...]) -> tuple[bool, object]:
    try:
        return True, function(*arguments)
    except Exception:  # noqa: BLE001 - the caller repeats the call, and gets the exception itself
        return False, None


def _end_with(parent: int) -> None:
    """Be killed when the parent ends; an interrupt from the keyboard is for the parent to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _import_ahead() -> None:
    """Import what the first calls need while the other process still looks for files."""
    import pyarrow.parquet  # noqa: F401

    import citus_analysis.dataset.ingesting.derive
    import citus_analysis.formats

    citus_analysis.formats.formats()
