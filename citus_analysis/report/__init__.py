"""Reports: notebooks executed on a dataset, exported to HTML and CSV, and their parts.

`citus-analysis report NAME|FILE.ipynb|all DIR --out OUT [-p key=value ...] [--no-html]` is one call of
:func:`render_reports`; `-p` values are passed as text and converted to the parameter's type.

The contents of the notebooks are available without them: `scaling_panels` (throughput, speedup, efficiency and models
along an axis, each with `plot` and `table`), `comparison_panels` (ratios of set-ups), `systems_by_workload`,
`hardware_by_size`, `monitoring_overhead`, `intensity_table`, and the sentences about them. Their names are imported
when they are first used: a command that only lists reports needs no figures.
"""

import lazy_loader

from citus_analysis.core.extras import name_missing_extras

_import_name, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    with name_missing_extras():
        return _import_name(name)
