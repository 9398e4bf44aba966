"""The runner killed at random moments: whether what it leaves after a resume is what an undisturbed run leaves.

`python -m benchmarks.kills [--kills N] [--seed N] [--out FILE]`. Short experiments with pgbench are launched and killed
by SIGKILL after a random time, up to eight times each, resumed, and compared with the undisturbed one: names of files,
outcomes, settings, operations of every client, traced statements, and what is left behind (processes, files of
attempts, settings of a server that is somebody else's). Half of them start servers of their own, half use a server that
was there before, whose settings they change and have to restore.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import polars as pl
import psutil
import yaml

import citus_analysis as ca
from citus_analysis.runner import connections, read_overview
from citus_analysis.runner.embedded import LOOPBACK, SUPERUSER, Embedded
from citus_analysis.runner.experiment import EmbeddedTarget, parse_experiment
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.plan import make_plan
from citus_analysis.runner.schedule import JOURNAL, PRIVATE, PROCESSES
from citus_analysis.runner.system import ServerNode

RESULTS: Final = Path(__file__).parent / "results" / "kills.json"
SEED: Final = 59
KILLS: Final = 20
#: An experiment is killed at most so often, so that it also gets to its end.
KILLS_OF_ONE: Final = 8
_SETTINGS: Final = ["5MB", "6MB"]
_ITERATIONS: Final = 3
#: Runs of an experiment.
RUNS: Final = len(_SETTINGS) * _ITERATIONS
_TIMEOUT_S: Final = 300
#: Facts that differ between two undisturbed experiments as well.
_OWN: Final = ("nodes", "measured", "port")


@dataclass(frozen=True)
class Leftovers:
    """What an experiment left.

    Attributes:
        files: places in its tree.
        outcomes: of each resource the iterations, their outcomes and reasons.
        settings: of each resource what its `config.yml` states of the servers.
        operations: run and role of each client, and the operations that it did; None where these are not fixed.
        untraced: runs of which the logs do not have exactly one statement for each operation of the sampled client.
        behind: what should not be there: processes, attempts, settings that were not restored, sessions.
        server: settings of the server that was there before, and the names of its tables.
    """

    files: tuple[str, ...]
    outcomes: Mapping[str, list[list[str]]]
    settings: Mapping[str, object]
    operations: tuple[tuple[str, str, int | None], ...]
    untraced: tuple[str, ...]
    behind: tuple[str, ...]
    server: tuple[str, ...] = ()

    def list_differences(self, undisturbed: Leftovers) -> list[str]:
        """The names of what differs, with the values of both."""
        mine, theirs = (dict(_list_leaves("", asdict(one))) for one in (self, undisturbed))
        names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
        return [f"{name}: {mine.get(name)!r}, not {theirs.get(name)!r}" for name in names]


def _list_leaves(place: str, value: object) -> Iterator[tuple[str, object]]:
    """The values in nested mappings, with their names; of an empty one its own."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _list_leaves(f"{place}/{name}", inner)
    else:
        yield place, value


@dataclass
class Tally:
    """What was tried and found.

    Attributes:
        kills: number of kills.
        resumed: experiments that were killed at least once and resumed to their end.
        states: last state in the journal when the runner was killed -> kills.
        differences: of experiments that left something else, what it was.
    """

    kills: int = 0
    resumed: int = 0
    states: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


def write_experiment(folder: Path, target: Mapping[str, object], *, monitored: bool) -> Path:
    """The file of an experiment of two configurations, which differ in a setting, and three iterations."""
    sampled = {"monitor": {"rate_ops_s": 100}} if monitored else {}
    document = {
        "name": "killed",
        "target": target,
        "driver": {"kind": "pgbench"},
        "matrix": {
            "workloads": ["a"],
            "threads": [2],
            "records": [200],
            "operations": [4000],
            "monitored": [monitored],
            "settings": {"work_mem": _SETTINGS},
        },
        **sampled,
        "iterations": _ITERATIONS,
        # In a run of a second, the canary may print nothing.
        "samplers": {"iostat": False, "vmstat": False, "canary": False},
    }
    file = folder / "experiment.yml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


