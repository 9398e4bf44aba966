"""Names that the runner writes are the names that `ingest` reads."""

from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from citus_analysis.dataset.identity import name_facts
from citus_analysis.study_tree import (
    ClientName,
    NodeName,
    build_perf_report_path,
    build_sampler_output_path,
    build_server_log_path,
    parse_perf_iteration,
)
from tests.shards import count_examples

RESOURCES = st.from_regex(r"[A-Za-z0-9]+([_-][A-Za-z0-9]+){0,4}", fullmatch=True)
COUNTS = st.integers(0, 10**9)


@st.composite
def client_names(draw: st.DrawFn) -> ClientName:
    drivers = draw(st.none() | st.integers(1, 99))
    phase: Literal["load", "run"] = draw(st.sampled_from(["load", "run"]))
    return ClientName(
        role=draw(st.sampled_from(["main", "monitor"])),
        phase=phase,
        workload=draw(st.from_regex(r"[^_/\\\s]{1,12}", fullmatch=True)),
        threads=draw(COUNTS),
        records=draw(COUNTS),
        operations=None if phase == "load" else draw(COUNTS),
        iteration=draw(COUNTS),
        workers=draw(COUNTS),
        resource=draw(RESOURCES),
        drivers=drivers,
        part=None if drivers is None else draw(st.integers(0, 99)),
    )


@settings(max_examples=count_examples(300))
@given(client_names())
def test_every_name_of_a_client_is_read_back(name: ClientName) -> None:
    assert ClientName.parse(name.path.name, name.resource) == name
    assert name.path.parts[0] == name.resource
    facts = name_facts(f"{name.path.name}.gz", name.resource)
    assert facts == {fact: value for fact, value in vars(name).items() if value is not None}


@settings(max_examples=count_examples(100))
@given(resource=RESOURCES, sampler=st.sampled_from(["iostat", "vmstat", "perf-stat"]), node=COUNTS, iteration=COUNTS)
def test_every_name_of_a_node_is_read_back(resource: str, sampler: str, node: int, iteration: int) -> None:
    for path in (
        build_server_log_path(resource, str(node), iteration),
        build_sampler_output_path(resource, sampler, str(node), iteration),
    ):
        name = NodeName.parse(path.name)
        assert name is not None
        assert (name.node, name.iteration) == (str(node), iteration)
        assert ClientName.parse(path.name, resource) is None


def test_a_report_of_perf_is_about_no_node() -> None:
    assert NodeName.parse(build_perf_report_path("w2", "callgraph", 1).name) is None
    assert parse_perf_iteration(build_perf_report_path("w2", "report-graph", 3).name) == 3
    # Of the recording of another machine.
    assert NodeName.parse(build_perf_report_path("w2", "report-flat-2", 3).name) == NodeName("report-flat", "2", 3)
    assert parse_perf_iteration(build_perf_report_path("w2", "report-flat-2", 3).name) is None


@pytest.mark.parametrize("workload", ["", "tpc_c"])
def test_a_workload_that_could_not_be_read_back_is_refused(workload: str) -> None:
    with pytest.raises(ValueError, match="cannot be part of a file's name"):
        _ = ClientName("main", "load", workload, 1, 1, None, 1, 1, "x", 1, 0).path
