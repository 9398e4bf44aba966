"""Names of the files and folders in the study's tree, which the runner writes and `ingest` reads.

::

    RESOURCE/YCSB/raw/load_WORKLOAD_THREADS_RECORDS_ITERATION_WORKERS_RESOURCE_DRIVERS_PART.log
    RESOURCE/YCSB/raw/run_WORKLOAD_THREADS_RECORDS_OPERATIONS_ITERATION_WORKERS_RESOURCE_DRIVERS_PART.log
    RESOURCE/YCSB/raw/monitor_...                      the sampled client
    RESOURCE/pglogs/PGLOG-NODE-ITERATION.log
    RESOURCE/general/worker-NODE-ITERATION.out         iostat; other samplers have their own names
    RESOURCE/perf/...
    RESOURCE/snapshots/VIEW-NODE-ITERATION.csv
    RESOURCE/explain/plans-NODE-ITERATION.json         output of EXPLAIN
    RESOURCE/config.yml

Older trees lack DRIVERS and PART. Names of resources may contain `_` and `-`.

Example:
    >>> load = ClientName("main", "load", "A", 16, 60_000, None, 3, 2, "w2-t16", 1, 0)
    >>> str(load.path)
    'w2-t16/YCSB/raw/load_A_16_60000_3_2_w2-t16_1_0.log'
    >>> ClientName.parse(load.path.name, "w2-t16") == load
    True
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath
from typing import Final, Literal, Self, TypeVar

_CLIENTS: Final = "YCSB"
_SERVER_LOGS: Final = "pglogs"
_SAMPLERS: Final = "general"
_PERF: Final = "perf"
_SNAPSHOTS: Final = "snapshots"
_PLANS: Final = "explain"
#: Folders below a resource.
FOLDERS: Final = frozenset({_CLIENTS, _SERVER_LOGS, _SAMPLERS, _PERF})
#: Further ones, whose names are common elsewhere: only files directly in them are of the resource above.
_FLAT_FOLDERS: Final = frozenset({_SNAPSHOTS, _PLANS})
#: Names of the description of a resource; the runner writes the first.
CONFIG_NAMES: Final = ("config.yml", "config.yaml")

_Place = TypeVar("_Place", bound=PurePath)
_MONITOR: Final = "monitor_"
_CLIENT: Final = re.compile(
    rf"(?P<monitor>{_MONITOR})?"
    r"(?:(?P<load>load)|run)_(?P<workload>[^_]+)_(?P<threads>\d+)_(?P<records>\d+)_"
    r"(?(load)|(?P<operations>\d+)_)(?P<iteration>\d+)_(?P<workers>\d+)_(?P<tail>.+)\.\w+"
)
_TAIL: Final = re.compile(r"(?P<resource>.+?)(?:_(?P<drivers>\d+)_(?P<part>\d+))?")
#: Suffixes added by rotation: `PGLOG-1-2-20261120_2100.log`, `PGLOG-1-2.log.1`, `PGLOG-1-2.log-20261120`.
_ROTATED: Final = r"(?:[-_.]\d[\d_.:T-]*)?"
#: Numbers identify servers; driver1, driver2, ... identify the machines of load generators.
_NODE: Final = re.compile(
    rf"(?:(?P<log>PGLOG)-(?P<node>\d+)-(?P<iteration>\d+){_ROTATED}"
    # In `postgresql-2026-11-20.log` the numbers are a date.
    rf"|(?!.*\d{{4}}-\d\d-\d\d)(?P<what>.+?)-(?P<other>(?:driver)?\d+)-(?P<its>\d+))\.[A-Za-z]\w*{_ROTATED}",
    re.IGNORECASE,
)
#: Reports of the recording of all nodes of one machine; those of other machines name a node as well.
_PERF_REPORT: Final = re.compile(r"report-(?:flat|graph)-(\d+)\.txt")


@dataclass(frozen=True)
class ClientName:
    """Facts in the file name of a load generator's output.

    Attributes:
        role: `main`, or `monitor` for the sampled client.
        phase: `load` or `run`.
        workload: letter of the workload; contains no `_`.
        threads: client threads of the run, over all load generators.
        records: rows of the table.
        operations: planned operations; None in the load phase, in which their number is `records`.
        iteration: number of the repetition, from 1.
        workers: workers of the cluster.
        resource: the system under test; the name of the folder.
        drivers: load generators of the run; None in names of older trees.
        part: number of this load generator, from 0; None in names of older trees.
    """

    role: Literal["main", "monitor"]
    phase: Literal["load", "run"]
    workload: str
    threads: int
    records: int
    operations: int | None
    iteration: int
    workers: int
    resource: str
    drivers: int | None = None
    part: int | None = None

    @property
    def path(self) -> PurePosixPath:
        """Path of the output, relative to the tree.

        Raises:
            ValueError: the workload's name would be ambiguous within the file's name.
        """
        if not self.workload or "_" in self.workload:
            raise ValueError(f"a workload named {self.workload!r} cannot be part of a file's name")
        sizes = [self.threads, self.records, *([] if self.operations is None else [self.operations])]
        which = [] if self.drivers is None else [self.drivers, self.part or 0]
        words = [self.phase, self.workload, *sizes, self.iteration, self.workers, self.resource, *which]
        name = "_".join(map(str, words))
        return PurePosixPath(self.resource, _CLIENTS, "raw", f"{_MONITOR * (self.role == 'monitor')}{name}.log")

    @classmethod
    def parse(cls, name: str, folder: str | None = None) -> Self | None:
        """The name of a file, without folders and the suffix of a compression; None for another kind of file.

        Args:
            name: name of the file.
            folder: name of the resource's folder; determines the end of the resource in names like `V3_2_1_0`.
        """
        match = _CLIENT.fullmatch(name)
        if match is None:
            return None
        tail: dict[str, str | None] = {"resource": match["tail"], "drivers": None, "part": None}
        if match["tail"] != folder and (ending := _TAIL.fullmatch(match["tail"])):
            tail = ending.groupdict()
        role: Literal["main", "monitor"] = "monitor" if match["monitor"] else "main"
        phase: Literal["load", "run"] = "load" if match["load"] else "run"
        of_run = match["workload"], int(match["threads"]), int(match["records"]), _number(match["operations"])
        of_tail = str(tail["resource"]), _number(tail["drivers"]), _number(tail["part"])
        return cls(role, phase, *of_run, int(match["iteration"]), int(match["workers"]), *of_tail)


@dataclass(frozen=True)
class NodeName:
    """Facts in the name of a file about one node: `PGLOG-NODE-ITERATION.log`, `worker-NODE-ITERATION.out`.

    Attributes:
        what: kind of the file: `PGLOG`, or a sampler's name.
        node: number of the node; 0 is the coordinator. `driver1`, ... is a load generator's machine.
        iteration: number of the repetition.
    """

    what: str
    node: str
    iteration: int

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The name of a file, without folders and the suffix of a compression; None for another kind of file."""
        match = _NODE.fullmatch(name)
        if match is None:
            return None
        what, node = match["log"] or match["what"], match["node"] or match["other"]
        return cls(what, node, int(match["iteration"] or match["its"]))

    def with_suffix(self, suffix: str) -> str:
        """The file's name."""
        return f"{self.what}-{self.node}-{self.iteration}{suffix}"


