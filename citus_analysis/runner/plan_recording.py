"""Record plans of statements once after a run: `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)`, of all tasks on Citus.

The file is in the format that `ingest` reads: one document for each statement, with its text under the key that
auto_explain uses. A statement is executed, and its changes are rolled back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import psycopg

from citus_analysis.errors import RunnerError
from citus_analysis.runner.connections import Connection, query
from citus_analysis.runner.server_snapshots import Connect
from citus_analysis.runner.system import ServerNode


def record_plans(
    statements: Sequence[str], node: ServerNode, connect: Connect, output: Path, *, timeout_s: float
) -> list[str]:
    """Explain the statements on a node and write their plans.

    Args:
        statements: statements to be explained, without `EXPLAIN`.
        node: the node on which they are explained.
        connect: function that returns a connection to it.
        output: the file; it is not written if no statement could be explained.
        timeout_s: longest time of a statement.

    Returns:
        a sentence for each plan that is missing.
    """
    plans, missing = [], []
    try:
        with connect(node) as connection:
            for number, statement in enumerate(statements, 1):
                try:
                    plans.append(_plan(connection, statement, timeout_s))
                except psycopg.Error as error:
                    reason = str(error).strip().splitlines()[0]
                    missing.append(f"statement {number} of samplers.plans was not explained: {reason}")
    except RunnerError as error:
        missing.append(f"no plans were recorded on node {node.name}: {error}")
    if plans:
        output.write_text("".join(f"{json.dumps(plan, indent=2)}\n" for plan in plans), encoding="utf-8")
    return missing


def _plan(connection: Connection, statement: str, timeout_s: float) -> list[dict[str, object]]:
    """The document of one statement."""
    with connection.transaction(force_rollback=True):
        # A server without Citus accepts the second setting and does not use it.
        query(
            connection,
            "SELECT set_config('statement_timeout', %s, true), set_config('citus.explain_all_tasks', 'on', true)",
            f"{round(timeout_s * 1000)}ms",
        )
        # The statement is the experiment's own, as its scripts and set-ups are.
        text = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}".encode()
        found = connection.execute(text).fetchall()
    return [{"Query Text": statement, **entry} for entry in found[0][0]]
