"""Record `experiments/faults/base.yml` with one fault of each kind, in blocks of random order.

    python data/record_faults.py FIRST LAST --out RUNS --cluster FOLDER [--only NAME...]

A block holds each fault once, and the base twice (`base`, `again`). Before a run, the fault of the run before it ends
and its own begins. FOLDER is that of the cluster: `delay0` to `delay4` (microseconds that a node's fsync waits, read by
the library of `data/faults/delays.c`, which the servers preload), and `netdelay` (of `data/faults/proxy.c`, by which
all nodes reach node 4: REDIRECT of the library). The control groups of the nodes are `faults-node0` to `faults-node4`.
"""

from __future__ import annotations

import argparse
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
EXPERIMENT = HERE / "experiments" / "faults" / "base.yml"
CONTROL_GROUPS = Path("/sys/fs/cgroup/cpu/demo")
PORT = 27400

# What differs from the base in the experiment file.
SETTINGS: dict[str, list[str]] = {
    "base": [],
    "again": [],
    "cpu-hog": [],
    "slow-disk": [],
    "network": [],
    "lock-holder": [],
    "checkpoints": [],
    "unbalanced": ["target.connect_to=coordinator"],
    "async-commit": ["matrix.settings={synchronous_commit: ['off']}"],
    "no-index": ["matrix.workloads=[no-index]"],
    "more-counts": ["matrix.workloads=[more-counts]"],
    "shards": ["target.shard_count=16"],
    "pool": ["matrix.settings={citus.max_cached_conns_per_worker: ['0']}"],
}

# Locks the shards of node 2 against writers for 0.4 of 0.8 s.
LOCKS = """
SET citus.enable_manual_changes_to_shards TO on;
DO $$
DECLARE shard text;
BEGIN
  FOR shard IN SELECT 'items_' || shardid FROM pg_dist_shard JOIN pg_dist_placement USING (shardid)
    JOIN pg_dist_node USING (groupid) WHERE nodeport = {port} AND logicalrelid = 'items'::regclass
  LOOP EXECUTE 'LOCK TABLE ' || shard || ' IN SHARE ROW EXCLUSIVE MODE'; END LOOP;
  PERFORM pg_sleep(0.4);
END $$;
"""


def psql(port: int, text: str) -> list[str]:
    """A call of psql."""
    return ["psql", "-X", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "-d", "bench", "-c", text]


def repeated(command: list[str], pause_s: float) -> list[str]:
    """A shell that repeats a command."""
    return ["sh", "-c", 'pause=$1; shift; while :; do "$@"; sleep "$pause"; done', "repeated", str(pause_s), *command]


@contextmanager
def processes(*commands: list[str], group: Path | None = None) -> Iterator[None]:
    """Commands that run meanwhile, in a control group and on its nodes' processor if one is named."""
    begun = []
    for command in commands:
        begun.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        if group:
            (group / "cgroup.procs").write_text(str(begun[-1].pid))
            subprocess.run(["taskset", "-p", "1", str(begun[-1].pid)], check=True, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        for process in begun:
            process.terminate()
            process.wait()


@contextmanager
def delay(file: Path, microseconds: int) -> Iterator[None]:
    """The number in a file that a preloaded library or the proxy reads."""

    def write(value: int) -> None:
        with file.open("r+b") as opened:
            opened.write(struct.pack("=I", value))

    write(microseconds)
    try:
        yield
    finally:
        write(0)


@contextmanager
def fault(name: str, cluster: Path) -> Iterator[None]:
    """The fault of a name, for as long as the context lasts."""
    if name == "cpu-hog":
        spin = ["sh", "-c", "while :; do :; done"]
        with processes(spin, spin, group=CONTROL_GROUPS / "faults-node2"):
            yield
    elif name == "slow-disk":
        with delay(cluster / "delay3", 20_000):
            yield
    elif name == "network":
        with delay(cluster / "netdelay", 10_000):
            yield
    elif name == "lock-holder":
        with processes(repeated(psql(PORT + 2, LOCKS.format(port=PORT + 2)), 0.4)):
            yield
    elif name == "checkpoints":
        with processes(repeated(psql(PORT + 1, "CHECKPOINT"), 0.5)):
            yield
    else:
        yield


def main() -> None:
    """Record the blocks; stops at the first run that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cluster", type=Path, required=True)
    parser.add_argument("--disk-us", type=int, default=0, help="microseconds that fsync takes more, on all nodes")
    parser.add_argument("--only", nargs="*", default=list(SETTINGS))
    known = parser.parse_args()
    for node in range(5):
        with (known.cluster / f"delay{node}").open("r+b") as file:
            file.write(struct.pack("=I", known.disk_us))
    for block in range(known.first, known.last + 1):
        for name in random.Random(7000 + block).sample(known.only, len(known.only)):
            folder = known.out / name
            fields = [f"name={name}", f"set_up={name}", *SETTINGS[name]]
            command = [sys.executable, "-m", "citus_analysis", "run", str(EXPERIMENT), "--out", str(folder)]
            command += [word for field in fields for word in ("--set", field)]
            command += [
                "--only",
                f"*#{block}",
                "--replace-table",
                *(["--resume"] if (folder / ".runner").exists() else []),
            ]
            with fault(name, known.cluster):
                subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
