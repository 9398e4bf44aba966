"""Work on a machine that is not the run's own, and machines that are not nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from citus_analysis.bottleneck.machine_work import (
    ACCOUNT_TABLES,
    ForeignWork,
    compute_node_cpu,
    describe_foreign_work,
    find_foreign_work,
    find_shared_machines,
    name_machines,
    place_text,
    tabulate_foreign_doubts,
)
from citus_analysis.bottleneck.study import study_bottleneck
from citus_analysis.report.bottleneck import state_demands
from citus_analysis.report.resources import state_foreign_work
from citus_analysis.runs.status import add_machine_doubts
from citus_analysis.scaling.demands import compute_resource_demands, find_first_to_saturate, load_bounds
from citus_analysis.schema import TABLES

BEGIN = datetime(2026, 11, 27, 10, 0, tzinfo=UTC)
SECONDS = 31
#: CPU time of the machine that each of four set-ups needs, in per cent.
SET_UPS = {"any": 24.0, "coordinator": 22.0, "text": 26.0, "double": 48.0}


def _conform(name: str, rows: Sequence[dict[str, object]]) -> pl.DataFrame:
    table = TABLES[name]
    if not rows:
        return table.conform(pl.DataFrame(schema=dict.fromkeys(("resource",), pl.String)))
    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    kinds = table.polars_schema()
    return table.conform(frame.with_columns(pl.col(name).cast(kinds[name]) for name in frame.columns))


def _study(
    seed: int,
    planted: dict[tuple[str, int], tuple[int, int, float]] | None = None,
    *,
    iterations: int = 5,
    set_ups: Sequence[str] = tuple(SET_UPS),
) -> dict[str, pl.DataFrame]:
    """Runs of some set-ups on one machine of two cores with four nodes, and what was planted in some of them.

    Args:
        seed: of the differences between runs (sd 1.5 %) and seconds (sd 3 %).
        planted: (set-up, iteration) -> first second, last second, per cent of the machine's CPU time.
        iterations: runs of each set-up.
        set_ups: of :data:`SET_UPS`.
    """
    rng = np.random.default_rng(seed)
    runs, cpu = [], []
    for number, name in enumerate(set_ups):
        for iteration in range(1, iterations + 1):
            begin = BEGIN + timedelta(seconds=60 * (number * iterations + iteration))
            run = {"resource": name, "run_id": f"{name}/{iteration}", "iteration": iteration}
            load = {"phase": "load", "workload": "A", "threads": 32, "workers": 4, "drivers": 1, "set_up": name}
            times = {"start_time": begin, "end_time": begin + timedelta(seconds=SECONDS)}
            runs.append({**run, **load, **times, "system": "citus", "status": "ok"})
            busy = SET_UPS[name] + rng.normal(0, 1.5) + rng.normal(0, 3, SECONDS)
            busy[:2] += rng.uniform(10, 40)  # The load generator starts.
            first, last, amount = (planted or {}).get((name, iteration), (0, 0, 0.0))
            busy[first:last] += amount
            at = {"source_id": name, "node": "0", "sampler": "iostat", "since_boot": False, "iowait_percent": 0.0}
            cpu += [
                {**run, **at, "sample": i, "sample_time": begin + timedelta(seconds=i + 1), "idle_percent": 100 - share}
                for i, share in enumerate(busy.clip(1, 99))
            ]
    nodes = [{"resource": name, "node": str(n), "host": "127.0.0.1", "port": n} for name in set_ups for n in range(5)]
    settings = [{"resource": name, "name": "hardware", "value": "one machine (2 cores, 4 GiB)"} for name in set_ups]
    settings += [{"resource": "double", "name": "cpu_per_node", "value": "0.2"}] if "double" in set_ups else []
    rows = {"runs": runs, "cpu_samples": cpu, "nodes": nodes, "settings": settings}
    return {name: _conform(name, rows.get(name, [])) for name in ACCOUNT_TABLES}


def _found(work: ForeignWork) -> dict[str, tuple[float, float]]:
    """Run -> first and last second of what was found in it."""
    rows = work.seconds.filter(pl.col("foreign_percent").is_not_null()).group_by("run_id")
    ends = rows.agg(begin=pl.col("elapsed_s").min() - 1, end=pl.col("elapsed_s").max())
    return {run: (begin, end) for run, begin, end in ends.iter_rows()}


def test_quiet_runs_are_not_accused() -> None:
    studies = [find_foreign_work(_study(seed)) for seed in range(100)]
    assert sum(work.runs.height for work in studies) == 2000
    assert [work.doubtful.height for work in studies] == [0] * 100


@pytest.mark.parametrize("amount", [25.0, 45.0])
def test_planted_work_is_found_with_its_seconds_and_amount(amount: float) -> None:
    for seed in range(20):
        work = find_foreign_work(_study(seed, {("any", 2): (10, 25, amount), ("text", 4): (5, 13, amount)}))
        found = _found(work)
        assert set(found) == {"any/2", "text/4"}
        assert found["any/2"] == pytest.approx((10, 25), abs=2)
        assert found["text/4"] == pytest.approx((5, 13), abs=2)
        shown = work.doubtful.filter(run_id="any/2").row(0, named=True)
        assert shown["foreign_percent"] == pytest.approx(amount, abs=5)
        assert shown["machine"] == "machine of nodes 0 to 4"


def test_work_during_most_runs_of_a_set_up_is_found_by_other_set_ups_and_a_costly_set_up_is_no_foreign_work() -> None:
    during = {("any", i): (0, SECONDS, 44.0) for i in (1, 2, 3, 4)} | {("any", 5): (15, SECONDS, 44.0)}
    work = find_foreign_work(_study(3, during, set_ups=("any", "coordinator", "text", "double"), iterations=5))
    assert set(_found(work)) == {f"any/{i}" for i in range(1, 6)}
    # `double` needs twice as much in all of its runs, which is its own.
    assert "double" not in work.doubtful["resource"]


def test_too_few_runs_of_a_kind_are_not_judged() -> None:
    work = find_foreign_work(_study(1, {("any", 1): (0, SECONDS, 44.0)}, iterations=2, set_ups=("any",)))
    assert work.runs["method"].to_list() == ["not known", "not known"]
    assert work.doubtful.is_empty()


def test_a_program_that_is_not_the_runs_own_is_named_in_a_single_run() -> None:
    tables = _study(1, {("any", 1): (8, 20, 40.0)}, iterations=1, set_ups=("any",))
    begin = tables["runs"]["start_time"][0]
    seen = {"postgres": (100, 40.0), "java": (101, 20.0), "pidstat": (102, 1.0)}
    rows = [
        {"resource": "any", "run_id": "any/1", "iteration": 1, "source_id": "p", "node": "0", "since_boot": False,
         "sample": i, "sample_time": begin + timedelta(seconds=i + 1), "pid": pid, "command": name, "cpu_percent": used}
        for i in range(SECONDS)
        for name, (pid, used) in (seen | ({"make": (103, 80.0)} if 8 <= i < 20 else {})).items()
    ]  # fmt: skip
    tables["process_samples"] = _conform("process_samples", rows)
    (row,) = find_foreign_work(tables).doubtful.iter_rows(named=True)
    assert (row["method"], row["program"], row["foreign_percent"]) == ("named", "make", pytest.approx(40))
    assert row["foreign_s"] == pytest.approx(12, abs=2)


def test_control_groups_of_nodes_and_clients_account_for_a_run_without_its_like() -> None:
    tables = _study(1, {("any", 1): (8, 20, 40.0)}, iterations=1, set_ups=("any",))
    begin = tables["runs"]["start_time"][0]
    used = {"postgres-node0": 4.0, "postgres-node1": 12.0, "postgres-node2": 12.0, "clients": 16.0}
    rows = [
        {"resource": "any", "run_id": "any/1", "iteration": 1, "source_id": "t", "node": "0", "since_boot": False,
         "sample": i, "sample_time": begin + timedelta(seconds=i + 1), "used_percent": share,
         "control_group": f"/sys/fs/cgroup/demo/{group}/cpu.stat"}
        for i in range(SECONDS)
        for group, share in used.items()
    ]  # fmt: skip
    tables["throttle_samples"] = _conform("throttle_samples", rows)
    work = find_foreign_work(tables)
    (row,) = work.doubtful.iter_rows(named=True)
    assert row["method"] == "accounted"
    assert _found(work)["any/1"] == pytest.approx((8, 20), abs=2)
    assert work.seconds["nodes_percent"].to_list() == [14.0] * SECONDS
    tables["activity_samples"] = _conform("activity_samples", [])
    cpu = compute_node_cpu(tables, tables["runs"])
    assert cpu.select("node", "used_percent").rows() == [("0", 4.0), ("1", 12.0), ("2", 12.0)]


def test_pids_divide_the_cpu_time_of_a_shared_machine_among_its_nodes() -> None:
    tables = _study(1, iterations=1, set_ups=("any",))
    begin = tables["runs"]["start_time"][0]
    at = {"resource": "any", "run_id": "any/1", "iteration": 1, "since_boot": False}
    rows = [
        {**at, "source_id": "p", "node": "0", "sample": i, "sample_time": begin + timedelta(seconds=i + 1), "pid": pid,
         "command": "postgres", "cpu_percent": used}
        for i in range(SECONDS)
        for pid, used in ((7, 5.0), (8, 20.0), (9, 10.0))
    ]  # fmt: skip
    tables["process_samples"] = _conform("process_samples", rows)
    sessions = [{**at, "source_id": "a", "node": node, "pid": pid} for node, pid in (("1", 7), ("2", 8), ("2", 9))]
    for row in sessions:
        del row["since_boot"]
    tables["activity_samples"] = _conform("activity_samples", sessions)
    cpu = compute_node_cpu(tables, tables["runs"])
    assert cpu.select("node", "used_percent").rows() == [("1", pytest.approx(5)), ("2", pytest.approx(30))]


def test_a_machine_with_several_nodes_is_not_one_of_them() -> None:
    hosts = {"a": ["0"], "b": ["1", "2"], "localhost": ["3", "5"]}
    nodes = _conform("nodes", [{"resource": "w", "node": n, "host": h} for h, names in hosts.items() for n in names])
    machines = find_shared_machines(nodes)
    samples = pl.DataFrame({"resource": ["w"] * 4, "node": ["0", "1", "5", None]}, schema_overrides={"node": pl.String})
    named = name_machines(samples, machines)["node"].to_list()
    assert named == ["0", "machine of nodes 1 to 2", "machine of nodes 3, 5", None]
    assert place_text(named[1]) == "the machine of nodes 1 to 2"


def test_doubts_change_the_status_of_a_run_and_are_taken_back() -> None:
    tables = _study(2, {("any", 3): (5, 25, 40.0)})
    work = find_foreign_work(tables).doubtful
    doubts = work.select("resource", "run_id", foreign_share_percent="share_percent", foreign_work=pl.lit("for 20 s"))
    doubted = add_machine_doubts(tables["runs"], doubts)
    assert doubted.filter(pl.col("status") != "ok")["run_id"].to_list() == ["any/3"]
    assert doubted.filter(run_id="any/3")["status_reason"].item() == "other work on the machine for 20 s"
    quiet = add_machine_doubts(doubted, doubts.clear())
    assert quiet.equals(tables["runs"])


def test_sentences_name_the_runs_the_seconds_and_the_amount_or_that_there_was_none() -> None:
    (quiet,) = state_foreign_work(find_foreign_work(_study(0)))
    assert str(quiet) == "No machine did other work that shows in its CPU time (20 runs compared)."
    (found,) = state_foreign_work(find_foreign_work(_study(0, {("any", 2): (10, 25, 45.0)})))
    assert found.sentence.startswith(
        "In 1 of 20 runs, a machine did so much work that is not the run's own that this run is doubtful and enters no "
        "mean unless allowed: for 15 s between"
    )
    assert found.sentence.endswith("of its CPU time (any).")
    study = find_foreign_work(_study(0, {("any", 2): (10, 25, 45.0)}))
    (little,) = state_foreign_work(replace(study, runs=study.runs.with_columns(is_doubtful=False)))
    assert str(little) == (
        "No machine did so much other work that a run is doubtful (20 runs compared; 1 had some, for 15 s in all)."
    )
    (blind,) = state_foreign_work(find_foreign_work(_study(0, iterations=2, set_ups=("any",))))
    assert blind.sentence.startswith(
        "Whether a machine did other work is not known of 2 runs, which have fewer than three"
    )


def test_demands_are_refused_where_only_the_machine_of_several_nodes_was_measured() -> None:
    tables = _study(1, {("any", 2): (10, 25, 45.0)})
    doubts = find_foreign_work(tables).doubtful.select(
        "resource", "run_id", foreign_share_percent="share_percent", foreign_work=pl.lit("for 15 s")
    )
    runs = tables["runs"].with_columns(throughput_ops_s=pl.lit(500.0), operations_done=pl.lit(15_000, pl.Int64))
    source = (
        {name: table.empty() for name, table in TABLES.items()} | tables | {"runs": add_machine_doubts(runs, doubts)}
    )
    dataset = _Source(source)
    study = study_bottleneck(dataset)
    assert study.n == 19
    assert study.warnings[0].startswith("1 run was made while the machine did other work")
    busy = study.matrix.filter(pl.col("metric") == "busy", pl.col("value").is_not_null())
    assert busy["node"].unique().to_list() == ["machine of nodes 0 to 4"]
    demands = compute_resource_demands(dataset, study)
    assert "CPU time" not in demands["demand"]
    assert load_bounds(demands).is_empty()
    assert "are not known" in str(state_demands(find_first_to_saturate(demands)))


def test_demands_of_nodes_are_those_of_their_control_groups() -> None:
    tables = _study(1, iterations=1, set_ups=("any",))
    begin = tables["runs"]["start_time"][0]
    rows = [
        {"resource": "any", "run_id": "any/1", "iteration": 1, "source_id": "t", "node": "0", "since_boot": False,
         "sample": i, "sample_time": begin + timedelta(seconds=i + 1), "used_percent": share,
         "control_group": f"/sys/fs/cgroup/demo/node{node}/cpu.stat"}
        for i in range(SECONDS)
        for node, share in ((1, 10.0), (2, 40.0))
    ]  # fmt: skip
    tables["throttle_samples"] = _conform("throttle_samples", rows)
    tables["runs"] = tables["runs"].with_columns(throughput_ops_s=pl.lit(500.0))
    dataset = _Source({name: table.empty() for name, table in TABLES.items()} | tables)
    demands = compute_resource_demands(dataset, study_bottleneck(dataset)).filter(demand="CPU time")
    # 10 and 40 % of one CPU at 500 operations/s; a node may use both cores of the machine.
    expected = [("1", pytest.approx(200.0), pytest.approx(10_000)), ("2", pytest.approx(800.0), pytest.approx(2_500))]
    assert demands.select("node", "per_operation", "bound_ops_s").rows() == expected


class _Source:
    """Tables by name, as a dataset gives them."""

    def __init__(self, tables: dict[str, pl.DataFrame]) -> None:
        self.tables = tables

    def table(self, name: str) -> pl.DataFrame:
        return self.tables[name]


def test_without_samples_nothing_is_doubtful() -> None:
    tables = _study(3)
    found = tabulate_foreign_doubts(tables)
    none = tabulate_foreign_doubts(tables | {"cpu_samples": tables["cpu_samples"].clear()})
    assert (none.height, none.schema) == (0, found.schema)
    assert set(add_machine_doubts(tables["runs"], none)["status"]) == {"ok"}


def test_counts_of_the_canary_hold_for_a_run_of_four_seconds() -> None:
    """No other run, no samples of the machine, a busy machine: what other programs used is counted all the same."""
    begin = BEGIN
    run = {"resource": "any", "run_id": "any/1", "iteration": 1, "status": "ok", "phase": "run", "workload": "A"}
    runs = [{**run, "start_time": begin, "end_time": begin + timedelta(seconds=4)}]

    def count(shares: Sequence[float]) -> dict[str, pl.DataFrame]:
        """Counts each second of two cores, the first and the last only half in the run."""
        at = {key: run[key] for key in ("resource", "run_id", "iteration")} | {"node": "0", "source_id": "c"}
        rows = [
            {**at, "sample": i, "sample_time": begin + timedelta(seconds=i + 0.5), "since_boot": False, "cores": 2,
             "cpu_us": share / 100 * 2e6, "wall_us": 1e6, "program": "python3" if share else None}
            for i, share in enumerate(shares)
        ]  # fmt: skip
        given = {"runs": runs, "foreign_samples": rows}
        return {name: _conform(name, given.get(name, [])) for name in ACCOUNT_TABLES}

    (row,) = find_foreign_work(count([0, 50, 50, 50, 50])).runs.iter_rows(named=True)
    assert (row["method"], row["program"], row["is_doubtful"]) == ("counted", "python3", True)
    assert (row["foreign_s"], row["sampled_s"]) == (pytest.approx(3.5), pytest.approx(4.0))
    assert row["share_percent"] == pytest.approx(43.75)
    assert row["times"] == ["10:00:00 to 10:00:04"]
    assert describe_foreign_work(row) == (  # type: ignore[arg-type] # a row of ForeignWork.runs
        "from 10:00:00 to 10:00:04 UTC (4 of 4 s): 50 % of its CPU time, most of it by python3"
    )
    # A burst is foreign work, but does not make the run doubtful; a little each second is none.
    (burst,) = find_foreign_work(count([0, 0, 30, 0, 0])).runs.iter_rows(named=True)
    assert (burst["foreign_s"], burst["is_doubtful"]) == (pytest.approx(1.0), False)
    (quiet,) = find_foreign_work(count([1, 2, 4, 1, 0])).runs.iter_rows(named=True)
    assert (quiet["method"], quiet["foreign_s"], quiet["is_doubtful"]) == ("counted", 0.0, False)


def test_counts_of_the_canary_stand_beside_other_methods() -> None:
    tables = _study(2, {("any", 3): (5, 25, 40.0)})
    runs = tables["runs"].filter(resource="any")
    # The canary saw nothing in run 3, where the samples are unlike those of other runs, and all of what is in run 4.
    rows = [
        {"resource": "any", "run_id": run_id, "source_id": "c", "node": "0", "since_boot": False, "sample": second,
         "sample_time": begin + timedelta(seconds=second + 1), "cores": 2, "wall_us": 1e6, "program": "make",
         "cpu_us": 5e5 if run_id == "any/4" and second >= 20 else 1e4}
        for run_id, begin in runs.select("run_id", "start_time").iter_rows()
        for second in range(SECONDS)
    ]  # fmt: skip
    tables["foreign_samples"] = _conform("foreign_samples", rows)
    found = find_foreign_work(tables)
    methods = dict(found.runs.filter(resource="any").select("run_id", "method").iter_rows())
    assert methods == {f"any/{i}": "like runs" if i == 3 else "counted" for i in range(1, 6)}
    assert found.doubtful["run_id"].to_list() == ["any/3", "any/4"]
    assert _found(found)["any/4"] == pytest.approx((20, 31), abs=1)
    # What the machine used in all stands beside each count, as its samples have it.
    counted = found.seconds.filter(run_id="any/4")
    assert counted["busy_percent"].null_count() == 0
    sampled = find_foreign_work(tables | {"foreign_samples": tables["foreign_samples"].clear()}).seconds
    assert set(counted["busy_percent"]) <= set(sampled.filter(run_id="any/4")["busy_percent"])
