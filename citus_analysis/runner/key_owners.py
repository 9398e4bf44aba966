"""Keys by the node that owns their shard, for load generators that send each statement there (routing by the owner).

Citus says for each key which shard holds it (`get_shard_id_for_distribution_column`), and its catalogue where that
shard is placed; both are asked once for many keys, before a run. A load generator of pgbench then gets the address of
one node and a script that chooses only among keys of that node
(:func:`citus_analysis.runner.workloads.write_lookup`).

YCSB's client cannot be limited so. `CoreWorkload` draws a record number from one range (`insertstart`,
`insertcount`) and hashes it to a key, so the keys of a range belong to all nodes; of the generators that
`requestdistribution` names, none reads keys from a file. `RestWorkload` does, but asks for no table. The JDBC binding
chooses one of several URLs by Java's hash of the key, which is not PostgreSQL's.

References:
    Citus documentation, "Citus utility functions" (get_shard_id_for_distribution_column), "Metadata tables"
    (pg_dist_placement).
    YCSB d9faaac8: `CoreWorkload.init`, `RestWorkload.doTransactionRead`, `JdbcDBClient.getShardIndexByKey`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from citus_analysis.core.type_aliases import Integers
from citus_analysis.errors import RunnerError
from citus_analysis.runner import connections as sql
from citus_analysis.runner.system import ServerNode
from citus_analysis.texts.words import join_words, pluralize

#: Most keys of a run: scripts of pgbench grow with them (some 10 bytes a key).
MOST_KEYS: Final = 2_000_000
_KEYS_AT_ONCE: Final = 200_000


def find_key_owners(
    connection: sql.Connection, relation: str, keys: Sequence[str], nodes: Sequence[ServerNode]
) -> Integers:
    """The node that holds the shard of each key, as its place in `nodes`, shape (len(keys),).

    Args:
        connection: connection to a node with Citus' metadata.
        relation: a table that is distributed by hash.
        keys: values of its distribution column, as text.
        nodes: the nodes that clients connect to.

    Raises:
        RunnerError: the table has no shards, a shard has several placements, or is on a node that clients do not
            connect to.
    """
    places = {node.groupid: place for place, node in enumerate(nodes)}
    found: list[Integers] = []
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        part = keys[start : start + _KEYS_AT_ONCE]
        rows = sql.query(connection, _OWNERS, list(part), relation, timeout_s=None)
        groups = list(rows[0][0] or ())
        if len(groups) != len(part):
            raise RunnerError(
                f"{pluralize(len(part), 'key')} of table {relation} have {pluralize(len(groups), 'placement')}: "
                "no single node owns them",
                hint="distribute it by hash, with citus.shard_replication_factor 1",
            )
        if foreign := set(groups) - places.keys():
            raise RunnerError(
                f"shards of table {relation} are on {join_words([f'group {one}' for one in sorted(foreign)])} of "
                "pg_dist_node, which no client connects to",
                hint="let clients connect to all nodes with shards, or move these shards",
            )
        found.append(np.array([places[group] for group in groups], dtype=np.int64))
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


_OWNERS: Final = """
SELECT array_agg(placement.groupid ORDER BY keys.number)
FROM (
    SELECT number, get_shard_id_for_distribution_column(relation, key) AS shardid
    FROM unnest(%s::text[]) WITH ORDINALITY AS given (key, number), CAST(%s AS regclass) AS relation
) AS keys
JOIN pg_dist_placement AS placement USING (shardid)
WHERE placement.shardstate = 1
"""


def divide_owned_numbers(owners: Integers, numbers: Integers, *, nodes: int, parts: int) -> list[Integers]:
    """Give each load generator numbers of its node; generators of one node get different ones.

    Args:
        owners: place of the node that owns each number, shape (n,).
        numbers: the numbers, ascending, shape (n,).
        nodes: number of nodes.
        parts: number of load generators, a multiple of it; number p queries node p modulo `nodes`.

    Raises:
        RunnerError: a load generator would have no number.

    Example:
        >>> [part.tolist() for part in divide_owned_numbers(
        ...     np.array([0, 1, 0, 1, 0, 0]), np.arange(6), nodes=2, parts=4)]
        [[0, 4], [1], [2, 5], [3]]
    """
    divided = [numbers[owners == part % nodes][part // nodes :: parts // nodes] for part in range(parts)]
    if empty := [str(part) for part, own in enumerate(divided) if not len(own)]:
        raise RunnerError(
            f"no key of {pluralize(len(numbers), 'record')} is left for load generator {join_words(empty)}",
            hint="use more records (matrix.records), or fewer load generators",
        )
    return divided
