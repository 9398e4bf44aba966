"""Metrics over many datasets in time: change points of their level, and other changes at the same time.

`track` returns a `Track`, with one `TrackedSeries` per metric and configuration and a `TrackedChange` per change point;
`format_track` renders it as text.
"""

from citus_analysis.public_names import public
from citus_analysis.tracking.track_results import Track
from citus_analysis.tracking.tracked_datasets import track

__all__ = ["Track", "track"]

__dir__, __getattr__ = public(__name__, __all__)
