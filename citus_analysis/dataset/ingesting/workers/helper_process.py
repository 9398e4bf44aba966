"""A process that reads small sources, computes small derived tables or makes reports beside this one.

Parsers of small files and notebooks spend their time in the interpreter, which runs one thread at a time. A helper is a
new Python process that imports the library and answers calls: a function of a module with its arguments in, its result
out, both pickled. It is started directly and not by :mod:`multiprocessing`, which would import the caller's main module
again: a script that calls `ingest` without a guard would start itself.

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
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from select import select
from typing import IO, Final, TypeVar, cast

__all__ = ["ONE_THREAD", "Helper", "NoAnswerError", "say", "serve"]

#: For a helper beside others that are busy: threads of polars would only wait.
ONE_THREAD: Final = {"POLARS_MAX_THREADS": "1"}
#: For a helper that works on small items, one at a time. Freed memory is kept for the next item (a setting of jemalloc,
#: which polars uses): the system would clear it again.
_SMALL_ITEMS: Final = ONE_THREAD | {"_RJEM_MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1"}

_Result = TypeVar("_Result")
_PR_SET_PDEATHSIG: Final = 1
#: The paths are handed over first, because formats of other packages may be on paths that a program added.
_PROGRAM: Final = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from citus_analysis.dataset.ingesting.workers.helper_process import serve; serve()"
)
#: Kinds of reply: a message before the result, the result, or none.
_SAID, _RESULT, _NOTHING = "said", "result", "nothing"
#: The first reply: calls begin at once from here on.
_READY: Final = "ready"
#: In a helper, where its replies go.
_replies: IO[bytes] | None = None


class NoAnswerError(Exception):
    """The helper did not answer: the call failed there, cannot be handed over, or the process ended.

    The caller does the work itself then, which shows the reason where there is one.
    """


class Helper:
    """A process that answers one call at a time.

    Args:
        ahead: a module that is imported, and whose `prepare()` is called, before the first call arrives.
        environment: variables that are added to the environment of the process.

    Raises:
        NoAnswerError: no further process can be started.

    Example:
        >>> helper = Helper()
        >>> helper.call(divmod, 7, 2)
        (3, 1)
        >>> helper.end()
    """

    def __init__(
        self,
        ahead: str = "citus_analysis.dataset.ingesting.workers.first_imports",
        environment: Mapping[str, str] = _SMALL_ITEMS,
    ) -> None:
        if not sys.executable or getattr(sys, "frozen", False):
            raise NoAnswerError
        command = [sys.executable, "-P", "-W", "ignore", "-c", _PROGRAM]
        try:
            self._process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | environment
            )
        except OSError as error:
            raise NoAnswerError from error
        self._requests, self._replies = self._process.stdin, self._process.stdout
        self._is_ready = False
        self._send(pickle.dumps(sys.path) + pickle.dumps((os.getpid(), ahead)))

    def is_ready(self) -> bool:
        """Whether the process has done its imports, so that a call begins at once, or has ended."""
        if not self._is_ready and self._replies is not None:
            self._is_ready = bool(select([self._replies], [], [], 0)[0])
        return self._is_ready

    def call(
        self, function: Callable[..., _Result], *arguments: object, heard: Callable[[object], None] | None = None
    ) -> _Result:
        """The result of a function of a module; its messages (:func:`say`) meanwhile go to `heard`.

        Raises:
            NoAnswerError: there is none.
        """
        try:
            self._send(pickle.dumps((function, arguments)))
            while (reply := self._reply())[0] in {_READY, _SAID}:
                self._is_ready = True
                if heard is not None and reply[0] == _SAID:
                    heard(reply[1])
        except (OSError, EOFError, ValueError, TypeError, AttributeError, pickle.PickleError) as error:
            raise NoAnswerError from error
        if reply[0] == _NOTHING:
            raise NoAnswerError
        return cast(_Result, reply[1])

    def end(self) -> None:
        """End the process, also in the middle of a call."""
        self._process.kill()
        for stream in (self._requests, self._replies):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._process.wait()

    def _reply(self) -> tuple[str, object]:
        assert self._replies is not None  # noqa: S101 - it was asked for
        return cast(tuple[str, object], pickle.load(self._replies))  # noqa: S301 - written by our own process

    def _send(self, data: bytes) -> None:
        assert self._requests is not None  # noqa: S101 - it was asked for
        with suppress(BrokenPipeError):
            self._requests.write(data)
            self._requests.flush()


def serve() -> None:
    """Answer calls until the other side closes its end."""
    global _replies
    requests, _replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Output that a format of another package prints must not get between the replies.
    os.dup2(2, 1)
    parent, ahead = pickle.load(requests)  # noqa: S301 - written by the process that started this one
    _end_with(parent)
    import_module(ahead).prepare()
    _answer(_READY, None)
    while True:
        try:
            function, arguments = pickle.load(requests)  # noqa: S301 - as above
        except EOFError:
            return
        _answer(*_outcome(function, arguments))


def say(message: object) -> None:
    """In a helper: send a message to the calling process before the result is there."""
    _answer(_SAID, message)


def _answer(kind: str, value: object) -> None:
    if _replies is not None:
        pickle.dump((kind, value), _replies)
        _replies.flush()


def _outcome(function: Callable[..., object], arguments: tuple[object, ...]) -> tuple[str, object]:
    try:
        return _RESULT, function(*arguments)
    except Exception:  # noqa: BLE001 - the caller repeats the call, and gets the exception itself
        return _NOTHING, None


def _end_with(parent: int) -> None:
    """Be killed when the parent ends; an interrupt from the keyboard is for the parent to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
