"""The records of server logs in the order of their sessions, over all files of an iteration.

Server logs are rotated, copied while they are rotated, and concatenated by hand: files overlap, lines occur in two
files or twice in one, and a file may sort after a younger one. Files of one node follow each other in time; where the
numbers of a backend's records (`%l`) go back, its records are sorted, and copies are left out. Backends that work for
one another form groups that can be traced by themselves.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from citus_analysis.schema import SEVERITIES
from citus_analysis.spans.ordered_arrays import Flags, Indices, changes, number_groups

#: gpid = nodeid * GPID_NODE_FACTOR + pid of the parent backend (Citus, GLOBAL_PID_NODE_ID_MULTIPLIER).
GPID_NODE_FACTOR: Final = 10_000_000_000

_IDENTITY: Final = ("source_id", "node", "resource", "run_id", "iteration")
#: Columns of what identifies the files of parts of logs, and of the first time in them, µs.
LOG_PARTS: Final = {**dict.fromkeys(_IDENTITY[:-1], pl.String), "iteration": pl.Int32, "first_time": pl.Int64}
USED: Final = (
    *("pid", "byte_offset", "log_time", "session_line", "local_xid", "gpid"),
    *("severity", "kind", "phase", "duration_us", "shard_id", "task_us"),
    *(
        "worker_host",
        "worker_port",
        "statement_kind",
        "statement_name",
        "statement_fingerprint",
        "values_hash",
        "other_shards",
    ),
)
#: Columns of `log_events` that name the file of a record, and its time.
FILE_COLUMNS: Final = (*_IDENTITY, "log_time")
#: Columns of `log_events` that traces are built from.
TRACED_COLUMNS: Final = (*_IDENTITY, *USED)


def order_log_files(parts: pl.DataFrame) -> pl.DataFrame:
    """The log files of an iteration, numbered (`source`: 0, 1, 2 ...); those of one node follow each other in time.

    Args:
        parts: columns of :data:`LOG_PARTS`; parts of one file each.
    """
    files = parts.group_by("source_id").agg(pl.col(_IDENTITY[1:]).first(), pl.col("first_time").min())
    named = files.with_columns(pl.col(pl.Categorical).cast(pl.String)).sort("node", "first_time", "source_id")
    return named.with_columns(node=pl.coalesce("node", "source_id")).with_row_index("source")


def list_log_files(*parts: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """The numbered files (:func:`order_log_files`) of rows of table `log_events`, read part by part."""
    first_time = pl.col("log_time").to_physical().min().alias("first_time")
    firsts = (part.lazy().group_by("source_id").agg(pl.col(_IDENTITY[1:]).first(), first_time) for part in parts)
    return order_log_files(pl.concat([part.collect() for part in firsts]))


def number_record_files(events: pl.DataFrame, files: pl.DataFrame) -> NDArray[np.uint32]:
    """The number of the log file of each record."""
    names = events.select(pl.col("source_id").cast(pl.String))
    return names.join(files, on="source_id", how="left", maintain_order="left")["source"].to_numpy()


def sort_record_rows(events: pl.DataFrame, files: pl.DataFrame, source: NDArray[np.uint32]) -> tuple[Indices, Indices]:
    """Rows sorted by node, backend and position, and the index at which each backend begins."""
    # No process has the number 0, so records of unknown sessions stand together.
    pid, node = events["pid"].fill_null(0).to_numpy(), files["node"].rank("dense").to_numpy()[source]
    rows = np.lexsort((events["byte_offset"].to_numpy(), source, pid, node))
    return rows, np.flatnonzero(changes(node[rows]) | changes(pid[rows]))


def list_numbered_nodes(nodes: pl.DataFrame) -> list[tuple[str, int]]:
    """Name and nodeid of the rows of table `nodes` that state both; of several with one of them, the first counts.

    Example:
        >>> list_numbered_nodes(pl.DataFrame({"node": ["1", "1", None], "nodeid": [None, 7, 8]}))
        [('1', 7)]
    """
    return [pair for pair in zip(nodes["node"], nodes["nodeid"], strict=True) if None not in pair]


# The text of a record, its time and its number in the session (`%l`) show that two lines are the same record, and `%l`
# shows where a session continues.

#: Columns that are equal in two copies of a record, besides the backend. The text is not among the columns that traces
#: are built from, and is not needed: a backend does not use a number twice within a millisecond.
SAME_RECORD: Final = (
    "session_line", "log_time", "local_xid", "gpid", "severity", "kind", "phase", "duration_us", "shard_id", "task_us",
    "worker_host", "worker_port", "statement_kind", "statement_fingerprint",
)  # fmt: skip
_DETAILS: Final = SEVERITIES[SEVERITIES.index("DETAIL") :]


def stitch_records(events: pl.DataFrame, order: Indices, starts: Indices) -> tuple[Indices, Indices]:
    """Sort the records of backends whose numbers go back, and leave out copies.

    Backends whose numbers only rise are not changed: for logs in order, this function only compares numbers.

    Args:
        events: the records.
        order: rows of `events`, by backend and position.
        starts: index in `order` at which each backend begins.

    Returns:
        The new `order`, and the rows of the copies that were left out.
    """
    backend = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(order)))
    odd = _is_number_decreasing(events, order, backend)
    if not odd.any():
        return order, np.zeros(0, np.intp)
    at = np.flatnonzero(np.isin(backend, np.unique(backend[odd])))
    # The first copy of each record. Records without a number are all kept, because copies cannot be recognised.
    said = events[list(SAME_RECORD)][order[at]].with_columns(backend=pl.Series(backend[at]))
    first = said.select(pl.struct(pl.all()).is_first_distinct()).to_series()
    kept = (first | said["session_line"].is_null()).to_numpy()
    sorted_rows = _sort_by_session(events, order[at][kept], backend[at][kept])
    stays = np.ones(len(order), np.bool_)
    stays[at[~kept]] = False
    stitched = order.copy()
    stitched[at[kept]] = sorted_rows
    return stitched[stays], order[at[~kept]]


def _is_number_decreasing(events: pl.DataFrame, order: Indices, backend: Indices) -> Flags:
    """Whether a record's number is not larger than the one before it in the same backend."""
    # Records of unknown sessions are in no order.
    known = pl.when(pl.col("pid").is_not_null()).then("session_line")
    line = events.select(known.fill_null(0)).to_series().to_numpy()[order]
    back = np.zeros(len(order), np.bool_)
    back[1:] = ~_is_next_number(line, _is_detail_row(events, order)) & (line[1:] > 0) & (backend[1:] == backend[:-1])
    return back


