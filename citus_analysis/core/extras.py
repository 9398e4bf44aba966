"""Optional packages, which only some commands need."""

from __future__ import annotations

from importlib.util import find_spec

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
        raise UsageError(problem, way_out=f"pip install 'citus-analysis[{extra}]'")
