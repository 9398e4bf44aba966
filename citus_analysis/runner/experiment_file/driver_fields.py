"""`driver`: the load generator."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from citus_analysis.redaction import names_secret
from citus_analysis.runner.experiment_file.fields import LocalPath, Part, Setting
from citus_analysis.runner.experiment_file.own_workloads import ScriptedWorkload, check_workload_names


def _without_secret(properties: dict[str, Setting]) -> dict[str, Setting]:
    if any(names_secret(name) for name in properties):
        raise ValueError("passwords do not belong in this file: set PGPASSWORD or PGPASSFILE")
    return properties


class PgbenchDriver(Part):
    """YCSB's table and core workloads as pgbench scripts."""

    kind: Literal["pgbench"] = "pgbench"
    protocol: Literal["simple", "extended", "prepared"] = Field("prepared", description="pgbench's query mode")
    distribution: Literal["uniform", "zipfian", "latest"] | None = Field(
        None, description="key distribution of requests; default: the core workload's own"
    )
    log_transactions: bool = Field(False, description="log every transaction (--log)")
    workloads: Annotated[dict[str, ScriptedWorkload], AfterValidator(check_workload_names)] = Field(
        default_factory=dict, description="own scripts by name, for matrix.workloads"
    )


class DriverHost(Part):
    """A machine on which load generators run."""

    host: str = Field(description="name or address")
    ssh_user: str | None = Field(None, description="user for ssh; keys come from the agent or the ssh configuration")
    ssh_port: int = Field(22, gt=0, lt=65536, description="port of sshd")
    home: str | None = Field(None, description="folder of the YCSB installation there; default: `driver.home`")
    java: str = Field("java", description="Java's program there: a name in PATH, or a path")


class YcsbDriver(Part):
    """A YCSB installation with the JDBC binding."""

    kind: Literal["ycsb"] = "ycsb"
    home: LocalPath = Field(description="folder of the installation: lib/, jdbc-binding/lib/, workloads/")
    binding: str = Field("site.ycsb.db.JdbcDBClient", description="class of the database binding")
    jdbc: Literal["load_balance_hosts", "even"] = Field(
        "load_balance_hosts",
        description="one URL with all nodes and loadBalanceHosts, or nodes assigned evenly over the load generators",
    )
    properties: Annotated[dict[str, Setting], AfterValidator(_without_secret)] = Field(
        default_factory=dict, description="further YCSB properties"
    )
    java_options: list[str] = Field(default_factory=list, description="options of the Java machine, such as -Xmx4g")
    hosts: list[DriverHost] = Field(
        default_factory=list,
        description="machines on which the load generators are started by ssh, in turn; default: this machine",
    )
