"""What the second process of a report does before its first task."""

from __future__ import annotations

from citus_analysis.report.engine.execution.notebook_work import be_silent, collecting_later

__all__ = ["prepare"]


def prepare() -> None:
    """Import the statistics and models that reports compute meanwhile, and keep the dataset open."""
    be_silent()
    with collecting_later():
        import citus_analysis.report.bottleneck.prediction_text  # noqa: F401 - for its effect
        from citus_analysis.dataset.query.access import keep_open

        keep_open()
