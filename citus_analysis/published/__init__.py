"""Published numbers, and the audit that finds contradictions in results.

- `published`, `read_published`: the transcribed tables, and tables of users;
- `audit`, `audit_runs`: contradictions in tables of results, and in runs of our own;
- `published_systems`: an overview of the published systems;
- `study_published`: a published table computed again.

docs/published.md lists the names of metrics and the checks, `data/published/README.md` the sources.

The package has the same name as its main function, so the package itself can be called.

Example:
    >>> import citus_analysis as ca
    >>> ca.published("postgres_xc", "1").equals(ca.published.published("postgres_xc", "1"))
    True
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    import polars as pl

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


class _Package(ModuleType):
    """This package, callable as :func:`published`."""

    def __call__(self, source: str | None = None, table: str | None = None) -> pl.DataFrame:
        from citus_analysis.published.tables import published

        return published(source, table)


sys.modules[__name__].__class__ = _Package
