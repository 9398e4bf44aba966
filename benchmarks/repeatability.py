"""How much runs of one configuration differ, by how nodes are held to a share of a processor and sessions are placed.

`POSTGRES_WITH_CITUS=PROGRAMS python -m benchmarks.repeatability --folder FOLDER [--blocks N] [--seconds N]`

The cluster of :mod:`benchmarks.what_if_live` (`start` it first) is read by key from four of its workers. All variants
are measured once in each block, in an order drawn anew, so that what the machine does in a minute meets all of them.
Of each variant, the result has the coefficient of variation of whole runs, of runs without their first seconds, and of
what is left of both after the blocks; and the rank correlation with the CPU time that a fixed loop took before and
after each run on the servers' processor.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import psutil
import psycopg
from scipy.stats import spearmanr

from benchmarks.what_if_live import CONTROLLER, NODES, PORT

RESULTS: Final = Path(__file__).parent / "results" / "repeatability.json"
WORKERS: Final = 4
SESSIONS: Final = 16
ROWS: Final = 5_000
#: Seconds at the begin of a run that are left out for the second throughput.
WARM_UP_S: Final = 3
SERVERS_CPU, CLIENTS_CPU = (1, 0) if (os.cpu_count() or 1) > 1 else (0, 0)
SCRIPT: Final = f"\\set aid random(1, {ROWS})\nSELECT abalance FROM repeated WHERE aid = :aid;\n"
LOOP: Final = 400_000


@dataclass(frozen=True)
class Variant:
    """How nodes are held, and how sessions are placed.

    Attributes:
        quota_us: CPU time of a node in each period; None: no quota, nodes have equal weights on one processor.
        period_us: length of a period.
        placed: whether each worker has the same number of sessions; otherwise each session chooses at random.
        filled: whether a program that runs only when no other does (SCHED_IDLE) keeps each processor from idling. A
            virtual processor that has idled may find its memory mapped anew, which takes tens of microseconds a page.
    """

    name: str
    quota_us: int | None
    period_us: int = 20_000
    placed: bool = True
    filled: bool = False


VARIANTS: Final = (
    Variant("1 of 10 ms", 1_000, 10_000),
    Variant("2 of 20 ms", 2_000),
    Variant("2 of 20 ms (filled)", 2_000, filled=True),
    Variant("2 of 20 ms and sessions at random (filled)", 2_000, placed=False, filled=True),
    Variant("10 of 100 ms", 10_000, 100_000),
    Variant("10 of 100 ms (filled)", 10_000, 100_000, filled=True),
    Variant("4 of 20 ms", 4_000),
    Variant("4 of 20 ms (filled)", 4_000, filled=True),
    Variant("equal weights without quota", None),
)
FILLER: Final = "while True: pass"


@contextmanager
def fill_processors(*, filled: bool) -> Iterator[None]:
    """Keep each processor busy with a program of the lowest class, if asked for."""
    processors = (SERVERS_CPU, CLIENTS_CPU) if filled else ()
    command = ["chrt", "--idle", "0", "python3", "-I", "-S", "-c", FILLER]
    running = [subprocess.Popen(["taskset", "-c", str(cpu), *command]) for cpu in processors]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def hold_nodes(folder: Path, variant: Variant) -> None:
    """Put all processes of each node into its control group, with the quota and the weight of a variant."""
    for node in range(NODES):
        group = CONTROLLER / f"postgres-what-if-{node}"
        group.mkdir(exist_ok=True)
        (group / "cpu.cfs_quota_us").write_text("-1")
        (group / "cpu.cfs_period_us").write_text(str(variant.period_us))
        (group / "cpu.cfs_quota_us").write_text(str(-1 if variant.quota_us is None else variant.quota_us))
        pid = int((folder / "servers" / f"node{node}" / "postmaster.pid").read_text().split()[0])
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            with suppress(ProcessLookupError):
                (group / "cgroup.procs").write_text(str(process.pid))


def make_table() -> None:
    """The table that is read, distributed over the first workers."""
    with psycopg.connect(host="127.0.0.1", port=PORT, user="postgres", autocommit=True) as one:
        one.execute("DROP TABLE IF EXISTS repeated")
        one.execute("CREATE TABLE repeated (aid int PRIMARY KEY, abalance int NOT NULL)")
        one.execute("SET citus.shard_count = 32")
        further = [PORT + node for node in range(WORKERS + 1, NODES)]
        for port in further:
            one.execute("SELECT citus_set_node_property('127.0.0.1', %s, 'shouldhaveshards', false)", [port])
        one.execute("SELECT create_distributed_table('repeated', 'aid')")
        for port in further:
            one.execute("SELECT citus_set_node_property('127.0.0.1', %s, 'shouldhaveshards', true)", [port])
        one.execute(f"INSERT INTO repeated SELECT one, one FROM generate_series(1, {ROWS}) AS one")
        one.execute("VACUUM ANALYZE repeated")


def measure_loop() -> float:
    """Milliseconds of CPU time that a fixed loop takes on the servers' processor."""
    source = f"import time\na=time.process_time()\nfor _ in range({LOOP}): pass\nprint(time.process_time()-a)"
    command = ["taskset", "-c", str(SERVERS_CPU), "python3", "-I", "-c", source]
    return 1000 * float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure_run(folder: Path, script: Path, variant: Variant, seconds: int) -> tuple[float, float]:
    """Transactions per second of a whole run, and of it without its first seconds."""
    hold_nodes(folder, variant)
    pgbench = Path(os.environ["POSTGRES_WITH_CITUS"]) / "pgbench"
    ports = [str(PORT + node) for node in range(1, WORKERS + 1)]
    places = [(port, SESSIONS // WORKERS) for port in ports] if variant.placed else [(",".join(ports), SESSIONS)]
    started = []
    for port, sessions in places:
        hosts = ",".join("127.0.0.1" for _ in port.split(","))
        to = f"host={hosts} port={port} user=postgres dbname=postgres load_balance_hosts=random"
        options = ["-n", "-M", "prepared", "-f", str(script), "-c", str(sessions), "-T", str(seconds), "-P", "1"]
        command = ["taskset", "-c", str(CLIENTS_CPU), str(pgbench), *options, to]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    whole, later = 0.0, 0.0
    for one in started:
        text, _ = one.communicate()
        if one.returncode:
            raise SystemExit(text)
        (rate,) = re.findall(r"^tps = ([\d.]+)", text, re.MULTILINE)
        lines = [float(found) for found in re.findall(r"^progress: [\d.]+ s, ([\d.]+) tps", text, re.MULTILINE)]
        whole += float(rate)
        later += statistics.fmean(lines[WARM_UP_S:])
    return whole, later


def describe_spread(rates: Sequence[Sequence[float]], loops: Sequence[float]) -> dict[str, float]:
    """Coefficients of variation of a variant's runs, per cent.

    Args:
        rates: throughput of whole runs and of runs without their first seconds, by block.
        loops: CPU time of the fixed loop beside each run.
    """
    logs = np.log(np.asarray(rates))
    whole, later = (100 * np.sqrt(np.expm1(logs[:, at].var(ddof=1))) for at in (0, 1))
    return {
        "tps": float(np.exp(logs[:, 0].mean())),
        "cv_percent": float(whole),
        "cv_percent_after_warm_up": float(later),
        "loop_cv_percent": float(100 * np.std(loops, ddof=1) / np.mean(loops)),
        "correlation_with_loop": float(spearmanr(logs[:, 0], loops).statistic),
        "runs": len(rates),
    }


def remove_blocks(results: dict[str, list[tuple[float, float]]]) -> dict[str, float]:
    """Coefficient of variation of each variant, per cent, after the mean of the other variants in each block."""
    logs = np.log(np.asarray([[whole for whole, _ in rows] for rows in results.values()]))
    centred = logs - logs.mean(axis=1, keepdims=True)
    found = {}
    for at, name in enumerate(results):
        others = np.delete(centred, at, axis=0).mean(axis=0)
        found[name] = float(100 * math.sqrt(math.expm1((centred[at] - others).var(ddof=1))))
    return found


def main() -> None:
    """Measure, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="of the running servers")
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=10, help="of a run")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    script = given.folder / "repeated.sql"
    script.write_text(SCRIPT)
    make_table()
    rates: dict[str, list[tuple[float, float]]] = {one.name: [] for one in VARIANTS}
    loops: dict[str, list[float]] = {one.name: [] for one in VARIANTS}
    for block in range(given.blocks):
        for variant in random.Random(block).sample(VARIANTS, len(VARIANTS)):
            with fill_processors(filled=variant.filled):
                before = measure_loop()
                rates[variant.name].append(measure_run(given.folder, script, variant, given.seconds))
                loops[variant.name].append((before + measure_loop()) / 2)
            print(block, variant.name, *(round(one) for one in rates[variant.name][-1]), flush=True)
            time.sleep(0.5)
    apart = remove_blocks(rates)
    rows = [
        {"variant": name, **describe_spread(rates[name], loops[name]), "cv_percent_beside_blocks": apart[name]}
        for name in rates
    ]
    found = {"seconds": given.seconds, "sessions": SESSIONS, "workers": WORKERS, "variants": rows, "runs": rates}
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
