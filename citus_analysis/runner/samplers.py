"""Samplers beside the load: iostat, vmstat and, on request, perf.

Example:
    >>> sampler_arguments("iostat", interval_s=1)
    ['iostat', '-x', '-t', '1']
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from citus_analysis.runner.experiment import Samplers
from citus_analysis.runner.processes import Launched, Processes

__all__ = ["ENVIRONMENT", "chosen_samplers", "sampler_arguments", "start_samplers"]

#: Dates in ISO form and UTC, whatever the machine's locale.
ENVIRONMENT: Final = {"LC_ALL": "C", "TZ": "UTC", "S_TIME_FORMAT": "ISO"}

_ARGUMENTS: Final = {"iostat": ["iostat", "-x", "-t"], "vmstat": ["vmstat", "-n", "-t"]}


def chosen_samplers(samplers: Samplers) -> list[str]:
    """Names of the samplers an experiment asks for."""
    return [name for name in _ARGUMENTS if getattr(samplers, name)]


def sampler_arguments(name: str, *, interval_s: int) -> list[str]:
    """The sampler's call."""
    return [*_ARGUMENTS[name], str(interval_s)]


def start_samplers(processes: Processes, samplers: Samplers, folder: Path) -> tuple[dict[str, Launched], list[str]]:
    """Start the samplers on this machine.

    Returns:
        sampler -> process, and for each sampler that is not installed a sentence that says so.
    """
    started: dict[str, Launched] = {}
    skipped: list[str] = []
    for name in chosen_samplers(samplers):
        if shutil.which(name) is None:
            skipped.append(f"{name} is not installed: no samples of it")
            continue
        started[name] = processes.launch(
            name,
            sampler_arguments(name, interval_s=samplers.interval_s),
            output=folder / f"{name}.out",
            environment=ENVIRONMENT,
        )
    return started, skipped
