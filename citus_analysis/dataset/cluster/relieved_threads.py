"""Threads that work until another executor takes over what they have not begun.

The other executor is called when it is worth while: when what the threads have before them takes longer than so many
seconds, if each task that waits takes as long as the one that was just done.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from time import monotonic
from typing import ParamSpec, TypeVar

__all__ = ["RelievedThreads"]

_P = ParamSpec("_P")
_Result = TypeVar("_Result")


class RelievedThreads(Executor):
    """Takes tasks for threads of its own, and from :meth:`relieve` on for other workers.

    Args:
        number: of threads.
        call: asks for others, who come by :meth:`relieve`, or do not by :meth:`fail`; called once at most.
        worth_s: seconds of work before the threads from which on others are called.

    Example:
        >>> with RelievedThreads(1, print, worth_s=60) as threads, ThreadPoolExecutor(1) as others:
        ...     first = threads.submit(abs, -1)
        ...     threads.relieve(others)
        ...     first.result(), threads.submit(abs, -2).result()
        (1, 2)
    """

    def __init__(self, number: int, call: Callable[[], object], worth_s: float) -> None:
        self._number = number
        self._call = call
        self._worth_s = worth_s
        self._called = False
        self._threads = ThreadPoolExecutor(number, "meanwhile")
        self._waiting: dict[Future[object], Callable[[], object]] = {}
        self._others: Executor | None = None
        self._error: Exception | None = None
        self._lock = Lock()

    def submit(self, fn: Callable[_P, _Result], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_Result]:
        """Have it called by a thread that is free, or by the others."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._others is None:
                answer: Future[_Result] = Future()
                # A future of one result is none of any result to the type checker; here they only wait together.
                self._waiting[answer] = partial(fn, *args, **kwargs)  # type: ignore[index]
                self._threads.submit(self._work)
                return answer
        return self._others.submit(fn, *args, **kwargs)

    def relieve(self, others: Executor) -> None:
        """Hand over what no thread has begun, and whatever comes from now on."""
        with self._lock:
            self._others = others
            waiting = self._taken()
        for answer, call in waiting:
            others.submit(call).add_done_callback(partial(_pass_on, answer))

    def fail(self, error: Exception) -> None:
        """Answer what no thread has begun, and whatever comes from now on, with an error: there will be no others."""
        with self._lock:
            self._error = error
            waiting = self._taken()
        for answer, _ in waiting:
            answer.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads after the calls that they are in."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)

    def _taken(self, most: int | None = None) -> list[tuple[Future[object], Callable[[], object]]]:
        """The first tasks that nobody has begun and that were not cancelled, which nobody else then gets."""
        taken = [(answer, self._waiting.pop(answer)) for answer in list(self._waiting)[:most]]
        return [(answer, call) for answer, call in taken if answer.set_running_or_notify_cancel()]

    def _work(self) -> None:
        with self._lock:
            tasks = self._taken(1)
        for answer, call in tasks:
            began = monotonic()
            _settle(answer, call)
            if self._left_s(monotonic() - began) > self._worth_s:
                self.call_others()

    def _left_s(self, task_s: float) -> float:
        """Seconds until the threads, each of which takes one more task now, will have begun all others."""
        with self._lock:
            return (len(self._waiting) - self._number) * task_s / self._number

    def call_others(self) -> None:
        """Ask for others, unless that was done."""
        with self._lock:
            called, self._called = self._called, True
        if not called:
            self._call()


def _pass_on(answer: Future[object], done: Future[object]) -> None:
    _settle(answer, done.result)


def _settle(answer: Future[object], call: Callable[[], object]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:  # noqa: BLE001 - it is for whoever asks for the result
        answer.set_exception(error)
