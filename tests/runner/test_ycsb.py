"""The YCSB driver: its calls, and the real client launched against its built-in database."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import RunnerError
from citus_analysis.runner import make_plan, run_experiment
from citus_analysis.runner.driver import Work
from citus_analysis.runner.execute import RunnerSummary
from citus_analysis.runner.experiment import YcsbDriver, parse_experiment
from citus_analysis.runner.system import ConnectionInfo, ServerNode
from citus_analysis.runner.workloads import KeyRange
from citus_analysis.runner.ycsb_driver import YcsbProgram, build_jdbc_url

NODES = [ServerNode("1", "worker1", 5432, "worker"), ServerNode("2", "worker2", 5433, "worker")]
CONNECTION = ConnectionInfo(NODES, "ycsb", "bench", "s3cret\\")


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    """A folder that looks like YCSB to the code that builds calls."""
    (tmp_path / "ycsb" / "lib").mkdir(parents=True)
    (tmp_path / "ycsb" / "lib" / "core-0.17.0.jar").touch()
    return tmp_path / "ycsb"


def work(workload: str, **changes: Any) -> Work:
    matrix = {"workloads": [workload], "threads": [8], "records": [100], "operations": [50]}
    run = make_plan(parse_experiment({"name": "x", "matrix": matrix}))[0]
    facts = {"part": 0, "threads": 8, "operations": 50, "records": 100, "inserts": KeyRange(34, 33)}
    return Work(run=run, **{**facts, **changes})


def properties(arguments: list[str]) -> dict[str, str]:
    stated = [arguments[i + 1] for i, word in enumerate(arguments) if word == "-p"]
    return {name: value for name, _, value in (one.partition("=") for one in stated)}


def call(installation: Path, tmp_path: Path, one: Work) -> list[str]:
    command = YcsbProgram(YcsbDriver(home=installation)).command(one, CONNECTION, tmp_path)
    return [str(argument) for argument in command.arguments]


def test_load_names_start_and_count_the_right_way_round(installation: Path, tmp_path: Path) -> None:
    arguments = call(installation, tmp_path, work("load"))
    found = properties(arguments)
    assert "-load" in arguments
    assert (found["insertstart"], found["insertcount"], found["recordcount"]) == ("34", "33", "67")


def test_run_states_the_core_workloads_mix(installation: Path, tmp_path: Path) -> None:
    found = properties(call(installation, tmp_path, work("f", rate_ops_s=12.4)))
    assert found["readproportion"] == "0.5"
    assert found["readmodifywriteproportion"] == "0.5"
    assert found["requestdistribution"] == "zipfian"
    assert (found["recordcount"], found["operationcount"]) == ("100", "50")


def test_the_password_is_in_no_argument_and_in_a_private_file(installation: Path, tmp_path: Path) -> None:
    assert "s3cret" not in repr(CONNECTION)
    arguments = call(installation, tmp_path, work("c"))
    assert not any("s3cret" in argument for argument in arguments)
    secret = Path(arguments[arguments.index("-P") + 1])
    assert secret.read_text() == "db.passwd=s3cret\\\\\n"
    assert secret.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("spread", "url"),
    [
        ("load_balance_hosts", "jdbc:postgresql://worker1:5432,worker2:5433/ycsb?loadBalanceHosts=true"),
        ("even", "jdbc:postgresql://worker1:5432/ycsb;jdbc:postgresql://worker2:5433/ycsb"),
    ],
)
def test_connections_are_spread(spread: str, url: str) -> None:
    assert build_jdbc_url(CONNECTION, spread) == url


def test_a_missing_installation_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match=r"nowhere.*lib/core.*driver\.home"):
        YcsbProgram(YcsbDriver(home=tmp_path / "nowhere"))


@pytest.fixture(scope="session")
def ycsb_home() -> Path:
    """The real client: YCSB_HOME, or what `make ycsb` has put into the cache."""
    home = Path(os.environ.get("YCSB_HOME", Path(__file__).parents[2] / ".cache" / "ycsb"))
    if shutil.which("java") is None or not list(home.glob("lib/core-*.jar")):
        pytest.skip("needs Java and the YCSB client: make ycsb")
    return home


def launch(home: Path, out: Path, workload: str, **matrix: Any) -> RunnerSummary:
    document = {
        "name": "basic",
        "driver": {
            "kind": "ycsb",
            "home": str(home),
            "binding": "site.ycsb.BasicDB",
            "properties": {"basicdb.verbose": False},
        },
        "matrix": {"workloads": [workload], "threads": [4], "records": [200], "operations": [500], **matrix},
        "iterations": 1,
        "samplers": dict.fromkeys(("iostat", "vmstat", "host", "activity", "counters"), False),
    }
    return run_experiment(parse_experiment(document), out)


@pytest.mark.java
@pytest.mark.server
def test_the_real_clients_output_is_ingested(ycsb_home: Path, tmp_path: Path) -> None:
    summary = launch(ycsb_home, tmp_path / "out", "a", drivers=[2])
    assert summary.failed == {}
    assert ingest([tmp_path / "out"], tmp_path / "ds").exit_code == 0
    run = open_dataset(tmp_path / "ds").runs().row(0, named=True)
    assert (run["status"], run["operations_done"], run["drivers"], run["threads"]) == ("ok", 500, 2, 4)
    assert run["throughput_ops_s"] > 0


@pytest.mark.java
@pytest.mark.server
def test_a_load_that_reached_no_table_is_failed(ycsb_home: Path, tmp_path: Path) -> None:
    # BasicDB swallows its inserts: the client reports success, the table says otherwise.
    summary = launch(ycsb_home, tmp_path / "out", "load")
    assert summary.failed == {"basic-w0-t4-load#1": "the table holds 0 rows after the load, not 200"}
    assert ingest([tmp_path / "out"], tmp_path / "ds").exit_code == 0
    run = open_dataset(tmp_path / "ds").runs().row(0, named=True)
    assert run["status"] == "failed"
    assert run["status_reason"] == "the table holds 0 rows after the load, not 200"


@pytest.mark.parametrize("workload", ["d", "e"])
def test_a_monitor_inserts_keys_of_its_own_and_asks_for_loaded_records(
    installation: Path, tmp_path: Path, workload: str
) -> None:
    own = KeyRange(2_000_000_100, 10**9)
    found = properties(call(installation, tmp_path, work(workload, operations=10**9, inserts=own, monitor=True)))
    assert found["recordcount"] == "2000000100"  # CoreWorkload inserts from here on
    assert found["requestdistribution"] == "zipfian"  # `latest` would ask for records that nobody inserted
    most = int(found["insertstart"]) + int(found["insertcount"]) + int(int(found["operationcount"]) * 0.05 * 2)
    assert most < 100  # CoreWorkload's largest request, inclusive


@pytest.mark.parametrize(("rate", "threads", "attainable"), [(40.4, 3, 40), (0.2, 1, 1), (1.2, 3, 2), (1.0, 30, 14)])
def test_no_thread_is_paced_slower_than_the_client_can(
    installation: Path, rate: float, threads: int, attainable: float
) -> None:
    found = YcsbProgram(YcsbDriver(home=installation)).attainable_rate_ops_s(rate, threads)
    assert found == attainable
    assert int(threads / found * 1e9) < 2**31  # nanoseconds between two operations of a thread, as a Java int


def test_requests_of_an_open_end_find_their_records(installation: Path, tmp_path: Path) -> None:
    # 10^9 operations would make CoreWorkload draw from 10^8 records of which 100 are there.
    found = properties(call(installation, tmp_path, work("e", operations=10**9, duration_s=6)))
    assert int(found["operationcount"]) * 0.05 * 2 <= 50 * int(found["recordcount"])
