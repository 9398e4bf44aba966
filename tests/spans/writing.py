"""Server logs written for a test: sessions of a small cluster, in the words real ones have."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import polars as pl

from citus_analysis.schema import TABLES
from tests.spans.recordings import Recording, parse_log

START = datetime(2026, 11, 20, 21, 0, 0, tzinfo=UTC)
COLUMNS = "(ycsb_key, field0)"


@dataclass
class Node:
    """One node with its log; `clock_ms` is added to every time it prints."""

    name: str
    nodeid: int
    clock_ms: int = 0
    lines: list[str] = field(default_factory=list)

    def session(self, pid: int, *, gpid: int | None = None, first_line: int = 1) -> "Session":
        return Session(self, pid, f"citus_internal gpid={gpid}" if gpid else "PostgreSQL JDBC Driver", first_line)

    def log(self) -> bytes:
        return "".join(self.lines).encode()


@dataclass
class Session:
    """One backend; `line` is the number of its next record."""

    node: Node
    pid: int
    app: str
    line: int = 1
    xid: int = 1

    @property
    def gpid(self) -> int:
        return self.node.nodeid * 10**10 + self.pid

    def write(self, ms: float, text: str, severity: str = "LOG", *, xid: int | None = None) -> None:
        time = START + timedelta(milliseconds=ms + self.node.clock_ms)
        stamp = f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03d}"
        number = self.xid if xid is None else xid
        self.node.lines.append(
            f"{stamp} UTC [{self.pid}] [7/{number}] : [{self.line}-1] [app={self.app}] {severity}:  {text}\n"
        )
        self.line += 1


def shard_insert(shard: int, key: int) -> str:
    return f"INSERT INTO public.usertable_{shard} {COLUMNS} VALUES ('user{key}'::text, 'x'::text)"


def begin(parent: Session, ms: float, key: int) -> None:
    """Bind and the statement line of an insert with a cached plan."""
    parent.xid += 1
    parent.write(ms, "duration: 0.020 ms")
    parent.write(ms, f"execute S_1: INSERT INTO usertable {COLUMNS} VALUES ($1,$2)")
    parent.write(ms, f"parameters: $1 = 'user{key}', $2 = 'x'", "DETAIL")


def run_child(child: Session, ms: float, shard: int, key: int, took_ms: float = 0.4) -> None:
    """An insert on a shard over the text protocol."""
    child.xid += 1
    child.write(ms, f"statement: {shard_insert(shard, key)}")
    child.write(ms + took_ms, f"duration: {took_ms:.3f} ms", xid=0)


def end(parent: Session, ms: float, shard: int, host: str, took_ms: float = 0.7) -> None:
    """The task record and the end of the statement."""
    parent.write(
        ms,
        f"task execution (0) for placement (1) on anchor shard ({shard}) finished in {took_ms * 1000:.0f} "
        f"microseconds on worker node {host}:5432",
        "DEBUG",
    )
    parent.write(ms, f"duration: {took_ms + 0.1:.3f} ms")


def insert(parent: Session, child: Session, ms: float, key: int, shard: int = 102008) -> None:
    """A remote insert that takes 0.8 ms."""
    begin(parent, ms, key)
    run_child(child, ms + 0.2, shard, key)
    end(parent, ms + 0.7, shard, f"worker{child.node.name}")


def record(*nodes: Node) -> Recording:
    """The nodes' logs as tables."""
    frames = []
    for node in nodes:
        identity = {"source_id": f"log-{node.name}", "resource": "r", "iteration": 1, "node": node.name}
        frame = parse_log(node.log())["log_events"]
        frames.append(TABLES["log_events"].conform(frame.with_columns(pl.lit(v).alias(k) for k, v in identity.items())))
    places = {
        "resource": ["r"] * len(nodes),
        "node": [node.name for node in nodes],
        "nodeid": [node.nodeid for node in nodes],
        "host": [f"worker{node.name}" for node in nodes],
        "port": [5432] * len(nodes),
    }
    logs = {f"log-{node.name}": node.log() for node in nodes}
    checkpoints = TABLES["checkpoints"].empty()
    return Recording(pl.concat(frames), checkpoints, TABLES["nodes"].conform(pl.DataFrame(places)), logs)
