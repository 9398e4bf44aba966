"""`pg_dist_shard.csv`: the catalogue `pg_dist_shard` joined with its placements, as CSV with a header.

Table: `shards`. Example::

    logicalrelid,shardid,placementid,groupid,nodename,nodeport,shardminvalue,shardmaxvalue
    usertable,102008,1,1,worker1,5432,-2147483648,-1073741825
"""

from __future__ import annotations

from typing import ClassVar, Final

from citus_analysis.formats.catalogue._csv_extract import CsvExtract
from citus_analysis.formats.reading.small_csv import Field

_FIELDS: Final = {
    "relation": Field("logicalrelid", str, required=True),
    "shard_id": Field("shardid", required=True),
    "placement_id": Field("placementid"),
    "groupid": Field("groupid"),
    "host": Field("nodename", str),
    "port": Field("nodeport"),
    "hash_min": Field("shardminvalue"),
    "hash_max": Field("shardmaxvalue"),
}


class PgDistShard(CsvExtract):
    """Extract of the catalogues `pg_dist_shard` and `pg_dist_placement`."""

    name: ClassVar[str] = "pg_dist_shard"
    version: ClassVar[int] = 2
    tables = ("shards",)
    fields = _FIELDS
    signs = frozenset((b"logicalrelid", b"shardid"))


FORMAT: Final = PgDistShard()
