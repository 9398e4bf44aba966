"""A process that imports once and forks for every ingest, before polars has started its threads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Tiny formats in place of those that a test does not need.
PRELUDE = """
import os, sys
from citus_analysis.formats.parsing import registry
from citus_analysis.dataset import ingest
from citus_analysis.dataset import recognise
from tests.dataset.tiny_formats import TINY
described = {name: registry.formats()[name] for name in ("config", "pg_dist_node", "pg_dist_shard")}
registry.formats = recognise.formats = lambda: described | TINY
import citus_analysis.stats.merged_clients, citus_analysis.spans, pyarrow.parquet
"""


@contextmanager
def forking(program: str) -> Iterator[subprocess.Popen[str]]:
    """The process, which runs the prelude and the program; talk to it through its pipes."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PRELUDE + program]
    pipe, root = subprocess.PIPE, Path(__file__).parents[2]
    with subprocess.Popen(command, text=True, cwd=root, stdin=pipe, stdout=pipe) as parent:
        yield parent
        assert parent.stdin is not None
        parent.stdin.close()
