"""The plan holds every combination once per iteration, in an order that a seed determines."""

from collections import Counter
from typing import Any

import pytest

from citus_analysis.dataset.identity import name_facts
from citus_analysis.errors import UsageError
from citus_analysis.runner.experiment import Experiment, parse_experiment
from citus_analysis.runner.plan import PlannedRun, list_configurations, make_plan, plan_table_preparations
from citus_analysis.runner.records import build_client_log_path
from citus_analysis.study_tree import build_server_log_path


def experiment(**changes: Any) -> Experiment:
    matrix = {"workloads": ["load", "c"], "threads": [1, 4], "monitored": [False, True]}
    return parse_experiment({"name": "x", "matrix": matrix, "iterations": 3, **changes})


def test_every_combination_runs_in_every_iteration() -> None:
    plan = make_plan(experiment())
    assert len(list_configurations(experiment())) == 8
    assert len(plan) == len({run.run_id for run in plan}) == 24


def test_interleaved_blocks_hold_each_configuration_once() -> None:
    plan = make_plan(experiment())
    blocks = [plan[start : start + 8] for start in range(0, 24, 8)]
    for number, block in enumerate(blocks, start=1):
        assert {run.iteration for run in block} == {number}
        assert max(Counter(run.configuration for run in block).values()) == 1
    assert [run.configuration for run in blocks[0]] != [run.configuration for run in blocks[1]]


def test_order_depends_on_the_seed_alone() -> None:
    assert make_plan(experiment(seed=7)) == make_plan(experiment(seed=7))
    assert make_plan(experiment(seed=7)) != make_plan(experiment(seed=8))


def test_more_iterations_leave_the_earlier_ones_as_they_were() -> None:
    assert make_plan(experiment(iterations=5))[:24] == make_plan(experiment())


def test_sequential_order_finishes_one_configuration_before_the_next() -> None:
    plan = make_plan(experiment(order="sequential"))
    assert [run.iteration for run in plan[:3]] == [1, 2, 3]
    assert len({run.configuration for run in plan[:3]}) == 1


def test_the_load_phase_ignores_the_number_of_operations() -> None:
    matrix = {"workloads": ["load", "c"], "records": [50], "operations": [10, 20]}
    chosen = list_configurations(parse_experiment({"name": "x", "matrix": matrix}))
    assert sorted((c.workload, c.operations) for c in chosen) == [("A", 50), ("C", 10), ("C", 20)]


def test_settings_are_crossed_and_named() -> None:
    matrix = {"workloads": ["c"], "settings": {"citus.enable_binary_protocol": ["on", "off"], "jit": ["off"]}}
    chosen = list_configurations(parse_experiment({"name": "x", "matrix": matrix}))
    assert [c.resource for c in chosen] == ["x-w0-t1-c-enablebinaryprotocolon", "x-w0-t1-c-enablebinaryprotocoloff"]
    assert dict(chosen[0].settings) == {"citus.enable_binary_protocol": "on", "jit": "off"}


@pytest.mark.parametrize("run", make_plan(experiment())[:8], ids=lambda run: run.run_id)
def test_ingest_reads_back_what_the_file_names_say(run: PlannedRun) -> None:
    configuration = run.configuration
    facts = name_facts(build_client_log_path(run, part=0).name, configuration.resource)
    assert facts["phase"] == configuration.phase
    assert facts["threads"] == configuration.threads
    assert facts["iteration"] == run.iteration
    assert facts["workers"] == configuration.workers
    assert facts["drivers"] == configuration.drivers
    assert (
        name_facts(build_server_log_path(run.configuration.resource, "2", run.iteration).name, configuration.resource)[
            "node"
        ]
        == "2"
    )


