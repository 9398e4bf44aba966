"""Readers of a recording's raw files, written apart from the library that they check.

Nothing here imports the library: files are taken apart with regular expressions, tables are pandas frames. Only
the zstd files are opened with `zstandard` and descriptions with PyYAML, as pandas does not read them.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import yaml
import zstandard

_CLIENT_LOG: Final = re.compile(
    r"(?P<role>monitor_)?(?P<phase>load|run)_(?P<workload>[A-F])_(?P<threads>\d+)_(?P<records>\d+)"
    r"(?:_(?P<operations>\d+))?_(?P<iteration>\d+)_(?P<workers>\d+)_(?P<resource>.+)_(?P<drivers>\d+)_(?P<part>\d+)\.log"
)
_OVERALL: Final = re.compile(r"^\[OVERALL\], (RunTime\(ms\)|Throughput\(ops/sec\)), (\S+)", re.MULTILINE)
_SUMMARY: Final = re.compile(r"^\[(INSERT|READ)\], (Operations|AverageLatency\(us\)), (\S+)", re.MULTILINE)
_STATUS: Final = re.compile(
    r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d):(\d{3}) (\d+) sec: (\d+) operations;(?: ([\d.]+) current ops/sec;)?",
    re.MULTILINE,
)
_PROGRESS: Final = re.compile(r"^progress: ([\d.]+) s, ([\d.]+) tps", re.MULTILINE)
_RECORD: Final = re.compile(
    r"^(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) UTC \[(?P<pid>\d+)\] \[[^]]*\] : \[(?P<line>\d+)-1\] "
    r"(?:\[app=(?P<app>[^]]*\]?)\] )?(?P<level>[A-Z]+\d?):  (?P<text>.*)$"
)
_TASK: Final = re.compile(
    r"task execution \(\d+\) for placement \(\d+\) on anchor shard \((\d+)\) "
    r"finished in (\d+) microseconds on worker node [^:]+:(\d+)"
)
_ESTABLISHED: Final = re.compile(r"established connection to [^:]+:(\d+) for session \d+ in (\d+) microseconds")
_SHARD: Final = re.compile(r"usertable_(\d+)")
_DURATION: Final = re.compile(r"^duration: ([\d.]+) ms$")


def read_text(path: Path | None) -> str:
    """The text of a file, which may be packed by zstd; empty: there is none."""
    if path is None:
        return ""
    if path.suffix == ".zst":
        with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
            return stream.read().decode("utf-8", "replace")
    return path.read_text(encoding="utf-8", errors="replace")


def read_client_logs(resource: Path) -> list[dict[str, Any]]:
    """One row for each client log of a resource: its name's facts, its summary, and its throughput by second."""
    rows = []
    for path in sorted((resource / "YCSB" / "raw").iterdir()):
        name = _CLIENT_LOG.match(path.name)
        if name is None:
            raise ValueError(f"{path.name} is no name of a client log")
        text = read_text(path)
        row: dict[str, Any] = {
            "resource": resource.name,
            "role": "monitor" if name["role"] else "main",
            "phase": name["phase"],
            "operation": "INSERT" if name["phase"] == "load" else "SELECT",
            "path": path,
        }
        row |= {key: int(name[key]) for key in ("threads", "records", "iteration", "workers", "drivers", "part")}
        row["program"] = "pgbench" if text.startswith("pgbench") else "YCSB"
        if row["program"] == "pgbench":
            progress = [(float(t), float(v)) for t, v in _PROGRESS.findall(text)]
            row["throughput"] = float(_found(r"^tps = ([\d.]+)", text))
            row["done"] = int(_found(r"transactions actually processed: (\d+)", text))
            row["failed"] = int(_found(r"number of failed transactions: (\d+)", text))
            row["latency_us"] = 1000 * float(_found(r"latency average = ([\d.]+) ms", text))
            row["series"] = np.array([v for _, v in progress])
            # One interval before the first line, as the interval to the second is long.
            row["start"] = pd.Timestamp(2 * progress[0][0] - progress[1][0], unit="s", tz="UTC")
            row["runtime_ms"] = 1000 * row["done"] / row["throughput"]
            row["end"] = pd.Timestamp(progress[-1][0], unit="s", tz="UTC")
        else:
            overall = dict(_OVERALL.findall(text))
            summary = {(section, what): float(value) for section, what, value in _SUMMARY.findall(text)}
            status = _STATUS.findall(text)
            if not overall and row["role"] == "monitor":  # A sampled client that was ended with its run.
                continue
            if len({section for section, _ in summary}) != 1:
                raise ValueError(f"{path.name}: {sorted(summary)} is no summary of one operation")
            ((section, _), *_) = summary
            row["throughput"] = float(overall["Throughput(ops/sec)"])
            row["runtime_ms"] = float(overall["RunTime(ms)"])
            row["done"] = int(summary[section, "Operations"])
            row["failed"] = len(re.findall(r"^\[[A-Z]+-FAILED\], Operations", text, re.MULTILINE))
            row["latency_us"] = summary[section, "AverageLatency(us)"]
            # The last status line comes when the run ends, after a part of a second.
            row["series"] = np.array([float(rate or 0) for *_, rate in status[1:-1]])
            row["start"], row["end"] = (pd.Timestamp(f"{one[0]}.{one[1]}", tz="UTC") for one in (status[0], status[-1]))
        rows.append(row)
    return rows


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise ValueError(f"no {pattern!r} in {text[:80]!r}")
    return found[1]


