"""A cluster of Citus on this machine, where PostgreSQL with the extension is found.

It is looked for among the programs of the system, or in the folder of programs that the environment variable
`POSTGRES_WITH_CITUS` names (`.../bin`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from citus_analysis.errors import RunnerError
from citus_analysis.runner.embedded import Embedded
from citus_analysis.runner.experiment import EmbeddedTarget, parse_experiment
from citus_analysis.runner.plan import make_plan
from citus_analysis.runner.programs import find_programs

MISSING = "needs PostgreSQL with Citus: install both from their packages, or name its programs in POSTGRES_WITH_CITUS"


@contextmanager
def citus_cluster(folder: Path) -> Iterator[Embedded]:
    """A coordinator and two workers, while they are used."""
    target = EmbeddedTarget(postgres=os.environ.get("POSTGRES_WITH_CITUS", "system"))
    try:
        programs = find_programs(target.postgres, target.version)
    except RunnerError:
        pytest.skip(MISSING)
    if not programs.has_extension("citus"):
        pytest.skip(MISSING)
    cluster = Embedded(target, folder)
    matrix = {"workloads": ["c"], "workers": [2]}
    try:
        cluster.prepare(make_plan(parse_experiment({"name": "x", "matrix": matrix}))[0].configuration)
        yield cluster
    finally:
        cluster.stop()
