"""Which resource limits a system: pure functions over the sample and profile tables.

- what limits a configuration: `study_bottleneck` (a `BottleneckStudy` by `Thresholds`), also as
  `citus_analysis.bottleneck(dataset)`;
- all tables of the report on resources: `study_resources`; functions by their share of CPU time: `mean_symbols`.
"""

import sys
from collections.abc import Mapping
from types import ModuleType

from citus_analysis.bottleneck.measured_resources import study_resources
from citus_analysis.bottleneck.profiles import mean_symbols
from citus_analysis.bottleneck.study import BottleneckStudy, study_bottleneck
from citus_analysis.bottleneck.thresholds import Thresholds
from citus_analysis.core.frames import TableSource
from citus_analysis.defaults import LEVEL
from citus_analysis.public_names import public

__all__ = ["BottleneckStudy", "Thresholds", "mean_symbols", "study_bottleneck", "study_resources"]

__dir__, __getattr__ = public(__name__, __all__)


class _Callable(ModuleType):
    """Makes the package callable, as `citus_analysis.bottleneck(dataset)`."""

    def __call__(
        self,
        dataset: TableSource,
        resources: str = "*",
        *,
        thresholds: Thresholds | Mapping[str, float] | None = None,
        level: float = LEVEL,
    ) -> BottleneckStudy:
        """:func:`study_bottleneck` of a dataset."""
        return study_bottleneck(dataset, resources, thresholds=thresholds, level=level)


sys.modules[__name__].__class__ = _Callable
