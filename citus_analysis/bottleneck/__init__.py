"""Which resource limits a system: pure functions over the sample and profile tables.

- how many connections fit a node: `advise_connections` (a `ConnectionAdvice`);
- what limits a configuration: `study_bottleneck` (a `BottleneckStudy` by `Thresholds`);
- all tables of the report on resources: `study_resources`; functions by their share of CPU time: `mean_symbols`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
