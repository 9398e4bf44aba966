"""Checks before the first run that all requirements of an experiment are met. Checks change nothing.

Each check is one line: its subject, the finding, and the way out if the check did not pass. `failed` means that
runs cannot be measured as the experiment requires; `warning` means that they can, but some recordings will be missing.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, LiteralString

from psycopg.rows import TupleRow

from citus_analysis.errors import CitusAnalysisError, NotReadyError, RunnerError
from citus_analysis.runner import connections as sql
from citus_analysis.runner.cluster_workers import choose_coordinator, fill_worker_count, list_unlisted_workers
from citus_analysis.runner.experiment import (
    LOG_LINE_PREFIX,
    ClusterTarget,
    CommandDriver,
    Experiment,
    FilesTarget,
    NodeAddress,
    YcsbDriver,
)
from citus_analysis.runner.hosts import open_shell
from citus_analysis.runner.measure import find_host_problem, format_host_name, open_driver_hosts
from citus_analysis.runner.shard_placement import read_placements
from citus_analysis.runner.system import ServerNode
from citus_analysis.runner.task_log_level import STOCK_LEVEL, determine_task_level, probe_task_level
from citus_analysis.runner.workloads import TABLE
from citus_analysis.runner.ycsb_driver import find_missing_classes
from citus_analysis.spans.profile import describe_certainty
from citus_analysis.texts.words import pluralize

_TIGHT_BYTES: Final = 2**30
_TOO_LITTLE_BYTES: Final = 2**26
_CLOCKS_APART_S: Final = 0.5
_PRELOADED: Final = ("shared_preload_libraries", "session_preload_libraries", "local_preload_libraries")
#: Fields of a log line that are needed to pair statements between nodes: time, process and application.
_PREFIX_NEEDS: Final = {"time (%m or %n)": ("%m", "%n"), "process (%p)": ("%p",), "application (%a)": ("%a",)}


@dataclass(frozen=True)
class PreflightCheck:
    """One check and its result.

    Example:
        >>> str(PreflightCheck("disk space", "failed", "3 MiB free in runs", "make room"))
        'failed   disk space: 3 MiB free in runs (make room)'
    """

    name: str
    verdict: Literal["ok", "warning", "failed"]
    found: str
    hint: str = ""

    def __str__(self) -> str:
        line = f"{self.verdict:<8} {self.name}: {self.found}"
        return f"{line} ({self.hint})" if self.hint and self.verdict != "ok" else line


def check_all(experiment: Experiment, out: Path | None) -> list[PreflightCheck]:
    """All checks of an experiment, in an order in which one explains the next.

    Args:
        experiment: the experiment.
        out: folder of the artefact tree; None if it is not known yet.
    """
    folder = (out or Path()).absolute()
    there = next(place for place in (folder, *folder.parents) if place.exists())
    hint = "logs of sampled runs may need more: make room, or choose another --out"
    room = _check_free_space("disk space", shutil.disk_usage(there).free, str(there), hint)
    checks = [room, _check_programs(experiment), *_check_driver_hosts(experiment)]
    target = experiment.target
    if isinstance(target, ClusterTarget):
        checks += _check_cluster(experiment, target)
    return checks


def refuse_unready(experiment: Experiment, out: Path) -> list[str]:
    """Run all checks; return the warnings as sentences.

    Raises:
        NotReadyError: a check failed.
    """
    checks = check_all(experiment, out)
    failed = [check for check in checks if check.verdict == "failed"]
    if failed:
        found = "; ".join(f"{check.name}: {check.found} ({check.hint})" for check in failed)
        raise NotReadyError(f"nothing was started: {found}", hint="run --check shows every check")
    return [f"{check.name}: {check.found} ({check.hint})" for check in checks if check.verdict == "warning"]


def _check_programs(experiment: Experiment) -> PreflightCheck:
    name = "client programs"
    if open_driver_hosts(experiment):
        return PreflightCheck(name, "ok", "none on this machine: the load generators run on other hosts")
    if isinstance(experiment.driver, YcsbDriver):
        if shutil.which("java") is None:
            return PreflightCheck(name, "failed", "no java in PATH", "install a Java runtime")
        if not any(experiment.driver.home.glob("lib/core-*.jar")):
            found = f"{experiment.driver.home} holds no lib/core-*.jar"
            return PreflightCheck(name, "failed", found, "correct driver.home")
        if missing := find_missing_classes(experiment.driver):
            found = f"no jar file in {experiment.driver.home} has {' or '.join(missing)}"
            hint = "put the binding's and the driver's jar files into jdbc-binding/lib, or correct driver.binding"
            return PreflightCheck(name, "failed", found, hint)
        return PreflightCheck(name, "ok", f"java, and YCSB in {experiment.driver.home}")
    if isinstance(experiment.driver, CommandDriver):
        return _check_commands(name, experiment.driver, experiment.matrix.workloads)
    embedded = not isinstance(experiment.target, ClusterTarget | FilesTarget)
    installed = shutil.which("pgbench")
    found = installed if installed and not embedded else "pgbench of the server's programs"
    return PreflightCheck(name, "ok", found)


def _check_driver_hosts(experiment: Experiment) -> Iterator[PreflightCheck]:
    """Checks of every machine on which a load generator is to run."""
    if not isinstance(experiment.driver, YcsbDriver):
        return
    for number, host in enumerate(experiment.driver.hosts):
        name = f"load generators on {format_host_name(number)} ({host.host})"
        try:
            problem, found = find_host_problem(host, experiment.driver.home)
        except RunnerError as error:
            yield PreflightCheck(name, "failed", error.problem, error.hint or "check the address")
            continue
        hint = "correct driver.hosts, or install what is missing"
        yield PreflightCheck(name, "failed" if problem else "ok", problem or found, hint)
    used, most = len(experiment.driver.hosts), max(experiment.matrix.all_drivers)
    if used > most:
        found = f"{used} hosts are listed, but matrix.drivers starts {pluralize(most, 'load generator')} at most"
        yield PreflightCheck("load generators", "warning", found, f"set matrix.drivers to {used} or a multiple of it")


def _check_commands(name: str, driver: CommandDriver, workloads: Sequence[str]) -> PreflightCheck:
    own = [driver.workloads[workload] for workload in workloads]
    steps = [step for one in own for step in [*one.set_up, one.run] if isinstance(step, list)]
    home = {"home": str(driver.home)} if driver.home else {}
    called = {step[0].format(**home) if step[0].startswith("{home}") else step[0] for step in steps}
    missing = sorted(program for program in called if "{" not in program and shutil.which(program) is None)
    if missing:
        hint = "install them, or correct driver.home or driver.workloads"
        return PreflightCheck(name, "failed", f"not found: {', '.join(missing)}", hint)
    return PreflightCheck(name, "ok", ", ".join(sorted(called)))


def _check_cluster(experiment: Experiment, target: ClusterTarget) -> list[PreflightCheck]:
    try:
        nodes = _list_reachable_nodes(target)
    except RunnerError as error:
        return [PreflightCheck("connection", "failed", error.problem, error.hint or "check the address")]
    unreachable = [check for node in nodes if (check := _check_connection(node, target)) is not None]
    if unreachable:
        return unreachable
    answered = PreflightCheck("connection", "ok", f"{len(nodes)} nodes answer as {target.user} in {target.database}")
    checks = [answered, *_check_addresses(target, nodes), _check_worker_count(experiment, target, nodes)]
    for look in (_privileges, _table, _prefix, _log_level, _auto_explain):
        try:
            checks += list(look(experiment, target, nodes))
        except CitusAnalysisError as error:  # a query that the server refuses is a result, too
            name, problem = look.__name__.strip("_").replace("_", " "), f"could not be checked: {error.problem}"
            checks.append(PreflightCheck(name, "warning", problem, error.hint or "ask the owner"))
    checks += _check_clocks(target, nodes)
    checks += _log_disks(target)
    return checks


def _list_reachable_nodes(target: ClusterTarget) -> list[ServerNode]:
    """Every node that the experiment reaches over SQL, the coordinator first."""
    first = choose_coordinator(target)
    if target.system != "citus" or not target.discover:
        others = [address for address in target.nodes if (address.host, address.port) != (first.host, first.port)]
        return [
            first,
            *(ServerNode(one.name or f"{one.host}:{one.port}", one.host, one.port, one.role) for one in others),
        ]
    with sql.connect(first, database=target.database, user=target.user) as connection:
        rows = sql.read_citus_nodes(connection)
        addable = list_unlisted_workers(target, connection)
    return [
        first,
        *(ServerNode(str(group), host, port, "worker", nodeid, group) for nodeid, group, host, port in rows if group),
        *(ServerNode(one.name or f"{one.host}:{one.port}", one.host, one.port, "worker") for one in addable),
    ]


def _check_addresses(target: ClusterTarget, nodes: Sequence[ServerNode]) -> Iterator[PreflightCheck]:
    """Check that shells and folders of logs, which are stated by host and port, have addresses known to Citus."""
    known = [f"{node.host}:{node.port}" for node in nodes]
    for address in target.nodes:
        used = address.shell != "none" or address.log_directory is not None
        if used and f"{address.host}:{address.port}" not in known:
            found = f"{address.host}:{address.port} has a shell or logs, but the cluster's nodes are {', '.join(known)}"
            yield PreflightCheck(
                "node addresses", "failed", found, "write host and port in target.nodes as pg_dist_node does"
            )


def _check_connection(node: ServerNode, target: ClusterTarget) -> PreflightCheck | None:
    try:
        with sql.connect(node, database=target.database, user=target.user):
            return None
    except RunnerError as error:
        return PreflightCheck("connection", "failed", error.problem, error.hint or "check the address")


def _check_worker_count(experiment: Experiment, target: ClusterTarget, nodes: Sequence[ServerNode]) -> PreflightCheck:
    available = sum(node.role == "worker" for node in nodes)
    asked = fill_worker_count(experiment).matrix.workers or [0]
    fits = target.system != "citus" or all(number <= available for number in asked)
    joined = ", ".join(map(str, asked))
    found = f"{available} in the cluster, {'and' if fits else 'but'} matrix.workers requires {joined}"
    return PreflightCheck("workers", "ok" if fits else "failed", found, f"ask for 0 to {available}, or add nodes")


def _query_node(target: ClusterTarget, node: ServerNode, text: LiteralString, *values: object) -> list[TupleRow]:
    """The rows of a query on one node."""
    with sql.connect(node, database=target.database, user=target.user) as connection:
        return sql.query(connection, text, *values)


def _privileges(experiment: Experiment, target: ClusterTarget, nodes: Sequence[ServerNode]) -> Iterator[PreflightCheck]:
    text = (
        "SELECT rolsuper, rolsuper OR rolcreaterole, has_schema_privilege('public', 'CREATE') "
        "FROM pg_roles WHERE rolname = current_user"
    )
    superuser, roles, creates = _query_node(target, nodes[0], text)[0]
    name = f"privileges of {target.user}"
    if not creates:
        yield PreflightCheck(
            name, "failed", "may not create a table in schema public", "GRANT CREATE ON SCHEMA public TO it"
        )
    if experiment.matrix.settings and target.reload_with != "alter_system":
        found = "the matrix varies server settings, but the runner may not change those of this target"
        hint = "set target.reload_with: alter_system, or vary them between experiments"
        yield PreflightCheck("server settings", "failed", found, hint)
    elif experiment.matrix.settings and not superuser:
        yield PreflightCheck(
            name, "warning", "ALTER SYSTEM needs a superuser or a grant", "GRANT ALTER SYSTEM ON PARAMETER"
        )
    if any(experiment.matrix.monitored) and not roles:
        hint = "have its owner create the monitor's role with log_statement and log_duration"
        yield PreflightCheck(name, "warning", "may not create the monitor's role", hint)
    yield PreflightCheck(name, "ok", "superuser" if superuser else "no superuser")


def _table(experiment: Experiment, target: ClusterTarget, nodes: Sequence[ServerNode]) -> Iterator[PreflightCheck]:
    if all(experiment.own_workload(workload) for workload in experiment.matrix.workloads):
        return  # which has tables of its own
    text = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass(%s)"
    there = _query_node(target, nodes[0], text, f"public.{TABLE}")
    if not there:
        yield PreflightCheck("table", "ok", f"{TABLE} does not exist and will be created")
        return
    found = f"{TABLE} of {there[0][0]} exists and will be refilled"
    own = there[0][0] == target.user
    yield PreflightCheck("table", "ok" if own else "warning", found, "give it to the runner's user, or rename it")


def _prefix(experiment: Experiment, target: ClusterTarget, nodes: Sequence[ServerNode]) -> Iterator[PreflightCheck]:
    if not any(experiment.matrix.monitored):
        return
    for node in nodes:
        prefix = str(_query_node(target, node, "SHOW log_line_prefix")[0][0])
        missing = [name for name, escapes in _PREFIX_NEEDS.items() if not any(one in prefix for one in escapes)]
        hint = f"statements cannot be paired without {', '.join(missing)}; set it to '{LOG_LINE_PREFIX}'"
        found = f"node {node.name} writes {prefix!r}"
        yield PreflightCheck("log_line_prefix", "warning" if missing else "ok", found, hint if missing else "")


def _log_level(experiment: Experiment, target: ClusterTarget, nodes: Sequence[ServerNode]) -> Iterator[PreflightCheck]:
    if not any(experiment.matrix.monitored) or target.system != "citus":
        return
    asked = experiment.monitor.log_min_messages
    with sql.connect(nodes[0], database=target.database, user=target.user) as connection:
        version = str(sql.query(connection, "SELECT extversion FROM pg_extension WHERE extname = 'citus'")[0][0])
        task_level = probe_task_level(connection) if read_placements(connection) else None
    taken = determine_task_level(experiment.monitor, task_level)
    tells = f"reports tasks at {task_level}" if task_level else "reported no task here; stock Citus does at debug4"
    found = f"Citus {version} {tells}; the monitor's role gets {taken}"
    # A more verbose level has the larger number: debug4 includes the messages of debug1.
    fits = taken >= (task_level or STOCK_LEVEL) or (task_level is None and asked != "auto")
    hint = f"task times will be missing; set monitor.log_min_messages: {task_level or 'auto'}"
    yield PreflightCheck("log level", "ok" if fits else "warning", found, hint)
    yield PreflightCheck("traces", "ok", describe_certainty(version, taken, task_level or STOCK_LEVEL))


def _auto_explain(_: Experiment, target: ClusterTarget, nodes: Sequence[ServerNode]) -> Iterator[PreflightCheck]:
    """auto_explain on the nodes of a Citus cluster, which was not made for it (citusdata/citus 6448)."""
    if target.system != "citus":
        return
    for node in nodes:
        with sql.connect(node, database=target.database, user=target.user) as connection:
            loaded = sql.read_settings(connection, _PRELOADED)
        if any("auto_explain" in libraries for libraries in loaded.values()):
            found = f"node {node.name} loads it: statements may fail, and servers of distributed transactions may crash"
            yield PreflightCheck(
                "auto_explain", "warning", found, "take it out of the preloaded libraries of Citus nodes"
            )


def _check_clocks(target: ClusterTarget, nodes: Sequence[ServerNode]) -> Iterator[PreflightCheck]:
    for node in nodes:
        with sql.connect(node, database=target.database, user=target.user) as connection:
            before_s = time.time()
            there_s = float(sql.query(connection, "SELECT extract(epoch FROM clock_timestamp())")[0][0])
            after_s = time.time()
        apart_s = there_s - (before_s + after_s) / 2
        found = f"node {node.name} is {apart_s:+.3f} s from this machine, known to {(after_s - before_s) / 2:.3f} s"
        is_apart = abs(apart_s) > _CLOCKS_APART_S
        yield PreflightCheck("clock", "warning" if is_apart else "ok", found, "synchronise both with NTP or chrony")


def _log_disks(target: ClusterTarget) -> Iterator[PreflightCheck]:
    """Checks of the disk space for server logs, on every node whose folder of logs can be examined."""
    for address in target.nodes if target.collect_logs else ():
        if address.log_directory is None or address.shell == "none":
            continue
        name, place = "disk space of logs", f"{address.log_directory} of {address.host}:{address.port}"
        try:
            free = _measure_free_bytes(address, address.log_directory)
        except (RunnerError, OSError, ValueError) as error:
            problem = error.problem if isinstance(error, RunnerError) else str(error)
            yield PreflightCheck(name, "warning", f"{place} could not be checked: {problem}", "correct log_directory")
            continue
        yield _check_free_space(name, free, place, "a full disk stops the server: make room on the node")


def _measure_free_bytes(address: NodeAddress, folder: str) -> int:
    if address.shell == "local":
        return shutil.disk_usage(folder).free
    with closing(open_shell(address)) as shell:
        code, output = shell.ask(["df", "-Pk", folder])
    if code:
        raise RunnerError(" ".join(output.split()))
    return int(output.splitlines()[-1].split()[3]) * 1024  # POSIX: the fourth column, in KiB


def _check_free_space(name: str, free: int, place: str, hint: str) -> PreflightCheck:
    found = f"{free / 2**20:,.0f} MiB free in {place}"
    if free < _TOO_LITTLE_BYTES:
        return PreflightCheck(name, "failed", found, hint)
    return PreflightCheck(name, "warning" if free < _TIGHT_BYTES else "ok", found, hint)
