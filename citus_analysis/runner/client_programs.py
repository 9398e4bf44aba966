"""PostgreSQL's client programs, and whether they spread connections over several hosts, as libpq 16 and later do.

The version of a program does not decide, because its libpq is a separate library that may be newer. The program is
probed instead: a libpq that knows PGLOADBALANCEHOSTS refuses an invalid value before it connects.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from citus_analysis.errors import RunnerError
from citus_analysis.runner.embedded import Embedded
from citus_analysis.runner.programs import find_programs
from citus_analysis.runner.target import Target

_TIMEOUT_S: Final = 20
_NOWHERE: Final = {"PGHOST": os.devnull, "PGPORT": "1", "PGLOADBALANCEHOSTS": "no such value", "LC_ALL": "C"}


def can_spread_connections(pgbench: Path) -> bool:
    """Whether this pgbench uses PGLOADBALANCEHOSTS; False if it cannot be probed."""
    arguments: list[str | Path] = [pgbench, "--no-vacuum", "--transactions=1", "--builtin=select-only", "postgres"]
    try:
        answer = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, **_NOWHERE},
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "load_balance_hosts" in answer.stderr


def choose_client(candidates: Sequence[Path]) -> Path:
    """The first candidate that spreads its connections, or else the first."""
    return next((program for program in candidates if can_spread_connections(program)), candidates[0])


# PostgreSQL's client programs: of the embedded server, of the system, or of the Python package.


def list_program_candidates(program: str) -> list[Path]:
    """Paths of a program: the installed one first, then that of the Python package."""
    installed = shutil.which(program)
    found = [Path(installed)] if installed else []
    with suppress(RunnerError):
        found.append(find_programs("wheel")[program])
    return [path for path in found if path.exists()]


def find_client_programs(target: Target) -> dict[str, Path]:
    """Name -> path of psql and pgbench for the servers of a target; missing programs are left out."""
    names = ("psql", "pgbench")
    own = {
        name: [target.programs[name]] if isinstance(target, Embedded) else list_program_candidates(name)
        for name in names
    }
    return {name: paths[0] for name, paths in own.items() if paths and paths[0].exists()}
