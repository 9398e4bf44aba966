"""The cluster target: servers that are there already, reached by SQL.

What a system cannot do is skipped with a reason that ends up in `config.yml`: Aurora and Spanner's PGAdapter give
no superuser, so their logs come as exports given as files, and their roles and settings are their owners' affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from citus_analysis.errors import RunnerError
from citus_analysis.runner.experiment import ClusterTarget, Monitor, NodeAddress, Setting
from citus_analysis.runner.plan import Configuration
from citus_analysis.runner.processes import Processes
from citus_analysis.runner.shells import LocalShell, Shell, SshShell, open_ssh
from citus_analysis.runner.targets import sql
from citus_analysis.runner.targets.base import ConnectionInfo, Description, LogMark, Node
from citus_analysis.runner.targets.logs import LogReader, make_log_reader

__all__ = ["CAPABILITIES", "Capabilities", "Cluster"]

_DEFAULT_SHARDS: Final = 32


@dataclass(frozen=True)
class Capabilities:
    """What can be asked of a system."""

    server_logs: bool
    roles: bool
    settings: bool
    truncate: bool


CAPABILITIES: Final[dict[str, Capabilities]] = {
    "citus": Capabilities(server_logs=True, roles=True, settings=True, truncate=True),
    "postgresql": Capabilities(server_logs=True, roles=True, settings=True, truncate=True),
    "aurora": Capabilities(server_logs=False, roles=True, settings=False, truncate=True),
    "spanner": Capabilities(server_logs=False, roles=False, settings=False, truncate=False),
}


class Cluster:
    """Servers of somebody else's: used, never started, stopped or removed.

    Args:
        target: its part of the experiment file.

    Raises:
        RunnerError: the first node does not answer.
    """

    def __init__(self, target: ClusterTarget) -> None:
        self._target = target
        self._can = CAPABILITIES[target.system]
        self._all = self._discover()
        self._readers = self._log_readers() if self._can.server_logs else {}
        self._workers_in_use = len(self._workers())
        self._settings_changed: set[str] = set()
        self._shells: dict[tuple[str, str], tuple[str, Shell]] = {}

    @property
    def system(self) -> str:
        """As the experiment file names it."""
        return self._target.system

    def prepare(self, configuration: Configuration) -> None:
        """Spread the table over as many workers as asked for, and set the matrix' settings where that is allowed."""
        available = len(self._workers())
        if self.system == "citus" and configuration.workers != self._workers_in_use:
            if not 1 <= configuration.workers <= available:
                raise RunnerError(
                    f"{configuration.workers} workers asked for, the cluster has {available}",
                    way_out="correct matrix.workers, or add nodes",
                )
            self._use_workers(configuration.workers)
        if configuration.settings:
            self._set(dict(configuration.settings))

    def nodes(self) -> list[Node]:
        """Coordinator first, then the workers in use."""
        coordinator = [node for node in self._all if node.role == "coordinator"]
        return [*coordinator, *self._workers()[: self._workers_in_use]]

    def clients_connect(self, user: str | None = None) -> ConnectionInfo:
        """The nodes that `connect_to` names."""
        nodes = self.nodes()
        workers = [node for node in nodes if node.role == "worker"]
        chosen = {"workers": workers or nodes, "coordinator": nodes[:1], "all": nodes}[self._target.connect_to]
        return ConnectionInfo(chosen, self._target.database, user or self._target.user)

    def describe(self) -> Description:
        """Versions and settings of the first node."""
        with self._connection() as connection:
            version = str(sql.query(connection, "SELECT version()")[0][0])
            settings = sql.read_settings(connection) if self._can.settings else {}
            citus = sql.query(connection, "SELECT citus_version()") if self.system == "citus" else []
        facts = {"system": self.system, "postgres_version": version}
        return Description({**facts, "citus_version": str(citus[0][0])} if citus else facts, settings, self._skipped())

    def fill(self, records: int) -> None:
        """COPY the records in; where a table cannot be truncated, only the first fill is possible."""
        shards = (self._target.shard_count or _DEFAULT_SHARDS) if self.system == "citus" else None
        with self._connection() as connection:
            sql.make_table(connection, shard_count=shards)
            if not self._can.truncate and sql.count_rows(connection):
                raise RunnerError(
                    f"{self.system} cannot truncate the table", way_out="drop the table by hand before the experiment"
                )
            sql.fill_table(connection, records, maintain=self._can.truncate)

    def count(self) -> int:
        """Rows of the table."""
        with self._connection() as connection:
            return sql.count_rows(connection)

    def set_monitor(self, monitor: Monitor) -> None:
        """Role with logging; Citus hands both on to its workers."""
        if self._can.roles:
            with self._connection() as connection:
                sql.make_monitor_role(connection, monitor)

    def mark_logs(self) -> dict[str, LogMark]:
        """Where the readable server logs stand."""
        return {name: reader.mark() for name, reader in self._readers.items() if name in self._names()}

    def copy_log(self, node: str, mark: LogMark, destination: Path) -> None:
        """What the node logged since the mark."""
        self._readers[node].copy_since(mark, destination)

    def stop(self) -> None:
        """Take back the settings that were changed."""
        for reader in self._readers.values():
            reader.close()
        for _node, shell in self._shells.values():
            shell.close()
        for name in self._settings_changed:
            for node in self._all:
                with self._connection(node) as connection:
                    sql.reset_server_setting(connection, name)
        self._settings_changed.clear()

    def _names(self) -> set[str]:
        return {node.name for node in self.nodes()}

    def _workers(self) -> list[Node]:
        return [node for node in self._all if node.role == "worker"]

    def _connection(self, node: Node | None = None) -> sql.Connecting:
        return sql.connect(node or self._all[0], database=self._target.database, user=self._target.user)

    def _discover(self) -> list[Node]:
        listed = [_named(address, number) for number, address in enumerate(_coordinator_first(self._target.nodes))]
        if self._target.system != "citus" or not self._target.discover:
            return listed
        with sql.connect(listed[0], database=self._target.database, user=self._target.user) as connection:
            rows = sql.read_citus_nodes(connection)
        if all(groupid != 0 for _, groupid, _, _ in rows):
            raise RunnerError(
                "pg_dist_node does not list the coordinator",
                way_out="SELECT citus_set_coordinator_host('HOST', PORT) once, or set target.discover: false",
            )
        return [
            Node(
                name=str(groupid),
                # The coordinator often knows itself as `localhost`: keep the address by which we reached it.
                host=listed[0].host if groupid == 0 else host,
                port=listed[0].port if groupid == 0 else port,
                role="coordinator" if groupid == 0 else "worker",
                nodeid=nodeid,
                groupid=groupid,
            )
            for nodeid, groupid, host, port in rows
        ]

    def shells(self, processes: Processes) -> Mapping[str, Shell]:
        """This machine for nodes with `shell: local`, a connection for those with `shell: ssh`; each host once."""
        for node in self.nodes():
            address = self._address(node)
            if address is None or address.shell == "none" or (address.host, address.shell) in self._shells:
                continue
            self._shells[address.host, address.shell] = node.name, _shell(address, processes)
        return dict(self._shells.values())

    def _address(self, node: Node) -> NodeAddress | None:
        return next((one for one in self._target.nodes if (one.host, one.port) == (node.host, node.port)), None)

    def _log_readers(self) -> dict[str, LogReader]:
        return {node.name: make_log_reader(node, self._address(node), self._target) for node in self._all}

    def _use_workers(self, number: int) -> None:
        """The first workers carry shards, the others none; the table is made anew by the next fill."""
        with self._connection() as connection:
            sql.drop_table(connection)
            for position, worker in enumerate(self._workers()):
                sql.let_node_have_shards(connection, worker.host, worker.port, position < number)
        self._workers_in_use = number

    def _set(self, settings: Mapping[str, Setting]) -> None:
        if self._target.reload_with != "alter_system":
            raise RunnerError(
                "the matrix varies server settings, which this target may not set",
                way_out="set target.reload_with: alter_system, or vary them between experiments",
            )
        for node in self._all:
            with self._connection(node) as connection:
                sql.set_server_settings(connection, settings)
        self._settings_changed.update(settings)

    def _skipped(self) -> tuple[str, ...]:
        missing = {
            "server logs: give exports of the service as files": self._can.server_logs,
            "the monitor role: the service has no role settings": self._can.roles,
            "server settings: the service does not let them be changed": self._can.settings,
        }
        return tuple(f"{self.system} has no {what}" for what, there in missing.items() if not there)


def _shell(address: NodeAddress, processes: Processes) -> Shell:
    if address.shell == "local":
        return LocalShell(processes)
    return SshShell(open_ssh(address.host, address.ssh_user, address.ssh_port), address.host)


def _coordinator_first(addresses: list[NodeAddress]) -> list[NodeAddress]:
    return sorted(addresses, key=lambda address: address.role != "coordinator")


def _named(address: NodeAddress, number: int) -> Node:
    first_worker = 0 if address.role == "coordinator" else 1
    node = Node(str(number), address.host, address.port, address.role)
    return replace(node, name=address.name) if address.name else replace(node, name=str(max(number, first_worker)))
