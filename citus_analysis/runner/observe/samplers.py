"""Samplers during the load on every node with a shell: iostat, vmstat, and the kernel's own counters.

Example:
    >>> start_samplers(Samplers(), {}, Path())  # without a node that has a shell
    ([], [])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from citus_analysis.runner.experiment_file.measuring import Samplers
from citus_analysis.runner.hosts.shells import Sampling, Shell

#: Dates in ISO form and UTC for any locale of the node, and no colours, which sysstat prints on a terminal (as of ssh).
ENVIRONMENT: Final = {"LC_ALL": "C", "TZ": "UTC", "S_TIME_FORMAT": "ISO", "S_COLORS": "never"}

#: Prints the input of `citus_analysis.formats.samplers.host_counters`. The script is the same for every host and takes
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

_ARGUMENTS: Final = {
    "iostat": ["iostat", "-x", "-t"],
    "vmstat": ["vmstat", "-n", "-t"],
    "host": ["sh", "-c", _HOST_LOOP, "host-counters"],
}


@dataclass(frozen=True)
class Sampled:
    """A sampler on a node, and the file of its output."""

    sampler: str
    node: str
    output: Path
    sampling: Sampling


def start_samplers(samplers: Samplers, shells: Mapping[str, Shell], folder: Path) -> tuple[list[Sampled], list[str]]:
    """Start the samplers on all nodes.

    Returns:
        the started samplers, and a sentence for each sampler that a node lacks.
    """
    started: list[Sampled] = []
    skipped: list[str] = []
    for node, shell in shells.items():
        for name in (name for name in _ARGUMENTS if getattr(samplers, name)):
            arguments = [*_ARGUMENTS[name], str(samplers.interval_s)]
            if not shell.has(arguments[0]):
                skipped.append(f"{arguments[0]} is not installed on node {node}: no samples of {name}")
                continue
            output = folder / f"{name}-{node}.out"
            started.append(Sampled(name, node, output, shell.start(arguments, ENVIRONMENT, output)))
    return started, skipped
