"""Experiments on a real embedded server: to their end, interrupted in every state, and when things go wrong."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
import yaml

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import EnvironmentChangedError, UsageError
from citus_analysis.formats import Content, detect_format
from citus_analysis.report import render_reports
from citus_analysis.report.comparison import comparison_panels
from citus_analysis.report.scalability import scaling_panels, state_scalability
from citus_analysis.runner import run_experiment
from citus_analysis.runner.embedded import Embedded
from citus_analysis.runner.execute import RunnerSummary
from citus_analysis.runner.experiment import parse_experiment
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.measure import Measurement
from citus_analysis.runner.programs import find_programs
from citus_analysis.runner.records import read_client
from citus_analysis.runs.selection import select_runs

pytestmark = pytest.mark.server

QUICK: dict[str, Any] = {
    "name": "quick",
    "matrix": {"workloads": ["load", "c"], "threads": [2], "records": [300], "operations": [600]},
    "iterations": 1,
    "samplers": dict.fromkeys(("iostat", "vmstat", "host", "canary", "backends", "activity", "counters"), False),
}
#: A sampled client needs some time before its first operation; a run that ends before is degraded.
LONG_ENOUGH: dict[str, list[int]] = {"records": [6000], "operations": [12000]}


def run(out: Path, *, resume: bool = False, **changes: Any) -> RunnerSummary:
    summary = run_experiment(parse_experiment({**QUICK, **changes}), out, resume=resume)
    assert_ingest_agrees(out, summary)
    return summary


def assert_ingest_agrees(out: Path, summary: RunnerSummary) -> None:
    """The dataset says of every run what the runner said."""
    dataset = out.with_name(f"{out.name}-agreed")
    ingest([out], dataset)
    runs = open_dataset(dataset).runs().select("resource", "iteration", "status", "status_reason").iter_rows()
    derived = {f"{resource}#{iteration}": (status, reason) for resource, iteration, status, reason in runs}
    judged: dict[str, tuple[str, str | None]] = dict.fromkeys(summary.verified, ("ok", None))
    judged |= {run_id: ("degraded", reason) for run_id, reason in summary.degraded.items()}
    judged |= {run_id: ("failed", reason) for run_id, reason in summary.failed.items()}
    assert derived == judged


def tree(out: Path) -> list[str]:
    files = (file.relative_to(out).as_posix() for file in out.rglob("*") if file.is_file())
    return sorted(file for file in files if not file.startswith("."))


def is_of(process: psutil.Process, folder: Path) -> bool:
    """Whether a process was started by a test: servers work in its folder, all others know it from the environment."""
    try:
        return Path(process.cwd()).is_relative_to(folder) or process.environ().get("TEST_FOLDER") == str(folder)
    except psutil.Error:
        return False


@pytest.fixture
def no_process_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TEST_FOLDER", str(tmp_path))
    yield
    started = [process for process in psutil.process_iter() if is_of(process, tmp_path)]
    _gone, alive = psutil.wait_procs(started, timeout=10)
    assert not alive


def test_an_experiment_leaves_the_tree_that_ingest_reads(tmp_path: Path, no_process_left: None) -> None:
    matrix = {**QUICK["matrix"], **LONG_ENOUGH, "monitored": [True]}
    summary = run(tmp_path / "out", matrix=matrix, monitor={"share": 0.05})
    assert summary.failed == {}
    assert sorted(summary.verified) == ["quick-w0-t2-c#1", "quick-w0-t2-load#1"]
    assert tree(tmp_path / "out") == [
        "quick-w0-t2-c/YCSB/raw/monitor_run_C_2_6000_12000_1_0_quick-w0-t2-c_1_0.log",
        "quick-w0-t2-c/YCSB/raw/run_C_2_6000_12000_1_0_quick-w0-t2-c_1_0.log",
        "quick-w0-t2-c/config.yml",
        "quick-w0-t2-c/outcomes.csv",
        "quick-w0-t2-c/pglogs/PGLOG-0-1.log",
        "quick-w0-t2-load/YCSB/raw/load_A_2_6000_1_0_quick-w0-t2-load_1_0.log",
        "quick-w0-t2-load/YCSB/raw/monitor_load_A_2_6000_1_0_quick-w0-t2-load_1_0.log",
        "quick-w0-t2-load/config.yml",
        "quick-w0-t2-load/outcomes.csv",
        "quick-w0-t2-load/pglogs/PGLOG-0-1.log",
    ]
    log = (tmp_path / "out/quick-w0-t2-c/pglogs/PGLOG-0-1.log").read_text()
    assert "execute P_0: SELECT * FROM usertable WHERE ycsb_key = " in log
    config = yaml.safe_load((tmp_path / "out/quick-w0-t2-c/config.yml").read_text())
    assert config["settings"]["fsync"] == "on"
    assert config["settings"]["log_line_prefix"] == "%m [%p] [%v] : [%l-1] %q[app=%a] "


@pytest.mark.usefixtures("kept_kernels")
def test_what_was_launched_becomes_tables_and_reports(tmp_path: Path) -> None:
    matrix = {**QUICK["matrix"], **LONG_ENOUGH, "threads": [1, 2], "monitored": [True]}
    summary = run(tmp_path / "out", matrix=matrix, iterations=2, monitor={"share": 0.1})
    assert len(summary.verified) == 8
    assert ingest([tmp_path / "out"], tmp_path / "out-agreed").exit_code == 0
    dataset = open_dataset(tmp_path / "out-agreed")
    assert dataset.runs()["status"].unique().to_list() == ["ok"]
    assert dataset.runs()["set_up"].unique().to_list() == ["quick"]
    selection = select_runs(dataset)
    assert selection.runs["family"].unique().to_list() == ["quick"]  # loads, reads, all thread counts
    assert comparison_panels(selection).means.height == 4
    sentences = [*map(str, state_scalability(selection, [scaling_panels(selection, axis="threads")]))]
    for operation in ("INSERT", "SELECT"):
        said = [sentence for sentence in sentences if sentence.startswith(f"{operation}: ")]
        assert [sentence for sentence in said if "two threads do " in sentence or "stays the same" in sentence]
    assert not any("0 workers" in sentence for sentence in sentences)
    statements = dataset.statements().filter(pl.col("statement_kind").cast(pl.String).is_in(["select", "insert"]))
    assert statements["executed"].unique().to_list() == ["local"]  # a single server has no other node
    rendered = render_reports("all", dataset.path, tmp_path / "reports", html=False)
    assert {result.name for result in rendered.results} >= {"scalability", "comparison", "profile"}
    # No samplers ran, and the published study is another one.
    assert set(rendered.left_out) == {"resources", "published", "study"}


def test_paths_may_be_relative_to_where_the_person_stands(tmp_path: Path, experiment_file: Path) -> None:
    def call(*options: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "citus_analysis", "run", experiment_file.name, "--out", "runs", *options]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    first = call()
    assert first.returncode == 0
    assert [line.partition(" verified")[0] for line in first.stderr.splitlines()] == [
        "[1/2] quick-w0-t2-c#1",
        "[2/2] quick-w0-t2-c#2",
    ]
    assert "operations/s; left: about " in first.stderr.splitlines()[0]
    again = call("--resume")
    assert (again.returncode, again.stderr) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quick.yml", "runs"]
    assert [file for file in tree(tmp_path / "runs") if file.endswith(".yml")] == ["quick-w0-t2-c/config.yml"]


def test_programs_and_output_are_found_from_a_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "programs").symlink_to(find_programs("wheel").folder)
    matrix = {**QUICK["matrix"], "workloads": ["c"]}
    assert run(Path("out"), matrix=matrix, target={"kind": "embedded", "postgres": "programs"}).failed == {}


def test_two_load_generators_insert_every_key_once(tmp_path: Path) -> None:
    # 301 records for 2 generators with 2 and 3 threads: remainders everywhere. The key is the primary key, so that
    # a record inserted twice fails; the runner counts the table and compares.
    matrix = {"workloads": ["load"], "threads": [5], "records": [301], "drivers": [2]}
    summary = run(tmp_path / "out", matrix=matrix)
    assert summary.verified == ("quick-w0-t5-load#1",)
    assert len(list((tmp_path / "out").rglob("load_A_5_301_1_0_*_2_?.log"))) == 2


def call_runner(out: Path, file: Path, *options: str) -> subprocess.Popen[bytes]:
    call = [sys.executable, "-m", "citus_analysis", "run", str(file), "--out", str(out), *options]
    return subprocess.Popen(call, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def experiment_file(tmp_path: Path) -> Path:
    matrix = {**QUICK["matrix"], "workloads": ["c"]}
    file = tmp_path / "quick.yml"
    file.write_text(yaml.safe_dump({**QUICK, "matrix": matrix, "iterations": 2, "limits": {"duration_s": 1}}))
    return file


@pytest.mark.sharded(2)
@pytest.mark.parametrize(
    "state",
    ["prepared", "measured", "publishing", "verified"]
    + [pytest.param(state, marks=pytest.mark.slow) for state in ("loaded", "collected")],
)
def test_kill_in_any_state_then_resume(
    tmp_path: Path, experiment_file: Path, state: str, no_process_left: None
) -> None:
    out = tmp_path / "out"
    runner = call_runner(out, experiment_file)
    journal = Journal(out / ".runner" / "journal.jsonl")
    deadline = time.monotonic() + 60
    while state not in [entry.state for entry in journal.entries()]:
        assert runner.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()

    done_before = {entry.subject for entry in journal.entries() if entry.state == "verified"}
    assert call_runner(out, experiment_file, "--resume").wait(timeout=120) == 0
    entries = list(journal.entries())
    verified = [entry.subject for entry in entries if entry.state == "verified"]
    assert sorted(verified) == ["quick-w0-t2-c#1", "quick-w0-t2-c#2"]
    for run_id in done_before:
        assert sum(entry.subject == run_id and entry.state == "prepared" for entry in entries) == 1
    logs = [file for file in tree(out) if file.endswith(".log")]
    assert len(logs) == 4
    assert not (out / ".runner" / "servers").exists()


def test_interrupt_ends_what_was_started(tmp_path: Path, experiment_file: Path, no_process_left: None) -> None:
    out = tmp_path / "out"
    runner = call_runner(out, experiment_file)
    journal = Journal(out / ".runner" / "journal.jsonl")
    while "monitored" not in [entry.state for entry in journal.entries()]:
        assert runner.poll() is None
        time.sleep(0.01)
    os.kill(runner.pid, signal.SIGINT)
    assert runner.wait(timeout=60) == 130


class _Sabotage:
    """Does something to the embedded server a moment after the clients were started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, action: Any) -> None:
        start_clients = Measurement._start_clients

        def start(measurement: Measurement, *arguments: Any) -> Any:
            clients = start_clients(measurement, *arguments)
            time.sleep(0.5)
            assert isinstance(measurement.target, Embedded)
            action(measurement.target)
            return clients

        monkeypatch.setattr(Measurement, "_start_clients", start)


