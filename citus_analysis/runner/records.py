"""Places of the files of a planned run in the artefact tree, named by :mod:`citus_analysis.study_tree`.

Example:
    >>> from citus_analysis.runner.experiment import parse_experiment
    >>> from citus_analysis.runner.plan import make_plan
    >>> plan = make_plan(parse_experiment({"name": "x", "matrix": {"workloads": ["c"], "threads": [4]}}))
    >>> build_client_log_path(plan[0], part=0).as_posix()
    'x-w0-t4-c/YCSB/raw/run_C_4_10000_10000_1_0_x-w0-t4-c_1_0.log'
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from datetime import datetime
from mmap import ACCESS_READ, mmap
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

import polars as pl
import yaml

from citus_analysis.core.output_files import open_output
from citus_analysis.errors import EnvironmentChangedError, InputError, RunnerError
from citus_analysis.formats import Content, Hints, detect_format
from citus_analysis.formats.config import format_server_setting
from citus_analysis.redaction import redact
from citus_analysis.runner.experiment import Experiment
from citus_analysis.runner.plan import Configuration, PlannedRun
from citus_analysis.runner.shard_placement import PLACEMENT_COLUMNS
from citus_analysis.runner.system import Description, ServerNode, ShardPlacement
from citus_analysis.runs.status import find_worst_status
from citus_analysis.schema import TABLES
from citus_analysis.stats.merged_clients import derive_runs
from citus_analysis.study_tree import CONFIG_NAMES, ClientName
from citus_analysis.texts.words import pluralize


def join_tree_path(tree: Path, place: PurePath | str) -> Path:
    """The path of a place in the tree.

    Raises:
        RunnerError: the place is outside the tree.

    Example:
        >>> join_tree_path(Path("/runs"), "../etc/passwd")
        Traceback (most recent call last):
        citus_analysis.errors.RunnerError: /runs: '../etc/passwd' is outside the folder (remove it from the file \
that names it)
    """
    path = tree / place
    if ".." in PurePath(place).parts or not path.is_relative_to(tree):
        hint = "remove it from the file that names it"
        raise RunnerError(f"'{place}' is outside the folder", path=tree, hint=hint)
    return path


def build_client_log_path(run: PlannedRun, *, part: int, monitor: bool = False) -> PurePosixPath:
    """Output of one load generator."""
    configuration = run.configuration
    names = ("phase", "workload", "threads", "records", "workers", "resource", "drivers")
    facts = {name: getattr(configuration, name) for name in names} | {"iteration": run.iteration, "part": part}
    operations = configuration.operations if configuration.phase == "run" else None
    return ClientName(role="monitor" if monitor else "main", operations=operations, **facts).path


# The last status of a load generator, read from the end of an output that is still being written.

_TAIL_BYTES: Final = 8192


def find_newest_match(pattern: re.Pattern[bytes], output: Path, group: int | str = 1) -> float | None:
    r"""A group of the last match in the output's last bytes, as a number; None if there is no match.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "out"
        >>> _ = path.write_bytes(b"progress: 1.0 s, 10.5 tps\nprogress: 2.0 s, 11.0 tps\n")
        >>> find_newest_match(re.compile(rb"([0-9.]+) tps"), path)
        11.0
    """
    try:
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - _TAIL_BYTES))
            newest = deque(pattern.finditer(file.read()), maxlen=1)
    except OSError:
        return None
    return float(newest[0][group]) if newest else None


# `outcomes.csv`: the outcomes of the iterations of a resource, for `ingest`.
#
# A run can fail in ways that its clients' output does not show (a node went down, the table lacks rows). From this
# file, the table `runs` gets the runner's verdict and the time in which the main clients ran.

FILE_NAME: Final = "outcomes.csv"


@dataclass(frozen=True)
class IterationOutcome:
    """The outcome of one iteration.

    Attributes:
        outcome: verified, degraded or failed.
        reason: reason why it is not verified; empty if it is.
        measured_from: time at which all main clients had been started, by the runner's clock, UTC.
        measured_until: time at which the first of them had ended.
    """

    iteration: int
    outcome: str
    reason: str = ""
    measured_from: datetime | None = None
    measured_until: datetime | None = None


def write_outcomes(folder: Path, outcomes: Sequence[IterationOutcome]) -> None:
    """Write the whole file; it appears only when it is complete."""
    names = [field.name for field in fields(IterationOutcome)]
    write_csv(
        folder / FILE_NAME, names, [[_format_outcome_cell(value) for value in astuple(outcome)] for outcome in outcomes]
    )


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a table whole or not at all."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    with open_output(path) as out:
        out.write(text.getvalue().encode())


def _format_outcome_cell(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return "" if value is None else " ".join(str(value).split())


# Write `config.yml` and the catalogue extracts of a run's resource, and compare environments on resume.

_NODE_COLUMNS = ("nodeid", "groupid", "nodename", "nodeport", "noderole")


def write_description(
    tree: Path,
    experiment: Experiment,
    configuration: Configuration,
    description: Description,
    nodes: list[ServerNode],
    measured: Mapping[int, Mapping[str, object]] | None = None,
) -> None:
    """Write `RESOURCE/config.yml` and, for Citus, `pg_dist_node.csv` and `pg_dist_shard.csv`, each whole or not at all.

    `measured` contains the observations of each iteration: nodes that its clients reached, missing recordings.
    """
    folder = tree / configuration.resource
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "resource": configuration.resource,
        "facts": collect_identity_facts(configuration),
        "experiment": experiment.name,
        "protocol": configuration.protocol,
        "entry": configuration.entry,
        "monitored": configuration.monitored,
        "order": experiment.order,
        "seed": experiment.seed,
        **description.facts,
        "nodes": {node.nodeid: _describe_node(node) for node in nodes if node.nodeid is not None},
        "shard_count": _count_shards(description.shards),
        "settings": {name: format_server_setting(value) for name, value in configuration.settings}
        | dict(description.settings),
        "settings_by_node": {node: dict(read) for node, read in description.settings_by_node.items()},
        **{kind: {of: dict(values) for of, values in by.items()} for kind, by in description.recorded.items()},
        "growth": asdict(description.growth) if description.growth else None,
        "task_level": description.task_level,
        "varied": [name for name, values in experiment.matrix.settings.items() if len(values) > 1],
        "skipped": list(description.skipped),
        "measured": {iteration: dict(seen) for iteration, seen in (measured or {}).items()},
    }
    with open_output(folder / CONFIG_NAMES[0]) as out:
        out.write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode())
    if any(node.nodeid is not None for node in nodes):
        rows = [(node.nodeid, node.groupid, node.host, node.port, "primary") for node in nodes]
        write_csv(folder / "pg_dist_node.csv", _NODE_COLUMNS, rows)
    if description.shards:
        write_csv(folder / "pg_dist_shard.csv", PLACEMENT_COLUMNS, [astuple(one) for one in description.shards])


def _count_shards(placements: Sequence[ShardPlacement]) -> int | None:
    """Largest number of shards of a table (reference tables have one shard); None if no table is distributed."""
    shards = {(placement.relation, placement.shard_id) for placement in placements}
    return max(Counter(relation for relation, _ in shards).values(), default=None)


def collect_identity_facts(configuration: Configuration) -> dict[str, str | int]:
    """Identity of a configuration's files, as defined in `docs/datasets.md`, so that no file name has to be parsed."""
    names = ("set_up", "phase", "workload", "threads", "records", "workers", "drivers")
    # A load has no number of operations of its own: it inserts the records.
    own = ("operations",) if configuration.phase == "run" and configuration.operations else ()
    return {name: getattr(configuration, name) for name in (*names, *own)}


