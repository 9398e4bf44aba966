"""`pg_dist_node.csv`: the catalogue `pg_dist_node` as CSV with a header.

Table: `nodes`. Example::

    nodeid,groupid,nodename,nodeport,...
    3,2,worker2,5432,...

The node's name in file names is assumed to be its group (`0` = coordinator); `config.yml` may override it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.reading.small_csv import CSV_LIMIT_BYTES, Field, parse_small_csv
from citus_analysis.formats.sources.content import Content

_FIELDS: Final = {
    "nodeid": Field("nodeid", required=True),
    "groupid": Field("groupid", required=True),
    "host": Field("nodename", str),
    "port": Field("nodeport"),
}


class PgDistNode(Format):
    """Extract of the catalogue `pg_dist_node`."""

    name: ClassVar[str] = "pg_dist_node"
    version: ClassVar[int] = 2
    noise = "the header"
    tables = ("nodes",)

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the header names both ids of a node."""
        header = head.split(b"\n", 1)[0].lstrip(b"\xef\xbb\xbf").strip().split(b",")
        return 1.0 if {b"nodeid", b"groupid", b"nodename"} <= set(header) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece: all nodes."""
        parsed = parse_small_csv(content.read(CSV_LIMIT_BYTES), "nodes", _FIELDS)
        nodes = parsed.frame("nodes").with_columns(node=pl.col("groupid").cast(pl.String))
        yield Parsed({"nodes": nodes}, parsed.parsed_bytes, parsed.noise_bytes, parsed.rejects)


FORMAT: Final = PgDistNode()
