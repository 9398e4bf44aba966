"""PostgreSQL's client programs: of the embedded server, of the system, or of the Python package."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from citus_analysis.errors import RunnerError
from citus_analysis.runner.systems.embedded import Embedded
from citus_analysis.runner.systems.programs import find_programs
from citus_analysis.runner.systems.target import Target


def candidates(program: str) -> list[Path]:
    """Paths of a program: the installed one first, then that of the Python package."""
    installed = shutil.which(program)
    found = [Path(installed)] if installed else []
    with suppress(RunnerError):
        found.append(find_programs("wheel")[program])
    return [path for path in found if path.exists()]


def client_programs(target: Target) -> dict[str, Path]:
    """Name -> path of psql and pgbench for the servers of a target; missing programs are left out."""
    names = ("psql", "pgbench")
    own = {name: [target.programs[name]] if isinstance(target, Embedded) else candidates(name) for name in names}
    return {name: paths[0] for name, paths in own.items() if paths and paths[0].exists()}
