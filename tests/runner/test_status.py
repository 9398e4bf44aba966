"""One rule of status: the runner and `ingest` agree on what the same bytes are."""

from collections import defaultdict
from pathlib import Path

import pytest

from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.dataset.identity import strip_compression_suffix
from citus_analysis.runner import make_plan
from citus_analysis.runner.experiment import parse_experiment
from citus_analysis.runner.plan import Configuration, PlannedRun
from citus_analysis.runner.records import (
    IterationOutcome,
    RunResult,
    build_client_log_path,
    judge_run,
    share_remark,
    write_description,
    write_outcomes,
)
from citus_analysis.runner.system import Description
from citus_analysis.runs.status import OUTCOME_OF
from citus_analysis.study_tree import ClientName
from tests.recordings import RECORDED

SUMMARY = """\
YCSB Client 0.17.0
Command line: -t -db site.ycsb.db.JdbcDBClient -s -threads {threads} -p operationcount={planned}{limit}
2026-03-01 12:00:00:120 0 sec: 0 operations; est completion in 0 second
2026-03-01 12:00:04:480 4 sec: {done} operations; 100.0 current ops/sec; [CLEANUP: Count={connected}, Max=3]
[OVERALL], RunTime(ms), 4360
[OVERALL], Throughput(ops/sec), 100.0
[READ], Operations, {done}
[READ], Return=OK, {succeeded}
{failures}[CLEANUP], Operations, {connected}
"""
LIMIT = " -p maxexecutiontime=4"


def output(done: int = 400, failed: int = 0, connected: int = 4, planned: int = 400, limit: str = "") -> str:
    failures = f"[READ], Return=ERROR, {failed}\n" if failed else ""
    return SUMMARY.format(
        threads=4, planned=planned, limit=limit, done=done, succeeded=done - failed, connected=connected,
        failures=failures,
    )  # fmt: skip


CASES = [
    (output(), None, "ok", None),
    (output(failed=1), None, "degraded", "1 of 400 operations failed"),
    (output(connected=3, limit=LIMIT), None, "failed", "1 of 4 client threads never connected, or ended early"),
    (
        output(done=300, connected=3),
        None,
        "failed",
        "1 of 4 client threads never connected, or ended early; 300 of 400 planned operations attempted",
    ),
    (output().partition("[OVERALL]")[0], None, "failed", "no final summary: the client ended early"),
    ("", None, "failed", "no log of 1 of 1 main clients"),
    ("bash: java: command not found\n", None, "failed", "no log of 1 of 1 main clients"),
    (output(), output(done=69, failed=69), "degraded", "69 of 69 operations of the monitor failed"),
    (output(), output(done=0), "degraded", "the monitor client did nothing: no sampled statements"),
    (output(), output(done=20).partition("[OVERALL]")[0], "ok", None),
]


@pytest.mark.parametrize(("main", "monitor", "status", "reason"), CASES)
def test_runner_and_ingest_agree(
    tmp_path: Path, main: str, monitor: str | None, status: str, reason: str | None
) -> None:
    matrix = {"workloads": ["c"], "threads": [4], "records": [100], "operations": [400]}
    experiment = parse_experiment({"name": "x", "matrix": matrix})
    run = make_plan(experiment)[0]
    write_description(tmp_path / "out", experiment, run.configuration, Description({"system": "citus"}), [])
    places = [
        build_client_log_path(run, part=0),
        *([build_client_log_path(run, part=0, monitor=True)] if monitor is not None else []),
    ]
    files = [tmp_path / "out" / place for place in places]
    for file, text in zip(files, (main, monitor), strict=False):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text or "")

    judged = judge_run(run, files[:1], files[1:] if monitor is not None else [])
    assert (judged.status, judged.reason) == (status, reason)
    write_outcomes(
        tmp_path / "out" / run.configuration.resource,
        [IterationOutcome(1, OUTCOME_OF[judged.status], judged.reason or "")],
    )
    ingest([tmp_path / "out"], tmp_path / "ds")
    derived = open_dataset(tmp_path / "ds").runs().row(0, named=True)
    assert (derived["status"], derived["status_reason"]) == (status, reason)
    assert derived["connected_threads"] == judged.connected_threads
    assert derived["monitor_operations"] == judged.monitor_operations


