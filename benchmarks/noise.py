"""How well the sources of the variance between runs are named, and what correcting comparisons by them gives.

`python -m benchmarks.noise [simulated] [injected] [canary] [--studies N] [--runs N] [--minutes N] [--out FILE]`

- simulated: studies of 10 configurations with 8 runs each, of whose variance a source makes a stated share;
  comparisons of two configurations of which one is 5 % faster;
- injected: on an embedded PostgreSQL server with pgbench, sources disturb a third of the runs each, one at a time and
  two of like effects at a time: a program that keeps the server's processor busy, or the clients'; a limit of the
  writes to the disk (control group of the study), by which each fsync waits; checkpoints. On a Citus cluster (programs
  in `POSTGRES_WITH_CITUS`) whose nodes are held to a share of a processor, the clients' sessions are placed unequally.
  `noise` reads the files alone;
- canary: the throughput with the runner's canary and without it, by turns of some seconds within one run of pgbench,
  which reads, or writes: server, clients and canary on one processor.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, cast
from unittest import mock

import numpy as np
import numpy.typing as npt
import polars as pl
import psutil
import psycopg
import scipy.stats

from citus_analysis.bottleneck import noise
from citus_analysis.bottleneck.run_factors import DIRECTIONS
from citus_analysis.bottleneck.run_variance import RESIDUAL, split_run_variance
from citus_analysis.core.type_aliases import Floats
from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.runner import canary_program, measure, run_experiment
from citus_analysis.runner.client_programs import list_program_candidates
from citus_analysis.runner.embedded import Embedded
from citus_analysis.runner.experiment import EmbeddedTarget, Experiment, parse_experiment
from citus_analysis.runner.host_samplers import choose_canary_pace
from citus_analysis.runner.plan import make_plan
from citus_analysis.runner.programs import find_programs
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
        scaled = (values[source] - values[source].mean()) / values[source].std()
        logs += DIRECTIONS[source] * SPREAD * math.sqrt(share) * scaled
    factors = values | {"order in time": np.tile(np.arange(float(RUNS)), CONFIGURATIONS)}
    return split_run_variance(np.exp(logs), names.tolist(), factors, directions=DIRECTIONS).sources


def find_named(sources: pl.DataFrame) -> list[str]:
    """Sources that chance does not explain, the largest first."""
    return sources.filter(pl.col("source") != RESIDUAL, pl.col("share") > 0)["source"].to_list()


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

UNEQUAL: Final = "unequal placement"
DELAYED: Final = "delayed fsync"
#: Injected source -> the source that `noise` is expected to name. A processor may be that of the server or of the
#: clients; both are foreign work.
INJECTED: Final = {
    "busy processor of the server": "foreign work",
    "busy processor of the clients": "foreign work",
    DELAYED: "time to force a page to the disk",
    "checkpoints": "checkpoints",
    UNEQUAL: "balance of nodes",
}
#: Sources that are injected on one server; nodes that are held to a share of a processor do not notice them.
ON_ONE_SERVER: Final = tuple(name for name in INJECTED if name != UNEQUAL)
#: None, one at a time, and two at a time of different kinds.
STUDIES: Final[tuple[tuple[str, ...], ...]] = (
    (),
    *((name,) for name in ON_ONE_SERVER),
    *(pair for pair in combinations(ON_ONE_SERVER, 2) if INJECTED[pair[0]] != INJECTED[pair[1]]),
    (UNEQUAL,),
)
#: Least share of the variance of an injected source of which the share is judged: of nothing, none is soon right.
LEAST_SHARE: Final = 0.1
#: Threads of the clients, and the part of the runs with a source.
THREADS: Final = 4
PART: Final = 1 / 3
#: A program that keeps a processor busy for a part of each 20 ms.
BUSY: Final = """
import sys, time
part = float(sys.argv[1])
while True:
    end = time.perf_counter() + 0.02 * part
    while time.perf_counter() < end:
        pass
    time.sleep(0.02 * (1 - part))