def _is_detail_row(events: pl.DataFrame, rows: Indices) -> Flags:
    found = events["severity"].cast(pl.String).is_in(_DETAILS).fill_null(value=False).to_numpy()
    return np.asarray(found[rows], dtype=np.bool_)


def _is_next_number(line: NDArray[np.int64], detail: Flags) -> Flags:
    """Whether a record's number follows the one before it; details of csvlog and jsonlog repeat their record's."""
    rises: Flags = (line[1:] > line[:-1]) | (detail[1:] & (line[1:] == line[:-1]))
    return rises


def _sort_by_session(events: pl.DataFrame, rows: Indices, backend: Indices) -> Indices:
    """Records by session and number. Times show which runs of rising numbers belong to one session."""
    line = events["session_line"].fill_null(0).to_numpy()[rows]
    if not line.all():
        return rows
    time = events["log_time"].to_physical().fill_null(0).to_numpy()[rows]
    begins = changes(backend)
    begins[1:] |= ~_is_next_number(line, _is_detail_row(events, rows))
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(rows)) - 1
    ends = np.maximum.reduceat(time, first)
    by_time = np.lexsort((line[first], time[first], backend[first]))
    session = np.empty(len(first), np.uint32)
    # A run continues the session before it if its numbers follow, or if it was written meanwhile and fills a gap.
    first_line = line[first][by_time]
    opens = changes(backend[first][by_time]) | (first_line == 1)
    follows = first_line[1:] > line[last][by_time][:-1]
    meanwhile = time[first][by_time][1:] < ends[by_time][:-1]
    opens[1:] |= ~(follows | meanwhile)
    session[by_time] = number_groups(opens)
    return rows[np.lexsort((line, session[number_groups(begins) - 1]))]


# Sessions divided into groups whose traces do not depend on each other.
#
# Only a parent's session and the sessions that Citus opens on its behalf, which have its gpid, must be processed
# together. So the backends of an iteration form connected components, which are packed into groups that fit into
# memory.


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
    owners = pl.DataFrame(list_numbered_nodes(nodes), schema=named, orient="row").unique("nodeid", keep="first")
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
