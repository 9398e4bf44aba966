"""A recording made up so that its headlines are known beforehand, with the traps that pages fell into.

- *Pooling*: the runs of the grid are made in blocks; another experiment loads other numbers of records after them, at
  half the rate. Whoever pools the two gets ratios that are a half too large.
- *Slow first seconds*: with 64 threads, the first ten seconds are slow; from then on there is no difference.
- *Connecting sessions*: one in four sampled statements opens a connection to another node, which takes five times
  as long as a statement that finds one.
- *Foreign work*: during one run of the other experiment, another program uses the machine's processors.

Each file has the form of the files in `data/recorded`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np
import yaml

BLOCKS: Final = 5
#: Throughput of one worker, and the contention by which it grows, as Amdahl's law.
BASE: Final = 250.0
CONTENTION: Final = 0.05
SECONDS: Final = 30
SLOW_SECONDS: Final = 10
#: What the slow first seconds reach of the later rate.
SLOW: Final = 0.4
#: Ratio of throughputs with twice the CPU and without, in every block but for the noise.
DOUBLE: Final = 2.0
#: Throughput of the loads of other numbers of records, relative to the grid's.
OTHER_RECORDS: Final = 0.5
#: Mean times of a sampled remote statement in ms: in all, and its parts.
STEADY_MS: Final = {"parent": 3.0, "child": 2.0, "between": 15.0}
CONNECTING_MS: Final = 100.0
OPENED_EVERY: Final = 4
#: Runs beside which another program worked, and its share of the machine's CPUs in per cent.
FOREIGN: Final = (("citus-intensity-w4-t32-load-r16000", 1),)
FOREIGN_PERCENT: Final = 45
_BEGIN: Final = datetime(2026, 3, 2, 8, 0, 0)
_PREFIX: Final = "{time} UTC [{pid}] [{backend}] : [{line}-1] [app={app}] {text}\n"


@dataclass(frozen=True)
class Cell:
    """A configuration of the made-up study."""

    resource: str
    phase: str
    rate: float
    workers: int = 4
    threads: int = 32
    records: int = 10_000
    set_up: str = "query from any node"
    experiment: str = "citus"
    cpu: float = 0.1
    blocks: int = BLOCKS
    slow: bool = False

    @property
    def operation(self) -> str:
        """What its clients count."""
        return "INSERT" if self.phase == "load" else "READ"


def cells() -> list[Cell]:
    """The grid, which grows as Amdahl's law; its variants; and what was measured afterwards."""
    found = [
        Cell(f"citus-w{workers}-t32-load", "load", BASE * workers / (1 + CONTENTION * (workers - 1)), workers)
        for workers in (1, 2, 4, 8)
    ]
    base = found[2].rate
    name = "citus-double-w4-t32-load"
    found.append(Cell(name, "load", DOUBLE * base, set_up="twice the CPU", experiment="citus-double", cpu=0.2))
    for threads, slow in ((8, False), (64, True)):
        name = f"citus-connections-w4-t{threads}-load"
        found.append(Cell(name, "load", base, threads=threads, experiment="citus-connections", slow=slow))
    for records in (8_000, 16_000):
        name = f"citus-intensity-w4-t32-load-r{records}"
        found.append(Cell(name, "load", OTHER_RECORDS * base, records=records, experiment="citus-intensity", blocks=2))
    return found


