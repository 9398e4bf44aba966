"""Optional parts: packages that only some commands need."""

from __future__ import annotations

from importlib.util import find_spec

from citus_analysis.errors import UsageError

__all__ = ["required"]


def required(module: str, extra: str, purpose: str) -> None:
    """Refuse in one line, with the command that installs it, where a package of an extra is missing.

    Args:
        module: name of the package's module.
        extra: name of the extra that brings it.
        purpose: what needs it, as in `NAME needs the package ...`.

    Raises:
        UsageError: it is not installed.

    Example:
        >>> required("no_such_module", "cluster", "--cluster")
        Traceback (most recent call last):
        citus_analysis.errors.UsageError: --cluster needs the package no_such_module, which is not installed \
(pip install 'citus-analysis[cluster]')
    """
    if find_spec(module) is None:
        problem = f"{purpose} needs the package {module}, which is not installed"
        raise UsageError(problem, way_out=f"pip install 'citus-analysis[{extra}]'")
