"""The embedded target: PostgreSQL on this machine, without a previous installation.

If the `citus` extension is installed with the programs, the target is a cluster of one coordinator and N workers, each
a server of its own; without it, a single server (`workers: [0]`).
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from citus_analysis.errors import RunnerError
from citus_analysis.formats.config import format_server_setting
from citus_analysis.runner import connections as sql
from citus_analysis.runner.cluster import FolderLogs
from citus_analysis.runner.experiment import LOG_LINE_PREFIX, EmbeddedTarget, Monitor, Setting
from citus_analysis.runner.hosts import LocalShell, Processes, Shell
from citus_analysis.runner.plan import Configuration
from citus_analysis.runner.programs import (
    ServerPrograms,
    choose_server_account,
    copy_for_account,
    find_programs,
    is_usable_by_others,
)
from citus_analysis.runner.server_settings import find_common_settings, read_by_node, read_recorded_settings
from citus_analysis.runner.shard_placement import make_distributed_table, read_default_shard_count, read_placements
from citus_analysis.runner.system import ConnectionInfo, Description, LogMark, ServerNode
from citus_analysis.runner.target import Target
from citus_analysis.runner.task_log_level import determine_task_level, probe_task_level
from citus_analysis.runner.truncation import empty_table
from citus_analysis.runner.workloads import TABLE

# One PostgreSQL server of the runner: create its data directory, configure, start, stop and remove it.

LOOPBACK: Final = "127.0.0.1"
SUPERUSER: Final = "postgres"

_BASE_SETTINGS: Final[Mapping[str, Setting]] = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "fsync": "on",
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_line_prefix": LOG_LINE_PREFIX,
    "log_timezone": "UTC",
    "timezone": "UTC",
    "log_checkpoints": "on",
    "log_lock_waits": "on",
    "log_autovacuum_min_duration": 0,
}
_TIMEOUT_S: Final = 120


@dataclass(frozen=True)
class OwnServer:
    """A server in a folder of the runner.

    While it runs, every user of this machine can connect to it over loopback without a password. It contains generated
    data only, and no secret is needed on the clients' command lines.
    """

    programs: ServerPrograms
    folder: Path
    port: int

    @property
    def data(self) -> Path:
        """Its data directory."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """Its log."""
        return self.folder / "server.log"

    def initialise(self, settings: Mapping[str, Setting]) -> None:
        """Delete the content of the folder, and create and configure the data directory."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        account = choose_server_account()
        if account:
            shutil.chown(self.folder, account)
        self._run("initdb", "--auth=trust", "--encoding=UTF8", "--no-sync", "-U", SUPERUSER, "-D", self.data)
        self.configure(settings)

    def configure(self, settings: Mapping[str, Setting]) -> None:
        """Write the settings, which take effect at the next start."""
        stated = {**_BASE_SETTINGS, "port": self.port, **settings}
        quoted = {name: format_server_setting(value).replace("'", "''") for name, value in stated.items()}
        with (self.data / "postgresql.auto.conf").open("w", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in quoted.items())
            file.flush()
            os.fsync(file.fileno())

    def start(self) -> None:
        """Start it and wait until it accepts connections.

        Raises:
            RunnerError: it did not start; the message ends with the last line of its log.
        """
        self._run("pg_ctl", "start", "--wait", "--silent", "-D", self.data, "-l", self.log)

    def stop(self, mode: str = "fast") -> None:
        """Stop it if it runs."""
        if (self.data / "postmaster.pid").exists():
            with suppress(RunnerError):
                self._run("pg_ctl", "stop", "--wait", "--silent", "-m", mode, "-D", self.data)

    def remove(self) -> None:
        """Stop it at once and delete its folder."""
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str | Path) -> None:
        try:
            subprocess.run(
                [self.programs[program], *arguments],
                check=True,
                stdin=subprocess.DEVNULL,
                # The server inherits these: with a pipe, this call would wait until the server ends.
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self.folder,
                env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
                user=choose_server_account(),
                timeout=_TIMEOUT_S,
                start_new_session=True,
            )
        except (subprocess.SubprocessError, OSError) as error:
            problem, path = f"{program} failed: {self._last_words() or error}", self.log
            hint = "free the port or memory it names, or choose another PostgreSQL with target.postgres"
            raise RunnerError(problem, path=path if path.exists() else self.folder, hint=hint) from error

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            return next((line for line in reversed(lines) if "FATAL" in line or "ERROR" in line), "")
        return ""


