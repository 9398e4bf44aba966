"""Explore a dataset in a notebook: from the heat map of a run to one line of a raw log.

Names are imported on first use, so that a program that only computes a selection does not need the widget.

Example:
    >>> from citus_analysis.explorer import StatementSelection
    >>> print(StatementSelection(node="0", slowest_us=1000.0).sql())
    SELECT * FROM (SELECT *, coalesce(run_id, resource) AS run,
        epoch_us(end_time) - min(epoch_us(end_time)) OVER (PARTITION BY run) AS elapsed_us
      FROM statements WHERE total_us IS NOT NULL)
    WHERE node = '0' AND total_us < 1000.0
    ORDER BY total_us DESC, trace_id
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