def test_a_server_killed_in_mid_run_fails_its_run_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_process_left: None
) -> None:
    killed: list[int] = []

    def kill_once(target: Embedded) -> None:
        if not killed:
            pid = int((target._servers[0].data / "postmaster.pid").read_text().splitlines()[0])
            killed.append(pid)
            for process in [*psutil.Process(pid).children(recursive=True), psutil.Process(pid)]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    _Sabotage(monkeypatch, kill_once)
    matrix = {**QUICK["matrix"], "workloads": ["c"]}
    summary = run(tmp_path / "out", matrix=matrix, iterations=2, limits={"duration_s": 2})
    assert list(summary.failed) == ["quick-w0-t2-c#1"]
    assert "load generator 0 ended with" in summary.failed["quick-w0-t2-c#1"]
    assert summary.verified == ("quick-w0-t2-c#2",)
    assert summary.exit_code == 1
    outcomes = (tmp_path / "out/quick-w0-t2-c/outcomes.csv").read_text()
    assert re.search('^1,failed,"?load generator 0 ended with', outcomes, re.MULTILINE)
    assert "2,verified," in outcomes
    assert "run_C_2_300_600_1_0_quick-w0-t2-c_1_0.log" in "".join(tree(tmp_path / "out"))  # kept


def test_too_many_clients_fail_the_run_with_the_servers_words_kept(tmp_path: Path) -> None:
    matrix = {"workloads": ["c"], "threads": [30], "records": [100], "operations": [300]}
    target = {"kind": "embedded", "settings": {"max_connections": 12}}
    summary = run(tmp_path / "out", matrix=matrix, target=target)
    assert list(summary.failed) == ["quick-w0-t30-c#1"]
    output = next((tmp_path / "out").rglob("run_C_30_*.log"))
    assert "too many clients already" in output.read_text()