def find_free_port() -> int:
    """A TCP port on loopback that is free at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


_CITUS_SETTINGS: Final[dict[str, Setting]] = {
    "shared_preload_libraries": "citus",
    "wal_level": "logical",
    "max_prepared_transactions": 600,
    "citus.node_conninfo": "sslmode=disable",
}
_ELSEWHERE: Final = "elsewhere.txt"
_TEMPORARY: Final = "citus-analysis-"


class Embedded(Target):
    """Servers that exist as long as the experiment.

    Args:
        target: its part of the experiment file.
        folder: folder for data directories; if the server's account cannot access it, a temporary folder is used.
    """

    def __init__(self, target: EmbeddedTarget, folder: Path) -> None:
        self._target = target
        self._home = folder
        programs = find_programs(target.postgres, target.version)
        _remove_servers(programs, folder)
        self._folder = _make_reachable_folder(folder)
        self.programs = copy_for_account(programs, self._folder / "programs")
        self._servers: list[OwnServer] = []
        self._prepared: tuple[int, dict[str, Setting]] | None = None
        self._asked: tuple[str, ...] = ()
        self._relation: str | None = TABLE

    @property
    def system(self) -> str:
        """`citus` if the cluster has workers, else `postgresql`."""
        return "citus" if len(self._servers) > 1 else "postgresql"

    def prepare(self, configuration: Configuration) -> None:
        """Start servers with the configuration's number of workers and settings."""
        of_citus = _CITUS_SETTINGS if configuration.workers else {}
        settings = {**of_citus, **self._target.settings, **dict(configuration.settings)}
        if configuration.workers and not self.programs.has_extension("citus"):
            here = f"PostgreSQL {self.programs.version} in {self.programs.folder}"
            problem = f"{configuration.workers} workers need the citus extension, which {here} does not have"
            hint = "use workers: [0], or name a PostgreSQL that has it with target.postgres"
            raise RunnerError(problem, hint=hint)
        self._asked = tuple(name for name, _ in configuration.settings)
        if self._prepared != (configuration.workers, settings) or not self._answer():
            self._serve(configuration.workers, settings)
        self._relation = None if configuration.own_tables else TABLE
        if self._relation:
            with self.connect() as connection:
                if self.system == "citus":
                    workers = [node.groupid for node in self.nodes()[1:] if node.groupid is not None]
                    make_distributed_table(connection, shard_count=read_default_shard_count(connection), groups=workers)
                else:
                    sql.make_table(connection)

    def nodes(self) -> list[ServerNode]:
        """The coordinator (or the only server) as `0`, then the workers."""
        if len(self._servers) == 1:
            return [ServerNode("0", LOOPBACK, self._servers[0].port, "coordinator")]
        # citus_set_coordinator_host is called first, so node ids begin at 1 in this order.
        return [
            ServerNode(str(number), LOOPBACK, server.port, "worker" if number else "coordinator", number + 1, number)
            for number, server in enumerate(self._servers)
        ]

    def clients_connect(self, user: str | None = None) -> ConnectionInfo:
        """Connection to the workers if there are any, else to the single server."""
        nodes = self.nodes()
        return ConnectionInfo(nodes[1:] or nodes, SUPERUSER, user or SUPERUSER)

    def connect(self, node: ServerNode | None = None) -> sql.Connecting:
        """A session as the superuser."""
        return sql.connect(node or self.nodes()[0], database=SUPERUSER, user=SUPERUSER)

    def describe(self) -> Description:
        """Versions, settings and this machine's size."""
        with self.connect() as connection:
            version = str(sql.query(connection, "SELECT version()")[0][0])
            settings = sql.read_settings(connection)
            shards = read_placements(connection, self._relation) if self.system == "citus" else []
        by_node = read_by_node(self.nodes(), self._asked, self.connect)
        recorded = read_recorded_settings(self.nodes(), self.connect)
        memory_gib = round(psutil.virtual_memory().total / 2**30)
        return Description(
            {
                "system": self.system,
                "postgres_version": version,
                "hardware": f"{platform.machine()}, {os.cpu_count()} cores, {memory_gib} GiB memory; "
                "all servers and load generators on one machine",
                "filesystem": _get_filesystem_type(self._folder),
            },
            {**settings, **find_common_settings(by_node)},
            settings_by_node=by_node,
            recorded=recorded,
            shards=shards,
        )

    def fill(self, records: int) -> None:
        """COPY the records in."""
        with self.connect() as connection:
            empty_table(connection)
            sql.fill_table(connection, records)

    def set_monitor(self, monitor: Monitor) -> None:
        """Create the role with logging, on every node."""
        with self.connect() as connection:
            level = (
                determine_task_level(monitor, probe_task_level(connection, self._relation))
                if self.system == "citus"
                else None
            )
            sql.make_monitor_role(connection, monitor, level=level, relation=self._relation)

    def shells(self, processes: Processes) -> Mapping[str, Shell]:
        """A shell of this machine, under the name of the first server, because all servers share the machine."""
        return {self.nodes()[0].name: LocalShell(processes)}

    def mark_logs(self) -> dict[str, LogMark]:
        """Server -> current end of its log."""
        return {str(number): FolderLogs(server.folder).mark() for number, server in enumerate(self._servers)}

    def copy_log(self, node: str, mark: LogMark, destination: Path) -> list[str]:
        """Copy the part of the log after the mark."""
        return FolderLogs(self._servers[int(node)].folder).copy_since(mark, destination)

    def stop(self) -> list[str]:
        """Stop the servers and remove their folders; there is nothing to restore."""
        self._servers, self._prepared = [], None
        _remove_servers(self.programs, self._home)
        return []

    def _serve(self, workers: int, settings: dict[str, Setting]) -> None:
        if self._prepared is None or self._prepared[0] != workers:
            self._make(workers, settings)
        else:
            for server in self._servers:
                server.stop()
                server.configure(settings)
                server.start()
        self._prepared = (workers, settings)

    def _make(self, workers: int, settings: dict[str, Setting]) -> None:
        for server in reversed(self._servers):
            server.remove()
        self._servers = []
        for number in range(workers + 1):
            server = OwnServer(self.programs, self._folder / f"node-{number}", find_free_port())
            server.initialise(settings)
            server.start()
            self._servers.append(server)
        if workers:
            self._join()

    def _join(self) -> None:
        for node in self.nodes():
            with self.connect(node) as connection:
                sql.query(connection, "CREATE EXTENSION citus")
        coordinator, *workers = self.nodes()
        with self.connect() as connection:
            sql.query(connection, "SELECT citus_set_coordinator_host(%s, %s)", coordinator.host, coordinator.port)
            for worker in workers:
                sql.query(connection, "SELECT citus_add_node(%s, %s)", worker.host, worker.port)

    def _answer(self) -> bool:
        try:
            for node in self.nodes():
                with self.connect(node) as connection:
                    sql.query(connection, "SELECT 1")
        except RunnerError:
            # A server that died in the run before is made again.
            self._prepared = None
            return False
        return True


