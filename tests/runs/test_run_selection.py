"""The runs that enter a report, and those that do not."""

from collections.abc import Sequence

import pytest

from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.runs.selection import select_runs
from tests.report.conftest import Tables


def test_failed_runs_are_left_out_and_named(recorded: Tables) -> None:
    selection = select_runs(recorded)
    assert selection.left_out["resource"].to_list() == [
        "w2-fail-clients",
        "w2-fail-dup-insert",
        "w2-fail-stop-insert",
        "w2-fail-stop-select",
    ]
    assert set(selection.left_out["status"]) == {"failed", "degraded"}
    assert set(selection.runs["status"]) == {"ok"}
    assert selection.hardware == ("one machine, 2 cores",)


def test_the_node_that_clients_connect_to_is_read_from_the_command_line(recorded: Tables) -> None:
    entries = dict(select_runs(recorded).runs.select("resource", "entry").unique().iter_rows())
    assert entries["w1-t16-insert"] == "coordinator"
    assert entries["w1-local-t16-insert"] == "workers"
    assert entries["w2-coord-t16-select"] == "coordinator"


@pytest.mark.parametrize(
    ("resources", "phase", "workload", "count"),
    [
        ("w2-t16-*", "all", "", 10),
        ("w2-t16-*", "load", "", 5),
        ("w2-t16-*,w1-t4-insert", "load", "C", 8),
        ("w2-t16-*", "run", "C", 5),
    ],
)
def test_runs_are_chosen(recorded: Tables, resources: str, phase: str, workload: str, count: int) -> None:
    assert select_runs(recorded, resources, phase, workload).runs.height == count


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (("nothing*", "all", ""), r"^no resource is named 'nothing\*'"),
        (("w2-t16-*, w2-t16-inser", "all", ""), "did you mean 'w2-t16-insert'"),
        (("*", "all", "c"), r"^no workload is named 'c' \(did you mean 'C'"),
    ],
)
def test_names_that_are_not_there_are_refused_with_the_closest(
    recorded: Tables, choice: Sequence[str], message: str
) -> None:
    with pytest.raises(UnknownNameError, match=message):
        select_runs(recorded, *choice)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (("w2-fail-clients", "all", ""), "no run with status ok"),
        (("w2-t16-insert", "run", "C"), "no run has phase=run; phases are load"),
    ],
)
def test_nothing_left_is_an_error_that_says_what_was_asked(recorded: Tables, choice: Sequence[str], said: str) -> None:
    with pytest.raises(InsufficientDataError, match=said):
        select_runs(recorded, *choice)