"""


#: How strong each source is: part of the processor that the busy program takes, writes per second that the disk is
#: limited to, seconds between two checkpoints. One source alone may be large; of two, neither must be lost beside the
#: other, and checkpoints cost a tenth of the throughput.
ALONE: Final[dict[str, float]] = {
    "busy processor of the server": 1.0,
    "busy processor of the clients": 1.0,
    DELAYED: 60,
    "checkpoints": 0.1,
}
BESIDE_CHECKPOINTS: Final[dict[str, float]] = {
    "busy processor of the server": 0.12,
    "busy processor of the clients": 0.6,
    DELAYED: 5800,
    "checkpoints": 0.0,
}
BESIDE_DELAYED: Final[dict[str, float]] = {
    "busy processor of the server": 0.4,
    "busy processor of the clients": 1.0,
    DELAYED: 5000,
}


def choose_amounts(sources: Collection[str]) -> dict[str, float]:
    """Source -> how strong it is, so that the sources of a pair have like effects; of placement, nothing."""
    paired = BESIDE_CHECKPOINTS if "checkpoints" in sources else BESIDE_DELAYED
    table = paired if len(sources) > 1 else ALONE
    return {source: table[source] for source in sources if source in table}


# Programs that force small pages in a loop are no delay of fsync: they use a third of a processor, which is foreign
# work, and delay no one's pages.
#: Control group of everything that a study runs, whose writes are delayed.
DISK_CONTROLLER: Final = Path("/sys/fs/cgroup/blkio")
DISK_GROUP: Final = DISK_CONTROLLER / "noise"


class Injection:
    """Programs and statements that disturb a run while it is measured.

    The programs are no children of this process, whose children are the run's own.
    """

    def __init__(self, amounts: Mapping[str, float], folder: Path) -> None:
        self.folder, self.amounts = folder, amounts
        self.pids = [pid for source in amounts for pid in self._start(source)]
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._write_checkpoints)
        if "checkpoints" in amounts:
            self.thread.start()

    def stop(self) -> None:
        """End all of it."""
        if DISK_GROUP.exists():
            limit_writes(self.folder, 0)
        self.ended.set()
        if self.thread.ident is not None:
            self.thread.join()
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)

    def _start(self, source: str) -> list[int]:
        python = [sys.executable, "-I", "-S", "-c"]
        if source.startswith("busy"):
            cpu = SERVERS_CPU if source.endswith("server") else CLIENTS_CPU
            return [start_detached([*python, BUSY, str(self.amounts[source])], cpu)]
        if source == DELAYED:
            limit_writes(self.folder, round(self.amounts[source]))
        return []

    def _write_checkpoints(self) -> None:
        ((_, port),) = find_servers(self.folder)
        with psycopg.connect(host="127.0.0.1", port=port, user="postgres", autocommit=True) as connection:
            while not self.ended.wait(self.amounts["checkpoints"]):
                connection.execute("CHECKPOINT")


@contextlib.contextmanager
def hold_disk() -> Iterator[None]:
    """Put this process, and so all that it starts, into the control group whose writes can be delayed."""
    DISK_GROUP.mkdir(exist_ok=True)
    (DISK_GROUP / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        (DISK_CONTROLLER / "cgroup.procs").write_text(str(os.getpid()))
        # The last processes may still leave it.
        with contextlib.suppress(OSError):
            DISK_GROUP.rmdir()


def limit_writes(folder: Path, per_second: int) -> None:
    """Limit the writes of the control group to the disk of a folder; 0: no limit."""
    number = folder.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    # A partition has the limit of its disk.
    disk = device.parent if (device / "partition").exists() else device
    text = f"{(disk / 'dev').read_text().strip()} {per_second}"
    (DISK_GROUP / "blkio.throttle.write_iops_device").write_text(text)


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


def describe_experiment(name: str, iterations: int, seconds: int) -> dict[str, Any]:
    """Short runs of pgbench on an embedded server: reads and updates by key."""
    return {
        "name": name,
        "target": {"kind": "embedded", "settings": {"shared_buffers": "64MB"}},
        "driver": {"kind": "pgbench", "protocol": "prepared"},
        "matrix": {"workloads": ["a"], "threads": [THREADS], "records": [10_000]},
        "limits": {"duration_s": seconds},
        "iterations": iterations,
        "samplers": {"canary": True, "activity": False},
    }


def run_beside(
    experiment: Experiment,
    tree: Path,
    begin: Callable[[str], Callable[[], None]],
    prepare: Callable[[str], None] = lambda _run: None,
) -> None:
    """Run an experiment with something beside each run while it is measured.

    Args:
        experiment: what is run: the server on one processor, its clients on the other.
        tree: folder of its files.
        begin: starts what is beside the run of a name, and gives what ends it.
        prepare: called with the name of each run before it is measured, when the servers run.
    """
    running: list[Callable[[], None]] = []

    def follow(event: RunnerEvent) -> None:
        if event.phase == "filling":
            for pid, _ in find_servers(tree):
                for one in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        one.cpu_affinity([SERVERS_CPU])
            prepare(event.run_id)
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
    described = describe_experiment("injected", runs, seconds)
    if UNEQUAL in sources:
        described = spread_over_nodes(described)
    experiment = parse_experiment(described)
    plan = [run.run_id for run in make_plan(experiment)]
    amounts = choose_amounts(sources)
    rng = np.random.default_rng(seed)
    disturbed = {source: set(rng.choice(plan, round(PART * runs), replace=False).tolist()) for source in sources}

    def begin(run_id: str) -> Callable[[], None]:
        own = {source: amount for source, amount in amounts.items() if run_id in disturbed[source]}
        return Injection(own, folder).stop

    with contextlib.ExitStack() as held:
        if DELAYED in sources:
            held.enter_context(hold_disk())
        if UNEQUAL in sources:
            prepare = held.enter_context(place_unequally(folder / "tree", disturbed[UNEQUAL]))
            run_beside(experiment, folder / "tree", begin, prepare)
        else:
            run_beside(experiment, folder / "tree", begin)
    ingest([folder / "tree"], folder / "dataset")
    return judge_study(folder / "dataset", disturbed)


# Unequal placement, on a cluster of Citus.

#: Sessions on either worker, even and uneven, and the share of a processor that each node has.
EVEN: Final = (4, 4)
UNEVEN: Final = (7, 1)
NODE_CORES: Final = 0.3
PERIOD_US: Final = 20_000
#: Weight of a node against all other work on the machine, which has 1024: a node gets its share, whoever else works.
NODE_WEIGHT: Final = 50_000
CONTROLLER: Final = Path("/sys/fs/cgroup/cpu")
PROGRAMS: Final = "POSTGRES_WITH_CITUS"


def find_missing_for_placement() -> str:
    """What a study of unequal placement lacks here; empty if it lacks nothing."""
    if PROGRAMS not in os.environ or not find_programs(os.environ[PROGRAMS]).has_extension("citus"):
        return f"{PROGRAMS} names no programs of PostgreSQL with Citus"
    if not os.access(CONTROLLER / "cpu.cfs_quota_us", os.W_OK) and not os.access(CONTROLLER, os.W_OK):
        return f"no control groups can be made in {CONTROLLER}"
    return ""


def spread_over_nodes(described: Mapping[str, Any]) -> dict[str, Any]:
    """An experiment with its load generators spread over two workers of Citus, one for each."""
    target = {**described["target"], "postgres": os.environ[PROGRAMS]}
    matrix = {
        **described["matrix"],
        "workloads": ["c"],
        "threads": [sum(EVEN)],
        "workers": [2],
        "drivers": [2],
        "entry": ["any-node"],
    }
    return {**described, "target": target, "matrix": matrix, "samplers": {"canary": True, "activity": True}}


@contextlib.contextmanager
def place_unequally(tree: Path, unequal: Collection[str]) -> Iterator[Callable[[str], None]]:
    """Hold the nodes to their share, and give what chooses the placement of a run's sessions before it begins.

    The runner shares the sessions out evenly. It is made to share them unevenly here, and records nothing of it but
    what its samplers see.
    """
    placement = list(EVEN)
    groups: set[Path] = set()

    def share(threads: int, *, parts: int) -> list[int]:
        assert (threads, parts) == (sum(EVEN), len(EVEN))
        return list(placement)

    def prepare(run_id: str) -> None:
        placement[:] = UNEVEN if run_id in unequal else EVEN
        for pid, port in find_servers(tree):
            group = CONTROLLER / f"postgres-noise-{port}"
            groups.add(group)
            group.mkdir(exist_ok=True)
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(round(NODE_CORES * PERIOD_US)))
            (group / "cpu.shares").write_text(str(NODE_WEIGHT))
            for one in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
                with contextlib.suppress(ProcessLookupError):
                    (group / "cgroup.procs").write_text(str(one.pid))

    with mock.patch.object(measure, "share_threads", share):
        try:
            yield prepare
        finally:
            for group in groups:
                # The last processes may still leave it.
                with contextlib.suppress(OSError):
                    group.rmdir()


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
    truth = split_run_variance(rates, factors["resource"].to_list(), known, directions=dict.fromkeys(known, -1))
    own = dict(truth.sources.select("source", "share_beyond_chance").iter_rows())
    sources = [] if found.variance is None else found.to_dict()["sources"]
    shares = {row["source"]: row["share_beyond_chance"] for row in cast("list[dict[str, Any]]", sources)}
    seen = {source: shares.get(INJECTED[source], 0.0) for source in disturbed}
    expected = {INJECTED[source] for source in disturbed}
    foreign = found.doubtful.join(iterations, on=["resource", "run_id"]).select("resource", "iteration").unique()
    of_foreign = {f"{resource}#{iteration}" for resource, iteration in foreign.iter_rows()}
    busy = {name for source, chosen in disturbed.items() if source.startswith("busy") for name in chosen}
    return {
        "injected": list(disturbed), "amounts": choose_amounts(disturbed),
        "disturbing": list(truth.named), "runs": factors.height,
        "named": list(found.named),
        "named_first": set(found.named[: len(expected)]) == expected and (bool(expected) or not found.named),
        "share_injected": own, "share_named": seen,
        "within_10_points": {source: abs(own[source] - seen[source]) < 0.1 for source in disturbed},
        "busy_runs": len(busy), "busy_runs_found": len(of_foreign & busy), "others_found": len(of_foreign - busy),
        "sentence": found.sentence(), "sources": sources, "warnings": list(found.warnings),
        "rates": dict(zip(names, rates.tolist(), strict=True)),
        "disturbed": {source: sorted(chosen) for source, chosen in disturbed.items()},
    }  # fmt: skip


def summarize_injected(studies: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """In how many studies `noise` named what was injected, with which shares, and what else it named.

    Returns:
        `single_named_first` of `single_studies`; of `pairs_studies`, `pairs_larger_first` (the source with the larger
        share is named first) and `pairs_both_first`; `shares_within_10_points` of `shares`, those of sources that made
        at least a tenth of the variance; `others_named`, the studies in which a source was named that was not injected;
        runs with a busy program, those of them that were found, and other runs that were.
    """
    found: dict[str, int] = {}
    for name, number in (("none", 0), ("single", 1), ("pairs", 2)):
        own = [study for study in studies if len(study["injected"]) == number]
        found |= {f"{name}_studies": len(own), f"{name}_named_first": sum(study["named_first"] for study in own)}
    found["pairs_both_first"] = found.pop("pairs_named_first")
    pairs = [study for study in studies if len(study["injected"]) == 2]
    larger = [max(study["injected"], key=study["share_injected"].__getitem__) for study in pairs]
    first = [study["named"][:1] == [INJECTED[name]] for study, name in zip(pairs, larger, strict=True)]
    near = [
        study["within_10_points"][name]
        for study in studies
        for name in study["injected"]
        if study["share_injected"][name] >= LEAST_SHARE
    ]
    others = [set(study["named"]) - {INJECTED[name] for name in study["injected"]} for study in studies]
    counts = {name: sum(study[name] for study in studies) for name in ("busy_runs", "busy_runs_found", "others_found")}
    return {
        **found,
        "pairs_larger_first": sum(first),
        "shares": len(near),
        "shares_within_10_points": sum(near),
        "others_named": sum(bool(one) for one in others),
        **counts,
    }


# The cost of the canary: within one run of pgbench it works and rests by turns.

#: Rows of pgbench's tables per client, its clients, and seconds before the first turn.
SCALE, CLIENTS, SETTLING_S = 5, 4, 5
SCRIPTS: Final = ("select-only", "simple-update")
#: Minutes of all scripts unless others are asked for, and seconds to start a server.
CANARY_MIN, STARTING_S = 6, 10
#: Of four turns, those in which the canary works: what changes steadily is then the same for both.
AWAKE: Final = (0, 3)
#: Part of the largest and of the smallest differences that a mean leaves out: a turn may be disturbed.
TRIMMED: Final = 0.1


def measure_cost_of_canary(folder: Path, script: str, seconds: int, turn_s: int, pace_s: float) -> dict[str, object]:
    """What the runner's canary costs of the throughput of a server, its clients and itself on one processor.

    During one run of pgbench, the canary works for some seconds and rests for as many (SIGSTOP), by turns. Each turn
    is compared with the next, so that what changes slowly does not matter. On one processor that is used up, nothing
    is for free.

    Args:
        folder: for the server.
        script: built-in script of pgbench.
        seconds: of the run.
        turn_s: seconds of each turn.
        pace_s: between two samples of the canary.

    Returns:
        `ratio` of the throughput with the canary to that without, with its 95 % interval; the same of the throughput
        per second of CPU time that server and clients got (what it does to their caches); and `cpu`, the canary's own
        part of the processor in its turns.
    """
    cluster = Embedded(EmbeddedTarget(settings={"shared_buffers": "256MB"}), folder / "server")
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {SERVERS_CPU})
    try:
        matrix = {"workloads": ["c"], "workers": [0]}
        cluster.prepare(make_plan(parse_experiment({"name": "cost", "matrix": matrix}))[0].configuration)
        node = cluster.nodes()[0]
        reach = ["-h", node.host, "-p", str(node.port), "-U", "postgres", "postgres"]
        pgbench = next(path for path in list_program_candidates("pgbench"))
        make: list[str | Path] = [pgbench, "--initialize", "--quiet", f"--scale={SCALE}", *reach]
        subprocess.run(make, check=True, capture_output=True)
        load: list[str | Path] = [
            *(pgbench, "--no-vacuum", f"--client={CLIENTS}", "--protocol=prepared", "--progress=1"),
            *(f"--time={seconds}", f"--builtin={script}", *reach),
        ]
        pid = find_servers(folder)[0][0]
        lines = list(alternate_canary(load, pid, folder / "canary.out", turn_s, pace_s))
    finally:
        os.sched_setaffinity(0, everywhere)
        cluster.stop()
    turns = [lines[at : at + turn_s] for at in range(0, len(lines) - turn_s + 1, turn_s)]
    awake = np.array([one[0].awake for one in turns])
    rates = np.array([np.mean([line.rate for line in one]) for one in turns])
    used = np.array([sum(line.used_s for line in one) for one in turns])
    passed = sum(line.passed_s for line in lines if line.awake)
    return {
        "script": script, "seconds": seconds, "turn_s": turn_s, "pace_s": pace_s, "pairs": len(turns) // 2,
        "throughput": float(rates.mean()),
        "ratio": estimate_ratio(np.log(rates), awake),
        "ratio_per_cpu_second": estimate_ratio(np.log(rates / used), awake),
        "cpu": sum(line.canary_s for line in lines if line.awake) / passed,
    }  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A status line of pgbench: throughput, and CPU seconds of the load and of the canary, which worked or rested."""

    awake: bool
    rate: float
    passed_s: float
    used_s: float
    canary_s: float


