"""The cluster target: existing servers, accessed over SQL; they are never started, stopped or removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from citus_analysis.errors import RunnerError
from citus_analysis.runner.experiment_file.capabilities import CAPABILITIES
from citus_analysis.runner.experiment_file.experiment import Experiment
from citus_analysis.runner.experiment_file.fields import setting_text
from citus_analysis.runner.experiment_file.measuring import Monitor
from citus_analysis.runner.experiment_file.target_fields import ClusterTarget
from citus_analysis.runner.hosts.processes import Processes
from citus_analysis.runner.hosts.shells import LocalShell, Shell, open_shell
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.planning.core_workloads import TABLE
from citus_analysis.runner.planning.plan import Configuration
from citus_analysis.runner.systems import connections as sql
from citus_analysis.runner.systems.cluster_logs import ClusterLogs
from citus_analysis.runner.systems.cluster_nodes import address_of, discover_nodes
from citus_analysis.runner.systems.state.emptying import empty_table
from citus_analysis.runner.systems.state.found import FILE_NAME, Found, restore_under
from citus_analysis.runner.systems.state.ownership import ClusterInUseError, ClusterLock, claim_table
from citus_analysis.runner.systems.state.passwords import monitor_password, password_in_use
from citus_analysis.runner.systems.state.server_settings import (
    alter_system,
    check_in_force,
    check_settable,
    common_settings,
    read_by_node,
)
from citus_analysis.runner.systems.state.shards import read_placements
from citus_analysis.runner.systems.state.spreading import TableSpread
from citus_analysis.runner.systems.state.task_level import TaskLevel, level_of, probe_task_level
from citus_analysis.runner.systems.system import ConnectionInfo, Description, LogMark, Node
from citus_analysis.runner.systems.target import Target


class Cluster(Target):
    """A cluster that this tool did not start, and whose former state is restored at the end.

    Args:
        target: its part of the experiment file.
        experiment: the experiment.
        private: folder on disk that outlives this process; it records the cluster's former state.
        replace_table: drop a table of the benchmark's name that this tool did not create.

    Raises:
        RunnerError: the first node does not answer, or a setting of the matrix cannot be set.
    """

    def __init__(
        self, target: ClusterTarget, experiment: Experiment, private: Path, *, replace_table: bool = False
    ) -> None:
        self._target, self._monitor = target, experiment.monitor
        self._replace_table = replace_table
        self._can = CAPABILITIES[target.system]
        self._all = discover_nodes(target)
        self._check_settings(experiment.matrix.settings)
        self._lock = ClusterLock(self._all[0], target.database, target.user)
        self._found = Found(private / FILE_NAME, self._all[0], target.database, target.user)
        self._logs = ClusterLogs(target, is_readable=self._can.server_logs)
        self._logs.add(self._all)
        self._workers_in_use = len(self._workers())
        self._asked: dict[str, str] = {}
        self._relation: str | None = TABLE
        self._passwords: dict[str, str | None] = {}
        self._shells: dict[tuple[str, str], tuple[str, Shell]] = {}
        self._spread = TableSpread(target, self._found, Journal(private / "growths.jsonl"))
        self._emptied: str | None = None
        self._monitored = False
        self._task_level: TaskLevel | None = None

    @property
    def system(self) -> str:
        """Name of the system, as in the experiment file."""
        return self._target.system

    def prepare(self, configuration: Configuration) -> None:
        """Reserve the cluster for this run, set its settings on every node, and place its shards on its workers."""
        if self._can.locks:
            self._lock.hold()
        if self.system == "citus":
            self._add_workers(configuration.workers)
            self._workers_in_use = configuration.workers
        self._logs.check(self.nodes(), monitored=configuration.monitored)
        self._set({name: setting_text(value) for name, value in configuration.settings})
        self._relation = None if configuration.own_tables else TABLE
        self._emptied = None
        self._monitored = configuration.monitored
        with self.connect() as connection:
            if configuration.own_tables:
                if self.system == "citus":
                    self._spread.let_workers_have_shards(connection, self._all, configuration.workers)
                return
            if self._can.locks:
                claim_table(connection, replace=self._replace_table)
            if self.system == "citus":
                self._spread.spread_table(connection, self._all, configuration.workers)
            else:
                sql.make_table(connection, mark=self._can.locks)

    def nodes(self) -> list[Node]:
        """The coordinator, then the workers in use."""
        coordinator = [node for node in self._all if node.role == "coordinator"]
        return [*coordinator, *self._workers()[: self._workers_in_use]]

    def clients_connect(self, user: str | None = None) -> ConnectionInfo:
        """Connection to the nodes that `connect_to` names."""
        nodes = self.nodes()
        workers = [node for node in nodes if node.role == "worker"]
        chosen = {"workers": workers or nodes, "coordinator": nodes[:1], "all": nodes}[self._target.connect_to]
        role = user or self._target.user
        return ConnectionInfo(chosen, self._target.database, role, self._password(role, chosen))

    def connect(self, node: Node | None = None) -> sql.Connecting:
        """A session as the user of the experiment."""
        return sql.connect(node or self._all[0], database=self._target.database, user=self._target.user)

    def describe(self) -> Description:
        """Versions and settings of the first node, the matrix' settings of every node, and the table's placements."""
        with self.connect() as connection:
            version = str(sql.query(connection, "SELECT version()")[0][0])
            settings = sql.read_settings(connection) if self._can.settings else {}
            citus = sql.query(connection, "SELECT citus_version()") if self.system == "citus" else []
            shards = read_placements(connection, self._relation) if self.system == "citus" else []
            is_probed = self._monitored and self.system == "citus"
            self._task_level = probe_task_level(connection, self._relation) if is_probed else None
        by_node = read_by_node(self._all, self._asked, self.connect)
        facts = {
            "system": self.system,
            "postgres_version": version,
            "citus_version": str(citus[0][0]) if citus else None,
            "hardware": self._target.hardware,
            "cpu_per_node": self._target.cpu_per_node,
        }
        return Description(
            {name: value for name, value in facts.items() if value is not None},
            {**settings, **common_settings(by_node)},
            (*(f"{self.system} has no {phrase}" for phrase in self._can.missing()), *self._logs.skipped()),
            settings_by_node=by_node,
            shards=shards,
            growth=self._spread.growth(),
            task_level=self._task_level,
        )

    def fill(self, records: int) -> None:
        """COPY the records into the emptied table."""
        with self.connect() as connection:
            self._emptied = empty_table(connection, truncate=self._can.truncate)
            sql.fill_table(connection, records, maintain=self._can.truncate)

    def remarks(self) -> list[str]:
        """A remark if the table was emptied without TRUNCATE."""
        return [self._emptied] if self._emptied else []

    def set_monitor(self, monitor: Monitor) -> None:
        """Create the monitor role and its log settings; Citus propagates both to its workers."""
        if self._can.roles:
            with self.connect() as connection:
                level = level_of(monitor, self._task_level) if self.system == "citus" else None
                password = monitor_password(monitor)
                sql.make_monitor_role(connection, monitor, password, level=level, relation=self._relation)
        self.clients_connect(monitor.role)  # fails here, before clients start, if the role cannot log in

    def shells(self, processes: Processes) -> Mapping[str, Shell]:
        """This machine for nodes with `shell: local`, an ssh connection for those with `shell: ssh`; one per host."""
        for node in self.nodes():
            address = address_of(node, self._target)
            if address and address.shell != "none" and (address.host, address.shell) not in self._shells:
                shell = LocalShell(processes) if address.shell == "local" else open_shell(address)
                self._shells[address.host, address.shell] = node.name, shell
        return dict(self._shells.values())

    def mark_logs(self) -> dict[str, LogMark]:
        """Node name -> current end of its server log, for readable logs."""
        return self._logs.mark(self.nodes())

    def copy_log(self, node: str, mark: LogMark, destination: Path) -> None:
        """Copy the lines that the node logged after the mark."""
        self._logs.copy_since(node, mark, destination)

    def stop(self) -> list[str]:
        """Restore the former settings and nodes, one node after the other."""
        self._logs.close()
        for _, shell in self._shells.values():
            shell.close()
        if self._found.is_empty:
            self._lock.release()
            return []
        try:
            return restore_under(self._lock, self._found)
        except ClusterInUseError as error:
            return [f"not restored: {error}"]

    def _password(self, role: str, nodes: Sequence[Node]) -> str | None:
        if role not in self._passwords:
            self._passwords[role] = password_in_use(nodes, self._target, self._monitor, role)
        return self._passwords[role]

    def _workers(self) -> list[Node]:
        return [node for node in self._all if node.role == "worker"]

    def _add_workers(self, workers: int) -> None:
        """Add the workers that the run needs and the cluster lacks, if the experiment may add nodes."""
        self._spread.begin()
        lacking = workers - len(self._workers())
        if lacking <= 0 or not self._target.add_nodes:
            return
        with self.connect() as connection:
            self._spread.add_workers(connection, lacking)
        self._all = discover_nodes(self._target)
        self._logs.add(self._all)

    def _check_settings(self, settings: Mapping[str, object]) -> None:
        if settings and (self._target.reload_with != "alter_system" or not self._can.settings):
            problem = "the matrix varies server settings, but the runner may not change those of this target"
            way_out = "set target.reload_with: alter_system, or vary them between experiments"
            raise RunnerError(problem, way_out=way_out)
        for node in self._all if settings else ():
            with self.connect(node) as connection:
                check_settable(connection, node, settings)

    def _set(self, settings: Mapping[str, str]) -> None:
        self._asked = dict(settings)
        for node in self._all if settings else ():
            self._found.note_settings(node, settings)
            with self.connect(node) as connection:
                alter_system(connection, settings)
            with self.connect(node) as connection:
                check_in_force(connection, node, settings)
