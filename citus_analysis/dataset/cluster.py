"""Dask as an executor of tasks: a running cluster, or processes on this machine.

Only the interface of :class:`concurrent.futures.Executor` is used. Each task is a function of this package with its
arguments. Workers parse with the package installed on their machine, so its version must be the same everywhere.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from multiprocessing import forkserver
from typing import Final, Protocol

from citus_analysis.core.extras import require_extra
from citus_analysis.core.parallel import count_usable_cpus
from citus_analysis.errors import DatasetError, InputError, UsageError

# Processes of Dask on this machine.
#
# The processes are forked by a server of :mod:`multiprocessing` that imports Dask once. It imports neither polars nor
# Arrow: both start threads, and a process with threads must not be forked. The server ends with this process; a further
# ingest finds it ready.

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
def start_local_processes(number: int, retries: int) -> Iterator[Executor]:
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
        raise InputError("a process that was started for an ingest starts it again", path="__main__", hint=_GUARD)
    import dask
    import distributed

    _start_server()
    # Dask would replace the list of preloaded modules by its own, which contains pandas, and import pandas here.
    distributed.utils._forkserver_preload_set = True
    with dask.config.set(_DASK), ExitStack() as stack:
        try:
            executor = stack.enter_context(_start_local_executor(number, retries))
        # As Dask reports a process that has ended or does not answer.
        except (OSError, RuntimeError, EOFError) as error:
            raise InputError(f"a process does not start: {error}", path=f"local:{number}", hint=_GUARD) from error
        yield executor


@contextmanager
def _start_local_executor(number: int, retries: int) -> Iterator[Executor]:
    import distributed

    environment = {**_ENVIRONMENT, "POLARS_MAX_THREADS": str(max(1, count_usable_cpus() // number))}
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


_PACKAGE: Final = "citus-analysis"
_LOCAL: Final = re.compile(r"local:(?!0$)(\d+)")
_ADDRESS: Final = re.compile(r"(tcp|tls|ucx|ws|wss)://.+")
#: Seconds to wait for a scheduler, and for the first worker.
_CONNECT_S: Final = 15
_WORKERS_S: Final = 60
#: Retries of a task on another worker after a worker died or its machine reported an error.
_RETRIES: Final = 2
#: Attempts to ask all workers if one does not answer, and seconds between attempts.
_TRIES: Final = 5
_AGAIN_S: Final = 0.5
_TYPED: Final = "local:N, or the address of a Dask scheduler, such as tcp://head:8786"


@dataclass(frozen=True)
class DaskCluster:
    """Workers that take tasks.

    Attributes:
        executor: takes the tasks.
        workers: tasks that can run at the same time.
        on_each: calls a function with arguments on each remote worker: address -> its result or exception.
    """

    executor: Executor
    workers: int
    on_each: Callable[..., dict[str, object]]


class _DaskClient(Protocol):
    """The part of Dask's client that is used here; Dask has no types."""

    def get_executor(self, **options: object) -> Executor: ...

    def nthreads(self) -> Mapping[str, int]: ...

    def run(self, function: Callable[..., object], *arguments: object, on_error: str) -> Mapping[str, object]: ...

    def wait_for_workers(self, n_workers: int, timeout: float) -> None: ...


@contextmanager
def connect_cluster(address: str, same: Callable[[], str]) -> Iterator[DaskCluster]:
    """A cluster as a context; processes on this machine end with it.

    Args:
        address: `local:N` or the address of a scheduler.
        same: a function of this package whose result must be the same on each worker.

    Raises:
        UsageError: the address is not valid, or a package is not installed.
        InputError: no scheduler answers, there is no worker, or one has another version of this package.
        DatasetError: workers died repeatedly.
    """
    local = _LOCAL.fullmatch(address)
    if not local and not _ADDRESS.fullmatch(address):
        raise UsageError(f"{address} is no cluster", place="--cluster", hint=_TYPED)
    require_extra("distributed", "cluster", "--cluster")
    with _silence_dask_logs(), _translate_dask_errors(address):
        if local is None:
            with _connect_client(address, same) as client:
                executor = client.get_executor(retries=_RETRIES, pure=False)
                try:
                    yield DaskCluster(executor, sum(client.nthreads().values()), partial(_answers, client))
                finally:
                    executor.shutdown(wait=False)
        else:
            number = int(local.group(1))
            with start_local_processes(number, _RETRIES) as executor:
                yield DaskCluster(executor, number, lambda *_call: {})