def alternate_canary(
    load: Sequence[str | Path], server: int, output: Path, turn_s: int, pace_s: float
) -> Iterator[Line]:
    """Status lines of a load beside which the runner's canary works and rests by turns."""
    program = Path(canary_program.__file__).read_text(encoding="utf-8")
    pace = choose_canary_pace(pace_s, None)
    arguments = ["python3", "-I", "-S", "-c", program, *map(str, pace)]
    with (
        output.open("wb") as sink,
        subprocess.Popen(load, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running,
        subprocess.Popen(arguments, stdout=sink) as canary,
    ):
        assert running.stderr is not None
        awake, began, before, number = True, time.monotonic(), measure_cpu_times(server, running.pid, canary.pid), 0
        for line in running.stderr:
            found = re.match(r"progress: [0-9.]+ s, ([0-9.]+) tps", line)
            if found is None:
                continue
            now, times = time.monotonic(), measure_cpu_times(server, running.pid, canary.pid)
            # A process that ended is in the former times only.
            used = {pid: passed - before.get(pid, 0.0) for pid, passed in times.items()}
            own = used.pop(canary.pid, 0.0)
            number += 1
            if number > SETTLING_S:
                yield Line(awake, float(found[1]), now - began, sum(used.values()), own)
            began, before = now, times
            if number >= SETTLING_S and (number - SETTLING_S) % turn_s == 0:
                awake = (number - SETTLING_S) // turn_s % 4 in AWAKE
                canary.send_signal(signal.SIGCONT if awake else signal.SIGSTOP)
        canary.kill()


def measure_cpu_times(*pids: int) -> dict[int, float]:
    """Seconds of CPU time of processes and each of their children, which the kernel counts in nanoseconds."""
    found = {}
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            for one in (psutil.Process(pid), *psutil.Process(pid).children()):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    text = Path(f"/proc/{one.pid}/schedstat").read_text(encoding="ascii")
                    found[one.pid] = int(text.split()[0]) / 1e9
    return found


def estimate_ratio(logs: Floats, awake: npt.NDArray[np.bool_]) -> dict[str, float]:
    """Turns with the canary over the turns after or before them: trimmed mean of pairs, and Yuen's interval."""
    even = len(logs) // 2 * 2
    differences = np.sort((logs[0:even:2] - logs[1:even:2]) * np.where(awake[0:even:2], 1, -1))
    left_out, n = int(TRIMMED * len(differences)), len(differences)
    kept = differences[left_out : n - left_out]
    spread = np.clip(differences, kept[0], kept[-1]).std(ddof=1) / ((1 - 2 * TRIMMED) * math.sqrt(n))
    half = float(scipy.stats.t.ppf(0.975, len(kept) - 1)) * spread
    ends = {"estimate": kept.mean(), "low": kept.mean() - half, "high": kept.mean() + half}
    return {name: float(np.exp(one)) for name, one in ends.items()}


def main() -> None:
    """Measure, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="what is measured (default: simulated)")
    parser.add_argument("--repeats", type=int, default=1000, help="simulated studies")
    parser.add_argument("--studies", type=int, default=len(STUDIES), help="injected ones, in turn over sources")
    parser.add_argument("--first", type=int, default=0, help="number of the first injected study")
    parser.add_argument("--runs", type=int, default=18, help="runs of an injected study")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="no injected study begins after this time; all of the canary"
    )
    parser.add_argument("--seconds", type=int, default=4, help="of a run")
    parser.add_argument("--turn", type=int, default=1, help="seconds in which the canary works, and rests")
    parser.add_argument("--pace", type=float, default=1, help="seconds between two samples of the canary")
    parser.add_argument("--script", choices=SCRIPTS, action="append", help="of pgbench (default: both)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    kept: dict[str, Any] = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}

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
                scripts = given.script or SCRIPTS
                minutes = CANARY_MIN if given.minutes == math.inf else given.minutes
                seconds = round(60 * minutes / len(scripts)) - STARTING_S
                for script in scripts:
                    cost = measure_cost_of_canary(folder / script, script, seconds, given.turn, given.pace)
                    others = [one for one in kept.get("canary", []) if one["script"] != script]
                    keep(canary=sorted([*others, cost], key=itemgetter("script")))
                continue
            first = time.monotonic()
            for number in range(given.first, given.first + given.studies):
                sources = STUDIES[number % len(STUDIES)]
                missing = find_missing_for_placement() if UNEQUAL in sources else ""
                if DELAYED in sources and not os.access(DISK_CONTROLLER, os.W_OK):
                    missing = f"no control groups can be made in {DISK_CONTROLLER}"
                if missing:
                    print(f"study {number} of {' and '.join(sources)} is left out: {missing}", file=sys.stderr)
                    continue
                begin = time.monotonic()
                if begin - first > 60 * given.minutes:
                    break
                one = study_injected(folder / str(number), sources, given.runs, given.seconds, SEED + number)
                earlier = [study for study in kept.get("injected", []) if study["number"] != number]
                size = {"seconds": given.seconds, "took_s": round(time.monotonic() - begin)}
                studies = [*earlier, {"number": number, **size, **one}]
                keep(injected=studies, injected_summary=summarize_injected(studies))
                shutil.rmtree(folder / str(number), ignore_errors=True)
                print(json.dumps({**one, "sources": None, "rates": None, "disturbed": None}), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({name: one for name, one in kept.items() if name != "injected"}, indent=1))


if __name__ == "__main__":
    main()
