"""Determine whether a client spreads its connections over several hosts, as libpq does from version 16 on.

The version of a program does not decide, because its libpq is a separate library that may be newer. The program is
probed instead: a libpq that knows PGLOADBALANCEHOSTS refuses an invalid value before it connects.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_TIMEOUT_S: Final = 20
_NOWHERE: Final = {"PGHOST": os.devnull, "PGPORT": "1", "PGLOADBALANCEHOSTS": "no such value", "LC_ALL": "C"}


def spreads_connections(pgbench: Path) -> bool:
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
    return next((program for program in candidates if spreads_connections(program)), candidates[0])
