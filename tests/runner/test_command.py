"""The command driver and pgbench's own scripts: their calls, and both launched on a real server."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import InputError, RunnerError
from citus_analysis.formats.command_output import Heading
from citus_analysis.runner import make_plan, run_experiment
from citus_analysis.runner.command_driver import CommandLine
from citus_analysis.runner.driver import Work
from citus_analysis.runner.execute import RunnerSummary
from citus_analysis.runner.experiment import CommandDriver, Experiment, PgbenchDriver, parse_experiment
from citus_analysis.runner.pgbench_driver import PgbenchProgram
from citus_analysis.runner.placeholders import Toolbox
from citus_analysis.runner.preflight import check_all
from citus_analysis.runner.system import ConnectionInfo, ServerNode
from citus_analysis.runner.workloads import KeyRange

NODES = [ServerNode("1", "worker1", 5432, "worker"), ServerNode("2", "worker2", 5433, "worker")]
CONNECTION = ConnectionInfo(NODES, "ycsb", "bench", "s3cret<&")
SUMMARY = {"throughput_ops_s": "tps ([0-9.]+)"}


def experiment(workload: dict[str, Any], **changes: Any) -> Experiment:
    driver = {"kind": "command", "tool": "tool", "workloads": {"own": workload}, **changes.pop("driver", {})}
    matrix = {"workloads": ["own"], "threads": [4], **changes.pop("matrix", {})}
    return parse_experiment({"name": "x", "driver": driver, "matrix": matrix, **changes})


def driver_of(one: Experiment) -> CommandLine:
    assert isinstance(one.driver, CommandDriver)
    return CommandLine(one.driver, Toolbox(is_citus=True, shard_count=8))


def work(one: Experiment, part: int = 0) -> Work:
    return Work(make_plan(one)[0], part, 4, 100, 50, KeyRange(0, 1), duration_s=one.limits.duration_s)


def test_arguments_stay_arguments_and_the_password_is_none_of_them(tmp_path: Path) -> None:
    words = [sys.executable, "--to={host}:{port}", "-t", "{threads}", "--json", '{"a": 1}', "; rm -rf /", "{scale}"]
    one = experiment({"run": words, "summary": SUMMARY, "variables": {"scale": 3}}, driver={"login_env": ["TOOL_PASS"]})
    command = driver_of(one).command(work(one, part=1), CONNECTION, tmp_path)
    assert list(command.arguments[1:]) == ["--to=worker2:5433", "-t", "4", "--json", '{"a": 1}', "; rm -rf /", "3"]
    assert "s3cret" not in str(command.arguments) + command.heading.decode()
    assert command.environment["PGPASSWORD"] == command.environment["TOOL_PASS"] == CONNECTION.password
    assert (command.environment["PGHOST"], command.environment["PGPORT"]) == ("worker2", "5433")
    assert Heading.read(command.heading).threads == 4


def test_a_template_with_the_password_is_for_the_runners_account_alone(tmp_path: Path) -> None:
    (tmp_path / "settings.xml").write_text("<p>{password}</p><h>{addresses}</h>")
    template = {"settings": str(tmp_path / "settings.xml")}
    one = experiment({"run": [sys.executable, "{settings}"], "templates": template})
    command = driver_of(one).command(work(one), CONNECTION, tmp_path)
    written = Path(str(command.arguments[1]))
    assert written.read_text() == "<p>s3cret&lt;&amp;</p><h>worker1:5432,worker2:5433</h>"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert written.name == "secret.properties"  # which the runner removes after a kill


def test_a_set_up_asks_for_the_shards_of_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=8MB")
    one = experiment({"run": [sys.executable], "set_up": [[sys.executable, "{host}", "{citus}"]]})
    coordinator = ConnectionInfo([ServerNode("0", "coordinator", 5432, "coordinator")], "ycsb", "bench")
    [step] = driver_of(one).set_up(make_plan(one)[0], coordinator, tmp_path).commands
    assert list(step.arguments[1:]) == ["coordinator", "1"]
    assert step.environment["PGOPTIONS"] == "-c work_mem=8MB -c citus.shard_count=8"


def test_tables_of_a_size_are_others_where_anything_differs(tmp_path: Path) -> None:
    def key(**changes: Any) -> str | None:
        matrix = changes.pop("matrix", {})
        step = [sys.executable, "{records}"]
        one = experiment(
            {"run": [sys.executable], "set_up": [step], "set_up_for": "each_size", **changes}, matrix=matrix
        )
        return driver_of(one).set_up(make_plan(one)[0], CONNECTION, tmp_path).key

    assert key() == key(run=[sys.executable, "--other"])  # the load changes nothing of the tables
    others = [key(), key(matrix={"records": [7]}), key(variables={"scale": 2}), key(set_up=[[sys.executable]])]
    assert len(set(others)) == 4
    assert key(set_up_for="each_run") is None


@pytest.mark.parametrize(
    ("workload", "changes", "words"),
    [
        ({"run": ["tool", "{hots}"]}, {}, r"\{hots\} in '\{hots\}' is not known"),
        ({"run": ["tool", "{password}"]}, {}, "a password must not be an argument"),
        ({"run": ["tool", "--password=hunter2"]}, {}, "holds a secret"),
        ({"run": ["tool", "{duration_s}"]}, {}, "limits.duration_s"),
        ({"run": ["tool"], "summary": {"speed": "(x)"}}, {}, "'speed' is not known"),
        ({"run": ["tool"], "summary": {"operations_done": "(x)"}}, {}, "contains no throughput"),
        ({"run": ["tool"], "summary": {"throughput_ops_s": "x"}}, {}, "no group for the number"),
        ({"run": ["tool"], "interval": "([0-9]+)"}, {}, "no group named elapsed_s"),
        ({"run": ["tool"], "files": {"../x": None}}, {}, "is outside the folder"),
        ({"run": ["tool"], "files": {"x": "exel"}}, {}, "exel"),
        ({"run": ["tool"], "files": {"x": "ycsb"}}, {}, "what the command prints"),
        ({"run": ["tool"], "variables": {"host": "x"}}, {}, "a value that the runner sets"),
        ({"run": ["tool"]}, {"matrix": {"monitored": [True]}}, "no sampled client"),
        ({"run": ["tool"]}, {"matrix": {"workloads": ["a"]}}, "'a' is not a workload; known: own"),
        ({"run": ["tool"]}, {"driver": {"environment": {"TOOL_PASSWORD": "x"}}}, "holds a secret"),
        ({"run": ["tool"]}, {"driver": {"environment": {"TOOL_HOST": "{hots}"}}}, r"\{hots\} cannot be used"),
    ],
)
def test_what_cannot_be_launched_is_refused_when_it_is_read(
    workload: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        experiment(workload, **changes)


def test_a_program_that_is_not_there_is_found_out_before_the_first_run(tmp_path: Path) -> None:
    one = experiment({"run": ["no-such-tool", "run"]})
    [check] = [check for check in check_all(one, tmp_path) if check.name == "client programs"]
    assert (check.verdict, check.found) == ("failed", "not found: no-such-tool")
    with pytest.raises(RunnerError, match="program 'no-such-tool' was not found"):
        driver_of(one).command(work(one), CONNECTION, tmp_path)


def test_files_are_looked_for_beside_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "load.sql").write_text("SELECT :records;")
    workloads = {"own": {"scripts": [{"file": "load.sql", "weight": 3}, {"builtin": "select-only"}], "rate_ops_s": 100}}
    document = {
        "name": "x",
        "driver": {"kind": "pgbench", "workloads": workloads},
        "matrix": {"workloads": ["own", "c"], "threads": [8]},
    }
    one = parse_experiment(document, path=tmp_path / "x.yml")
    assert isinstance(one.driver, PgbenchDriver)
    own, core = (next(run for run in make_plan(one) if run.configuration.workload == name) for name in ("own", "C"))
    half = Work(own, 0, 4, 100, 50, KeyRange(0, 1))
    arguments = PgbenchProgram(one.driver, Path("pgbench")).command(half, CONNECTION, tmp_path).arguments
    expected = {f"--file={tmp_path / 'load.sql'}@3", "--builtin=select-only@1", "--rate=50.000000"}
    assert expected <= {str(argument) for argument in arguments}
    assert (own.configuration.own_tables, core.configuration.own_tables) == (True, False)


@pytest.mark.server
class TestOnAServer:
    """PostgreSQL from the Python package."""

    def run(self, tmp_path: Path, driver: dict[str, Any], workloads: list[str], **changes: Any) -> RunnerSummary:
        matrix = {"workloads": workloads, "threads": [2], "records": [200], **changes.pop("matrix", {})}
        document = {
            "name": "own",
            "driver": driver,
            "matrix": matrix,
            "iterations": 1,
            "samplers": {"iostat": False, "vmstat": False},
            **changes,
        }
        return run_experiment(parse_experiment(document, path=tmp_path / "own.yml"), tmp_path / "out")

    def ingested(self, tmp_path: Path) -> pl.DataFrame:
        result = ingest([tmp_path / "out"], tmp_path / "dataset")
        assert result.exit_code == 0
        return open_dataset(tmp_path / "dataset").runs()

    def test_shipped_scripts_run_without_citus(self, tmp_path: Path) -> None:
        names = ["same-key", "two-keys", "prepare-transaction"]
        driver = {
            "kind": "pgbench",
            "workloads": {
                name: {
                    "set_up": ["two-phase/schema.sql"],
                    "set_up_for": "each_size",
                    "scripts": [{"file": f"two-phase/{name}.sql"}],
                }
                for name in names
            },
            "protocol": "simple",
        }
        target = {"kind": "embedded", "settings": {"max_prepared_transactions": 10}}
        summary = self.run(tmp_path, driver, names, target=target, matrix={"operations": [40]})
        assert summary.failed == {}
        runs = self.ingested(tmp_path).sort("workload")
        assert runs.select("workload", "status", "operations_done", "records").rows() == [
            ("prepare-transaction", "ok", 40, 200),
            ("same-key", "ok", 40, 200),
            ("two-keys", "ok", 40, 200),
        ]

    def test_a_command_is_ingested_with_the_identity_of_its_run(self, tmp_path: Path) -> None:
        psql = "\\timing on\nINSERT INTO own SELECT n FROM generate_series(1, {records}) AS n;\n"
        (tmp_path / "load.sql").write_text(psql + "\\copy own TO '{out}/rows.txt'\n\\! iostat -V > /dev/null; true\n")
        (tmp_path / "schema.sql").write_text("DROP TABLE IF EXISTS own;\nCREATE TABLE own (n int);\n")
        load = {
            "set_up": ["schema.sql"],
            "run": ["{psql}", "--no-psqlrc", "--file={script}"],
            "templates": {"script": "load.sql"},
            "summary": {"operations_done": "^INSERT 0 ([0-9]+)$", "runtime_ms": "^Time: ([0-9.]+) ms"},
            "files": {"rows.txt": None},
        }
        driver = {"kind": "command", "tool": "psql", "workloads": {"insert-select": load}}
        summary = self.run(tmp_path, driver, ["insert-select"], iterations=2)
        assert summary.failed == {}
        runs = self.ingested(tmp_path)
        assert runs.select("workload", "status", "operations_done", "iteration").rows() == [
            ("insert-select", "ok", 200, 1),
            ("insert-select", "ok", 200, 2),
        ]
        left = tmp_path / "out/own-w0-t2-insertselect/.left/2/0/rows.txt"
        assert len(left.read_text().splitlines()) == 200
        config = yaml.safe_load((tmp_path / "out/own-w0-t2-insertselect/config.yml").read_text())
        assert config["facts"]["workload"] == "insert-select"

    def test_a_command_that_fails_is_quoted(self, tmp_path: Path) -> None:
        fails = {"run": [sys.executable, "-c", "print('the moon is full'); raise SystemExit(3)"], "summary": SUMMARY}
        stuck = {"run": [sys.executable, "-c", "import time; time.sleep(60)"], "summary": SUMMARY}
        silent = {"run": [sys.executable, "-c", "print('tps 5.0')"], "summary": SUMMARY, "files": {"*.csv": None}}
        driver = {"kind": "command", "tool": "python", "workloads": {"fails": fails, "stuck": stuck, "silent": silent}}
        summary = self.run(tmp_path, driver, ["fails", "stuck", "silent"], limits={"timeout_s": 1})
        reasons = {run_id.split("-t2-")[1]: reason for run_id, reason in summary.failed.items()}
        assert "ended with exit code 3" in reasons["fails#1"]
        assert reasons["fails#1"].endswith("says: the moon is full")
        assert "stopped after limits.timeout_s = 1 s" in reasons["stuck#1"]
        assert "left no file *.csv" in reasons["silent#1"]

    def test_a_set_up_that_fails_stops_the_experiment_with_its_words(self, tmp_path: Path) -> None:
        (tmp_path / "schema.sql").write_text("CREATE TABLE own (n int);\nSELECT no_such_column;\n")
        load = {"set_up": ["schema.sql"], "run": [sys.executable, "-c", "pass"], "summary": SUMMARY}
        driver = {"kind": "command", "tool": "python", "workloads": {"own": load}}
        with pytest.raises(
            RunnerError, match=r"step 1 of the set-up \(psql\).*column \"no_such_column\" does not exist"
        ):
            self.run(tmp_path, driver, ["own"])
        assert not list((tmp_path / "out").rglob("secret.properties"))
