"""Small outputs of several clients, converted in one pass.

Only usual output is joined: of one client, with its banner, status lines and metrics, of which no line is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from citus_analysis.core.column_types import TIME
from citus_analysis.formats.api.format import Parsed
from citus_analysis.formats.api.joinable import Joined
from citus_analysis.formats.clients.ycsb import _status, _summary
from citus_analysis.formats.clients.ycsb._client import Client, client_rows, totals
from citus_analysis.formats.clients.ycsb._lines import ONCE, TELLING, classified_lines, told

__all__ = ["is_usual", "joined_pieces"]

#: Beginnings of lines; those of messages, of their stack traces, of labels and of other exporters are none of these.
_BEGINNINGS: Final = (
    r"\n",
    r"\[[A-Za-z]",
    r" ?[0-9]+ sec: ",
    r"[0-9]{4}-[0-9]{2}-",
    r"Command line: |YCSB Client |[\w/.~-]*java ",
    r"Loading workload|Starting test\.",
    r"Adding shard node URL: |Using shards: |DBWrapper: report latency ",
    r"Maximum |Stop requested |Still waiting ",
)
_USUAL: Final = re.compile(rf"(?:(?={'|'.join(_BEGINNINGS)})[^\n]*\n)*".encode())
#: A bucket of a histogram, or a point in time.
_POINT: Final = re.compile(rb"\], >?[0-9]+, ")
#: The metric by which histograms are recognised.
_OF_HISTOGRAMS: Final = b"LatencyVariance"
_KINDS: Final = frozenset({"noise", "status", "summary", "command", "launch", "version", "limit"})


def is_usual(data: bytes) -> bool:
    r"""Whether a source looks like the usual output of a single client: a quick test.

    Example:
        >>> is_usual(b"[OVERALL], RunTime(ms), 7324\n"), is_usual(b"[READ], 0, 12\n"), is_usual(b"\tat site.ycsb\n")
        (True, False, False)
    """
    once = all(data.count(text.encode()) <= 1 for text in ONCE)
    plain = _OF_HISTOGRAMS not in data and _POINT.search(data) is None
    return once and plain and _USUAL.fullmatch(data) is not None


def joined_pieces(joined: Joined, timezone: str) -> list[Parsed] | None:
    """A piece for each source; None if a line is not usual after all, or a source has none that only YCSB prints.

    Args:
        joined: sources for which :func:`is_usual`.
        timezone: IANA zone of the clients' clocks.
    """
    lines = _with_client(classified_lines(joined.data, 0), joined)
    clients = [Client() for _ in joined.lengths]
    telling = lines["client"].filter(lines["kind"].is_in(TELLING))
    if not set(lines["kind"].unique()) <= _KINDS or telling.n_unique() < len(clients):
        return None
    for client, kind, text in told(lines).select("client", "kind", "text").iter_rows():
        clients[client].add_banner(kind, text)
    found = {
        "client_metrics": _metrics(lines.filter(pl.col("kind") == "summary"), joined, clients),
        "client_series": _series(lines.filter(pl.col("kind") == "status"), joined, timezone, clients),
    }
    tables = {name: (rows.drop("offset"), joined.bounds(rows["offset"].to_numpy())) for name, rows in found.items()}
    tables["clients"] = client_rows(clients), np.arange(len(clients) + 1)
    return joined.divided(tables, lines.with_columns(noise=pl.col("kind") == "noise"))


def _with_client(rows: pl.DataFrame, joined: Joined) -> pl.DataFrame:
    """Rows with an `offset`, and the number of the `client` in whose output that is."""
    return rows.with_columns(client=pl.Series(joined.sources(rows["offset"].to_numpy())))


def _metrics(lines: pl.DataFrame, joined: Joined, clients: Sequence[Client]) -> pl.DataFrame:
    """Rows of `client_metrics` with the `offset` of their lines; the clients are told those of their totals."""
    values = _summary.named_values(lines)
    metrics = _summary.metric_rows(values).with_columns(values["offset"])
    of_totals = totals(metrics)
    rows = of_totals.select("section", "metric", "value").rows()
    for client, (begin, end) in zip(clients, pairwise(joined.bounds(of_totals["offset"].to_numpy())), strict=True):
        client.add_totals(rows[begin:end])
    return metrics


def _series(lines: pl.DataFrame, joined: Joined, timezone: str, clients: Sequence[Client]) -> pl.DataFrame:
    """Rows of `client_series` with the `offset` of their lines; the clients are told of them."""
    status = _with_client(_status.status_fields(lines, timezone), joined)
    status = _status.distinct_status(status, "client")
    for client, *facts in status.group_by("client", maintain_order=True).agg(_status.STATUS_FACTS).iter_rows():
        clients[client].add_status(*facts)
    starts = pl.Series("start", [client.clock_start for client in clients], TIME.polars)
    series = _status.series_rows(status.with_columns(starts.gather(status["client"])), pl.col("start"))
    of_clients = _with_client(series, joined).group_by("client", maintain_order=True)
    for client, *facts in of_clients.agg(_status.SERIES_FACTS).iter_rows():
        clients[client].add_series(*facts)
    return series
