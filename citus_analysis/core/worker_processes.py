"""Other processes of this machine, as an executor.

Parsers of small files and notebooks spend their time in the interpreter, which runs one thread at a time. The processes
are loky's: unlike those of :mod:`concurrent.futures`, they do not import the main module of a program again, so that a
script that calls `ingest` needs no guard.

A process ends with the one that started it, however that ends: the kernel kills it, so that it never writes to a
dataset which another ingest has locked meanwhile.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Thread
from typing import Final, TypeAlias

#: Environment of a process beside others that are busy: threads of polars would only wait.
ONE_THREAD: Final = {"POLARS_MAX_THREADS": "1"}
_PR_SET_PDEATHSIG: Final = 1


_Messages: TypeAlias = "Connection[object, object]"

#: In a started process, where its messages go.
_messages: _Messages | None = None


@contextmanager
def processes(
    number: int,
    *,
    prepare: Callable[[], None],
    environment: Mapping[str, str] = ONE_THREAD,
    heard: Callable[[object], None] | None = None,
) -> Iterator[Executor]:
    """An executor of functions of modules, whose arguments and results are pickled; what runs at the end is killed.

    The processes are started at once, and import what they need while the caller goes on.

    Args:
        number: number of processes.
        prepare: called in each process first; it imports what the functions need.
        environment: variables that are added to the environment of the processes.
        heard: called with each message (:func:`say`), in a thread.

    Example:
        >>> with processes(1, prepare=int) as executor:
        ...     executor.submit(divmod, 7, 2).result()
        (3, 1)
    """
    import loky

    incoming, outgoing = Pipe(duplex=False)
    executor = loky.ProcessPoolExecutor(
        number, initializer=_begin, initargs=(os.getpid(), outgoing, prepare), env=dict(environment)
    )
    listener = Thread(target=_listen, args=(incoming, heard or (lambda _: None)))
    listener.start()
    try:
        executor.submit(int)
        yield executor
    finally:
        executor.shutdown(kill_workers=True)
        # The processes had the only other ends of the pipe.
        outgoing.close()
        listener.join()
        incoming.close()


def say(message: object) -> None:
    """In a started process: send a short message to the process that started it.

    The system writes up to 4,096 bytes at once, so that messages of several processes do not mix.
    """
    if _messages is not None:
        _messages.send(message)


def _listen(messages: _Messages, heard: Callable[[object], None]) -> None:
    with suppress(EOFError):
        while True:
            heard(messages.recv())


def _begin(parent: int, messages: _Messages, prepare: Callable[[], None]) -> None:
    """Be killed when the parent ends; an interrupt from the keyboard is for the parent to handle."""
    global _messages
    _messages = messages
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    prepare()
