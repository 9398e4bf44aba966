"""What a cluster costs on one machine, and what more workers bring.

`python -m benchmarks.cluster [--megabytes N ...] [--times N] [--out FILE]` makes logs of two nodes, of which sizes are
ingested

- by two threads (`--jobs 2`) and by two processes of Dask (`--cluster local:2`), in turns, whole processes, and after
  them two processes of Dask are started and ended that do nothing: what any use of Dask costs;
- by 1, 2 and 4 workers, each of which is held to a fifth of a processor by its control group, so that four of them do
  not compete for two processors. That needs root and the cpu controller of cgroup v1; else it is left out.

Of each the best of several times is kept, with all times: other work on a machine only adds. Results of other sizes
stay as they are, and so do those of held workers with `--held-megabytes 0`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks._hour import SHAPES, write_hour
from benchmarks.pglog import Cost, measured
from citus_analysis.dataset import Progress, ingest
from citus_analysis.runner.embedded import find_free_port

RESULTS: Final = Path(__file__).parent / "results" / "cluster.json"
WAYS: Final = (("--jobs", "2"), ("--cluster", "local:2"))
EMPTY: Final = """
import distributed
with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as two:
    distributed.Client(two).close()
"""
WORKERS: Final = (1, 2, 4)
CONTROLLER: Final = Path("/sys/fs/cgroup/cpu")
PERIOD_US: Final = 20_000
SHARE: Final = 0.2


def overhead(source: Path, out: Path, times: int) -> dict[str, object]:
    """What both ways and an empty cluster take, in turns: seconds of each, and of the fastest its processor time."""
    ingest_of = [sys.executable, "-m", "citus_analysis", "ingest", str(source), "--out", str(out)]
    commands = {" ".join(way): [*ingest_of, *way] for way in WAYS} | {"empty": [sys.executable, "-c", EMPTY]}
    taken: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(times):
        for name, command in commands.items():
            shutil.rmtree(out, ignore_errors=True)
            taken[name].append(measured(command, (0, 1)))
    threads, processes, _ = best = [min(costs, key=attrgetter("wall_s")) for costs in taken.values()]
    return {
        "wall_s": {name: [round(cost.wall_s, 2) for cost in costs] for name, costs in taken.items()},
        "cpu_s": {name: round(cost.cpu_s, 2) for name, cost in zip(taken, best, strict=True)},
        "largest_process_mib": {name: round(cost.peak_mib) for name, cost in zip(taken, best, strict=True)},
        "local_over_jobs": round(processes.wall_s / threads.wall_s, 2),
    }


def slope(source: Path, folder: Path) -> list[dict[str, object]]:
    """Seconds of each stage by the number of workers; nothing where workers cannot be held."""
    if not os.access(CONTROLLER / "cpu.cfs_quota_us", os.W_OK) and os.geteuid():
        return []
    rows: list[dict[str, object]] = []
    for number in WORKERS:
        with cluster(number, folder) as address:
            stages: dict[str, list[float]] = {}

            def note(progress: Progress, stages: dict[str, list[float]] = stages) -> None:
                stages.setdefault(progress.stage, [perf_counter()] * 2)[1] = perf_counter()

            ingest([source], folder / "out", cluster=address, progress=note)
            shutil.rmtree(folder / "out")
        seconds = {f"{name}_s": round(end - begin, 2) for name, (begin, end) in stages.items()}
        rows.append({"workers": number, "share_of_a_processor": SHARE, **seconds})
    return rows


@contextmanager
def cluster(number: int, folder: Path) -> Iterator[str]:
    """A scheduler, and workers that are held."""
    port = find_free_port()
    address = f"tcp://127.0.0.1:{port}"
    processes = [started("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")]
    worker = ("worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder))
    groups = []
    try:
        for one in range(number):
            processes.append(started(*worker))
            group = CONTROLLER / f"citus-analysis-{os.getpid()}-{one}"
            group.mkdir()
            groups.append(group)
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(round(SHARE * PERIOD_US)))
            (group / "cgroup.procs").write_text(str(processes[-1].pid))
        wait_for(address, number)
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for group in groups:
            group.rmdir()


def started(program: str, *options: str) -> subprocess.Popen[bytes]:
    """A program of Dask."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{program}", *options]
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(address: str, number: int) -> None:
    """Wait until the workers are there and have imported what they need, which takes held ones long."""
    import distributed

    with distributed.Client(address, timeout=60, set_as_default=False) as client:
        client.wait_for_workers(number, timeout=300)
        client.run(warmed)


def warmed() -> None:
    """Import what tasks need."""
    from citus_analysis.dataset.recognise import hash_format_registry

    hash_format_registry()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1000])
    parser.add_argument("--held-megabytes", type=int, default=1500)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    kept = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    rows = {row["megabytes"]: row for row in kept.get("overhead", [])}
    for megabytes in given.megabytes:
        with tempfile.TemporaryDirectory() as name:
            size = write_hour(Path(name) / "logs", SHAPES["few"], megabytes * 10**6)
            row = {"megabytes": round(size / 1e6), **overhead(Path(name) / "logs", Path(name) / "out", given.times)}
            rows[row["megabytes"]] = row
            print(json.dumps(row), flush=True)
    kept["overhead"] = [rows[size] for size in sorted(rows)]
    if given.held_megabytes:
        with tempfile.TemporaryDirectory() as name:
            size = write_hour(Path(name) / "logs", SHAPES["few"], given.held_megabytes * 10**6)
            held = slope(Path(name) / "logs", Path(name))
            kept["slope"] = {"megabytes": round(size / 1e6), "by_workers": held}
            print(json.dumps(kept["slope"]), flush=True)
    given.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
