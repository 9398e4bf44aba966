"""Growth of a Citus cluster: shards are moved to workers that had none, and the time is measured.

Citus moves shards in background jobs. Their times are read from its catalogue, so that a job that continued after its
runner was killed is measured as well.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import asdict
from typing import Final

from psycopg.rows import TupleRow
from pydantic import TypeAdapter

from citus_analysis.errors import RunnerError
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.systems import connections as sql
from citus_analysis.runner.systems.state.shards import read_placements
from citus_analysis.runner.systems.system import Growth, Placement

_POLL_S: Final = 0.2
#: The strategy that also applies to a new table: the same number of shards on every worker.
_STRATEGY: Final = "by_shard_count"
_ENDED: Final = ("finished", "failed", "cancelled")


_GROWTH: Final = TypeAdapter(Growth)


class GrowthLog:
    """The last growth of a table, kept on disk, because later runs on the same workers state it, too."""

    _SUBJECT: Final = "table"

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def grown(self, growth: Growth) -> None:
        """Record a growth of the table."""
        self._journal.append(self._SUBJECT, "grown", growth=asdict(growth))

    def made_anew(self) -> None:
        """Record that the table was recreated, so that its placements result from no growth."""
        if self.last() is not None:
            self._journal.append(self._SUBJECT, "made")

    def last(self) -> Growth | None:
        """The growth that gave the table its present placements, if any."""
        entry = self._journal.last(self._SUBJECT)
        return _GROWTH.validate_python(entry.detail["growth"]) if entry and entry.state == "grown" else None


def can_grow(placements: Collection[Placement], *, shard_count: int, groups: Collection[int]) -> bool:
    """Whether a table has the requested number of shards, all of them on some, but not all, of these groups."""
    shards = {placement.shard_id for placement in placements}
    found = {placement.groupid for placement in placements}
    return len(shards) == shard_count and found < set(groups)


def rebalance(connection: sql.Connection) -> Growth:
    """Spread the shards over all nodes that may have some, and wait until that is done.

    Args:
        connection: to the coordinator.

    Raises:
        RunnerError: Citus is older than 11.1, or did not move all shards; with its own message.
    """
    before = read_placements(connection)
    rows = sql.query(connection, "SELECT shardid, max(shard_size) FROM citus_shards GROUP BY shardid")
    sizes = {int(shard): int(size or 0) for shard, size in rows}
    job = _running_job(connection)
    if job is None:
        started = sql.query(connection, "SELECT citus_rebalance_start(rebalance_strategy := %s)", _STRATEGY)[0][0]
        job = int(started) if started is not None else None
    duration_s = _wait(connection, job) if job is not None else 0.0
    after = read_placements(connection)
    places = {placement.shard_id: placement.groupid for placement in before}
    moved = [placement.shard_id for placement in after if places.get(placement.shard_id) != placement.groupid]
    return Growth(
        len({placement.groupid for placement in before}),
        len({placement.groupid for placement in after}),
        duration_s,
        len(moved),
        sum(sizes.get(shard, 0) for shard in moved),
        _STRATEGY,
    )


def _running_job(connection: sql.Connection) -> int | None:
    """A rebalance that a killed runner started."""
    rows = sql.query(
        connection,
        "SELECT job_id FROM pg_dist_background_job WHERE job_type = 'rebalance' AND NOT state::text = ANY(%s)",
        list(_ENDED),
    )
    return int(rows[0][0]) if rows else None


def _wait(connection: sql.Connection, job: int) -> float:
    """Wait for the end of a background job; its duration in seconds."""
    while True:
        state, seconds, message = _job(connection, job)
        if state == "finished":
            return seconds
        if state in _ENDED:
            way_out = "check the coordinator's log, or set target.growth: refill"
            raise RunnerError(f"Citus' rebalance job {job} {state}: {message or 'no message'}", way_out=way_out)
        time.sleep(_POLL_S)


def _job(connection: sql.Connection, job: int) -> tuple[str, float, str]:
    rows: list[TupleRow] = sql.query(
        connection,
        "SELECT state::text, extract(epoch FROM coalesce(finished_at, clock_timestamp()) - started_at), "
        "(SELECT string_agg(message, '; ') FROM pg_dist_background_task WHERE job_id = job.job_id AND status = 'error')"
        " FROM pg_dist_background_job AS job WHERE job_id = %s",
        job,
    )
    if not rows:
        raise RunnerError(
            f"Citus' rebalance job {job} is no longer in pg_dist_background_job", way_out="check the coordinator's log"
        )
    state, seconds, message = rows[0]
    return str(state), float(seconds or 0.0), " ".join(str(message or "").split())