def test_runs_that_differ_in_size_load_or_operation_share_a_set_up() -> None:
    assert {c.set_up for c in list_configurations(experiment())} == {"x"}
    settings = {"jit": [True, False], "citus.shard_count": [32]}
    matrix = {"workloads": ["load", "c"], "threads": [1, 2], "protocol": ["simple", "prepared"], "settings": settings}
    named = {c.set_up for c in list_configurations(parse_experiment({"name": "x", "matrix": matrix}))}
    assert named == {f"x protocol={p} jit={v}" for p in ("simple", "prepared") for v in ("on", "off")}
    named = {
        c.set_up for c in list_configurations(parse_experiment({"name": "x", "set_up": "8 shards", "matrix": matrix}))
    }
    assert "8 shards protocol=simple jit=on" in named


@pytest.mark.parametrize("values", [[-1, 1], [1.1, 11]])
def test_values_that_differ_in_sign_or_point_are_configurations_of_their_own(values: list[float]) -> None:
    matrix = {"workloads": ["c"], "settings": {"log_min_duration_statement": values}}
    chosen = list_configurations(parse_experiment({"name": "x", "matrix": matrix}))
    assert len({c.resource for c in chosen}) == 2


def test_values_that_would_share_a_name_are_refused() -> None:
    matrix = {"workloads": ["c"], "settings": {"search_path": ["a b", "ab"]}}
    with pytest.raises(UsageError, match="differ in punctuation only"):
        list_configurations(parse_experiment({"name": "x", "matrix": matrix}))


STUDY = {"workloads": ["e", "c", "load", "d", "b", "load-e", "f", "a"], "threads": {"load": [9], "run": [8], "e": [2]}}


def study(**changes: Any) -> Experiment:
    document = {"name": "x", "order": "study", "iterations": 2, "matrix": {**STUDY, **changes.pop("matrix", {})}}
    return parse_experiment({**document, **changes})


def test_the_study_goes_size_by_size_and_in_its_order_of_workloads() -> None:
    plan = make_plan(study(matrix={"workers": [1, 3]}))
    named = [run.configuration.resource.removeprefix("x-") for run in plan[:8]]
    assert named == [
        *("w1-t9-load", "w1-t8-a", "w1-t8-b", "w1-t8-c", "w1-t8-f", "w1-t8-d"),
        *("w1-t9-loade", "w1-t2-e"),
    ]
    assert [run.iteration for run in plan] == [1] * 8 + [2] * 8 + [1] * 8 + [2] * 8
    assert [run.configuration.workers for run in plan] == [1] * 16 + [3] * 16


def test_a_table_is_filled_where_records_were_added_or_the_size_changed() -> None:
    experiment = study(matrix={"workloads": ["a", "c", "d", "e"], "workers": [1, 2], "threads": [1]})
    plan = make_plan(experiment)
    once = ["filled", "kept", "kept", "filled"]
    assert plan_table_preparations(experiment, plan) == [*once, "filled", *once[1:], *once, "filled", *once[1:]]
    mixed = parse_experiment({"name": "x", "order": "sequential", "iterations": 2, "matrix": {"workloads": ["c", "a"]}})
    assert plan_table_preparations(mixed, make_plan(mixed)) == ["filled", "kept", "filled", "filled"]


def test_a_cluster_that_grows_moves_its_table() -> None:
    target = {"kind": "cluster", "nodes": [{"host": "c"}], "growth": "rebalance"}
    matrix = {"workloads": ["c"], "workers": [0, 1, 2], "threads": [1]}
    experiment = study(matrix=matrix, target=target, iterations=1)
    assert plan_table_preparations(experiment, make_plan(experiment)) == ["filled", "filled", "moved, kept"]


def test_load_generators_may_differ_between_workloads() -> None:
    matrix = {"workloads": ["a", "d"], "threads": [4], "drivers": {"run": [2], "d": [1]}}
    driver = {"kind": "ycsb", "home": "y"}
    chosen = list_configurations(parse_experiment({"name": "x", "driver": driver, "matrix": matrix}))
    assert [(one.resource, one.drivers) for one in chosen] == [("x-w0-t4-a-d2", 2), ("x-w0-t4-d-d1", 1)]
