"""Pairs that the base's cells leave out: within an experiment, and at an equal amount of CPU."""

import polars as pl
import pytest

from citus_analysis.report.comparison import (
    compare_other_pairs,
    comparison_panels,
    state_other_pairs,
    state_unmatched_set_ups,
    tabulate_other_pairs,
)
from citus_analysis.runs.selection import USUAL_QUESTION, select_runs
from citus_analysis.schema import TABLES
from tests.report.conftest import Tables

#: Resource, system, set-up, workers, protocol, cores of a node, experiment, tool, throughput of three runs.
SYSTEMS = [
    ("any-w4-t8-c", "citus", "any node", 4, None, "0.1", "grid", "ycsb", (100.0, 101.0, 99.0)),
    ("any-w8-t8-c", "citus", "any node", 8, None, "0.1", "grid", "ycsb", (200.0, 201.0, 199.0)),
    ("one-w0-t8-c", "postgresql", "one server", 0, None, "0.5", "one", "ycsb", (300.0, 303.0, 297.0)),
    ("p-w4-t8-c-simple", "citus", "pgbench", 4, "simple", "0.1", "protocol", "pgbench", (90.0, 91.0, 89.0)),
    ("p-w4-t8-c-prepared", "citus", "pgbench", 4, "prepared", "0.1", "protocol", "pgbench", (120.0, 121.0, 119.0)),
]


@pytest.fixture(scope="module")
def tables() -> Tables:
    runs: list[dict[str, object]] = []
    settings: list[dict[str, object]] = []
    nodes: list[dict[str, object]] = []
    clients: list[dict[str, object]] = []
    for resource, system, set_up, workers, protocol, cores, experiment, tool, values in SYSTEMS:
        for index, value in enumerate(values):
            run = {"run_id": f"{resource}/{index}", "resource": resource, "iteration": index}
            clients.append({**run, "role": "main", "tool": tool})
            sizes = {"workers": workers, "threads": 8, "drivers": 1, "records": 9, "operations": 9}
            stated = {"system": system, "set_up": set_up, "phase": "run", "workload": "C", "query_mode": protocol}
            runs.append({**run, **stated, **sizes, "throughput_ops_s": value, "status": "ok"})
        facts = {"experiment": experiment, "cpu_per_node": cores}
        settings += [{"resource": resource, "name": name, "value": value} for name, value in facts.items()]
        nodes += [{"resource": resource, "node": str(node)} for node in range(workers + 1) if workers]
    rows = {"runs": runs, "settings": settings, "nodes": nodes, "clients": clients}
    return Tables(**{name: TABLES[name].conform(pl.DataFrame(found)) for name, found in rows.items()})


def test_protocols_meet_each_other_and_one_server_the_cluster_with_as_much_cpu(tables: Tables) -> None:
    selection = select_runs(tables)
    base = comparison_panels(selection).base
    pairs = compare_other_pairs(selection, tables, base, USUAL_QUESTION)
    assert [*map(str, state_other_pairs(pairs))] == [
        "With “simple”, SELECT with 8 threads is 0.75 times as fast as with “prepared” (0.73 to 0.77), with all other "
        "settings of protocol.",
        "On “postgresql, one server” (one server that may use 0.5 cores), SELECT with 8 threads is 3.0 times as fast "
        "as on “citus, any node” (4 workers and a coordinator that may use 0.1 cores each) (2.9 to 3.1).",
    ]
    shown = tabulate_other_pairs(pairs)
    assert shown["verdict"].to_list() == ["slower", "faster"]
    assert shown["runs"].to_list() == ["3 and 3", "3 and 3"]


def test_the_page_says_once_where_a_set_up_is_compared(tables: Tables) -> None:
    selection = select_runs(tables)
    study = comparison_panels(selection)
    elsewhere = {one.comparison.label_a for one in compare_other_pairs(selection, tables, study.base, USUAL_QUESTION)}
    assert study.alone == ("postgresql, one server",)
    assert [*map(str, state_unmatched_set_ups(study, elsewhere))] == []
    assert next(map(str, state_unmatched_set_ups(study))).endswith("in common with it: postgresql, one server.")


def test_load_generators_of_another_kind_are_a_difference(tables: Tables) -> None:
    differs = comparison_panels(select_runs(tables)).ratios["also_differs"]
    assert differs.to_list() == ["load generator pgbench against ycsb"] * 2


def test_nothing_is_compared_without_the_facts(tables: Tables) -> None:
    bare = Tables(runs=tables.table("runs"))
    selection = select_runs(bare)
    assert compare_other_pairs(selection, bare, comparison_panels(selection).base, USUAL_QUESTION) == []
    assert tabulate_other_pairs([]).is_empty()


def test_unequal_amounts_of_cpu_do_not_meet(tables: Tables) -> None:
    settings = tables.table("settings").with_columns(value=pl.col("value").replace("0.5", "0.7"))
    others = Tables(**(tables.tables | {"settings": settings}))
    selection = select_runs(others)
    pairs = compare_other_pairs(selection, others, comparison_panels(selection).base, USUAL_QUESTION)
    assert [one.common for one in pairs] == ["all other settings of protocol"]