def launch(file: Path, tree: Path) -> subprocess.Popen[bytes]:
    """Start the runner, which goes on where one was killed before."""
    begun = (tree / PRIVATE / JOURNAL).exists()
    command = [sys.executable, "-m", "citus_analysis", "run", str(file), "--out", str(tree)]
    return subprocess.Popen(
        [*command, *(["--resume"] if begun else [])], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def find_last_state(tree: Path) -> str:
    """The last state in the journal."""
    entries = list(Journal(tree / PRIVATE / JOURNAL).entries())
    return entries[-1].state if entries else "not begun"


def kill_and_resume(file: Path, tree: Path, whole_s: float, kills: int, rng: random.Random, tally: Tally) -> str:
    """Kill the runner at random moments until it was killed so often, and let it end; what it said if it failed."""
    killed = 0
    while True:
        runner = launch(file, tree)
        try:
            # Whole experiments are shorter the more of their runs are done.
            left = 1 - read_overview(tree).count("verified") / 6 if find_last_state(tree) != "not begun" else 1.0
            said, _ = runner.communicate(
                timeout=rng.uniform(0.2, whole_s * left + 1.0) if killed < kills else _TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            runner.send_signal(signal.SIGKILL)
            runner.communicate()
            if killed == kills:
                return "it did not end"
            killed += 1
            tally.kills += 1
            tally.states[find_last_state(tree)] += 1
            continue
        tally.resumed += killed > 0
        return said.decode(errors="replace")[-1000:] if runner.returncode else ""


def examine(tree: Path, server: ServerNode | None, *, monitored: bool) -> Leftovers:
    """What an experiment left in its tree, on this machine and on a server that was there before."""
    private = tree / PRIVATE
    files = [path.relative_to(tree) for path in tree.rglob("*") if path.is_file()]
    places = {str(place) for place in files if PRIVATE not in place.parts}
    outcomes, settings = {}, {}
    for resource in sorted(path for path in tree.iterdir() if path.is_dir() and path.name != PRIVATE):
        with (resource / "outcomes.csv").open(encoding="utf-8", newline="") as file:
            outcomes[resource.name] = [row[:3] for row in csv.reader(file)]
        stated = yaml.safe_load((resource / "config.yml").read_text(encoding="utf-8"))
        settings[resource.name] = leave_out_own_facts(stated)
        places |= {f"{resource.name}/{place}" for place in list_stated_gaps(stated["measured"])}
    counted, untraced = count_operations(tree, monitored=monitored)
    started = {entry.detail.get("pid", -1) for entry in Journal(private / PROCESSES).entries()}
    alive = [f"process {pid}" for pid in sorted(started) if pid > 0 and psutil.pid_exists(pid)]
    attempts = [str(path.relative_to(tree)) for path in private.glob("attempts/*")]
    servers = [str(path.relative_to(tree)) for path in private.glob("servers/*")]
    behind = [*alive, *attempts, *servers, *read_overview(tree).unrestored]
    of_server = []
    if server is not None:
        with connections.connect(server, database=SUPERUSER, user=SUPERUSER) as connection:
            asked = {
                "session": "SELECT application_name FROM pg_stat_activity WHERE backend_type = 'client backend' "
                "AND pid <> pg_backend_pid()",
                "lock": "SELECT mode FROM pg_locks WHERE locktype = 'advisory'",
            }
            behind += [
                f"{what} {row[0]}" for what, text in asked.items() for row in connections.query(connection, text)
            ]
            states = {
                "setting": "SELECT name || ' = ' || setting FROM pg_file_settings WHERE sourcefile LIKE '%auto.conf' "
                "ORDER BY seqno",
                "work_mem": "SELECT setting FROM pg_settings WHERE name = 'work_mem'",
                "table": "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1",
            }
            of_server = [
                f"{what} {row[0]}" for what, text in states.items() for row in connections.query(connection, text)
            ]
    return Leftovers(tuple(sorted(places)), outcomes, settings, counted, untraced, tuple(behind), tuple(of_server))


def list_stated_gaps(measured: Mapping[int, Mapping[str, list[str]]]) -> Iterator[str]:
    """Files of snapshots that a short run lacks, as its description says; so may an undisturbed one."""
    for iteration, seen in measured.items():
        for said in seen.get("skipped", []):
            if found := re.match(r"sessions of node (\S+) were not recorded: the run ended", said):
                yield f"snapshots/activity-{found[1]}-{iteration}.csv"


def leave_out_own_facts(stated: object) -> object:
    """What `config.yml` states, without what no two experiments have in common."""
    if not isinstance(stated, dict):
        return stated
    return {name: leave_out_own_facts(value) for name, value in stated.items() if name not in _OWN}


def count_operations(tree: Path, *, monitored: bool) -> tuple[tuple[tuple[str, str, int | None], ...], tuple[str, ...]]:
    """Operations of each client, and the runs of which the logs have more or fewer statements than were sampled."""
    with tempfile.TemporaryDirectory() as out:
        ca.ingest(tree, out, jobs=1)
        dataset = ca.open_dataset(out)
        # Not by operation: pgbench's threads lose a count of a script now and then.
        clients = dataset.table("clients").group_by("run_id", "role").agg(pl.col("operations_done").sum())
        rows = clients.sort("run_id", "role").select(pl.col("run_id", "role").cast(pl.String), "operations_done").rows()
        statements = Counter(dataset.table("statements")["run_id"]) if monitored else {}
    # The sampled client is paced, so that it does another number of operations each time.
    counted = tuple((run, role, None if role == "monitor" else number) for run, role, number in rows)
    sampled = {run: number for run, role, number in rows if role == "monitor"}
    untraced = tuple(
        f"{run}: {statements.get(run, 0)} of {number}"
        for run, number in sampled.items()
        if statements.get(run) != number
    )
    return counted, untraced


@contextmanager
def start_server(folder: Path) -> Iterator[ServerNode]:
    """A server that an experiment finds, with a setting that it will have to restore."""
    cluster = Embedded(EmbeddedTarget(settings={"fsync": "off"}), folder)
    try:
        cluster.prepare(make_plan(parse_experiment({"name": "x", "matrix": {"workloads": ["c"]}}))[0].configuration)
        (node,) = cluster.nodes()
        with cluster.connect() as connection:
            for text in ("ALTER SYSTEM SET work_mem = '7MB'", "SELECT pg_reload_conf()", "DROP TABLE usertable"):
                connections.query(connection, text)
        yield node
    finally:
        cluster.stop()


def measure(kills: int, seed: int) -> dict[str, object]:
    """Kill so often, and compare every experiment with the undisturbed one of its kind."""
    rng, found = random.Random(seed), {}
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with start_server(folder / "theirs") as server:
            address = {"host": LOOPBACK, "port": server.port, "role": "coordinator"}
            theirs = {
                "kind": "cluster",
                "system": "postgresql",
                "nodes": [address],
                "reload_with": "alter_system",
                "collect_logs": False,
            }
            kinds: dict[str, tuple[Mapping[str, object], ServerNode | None, bool]] = {
                "own server": ({"kind": "embedded", "settings": {"fsync": "off"}}, None, True),
                "a server that was there": (theirs, server, False),
            }
            for number, (kind, (target, node, monitored)) in enumerate(kinds.items()):
                found[kind] = kill_one_kind(folder / f"kind-{number}", target, node, monitored, kills // 2, rng)
    return {"seed": seed, "load": round(os.getloadavg()[0], 1), **found}


def kill_one_kind(
    folder: Path,
    target: Mapping[str, object],
    server: ServerNode | None,
    monitored: bool,
    kills: int,
    rng: random.Random,
) -> dict[str, object]:
    """The kills of experiments with one kind of target."""
    folder.mkdir()
    file = write_experiment(folder, target, monitored=monitored)
    began, whole = time.monotonic(), folder / "undisturbed"
    if said := kill_and_resume(file, whole, 0, 0, rng, tally := Tally()):
        sys.exit(f"the undisturbed experiment failed: {said}")
    whole_s = time.monotonic() - began
    undisturbed = examine(whole, server, monitored=monitored)
    while tally.kills < kills:
        tree = folder / f"killed-at-{tally.kills}"
        said = kill_and_resume(file, tree, whole_s, min(KILLS_OF_ONE, kills - tally.kills), rng, tally)
        wrong = [said] if said else examine(tree, server, monitored=monitored).list_differences(undisturbed)
        tally.differences += [f"{tree.name}: {one}" for one in wrong]
        print(f"{tally.kills} kills, {tally.resumed} resumed, {len(tally.differences)} differences", *wrong, flush=True)
    return {"undisturbed_s": round(whole_s, 1), **asdict(tally), "states": dict(tally.states.most_common())}


def main() -> None:
    """Kill, compare, print and keep what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    found = measure(asked.kills, asked.seed)
    text = json.dumps(found, indent=1)
    asked.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
