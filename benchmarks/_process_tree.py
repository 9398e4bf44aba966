"""The memory of a process and of those that it started, together, while they run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Final

__all__ = ["Watched", "watching"]

_INTERVAL_S: Final = 0.05
_MIB: Final = 2**20


@dataclass
class Watched:
    """The largest sum of resident memory that was seen, MiB."""

    peak_mib: float = 0.0


@contextmanager
def watching(pid: int) -> Iterator[Watched]:
    """Look at a process and its children every 50 ms; pages that they share count once for each."""
    watched, ended = Watched(), Event()

    def look() -> None:
        while not ended.wait(_INTERVAL_S):
            watched.peak_mib = max(watched.peak_mib, sum(map(_resident_mib, _tree(pid))))

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        ended.set()
        thread.join()


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        # A thread or a process may end at any time.
        with suppress(OSError):
            for child in children.read_text(encoding="ascii").split():
                yield from _tree(int(child))


def _resident_mib(pid: int) -> float:
    with suppress(OSError):
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / _MIB
    return 0.0
