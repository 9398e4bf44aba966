"""Recordings of a real cluster as tables, and what is known of the keys in them."""

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import polars as pl

from citus_analysis.formats import Content, Hints, format_named
from citus_analysis.schema import TABLES
from citus_analysis.spans import build_traces
from citus_analysis.spans.traces import Traces
from tests.recordings import RECORDED

ROOT = Path(__file__).parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"

_LOG = re.compile(r"PGLOG-(?P<node>\d+)-(?P<iteration>\d+)\.log(\.zst)?")
_KEY = re.compile(rb"user\d{6,}")


@dataclass(frozen=True)
class Recording:
    """Tables of a resource, and the bytes of its server logs by source_id."""

    log_events: pl.DataFrame
    checkpoints: pl.DataFrame
    nodes: pl.DataFrame
    logs: dict[str, bytes]

    def tables(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """What traces are built from."""
        return self.log_events, self.nodes

    def without_values(self) -> "Recording":
        """The same where nothing is known of the values of statements (`log_parameter_max_length = 0`)."""
        unknown = pl.lit(None, TABLES["log_events"]["values_hash"].dtype)
        return replace(self, log_events=self.log_events.with_columns(values_hash=unknown))


@dataclass(frozen=True)
class Cut:
    """Takes the first or last third of one node's logs away, in the middle of a line as it comes."""

    node: str
    third: str

    def __call__(self, node: str, data: bytes) -> bytes:
        """What is left of a node's log."""
        begin, end = self.kept(node, len(data))
        return data[begin:end]

    def kept(self, node: str, size: int) -> tuple[int, int]:
        """Where what is left begins and ends in the whole log."""
        if node != self.node:
            return 0, size
        return (size // 3, size) if self.third == "first" else (0, size - size // 3)


def unchanged(_node: str, data: bytes) -> bytes:
    return data


@cache
def load(
    resource: str,
    iterations: tuple[int, ...] | None = None,
    change: Callable[[str, bytes], bytes] = unchanged,
    root: Path = RECORDED,
) -> Recording:
    """Parse a resource's server logs; `change` edits the bytes of a node's log before."""
    folder = root / resource
    logs: dict[str, bytes] = {}
    tables: dict[str, list[pl.DataFrame]] = {"log_events": [], "checkpoints": []}
    for path in sorted((folder / "pglogs").iterdir()):
        found = _LOG.fullmatch(path.name)
        if found is None or (iterations is not None and int(found["iteration"]) not in iterations):
            continue
        source = path.name.removesuffix(".zst")
        logs[source] = change(found["node"], Content(path).read(1 << 30))
        identity = {
            "source_id": source,
            "resource": folder.name,
            "iteration": int(found["iteration"]),
            "node": found["node"],
        }
        for name, frame in parse_log(logs[source]).items():
            tables[name].append(
                TABLES[name].conform(frame.with_columns(pl.lit(v).alias(k) for k, v in identity.items()))
            )
    return Recording(pl.concat(tables["log_events"]), pl.concat(tables["checkpoints"]), _nodes(folder), logs)


def parse_log(data: bytes, **options: str) -> dict[str, pl.DataFrame]:
    """Tables of one server log, read with options of its format."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "PGLOG-1-1.log"
        path.write_bytes(data)
        pieces = list(format_named("pglog").parse(Content(path), Hints(path.name, options)))
    return {
        name: pl.concat([TABLES[name].parsed().empty(), *(piece.frame(name) for piece in pieces)])
        for name in ("log_events", "checkpoints")
    }


@cache
def traces_of(
    resource: str, iterations: tuple[int, ...] | None = None, change: Callable[[str, bytes], bytes] = unchanged
) -> Traces:
    """Traces of a recording."""
    recording = load(resource, iterations, change)
    return build_traces(recording.log_events, recording.nodes)


def _nodes(folder: Path) -> pl.DataFrame:
    path = folder / "config.yml"
    pieces = format_named("config").parse(Content(path), Hints(path.name))
    nodes = pl.concat([piece.frame("nodes") for piece in pieces])
    return TABLES["nodes"].conform(nodes.with_columns(resource=pl.lit(folder.name)))


def pairs_with_keys(traces: Traces, recording: Recording) -> pl.DataFrame:
    """Every pair of a task and a remote execution, with the key that each side's own log text shows."""
    tasks = traces.spans.filter(pl.col("kind") == "task")
    remotes = traces.spans.filter((pl.col("kind") == "remote") & pl.col("parent_span_id").is_not_null())
    asked = _with_record(tasks, recording, pl.col("kind") == "parameters", "parent")
    ran = _with_record(
        remotes,
        recording,
        pl.col("kind").is_in(["statement", "execute"]) & pl.col("gpid").is_not_null(),
        "child",
    )
    children = ran.select(
        "child_key",
        span_id="parent_span_id",
        match=pl.col("match").cast(pl.String),
        child_source="source_id",
        child_offset="child_record",
    )
    return asked.select("span_id", "source_id", "byte_offset", "parent_key").join(children, on="span_id", how="inner")


def _with_record(spans: pl.DataFrame, recording: Recording, chosen: pl.Expr, side: str) -> pl.DataFrame:
    """The last record of a kind that the same backend wrote before each span's own record, and the key in it."""
    record = f"{side}_record"
    records = recording.log_events.filter(chosen).select("source_id", "pid", "byte_offset", "byte_length")
    nearest = spans.sort("byte_offset").join_asof(
        records.with_columns(pl.col("byte_offset").alias(record)).sort("byte_offset"),
        on="byte_offset",
        by=["source_id", "pid"],
        check_sortedness=False,
    )
    keys = [
        key_of(recording.logs[source][offset : offset + length]) if offset is not None else None
        for source, offset, length in nearest.select("source_id", record, "byte_length").iter_rows()
    ]
    return nearest.with_columns(pl.Series(f"{side}_key", keys, dtype=pl.String))


def key_of(record: bytes) -> str | None:
    """The first key in a record."""
    found = _KEY.search(record)
    return found.group().decode() if found else None
