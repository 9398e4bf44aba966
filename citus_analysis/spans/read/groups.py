"""Sessions divided into groups whose traces do not depend on each other.

Only a parent's session and the sessions that Citus opens on its behalf, which have its gpid, must be processed
together. So the backends of an iteration form connected components, which are packed into groups that fit into memory.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from citus_analysis.spans.read.assembling import GPID_NODE_FACTOR, numbered_nodes


def group_sessions(backends: pl.DataFrame, nodes: pl.DataFrame, most_records: int) -> pl.DataFrame:
    """Divide the backends of one iteration into groups of about `most_records` records.

    Args:
        backends: one row per `node`, `pid` and `gpid` (null if a backend works for itself) with the number of its
            `records`, in any order.
        nodes: rows of table `nodes` of the resource, by which gpids name nodes.
        most_records: size of a group. A group is much larger only if a single component is.

    Returns:
        `node`, `pid` and `group` (0, 1, 2 ...), one row per backend.

    Example:
        >>> backends = pl.DataFrame({"node": ["1", "2", "2"], "pid": [7, 8, 9], "gpid": [None, 10_000_000_007, None],
        ...                          "records": [5, 5, 5]})
        >>> nodes = pl.DataFrame({"node": ["1"], "nodeid": [1]})
        >>> group_sessions(backends, nodes, 10)["group"].to_list()
        [0, 0, 1]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    own = backends.group_by("node", "pid").agg(pl.col("records").sum()).sort("node", "pid")
    own = own.with_row_index("backend")
    gpids = backends.select("gpid").drop_nulls().unique().sort("gpid").with_row_index("number", offset=own.height)
    children = (
        backends.drop_nulls("gpid")
        .join(own.drop("records"), on=["node", "pid"], nulls_equal=True)
        .join(gpids, on="gpid")
        .select("backend", "number")
    )
    named = [("node", nodes.schema["node"]), ("nodeid", pl.Int64())]
    owners = pl.DataFrame(numbered_nodes(nodes), schema=named, orient="row").unique("nodeid", keep="first")
    parents = (
        gpids.with_columns(nodeid=pl.col("gpid") // GPID_NODE_FACTOR, pid=pl.col("gpid") % GPID_NODE_FACTOR)
        .join(owners, on="nodeid")
        .join(own.select("backend", "node", pl.col("pid").cast(pl.Int64)), on=["node", "pid"])
        .select("backend", "number")
    )
    links = pl.concat([children, parents])
    count = own.height + gpids.height
    graph = coo_array((np.ones(links.height, np.int8), (links["backend"], links["number"])), shape=(count, count))
    _, component = connected_components(graph, directed=False)
    placed = own.with_columns(component=pl.Series(component[: own.height]))
    sizes = placed.group_by("component").agg(pl.col("records").sum(), pl.col("backend").min()).sort("backend")
    packed = sizes.select("component", group=(pl.col("records").cum_sum() - pl.col("records")) // most_records)
    numbered = packed.with_columns(group=pl.col("group").rank("dense").cast(pl.Int32) - 1)
    return placed.join(numbered, on="component", maintain_order="left").select("node", "pid", "group")
