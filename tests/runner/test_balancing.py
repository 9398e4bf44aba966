"""Connections reach every node: by libpq where it can, else by one node per load generator."""

from pathlib import Path

import pytest

from citus_analysis.runner import make_plan
from citus_analysis.runner.client_programs import can_spread_connections, choose_client
from citus_analysis.runner.driver import Work
from citus_analysis.runner.experiment import PgbenchDriver, parse_experiment
from citus_analysis.runner.pgbench_driver import PgbenchProgram
from citus_analysis.runner.programs import find_programs
from citus_analysis.runner.system import ConnectionInfo, ServerNode
from citus_analysis.runner.workloads import KeyRange

NODES = [ServerNode(str(number), f"worker{number}", 5432, "worker") for number in (1, 2, 3)]
CONNECTION = ConnectionInfo(NODES, "ycsb", "bench")
OLD = "#!/bin/sh\necho 'pgbench: error: connection to server on socket failed' >&2\nexit 1\n"
NEW = '#!/bin/sh\necho "pgbench: error: invalid load_balance_hosts value: $PGLOADBALANCEHOSTS" >&2\nexit 1\n'


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def hosts(pgbench: Path, folder: Path, part: int) -> str:
    matrix = {"workloads": ["c"], "threads": [3], "drivers": [3], "records": [100], "operations": [50]}
    run = make_plan(parse_experiment({"name": "x", "matrix": matrix}))[0]
    one = Work(run=run, part=part, threads=1, operations=50, records=100, inserts=KeyRange(0, 50))
    return PgbenchProgram(PgbenchDriver(), pgbench).command(one, CONNECTION, folder).environment["PGHOST"]


def test_a_real_client_is_asked_what_it_can() -> None:
    programs = find_programs("wheel")
    assert can_spread_connections(programs["pgbench"]) == (programs.version >= 16)


def test_the_client_that_can_is_preferred(tmp_path: Path) -> None:
    old, new = program(tmp_path, "old", OLD), program(tmp_path, "new", NEW)
    assert choose_client([old, new]) == new
    assert choose_client([old, tmp_path / "absent"]) == old


def test_load_generators_of_an_old_libpq_get_a_node_each(tmp_path: Path) -> None:
    old, new = program(tmp_path, "old", OLD), program(tmp_path, "new", NEW)
    assert [hosts(old, tmp_path, part) for part in range(3)] == ["worker1", "worker2", "worker3"]
    assert hosts(new, tmp_path, 0) == "worker1,worker2,worker3"


@pytest.mark.parametrize(("generators", "said"), [(1, "no client connects to nodes 2 and 3; "), (3, "to one node, ")])
def test_nodes_without_clients_are_named(tmp_path: Path, generators: int, said: str) -> None:
    old = PgbenchProgram(PgbenchDriver(), program(tmp_path, "old", OLD))
    (remark,) = old.remarks(CONNECTION, generators)
    assert said in remark
    assert ("matrix.drivers: [3]" in remark) == (generators == 1)
    assert PgbenchProgram(PgbenchDriver(), program(tmp_path, "new", NEW)).remarks(CONNECTION, generators) == []
