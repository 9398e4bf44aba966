"""How well the sources of the variance between runs are named, and what correcting comparisons by them gives.

`python -m benchmarks.noise [simulated] [injected] [canary] [--studies N] [--runs N] [--seconds N] [--out FILE]`

- simulated: studies of 10 configurations with 8 runs each, of whose variance a source makes a stated share;
  comparisons of two configurations of which one is 5 % faster;
- injected: on an embedded PostgreSQL server with pgbench, sources disturb a third of the runs each, one at a time and
  two at a time: a program that keeps the server's processor busy, or the clients'; programs that force pages to the
  same disk; checkpoints. `noise` reads the files alone;
- canary: the throughput with the runner's canary and without it, in pairs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import polars as pl
import psutil
import psycopg

from citus_analysis.bottleneck import noise
from citus_analysis.bottleneck.variance import split_run_variance
from citus_analysis.core.type_aliases import Floats
from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.runner import canary_program, run_experiment
from citus_analysis.runner.experiment import Experiment, parse_experiment
from citus_analysis.runner.host_samplers import choose_canary_pace
from citus_analysis.runner.plan import make_plan
from citus_analysis.runner.schedule import RunnerEvent
from citus_analysis.stats.covariates import correct_comparison, estimate_slopes
from citus_analysis.stats.verdicts import compare

RESULTS: Final = Path(__file__).parent / "results" / "noise.json"
SEED: Final = 62
CONFIGURATIONS: Final = 10
RUNS: Final = 8
SPREAD: Final = 0.08
SHARE: Final = 0.8
FASTER: Final = 1.05
SOURCES: Final = ("speed of the machines", "foreign work", "checkpoints", "balance of nodes", "stolen CPU time")
#: What can be measured.
PARTS: Final = ("simulated", "injected", "canary")


def simulate_sources(rng: np.random.Generator, shares: dict[str, float]) -> pl.DataFrame:
    """The sources of a simulated study, of whose variance some sources have these shares."""
    n = CONFIGURATIONS * RUNS
    values: dict[str, Floats] = {
        "speed of the machines": rng.normal(0, 0.05, n),
        "foreign work": (rng.random(n) < 1 / 3) * rng.uniform(5, 20, n),
        "checkpoints": (rng.random(n) < 0.5) * rng.uniform(0, 100, n),
        "balance of nodes": rng.beta(8, 2, n),
        "stolen CPU time": rng.exponential(1, n),
    }
    names = np.repeat(np.arange(CONFIGURATIONS), RUNS)
    rest = SPREAD * math.sqrt(1 - sum(shares.values())) * rng.normal(0, 1, n)
    logs = rng.uniform(5, 9, CONFIGURATIONS)[names] + rest
    for source, share in shares.items():
        logs += SPREAD * math.sqrt(share) * (values[source] - values[source].mean()) / values[source].std()
    order = np.tile(np.arange(float(RUNS)), CONFIGURATIONS)
    return split_run_variance(np.exp(logs), names.tolist(), values | {"order in time": order}).sources


def find_named(sources: pl.DataFrame) -> list[str]:
    """Sources that chance does not explain, the largest first."""
    return sources.filter((pl.col("p_value") < 0.05).fill_null(value=False))["source"].to_list()


def measure_naming(repeats: int) -> dict[str, object]:
    """Shares of studies in which what was injected is named, first and with its share, and in which all else is not."""
    rng = np.random.default_rng(SEED)
    first, near = [], []
    for source, _ in product(SOURCES, range(repeats // len(SOURCES))):
        found = simulate_sources(rng, {source: SHARE})
        first.append(find_named(found)[:1] == [source])
        own = found.filter(pl.col("source") == source)["share_beyond_chance"].item()
        near.append(abs(own - SHARE) < 0.1)
    both = []
    for _ in range(repeats):
        one, other = rng.choice(SOURCES, 2, replace=False)
        both.append({one, other} <= set(find_named(simulate_sources(rng, {one: 0.5, other: 0.3}))))
    nothing = [not find_named(simulate_sources(rng, {})) for _ in range(repeats)]
    shares = {"named_first": first, "share_within_10_points": near, "both_named": both, "nothing_named": nothing}
    return {"studies": repeats, "share": SHARE, **{name: float(np.mean(one)) for name, one in shares.items()}}


def measure_correction(repeats: int) -> list[dict[str, object]]:
    """Coverage and width of corrected intervals, where one source makes most of the variance, and where none does."""
    rng = np.random.default_rng(SEED)
    found: list[dict[str, object]] = []
    for (runs, configurations, blocked), share in product(((5, 8, False), (10, 2, False), (5, 8, True)), (SHARE, 0.0)):
        covered, plain_covered, widths = [], [], []
        names = np.repeat(np.arange(configurations), runs).tolist()
        for _ in range(repeats):
            covariate = rng.normal(0, 1, (configurations, runs))
            own = rng.normal(0, 1, covariate.shape)
            blocks = rng.normal(0, 0.05, runs) if blocked else 0.0
            logs = SPREAD * (math.sqrt(share) * covariate + math.sqrt(1 - share) * own) + blocks
            logs[0] += math.log(FASTER)
            values = 100 * np.exp(logs)
            slopes = estimate_slopes(values.ravel(), names, {"source": covariate.ravel()})
            plain = compare(values[0], values[1], blocked=blocked)
            sides = ((values[0], covariate[0][:, None]), (values[1], covariate[1][:, None]))
            corrected = correct_comparison(plain, sides, slopes)
            plain_covered.append(plain.ratio.low <= FASTER <= plain.ratio.high)
            if (interval := corrected.interval) is not None:
                covered.append(interval.low <= FASTER <= interval.high)
                widths.append(corrected.width_ratio)
        found.append(
            {
                "runs": runs, "configurations": configurations, "blocked": blocked, "share": share, "repeats": repeats,
                "plain_coverage": float(np.mean(plain_covered)), "corrected": len(widths) / repeats,
                "coverage": float(np.mean(covered)), "width": float(np.median(widths)),
            }
        )  # fmt: skip
    return found


# Injected sources, on an embedded server with pgbench.

#: Injected source -> the source that `noise` is expected to name. A processor may be that of the server or of the
#: clients; both are foreign work. Placement is not injected: a single server has no nodes to be placed on.
INJECTED: Final = {
    "busy processor of the server": "foreign work",
    "busy processor of the clients": "foreign work",
    "delayed fsync": "time to force a page to the disk",
    "checkpoints": "checkpoints",
}
#: None, one at a time, and two at a time of different kinds.
STUDIES: Final[tuple[tuple[str, ...], ...]] = (
    (),
    *((name,) for name in INJECTED),
    *(pair for pair in combinations(INJECTED, 2) if INJECTED[pair[0]] != INJECTED[pair[1]]),
)
#: Threads of the clients, and the part of the runs with a source.
THREADS: Final = 4
PART: Final = 1 / 3
BUSY: Final = "while True: pass"
FORCE: Final = """
import os, sys
file, page = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY), bytes(1 << 16)
while True:
    os.pwrite(file, page, 0)
    os.fsync(file)
