"""Passwords of a cluster's clients: libpq finds them, except the monitor's if the experiment states one.

libpq's rules apply to every client, including clients that do not use libpq (YCSB): these get the password with which
the runner's own connection was made.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from citus_analysis.errors import RunnerError
from citus_analysis.runner import connections as sql
from citus_analysis.runner.experiment import ClusterTarget, Monitor
from citus_analysis.runner.system import ServerNode


def monitor_password(monitor: Monitor) -> str | None:
    """The password that the experiment states for the monitor's role; None if it states none.

    Raises:
        RunnerError: the environment variable is not set, or the file cannot be read; the message contains no secret.
    """
    if monitor.login_env is not None:
        found = os.environ.get(monitor.login_env, "")
        place = f"the environment variable {monitor.login_env}"
    elif monitor.login_file is not None:
        try:
            found = monitor.login_file.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            problem = f"the monitor's password cannot be read: {reason}"
            raise RunnerError(problem, path=monitor.login_file, hint="correct it") from error
        place = f"the first line of {monitor.login_file}"
    else:
        return None
    if not found:
        raise RunnerError(f"the monitor's password is missing: {place} is empty", hint="put the password there")
    return found


def find_working_password(
    nodes: Sequence[ServerNode], target: ClusterTarget, monitor: Monitor, role: str
) -> str | None:
    """The password with which a role can log in on all nodes; libpq finds it unless the experiment states it.

    Args:
        nodes: the nodes.
        target: the cluster's part of the experiment file.
        monitor: the monitor's part, which states the password of its role.
        role: the role.

    Raises:
        RunnerError: the role cannot log in on a node, or the nodes require different passwords, which a client with one
            list of nodes cannot use.
    """
    is_monitor = role == monitor.role
    password = monitor_password(monitor) if is_monitor else None
    places = "monitor.login_env or monitor.login_file" if is_monitor else "PGPASSWORD or PGPASSFILE"
    found: set[str] = set()
    for node in nodes:
        try:
            with sql.connect(node, database=target.database, user=role, password=password) as connection:
                found.add(connection.info.password)
        except RunnerError as error:
            raise RunnerError(error.problem, hint=f"set {places} for role {role}") from error
    if len(found) > 1:
        problem = f"role {role} has different passwords on the nodes {', '.join(node.name for node in nodes)}"
        raise RunnerError(problem, hint="give it the same password on all of them")
    return next(iter(found), "") or None
