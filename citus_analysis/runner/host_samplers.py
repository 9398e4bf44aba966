"""Samplers on every node with a shell during the load: iostat, vmstat, kernel counters, canary, processes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from citus_analysis.runner.experiment import Samplers
from citus_analysis.runner.hosts import Sampling, Shell

#: Dates in ISO form and UTC for any locale of the node, and no colours, which sysstat prints on a terminal (as of ssh).
ENVIRONMENT: Final = {"LC_ALL": "C", "TZ": "UTC", "S_TIME_FORMAT": "ISO", "S_COLORS": "never"}

#: Prints the input of `citus_analysis.formats.host_counters`. The script is the same for every host and takes
#: the interval as its argument; `date`, `grep` and `sleep` take about 5 ms of CPU time per sample.
_HOST_LOOP: Final = """
of_servers=
for group in $(grep -s -l "^postgres$" /proc/[0-9]*/comm | sed "s/comm$/cgroup/" | xargs -r cat 2>/dev/null | sort -u)
do
  place=${group#*:*:}
  case "$group" in
    *:/) ;;
    0::*) of_servers="$of_servers /sys/fs/cgroup$place/cpu.stat" ;;
    *:cpu:*|*:cpu,*|*,cpu:*|*,cpu,*) of_servers="$of_servers /sys/fs/cgroup/cpu$place/cpu.stat" ;;
  esac
done
[ -r /proc/pressure/cpu ] || echo "absent: /proc/pressure"
while :; do
  date -u "+sampled %Y-%m-%d %H:%M:%S.%N"
  grep -s -H "" /proc/pressure/* /proc/net/dev /sys/fs/cgroup/cpu.stat /sys/fs/cgroup/cpu/cpu.stat \\
    $of_servers /sys/fs/cgroup/*client*/cpu.stat /sys/fs/cgroup/cpu/*client*/cpu.stat
  sleep "$1"
done
"""

#: Programs whose text is an argument of the host's Python.
_PROGRAMS: Final = {name: Path(__file__).with_name(f"{name}_program.py") for name in ("canary", "backends")}
_ARGUMENTS: Final = {
    "iostat": ["iostat", "-x", "-t"],
    "vmstat": ["vmstat", "-n", "-t"],
    "host": ["sh", "-c", _HOST_LOOP, "host-counters"],
    # Isolated from the modules of the host, whose search at the start takes 20 ms of CPU time.
    **{name: ["python3", "-I", "-S", "-c"] for name in _PROGRAMS},
}


@dataclass(frozen=True)
class Sampled:
    """A sampler on a node, and the file of its output."""

    sampler: str
    node: str
    output: Path
    sampling: Sampling


#: Writes to the disk that the canary is to make in a run, and samples between two of them in a long one.
_CANARY_WRITES: Final = 5
_CANARY_SAMPLES: Final = 5
#: A run that is shorter has a canary each half second.
_SHORT_S: Final = 5.0
#: So long the load waits at most for the first samples of the canaries.
_START_S: Final = 1.0
_POLL_S: Final = 0.02


def choose_canary_pace(interval_s: float, duration_s: float | None) -> tuple[float, int]:
    """Seconds between two samples of the canary, and samples for each write to the disk.

    Args:
        interval_s: time between two samples of all samplers.
        duration_s: of the run; None if it is not known before.

    Example:
        >>> choose_canary_pace(1, None), choose_canary_pace(1, 60), choose_canary_pace(1, 10), choose_canary_pace(1, 3)
        ((1, 5), (1, 5), (1, 2), (0.5, 1))
    """
    if duration_s is None:
        return interval_s, _CANARY_SAMPLES
    pace = min(interval_s, 0.5) if duration_s < _SHORT_S else interval_s
    return pace, max(1, min(_CANARY_SAMPLES, int(duration_s / pace / _CANARY_WRITES)))


def start_samplers(
    samplers: Samplers, shells: Mapping[str, Shell], folder: Path, duration_s: float | None = None
) -> tuple[list[Sampled], list[str]]:
    """Start the samplers on all nodes, and wait up to a second until canaries have begun: their start costs CPU time.

    Args:
        samplers: those that are asked for.
        shells: node -> shell of its machine.
        folder: for their outputs.
        duration_s: of the run, if it is known: a short one has a canary more often.

    Returns:
        the started samplers, and a sentence for each sampler that a node lacks.
    """
    started: list[Sampled] = []
    skipped: list[str] = []
    for node, shell in shells.items():
        for name in (name for name in _ARGUMENTS if getattr(samplers, name)):
            program = [_PROGRAMS[name].read_text(encoding="utf-8")] if name in _PROGRAMS else []
            pace: tuple[float, ...] = (samplers.interval_s,)
            if name == "canary":
                pace = choose_canary_pace(samplers.interval_s, duration_s)
            arguments = [*_ARGUMENTS[name], *program, *map(str, pace)]
            if not shell.has(arguments[0]):
                skipped.append(f"{arguments[0]} is not installed on node {node}: no samples of {name}")
                continue
            output = folder / f"{name}-{node}.out"
            started.append(Sampled(name, node, output, shell.start(arguments, ENVIRONMENT, output)))
    _wait_for_output([one.output for one in started if one.sampler == "canary"])
    return started, skipped


def _wait_for_output(outputs: Sequence[Path]) -> None:
    """Wait until all have lines, for a second at most: one that cannot start must not hold up the run."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and not all(one.exists() and one.stat().st_size for one in outputs):
        time.sleep(_POLL_S)