def _make_reachable_folder(folder: Path) -> Path:
    """The folder, or a temporary one if the server's account cannot access it, whose path is recorded in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if choose_server_account() is None or is_usable_by_others(folder):
        return folder
    temporary = Path(tempfile.mkdtemp(prefix=_TEMPORARY))
    (folder / _ELSEWHERE).write_text(str(temporary), encoding="utf-8")
    temporary.chmod(0o755)
    return temporary


def _remove_servers(programs: ServerPrograms, folder: Path) -> None:
    """Stop and remove the servers in the folder, of this runner or of a killed one before it."""
    places, pointer = [folder], folder / _ELSEWHERE
    if pointer.exists():
        # The recorded temporary folder, if its name is one of ours, because the tree may have another origin.
        recorded = Path(pointer.read_text(encoding="utf-8"))
        if recorded.name.startswith(_TEMPORARY) and ".." not in recorded.parts:
            places.insert(0, recorded)
    for place in places:
        for node in place.glob("node-*"):
            OwnServer(programs, node, port=0).remove()
        shutil.rmtree(place, ignore_errors=True)


def _get_filesystem_type(folder: Path) -> str:
    """Type of the file system of the data, on which the cost of fsync depends."""
    mounts = sorted(psutil.disk_partitions(all=True), key=lambda mount: len(mount.mountpoint), reverse=True)
    resolved = str(folder.resolve())
    return next((mount.fstype for mount in mounts if resolved.startswith(mount.mountpoint)), "unknown")
