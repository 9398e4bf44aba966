"""Predictions of changes on a live Citus cluster, written before the changed configurations are measured.

`python -m benchmarks.what_if_live STEP --folder FOLDER`, where the steps are, in this order:

- `start` makes a coordinator and eight workers on 127.0.0.1 (programs in `POSTGRES_WITH_CITUS`). Each node is held to a
  share of the second processor by a control group (cpu controller of cgroup v1, as root); load generators and the
  runner use the first. Where that is not possible it is said, and nodes are not held.
- `base` measures the configurations that predictions are made from, with traced statements, and ingests them.
- `predict` writes all predictions with intervals, the hash of the recordings and its own, to be committed now.
- `measure` measures bases and changed configurations in blocks, each configuration once in each block, in an order
  drawn anew; blocks that were measured are not repeated.
- `compare` holds the measured ratios, paired by block, against the intervals.
- `stop` ends the servers.

Every step goes on where it was interrupted.

`results/what_if_live.json` (Citus 13.2.2) is of an earlier model, which was corrected by what it missed: owner routing
of writes (the time of a local simple query contains its commit; refused since), owner routing of SELECT on four workers
(messages between nodes are work that traces do not show), and cached connections (renewals go by time, not by
statements, of which the other clients send 25 times as many as the sampled one). The corrected model is that of
`results/what_if_live_citus14.json`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import numpy as np
import psutil
import psycopg
from scipy.stats import t

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import CitusAnalysisError
from citus_analysis.runner import run_experiment
from citus_analysis.runner.experiment import parse_experiment
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.plan import Choice
from citus_analysis.runner.schedule import JOURNAL, PRIVATE
from citus_analysis.scaling.what_if import what_if

RESULTS: Final = Path(__file__).parent / "results"
PREDICTIONS: Final = RESULTS / "what_if_predictions_citus14.json"
MEASURED: Final = RESULTS / "what_if_live_citus14.json"
EXPERIMENTS: Final = Path(__file__).parents[1] / "experiments"
NODES: Final = 9
#: First port; PgBouncer of node n has this port + 100 + n.
PORT: Final = 27710
CONTROLLER: Final = Path("/sys/fs/cgroup/cpu")
PERIOD_US: Final = 20_000
CORES: Final = 0.2
#: CPU of a node of eight workers, and of those that they are compared with: nine nodes share a processor.
FEW_CORES: Final = 0.1
#: Load generators of each run: a multiple of the nodes that they connect to.
DRIVERS: Final = 8
#: Connections between nodes are renewed after this time, ms, in the base of `cached-connections`.
LIFETIME_MS: Final = 3_000
LEVEL: Final = 0.95
#: Iterations of the experiments, of which each call measures one; blocks can be added up to this number.
MOST_BLOCKS: Final = 20
RECORDS: Final = {"select": 5_000, "insert": 100_000, "update": 5_000}
WORKLOADS: Final = {"select": "c", "insert": "load", "update": "update"}
PREFIX: Final = "%m [%p] [%v] : [%l-1] %q[app=%a] "
CONFIGURATION: Final = f"""
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
shared_preload_libraries = 'citus'
wal_level = logical
max_connections = 300
max_prepared_transactions = 600
shared_buffers = 64MB
citus.node_conninfo = 'sslmode=disable'
log_line_prefix = '{PREFIX}'
log_timezone = UTC
logging_collector = on
"""

#: File of the throughputs that were measured, in a tree of recordings.
THROUGHPUTS: Final = "throughputs.json"
Operation = Literal["select", "insert", "update"]
OPERATIONS: Final[tuple[Operation, ...]] = ("select", "insert", "update")
#: Most workers whose nodes have `CORES` each.
_WHOLE_WORKERS: Final = 4


@dataclass(frozen=True)
class Cell:
    """A configuration.

    Attributes:
        entry: where clients connect to.
        variant: what else differs: `` (nothing), `text`, `double` (twice the CPU), `half` (half of it), `pool1`,
            `pool16`; `renewed` and `cached`: connections between nodes live for some seconds or on, in runs of three
            times the length, so that few of them are the first.
    """

    operation: Operation
    entry: Literal["any-node", "owner", "coordinator"] = "any-node"
    workers: int = 4
    threads: int = 16
    variant: str = ""

    @property
    def name(self) -> str:
        """Name of its experiment."""
        return f"{self.operation}-{self.set_up}-w{self.workers}-t{self.threads}"

    @property
    def set_up(self) -> str:
        """What differs from other configurations, beside workers and threads."""
        return f"half-{self.entry}" if self.variant == "half" else self.variant or self.entry

    @property
    def is_long(self) -> bool:
        """Whether its runs have three times the length."""
        return self.variant in ("renewed", "cached")

    @property
    def cores(self) -> float:
        """CPU of a node."""
        return {"double": 2 * CORES, "half": FEW_CORES}.get(self.variant, CORES)

    @property
    def protocol(self) -> str:
        """Query mode of the clients: of writes, the one in which traces tell a statement's work from its commit.

        PgBouncer 1.18 knows no prepared statements; all SELECTs are comparable, so none is prepared.
        """
        return "simple" if self.operation == "select" else "prepared"


@dataclass(frozen=True)
class Pair:
    """A change, its base, and the configuration that is measured."""

    change: str
    base: Cell
    changed: Cell


def list_pairs() -> list[Pair]:
    """The changes that are predicted."""
    pairs = []
    for operation in OPERATIONS:
        for workers in (2, 4, 8):
            base = Cell(operation, workers=workers, variant="half" if workers > _WHOLE_WORKERS else "")
            pairs.append(Pair("owner-routing", base, replace(base, entry="owner")))
    base = Cell("select")
    small = replace(base, workers=2)
    wide = replace(small, threads=48)
    return [
        *pairs,
        Pair("cached-connections", replace(base, variant="renewed"), replace(base, variant="cached")),
        Pair("text", base, replace(base, variant="text")),
        Pair("threads=64", replace(base, threads=8), replace(base, threads=64)),
        Pair("node-cpu=x2", small, replace(small, variant="double")),
        Pair("coordinator", base, replace(base, entry="coordinator")),
        Pair("pool-size=1", wide, replace(wide, variant="pool1")),
        Pair("pool-size=16", wide, replace(wide, variant="pool16")),
    ]


def list_bases() -> list[Cell]:
    """The configurations that predictions are made from; none is a pair's changed configuration."""
    cells = []
    for operation in OPERATIONS:
        one = Cell(operation)
        cells += [replace(one, workers=2), one, *(replace(one, threads=threads) for threads in (8, 32))]
        cells += [replace(one, workers=workers, variant="half") for workers in (4, 8)]
        if operation != "select":
            cells.append(replace(one, workers=2, threads=32))
    select = Cell("select")
    cells += [replace(select, workers=2, threads=48), replace(select, workers=2, variant="text")]
    return [*cells, *(replace(select, variant="renewed", threads=threads) for threads in (8, 16))]


