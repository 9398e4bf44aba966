"""Processes of Dask on this machine.

The processes are forked by a server of :mod:`multiprocessing` that imports Dask once. It imports neither polars nor
Arrow: both start threads, and a process with threads must not be forked. The server ends with this process; a further
ingest finds it ready.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from multiprocessing import forkserver
from typing import Final

from citus_analysis.errors import InputError

_GUARD: Final = "guard the main part of a script with if __name__ == '__main__', or leave out the cluster"
#: Environment of the server and of the processes.
_ENVIRONMENT: Final = {
    # Threads share heaps, as in a local ingest.
    "MALLOC_ARENA_MAX": "2",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    # Libraries of linear algebra start threads when they are imported.
    "OMP_NUM_THREADS": "1",
    # A worker may send a message to a scheduler that has ended, and would report the failure in ten lines.
    "DASK_LOGGING__DISTRIBUTED": "critical",
}
_DASK: Final = {
    "distributed.worker.multiprocessing-method": "forkserver",
    # By default, workers of Dask return freed memory to the system at once. New memory is then cleared each time, and
    # deriving takes almost twice the processor time.
    "distributed.nanny.pre-spawn-environ": {},
    # No pages and no profiles of tasks: users do not know the addresses of these processes.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
}


def _start_server() -> None:
    """Start the server if none is running, without waiting for it."""
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
    """An executor of tasks in other processes.

    Args:
        number: number of processes.
        retries: retries of a task after a process died.

    Raises:
        InputError: no process starts, or this process is one of them, and runs the script again because its main part
            has no guard.
    """
    # multiprocessing has no public name for this attribute.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise InputError("a process that was started for an ingest starts it again", path="__main__", way_out=_GUARD)
    import dask
    import distributed

    _start_server()
    # Dask would replace the list of preloaded modules by its own, which contains pandas, and import pandas here.
    distributed.utils._forkserver_preload_set = True
    with dask.config.set(_DASK), ExitStack() as stack:
        try:
            executor = stack.enter_context(_executor(number, retries))
        # As Dask reports a process that has ended or does not answer.
        except (OSError, RuntimeError, EOFError) as error:
            raise InputError(f"a process does not start: {error}", path=f"local:{number}", way_out=_GUARD) from error
        yield executor


@contextmanager
def _executor(number: int, retries: int) -> Iterator[Executor]:
    import distributed

    environment = {**_ENVIRONMENT, "POLARS_MAX_THREADS": str(max(1, len(os.sched_getaffinity(0)) // number))}
    with (
        distributed.LocalCluster(
            n_workers=number,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            # Dask opens a port even without pages, and prints a warning if the port is in use.
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            env=environment,
        ) as processes,
        distributed.Client(processes, set_as_default=False) as client,
    ):
        executor = client.get_executor(retries=retries, pure=False)
        yield executor
        executor.shutdown(wait=False)