def write_recording(folder: Path, seed: int = 7) -> Path:
    """Write the files of all runs below `folder`, which is returned."""
    random = np.random.default_rng(seed)
    blocks = {cell.resource: random.permutation(len(cells())) for cell in cells()}
    spread = {block: float(np.exp(random.normal(0, 0.08))) for block in range(1, BLOCKS + 1)}
    for place, cell in enumerate(cells()):
        home = folder / cell.resource
        for part in ("YCSB/raw", "pglogs", "general", "snapshots"):
            (home / part).mkdir(parents=True)
        (home / "config.yml").write_text(yaml.safe_dump(_describe(cell), sort_keys=False))
        _write_nodes(home, cell)
        logs = {node: list[str]() for node in range(cell.workers + 1)}
        vmstat, outcomes = list[str](), list[str]()
        for iteration in range(1, cell.blocks + 1):
            grid = cell.blocks == BLOCKS
            start = _BEGIN + timedelta(hours=iteration if grid else 10 + iteration)
            start += timedelta(minutes=2 * int(blocks[cell.resource][place] if grid else place))
            # All configurations of a block share its state; their own noise is small.
            rate = cell.rate * (spread[iteration] if grid else 1) * float(np.exp(random.normal(0, 0.01)))
            (home / "YCSB" / "raw" / _name(cell, iteration)).write_text(_client(cell, rate, start, random))
            monitor = _client(cell, 6.0, start, random, "monitor")
            (home / "YCSB" / "raw" / f"monitor_{_name(cell, iteration)}").write_text(monitor)
            _log_statements(logs, cell, start, iteration, random)
            vmstat += _machine(cell, iteration, start, random)
            outcomes.append(
                f"{iteration},verified,,{start:%FT%T}.000+00:00,{start + timedelta(seconds=32):%FT%T}.000+00:00\n"
            )
            (home / "general" / f"host-0-{iteration}.out").write_text(_quotas(cell, start))
        for node, lines in logs.items():
            if lines:
                (home / "pglogs" / f"PGLOG-{node}.log").write_text("".join(lines))
        (home / "general" / "vmstat-0.out").write_text("\n".join(vmstat) + "\n")
        (home / "outcomes.csv").write_text(
            "iteration,outcome,reason,measured_from,measured_until\n" + "".join(outcomes)
        )
    patterns = [
        {"pattern": f"{{resource}}/{place}"} for place in ("pglogs/PGLOG-{node}.log", "general/vmstat-{node}.out")
    ]
    (folder / "identity.yml").write_text(yaml.safe_dump({"files": patterns}))
    return folder


def _describe(cell: Cell) -> dict[str, object]:
    facts: dict[str, object] = {"set_up": cell.set_up, "phase": cell.phase}
    facts |= {"workload": "A" if cell.phase == "load" else "C", "threads": cell.threads, "records": cell.records}
    facts |= {} if cell.phase == "load" else {"operations": cell.records}
    nodes = {
        number + 1: {"node": f"127.0.0.1:{26400 + number}", "groupid": number, "pglog_number": str(number)}
        for number in range(cell.workers + 1)
    }
    return {
        "resource": cell.resource,
        "facts": facts | {"workers": cell.workers, "drivers": 1},
        "experiment": cell.experiment,
        "monitored": True,
        "order": "interleaved",
        "system": "citus",
        "hardware": f"one virtual machine (2 cores); nodes on one core, each held to {100 * cell.cpu:.0f} % of it",
        "cpu_per_node": cell.cpu,
        "nodes": nodes,
        "shard_count": 32,
        "settings": {"citus.enable_binary_protocol": "on", "log_line_prefix": "%m [%p] [%v] : [%l-1] %q[app=%a] "},
        "varied": [],
    }


def _write_nodes(home: Path, cell: Cell) -> None:
    nodes = [f"{n + 1},{n},127.0.0.1,{26400 + n},primary" for n in range(cell.workers + 1)]
    (home / "pg_dist_node.csv").write_text("nodeid,groupid,nodename,nodeport,noderole\n" + "\n".join(nodes) + "\n")
    rows = []
    for shard in range(32):
        group = 1 + shard % cell.workers
        low, high = -(2**31) + shard * 2**27, -(2**31) + (shard + 1) * 2**27 - 1
        rows.append(f"usertable,{104000 + shard},{500 + shard},{group},127.0.0.1,{26400 + group},{low},{high}")
    head = "logicalrelid,shardid,placementid,groupid,nodename,nodeport,shardminvalue,shardmaxvalue\n"
    (home / "pg_dist_shard.csv").write_text(head + "\n".join(rows) + "\n")


def _name(cell: Cell, iteration: int) -> str:
    tail = f"{iteration}_{cell.workers}_{cell.resource}_1_0.log"
    if cell.phase == "load":
        return f"load_A_{cell.threads}_{cell.records}_{tail}"
    return f"run_C_{cell.threads}_{cell.records}_{cell.records}_{tail}"


