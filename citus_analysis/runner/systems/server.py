"""One PostgreSQL server of the runner: create its data directory, configure, start, stop and remove it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from citus_analysis.errors import RunnerError
from citus_analysis.runner.experiment_file.fields import Setting, setting_text
from citus_analysis.runner.experiment_file.target_fields import LOG_LINE_PREFIX
from citus_analysis.runner.systems.programs import ServerPrograms, server_account

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
        account = server_account()
        if account:
            shutil.chown(self.folder, account)
        self._run("initdb", "--auth=trust", "--encoding=UTF8", "--no-sync", "-U", SUPERUSER, "-D", self.data)
        self.configure(settings)

    def configure(self, settings: Mapping[str, Setting]) -> None:
        """Write the settings, which take effect at the next start."""
        stated = {**_BASE_SETTINGS, "port": self.port, **settings}
        quoted = {name: setting_text(value).replace("'", "''") for name, value in stated.items()}
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
                user=server_account(),
                timeout=_TIMEOUT_S,
                start_new_session=True,
            )
        except (subprocess.SubprocessError, OSError) as error:
            problem, path = f"{program} failed: {self._last_words() or error}", self.log
            way_out = "free the port or memory it names, or choose another PostgreSQL with target.postgres"
            raise RunnerError(problem, path=path if path.exists() else self.folder, way_out=way_out) from error

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            return next((line for line in reversed(lines) if "FATAL" in line or "ERROR" in line), "")
        return ""


def free_port() -> int:
    """A TCP port on loopback that is free at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
