"""Record the runs of this folder, each with one injected limit, by the toolkit's own runner.

Needs Linux with the CPU controller of control groups version 1, root, and for `uneven` the programs of PostgreSQL and
Citus in the system. `python -m tests.data.limits.record NAME... [--scratch FOLDER]` records anew what is named.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
import yaml

from citus_analysis.runner import run_experiment
from citus_analysis.runner.experiment import parse_experiment

HERE: Final = Path(__file__).parent
GROUPS: Final = Path("/sys/fs/cgroup/cpu")
#: Against other work on the machine: the kernel's default for a group is 1024.
SHARES: Final = 50_000
PERIOD_US: Final = 100_000
POLL_S: Final = 0.05

_LOGS: Final = {"log_checkpoints": "on", "log_lock_waits": "on", "log_connections": "on", "deadlock_timeout": "500ms"}
_READS: Final = {"workloads": ["c"], "records": [5000], "operations": [10**7]}
#: Statements that take the server's CPU about a millisecond, the client's next to none.
_COUNTS: Final = {
    "driver": {"workloads": {"count": {"scripts": [{"file": "tests/data/limits/count.sql"}]}}},
    "matrix": {"workloads": ["count"], "threads": [8], "operations": [10**7]},
}
_WRITES: Final = {"workloads": ["a"], "records": [5000], "operations": [10**7]}

Stop = threading.Event


def places(scratch: Path) -> list[Path]:
    """The folder, and where the runner put the servers instead if their account cannot reach it (as in pytest's)."""
    return [scratch, *(Path(pointer.read_text()) for pointer in scratch.rglob("elsewhere.txt"))]


def mine(scratch: Path, name: str) -> list[psutil.Process]:
    """Processes of a program that belong to this recording: their folder or their parent is ours."""
    found, family = [], {os.getpid(), *(p.pid for p in psutil.Process().children(recursive=True))}
    ours = places(scratch)
    for process in psutil.process_iter(["name"]):
        with suppress(psutil.Error, OSError):
            if process.info["name"] == name and (
                process.pid in family or any(Path(process.cwd()).is_relative_to(place) for place in ours)
            ):
                found.append(process)
    return found


def make_group(name: str, *, percent: float | None = None) -> Path:
    group = GROUPS / name
    group.mkdir(exist_ok=True)
    (group / "cpu.shares").write_text(str(SHARES))
    (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
    (group / "cpu.cfs_quota_us").write_text(str(-1 if percent is None else round(percent / 100 * PERIOD_US)))
    return group


def held_back(name: str, group: str, percent: float) -> Callable[[Path, Stop], None]:
    """A program that may use only a share of one CPU."""

    def inject(scratch: Path, stop: Stop) -> None:
        folder = make_group(group, percent=percent)
        while not stop.wait(POLL_S):
            for process in mine(scratch, name):
                with suppress(OSError):
                    (folder / "cgroup.procs").write_text(str(process.pid))
        with suppress(OSError):
            folder.rmdir()

    return inject


def can_hold_back() -> bool:
    """Whether there is a CPU controller of version 1, and this account may use it."""
    try:
        make_group("limits-probe", percent=50).rmdir()
    except OSError:
        return False
    return True


def hog(_scratch: Path, stop: Stop) -> None:
    """Eight programs that do nothing but use CPU time."""
    started = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(8)]
    stop.wait()
    for one in started:
        one.kill()
        one.wait()


def lock(scratch: Path, stop: Stop) -> None:
    """A session that takes the table's lock again and again while clients run, and holds it for 2 seconds."""
    while not stop.wait(POLL_S):
        files = [file for place in places(scratch) for file in place.rglob("postmaster.pid")]
        if not (files and mine(scratch, "pgbench")):
            continue
        lines = files[0].read_text().splitlines()
        with (
            suppress(psycopg.OperationalError),
            psycopg.connect(host="127.0.0.1", port=int(lines[3]), user="postgres", dbname="postgres") as session,
        ):
            while mine(scratch, "pgbench") and not stop.is_set():
                session.execute("LOCK TABLE usertable IN EXCLUSIVE MODE")
                time.sleep(2)
                session.commit()
                time.sleep(0.05)


#: Name -> what the experiment file says, and what goes on beside it.
CASES: Final[dict[str, tuple[dict[str, Any], Callable[[Path, Stop], None] | None]]] = {
    "hog": (_COUNTS, hog),
    "quota": (_COUNTS, held_back("postgres", "postgres-limits", 25)),
    "lock": ({"matrix": {**_WRITES, "threads": [8]}}, lock),
    "starved": ({"matrix": {**_READS, "threads": [8]}}, held_back("pgbench", "client-limits", 4)),
    "uneven": (
        {
            "target": {"kind": "cluster", "connect_to": "coordinator", "shard_count": 8, "database": "ycsb"},
            "matrix": {**_READS, "threads": [8]},
        },
        None,
    ),
    "checkpoints": (
        {
            "target": {"settings": {"max_wal_size": "32MB", "min_wal_size": "32MB"}},
            "matrix": {**_WRITES, "records": [50_000], "threads": [8]},
        },
        None,
    ),
    "connections": ({"target": {"settings": {"max_connections": "12"}}, "matrix": {**_READS, "threads": [16]}}, None),
    "idle": (
        {
            "driver": {
                "workloads": {
                    "paced": {
                        "set_up": [["pgbench", "-i", "-q", "-s", "1"]],
                        "scripts": [{"builtin": "select-only"}],
                        "rate_ops_s": 40,
                    }
                }
            },
            "matrix": {"workloads": ["paced"], "threads": [4], "operations": [10**7]},
        },
        None,
    ),
}


def experiment(name: str, port: int | None) -> dict[str, Any]:
    given = CASES[name][0]
    target: dict[str, Any] = {"kind": "embedded", **given.get("target", {})}
    if target["kind"] == "embedded":
        target["settings"] = {**_LOGS, **target.get("settings", {})}
    else:
        target["nodes"] = [{"host": "127.0.0.1", "port": port, "role": "coordinator", "shell": "local"}]
    return {
        "name": name,
        "iterations": 1,
        "limits": {"duration_s": 8},
        **given,
        "driver": {"kind": "pgbench", **given.get("driver", {})},
        "target": target,
    }


@contextmanager
def injected(name: str, scratch: Path) -> Iterator[None]:
    inject, stop = CASES[name][1], threading.Event()
    if inject is None:
        yield
        return
    thread = threading.Thread(target=inject, args=(scratch, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def record(name: str, scratch: Path, port: int | None) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(mode=0o755)
    with injected(name, scratch):
        summary = run_experiment(parse_experiment(experiment(name, port)), scratch / "out")
        sys.stdout.write(f"{summary}\n")
    keep(name, scratch / "out")


def keep(name: str, out: Path) -> None:
    """The artefacts of one recording, compressed, with the experiment that they are of."""
    to = HERE / name
    shutil.rmtree(to, ignore_errors=True)
    for config in sorted(out.rglob("config.yml")):
        folder = config.parent
        shutil.copytree(folder, to / folder.name)
    for path in to.rglob("*.log"):
        # Paths of the machine that recorded say nothing.
        text = path.read_text().replace(f"{out}/", "/srv/runs/").replace(f"{Path.cwd()}/", "/srv/")
        path.write_text(text)
    for path in [p for p in to.rglob("*") if p.is_file() and p.stat().st_size > 2000 and p.name != "config.yml"]:
        subprocess.run(["zstd", "-19", "-q", "--rm", str(path)], check=True)
    (to / "experiment.yml").write_text(yaml.safe_dump(experiment(name, 5432), sort_keys=False))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("names", nargs="+", choices=sorted(CASES))
    arguments.add_argument("--scratch", type=Path, default=Path("/var/tmp/limits"))
    arguments.add_argument("--port", type=int, help="of the coordinator, for a cluster")
    given = arguments.parse_args()
    (make_group("recording-limits") / "cgroup.procs").write_text(str(os.getpid()))
    for name in given.names:
        record(name, given.scratch, given.port)


if __name__ == "__main__":
    main()