def flatten_environment(description: Description) -> dict[str, str]:
    """Facts that must not change between the runs of an experiment, as a flat mapping."""
    facts = {name: str(value) for name, value in description.facts.items()}
    # Nodes are not included, because the ports of embedded servers change whenever they are made.
    return {**facts, **{f"settings.{name}": value for name, value in description.settings.items()}}


def check_environment(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse to continue in another environment.

    Raises:
        EnvironmentChangedError: a fact or setting differs; the message names it.

    Example:
        >>> check_environment({"hardware": "2 cores"}, {"hardware": "4 cores"})
        Traceback (most recent call last):
        citus_analysis.errors.EnvironmentChangedError: the environment changed since the experiment began: hardware \
was '2 cores', is '4 cores' (restore it, or start again with another --out)
    """
    changed = [
        f"{name} was {before.get(name, 'absent')!r}, is {now.get(name, 'absent')!r}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    if changed:
        problem = f"the environment changed since the experiment began: {'; '.join(changed)}"
        raise EnvironmentChangedError(problem, hint="restore it, or start again with another --out")


def _describe_node(node: ServerNode) -> dict[str, object]:
    known = {"node": f"{node.host}:{node.port}", "groupid": node.groupid, "pglog_number": node.name}
    return {name: value for name, value in known.items() if value is not None}


# Collect files that a load generator leaves in addition to its output: find them by pattern, check their format.
#
# Files with a stated format are stored in `RESOURCE/left/ITERATION/PART/`, where an `identity.yml` names their run for
# `ingest`. Other files are stored in `RESOURCE/.left/`, because hidden folders are not ingested.

_IDENTITY: Final = 'files:\n  - pattern: "{iteration}/{part}/**"\n    meta: {role: main}\n'


def collect_left(
    run: PlannedRun, part: int, folder: Path, patterns: Mapping[str, str | None], files: dict[PurePosixPath, Path]
) -> list[str]:
    """Add the files that a process left to the run's files; return a sentence for each problem.

    Args:
        run: the measured run.
        part: number of the load generator.
        folder: its working folder.
        patterns: pattern -> format; None: `ingest` does not read these files.
        files: place in the tree -> present path of a file.
    """
    problems: list[str] = []
    for pattern, name in patterns.items():
        found = sorted(path for path in folder.glob(pattern) if path.is_file() and not path.is_symlink())
        if not found:
            problems.append(f"load generator {part} left no file {pattern}")
        for path in found:
            if name and (problem := _format_problem(path, name)):
                problems.append(f"load generator {part} left {path.name}, {problem}")
                continue
            below = PurePosixPath(run.configuration.resource, "left" if name else ".left")
            files[below / str(run.iteration) / str(part) / path.relative_to(folder).as_posix()] = path
            if name:
                identity = folder.with_name(f"{folder.name}.yml")
                identity.write_text(_IDENTITY, encoding="ascii")
                files[below / "identity.yml"] = identity
    return problems


def _format_problem(path: Path, name: str) -> str | None:
    try:
        found = detect_format(Content(path))
    except InputError as error:
        return f"which cannot be read: {error.problem}"
    if found is None or found.name != name:
        return f"which is {'of no known format' if found is None else found.name}, not {name}"
    return None


# Results of the load generators of a run, read with the formats and judged by the rule that `ingest` uses.

#: Error messages of pgbench, libpq, YCSB and the Java virtual machine.
_COMPLAINT: Final = re.compile(
    rb"^.*(?:\b(?:error|fatal|panic)\b:|Exception\b|Error:|^Error ).*$", re.MULTILINE | re.IGNORECASE
)
_WORDS_WITHIN_BYTES: Final = 2**18
_DURATION: Final = b"duration: "
_WORDS_LENGTH: Final = 300
_SHARE_TOLERANCE: Final = 1.5

_RESULT_IDENTITY: Final = (
    *("run_id", "resource", "system", "set_up", "phase", "workload", "threads", "records", "operations"),
    *("iteration", "workers", "drivers"),
)


@dataclass(frozen=True)
class RunResult:
    """The clients of one run, merged.

    Attributes:
        status: ok, degraded or failed.
        reason: reason why it is not ok; None if it is.
        throughput_ops_s: throughput of the main clients; 0 if they reported none.
        operations_done: operations of the main clients.
        connected_threads: main clients' threads that connected; None if the clients do not report it.
        monitor_operations: operations of the monitor; None if it left no output.
    """

    status: str
    reason: str | None
    throughput_ops_s: float
    operations_done: int
    connected_threads: int | None
    monitor_operations: int | None

    @property
    def monitor_share(self) -> float | None:
        """The monitor's operations per operation of the main clients."""
        if self.monitor_operations is None or not self.operations_done:
            return None
        return self.monitor_operations / self.operations_done


def share_remark(result: RunResult, asked: float, pace_ops_s: float | None) -> str | None:
    """A sentence on the monitor's share if it misses the share that was requested; None otherwise.

    Args:
        result: result of a run; without a monitor there is no remark.
        asked: share of the operations that the experiment requests.
        pace_ops_s: throughput of the main clients that the monitor was paced for; None if it was not paced.

    Example:
        >>> share_remark(RunResult("ok", None, 531.0, 1500, 4, 63), 0.02, 2100.0).split("; ")[1][:22]
        'monitor.share is 2.00%'
    """
    reached = result.monitor_share
    if reached is None or asked / _SHARE_TOLERANCE <= reached <= asked * _SHARE_TOLERANCE:
        return None
    done = f"{pluralize(result.monitor_operations or 0, 'operation')}, {reached:.2%} of the main clients'"
    remark = f"the monitor did {done}; monitor.share is {asked:.2%}"
    if pace_ops_s is None:
        return remark
    # A run of a few seconds is mostly client start-up, which the end of a warm-up does not include.
    return (
        f"{remark}, and it was paced for {pace_ops_s:,.0f} operations/s, "
        f"but the main clients reached {result.throughput_ops_s:,.0f}"
    )


def read_client(output: Path, table: str = "clients") -> pl.DataFrame:
    """The rows of a table from a client's output; none if no format recognises the output."""
    empty = TABLES[table].parsed().empty()
    try:
        content = Content(output)
        found = detect_format(content)
        if found is None:
            return empty
        tables = [piece.frame(table) for piece in found.parse(content, Hints(output.name)) if table in piece.tables]
    except InputError:
        return empty
    return pl.concat([empty, *tables], how="diagonal_relaxed")


def read_rates(output: Path) -> list[float]:
    """Throughputs of the status intervals of an output in order, operations per second."""
    series = read_client(output, "client_series").filter(pl.col("section").is_null())
    return series["throughput_ops_s"].drop_nulls().to_list()


def judge_run(
    run: PlannedRun, outputs: Sequence[Path], monitors: Sequence[Path] = (), logs: Sequence[Path] = ()
) -> RunResult:
    """Merge and judge the outputs of the clients of a run.

    Args:
        run: the planned run.
        outputs: outputs of the main clients, in order of their parts.
        monitors: outputs of the sampled client's processes; none if there was none.
        logs: server logs of the run; empty if they were not collected.
    """
    clients = [_build_client_row(run, output, "main", part) for part, output in enumerate(outputs)]
    clients += [_build_client_row(run, output, "monitor", part) for part, output in enumerate(monitors)]
    facts = _build_run_identity(run) | collect_identity_facts(run.configuration)
    known = TABLES["runs"].conform(pl.DataFrame([facts])).select(_RESULT_IDENTITY)
    judged = derive_runs(pl.concat([TABLES["clients"].empty(), *clients]), known).row(0, named=True)
    lacking = _sample_problems(monitors, judged["monitor_operations"], logs)
    status = find_worst_status(judged["status"], *("degraded" for _ in lacking))
    reason = "; ".join(filter(None, [judged["status_reason"], *lacking])) or None
    rate_ops_s, done = judged["throughput_ops_s"] or 0.0, judged["operations_done"] or 0
    return RunResult(status, reason, rate_ops_s, done, judged["connected_threads"], judged["monitor_operations"])


def _sample_problems(monitors: Sequence[Path], operations: int | None, logs: Sequence[Path]) -> list[str]:
    """The reason why a sampled run has no sampled statements, if its clients' counts do not show it."""
    if not monitors:
        return []
    if operations is None:
        return [f"the monitor client wrote no readable output to {monitors[0].name}: no sampled statements"]
    if operations and logs and not any(_holds_durations(log) for log in logs):
        return ["the server logs hold no duration of a statement: no sampled statements"]
    return []


def _holds_durations(log: Path) -> bool:
    if not log.stat().st_size:
        return False
    with log.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return content.find(_DURATION) >= 0


def _build_run_identity(run: PlannedRun) -> dict[str, str | int]:
    return {"run_id": run.run_id, "resource": run.configuration.resource, "iteration": run.iteration}


def _build_client_row(run: PlannedRun, output: Path, role: str, part: int) -> pl.DataFrame:
    """The row of `clients` with the identity that `ingest` assigns."""
    identity = _build_run_identity(run) | {"source_id": output.name, "role": role, "part": part}
    frame = read_client(output).with_columns(pl.lit(value).alias(name) for name, value in identity.items())
    return TABLES["clients"].conform(frame)


def find_first_error(output: Path) -> str | None:
    r"""The first error message of a load generator, without secrets; None if there is none.

    Example:
        >>> import tempfile
        >>> output = Path(tempfile.mkdtemp()) / "client-0.log"
        >>> _ = output.write_text("starting\npgbench: error: client 3 aborted: FATAL:  too many clients\n")
        >>> find_first_error(output)
        'pgbench: error: client 3 aborted: FATAL: too many clients'
    """
    beginning, end = _ends(output)
    found = _COMPLAINT.search(beginning) or _COMPLAINT.search(end)
    return _format_one_line(found[0].decode(errors="replace")) if found else None


def find_last_line(output: Path) -> str | None:
    """The last non-blank line of an output, without secrets; None if there is none."""
    lines = _ends(output)[1].decode(errors="replace").splitlines()
    return next((_format_one_line(line) for line in reversed(lines) if line.strip()), None)


def _ends(output: Path) -> tuple[bytes, bytes]:
    """The beginning and the end of an output; empty if it cannot be read."""
    try:
        with output.open("rb") as file:
            beginning = file.read(_WORDS_WITHIN_BYTES)
            file.seek(max(0, output.stat().st_size - _WORDS_WITHIN_BYTES))
            return beginning, file.read()
    except OSError:
        return b"", b""


def _format_one_line(words: str) -> str:
    return redact(" ".join(words.split()))[:_WORDS_LENGTH]