def write_experiment(cell: Cell, *, seconds: int) -> dict[str, object]:
    """The experiment file of a cell."""
    settings = {
        "text": {"citus.enable_binary_protocol": ["off"]},
        "renewed": {"citus.max_cached_connection_lifetime": [LIFETIME_MS]},
    }
    pooled = cell.variant.startswith("pool")
    nodes = [{"host": "127.0.0.1", "port": PORT, "role": "coordinator", "shell": "local"}]
    nodes += [
        {"host": "127.0.0.1", "port": PORT + 100 * pooled + node, "role": "worker"}
        for node in range(1, cell.workers + 1)
    ]
    update = {
        "set_up": [str(EXPERIMENTS / "owner-routing" / "schema.sql")],
        "scripts": [{"file": str(EXPERIMENTS / "owner-routing" / "update.sql")}],
        "key": {"variable": "aid", "table": "accounts"},
    }
    return {
        "name": cell.name,
        "set_up": cell.set_up,
        "target": {
            "kind": "cluster",
            "nodes": nodes,
            "discover": not pooled,
            "shard_count": 32,
            "reload_with": "alter_system",
            "cpu_per_node": cell.cores,
        },
        "driver": {
            "kind": "pgbench",
            "protocol": cell.protocol,
            "distribution": "uniform",
            "workloads": {"update": update},
        },
        "matrix": {
            "workloads": [WORKLOADS[cell.operation]],
            "threads": [cell.threads],
            "workers": [cell.workers],
            "records": [RECORDS[cell.operation]],
            "drivers": [DRIVERS],
            "entry": [cell.entry],
            "monitored": [True],
            "settings": settings.get(cell.variant, {}),
        },
        "limits": {"duration_s": seconds * (3 if cell.is_long else 1), "timeout_s": 180},
        "iterations": MOST_BLOCKS,
        "monitor": {"rate_ops_s": 16},
        "samplers": {"iostat": False, "vmstat": False, "activity": False, "counters": False},
    }


