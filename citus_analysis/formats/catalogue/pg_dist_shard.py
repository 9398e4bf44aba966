"""`pg_dist_shard.csv`: the catalogue `pg_dist_shard` joined with its placements, as CSV with a header.

Table: `shards`. Example::

    logicalrelid,shardid,placementid,groupid,nodename,nodeport,shardminvalue,shardmaxvalue
    usertable,102008,1,1,worker1,5432,-2147483648,-1073741825
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.reading.small_csv import CSV_LIMIT_BYTES, Field, parse_small_csv
from citus_analysis.formats.sources.content import Content

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


class PgDistShard(Format):
    """Extract of the catalogues `pg_dist_shard` and `pg_dist_placement`."""

    name: ClassVar[str] = "pg_dist_shard"
    version: ClassVar[int] = 2
    noise = "the header"
    tables = ("shards",)

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the header names a relation and its shard."""
        header = head.split(b"\n", 1)[0].lstrip(b"\xef\xbb\xbf").strip().split(b",")
        return 1.0 if {b"logicalrelid", b"shardid"} <= set(header) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece: all shards."""
        yield parse_small_csv(content.read(CSV_LIMIT_BYTES), "shards", _FIELDS)


FORMAT: Final = PgDistShard()