"""
#: Programs that force pages to the disk at the same time.
FORCING: Final = 4


class Injection:
    """Programs and statements that disturb a run while it is measured.

    The programs are no children of this process, whose children are the run's own.
    """

    def __init__(self, sources: Collection[str], folder: Path) -> None:
        self.folder = folder
        self.pids = [pid for source in sources for pid in self._start(source)]
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._write_checkpoints)
        if "checkpoints" in sources:
            self.thread.start()

    def stop(self) -> None:
        """End all of it."""
        self.ended.set()
        if self.thread.ident is not None:
            self.thread.join()
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)

    def _start(self, source: str) -> list[int]:
        python = [sys.executable, "-I", "-c"]
        if source.startswith("busy"):
            cpu = SERVERS_CPU if source.endswith("server") else CLIENTS_CPU
            return [start_detached([*python, BUSY], cpu)]
        if source == "delayed fsync":
            files = [str(self.folder / f"forced-{number}") for number in range(FORCING)]
            return [start_detached([*python, FORCE, file], CLIENTS_CPU) for file in files]
        return []

    def _write_checkpoints(self) -> None:
        ((_, port),) = find_servers(self.folder)
        with psycopg.connect(host="127.0.0.1", port=port, user="postgres", autocommit=True) as connection:
            while not self.ended.wait(0.1):
                connection.execute("CHECKPOINT")


#: With two processors or more, servers and clients have one each.
SERVERS_CPU, CLIENTS_CPU = (0, 1) if (os.cpu_count() or 1) > 1 else (0, 0)


def start_detached(arguments: list[str], cpu: int) -> int:
    """Start a program that is nobody's child, on one processor; return its process id."""
    command = ["taskset", "-c", str(cpu), "setsid", "sh", "-c", '"$@" > /dev/null 2>&1 & echo $!', "sh"]
    return int(subprocess.run([*command, *arguments], check=True, capture_output=True, text=True).stdout)