def _client(cell: Cell, rate: float, start: datetime, random: np.random.Generator, user: str = "postgres") -> str:
    slow = cell.slow and user == "postgres"
    level = np.where(np.arange(SECONDS) < SLOW_SECONDS, SLOW if slow else 1.0, 1.0)
    threads = cell.threads if user == "postgres" else 1
    counts = np.maximum(1, np.round(rate * level * np.exp(random.normal(0, 0.02, SECONDS)))).astype(int)
    urls = ",".join(f"127.0.0.1:{26401 + number}" for number in range(cell.workers))
    lines = [
        f"Command line: -{'load' if cell.phase == 'load' else 't'} -db site.ycsb.db.JdbcDBClient -s -threads {threads} "
        f"-p recordcount={cell.records} -p maxexecutiontime=31 -p operationcount=1000000000 "
        f"-p db.url=jdbc:postgresql://{urls}/ycsb?loadBalanceHosts=true -p db.user={user}",
        "YCSB Client 0.17.0",
        "",
        "Starting test.",
        f"{start:%F %T}:000 0 sec: 0 operations; est completion in 0 second ",
    ]
    done = 0
    for second, count in enumerate(counts, 1):
        done += int(count)
        mean = 1e6 * threads / count
        lines.append(
            f"{start + timedelta(seconds=second):%F %T}:000 {second} sec: {done} operations; {count} current ops/sec; "
            f"est completion in 1 day [{cell.operation}: Count={count}, Max={4 * mean:.0f}, Min=300, Avg={mean:.2f}, "
            f"90={2 * mean:.0f}, 99={3 * mean:.0f}, 99.9={4 * mean:.0f}, 99.99={4 * mean:.0f}] "
        )
    end = f"{start + timedelta(seconds=SECONDS):%F %T}:020"
    lines.append(f"{end} {SECONDS} sec: {done} operations; 0 current ops/sec; est completion in 1 day ")
    mean = 1e6 * threads * SECONDS / done
    lines += [
        f"[OVERALL], RunTime(ms), {1000 * SECONDS}",
        f"[OVERALL], Throughput(ops/sec), {done / SECONDS!r}",
        f"[{cell.operation}], Operations, {done}",
        f"[{cell.operation}], AverageLatency(us), {mean!r}",
        f"[{cell.operation}], MinLatency(us), 300",
        f"[{cell.operation}], MaxLatency(us), {4 * mean:.0f}",
        f"[{cell.operation}], 95thPercentileLatency(us), {2 * mean:.0f}",
        f"[{cell.operation}], 99thPercentileLatency(us), {3 * mean:.0f}",
        f"[{cell.operation}], Return=OK, {done}",
    ]
    return "\n".join(lines) + "\n"


