"""Metrics over many datasets in time: change points of their level, and other changes at the same time.

`track` returns a `Track`, with one `TrackedSeries` per metric and configuration and a `TrackedChange` per change point;
`format_track` renders it as text.
"""

from citus_analysis.core.displays import public
from citus_analysis.tracking.track_results import Track, TrackedChange, TrackedSeries, format_track
from citus_analysis.tracking.tracked_datasets import track

__all__ = ["Track", "TrackedChange", "TrackedSeries", "format_track", "track"]

__dir__ = public(__all__)
