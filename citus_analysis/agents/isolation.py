"""A process of its own that answers, so that a question has a limit of time and of memory and can be ended."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Final

from citus_analysis.agents.answers import Reply

#: Seconds and MiB that a question may take.
SECONDS: Final = 60.0
MEMORY_MB: Final = 4096


class IsolatedTools:
    """Tools in a process that is started again after one exceeded its limits.

    Args:
        places: name of each dataset -> its folder.
        seconds: longest time of a question.
        memory_mb: most memory of the process, in MiB, beyond that of its start.
    """

    def __init__(self, places: Mapping[str, str], seconds: float = SECONDS, memory_mb: int = MEMORY_MB) -> None:
        self._places, self._seconds, self._memory_mb = dict(places), seconds, memory_mb
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def ask(self, tool: str, arguments: Mapping[str, object]) -> Reply:
        """Answer a question, or say in a sentence why not."""
        with self._lock:
            pipe = self._start()
            try:
                pipe.send((tool, dict(arguments)))
                if not pipe.poll(self._seconds):
                    self._end()
                    return Reply(f"{tool}: took more than {self._seconds:g} s and was ended; ask for less", failed=True)
                text, failed = pipe.recv()
            except (EOFError, OSError):
                self._end()
                words = f"ended, probably because it needed more than {self._memory_mb} MiB of memory; ask for less"
                return Reply(f"{tool}: {words}", failed=True)
            return Reply(text, failed)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _start(self) -> Connection:
        if self._process is None or self._pipe is None or not self._process.is_alive():
            context = get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(
                target=_answer_questions, args=(theirs, self._places, self._memory_mb), daemon=True
            )
            self._process.start()
            theirs.close()
        return self._pipe

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None


def _answer_questions(pipe: Connection, places: Mapping[str, str], memory_mb: int) -> None:
    # The protocol owns the standard output.
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    from citus_analysis.agents.tools import Tools

    tools = Tools(places)
    _limit_memory(memory_mb)
    while True:
        try:
            tool, arguments = pipe.recv()
        except EOFError:
            return
        reply = tools.reply(tool, arguments)
        pipe.send((reply.text, reply.failed))


def _limit_memory(memory_mb: int) -> None:
    try:
        import resource
    except ModuleNotFoundError:  # of systems without such limits
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _measure_data_bytes() + memory_mb * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _measure_data_bytes() -> int:
    """Bytes of memory that count for the limit now: threads' stacks and what allocators hold in reserve."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - not a file of the disk
            line = next(line for line in status if line.startswith("VmData:"))
    except (OSError, StopIteration):
        return 2**30
    return int(line.split()[1]) * 1024
