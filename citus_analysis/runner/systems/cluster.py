"""The cluster target: servers that are there already, reached by SQL.

What a system cannot do is skipped with a reason that ends up in `config.yml`: Aurora and Spanner's PGAdapter give
no superuser, so their logs come as exports given as files, and their roles and settings are their owners' affair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from citus_analysis.errors import RunnerError
from citus_analysis.runner.experiment_file.experiment import Experiment
from citus_analysis.runner.experiment_file.fields import setting_text
from citus_analysis.runner.experiment_file.measuring import Monitor
from citus_analysis.runner.experiment_file.target_fields import ClusterTarget, NodeAddress
from citus_analysis.runner.hosts.processes import Processes
from citus_analysis.runner.hosts.shells import LocalShell, Shell, SshShell, open_ssh
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.planning.core_workloads import TABLE
from citus_analysis.runner.planning.plan import Configuration
from citus_analysis.runner.systems import connections as sql
from citus_analysis.runner.systems.log_readers import LogReader, make_log_reader
from citus_analysis.runner.systems.state.emptying import empty_table
from citus_analysis.runner.systems.state.found import FILE_NAME, Found, restore_under
from citus_analysis.runner.systems.state.growth import GrowthLog, can_grow, rebalance
from citus_analysis.runner.systems.state.joining import add_worker, unlisted_workers
from citus_analysis.runner.systems.state.ownership import ClusterInUseError, ClusterLock, claim_table
from citus_analysis.runner.systems.state.passwords import monitor_password, password_in_use
from citus_analysis.runner.systems.state.server_settings import (
    alter_system,
    check_in_force,
    check_settable,
    common_settings,
    read_by_node,
)
from citus_analysis.runner.systems.state.shards import (
    default_shard_count,
    groups_with_shards,
    let_group_have_shards,
    make_distributed_table,
    read_placements,
)
from citus_analysis.runner.systems.state.task_level import TaskLevel, level_of, probe_task_level
from citus_analysis.runner.systems.system import ConnectionInfo, Description, LogMark, Node

__all__ = ["CAPABILITIES", "Capabilities", "Cluster"]


_LOGS_WAY_OUT: Final = (
    "a monitored run needs the server logs: GRANT pg_monitor and pg_read_server_files TO target.user and EXECUTE ON "
    "FUNCTION pg_current_logfile, pg_read_binary_file and pg_stat_file, or read them from a folder with "
    "nodes[].log_directory, or set target.collect_logs: false and add the logs by hand"
)


@dataclass(frozen=True)
class Capabilities:
    """What can be asked of a system."""

    server_logs: bool
    roles: bool
    settings: bool
    truncate: bool
    locks: bool = True


CAPABILITIES: Final[dict[str, Capabilities]] = {
    "citus": Capabilities(server_logs=True, roles=True, settings=True, truncate=True),
    "postgresql": Capabilities(server_logs=True, roles=True, settings=True, truncate=True),
    "aurora": Capabilities(server_logs=False, roles=True, settings=False, truncate=True),
    "spanner": Capabilities(server_logs=False, roles=False, settings=False, truncate=False, locks=False),
}


class Cluster:
    """Servers of somebody else's: used, never started, stopped or removed.

    Args:
        target: its part of the experiment file.
        experiment: the experiment.
        private: folder on disk that outlives this process: it keeps what the cluster was like.
        replace_table: drop a table of the benchmark's name that this tool did not make.

    Raises:
        RunnerError: the first node does not answer, or a setting of the matrix cannot be set.
    """

    def __init__(
        self, target: ClusterTarget, experiment: Experiment, private: Path, *, replace_table: bool = False
    ) -> None:
        self._target, self._monitor = target, experiment.monitor
        self._replace_table = replace_table
        self._can = CAPABILITIES[target.system]
        self._all = self._discover()
        self._check_settings(experiment.matrix.settings)
        self._lock = ClusterLock(self._all[0], target.database, target.user)
        self._found = Found(private / FILE_NAME, self._all[0], target.database, target.user)
        self._readers = self._log_readers(self._all)
        self._unread: dict[str, str] = {}
        self._workers_in_use = len(self._workers())
        self._asked: dict[str, str] = {}
        self._relation: str | None = TABLE
        self._passwords: dict[str, str | None] = {}
        self._shells: dict[tuple[str, str], tuple[str, Shell]] = {}
        self._growths = GrowthLog(Journal(private / "growths.jsonl"))
        self._adding_s: list[float] = []  # of the workers that this run's growth added
        self._emptied: str | None = None
        self._monitored = False
        self._task_level: TaskLevel | None = None

    @property
    def system(self) -> str:
        """As the experiment file names it."""
        return self._target.system

    def prepare(self, configuration: Configuration) -> None:
        """The cluster for this run alone, its settings in force on every node, its shards on the workers asked for."""
        if self._can.locks:
            self._lock.hold()
        if self.system == "citus":
            self._add_workers(configuration.workers)
            self._workers_in_use = configuration.workers
        self._check_logs(monitored=configuration.monitored)
        self._set({name: setting_text(value) for name, value in configuration.settings})
        self._relation = None if configuration.own_tables else TABLE
        self._emptied = None
        self._monitored = configuration.monitored
        with self._connection() as connection:
            if configuration.own_tables:
                if self.system == "citus":
                    self._let_workers_have_shards(connection, configuration.workers)
                return
            if self._can.locks:
                claim_table(connection, replace=self._replace_table)
            if self.system == "citus":
                self._spread_table(connection, configuration.workers)
            else:
                sql.make_table(connection, mark=self._can.locks)

    def nodes(self) -> list[Node]:
        """Coordinator first, then the workers in use."""
        coordinator = [node for node in self._all if node.role == "coordinator"]
        return [*coordinator, *self._workers()[: self._workers_in_use]]

    def clients_connect(self, user: str | None = None) -> ConnectionInfo:
        """The nodes that `connect_to` names."""
        nodes = self.nodes()
        workers = [node for node in nodes if node.role == "worker"]
        chosen = {"workers": workers or nodes, "coordinator": nodes[:1], "all": nodes}[self._target.connect_to]
        role = user or self._target.user
        return ConnectionInfo(chosen, self._target.database, role, self._password(role, chosen))

    def connect(self, node: Node) -> sql.Connecting:
        """A session as the user of the experiment."""
        return self._connection(node)

    def describe(self) -> Description:
        """Versions and settings of the first node, the matrix' settings of every node, and the table's placements."""
        with self._connection() as connection:
            version = str(sql.query(connection, "SELECT version()")[0][0])
            settings = sql.read_settings(connection) if self._can.settings else {}
            citus = sql.query(connection, "SELECT citus_version()") if self.system == "citus" else []
            shards = read_placements(connection, self._relation) if self.system == "citus" else []
            is_probed = self._monitored and self.system == "citus"
            self._task_level = probe_task_level(connection, self._relation) if is_probed else None
        by_node = read_by_node(self._all, self._asked, self._connection)
        facts = {"system": self.system, "postgres_version": version}
        return Description(
            {**facts, "citus_version": str(citus[0][0])} if citus else facts,
            {**settings, **common_settings(by_node)},
            self._skipped(),
            settings_by_node=by_node,
            shards=shards,
            growth=self._growths.last() if self._target.growth == "rebalance" else None,
            task_level=self._task_level,
        )

    def settle(self, steps: Sequence[str]) -> None:
        """VACUUM of the table, which Citus hands on to its workers, and CHECKPOINT of every node in use."""
        sql.settle(self._connection, self.nodes(), steps)

    def fill(self, records: int) -> None:
        """COPY the records into the emptied table."""
        with self._connection() as connection:
            self._emptied = empty_table(connection, truncate=self._can.truncate)
            sql.fill_table(connection, records, maintain=self._can.truncate)

    def remarks(self) -> list[str]:
        """How the table was emptied where TRUNCATE could not do it."""
        return [self._emptied] if self._emptied else []

    def count(self) -> int:
        """Rows of the table."""
        with self._connection() as connection:
            return sql.count_rows(connection)

    def set_monitor(self, monitor: Monitor) -> None:
        """Role with logging; Citus hands both on to its workers."""
        if self._can.roles:
            with self._connection() as connection:
                level = level_of(monitor, self._task_level) if self.system == "citus" else None
                password = monitor_password(monitor)
                sql.make_monitor_role(connection, monitor, password, level=level, relation=self._relation)
        self.clients_connect(monitor.role)  # a role that cannot log in is found out before clients start

    def mark_logs(self) -> dict[str, LogMark]:
        """Where the readable server logs stand."""
        return {name: reader.mark() for name, reader in self._readers_in_use().items() if name not in self._unread}

    def copy_log(self, node: str, mark: LogMark, destination: Path) -> None:
        """What the node logged since the mark."""
        self._readers[node].copy_since(mark, destination)

    def stop(self) -> list[str]:
        """Put settings and nodes back as they were found, each node by itself."""
        for reader in self._readers.values():
            reader.close()
        for _node, shell in self._shells.values():
            shell.close()
        if self._found.is_empty:
            self._lock.release()
            return []
        try:
            return restore_under(self._lock, self._found)
        except ClusterInUseError as error:
            return [f"not restored: {error}"]

    def _readers_in_use(self) -> dict[str, LogReader]:
        names = {node.name for node in self.nodes()}
        return {name: reader for name, reader in self._readers.items() if name in names}

    def _check_logs(self, *, monitored: bool) -> None:
        """Only a monitored run needs the logs; without them, another one says so and goes on."""
        self._unread = {}
        for name, reader in self._readers_in_use().items():
            try:
                reader.mark()
            except RunnerError as error:
                if monitored:
                    raise RunnerError(error.problem, path=error.path, way_out=_LOGS_WAY_OUT) from error
                self._unread[name] = error.problem

    def _password(self, role: str, nodes: Sequence[Node]) -> str | None:
        if role not in self._passwords:
            is_monitor = role == self._monitor.role
            self._passwords[role] = password_in_use(
                nodes,
                database=self._target.database,
                user=role,
                password=monitor_password(self._monitor) if is_monitor else None,
                way_out="monitor.login_env or monitor.login_file" if is_monitor else "PGPASSWORD or PGPASSFILE",
            )
        return self._passwords[role]

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

    def _log_readers(self, nodes: Sequence[Node]) -> dict[str, LogReader]:
        if not (self._can.server_logs and self._target.collect_logs):
            return {}
        return {node.name: make_log_reader(node, self._address(node), self._target) for node in nodes}

    def _add_workers(self, workers: int) -> None:
        """Workers that the run needs beyond those of the cluster, where the experiment may add some."""
        self._adding_s = []
        lacking = workers - len(self._workers())
        if lacking <= 0 or not self._target.add_nodes:
            return
        with self._connection() as connection:
            for address in unlisted_workers(self._target, connection)[:lacking]:
                self._found.note_added(address.host, address.port)
                self._adding_s.append(add_worker(connection, address))
        self._all = self._discover()
        self._readers |= self._log_readers([node for node in self._all if node.name not in self._readers])

    def _spread_table(self, connection: sql.Connection, workers: int) -> None:
        """The first workers carry the table's shards, no other node does; without workers, the coordinator does."""
        groups = self._let_workers_have_shards(connection, workers)
        shard_count = self._shard_count(connection, len(groups))
        placed = read_placements(connection)
        if self._target.growth == "rebalance" and can_grow(placed, shard_count=shard_count, groups=groups):
            grown = rebalance(connection)
            self._growths.grown(replace(grown, nodes_added=len(self._adding_s), adding_s=sum(self._adding_s)))
        if make_distributed_table(connection, shard_count=shard_count, groups=groups):
            self._growths.made_anew()

    def _shard_count(self, connection: sql.Connection, carriers: int) -> int:
        if self._target.shards_per_worker:
            return self._target.shards_per_worker * carriers
        return self._target.shard_count or default_shard_count(connection)

    def _let_workers_have_shards(self, connection: sql.Connection, workers: int) -> list[int]:
        """The first workers may have shards of new tables, no other node may; the groups of those that may."""
        available = self._workers()
        if workers > len(available):
            raise RunnerError(
                f"{workers} workers asked for, the cluster has {len(available)}",
                way_out="correct matrix.workers, or list further nodes and set target.add_nodes: true",
            )
        carriers = available[:workers] or self._all[:1]
        groups = [node.groupid for node in carriers if node.groupid is not None]
        # Those that are to have shards come first: Citus wants one such node at any time.
        for groupid, allowed in sorted(groups_with_shards(connection).items(), key=lambda item: item[0] not in groups):
            if allowed != (groupid in groups):
                self._found.note_group(groupid, allowed)
                let_group_have_shards(connection, groupid, groupid in groups)
        return groups

    def _check_settings(self, settings: Mapping[str, object]) -> None:
        if settings and (self._target.reload_with != "alter_system" or not self._can.settings):
            raise RunnerError(
                "the matrix varies server settings, which this target may not set",
                way_out="set target.reload_with: alter_system, or vary them between experiments",
            )
        for node in self._all if settings else ():
            with self._connection(node) as connection:
                check_settable(connection, node, settings)

    def _set(self, settings: Mapping[str, str]) -> None:
        self._asked = dict(settings)
        for node in self._all if settings else ():
            self._found.note_settings(node, settings)
            with self._connection(node) as connection:
                alter_system(connection, settings)
            with self._connection(node) as connection:
                check_in_force(connection, node, settings)

    def _skipped(self) -> tuple[str, ...]:
        missing = {
            "server logs: give exports of the service as files": self._can.server_logs,
            "the monitor role: the service has no role settings": self._can.roles,
            "server settings: the service does not let them be changed": self._can.settings,
        }
        lacking = [f"{self.system} has no {what}" for what, there in missing.items() if not there]
        unread = [f"the server log of node {name} is not collected: {why}" for name, why in self._unread.items()]
        return (*lacking, *unread)


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