def test_the_stop_rule_ends_when_the_interval_is_narrow_enough(tmp_path: Path) -> None:
    matrix = {**QUICK["matrix"], "workloads": ["c"]}
    stop = {"rule": "interval", "relative_half_width": 0.99, "level": 0.5, "max_iterations": 6}
    summary = run(tmp_path / "out", matrix=matrix, iterations=2, stop=stop, limits={"duration_s": 1})
    assert len(summary.verified) == 2
    assert len(summary.skipped) == 4


def test_settings_of_the_matrix_reach_the_server(tmp_path: Path) -> None:
    matrix = {**QUICK["matrix"], "workloads": ["c"], "settings": {"synchronous_commit": ["on", "off"]}}
    summary = run(tmp_path / "out", matrix=matrix)
    assert len(summary.verified) == 2
    for value in ("on", "off"):
        config = yaml.safe_load((tmp_path / f"out/quick-w0-t2-c-synchronouscommit{value}/config.yml").read_text())
        assert config["settings"]["synchronous_commit"] == value


def test_a_folder_with_an_experiment_needs_resume_and_the_same_experiment(tmp_path: Path) -> None:
    out = tmp_path / "out"
    matrix = {**QUICK["matrix"], "workloads": ["c"]}
    run(out, matrix=matrix)
    with pytest.raises(UsageError, match="--resume"):
        run(out, matrix=matrix)
    with pytest.raises(UsageError, match="another experiment"):
        run(out, resume=True)
    assert run(out, matrix=matrix, resume=True).verified == ("quick-w0-t2-c#1",)


