"""What a load generator reported, read with the same formats that `ingest` uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from citus_analysis.errors import InputError
from citus_analysis.formats import Content, Hints, detect_format

__all__ = ["ClientResult", "RunResult", "read_client", "read_run"]


@dataclass(frozen=True)
class ClientResult:
    """One load generator's own summary; zeros and False where it printed none."""

    completed: bool
    throughput_ops_s: float
    operations_done: int
    failed_operations: int


@dataclass(frozen=True)
class RunResult:
    """The main clients of one run, merged.

    Attributes:
        problem: why the run counts as failed; None when it does not.
    """

    throughput_ops_s: float
    operations_done: int
    failed_operations: int
    problem: str | None = None


def read_client(output: Path) -> ClientResult:
    """What an output says. An output without a summary is not completed."""
    try:
        content = Content(output)
        found = detect_format(content)
        if found is None:
            return ClientResult(False, 0.0, 0, 0)
        pieces = [
            piece.frame("clients") for piece in found.parse(content, Hints(output.name)) if "clients" in piece.tables
        ]
    except InputError:
        return ClientResult(False, 0.0, 0, 0)
    if not pieces or not pieces[-1].height:
        return ClientResult(False, 0.0, 0, 0)
    row = pl.concat(pieces, how="diagonal_relaxed").row(-1, named=True)
    return ClientResult(
        bool(row.get("completed")),
        row.get("throughput_ops_s") or 0.0,
        row.get("operations_done") or 0,
        row.get("failed_operations") or 0,
    )


def read_run(outputs: Sequence[Path]) -> RunResult:
    """The main clients' outputs of one run: throughputs and counts added."""
    clients = [read_client(output) for output in outputs]
    unfinished = [output.name for output, client in zip(outputs, clients, strict=True) if not client.completed]
    failed = sum(client.failed_operations for client in clients)
    problem = None
    if unfinished:
        problem = f"no final summary in {', '.join(unfinished)}"
    elif failed:
        problem = f"{failed} operations failed"
    return RunResult(
        sum(client.throughput_ops_s for client in clients),
        sum(client.operations_done for client in clients),
        failed,
        problem,
    )
