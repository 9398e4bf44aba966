"""`pg_dist_node.csv`: the catalogue `pg_dist_node` as CSV with a header.

Table: `nodes`. Example::

    nodeid,groupid,nodename,nodeport,...
    3,2,worker2,5432,...

The node's name in file names is assumed to be its group (`0` = coordinator); `config.yml` may override it.
"""

from __future__ import annotations

from typing import ClassVar, Final

from citus_analysis.formats.parsing.csv_records import CsvExtract, CsvField

_FIELDS: Final = {
    "nodeid": CsvField("nodeid", required=True),
    "groupid": CsvField("groupid", required=True),
    "host": CsvField("nodename", str),
    "port": CsvField("nodeport"),
    "node": CsvField("groupid", lambda text: str(int(text))),
}


class PgDistNode(CsvExtract):
    """Extract of the catalogue `pg_dist_node`."""

    name: ClassVar[str] = "pg_dist_node"
    version: ClassVar[int] = 2
    tables = ("nodes",)
    fields = _FIELDS
    signature = frozenset((b"nodeid", b"groupid", b"nodename"))


FORMAT: Final = PgDistNode()
