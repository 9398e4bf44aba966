"""`pg_dist_shard.csv`: the catalogue `pg_dist_shard` joined with its placements, as CSV with a header.

Table: `shards`. Example::

    logicalrelid,shardid,placementid,groupid,nodename,nodeport,shardminvalue,shardmaxvalue
    usertable,102008,1,1,worker1,5432,-2147483648,-1073741825
"""

from __future__ import annotations

from typing import ClassVar, Final

from citus_analysis.formats.parsing.csv_records import CsvExtract, CsvField

_FIELDS: Final = {
    "relation": CsvField("logicalrelid", str, required=True),
    "shard_id": CsvField("shardid", required=True),
    "placement_id": CsvField("placementid"),
    "groupid": CsvField("groupid"),
    "host": CsvField("nodename", str),
    "port": CsvField("nodeport"),
    "hash_min": CsvField("shardminvalue"),
    "hash_max": CsvField("shardmaxvalue"),
}


class PgDistShard(CsvExtract):
    """Extract of the catalogues `pg_dist_shard` and `pg_dist_placement`."""

    name: ClassVar[str] = "pg_dist_shard"
    version: ClassVar[int] = 2
    tables = ("shards",)
    fields = _FIELDS
    signature = frozenset((b"logicalrelid", b"shardid"))


FORMAT: Final = PgDistShard()
