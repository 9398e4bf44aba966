"""How many connections fit a node: known answers, a recording of a Citus cluster, and refusals.

`tests/data/connection_memory` was recorded by the runner beside pgbench on Citus 13.2.2 (PostgreSQL 15.20; a
coordinator and two workers on one machine that other programs used as well): YCSB's workload C with 8 and 32
connections, and 8 connections that read once and then do nothing. Lines of other servers of the machine are left out
of `backends-*.out`, and the folder of the experiment is written as `/experiments`.
"""

import json
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis import cli
from citus_analysis.bottleneck.connections import ConnectionAdvice, advise_connections, measure_connections
from citus_analysis.core.frames import NamedTables
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.schema import TABLES
from tests.documentation.blocks import ROOT, blocks_run_by, commands_of

RECORDED = ROOT / "tests" / "data" / "connection_memory"
START = datetime(2026, 11, 28, 12, tzinfo=UTC)
GPID = 10_000_000_000
#: kB of a session of a client, of another node, and of a background process, beside 500 kB of shared memory.
CLIENT_KB, CHILD_KB, BACKGROUND_KB = 4000.0, 2000.0, 1000.0
Rows = list[dict[str, Any]]


def conform(name: str, rows: Rows) -> pl.DataFrame:
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return TABLES[name].conform(frame.with_columns(pl.col(c).cast(TABLES[name][c].dtype) for c in frame.columns))