def _log_statements(
    logs: dict[int, list[str]], cell: Cell, start: datetime, iteration: int, random: np.random.Generator
) -> None:
    """Two sampled sessions on node 1, of 29 statements each, whose shards are on the other workers in turn.

    Each log has a record from before the run, which shows that no record of the run is missing.
    """
    for lines in logs.values():
        before = f"{start - timedelta(seconds=1):%F %T}.000"
        lines.append(f"{before} UTC [90] [] : [{iteration}-1] LOG:  received SIGHUP, reloading configuration files\n")
    if cell.workers == 1:
        return
    verb = "INSERT INTO" if cell.phase == "load" else "SELECT * FROM"
    factor = float(np.exp(random.normal(0, 0.03)))
    known = dict[tuple[int, int], int]()
    children: list[tuple[datetime, int, int, int, str]] = []
    parents: list[tuple[datetime, int, str]] = []
    for session in range(2):
        pid = 1000 * iteration + session
        connected = start + timedelta(milliseconds=500 + 100 * session)
        parents.append((connected, pid, "LOG:  statement: SET application_name = 'PostgreSQL JDBC Driver'"))
        parents.append((connected, pid, "LOG:  duration: 0.500 ms"))
        for number in range(29):
            node = 2 + number % (cell.workers - 1)
            shard = 104000 + (node - 1)
            opens = number % OPENED_EVERY == 1 or (session, node) not in known
            if opens:
                known[session, node] = round(1000 * 60 * factor) + number
            key = f"user{random.integers(10**17, 10**18)}"
            parts = {part: factor * value for part, value in STEADY_MS.items()}
            if opens:  # Parsing and planning on cold caches take longer, too.
                parts["parent"] += factor * (CONNECTING_MS - sum(STEADY_MS.values()))
            wait, total = parts["child"] + parts["between"], sum(parts.values())
            at = start + timedelta(seconds=1 + number, milliseconds=100 * session)
            port = 26400 + node
            phases = [
                (0.0, "DEBUG:  bind <unnamed> to S_1"),
                (0.4, f"LOG:  duration: {0.4:.3f} ms"),
                (0.4, f"LOG:  execute S_1: {verb} usertable WHERE YCSB_KEY = $1"),
                (0.4, f"DETAIL:  Parameters: $1 = '{key}'"),
                (0.5, f"DEBUG:  opening 1 new connections to 127.0.0.1:{port}"),
                (
                    total - wait,
                    f"DEBUG:  established connection to 127.0.0.1:{port} for session {number + 1} "
                    f"in {known[session, node]} microseconds",
                ),
                (
                    total,
                    f"DEBUG:  task execution (0) for placement ({shard - 103500}) on anchor shard ({shard}) "
                    f"finished in {round(1000 * wait)} microseconds on worker node 127.0.0.1:{port}",
                ),
                (total, f"LOG:  duration: {total - 0.4:.3f} ms"),
            ]
            parents += [(at + timedelta(milliseconds=ms), pid, text) for ms, text in phases]
            child_at = at + timedelta(milliseconds=total - parts["between"] / 2 - parts["child"])
            third = parts["child"] / 3
            statement = (
                f"execute <unnamed>: {verb} public.usertable_{shard} usertable WHERE ((ycsb_key)::text = '{key}'::text)"
            )
            steps = [
                f"DEBUG:  parse <unnamed>: {statement.partition(': ')[2]}",
                f"LOG:  duration: {third:.3f} ms",
                "DEBUG:  bind <unnamed> to <unnamed>",
                f"LOG:  duration: {third:.3f} ms",
                f"LOG:  {statement}",
                f"LOG:  duration: {parts['child'] - 2 * round(third, 3):.3f} ms",
            ]
            for step, text in enumerate(steps):
                when = child_at + timedelta(milliseconds=third * ((step + 1) // 2))
                children.append((when, node, 50_000 + 100 * session + 1000 * iteration + node, 2 * 10**10 + pid, text))
    number_of = dict[tuple[int, int], int]()
    for when, pid, text in sorted(parents, key=lambda one: one[0]):
        number_of[1, pid] = number_of.get((1, pid), 0) + 1
        logs[1].append(_record(when, pid, number_of[1, pid], "PostgreSQL JDBC Driver", text))
    for when, node, pid, gpid, text in sorted(children, key=lambda one: one[0]):
        number_of[node, pid] = number_of.get((node, pid), 0) + 1
        logs[node].append(_record(when, pid, number_of[node, pid], f"citus_internal gpid={gpid}", text))


def _record(when: datetime, pid: int, line: int, app: str, text: str) -> str:
    time = f"{when:%F %T}.{when.microsecond // 1000:03d}"
    # The transaction begins after the first record of a statement.
    transaction = 0 if text.startswith(("DEBUG:  parse", "DEBUG:  bind <unnamed> to S_")) else round(when.timestamp())
    backend = f"{pid % 90 + 3}/{transaction % 10**6}"
    return _PREFIX.format(time=time, pid=pid, backend=backend, line=line, app=app, text=text)


def _machine(cell: Cell, iteration: int, start: datetime, random: np.random.Generator) -> Iterator[str]:
    yield "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----"
    yield " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC"
    # Quotas of the nodes decide what the run itself uses.
    own = 2 + 20 * cell.cpu * cell.workers
    foreign = FOREIGN_PERCENT if (cell.resource, iteration) in FOREIGN else 0
    for second in range(SECONDS + 2):
        user = round(own + foreign + random.normal(0, 1)) if second else 40
        system = round(own * 0.8) if second else 13
        numbers = [1, 0, 0, 18000000, 90000, 5800000, 0, 0, 0, 5000, 3000, 9000, max(user, 0), system]
        numbers += [100 - max(user, 0) - system, 0, 0]
        yield " ".join(map(str, numbers)) + f" {start + timedelta(seconds=second):%F %T}"


def _quotas(cell: Cell, start: datetime) -> str:
    """Samples of each second: the nodes' control groups, of which the workers are stopped in nine periods of ten."""
    lines = []
    for second in range(SECONDS + 2):
        at = start + timedelta(seconds=second)
        lines.append(f"sampled {at:%F %T}.000000000")
        for node in range(cell.workers + 1):
            place = f"/sys/fs/cgroup/cpu/demo/postgres-node{node}/cpu.stat"
            periods, stopped = 1000 + 50 * second, 500 + (45 * second if node else 0)
            lines += [
                f"{place}:nr_periods {periods}",
                f"{place}:nr_throttled {stopped}",
                f"{place}:throttled_time {stopped * 15_000_000}",
            ]
    return "\n".join(lines) + "\n"