# The servers.


def run_as_postgres(*command: str | Path) -> None:
    """Run a program as user postgres where this process is root, on the second processor."""
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    pin = ["taskset", "-c", "1"] if (os.cpu_count() or 1) > 1 else []
    environment = {**os.environ, "HOME": "/tmp", "LC_ALL": "C", "TZ": "UTC"}
    subprocess.run([*pin, *user, *map(str, command)], env=environment, check=True, stdout=subprocess.DEVNULL)


def start_servers(folder: Path) -> None:
    """Make and start the nodes and their PgBouncers, and put each node into its control group."""
    programs = Path(os.environ["POSTGRES_WITH_CITUS"])
    servers = folder / "servers"
    servers.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        shutil.chown(servers, "postgres", "postgres")
        folder.chmod(0o755)
    for node in range(NODES):
        data = servers / f"node{node}"
        if not data.exists():
            run_as_postgres(
                programs / "initdb", "--auth=trust", "--encoding=UTF8", "--no-sync", "-U", "postgres", "-D", data
            )
            with (data / "postgresql.conf").open("a") as file:
                file.write(f"{CONFIGURATION}port = {PORT + node}\n")
        run_as_postgres(programs / "pg_ctl", "start", "-w", "-s", "-D", data, "-l", servers / f"node{node}.log")
    made = servers / "made"
    if not made.exists():
        for node in range(NODES):
            ask(node, "CREATE EXTENSION IF NOT EXISTS citus")
        ask(0, f"SELECT citus_set_coordinator_host('127.0.0.1', {PORT})")
        for node in range(1, NODES):
            ask(0, f"SELECT citus_add_node('127.0.0.1', {PORT + node})")
        made.touch()
    print("each node is held by a control group" if hold_nodes(folder, CORES) else "nodes are NOT held: no cgroup v1")


def ask(node: int, statement: str) -> None:
    """Execute a statement on a node."""
    with psycopg.connect(
        host="127.0.0.1", port=PORT + node, user="postgres", dbname="postgres", autocommit=True
    ) as one:
        one.execute(statement.encode())


def hold_nodes(folder: Path, cores: float) -> bool:
    """Hold all processes of each node to a share of a processor; False where that is not possible."""
    try:
        for node in range(NODES):
            group = CONTROLLER / f"postgres-what-if-{node}"
            group.mkdir(exist_ok=True)
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(round(cores * PERIOD_US)))
            pid = int((folder / "servers" / f"node{node}" / "postmaster.pid").read_text().split()[0])
            inside = set((group / "cgroup.procs").read_text().split())
            for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
                # A process may end meanwhile.
                if str(process.pid) not in inside:
                    with suppress(ProcessLookupError):
                        (group / "cgroup.procs").write_text(str(process.pid))
    except OSError:
        return False
    return True


def start_poolers(folder: Path, size: int) -> list[subprocess.Popen[bytes]]:
    """A PgBouncer before each worker, on the processor of the load generators."""
    users = folder / "servers" / "users.txt"
    users.write_text('"postgres" ""\n"monitor" ""\n')
    started = []
    for node in range(1, NODES):
        place = folder / "servers" / f"pgbouncer{node}-{size}.ini"
        place.write_text(
            f"[databases]\npostgres = host=127.0.0.1 port={PORT + node} dbname=postgres\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {PORT + 100 + node}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {users}\npool_mode = transaction\n"
            f"default_pool_size = {size}\nmax_client_conn = 500\nserver_idle_timeout = 600\n"
            "ignore_startup_parameters = extra_float_digits,options,application_name\n"
        )
        pooler = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        log = (folder / "servers" / f"pgbouncer{node}.log").open("ab")
        started.append(subprocess.Popen([*user, pooler, str(place)], stdout=log, stderr=log))
    time.sleep(1)
    return started


