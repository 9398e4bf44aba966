"""Passwords of a cluster's clients: libpq finds them, except for a monitor that the experiment gives one of its own.

libpq's rules hold for every client, those included that do not ask libpq (YCSB): what a connection of ours was made
with is what they get.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from citus_analysis.errors import RunnerError
from citus_analysis.runner.experiment_file.measuring import Monitor
from citus_analysis.runner.systems import connections as sql
from citus_analysis.runner.systems.system import Node

__all__ = ["monitor_password", "password_in_use"]


def monitor_password(monitor: Monitor) -> str | None:
    """The password that the experiment names for the monitor's role; None where it names none.

    Raises:
        RunnerError: the environment variable is not set, or the file cannot be read; the message shows no secret.
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
    """The password that logs a role in on all nodes, found by libpq's rules where none is given.

    Args:
        nodes: where it is to log in.
        database: to this database.
        user: the role.
        password: what the experiment names for it.
        way_out: where a password can be given.

    Raises:
        RunnerError: the role cannot log in on a node, or the nodes want different passwords, which a client with one
            list of nodes cannot give.
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
