"""Passwords of a cluster's clients: libpq finds them, except the monitor's if the experiment states one.

libpq's rules apply to every client, including clients that do not use libpq (YCSB): these get the password with which
the runner's own connection was made.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from citus_analysis.errors import RunnerError
from citus_analysis.runner.experiment_file.measuring import Monitor
from citus_analysis.runner.systems import connections as sql
from citus_analysis.runner.systems.system import Node


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
            raise RunnerError(
                f"the monitor's password cannot be read: {reason}", path=monitor.login_file, way_out="correct it"
            ) from error
        place = f"the first line of {monitor.login_file}"
    else:
        return None
    if not found:
        raise RunnerError(f"the monitor's password is missing: {place} is empty", way_out="put the password there")
    return found


def password_in_use(
    nodes: Sequence[Node], *, database: str, user: str, password: str | None, way_out: str
) -> str | None:
    """The password with which a role can log in on all nodes, found by libpq's rules if none is given.

    Args:
        nodes: the nodes.
        database: the database.
        user: the role.
        password: the password that the experiment states for the role; None: libpq's rules.
        way_out: names of the places where a password can be stated, for messages.

    Raises:
        RunnerError: the role cannot log in on a node, or the nodes require different passwords, which a client with one
            list of nodes cannot use.
    """
    found: set[str] = set()
    for node in nodes:
        try:
            with sql.connect(node, database=database, user=user, password=password) as connection:
                found.add(connection.info.password)
        except RunnerError as error:
            raise RunnerError(error.problem, way_out=f"set {way_out} for role {user}") from error
    if len(found) > 1:
        raise RunnerError(
            f"role {user} has different passwords on the nodes {', '.join(node.name for node in nodes)}",
            way_out="give it the same password on all of them",
        )
    return next(iter(found), "") or None
