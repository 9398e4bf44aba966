"""Processes of Dask on this machine; threads of this process work until they are there, and alone where little is left.

The processes are forked by a server of :mod:`multiprocessing` that imports Dask once. It imports neither polars nor
Arrow: both start threads, and a process with threads must not be forked. The server ends with this process; a further
ingest finds it ready.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import forkserver
from typing import Final

from citus_analysis.dataset.cluster.relieved_threads import RelievedThreads
from citus_analysis.errors import InputError

__all__ = ["local_processes"]

#: Seconds of work that must be left for processes to be started. Starting them, with all that they import, takes the
#: processors of this machine more than a second, in which threads get as much done. Logs of which reading takes three
#: seconds take ten in all.
_WORTH_S: Final = 3.0
_GUARD: Final = "guard the main part of a script with if __name__ == '__main__', or leave out the cluster"
#: What the server and the processes begin with.
_ENVIRONMENT: Final = {
    # Threads share heaps, as those of a local ingest do.
    "MALLOC_ARENA_MAX": "2",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    # Libraries of linear algebra start threads when they are imported.
    "OMP_NUM_THREADS": "1",
    # When the scheduler ends, a worker may still say something to it, and would report that in ten lines.
    "DASK_LOGGING__DISTRIBUTED": "critical",
}
_DASK: Final = {
    "distributed.worker.multiprocessing-method": "forkserver",
    # Dask has workers give freed memory back at once; all further memory is then fresh, and deriving takes almost twice
    # the processor time.
    "distributed.nanny.pre-spawn-environ": {},
    # Nobody is told the addresses of these processes: no pages, no profiles of tasks.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
}


def _start_server() -> None:
    """Start the server, unless one runs; returns at once."""
    before = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    os.environ.update(_ENVIRONMENT)
    try:
        multiprocessing.set_forkserver_preload(["distributed"])
        forkserver.ensure_running()
    finally:
        for name in _ENVIRONMENT.keys() - before:
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def local_processes(number: int, retries: int) -> Iterator[Executor]:
    """What takes tasks: threads of this process, and so many other processes where there is work for them.

    Args:
        number: of processes.
        retries: times that a task is tried again after a process died.

    Raises:
        InputError: this is such a process, which runs a script once more because it has no guard.
    """
    # multiprocessing itself looks at this, and has no public name for it.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise InputError("a process that was started for an ingest starts it again", path="__main__", way_out=_GUARD)
    with ExitStack() as processes, ThreadPoolExecutor(1, "start") as starting:

        def start() -> None:
            starting.submit(_relieve, threads, processes, number, retries)

        with RelievedThreads(min(number, _cores()), start, _WORTH_S) as threads:
            yield threads


def _relieve(threads: RelievedThreads, stack: ExitStack, number: int, retries: int) -> None:
    try:
        threads.relieve(stack.enter_context(_processes(number, retries)))
    except Exception as error:  # noqa: BLE001 - every waiting task raises it
        problem = InputError(f"a process does not start: {error}", path=f"local:{number}", way_out=_GUARD)
        threads.fail(problem)


@contextmanager
def _processes(number: int, retries: int) -> Iterator[Executor]:
    import dask
    import distributed

    _start_server()
    # Its own list of what the server imports begins with pandas, and it imports that here to see whether it is there.
    distributed.utils._forkserver_preload_set = True
    environment = {**_ENVIRONMENT, "POLARS_MAX_THREADS": str(max(1, _cores() // number))}
    with (
        dask.config.set(_DASK),
        distributed.LocalCluster(
            n_workers=number,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            # Even without pages a port is taken, and a warning printed where it is in use.
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            env=environment,
        ) as processes,
        distributed.Client(processes, set_as_default=False) as client,
    ):
        executor = client.get_executor(retries=retries, pure=False)
        yield executor
        executor.shutdown(wait=False)


def _cores() -> int:
    return len(os.sched_getaffinity(0))
