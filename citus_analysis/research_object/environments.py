"""The environment of a computation: versions of packages, Python and machine; no names of hosts or users."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

import psutil

_DISTRIBUTION: Final = "citus-analysis"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_GIB: Final = 2**30


def describe_environment() -> dict[str, object]:
    """Versions and machine, as plain values."""
    return {
        "python": platform.python_version(),
        "packages": list_installed_packages(),
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "cpus": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / _GIB, 1),
        },
    }


def list_installed_packages() -> dict[str, str]:
    """Package -> version, for this package and all that it requires."""
    found: dict[str, str] = {}
    waiting = [_DISTRIBUTION]
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:
            # It is for another platform.
            continue
        found[name] = package.version
        required = [text for text in package.requires or () if "extra ==" not in text]
        waiting += [match[0] for text in required if (match := _NAME.match(text))]
    return dict(sorted(found.items()))


def lock_text(packages: dict[str, str]) -> str:
    r"""Packages as a file of requirements for pip.

    Example:
        >>> lock_text({"numpy": "2.3.0"})
        'numpy==2.3.0\n'
    """
    return "".join(f"{name}=={version}\n" for name, version in packages.items())


def describe_differing_versions(stated: object, here: dict[str, str]) -> list[str]:
    """What differs between packages as a pack states them and those that are here, in words.

    Example:
        >>> describe_differing_versions({"numpy": "2.2.0"}, {"numpy": "2.3.0"})
        ['numpy 2.3.0 instead of 2.2.0']
    """
    packages = stated if isinstance(stated, dict) else {}
    return [
        f"{name} {here.get(name, 'missing')} instead of {version}"
        for name, version in packages.items()
        if here.get(name) != version
    ]
