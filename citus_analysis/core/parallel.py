"""Iterators whose items are computed by threads and returned in order."""

from __future__ import annotations

import ctypes
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Thread
from typing import Final, TypeAlias, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def count_usable_cpus() -> int:
    """The CPUs that this process may use; where the system does not say (macOS), those of the machine.

    Example:
        >>> count_usable_cpus() >= 1
        True
    """
    # The type checker sees one system, and one branch of this there.
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def prefetch_in_thread(pieces: Iterator[Piece], name: str, ahead: int = 1) -> Generator[Piece, None, None]:
    """The same items in the same order; while one is used, a separate thread computes the next.

    Exceptions are raised in order, at the failing item. Closing the iterator early waits for the item in progress.

    Args:
        pieces: computes the items.
        name: name of the thread.
        ahead: largest number of items that are computed in advance; 0: no thread is started.

    Example:
        >>> list(prefetch_in_thread((number * number for number in range(4)), "squares"))
        [0, 1, 4, 9]
    """
    if not ahead:
        yield from pieces
        return

    def make() -> list[Piece]:
        return list(islice(pieces, 1))

    maker = ThreadPoolExecutor(1, thread_name_prefix=name)
    try:
        following = deque(maker.submit(make) for _ in range(ahead))
        while made := following.popleft().result():
            following.append(maker.submit(make))
            # From here on, only the caller refers to the item.
            yield made.pop()
    finally:
        maker.shutdown(cancel_futures=True)
        _close(pieces)


def map_in_order(
    pieces: Iterator[Piece], work: Callable[[Piece], Result], jobs: int, name: str
) -> Generator[Result, None, None]:
    """Results of `work` for each item, computed by up to `jobs` threads; with one job, no thread is started.

    A separate thread computes the items; at most `jobs` items are in progress or waiting at a time.

    Args:
        pieces: computes the items.
        work: function applied to each item; its exceptions are raised in order, at the failing item.
        jobs: number of working threads.
        name: name of the threads.

    Example:
        >>> list(map_in_order(iter(range(4)), lambda number: number * number, 2, "squares"))
        [0, 1, 4, 9]
    """
    if jobs <= 1:
        yield from map(work, pieces)
        return
    workers = ThreadPoolExecutor(jobs, thread_name_prefix=name)

    def begin(piece: Piece) -> Future[Result]:
        return workers.submit(work, piece)

    try:
        with closing(prefetch_in_thread(map(begin, pieces), f"{name}-made", jobs - 1)) as working:
            yield from map(Future.result, working)
    finally:
        workers.shutdown(cancel_futures=True)
        _close(pieces)


def _close(pieces: Iterator[Piece]) -> None:
    if isinstance(pieces, Generator):
        pieces.close()


# Other processes of this machine, as an executor.
#
# Parsers of small files and notebooks spend their time in the interpreter, which runs one thread at a time. The
# processes are loky's: unlike those of :mod:`concurrent.futures`, they do not import the main module of a program
# again, so that a script that calls `ingest` needs no guard.
#
# A process ends with the one that started it, however that ends: the kernel kills it, so that it never writes to a
# dataset which another ingest has locked meanwhile.

#: Environment of a process beside others that are busy: threads of polars would only wait.
ONE_THREAD: Final = {"POLARS_MAX_THREADS": "1"}
#: loky starts processes anew that have grown by 300 MB, with a warning. These end soon, and large files are no leak.
_NO_RESTARTS: Final = {"LOKY_MAX_MEMORY_LEAK_SIZE": "1e15"}
_PR_SET_PDEATHSIG: Final = 1


_Messages: TypeAlias = "Connection[object, object]"

#: In a started process, where its messages go.
_messages: _Messages | None = None


@contextmanager
def start_worker_processes(
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
        heard: called with each message (:func:`send_to_parent`), in a thread.

    Example:
        >>> with start_worker_processes(1, prepare=int) as executor:
        ...     executor.submit(divmod, 7, 2).result()
        (3, 1)
    """
    import loky

    incoming, outgoing = Pipe(duplex=False)
    executor = loky.ProcessPoolExecutor(
        number, initializer=_begin, initargs=(os.getpid(), outgoing, prepare), env={**_NO_RESTARTS, **environment}
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


def send_to_parent(message: object) -> None:
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