@dataclass(frozen=True)
class Records:
    """The records of one server log, in its order."""

    node: int
    records: list[tuple[str, int, int, str, str, str]]  # time, pid, session line, application, level, text

    @classmethod
    def read(cls, path: Path) -> Records:
        """The records of `PGLOG-NODE.log`; lines that continue one are left out."""
        node = int(_found(r"PGLOG-(\d+)", path.name))
        found = (_RECORD.match(line) for line in read_text(path).splitlines())
        rows = [
            (one["time"], int(one["pid"]), int(one["line"]), one["app"] or "", one["level"], one["text"])
            for one in found
            if one is not None
        ]
        return cls(node, rows)

    def sessions(self) -> list[list[tuple[str, int, int, str, str, str]]]:
        """The records of each session; a number of a process comes again, with lines that begin at 1."""
        open_sessions: dict[int, list[tuple[str, int, int, str, str, str]]] = {}
        closed = []
        for record in self.records:
            _, pid, line, *_ = record
            if line == 1 and pid in open_sessions:
                closed.append(open_sessions.pop(pid))
            open_sessions.setdefault(pid, []).append(record)
        return closed + list(open_sessions.values())


def read_statements(  # noqa: C901 - one branch for each kind of record
    log: Records,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The statements that clients sent to a node, and those that other nodes sent to it.

    A statement ends with the duration that follows its `execute` (or, in the simple protocol, its `statement:`); its
    time is the sum of the durations of its phases. A `statement:` that names a shard is a part of a client's statement.
    """
    parents: list[dict[str, Any]] = []
    children: list[dict[str, Any]] = []
    for number, session in enumerate(log.sessions()):
        peer = next((app for *_, app, _, _ in session if app.startswith("citus_internal gpid=")), "")
        rows = children if peer else parents
        seen: set[tuple[str, str]] = set()
        place = 0
        current = _new_statement()
        for time, pid, _, _, level, text in session:
            if level == "LOG" and (duration := _DURATION.match(text)):
                current["total_us"] += 1000 * float(duration[1])
                if current["text"]:
                    statement = current | {"node": log.node, "pid": pid, "session": number, "end": time}
                    statement["kind"] = _find_kind(statement["text"])
                    place += statement["kind"] in {"INSERT", "SELECT"}
                    statement["place"] = place
                    if peer:
                        statement["gpid"] = int(peer.rpartition("=")[2].rstrip("]"))
                        statement["shard"] = int(_found(_SHARD.pattern, statement["text"]))
                    rows.append(statement)
                    current = _new_statement()
            elif level == "LOG" and text.startswith("execute "):
                current["text"] = text.partition(": ")[2]
            elif level == "LOG" and text.startswith("statement: "):
                if peer or not _SHARD.search(text):
                    current["text"] = text.removeprefix("statement: ")
                else:
                    current["local"] = True
            elif task := _TASK.match(text):
                current["tasks"].append((int(task[1]), int(task[2]), int(task[3]), time))
            # A cached connection is reported with the time that it took when it was opened.
            elif (connection := _ESTABLISHED.match(text)) and connection.groups() not in seen:
                seen.add((connection[1], connection[2]))
                current["opened"] += 1
                current["opened_us"] += int(connection[2])
    return parents, children


def _new_statement() -> dict[str, Any]:
    return {"total_us": 0.0, "text": "", "tasks": [], "local": False, "opened": 0, "opened_us": 0}


def _find_kind(text: str) -> str:
    return text.split(None, 1)[0].upper()


def pair_tasks(parents: list[dict[str, Any]], children: list[dict[str, Any]], nodes: pd.DataFrame) -> pd.DataFrame:
    """Statements with the time of their tasks and of the children that ran these.

    The n-th task that a parent session sent to a node for a shard is the n-th statement of that session there.
    `in_time`: pairs whose child ended within its task, by the clock that the nodes share here.
    """
    nodeids = dict(zip(nodes["groupid"], nodes["nodeid"], strict=True))
    groups = dict(zip(nodes["nodeport"], nodes["groupid"], strict=True))
    queues: dict[tuple[int, int, int], list[dict[str, Any]]] = defaultdict(list)
    for child in sorted(children, key=lambda one: one["end"]):
        queues[child["gpid"], child["node"], child["shard"]].append(child)
    taken: dict[tuple[int, int, int], int] = defaultdict(int)
    rows = []
    for parent in sorted(parents, key=lambda one: one["end"]):
        gpid = nodeids.get(parent["node"], 0) * 10**10 + parent["pid"]
        wait = child_us = 0.0
        paired = in_time = 0
        for shard, microseconds, port, done in parent["tasks"]:
            key = (gpid, groups[port], shard)
            wait += microseconds
            if taken[key] < len(queues[key]):
                child = queues[key][taken[key]]
                child_us += child["total_us"]
                taken[key] += 1
                paired += 1
                late_ms = (pd.Timestamp(child["end"]) - pd.Timestamp(done)).total_seconds() * 1000
                in_time += -microseconds / 1000 - 1 < late_ms < 1.5
        rows.append(
            {
                key: parent[key]
                for key in ("node", "pid", "session", "place", "kind", "end", "total_us", "opened", "opened_us", "text")
            }
            | {
                "tasks": len(parent["tasks"]),
                "wait_us": wait,
                "child_us": child_us,
                "paired": paired == len(parent["tasks"]),
                "in_time": in_time,
                "local": parent["local"],
            }
        )
    frame = pd.DataFrame(rows)
    if len(frame):
        frame["end"] = pd.to_datetime(frame["end"], utc=True)
        frame["executed"] = np.where(frame["tasks"] > 0, "remote", "local")
        frame["parent_us"] = frame["total_us"] - frame["wait_us"]
        frame["between_us"] = frame["wait_us"] - frame["child_us"]
    return frame


class Recording:
    """The raw files of a recording, read on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.resources = sorted(path.parent for path in folder.glob("*/config.yml"))

    @cached_property
    def descriptions(self) -> dict[str, dict[str, Any]]:
        """Resource -> what its `config.yml` states, without what was observed while it was measured."""
        found = {}
        for resource in self.resources:
            text = read_text(resource / "config.yml").partition("\nmeasured:")[0]
            found[resource.name] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return found

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One row for each client log."""
        return pd.DataFrame([row for resource in self.resources for row in read_client_logs(resource)])

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row for each run: its main clients together, with the facts of its description and when it was made."""
        main = self.clients[self.clients["role"] == "main"]
        rows = []
        for (resource, iteration), parts in main.groupby(["resource", "iteration"], sort=True):
            stated = self.descriptions[str(resource)]
            first = parts.iloc[0]
            length = min(len(one) for one in parts["series"])
            rows.append(
                {
                    "resource": resource,
                    "iteration": iteration,
                    "operation": first["operation"],
                    "workers": first["workers"],
                    "threads": first["threads"],
                    "records": first["records"],
                    "drivers": first["drivers"],
                    "experiment": stated["experiment"],
                    "set_up": stated["facts"]["set_up"],
                    "system": stated["system"],
                    "monitored": stated["monitored"],
                    "program": first["program"],
                    "binary": stated["settings"].get("citus.enable_binary_protocol", ""),
                    "cpu_per_node": stated["cpu_per_node"],
                    "throughput": parts["throughput"].sum(),
                    "runtime_ms": parts["runtime_ms"].max(),
                    "latency_us": np.average(parts["latency_us"], weights=parts["done"]),
                    "done": parts["done"].sum(),
                    "failed": parts["failed"].sum(),
                    "start": parts["start"].min(),
                    # The time in which all main clients ran.
                    "all_from": parts["start"].max(),
                    "all_until": parts["end"].min(),
                    "series": np.sum([one[:length] for one in parts["series"]], axis=0),
                }
            )
        runs = pd.DataFrame(rows)
        outcomes = [
            pd.read_csv(one / "outcomes.csv", parse_dates=["measured_from", "measured_until"]).assign(resource=one.name)
            for one in self.resources
        ]
        return runs.merge(pd.concat(outcomes), on=["resource", "iteration"], how="left", validate="one_to_one")

    @cached_property
    def logs(self) -> dict[str, list[Records]]:
        """Resource -> the records of its servers' logs."""
        paths = {one.name: sorted((one / "pglogs").glob("PGLOG-*")) for one in self.resources}
        return {resource: [Records.read(path) for path in found] for resource, found in paths.items()}

    @cached_property
    def executions(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Statements that clients sent, with parent, child and what lies between them; and those of other nodes."""
        sent, asked = [], []
        for resource in self.resources:
            parents: list[dict[str, Any]] = []
            children: list[dict[str, Any]] = []
            for log in self.logs[resource.name]:
                one = read_statements(log)
                parents += one[0]
                children += one[1]
            nodes = resource / "pg_dist_node.csv"
            columns = ["groupid", "nodeid", "nodeport"]
            known = pd.read_csv(nodes, usecols=columns) if nodes.exists() else pd.DataFrame(columns=columns)
            frame = pair_tasks(parents, children, known)
            if len(frame):
                sent.append(frame.assign(resource=resource.name))
            asked.append(
                pd.DataFrame(children, columns=["node", "end", "total_us", "shard"]).assign(resource=resource.name)
            )
        return pd.concat(sent, ignore_index=True), pd.concat(asked, ignore_index=True)

    @cached_property
    def statements(self) -> pd.DataFrame:
        """The INSERTs and SELECTs of the sampled clients, with the run in which their session began.

        `inside`: all main clients of the run ran from the statement's begin to its end.
        """
        sent, _ = self.executions
        sent = sent[sent["kind"].isin(["INSERT", "SELECT"])]
        sessions = sent.groupby(["resource", "node", "session"])[["end"]].min().reset_index()
        columns = ["resource", "iteration", "operation", "workers", "threads", "all_from", "all_until", "measured_from"]
        runs = self.runs[columns].sort_values("measured_from")
        placed = pd.merge_asof(
            sessions.sort_values("end"),
            runs,
            left_on="end",
            right_on="measured_from",
            by="resource",
            direction="backward",
        )
        statements = sent.merge(placed.drop(columns="end"), on=["resource", "node", "session"])
        begin = statements["end"] - pd.to_timedelta(statements["total_us"], unit="us")
        begin, until = begin.dt.round("ms"), statements["all_until"].dt.round("ms")
        inside = (begin >= statements["all_from"].dt.round("ms")) & (statements["end"] <= until)
        return statements.assign(inside=inside)

    @cached_property
    def machine_seconds(self) -> pd.DataFrame:
        """vmstat's seconds within runs: user, system, idle and stolen CPU in per cent of all CPUs of the machine."""
        frames = []
        columns = ["us", "sy", "id", "wa", "st"]
        for resource in self.resources:
            rows = []
            after_header = False
            for line in read_text(next((resource / "general").glob("vmstat-0.out*"))).splitlines():
                if not line.split() or not line.split()[0].isdigit():
                    after_header = True
                    continue
                fields = line.split()
                if not after_header:  # vmstat's first line is the mean since the machine started
                    rows.append([*map(float, fields[12:17]), f"{fields[17]} {fields[18]}"])
                after_header = False
            frame = pd.DataFrame(rows, columns=[*columns, "time"])
            frames.append(frame.assign(resource=resource.name))
        seconds = pd.concat(frames, ignore_index=True)
        seconds["time"] = pd.to_datetime(seconds["time"], utc=True)
        runs = self.runs[
            ["resource", "iteration", "operation", "workers", "threads", "set_up", "measured_from", "measured_until"]
        ]
        joined = seconds.merge(runs, on="resource")
        inside = (joined["time"] >= joined["measured_from"]) & (joined["time"] <= joined["measured_until"])
        return joined[inside].reset_index(drop=True)

    @cached_property
    def others(self) -> pd.DataFrame:
        """CPU time of programs that are not the run's own, in per cent of all CPUs, as the canary counted it."""
        rows = []
        for resource in self.resources:
            for line in read_text(next((resource / "general").glob("canary-0.out*"), None)).splitlines():
                if line.startswith("others "):
                    _, day, clock, cpus, used_us, passed_us, _ = line.split()
                    share = 100 * float(used_us) / float(passed_us) / int(cpus)
                    rows.append((resource.name, f"{day} {clock}", float(passed_us) / 1e6, share))
        others = pd.DataFrame(rows, columns=["resource", "time", "seconds", "percent"])
        others["time"] = pd.to_datetime(others["time"], utc=True)
        joined = others.merge(self.runs[["resource", "iteration", "measured_from", "measured_until"]], on="resource")
        return joined[joined["time"].between(joined["measured_from"], joined["measured_until"])].reset_index(drop=True)

    @cached_property
    def throttling(self) -> pd.DataFrame:
        """Each control group's periods and those in which it was stopped, at each sample within a run."""
        rows = []
        wanted = re.compile(r"/demo/([\w-]+)/cpu\.stat:(nr_periods|nr_throttled|throttled_time) (\d+)$")
        for resource in self.resources:
            for path in sorted((resource / "general").glob("host-0-*")):
                iteration = int(_found(r"host-0-(\d+)", path.name))
                time = ""
                for line in io.StringIO(read_text(path)):
                    if line.startswith("sampled "):
                        time = line[8:].strip()
                    elif one := wanted.search(line):
                        rows.append((resource.name, iteration, time, one[1], one[2], int(one[3])))
        frame = pd.DataFrame(rows, columns=["resource", "iteration", "time", "group", "what", "value"])
        frame["time"] = pd.to_datetime(frame["time"], utc=True)
        keys = ["resource", "iteration", "group", "time"]
        samples = frame.pivot_table(index=keys, columns="what", values="value", aggfunc="first").reset_index()
        limits = self.runs[["resource", "iteration", "all_from", "all_until"]]
        found = samples.merge(limits, on=["resource", "iteration"])
        return found[(found["time"] >= found["all_from"]) & (found["time"] <= found["all_until"])]

    @cached_property
    def iostat_samples(self) -> pd.DataFrame:
        """iostat's samples within runs: the machine's busy CPU and its device in per cent, and the wait of requests."""
        rows = []
        for resource in self.resources:
            text = read_text(next((resource / "general").glob("worker-0.out*"), None))
            # The first sample of each output is the mean since the machine started.
            for output in re.split(r"^Linux ", text, flags=re.MULTILINE)[1:]:
                for sample in re.split(r"^(?=\d{4}-\d\d-\d\dT)", output, flags=re.MULTILINE)[2:]:
                    lines = sample.splitlines()
                    cpu = [float(field) for field in lines[2].split()]
                    device = dict(zip(lines[4].split(), lines[5].split(), strict=True))
                    requests = float(device["r/s"]), float(device["w/s"])
                    waits = float(device["r_await"]), float(device["w_await"])
                    row = [resource.name, lines[0], 100 - cpu[-1] - cpu[3], float(device["%util"])]
                    rows.append([*row, sum(requests), float(np.dot(requests, waits))])
        columns = ["resource", "time", "busy", "util", "requests", "waited_ms"]
        samples = pd.DataFrame(rows, columns=columns)
        samples["time"] = pd.to_datetime(samples["time"], utc=True)
        return self.within_runs(samples)

    def within_runs(self, samples: pd.DataFrame, seconds: float = 1.0) -> pd.DataFrame:
        """Samples with a resource and a time at the end of their seconds, with the run in which these lie."""
        runs = self.runs[["resource", "iteration", "operation", "workers", "threads", "all_from", "all_until"]]
        joined = samples.merge(runs, on="resource")
        begin = joined["time"] - pd.Timedelta(seconds=seconds)
        inside = (begin >= joined["all_from"]) & (joined["time"] <= joined["all_until"])
        return joined[inside].reset_index(drop=True)

    @cached_property
    def stalls(self) -> pd.DataFrame:
        """The share of each sampled second in which some task waited for a CPU, in per cent."""
        rows = []
        for resource in self.resources:
            for path in sorted((resource / "general").glob("host-0-*")):
                text = read_text(path)
                times = pd.to_datetime(re.findall(r"^sampled (.+)$", text, re.MULTILINE), utc=True)
                totals = re.findall(r"^/proc/pressure/cpu:some .* total=(\d+)$", text, re.MULTILINE)
                if not totals:
                    continue
                samples = pd.DataFrame({"time": times, "total": np.array(totals, float)})
                passed = samples["time"].diff().dt.total_seconds()
                share = 100 * samples["total"].diff() / 1e6 / passed
                iteration = int(_found(r"host-0-(\d+)", path.name))
                frame = samples.assign(share=share, begin=samples["time"].shift(), resource=resource.name)
                rows.append(frame.assign(iteration=iteration).dropna(subset=["share"]))
        if not rows:
            return pd.DataFrame(columns=["resource", "iteration", "time", "begin", "share"])
        limits = self.runs[["resource", "iteration", "all_from", "all_until"]]
        found = pd.concat(rows).merge(limits, on=["resource", "iteration"])
        return found[(found["begin"] >= found["all_from"]) & (found["time"] <= found["all_until"])]

    @cached_property
    def sessions(self) -> pd.DataFrame:
        """How many sessions of clients and of other nodes each node had, at each snapshot within a run."""
        rows = []
        columns = ["sample_time", "backend_type", "application_name"]
        for resource in self.resources:
            for path in sorted((resource / "snapshots").glob("activity-*")):
                frame = pd.read_csv(path, usecols=columns)
                own = frame["application_name"] == "citus-analysis"  # of the sampler
                frame = frame[(frame["backend_type"] == "client backend") & ~own]
                internal = frame["application_name"].fillna("").str.startswith("citus_internal")
                counts = internal.groupby(frame["sample_time"]).agg(internal="sum", every="size").reset_index()
                counts["client"] = counts["every"] - counts["internal"]
                counts["time"] = pd.to_datetime(counts["sample_time"], utc=True)
                rows.append(counts.assign(resource=resource.name, node=int(_found(r"activity-(\d+)", path.name))))
        return self.within_runs(pd.concat(rows), 0.0) if rows else pd.DataFrame()

    def read_perf(self, resource: str) -> pd.DataFrame:
        """The functions of a perf report: share of samples in per cent, the object and the symbol."""
        (path,) = (self.folder / resource / "perf").glob("report-flat-*")
        found = re.findall(r"^ +([\d.]+)%  (\S+) +\[.\] (\S+)", read_text(path), re.MULTILINE)
        return pd.DataFrame(
            [(float(share), where, name) for share, where, name in found], columns=["share", "object", "name"]
        )