@contextmanager
def _translate_dask_errors(address: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        import distributed

        if isinstance(error, distributed.KilledWorker):
            problem = f"a task ended {_RETRIES + 1} workers or more: {error.last_worker.address}, the last, died"
            hint = "give each worker more memory, or fewer threads; their logs say why they died"
            raise DatasetError(problem, path=address, hint=hint) from error
        if isinstance(error, distributed.client.FutureCancelledError | distributed.comm.CommClosedError):
            hint = "ingest again: what is committed is kept"
            raise DatasetError("the scheduler was lost", path=address, hint=hint) from error
        raise


@contextmanager
def _connect_client(address: str, same: Callable[[], str]) -> Iterator[_DaskClient]:
    """A client of a scheduler whose workers read files as this process does."""
    import distributed

    try:
        client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError) as error:
        hint = "start one (dask scheduler), or use --cluster local:N"
        raise InputError("no Dask scheduler answers", path=address, hint=hint) from error
    with client:
        _require_workers(client, address)
        _require_same(client, same, same())
        yield client


def _require_workers(client: _DaskClient, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_WORKERS_S)
    except TimeoutError as error:
        hint = f"start some: dask worker {address}"
        raise InputError("the scheduler has no workers", path=address, hint=hint) from error


def _require_same(client: _DaskClient, same: Callable[[], str], expected: str) -> None:
    """Refuse workers without this package, or with another version of it or of its formats."""
    here = _get_dask_version()
    for worker, found in _answers(client, metadata.version, _PACKAGE).items():
        if isinstance(found, metadata.PackageNotFoundError):
            hint = f"pip install '{_PACKAGE}[cluster]=={here}' where the worker runs"
            raise InputError(f"has no package {_PACKAGE}", path=f"worker {worker}", hint=hint)
        if found != here:
            problem = f"has version {found} of {_PACKAGE}, not {here}"
            hint = f"pip install '{_PACKAGE}=={here}' where the worker runs"
            raise InputError(problem, path=f"worker {worker}", hint=hint)
    for worker, found in _answers(client, same).items():
        if found != expected:
            reason = f": {type(found).__name__}: {found}" if isinstance(found, Exception) else ""
            hint = "install the same packages with the same formats on all machines"
            raise InputError(f"does not read files the same way{reason}", path=f"worker {worker}", hint=hint)


def _answers(client: _DaskClient, function: Callable[..., object], *arguments: object) -> dict[str, object]:
    """The result of a function, or its exception, of each worker that is alive.

    Raises:
        InputError: none answers.
    """
    for _ in range(_TRIES):
        answers = dict(client.run(function, *arguments, on_error="return"))
        living = {worker: answer for worker, answer in answers.items() if not isinstance(answer, OSError)}
        # A worker that died since the list was made is not a reason to refuse the others; it may be restarted.
        if living and len(living) == len(answers):
            break
        time.sleep(_AGAIN_S)
    if not living:
        raise InputError("no worker answers", path="the Dask cluster", hint="look at the logs of its workers")
    return living


def _get_dask_version() -> str:
    return metadata.version(_PACKAGE)


@contextmanager
def _silence_dask_logs() -> Iterator[None]:
    """Dask reports each lost worker in several lines of log; the end of the ingest states the outcome."""
    import logging

    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.nanny", "distributed.worker")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def require_visible(cluster: DaskCluster, paths: Sequence[str]) -> None:
    """Refuse workers on which folders of this machine are missing.

    Raises:
        InputError: a worker lacks a path.
    """
    for path in paths:
        for worker, found in cluster.on_each(os.path.exists, path).items():
            if found is not True:
                hint = "put it on a file system that all machines share, or on an object store"
                raise InputError("is not there for a worker", path=path, place=f"worker {worker}", hint=hint)
