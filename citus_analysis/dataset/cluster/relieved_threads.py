"""Threads that work until another executor takes over the tasks that are not started.

The other executor is requested if the remaining work is worth it: if the waiting tasks would take the threads longer
than a number of seconds, assuming that each takes as long as the task that has just ended.
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
    """Runs tasks in threads of its own and, after :meth:`relieve`, in another executor.

    Args:
        number: number of threads.
        call: requests the other executor; :meth:`relieve` or :meth:`fail` answers the request. Called at most once.
        worth_s: remaining work, in seconds, from which the other executor is requested.

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
        """Run a function in a free thread or in the other executor."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._others is None:
                answer: Future[_Result] = Future()
                # To the type checker, a future of one type is not a future of `object`; the futures only wait here.
                self._waiting[answer] = partial(fn, *args, **kwargs)  # type: ignore[index]
                self._threads.submit(self._work)
                return answer
        return self._others.submit(fn, *args, **kwargs)

    def relieve(self, others: Executor) -> None:
        """Pass tasks that are not started, and all later ones, to another executor.

        If it does not accept a task, whoever waits for the task gets its error.
        """
        with self._lock:
            self._others = others
            waiting = self._taken()
        for answer, call in waiting:
            try:
                passed = others.submit(call)
            except Exception as error:  # noqa: BLE001 - the caller of result() raises it
                answer.set_exception(error)
            else:
                passed.add_done_callback(partial(_pass_on, answer))

    def fail(self, error: Exception) -> None:
        """Raise an error for tasks that are not started, and for all later ones: there is no other executor."""
        with self._lock:
            self._error = error
            waiting = self._taken()
        for answer, _ in waiting:
            answer.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads after their current tasks."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)

    def _taken(self, most: int | None = None) -> list[tuple[Future[object], Callable[[], object]]]:
        """Take the first waiting tasks off the list, without those that were cancelled."""
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
        """Seconds until all waiting tasks are started, if each thread takes one of them now."""
        with self._lock:
            return (len(self._waiting) - self._number) * task_s / self._number

    def call_others(self) -> None:
        """Request the other executor, unless it was requested before."""
        with self._lock:
            called, self._called = self._called, True
        if not called:
            self._call()


def _pass_on(answer: Future[object], done: Future[object]) -> None:
    _settle(answer, done.result)


def _settle(answer: Future[object], call: Callable[[], object]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:  # noqa: BLE001 - the caller of result() raises it
        answer.set_exception(error)
