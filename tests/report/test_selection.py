"""Which runs share a series: none that differ in anything but the axis."""

from collections.abc import Sequence

import polars as pl
import pytest

from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.report.scalability_text import caveats
from citus_analysis.runs import family_of
from citus_analysis.runs.naming import series_names
from citus_analysis.runs.run_selection import select_runs
from citus_analysis.schema import TABLES
from tests.report.conftest import Tables


@pytest.mark.parametrize(
    ("resource", "workers", "threads", "drivers", "family"),
    [
        ("w2-t16-insert", 2, 16, 1, ""),
        ("w4-t64-select", 4, 64, 1, ""),
        ("w2-binary-t16-insert", 2, 16, 1, "binary"),
        ("w1-local-t16-select", 1, 16, 1, "local"),
        ("w2-drivers2-insert", 2, 16, 2, "drivers2"),
        ("V3_citus_2_nodes", 2, 100, 1, "V3-citus-2-nodes"),
        ("w2-t16-insert", 4, 64, 1, "w2-t16"),
        ("w2-t8-x", 2, 16, 2, "x"),
    ],
)
def test_families_are_names_without_what_is_known(
    resource: str, workers: int, threads: int, drivers: int, family: str
) -> None:
    assert family_of(resource, workers=workers, threads=threads, drivers=drivers) == family


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


def test_settings_that_differ_belong_to_the_set_up(recorded: Tables) -> None:
    runs = select_runs(recorded).runs
    settings = dict(runs.select("resource", "settings").unique().iter_rows())
    assert settings["w2-binary-t16-insert"] == "citus.enable_binary_protocol=on"
    assert settings["w2-t16-insert"] == ""
    assert set(select_runs(recorded, "w2-binary*").runs["settings"]) == {""}


def test_the_node_that_clients_connect_to_is_read_from_the_command_line(recorded: Tables) -> None:
    entries = dict(select_runs(recorded).runs.select("resource", "entry").unique().iter_rows())
    assert entries["w1-t16-insert"] == "coordinator"
    assert entries["w1-local-t16-insert"] == "workers"
    assert entries["w2-coord-t16-select"] == "coordinator"


def test_an_entry_that_changes_along_a_series_is_said(recorded: Tables) -> None:
    runs = select_runs(recorded, "w?-t*").runs
    assert caveats(runs, "workers", ["threads"]) == [
        "In the main grid, clients connect to different nodes as workers change (at 1 through the coordinator; "
        "at 2 and 4 through the workers): workers are not the only difference between these runs."
    ]
    assert caveats(runs, "threads", ["workers"]) == []


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


@pytest.mark.parametrize("choice", [("w2-fail-clients", "all", ""), ("w2-t16-insert", "run", "C")])
def test_nothing_left_is_an_error_that_says_what_was_asked(recorded: Tables, choice: Sequence[str]) -> None:
    with pytest.raises(InsufficientDataError, match="no run with status ok"):
        select_runs(recorded, *choice)


def test_names_say_only_what_differs() -> None:
    series = pl.DataFrame({"system": ["citus"] * 3, "family": ["", "", "binary"], "threads": [4, 16, 16]})
    assert series_names(series).to_list() == ["main grid, 4 threads", "main grid, 16 threads", "binary, 16 threads"]
    assert series_names(series.tail(1)).to_list() == ["binary"]
    assert series_names(series.head(1)).to_list() == ["citus"]
    assert series_names(series, ignore=["family"]).to_list() == ["4 threads", "16 threads", "16 threads"]


def launched(recorded: Tables, **changes: pl.Expr) -> Tables:
    """The four runs of a grid as the runner describes them, monitored or not, whatever their resources are named."""
    four = recorded.table("runs").filter(pl.col("resource").str.contains(r"^w2-t(4|16)-(insert|select)$"))
    first = four.filter(pl.col("iteration") == 1).with_columns(
        resource=pl.format("{}-t{}-{}", pl.lit("laptop-w0"), "threads", pl.col("workload").str.to_lowercase()),
        set_up=pl.lit("laptop"),
        workers=pl.lit(0, pl.Int32),
        monitored=pl.lit(value=True),
    )
    return Tables(runs=TABLES["runs"].conform(first.with_columns(**changes)))


def test_a_stated_set_up_is_the_family_whatever_the_resource_is_called(recorded: Tables) -> None:
    runs = select_runs(launched(recorded)).runs
    assert runs.height == 4
    assert set(runs["family"]) == {"laptop"}
    assert {family_of(name, workers=0, threads=4) for name in runs["resource"]} != {"laptop"}  # names would not do


def test_monitored_runs_and_others_are_two_variants(recorded: Tables) -> None:
    runs = select_runs(launched(recorded, monitored=pl.col("threads") == 4)).runs
    variants = dict(runs.select("threads", "variant").unique().iter_rows())
    assert variants == {4: "laptop, monitored", 16: "laptop, unmonitored"}
    assert set(runs["family"]) == {"laptop"}


def test_a_setting_that_names_the_set_up_is_not_named_twice(recorded: Tables) -> None:
    fsync = pl.when(pl.col("threads") == 4).then(pl.lit("on")).otherwise(pl.lit("off"))
    tables = launched(recorded, set_up=pl.format("laptop fsync={}", fsync))
    resources = tables.table("runs").select("resource", value=fsync).unique()
    settings = pl.concat(
        [
            resources.select("resource", name=pl.lit("settings.fsync"), value="value"),
            resources.select("resource", name=pl.lit("varied"), value=pl.lit("fsync, jit")),
        ]
    )
    tables.tables["settings"] = TABLES["settings"].conform(settings)
    runs = select_runs(tables).runs
    assert set(runs["family"]) == {"laptop fsync=on", "laptop fsync=off"}
    assert set(runs["settings"]) == {""}


def test_a_server_without_workers_is_called_one_server() -> None:
    series = pl.DataFrame({"family": ["laptop"] * 3, "workers": [0, 1, 2]})
    assert series_names(series).to_list() == ["one server", "1 worker", "2 workers"]
