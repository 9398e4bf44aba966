"""Set-ups: which runs share a series, namely none that differ in anything but the axis."""

import polars as pl
import pytest

from citus_analysis.runs.selection import comparability, select_runs
from citus_analysis.runs.set_ups import (
    add_operation_column,
    add_setup_descriptions,
    derive_family,
    describe_operations,
    format_setup_value,
)
from citus_analysis.schema import TABLES
from citus_analysis.stats import compare_runs
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
    assert derive_family(resource, workers=workers, threads=threads, drivers=drivers) == family


def test_settings_that_differ_belong_to_the_set_up(recorded: Tables) -> None:
    runs = select_runs(recorded).runs
    settings = dict(runs.select("resource", "settings").unique().iter_rows())
    assert settings["w2-binary-t16-insert"] == "citus.enable_binary_protocol=on"
    assert settings["w2-t16-insert"] == ""
    assert set(select_runs(recorded, "w2-binary*").runs["settings"]) == {""}


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
    assert {derive_family(name, workers=0, threads=4) for name in runs["resource"]} != {"laptop"}  # names would not do


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


def test_rate_limits_and_arrivals_are_part_of_the_set_up() -> None:
    limits = {"rate_limited": [False, True, True, None], "target_ops_s": [None, 250.0, None, None]}
    runs = add_setup_descriptions(pl.DataFrame({"resource": ["r"] * 4, "threads": [4] * 4, **limits}))
    assert runs["limit"].to_list() == ["", "at most 250/s", "limited rate", ""]
    assert runs["arrivals"].to_list() == ["closed", "partly open", "partly open", "closed"]
    assert runs["variant"].to_list() == ["r", "r, at most 250/s", "r, limited rate", "r"]


def test_columns_that_are_there_stay_as_they_are() -> None:
    runs = pl.DataFrame({"resource": ["w2-t4-x"], "family": ["mine"], "settings": ["jit=on"], "variant": ["v"]})
    assert add_setup_descriptions(runs).equals(runs)


@pytest.mark.parametrize(
    ("phases", "workloads", "operations", "words"),
    [
        (["load", "load"], ["A", "C"], None, "INSERT"),
        (["run"], ["C"], ["READ"], "SELECT"),
        (["run", "load"], ["C", "C"], None, "SELECT, INSERT"),
        ([None], [None], None, "unknown operation"),
    ],
)
def test_operations_are_named_by_phase_and_workload(
    phases: list[str | None], workloads: list[str | None], operations: list[str] | None, words: str
) -> None:
    runs = pl.DataFrame({"phase": phases, "workload": workloads}, schema={"phase": pl.String, "workload": pl.String})
    if operations:
        runs = runs.with_columns(operation=pl.Series(operations))
    assert describe_operations(runs) == words


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [("family", "", "usual set-up"), ("limit", "", "none"), ("threads", None, "unknown"), ("system", "citus", "citus")],
)
def test_values_are_shown_as_users_enter_them(column: str, value: object, text: str) -> None:
    assert format_setup_value(column, value) == text


def test_the_share_of_the_cpu_is_a_dimension(recorded: Tables) -> None:
    """Nodes that are held to other shares are another set-up, which can be compared and is in no series of theirs."""
    runs = recorded.table("runs").filter(pl.col("resource").is_in(["w1-t16-insert", "w2-t16-insert"]))
    runs = runs.with_columns(set_up=pl.lit("grid"), workers=pl.lit(2, pl.Int32))
    held = {"w1-t16-insert": "0.15", "w2-t16-insert": "0.3"}
    settings = pl.DataFrame({"resource": list(held), "name": "cpu_per_node", "value": list(held.values())})
    frame = add_setup_descriptions(add_operation_column(runs), settings)
    assert set(frame["variant"]) == {"grid, 0.15 cores per node", "grid, 0.3 cores per node"}
    (comparison,) = compare_runs(frame, by="cpu_per_node")
    assert (comparison.label_a, comparison.label_b) == ("0.3", "0.15")
    assert "cpu_per_node" in comparability(frame, "drivers").strata
    assert "cpu_per_node" not in add_setup_descriptions(runs, settings.with_columns(name=pl.lit("hardware"))).columns