def find_servers(tree: Path) -> list[tuple[int, int]]:
    """Process and port of the servers of an experiment, which may have a folder elsewhere."""
    elsewhere = [Path(file.read_text(encoding="utf-8")) for file in tree.rglob("elsewhere.txt")]
    files = [file for place in (tree, *elsewhere) for file in place.rglob("postmaster.pid")]
    lines = [file.read_text(encoding="utf-8").splitlines() for file in files]
    return [(int(words[0]), int(words[3])) for words in lines if len(words) > 3]


def describe_experiment(name: str, iterations: int, seconds: int, *, canary: bool) -> dict[str, Any]:
    """Short runs of pgbench on an embedded server: reads and updates by key."""
    return {
        "name": name,
        "target": {"kind": "embedded", "settings": {"shared_buffers": "64MB"}},
        "driver": {"kind": "pgbench", "protocol": "prepared"},
        "matrix": {"workloads": ["a"], "threads": [THREADS], "records": [10_000]},
        "limits": {"duration_s": seconds},
        "iterations": iterations,
        "samplers": {"canary": canary, "activity": False},
    }


def run_beside(experiment: Experiment, tree: Path, begin: Callable[[str], Callable[[], None]]) -> None:
    """Run an experiment with something beside each run while it is measured.

    Args:
        experiment: what is run: the server on one processor, its clients on the other.
        tree: folder of its files.
        begin: starts what is beside the run of a name, and gives what ends it.
    """
    running: list[Callable[[], None]] = []

    def follow(event: RunnerEvent) -> None:
        if event.phase == "filling":
            for pid, _ in find_servers(tree):
                for one in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        one.cpu_affinity([SERVERS_CPU])
        if event.phase == "measuring" and not running:
            running.append(begin(event.run_id))
        if event.phase != "measuring" and running:
            running.pop()()

    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CLIENTS_CPU})
    try:
        run_experiment(experiment, tree, watch=follow)
    finally:
        os.sched_setaffinity(0, everywhere)
        for end in running:
            end()


def study_injected(folder: Path, sources: Sequence[str], runs: int, seconds: int, seed: int) -> dict[str, object]:
    """What `noise` says of a study of which sources disturb a third of the runs each, beside what was injected."""
    experiment = parse_experiment(describe_experiment("injected", runs, seconds, canary=True))
    plan = [run.run_id for run in make_plan(experiment)]
    rng = np.random.default_rng(seed)
    disturbed = {source: set(rng.choice(plan, round(PART * runs), replace=False).tolist()) for source in sources}

    def begin(run_id: str) -> Callable[[], None]:
        return Injection([source for source, chosen in disturbed.items() if run_id in chosen], folder).stop

    run_beside(experiment, folder / "tree", begin)
    ingest([folder / "tree"], folder / "dataset")
    return judge_study(folder / "dataset", disturbed)


def judge_study(dataset: Path, disturbed: Mapping[str, Collection[str]]) -> dict[str, object]:
    """Sources as `noise` names them with their shares, beside the shares of what is known to have been injected."""
    opened = open_dataset(dataset)
    found = noise(opened)
    iterations = opened.runs().select("resource", "run_id", "iteration")
    factors = found.factors.join(iterations, on=["resource", "run_id"], how="left", maintain_order="left")
    names = [f"{resource}#{iteration}" for resource, iteration in factors.select("resource", "iteration").iter_rows()]
    known = {source: [float(name in chosen) for name in names] for source, chosen in disturbed.items()}
    rates = factors["throughput_ops_s"].to_numpy()
    # The true share: of the runs that were disturbed, whatever `noise` knows of them.
    truth = split_run_variance(rates, factors["resource"].to_list(), known).sources
    own = dict(truth.select("source", "share_beyond_chance").iter_rows())
    sources = [] if found.variance is None else found.to_dict()["sources"]
    shares = {row["source"]: row["share_beyond_chance"] for row in cast("list[dict[str, Any]]", sources)}
    seen = {source: shares.get(INJECTED[source], 0.0) for source in disturbed}
    expected = {INJECTED[source] for source in disturbed}
    foreign = found.doubtful.join(iterations, on=["resource", "run_id"]).select("resource", "iteration").unique()
    of_foreign = {f"{resource}#{iteration}" for resource, iteration in foreign.iter_rows()}
    busy = {name for source, chosen in disturbed.items() if source.startswith("busy") for name in chosen}
    return {
        "injected": list(disturbed), "runs": factors.height, "named": list(found.named),
        "named_first": set(found.named[: len(expected)]) == expected and (bool(expected) or not found.named),
        "share_injected": own, "share_named": seen,
        "within_10_points": {source: abs(own[source] - seen[source]) < 0.1 for source in disturbed},
        "busy_runs": len(busy), "busy_runs_found": len(of_foreign & busy), "others_found": len(of_foreign - busy),
        "sentence": found.sentence(), "sources": sources, "warnings": list(found.warnings),
        "rates": dict(zip(names, rates.tolist(), strict=True)),
        "disturbed": {source: sorted(chosen) for source, chosen in disturbed.items()},
    }  # fmt: skip