def build_server_log_path(resource: str, node: str, iteration: int) -> PurePosixPath:
    """Path of a node's server log, relative to the tree.

    Example:
        >>> str(build_server_log_path("w2", "0", 1))
        'w2/pglogs/PGLOG-0-1.log'
    """
    return PurePosixPath(resource, _SERVER_LOGS, NodeName("PGLOG", node, iteration).with_suffix(".log"))


def build_sampler_output_path(resource: str, sampler: str, node: str, iteration: int) -> PurePosixPath:
    """Path of a sampler's output, relative to the tree; iostat's is named `worker`.

    Example:
        >>> (
        ...     str(build_sampler_output_path("w2", "iostat", "1", 3)),
        ...     str(build_sampler_output_path("w2", "vmstat", "1", 3)),
        ... )
        ('w2/general/worker-1-3.out', 'w2/general/vmstat-1-3.out')
    """
    name = NodeName("worker" if sampler == "iostat" else sampler, node, iteration)
    return PurePosixPath(resource, _SAMPLERS, name.with_suffix(".out"))


def build_perf_report_path(resource: str, report: str, iteration: int) -> PurePosixPath:
    """Path of a report of perf, relative to the tree.

    Example:
        >>> str(build_perf_report_path("w2", "flat", 1))
        'w2/perf/flat-1.txt'
    """
    return PurePosixPath(resource, _PERF, f"{report}-{iteration}.txt")


def parse_perf_iteration(name: str) -> int | None:
    """Iteration in the name of a report of perf about all nodes of a machine; None for other names.

    Example:
        >>> parse_perf_iteration("report-flat-2.txt"), parse_perf_iteration("report-2.txt")
        (2, None)
    """
    match = _PERF_REPORT.fullmatch(name)
    return _number(match[1]) if match else None


def plan_file(resource: str, node: str, iteration: int) -> PurePosixPath:
    """Path of the plans of one node (output of EXPLAIN), relative to the tree.

    Example:
        >>> str(plan_file("w2", "0", 1))
        'w2/explain/plans-0-1.json'
    """
    return PurePosixPath(resource, _PLANS, NodeName("plans", node, iteration).with_suffix(".json"))


def build_snapshot_path(resource: str, view: str, node: str, iteration: int) -> PurePosixPath:
    """Path of the snapshots of a view of one node, relative to the tree.

    Example:
        >>> str(build_snapshot_path("w2", "pg_stat_wal", "0", 1))
        'w2/snapshots/pg_stat_wal-0-1.csv'
    """
    return PurePosixPath(resource, _SNAPSHOTS, NodeName(view, node, iteration).with_suffix(".csv"))


def find_resource_above(path: _Place) -> _Place | None:
    """Folder of the resource that the folders above a file tell; None where they are not those of the study's tree.

    Example:
        >>> (
        ...     find_resource_above(PurePosixPath("w2/YCSB/raw/run.log")),
        ...     find_resource_above(PurePosixPath("w2/explain/count.txt")),
        ... )
        (PurePosixPath('w2'), PurePosixPath('w2'))
        >>> find_resource_above(PurePosixPath("backup/snapshots/monday/run.log")) is None
        True
    """
    if path.parent.name in _FLAT_FOLDERS:
        return path.parent.parent
    return next((folder.parent for folder in path.parents if folder.name in FOLDERS), None)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
