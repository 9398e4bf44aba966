"""Results that a notebook shows in a later cell, computed in a second process while earlier cells are executed.

A report that is made alone keeps one core busy; where there are more, and its notebook begins such results, its process
has a second one beside it (`alone.py`). In JupyterLab, and where several reports are made at once, there is none, and a
result is computed when the notebook asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Generic, ParamSpec, TypeVar

from citus_analysis.dataset.ingesting.workers.helper_process import Helper, NoAnswerError

__all__ = ["Meanwhile", "computed", "meanwhile", "use"]

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

#: The second process, with the thread that waits for its answers; empty if there is none.
_second: Final[list[tuple[Helper, ThreadPoolExecutor]]] = []


class Meanwhile(Generic[_Result]):
    """A result that may be computed already when it is asked for."""

    def __init__(self, compute: Callable[[], _Result], begun: Future[_Result] | None) -> None:
        self._compute, self._begun = compute, begun

    def result(self) -> _Result:
        """The result; an exception of its function is raised here."""
        if self._begun is None or self._begun.cancel():
            return self._compute()
        try:
            return self._begun.result()
        except NoAnswerError:
            # Raises the exception of the function itself, if there was one.
            return self._compute()


def meanwhile(
    function: Callable[_Arguments, _Result], *arguments: _Arguments.args, **options: _Arguments.kwargs
) -> Meanwhile[_Result]:
    """Begin to compute a result that is needed later.

    Args:
        function: a function of a module, whose result depends on its arguments alone.
        arguments: its arguments, which can be pickled.
        options: its arguments by name.

    Example:
        >>> later = meanwhile(divmod, 7, 2)
        >>> later.result()
        (3, 1)
    """

    def compute() -> _Result:
        return function(*arguments, **options)

    if not _second:
        return Meanwhile(compute, None)
    helper, waiting = _second[0]
    return Meanwhile(compute, waiting.submit(helper.call, computed, function, arguments, options))


def computed(function: Callable[..., _Result], arguments: tuple[object, ...], options: dict[str, object]) -> _Result:
    """In the second process: the result of a function."""
    return function(*arguments, **options)


def use(helper: Helper) -> None:
    """From now on, compute results in this process."""
    _second[:] = [(helper, ThreadPoolExecutor(1))]