def test_a_sampled_run_without_a_sample_is_not_verified(tmp_path: Path) -> None:
    matrix = {"workloads": ["c"], "threads": [4], "records": [100], "operations": [400]}
    run = make_plan(parse_experiment({"name": "x", "matrix": matrix}))[0]
    names = ("client", "monitor", "silent", "full.log", "empty.log", "edge.log")
    main, monitor, silent, full, empty, edge = (tmp_path / name for name in names)
    main.write_text(output())
    monitor.write_text(output())
    silent.touch()
    empty.write_text("2026-03-01 12:00:00.000 UTC [1] LOG:  checkpoint starting: time\n")
    full.write_text(f"{empty.read_text()}2026-03-01 12:00:00.001 UTC [7] LOG:  duration: 0.4 ms\n")
    edge.write_bytes(b"x" * (2**20 - 4) + b"duration: 1 ms")  # across two pieces that are read
    assert judge_run(run, [main], [monitor], [empty, full]).status == "ok"
    assert judge_run(run, [main], [monitor], [edge]).status == "ok"
    assert judge_run(run, [main], [monitor], []).status == "ok"  # logs that are not collected tell nothing
    without = judge_run(run, [main], [monitor], [empty])
    assert without.reason == "the server logs hold no duration of a statement: no sampled statements"
    nothing = judge_run(run, [main], [silent], [full])
    assert (without.status, nothing.status) == ("degraded", "degraded")
    assert nothing.reason == "the monitor client wrote no readable output to silent: no sampled statements"


def recorded_outputs() -> dict[tuple[str, str, int], dict[ClientName, Path]]:
    """Outputs of the load generators of the shipped recordings, by resource, phase and iteration."""
    found: dict[tuple[str, str, int], dict[ClientName, Path]] = defaultdict(dict)
    for path in sorted(RECORDED.glob("*/YCSB/raw/*")):
        name = ClientName.parse(strip_compression_suffix(path.name), path.parents[2].name)
        assert name is not None, path
        found[name.resource, name.phase, name.iteration][name] = path
    return found


def planned(name: ClientName) -> PlannedRun:
    configuration = Configuration(
        resource=name.resource,
        set_up="",
        phase=name.phase,
        workload=name.workload,
        threads=name.threads,
        workers=name.workers,
        records=name.records,
        operations=name.records if name.operations is None else name.operations,
        drivers=name.drivers or 1,
        protocol=None,
        monitored=True,
        settings=(),
    )
    return PlannedRun(configuration, name.iteration)


def test_runner_and_ingest_agree_on_every_recorded_run(recorded_dataset: Dataset) -> None:
    runs = recorded_dataset.runs()
    derived = {
        (resource, phase, iteration): (status, reason)
        for resource, phase, iteration, status, reason in runs.select(
            "resource", "phase", "iteration", "status", "status_reason"
        ).iter_rows()
    }
    judged = {}
    for where, files in recorded_outputs().items():
        mains = {name: path for name, path in files.items() if name.role == "main"}
        monitor = next((path for name, path in files.items() if name.role == "monitor"), None)
        run = planned(next(iter(mains or files)))
        result = judge_run(run, list(mains.values()), [monitor] if monitor else [])
        judged[where] = (result.status, result.reason)
    assert len(judged) >= 90
    assert {status for status, _ in judged.values()} == {"ok", "degraded", "failed"}
    assert judged == {where: derived[where] for where in judged}


@pytest.mark.parametrize(
    ("operations", "pace_ops_s", "remark"),
    [
        (None, 2000.0, None),  # no monitor
        (30, 2000.0, None),  # 2 % of 1500
        (
            63,
            2087.4,
            "the monitor did 63 operations, 4.20% of the main clients'; monitor.share is 2.00%, and it was paced "
            "for 2,087 operations/s, but the main clients reached 531",
        ),
        (14, None, "the monitor did 14 operations, 0.93% of the main clients'; monitor.share is 2.00%"),
    ],
)
def test_a_share_that_was_not_asked_for_is_told(
    operations: int | None, pace_ops_s: float | None, remark: str | None
) -> None:
    assert share_remark(RunResult("ok", None, 531.4, 1500, 4, operations), 0.02, pace_ops_s) == remark
