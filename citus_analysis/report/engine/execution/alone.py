"""Preparation of a process that makes one report alone, with a second process beside it for :func:`meanwhile`."""

from __future__ import annotations

from contextlib import suppress

from citus_analysis.dataset.ingesting.workers.helper_process import Helper, NoAnswerError
from citus_analysis.report.engine.execution import notebook_work
from citus_analysis.report.engine.execution.meanwhile import use

__all__ = ["prepare"]


def prepare() -> None:
    """Start the second process, then import what every report needs."""
    notebook_work.be_silent()
    # Without a second process, this one computes everything itself.
    with suppress(NoAnswerError):
        use(Helper("citus_analysis.report.engine.execution.second_imports"))
    notebook_work.prepare()