def stop_servers(folder: Path) -> None:
    """Stop all nodes, and remove their control groups."""
    programs = Path(os.environ["POSTGRES_WITH_CITUS"])
    for node in reversed(range(NODES)):
        run_as_postgres(programs / "pg_ctl", "stop", "-m", "fast", "-s", "-D", folder / "servers" / f"node{node}")
    time.sleep(1)  # until the last processes have left their groups
    for node in range(NODES):
        with suppress(OSError):
            (CONTROLLER / f"postgres-what-if-{node}").rmdir()


# Measuring.


def measure_cell(folder: Path, tree: Path, cell: Cell, iteration: int, *, seconds: int) -> float:
    """Measure a cell once, unless it was measured; its throughput, operations/s."""
    done = tree / THROUGHPUTS
    known: dict[str, float] = json.loads(done.read_text()) if done.exists() else {}
    key = f"{cell.name}#{iteration}"
    if key in known:
        return known[key]
    hold_nodes(folder, cell.cores)
    experiment = parse_experiment(write_experiment(cell, seconds=seconds))
    out = tree / cell.name
    began = time.monotonic()
    poolers = start_poolers(folder, int(cell.variant[4:])) if cell.variant.startswith("pool") else []
    try:
        choice = Choice(only=(f"*#{iteration}",), retry_failed=out.exists())
        summary = run_experiment(experiment, out, resume=out.exists(), choice=choice, replace_table=True)
    finally:
        for pooler in poolers:
            pooler.terminate()
            pooler.wait()
    problems = {**summary.failed, **summary.degraded}
    if mine := [why for run, why in problems.items() if run.endswith(f"#{iteration}")]:
        raise SystemExit(f"{key}: {mine[0]}")
    found = read_throughput(out, iteration)
    known = json.loads(done.read_text()) if done.exists() else {}
    done.write_text(json.dumps({**known, key: found}, indent=1))
    print(f"{key}: {found:,.0f} operations/s, {time.monotonic() - began:.0f} s", flush=True)
    return found


def read_throughput(out: Path, iteration: int) -> float:
    """The throughput that the runner's journal has for an iteration."""
    journal = Journal(out / PRIVATE / JOURNAL)
    rates = [
        entry.detail["throughput_ops_s"]
        for entry in journal.entries()
        if entry.subject.endswith(f"#{iteration}") and "throughput_ops_s" in entry.detail
    ]
    return float(rates[-1])


def measure_blocks(folder: Path, tree: Path, cells: Sequence[Cell], *, blocks: int, seconds: int) -> None:
    """Measure each cell once in each block."""
    tree.mkdir(parents=True, exist_ok=True)
    for block in range(1, blocks + 1):
        for cell in random.Random(f"{tree.name}/{block}").sample(list(cells), len(cells)):
            if block == 1 or not cell.is_long or tree.name != "base":
                measure_cell(folder, tree, cell, block, seconds=seconds)


