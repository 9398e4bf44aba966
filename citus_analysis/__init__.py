"""Conversion of raw benchmark files to tables, traces, statistics and reports.

Example::

    import citus_analysis as ca

    ca.study("results.csv").compare(by="version")
    ca.ingest("recordings", "dataset")
    dataset = ca.open_dataset("dataset")
    dataset.runs()
    dataset.sql("SELECT resource, avg(throughput_ops_s) FROM runs GROUP BY resource")

The public names are those of ``__init__.pyi``. They are imported when they are first used, so that importing the
package is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

from citus_analysis.core.displays import draw_results_by, open_sources_by

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from citus_analysis.dataset import Dataset

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def _figure_of(result: object) -> Figure:
    from citus_analysis.explorer.result_figures import figure_of

    return figure_of(result)


def _open(source: object) -> Dataset:
    from citus_analysis.dataset.read_files import open_source

    return open_source(source)


draw_results_by(_figure_of)
open_sources_by(_open)