def make_cluster(
    clients: Mapping[int, float] | None = None, *, readable: bool = True, samplers: tuple[str, ...] = ("1",)
) -> dict[str, pl.DataFrame]:
    """Two workers on one machine: each client has a connection to the other worker; threads -> throughput."""
    runs: Rows = []
    activity: Rows = []
    backends: Rows = []
    for at, (threads, rate) in enumerate((clients or {4: 100.0, 8: 200.0, 16: 198.0}).items()):
        resource, begin = f"w2-t{threads}-c", START + timedelta(minutes=at)
        run = {"resource": resource, "run_id": f"{resource}/run-C-i1", "iteration": 1}
        times = {"start_time": begin, "end_time": begin + timedelta(seconds=10)}
        facts = {"system": "citus", "phase": "run", "workload": "C", "status": "ok", "drivers": 1, "monitored": False}
        runs.append(run | facts | times | {"threads": threads, "workers": 2, "throughput_ops_s": rate, "records": 9})
        for node, second in ((node, second) for node in (1, 2) for second in (2, 4, 6)):
            now, parent = begin + timedelta(seconds=second), 1000 * node
            own = [(parent + number, "parent", CLIENT_KB) for number in range(1, threads // 2 + 1)]
            own += [(parent + 100 + number, "child", CHILD_KB) for number in range(1, threads // 2 + 1)]
            for pid, role, _ in own:
                # The session of another node for the client of the same number there.
                gpid = node * GPID + pid if role == "parent" else (3 - node) * GPID + 1000 * (3 - node) + pid % 100
                name = "pgbench" if role == "parent" else f"citus_internal gpid={gpid}"
                session = {"pid": pid, "backend_type": "client backend", "state": "active", "application": name}
                session |= {"gpid": gpid, "worker_query": role == "child", "query_start": now}
                activity.append(
                    run | session | {"source_id": "a", "node": str(node), "sample": second, "sample_time": now}
                )
            own += [(parent + 900, "background", BACKGROUND_KB)]
            for sampler in samplers:
                for pid, role, size in own:
                    memory: dict[str, Any] = {"pss_kb": size + 500 - 10, "own_kb": size - 10, "shared_kb": 500.0}
                    memory |= {"page_tables_kb": 10.0}
                    if not readable:
                        memory = dict.fromkeys(memory)
                    sample = {"source_id": f"b{sampler}", "node": sampler, "sample": second, "sample_time": now}
                    used = {"cpu_ms": (second * 100.0 if role == "parent" else 5.0), "since_boot": False}
                    backends.append(run | sample | memory | used | {"pid": pid, "parent_pid": parent})
    names = [one["resource"] for one in runs]
    nodes: Rows = [
        {"resource": name, "source_id": "n", "node": node, "groupid": int(node)} for name in names for node in "12"
    ]
    buffers = {"source_id": "s", "name": "settings.shared_buffers", "value": "100MB"}
    settings: Rows = [buffers | {"resource": name} for name in names]
    tables = {"runs": runs, "activity_samples": activity, "backend_samples": backends, "nodes": nodes}
    tables["settings"] = settings
    return {"clients": TABLES["clients"].empty()} | {name: conform(name, rows) for name, rows in tables.items()}


def advise(tables: Mapping[str, pl.DataFrame], memory_gb: float | None = None, **options: Any) -> ConnectionAdvice:
    return advise_connections(NamedTables(tables), memory_gb, **options)


def test_the_number_that_fits_is_the_room_over_a_client_and_its_children() -> None:
    found = advise(make_cluster(), 1.0)
    assert found.children_per_peer == 1.0
    assert found.per_client_mb.estimate == pytest.approx((CLIENT_KB + CHILD_KB) / 1000)
    buffers = 100 * 1.048576
    assert found.fixed_mb == pytest.approx(buffers + BACKGROUND_KB / 1000)
    assert found.most_per_node is not None
    assert found.most_per_node.estimate == pytest.approx((1000 - found.fixed_mb) / 6.0)
    assert found.sentence().startswith("With 1 GB, each of 2 workers has room for at most 149 client connections")
    assert "298 in all" in found.sentence()


def test_more_workers_hardly_raise_the_number_of_all_connections() -> None:
    tables = make_cluster()
    found = {workers: advise(tables, 1.0, workers=workers).to_dict() for workers in (2, 4, 16)}
    per_client = {workers: (1000 - 105.8576) / (4 + 2 * (workers - 1)) for workers in found}
    assert {workers: one["most_per_node"] for workers, one in found.items()} == {
        workers: int(most) for workers, most in per_client.items()
    }
    assert any("measured on 2 workers, not on 16" in str(one) for one in found[16]["warnings"])  # type: ignore[attr-defined] # a list


def test_the_throughput_needs_the_smallest_number_within_the_margin() -> None:
    curve = advise(make_cluster()).curve
    assert curve.filter("is_enough")["connections"].to_list() == [8]
    assert curve["per_node"].to_list() == curve["children"].to_list() == [2.0, 4.0, 8.0]
    # All processes of a node: clients, children, a background process, and the shared memory they touched.
    one = (CLIENT_KB + CHILD_KB + 1000) * 2 + BACKGROUND_KB + 500
    assert curve["memory_mb"].to_list()[0] == pytest.approx(one / 1000)
    rising = advise(make_cluster({4: 100.0, 8: 200.0})).summary_lines()
    assert any(
        "most operations per second with 8 connections (the largest that was measured)" in line for line in rising
    )


def test_a_machine_that_several_samplers_show_counts_once() -> None:
    tables = make_cluster()
    both = make_cluster(samplers=("1", "2", "0"))
    one, same = (measure_connections(t["backend_samples"], t["activity_samples"], t["runs"]) for t in (tables, both))
    assert same.equals(one)
    assert advise(both).curve.equals(advise(tables).curve)


def test_cpu_time_of_sessions() -> None:
    costs = {row["connection"]: row for row in advise(make_cluster()).costs.to_dicts()}
    # 100 ms in each second.
    assert costs["active connection of a client"]["cpu_percent"] == pytest.approx(10.0)
    assert costs["active connection of another node"]["cpu_percent"] == 0.0


def test_what_is_not_known_is_refused() -> None:
    tables = make_cluster()
    cases = {
        "was not sampled": tables | {"backend_samples": TABLES["backend_samples"].empty()},
        "was not readable": make_cluster(readable=False),
        "without snapshots of sessions": tables | {"activity_samples": TABLES["activity_samples"].empty()},
        "no sampled process is a session": tables
        | {"activity_samples": tables["activity_samples"].with_columns(pl.col("pid") + 5000)},
    }
    for reason, given in cases.items():
        with pytest.raises(InsufficientDataError, match=reason):
            advise(given, 1.0)
    with pytest.raises(UsageError, match="is less than the"):
        advise(tables, 0.05)
    # Sessions of clients on one node are what a single server has.
    activity = tables["activity_samples"].filter(~pl.col("worker_query"), pl.col("node").cast(pl.String) == "1")
    backends = tables["backend_samples"].filter(pl.col("pid").is_in(activity["pid"].implode()))
    single = tables | {"activity_samples": activity, "backend_samples": backends}
    with pytest.raises(InsufficientDataError, match="do not show connections between nodes"):
        advise(single, 1.0, workers=4)
    one = advise(single, 1.0, workers=1)
    assert one.per_client_mb.estimate == pytest.approx(CLIENT_KB / 1000)
    assert "4 [4, 4] MB a client connection (3 runs)" in one.sentence()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> ca.Dataset:
    out = tmp_path_factory.mktemp("connections") / "ds"
    ca.ingest([RECORDED], out)
    return ca.open_dataset(out)


def test_the_recorded_cluster_has_one_connection_for_each_client_on_the_other_worker(recorded: ca.Dataset) -> None:
    found = ca.advise_connections(recorded, 16)
    assert found.children_per_peer == pytest.approx(1.0, abs=0.05)
    # A session by its lines, read here once more.
    sessions = measure_connections(recorded.backend_samples(), recorded.activity_samples(), recorded.runs())
    one = sessions.filter(role="parent").drop_nulls("memory_mb").row(0, named=True)
    iteration = recorded.runs().filter(run_id=one["run_id"])["iteration"].item()
    text = (RECORDED / one["resource"] / "general" / f"backends-0-{iteration}.out").read_text()
    lines = [line.split() for line in text.splitlines()]
    read = [float(w[5]) - float(w[7]) + float(w[8]) for w in lines if int(w[3]) == one["pid"] and w[5] != "-"]
    assert one["memory_mb"] == pytest.approx(sum(read) / len(read) / 1000)
    active = found.costs.filter(connection="active connection of a client").row(0, named=True)
    idle = found.costs.filter(connection="idle connection of a client").row(0, named=True)
    assert active["memory_mb"] > idle["memory_mb"]
    assert active["cpu_percent"] > 10 * idle["cpu_percent"]


def test_the_command_of_the_page(
    recorded: ca.Dataset, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = blocks_run_by(__file__)
    (command,) = commands_of(block)
    words = shlex.split(command)[1:]
    monkeypatch.chdir(ROOT)
    assert words[1] == str(RECORDED.relative_to(ROOT))
    words[1] = str(recorded.path)
    page = (ROOT / "docs" / "connections.md").read_text(encoding="utf-8")
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit) as end:
            cli.main([*words, *more])
        assert not end.value.code
        printed = capsys.readouterr().out
        sentence = json.loads(printed)["sentence"] if more else printed.splitlines()[0]
        assert f"> {sentence}\n" in page