def hash_files(tree: Path) -> str:
    """SHA-256 of the names and contents of all files below a folder."""
    total = hashlib.sha256()
    for path in sorted(
        one for one in tree.rglob("*") if one.is_file() and PRIVATE not in one.parts and one.name != THROUGHPUTS
    ):
        total.update(path.relative_to(tree).as_posix().encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


# Predictions.


def predict(folder: Path) -> dict[str, object]:
    """All predictions, with what they are made from."""
    dataset = open_dataset(folder / "dataset")
    rows: list[dict[str, object]] = []
    for pair in list_pairs():
        row: dict[str, object] = {"change": pair.change, "base": pair.base.name, "changed": pair.changed.name}
        resource = find_resource(folder / "base", pair.base)
        try:
            found = what_if(dataset, pair.change, at=resource, level=LEVEL)
        except CitusAnalysisError as error:
            rows.append({**row, "refused": error.problem})
            continue
        ratio = found.ratio
        rows.append({**row, "ratio": ratio.estimate, "low": ratio.low, "high": ratio.high, "error": found.model_error})
    made: dict[str, object] = {
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "recordings_sha256": hash_files(folder / "base"),
        "level": LEVEL,
        "predictions": rows,
    }
    return made | {"sha256": hash_predictions(made)}


def hash_predictions(made: Mapping[str, object]) -> str:
    """SHA-256 of the predictions, without their hash."""
    kept = {name: value for name, value in made.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def find_resource(tree: Path, cell: Cell) -> str:
    """The resource that a cell's experiment has left."""
    return next(one.name for one in sorted((tree / cell.name).iterdir()) if not one.name.startswith("."))


def compare(predictions: Mapping[str, object], throughputs: Mapping[str, float]) -> dict[str, object]:
    """Measured ratios, paired by block, beside the predicted ones."""
    if hash_predictions(predictions) != predictions["sha256"]:
        raise SystemExit("the predictions were changed after they were made")
    rows = list(compare_pairs(predictions["predictions"], throughputs))
    known = [row for row in rows if "inside" in row]
    ratios = [tuple(float(row[name]) for name in ("ratio", "low", "high", "measured")) for row in known]
    decided = [(ratio, measured) for ratio, low, high, measured in ratios if not low <= 1 <= high]
    return {
        "predictions_sha256": predictions["sha256"],
        "written": predictions["written"],
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "pairs": len(known),
        "inside": sum(bool(row["inside"]) for row in known),
        "decided": len(decided),
        "wrong_signs": sum((ratio > 1) != (measured > 1) for ratio, measured in decided),
        "median_width": float(np.median([high / low for _, low, high, _ in ratios])) if known else None,
        "rows": rows,
        "throughputs_ops_s": dict(sorted(throughputs.items())),
    }


def compare_pairs(predicted: object, throughputs: Mapping[str, float]) -> Iterator[dict[str, float | str | bool]]:
    """One row per pair: the predicted ratio, and the geometric mean of the measured ones with Student's interval."""
    for row in predicted if isinstance(predicted, list) else ():
        blocks = [
            math.log(rate / throughputs[f"{row['base']}#{block}"])
            for name, rate in throughputs.items()
            for of, _, block in [name.rpartition("#")]
            if of == row["changed"] and f"{row['base']}#{block}" in throughputs
        ]
        if not blocks or "refused" in row:
            yield row
            continue
        mean, n = float(np.mean(blocks)), len(blocks)
        half = float(t.ppf(0.5 + LEVEL / 2, n - 1) * np.std(blocks, ddof=1) / math.sqrt(n)) if n > 1 else math.inf
        measured = math.exp(mean)
        yield {
            **row,
            "measured": measured,
            "measured_low": math.exp(mean - half),
            "measured_high": math.exp(mean + half) if half < math.inf else math.inf,
            "blocks": n,
            "inside": row["low"] <= measured <= row["high"],
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """One step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("start", "base", "predict", "measure", "compare", "stop"))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seconds", type=int, default=7, help="length of a run")
    parser.add_argument("--iterations", type=int, default=2, help="runs of each base configuration")
    parser.add_argument("--blocks", type=int, default=3, help="blocks of the measurement")
    parser.add_argument("--only", default="", help="only pairs whose change begins so")
    parser.add_argument("--predictions", type=Path, default=PREDICTIONS)
    parser.add_argument("--out", type=Path, default=MEASURED)
    given = parser.parse_args(arguments)
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if given.step == "start":
        start_servers(folder)
        return
    if given.step == "stop":
        stop_servers(folder)
        return
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {0})
    pairs = [pair for pair in list_pairs() if pair.change.startswith(given.only)]
    if given.step == "base":
        measure_blocks(folder, folder / "base", list_bases(), blocks=given.iterations, seconds=given.seconds)
        ingest([folder / "base"], folder / "dataset")
    elif given.step == "predict":
        made = predict(folder)
        given.predictions.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(made, indent=1))
    elif given.step == "measure":
        cells = list(dict.fromkeys(cell for pair in pairs for cell in (pair.base, pair.changed)))
        measure_blocks(folder, folder / "measured", cells, blocks=given.blocks, seconds=given.seconds)
    else:
        throughputs = json.loads((folder / "measured" / THROUGHPUTS).read_text())
        found = compare(json.loads(given.predictions.read_text()), throughputs)
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
