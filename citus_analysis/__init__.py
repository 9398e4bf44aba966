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

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
