"""The YCSB driver: the real client of an installation, one Java process per load generator.

All properties are given explicitly, so that results do not depend on the installation's workload files. The password
never appears in the process list or in YCSB's own output (which prints its command line): YCSB reads it from a
properties file that only the runner's account can read, and which the runner removes. On another host no file is
needed: there YCSB reads the property from its standard input.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

from citus_analysis.errors import RunnerError
from citus_analysis.runner.driver import LOGIN_FILE, Command, Driver, Work, write_private
from citus_analysis.runner.experiment import (
    YcsbDriver,
)
from citus_analysis.runner.hosts import Launched, Processes
from citus_analysis.runner.records import find_newest_match
from citus_analysis.runner.system import ConnectionInfo
from citus_analysis.runner.workloads import (
    CORE_WORKLOADS,
    TABLE,
)

_STATUS: Final = re.compile(rb"operations; ([\d.]+) current ops/sec")
_STATUS_INTERVAL_S: Final = 1
_MOST_DRAWS: Final = 50  # per operation; some ten microseconds
_LEAST_OPS_S_PER_THREAD: Final = 1e9 / (2**31 - 1)  # ClientThread casts the nanoseconds between two operations to int
_STANDARD_INPUT: Final = Path("/dev/stdin")
_BINDING_LIBRARIES: Final = "jdbc-binding/lib/*"  # Java expands the star
_CLIENT: Final = "site.ycsb.Client"
_JDBC_BINDING: Final = "site.ycsb.db.JdbcDBClient"
_JDBC_DRIVER: Final = "org.postgresql.Driver"
_SHARE_PROPERTY: Final = {
    operation: f"{operation.replace('-', '').lower()}proportion"
    for operation in ("READ", "UPDATE", "INSERT", "SCAN", "READ-MODIFY-WRITE")
}
#: For a monitor with a time limit, which it reaches a moment after the main clients, to print its latencies; with nodes
#: held to a share of a processor, 3 % of the monitors needed more than a second.
_YCSB_GRACE_S: Final = 4.0


def _list_library_folders(home: Path) -> list[Path]:
    """The folders of jar files of an installation."""
    return [home / "lib", *sorted(home.glob("*-binding/lib"))]


def find_missing_classes(settings: YcsbDriver) -> list[str]:
    """The classes that no jar file of the installation has: the database binding, and the driver that it loads."""
    needed = [settings.binding, *([_JDBC_DRIVER] if settings.binding == _JDBC_BINDING else [])]
    wanted = {f"{name.replace('.', '/')}.class": name for name in needed}
    for jar in (jar for folder in _list_library_folders(settings.home) for jar in sorted(folder.glob("*.jar"))):
        with suppress(BadZipFile, OSError), ZipFile(jar) as content:
            for found in wanted.keys() & set(content.namelist()):
                del wanted[found]
    return list(wanted.values())


class YcsbProgram(Driver):
    """Builds calls of YCSB's client.

    Args:
        settings: its part of the experiment file.

    Raises:
        RunnerError: the installation has no client library.
    """

    def __init__(self, settings: YcsbDriver) -> None:
        self._settings = settings
        if not settings.hosts and not any(settings.home.glob("lib/core-*.jar")):
            hint = "unpack YCSB 0.17.0 and name its folder in driver.home"
            raise RunnerError("no YCSB installation: lib/core-*.jar is missing", path=settings.home, hint=hint)

    def command(self, work: Work, connection: ConnectionInfo, folder: Path) -> Command:
        """One Java process; on this machine, a properties file with the password is written into `folder`."""
        # A value of a Java properties file.
        escaped = (connection.password or "").replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        private = f"db.passwd={escaped}\n"
        environment = {"LC_ALL": "C", "TZ": "UTC"}
        if not self._settings.hosts:
            secret = folder / LOGIN_FILE
            write_private(secret, private)
            home = self._settings.home
            classpath = [f"{home / 'conf'}", *(f"{folder / '*'}" for folder in _list_library_folders(home))]
            arguments = ["java", *self._arguments(work, connection, classpath, secret)]
            return Command(arguments, environment, folder)
        number = work.part % len(self._settings.hosts)
        host = self._settings.hosts[number]
        there = host.home or str(self._settings.home)
        classpath = [f"{there}/conf", f"{there}/lib/*", f"{there}/{_BINDING_LIBRARIES}"]
        arguments = [host.java, *self._arguments(work, connection, classpath, _STANDARD_INPUT)]
        return Command(arguments, environment, host=number, private=private)

    def _arguments(
        self, work: Work, connection: ConnectionInfo, classpath: Sequence[str], secret: Path
    ) -> list[str | Path]:
        phase = "-load" if work.run.configuration.phase == "load" else "-t"
        java = [*self._settings.java_options, "-classpath", os.pathsep.join(classpath), _CLIENT]
        client = [phase, "-db", self._settings.binding, "-s", "-threads", str(work.threads)]
        arguments: list[str | Path] = [*java, *client, "-P", secret]
        if work.rate_ops_s:
            arguments += ["-target", str(round(work.rate_ops_s))]
        for name, value in self._properties(work, connection).items():
            arguments += ["-p", f"{name}={value}"]
        return arguments

    def finish(self, processes: Processes, monitor: Launched, *, is_timed: bool) -> None:
        """End the monitor client, whose operations without the load must not count.

        YCSB prints its latencies at its own end only, so a client without a time limit prints none.
        """
        if is_timed:
            processes.wait(monitor, timeout_s=_YCSB_GRACE_S)
        processes.stop(monitor)

    def attainable_rate_ops_s(self, rate_ops_s: float, threads: int) -> float:
        """A whole number, and fast enough: a thread slower than one operation per 2.1 s fails by integer overflow."""
        return max(1, round(rate_ops_s), math.ceil(threads * _LEAST_OPS_S_PER_THREAD))

    def current_ops_s(self, output: Path) -> float | None:
        """Throughput in the newest status line."""
        return find_newest_match(_STATUS, output)

    def _properties(self, work: Work, connection: ConnectionInfo) -> Mapping[str, object]:
        configuration = work.run.configuration
        core = CORE_WORKLOADS[configuration.workload]
        shares = {name: core.shares.get(operation, 0) / 100 for operation, name in _SHARE_PROPERTY.items()}
        return {
            "workload": "site.ycsb.workloads.CoreWorkload",
            "table": TABLE,
            "requestdistribution": "zipfian" if _needs_own_keys(work) else core.distribution,
            "status.interval": _STATUS_INTERVAL_S,
            **shares,
            **_build_key_properties(work),
            **({"maxexecutiontime": work.duration_s} if work.duration_s else {}),
            "db.driver": _JDBC_DRIVER,
            "db.url": build_jdbc_url(connection, self._settings.jdbc),
            "db.user": connection.user,
            **self._settings.properties,
        }


def build_jdbc_url(connection: ConnectionInfo, spread: str) -> str:
    """The binding's `db.url`.

    Args:
        connection: nodes, database.
        spread: `load_balance_hosts` = one URL, the driver picks a node per connection; `even` = one URL per node,
            and the binding picks one by the key's hash, so that every node gets the same share.

    Example:
        >>> from citus_analysis.runner.system import ServerNode as Node
        >>> nodes = [Node("1", "worker1", 5432, "worker"), Node("2", "worker2", 5432, "worker")]
        >>> build_jdbc_url(ConnectionInfo(nodes, "ycsb", "bench"), "even")
        'jdbc:postgresql://worker1:5432/ycsb;jdbc:postgresql://worker2:5432/ycsb'
    """
    addresses = [f"{node.host}:{node.port}" for node in connection.nodes]
    if spread == "even":
        return ";".join(f"jdbc:postgresql://{address}/{connection.database}" for address in addresses)
    balance = "?loadBalanceHosts=true" if len(addresses) > 1 else ""
    return f"jdbc:postgresql://{','.join(addresses)}/{connection.database}{balance}"


def _build_key_properties(work: Work) -> dict[str, int]:
    if work.run.configuration.phase == "load":
        # recordcount bounds the key space; insertstart and insertcount are the share of this process.
        return {
            "recordcount": work.inserts.stop,
            "insertstart": work.inserts.start,
            "insertcount": work.inserts.count,
            # Not used by a load, but CoreWorkload reads it to size a zipfian distribution and fails without.
            "operationcount": work.inserts.count,
        }
    if _needs_own_keys(work):
        return _own_key_properties(work)
    core = CORE_WORKLOADS[work.run.configuration.workload]
    share = core.shares.get("INSERT", 0) / 100
    operations = work.operations
    if share and core.distribution == "zipfian":
        # CoreWorkload draws from the records that it expects in the end, and draws again if the record does not exist
        # yet: for a run with a time limit and an open end, that would be thousands of draws per operation.
        operations = min(operations, round(_MOST_DRAWS * work.records / (2 * share)))
    return {"recordcount": work.records, "operationcount": operations}


def _needs_own_keys(work: Work) -> bool:
    """Whether the client is a monitor that inserts while the main client inserts, so that it needs its own keys."""
    run = work.run.configuration
    return work.monitor and run.phase == "run" and "INSERT" in CORE_WORKLOADS[run.workload].shares


def _own_key_properties(work: Work) -> dict[str, int]:
    """Inserts from `work.inserts.start` on, requests for loaded records only.

    CoreWorkload inserts from recordcount on, and requests insertcount records plus twice the number of inserts that it
    expects from operationcount. Their sum must not exceed the loaded records. Its distribution `latest` counts back
    from the last insert, into a range without records, so it cannot be used.
    """
    share = CORE_WORKLOADS[work.run.configuration.workload].shares["INSERT"] / 100
    operations = max(1, min(work.operations, round(work.records / (4 * share))))
    expected = int(operations * share * 2)
    return {
        "recordcount": work.inserts.start,
        "operationcount": operations,
        "insertstart": 0,
        "insertcount": max(1, work.records - expected - 1),
    }
