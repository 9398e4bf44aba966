"""Results of the load generators of a run, read with the formats and judged by the rule that `ingest` uses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.errors import InputError
from citus_analysis.formats import Content, Hints, detect_format
from citus_analysis.redaction import redact
from citus_analysis.runner.planning.plan import PlannedRun
from citus_analysis.runner.records.description import facts_of
from citus_analysis.runs.run_status import worst_status
from citus_analysis.schema import TABLES
from citus_analysis.stats.merged_clients import derive_runs
from citus_analysis.texts.counted_words import counted

#: Error messages of pgbench, libpq, YCSB and the Java virtual machine.
_COMPLAINT: Final = re.compile(
    rb"^.*(?:\b(?:error|fatal|panic)\b:|Exception\b|Error:|^Error ).*$", re.MULTILINE | re.IGNORECASE
)
_WORDS_WITHIN_BYTES: Final = 2**18
_DURATION: Final = b"duration: "
_WORDS_LENGTH: Final = 300
_SHARE_TOLERANCE: Final = 1.5

_IDENTITY: Final = (
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
    done = f"{counted(result.monitor_operations or 0, 'operation')}, {reached:.2%} of the main clients'"
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
    run: PlannedRun, outputs: Sequence[Path], monitor: Path | None = None, logs: Sequence[Path] = ()
) -> RunResult:
    """Merge and judge the outputs of the clients of a run.

    Args:
        run: the planned run.
        outputs: outputs of the main clients, in order of their parts.
        monitor: output of the monitor; None if there was none.
        logs: server logs of the run; empty if they were not collected.
    """
    clients = [_client(run, output, "main", part) for part, output in enumerate(outputs)]
    if monitor:
        clients.append(_client(run, monitor, "monitor", 0))
    facts = _identity(run) | facts_of(run.configuration)
    known = TABLES["runs"].conform(pl.DataFrame([facts])).select(_IDENTITY)
    judged = derive_runs(pl.concat([TABLES["clients"].empty(), *clients]), known).row(0, named=True)
    lacking = _sample_problems(monitor, judged["monitor_operations"], logs)
    status = worst_status(judged["status"], *("degraded" for _ in lacking))
    reason = "; ".join(filter(None, [judged["status_reason"], *lacking])) or None
    rate_ops_s, done = judged["throughput_ops_s"] or 0.0, judged["operations_done"] or 0
    return RunResult(status, reason, rate_ops_s, done, judged["connected_threads"], judged["monitor_operations"])


def _sample_problems(monitor: Path | None, operations: int | None, logs: Sequence[Path]) -> list[str]:
    """The reason why a sampled run has no sampled statements, if its clients' counts do not show it."""
    if monitor is None:
        return []
    if operations is None:
        return [f"the monitor client wrote no readable output to {monitor.name}: no sampled statements"]
    if operations and logs and not any(_holds_durations(log) for log in logs):
        return ["the server logs hold no duration of a statement: no sampled statements"]
    return []


def _holds_durations(log: Path) -> bool:
    if not log.stat().st_size:
        return False
    with log.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
        return content.find(_DURATION) >= 0


def _identity(run: PlannedRun) -> dict[str, str | int]:
    return {"run_id": run.run_id, "resource": run.configuration.resource, "iteration": run.iteration}


def _client(run: PlannedRun, output: Path, role: str, part: int) -> pl.DataFrame:
    """The row of `clients` with the identity that `ingest` assigns."""
    identity = _identity(run) | {"source_id": output.name, "role": role, "part": part}
    frame = read_client(output).with_columns(pl.lit(value).alias(name) for name, value in identity.items())
    return TABLES["clients"].conform(frame)


def client_words(output: Path) -> str | None:
    r"""The first error message of a load generator, without secrets; None if there is none.

    Example:
        >>> import tempfile
        >>> output = Path(tempfile.mkdtemp()) / "client-0.log"
        >>> _ = output.write_text("starting\npgbench: error: client 3 aborted: FATAL:  too many clients\n")
        >>> client_words(output)
        'pgbench: error: client 3 aborted: FATAL: too many clients'
    """
    beginning, end = _ends(output)
    found = _COMPLAINT.search(beginning) or _COMPLAINT.search(end)
    return _one_line(found[0].decode(errors="replace")) if found else None


def last_words(output: Path) -> str | None:
    """The last non-blank line of an output, without secrets; None if there is none."""
    lines = _ends(output)[1].decode(errors="replace").splitlines()
    return next((_one_line(line) for line in reversed(lines) if line.strip()), None)


def _ends(output: Path) -> tuple[bytes, bytes]:
    """The beginning and the end of an output; empty if it cannot be read."""
    try:
        with output.open("rb") as file:
            beginning = file.read(_WORDS_WITHIN_BYTES)
            file.seek(max(0, output.stat().st_size - _WORDS_WITHIN_BYTES))
            return beginning, file.read()
    except OSError:
        return b"", b""


def _one_line(words: str) -> str:
    return redact(" ".join(words.split()))[:_WORDS_LENGTH]
