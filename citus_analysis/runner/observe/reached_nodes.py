"""The nodes that the clients of a run reached, with their shares of sessions and statements.

Sessions are counted in the snapshots of `pg_stat_activity`, statements by `pg_stat_statements` if a node has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self, cast

import polars as pl

from citus_analysis.runner.journal import Seen
from citus_analysis.runner.observe.snapshots import Snapshot
from citus_analysis.runner.records.run_results import read_client

#: Probability below which a distribution of sessions is not due to chance; clients choose nodes at random.
_RARE: Final = 0.01
#: Applications of sessions that do not belong to clients: of Citus' nodes among each other, and of this tool.
_NO_CLIENT: Final = r"^(?:citus_|citus-analysis|Citus )"


@dataclass(frozen=True)
class Reached:
    """The nodes that a run's clients reached.

    Attributes:
        asked: names of the nodes that they were to query.
        sessions: node -> sessions of clients seen there.
        statements: node -> statements on the benchmark's table; empty if a node lacks pg_stat_statements.
        cost: node -> cost of the snapshots, in words.

    Example:
        >>> reached = Reached(("1", "2"), {"1": 6, "2": 2}, {"1": 300, "2": 100})
        >>> reached.shares(), reached.problem(threads=8)
        ({'1': 0.75, '2': 0.25}, None)
        >>> Reached(("1", "2"), {"1": 8}).problem(threads=8)
        'all 8 sessions seen were on node 1, though clients were to query 2 nodes'

        In a very short run, snapshots contain too few of the sessions to decide; and four sessions that choose one of
        two nodes at random all choose the same node with probability 1/8:

        >>> Reached(("1", "2"), {"1": 2}).problem(threads=8)
        >>> Reached(("1", "2"), {"1": 4}).problem(threads=4)
    """

    asked: tuple[str, ...] = ()
    sessions: Mapping[str, int] = field(default_factory=dict)
    statements: Mapping[str, int] = field(default_factory=dict)
    cost: Mapping[str, str] = field(default_factory=dict)

    def shares(self) -> dict[str, float]:
        """Node -> share of the statements, or of the sessions if statements are not known; empty without either."""
        counts = self.statements if any(self.statements.values()) else self.sessions
        total = sum(counts.get(node, 0) for node in self.asked)
        return {node: counts.get(node, 0) / total for node in self.asked} if total else {}

    def problem(self, *, threads: int) -> str | None:
        """A sentence if the run did not query every node.

        None if it did or was not meant to, if the shares are unknown, or if one node may have all sessions by chance.
        """
        there = {node: self.sessions.get(node, 0) for node in self.asked}
        total = sum(there.values())
        if min(len(self.asked), threads) <= 1 or total < threads or max(there.values()) < total:
            return None
        if len(self.asked) ** (1 - total) >= _RARE:
            return None
        node = max(there, key=there.__getitem__)
        return f"all {total} sessions seen were on node {node}, though clients were to query {len(self.asked)} nodes"

    def as_facts(self) -> Seen:
        """The observations for the journal and `config.yml`."""
        shares = {node: round(share, 4) for node, share in self.shares().items()}
        facts = {
            "queried_nodes": list(self.asked),
            "share_by_node": shares,
            "share_of": shares and ("statements" if any(self.statements.values()) else "sessions"),
            "sessions_by_node": dict(self.sessions),
            "statements_by_node": dict(self.statements),
            "activity_snapshots": dict(self.cost),
        }
        return cast("Seen", {name: fact for name, fact in facts.items() if fact})

    @classmethod
    def read(cls, facts: Seen) -> Self:
        """From the result of :meth:`as_facts`."""
        return cls(
            tuple(facts.get("queried_nodes", ())),
            facts.get("sessions_by_node", {}),
            facts.get("statements_by_node", {}),
            facts.get("activity_snapshots", {}),
        )


def count_sessions(snapshots: Sequence[Snapshot], user: str) -> dict[str, int]:
    """Node -> number of sessions of the role's clients in the snapshots of the node; 0 if there are none.

    Args:
        snapshots: files of `pg_stat_activity`.
        user: role of the main clients.
    """
    text = {name: pl.col(name).cast(pl.String).fill_null("") for name in ("backend_type", "user", "application")}
    is_client = text["backend_type"] == "client backend", text["user"] == user
    counts = {}
    for one in snapshots:
        mine = read_client(one.output, "activity_samples").filter(
            *is_client, ~text["application"].str.contains(_NO_CLIENT)
        )
        seen = mine.group_by("pid", "backend_start").agg(pl.len())
        # A client may first open a short session to inspect the table, which carries no load.
        counts[one.node] = seen.filter(pl.col("len") > 1).height or seen.height
    return counts
