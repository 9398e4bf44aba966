"""`target`: the servers under test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from citus_analysis.runner.experiment_file.capabilities import SystemName
from citus_analysis.runner.experiment_file.fields import Part, Positive, Setting
from citus_analysis.texts.path_names import file_name_problem

#: The prefix that the study fixed; every server that the runner configures uses it.
LOG_LINE_PREFIX = "%m [%p] [%v] : [%l-1] %q[app=%a] "


def _absolute_folder(postgres: str) -> str:
    return postgres if postgres in ("wheel", "system") else str(Path(postgres).resolve())


def _usable_in_file_names(name: str) -> str:
    if problem := file_name_problem(name):
        raise ValueError(f"becomes part of file names, but {problem}")
    return name


class EmbeddedTarget(Part):
    """A server that is made, started, stopped and removed by the runner."""

    kind: Literal["embedded"] = "embedded"
    postgres: Annotated[str, AfterValidator(_absolute_folder)] = Field(
        "wheel", description="`wheel` (PostgreSQL from the Python package), `system`, or a folder with its programs"
    )
    version: int | None = Field(None, description="major version; default: the newest that is installed")
    settings: dict[str, Setting] = Field(
        default_factory=dict,
        description="server settings, added to the runner's own; fsync is on unless named here",
    )


class NodeAddress(Part):
    """Address of a node of a cluster, and access to its machine."""

    host: str = Field(description="name or address")
    port: int = Field(5432, gt=0, lt=65536, description="PostgreSQL's port")
    role: Literal["coordinator", "worker"] = Field("worker", description="role of the node in the cluster")
    name: Annotated[str, AfterValidator(_usable_in_file_names)] | None = Field(
        None, description="name in file names; default: 0 for the coordinator, then 1, 2, ..."
    )
    shell: Literal["none", "local", "ssh"] = Field(
        "none", description="how samplers run and logs are read: no samplers, logs over SQL; on this machine; by ssh"
    )
    ssh_user: str | None = Field(None, description="user for ssh; keys come from the agent or the ssh configuration")
    ssh_port: int = Field(22, gt=0, lt=65536, description="port of sshd")
    log_directory: str | None = Field(None, description="folder of the server logs, for `local` and `ssh`")


class ClusterTarget(Part):
    """Servers that are there already."""

    kind: Literal["cluster"] = "cluster"
    system: SystemName = Field(
        "citus", description="determines the queries that the target supports; Spanner is reached through PGAdapter"
    )
    nodes: Annotated[list[NodeAddress], Field(min_length=1)] = Field(
        description="addresses; Citus: the coordinator is enough, workers are listed to give them a shell"
    )
    database: str = Field("postgres", description="database of the table")
    user: str = Field("postgres", description="the password is found by libpq: PGPASSWORD, PGPASSFILE, PGSERVICE")
    discover: bool = Field(True, description="Citus: read the workers from pg_dist_node instead of `nodes`")
    connect_to: Literal["workers", "coordinator", "all"] = Field(
        "workers", description="nodes the load generators connect to (query from any node)"
    )
    hardware: str | None = Field(None, description="machines of the nodes, in words; no query returns them")
    cpu_per_node: float | None = Field(
        None, gt=0, description="cores that each node may use, if they are limited (control groups, containers)"
    )
    collect_logs: bool = Field(True, description="`false`: no server logs, for a user who may not read them")
    shard_count: Positive | None = Field(None, description="Citus: shards of the table; default: the server's setting")
    shards_per_worker: Positive | None = Field(
        None, description="Citus: shards per worker of the run, instead of `shard_count`"
    )
    growth: Literal["refill", "rebalance"] = Field(
        "refill",
        description="Citus: if a run has more workers than the previous run, create the table again, or move shards "
        "to the new workers and measure the duration",
    )
    add_nodes: bool = Field(
        False,
        description="Citus: add workers from `nodes` (citus_add_node) for a run that needs more workers than "
        "pg_dist_node lists; at the end they are removed",
    )
    reload_with: Literal["alter_system", "none"] = Field(
        "none",
        description="`alter_system` lets the runner set server settings of the matrix by ALTER SYSTEM and reload",
    )

    @model_validator(mode="after")
    def _fields_fit(self) -> ClusterTarget:
        if self.shards_per_worker and self.shard_count:
            raise ValueError("shard_count and shards_per_worker exclude each other; leave one of them out")
        if self.shards_per_worker and self.growth == "rebalance":
            raise ValueError("growth: rebalance moves shards and makes no new ones; use shard_count")
        if self.add_nodes and (self.system != "citus" or not self.discover):
            raise ValueError("add_nodes: needs system: citus and discover: true")
        return self


class FilesTarget(Part):
    """Nothing is launched: existing files are given an identity and copied into the artefact tree."""

    kind: Literal["files"] = "files"
    files: Annotated[list[dict[str, str]], Field(min_length=1)] = Field(
        description="one mapping per file: `path` and its identity (resource, phase, workload, threads, ...)"
    )
