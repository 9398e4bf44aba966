"""Paths by the parts in which they differ, for legends."""

from __future__ import annotations

from collections.abc import Sequence


def differing_parts(paths: Sequence[str]) -> dict[str, str]:
    """Path -> its parts that are not in all paths; a single path keeps its last part.

    Example:
        >>> differing_parts(["/sys/fs/cgroup/node1/cpu.stat", "/sys/fs/cgroup/node2/cpu.stat"])
        {'/sys/fs/cgroup/node1/cpu.stat': 'node1', '/sys/fs/cgroup/node2/cpu.stat': 'node2'}
        >>> differing_parts(["/sys/fs/cgroup/node1"])
        {'/sys/fs/cgroup/node1': 'node1'}
    """
    parts = {path: [part for part in path.split("/") if part] for path in paths}
    shared = set.intersection(*(set(found) for found in parts.values())) if len(parts) > 1 else set()
    return {
        path: "/".join(part for part in found if part not in shared) if shared else (found or [path])[-1]
        for path, found in parts.items()
    }