def measure_cost_of_canary(folder: Path, pairs: int, seconds: int) -> dict[str, object]:
    """Throughput with the canary over that without it, in pairs of runs on one server."""
    experiment = parse_experiment(describe_experiment("cost", 2 * pairs, seconds, canary=False))
    plan = [run.run_id for run in make_plan(experiment)]
    rng = np.random.default_rng(SEED)
    watched = {pair[rng.integers(2)] for pair in zip(plan[::2], plan[1::2], strict=True)}
    pace = [str(one) for one in choose_canary_pace(1, seconds)]
    program = Path(canary_program.__file__).read_text(encoding="utf-8")

    def begin(run_id: str) -> Callable[[], None]:
        if run_id not in watched:
            return lambda: None
        # As the runner does: with its interpreter, and a file for its lines.
        with (folder / "canary.out").open("wb") as output:
            running = subprocess.Popen(["python3", "-I", "-c", program, *pace], stdout=output)

        def end() -> None:
            running.terminate()
            running.wait()

        return end

    run_beside(experiment, folder / "tree", begin)
    ingest([folder / "tree"], folder / "dataset")
    runs = open_dataset(folder / "dataset").runs()
    found = {
        f"{resource}#{iteration}": rate
        for resource, iteration, rate in runs.select("resource", "iteration", "throughput_ops_s").iter_rows()
    }
    rates = {
        "with": [found[one if one in watched else other] for one, other in zip(plan[::2], plan[1::2], strict=True)],
        "without": [found[other if one in watched else one] for one, other in zip(plan[::2], plan[1::2], strict=True)],
    }
    judged = compare(rates["with"], rates["without"], blocked=True)
    ratio = judged.ratio
    return {
        "pairs": pairs, "seconds": seconds, "ratio": ratio.estimate, "low": ratio.low, "high": ratio.high, **rates
    }  # fmt: skip


def main() -> None:
    """Measure, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="what is measured (default: simulated)")
    parser.add_argument("--repeats", type=int, default=1000, help="simulated studies")
    parser.add_argument("--studies", type=int, default=len(STUDIES), help="injected ones, in turn over sources")
    parser.add_argument("--first", type=int, default=0, help="number of the first injected study")
    parser.add_argument("--runs", type=int, default=18, help="runs of an injected study")
    parser.add_argument("--minutes", type=float, default=math.inf, help="no injected study begins after this time")
    parser.add_argument("--seconds", type=int, default=4, help="of a run")
    parser.add_argument("--pairs", type=int, default=20, help="of runs with the canary and without it")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    kept = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}

    def keep(**results: object) -> None:
        # After each study, so that a measurement that is stopped leaves those before.
        kept.update(results)
        given.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")

    for part in given.parts or ["simulated"]:
        if part == "simulated":
            keep(naming=measure_naming(given.repeats), correction=measure_correction(given.repeats))
            continue
        folder = Path(tempfile.mkdtemp(prefix="noise-"))
        try:
            if part == "canary":
                keep(canary=measure_cost_of_canary(folder, given.pairs, given.seconds))
                continue
            first = time.monotonic()
            for number in range(given.first, given.first + given.studies):
                begin = time.monotonic()
                if begin - first > 60 * given.minutes:
                    break
                one = study_injected(
                    folder / str(number), STUDIES[number % len(STUDIES)], given.runs, given.seconds, SEED + number
                )
                earlier = [study for study in kept.get("injected", []) if study["number"] != number]
                size = {"seconds": given.seconds, "took_s": round(time.monotonic() - begin)}
                keep(injected=[*earlier, {"number": number, **size, **one}])
                shutil.rmtree(folder / str(number), ignore_errors=True)
                print(json.dumps({**one, "sources": None, "rates": None, "disturbed": None}), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({name: one for name, one in kept.items() if name != "injected"}, indent=1))


if __name__ == "__main__":
    main()