def test_a_changed_environment_stops_the_resume_with_the_difference(tmp_path: Path) -> None:
    out = tmp_path / "out"
    matrix = {**QUICK["matrix"], "workloads": ["c"]}
    run(out, matrix=matrix)
    journal = Journal(out / ".runner" / "journal.jsonl")
    lines = [json.loads(line) for line in journal.path.read_text().splitlines()]
    for line in lines:
        if line["subject"] == "environment":
            line["detail"]["facts"]["hardware"] = "sparc64, 1 core"
    kept = [line for line in lines if line["state"] != "verified"]
    journal.path.write_text("".join(json.dumps(line) + "\n" for line in kept))
    with pytest.raises(EnvironmentChangedError, match="hardware was 'sparc64, 1 core', is "):
        run(out, matrix=matrix, resume=True)


def test_workers_without_the_extension_are_refused_with_a_way_out(tmp_path: Path) -> None:
    matrix = {**QUICK["matrix"], "workers": [2]}
    with pytest.raises(Exception, match=r"need the citus extension.*workers: \[0\]"):
        run(tmp_path / "out", matrix=matrix)


def test_all_core_workloads_run_as_pgbench_scripts(tmp_path: Path) -> None:
    matrix = {"workloads": ["a", "b", "c", "d", "e", "f"], "threads": [2], "records": [200], "operations": [100]}
    summary = run(tmp_path / "out", matrix=matrix)
    assert summary.failed == {}
    assert len(summary.verified) == 6
    for output in (tmp_path / "out").rglob("run_*.log"):
        found = detect_format(Content(output))
        assert found is not None
        assert found.name == "pgbench"
        assert read_client(output)["operations_done"].to_list() == [100]
