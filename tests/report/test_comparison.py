"""Set-ups side by side: only equal cells are compared, and what else differs is said."""

from dataclasses import replace
from datetime import UTC, datetime

import polars as pl
import pytest

from citus_analysis.errors import UnknownNameError
from citus_analysis.published import published, published_systems
from citus_analysis.published.study import list_published_numbers
from citus_analysis.report.comparison import (
    attribute_differences,
    comparison_panels,
    select_ratio_rows,
    state_comparisons,
    warn_of_order,
)
from citus_analysis.runs.selection import USUAL_QUESTION, Selection, select_runs
from citus_analysis.schema import TABLES
from citus_analysis.stats.findings import tabulate_findings
from tests.report.conftest import Tables


@pytest.fixture(scope="module")
def selection(recorded: Tables) -> Selection:
    return select_runs(recorded)


def test_variants_meet_the_base_in_equal_cells(selection: Selection) -> None:
    study = comparison_panels(selection, pool="records, operations")
    assert study.base == "usual set-up"
    rows = study.ratios.filter(operation="INSERT").rows_by_key("variant", named=True, unique=True)
    binary = rows["binary, citus.enable_binary_protocol=on"]
    # 4848.88 operations/s in one run against the mean 4032.46 of five.
    assert binary["ratio"] == pytest.approx(1.2025, abs=1e-4)
    assert (binary["n"], binary["n_base"], binary["verdict"]) == (1, 5, "inconclusive")
    assert binary["also_differs"] == "records and operations 30,000 against 60,000"
    assert "clients connect to the coordinator against workers" in rows["coord"]["also_differs"]
    assert (rows["local"]["workers"], rows["local"]["threads"]) == (1, 16)


def test_one_run_decides_nothing_and_the_report_says_so(selection: Selection) -> None:
    sentences = [*map(str, state_comparisons(comparison_panels(selection, pool=["records", "operations"])))]
    assert 3 <= len(sentences) <= 6
    assert " comparisons have a ratio without a verdict (ratios from " in sentences[0]
    assert sentences[0].endswith(" one side has a single run and so no spread.")


def test_repeated_variants_get_a_verdict() -> None:
    sentences = [
        *map(str, state_comparisons(comparison_panels(selection_of(text=[100, 101, 99], binary=[150, 151, 149]))))
    ]
    assert sentences == [
        "With “binary”, INSERT on 2 workers with 16 threads is 1.50 times as fast as with the usual set-up "
        "(1.47 to 1.53).",
        "The mean throughputs are 150 operations/s for binary (mean of 3 runs) and 100 operations/s for the usual "
        "set-up (mean of 3 runs).",
        "One set-up was compared with the usual set-up, in one comparison.",
    ]


def test_runs_made_one_set_after_the_other_are_said_to_be() -> None:
    turns, apart = [0, 2, 4, 1, 3, 5], [0, 1, 2, 3, 4, 5]
    of_turns, of_apart = (
        comparison_panels(selection_of(text=[100, 101, 99], binary=[150, 151, 149], minutes=minutes))
        for minutes in (turns, apart)
    )
    assert [*map(str, warn_of_order(of_turns))] == []
    assert of_turns.ratios["order"].to_list() == ["in turns"]
    assert [*map(str, warn_of_order(of_apart))] == [
        "The runs of both sides were not made in turns everywhere: in 1 comparison, all runs were made after those of "
        "the base (“binary”). A drift of the machine over time would look like a difference there, and cannot be "
        "excluded."
    ]
    assert of_apart.table()["order"].to_list() == ["after the base"]


def test_equivalent_variants_are_called_so() -> None:
    sentences = [
        *map(str, state_comparisons(comparison_panels(selection_of(text=[100, 101, 99], binary=[100, 101, 99]))))
    ]
    assert sentences[0] == (
        "With “binary”, INSERT on 2 workers with 16 threads is as fast as with the usual set-up, within 5 % "
        "(0.98 to 1.02 times)."
    )


def test_nothing_in_common_is_said(selection: Selection) -> None:
    alone = Selection(selection.runs.filter(pl.col("family").is_in(["binary", "local"])), selection.left_out)
    study = comparison_panels(alone)
    assert study.ratios.is_empty()
    assert str(state_comparisons(study)[0]).startswith("No set-up shares")


def test_an_unknown_base_is_named(selection: Selection) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'usual set-up'"):
        comparison_panels(selection, base="usual set-ip")


def test_rows_of_the_figure_are_named_shortly(selection: Selection) -> None:
    names = select_ratio_rows(comparison_panels(selection, pool="records,operations"), "SELECT")["name"].to_list()
    assert "binary (2 w, 16 t)" in names
    assert "local (1 w, 16 t)" in names


def test_every_published_system_appears_with_its_sources() -> None:
    systems = published_systems(published())
    assert {"citus", "aurora", "spanner", "postgres-xc"} <= set(systems["system"])
    assert systems["numbers"].sum() == published().height
    assert set(list_published_numbers(published(), ["throughput_ops_s"])["metric"]) == {"throughput_ops_s"}


def selection_of(text: list[float], binary: list[float], minutes: list[int] | None = None) -> Selection:
    rows = [("w2-t16-insert", x) for x in text] + [("w2-binary-t16-insert", x) for x in binary]
    runs = pl.DataFrame(
        {
            "run_id": [str(i) for i in range(len(rows))],
            "resource": [name for name, _ in rows],
            "system": "citus",
            "phase": "load",
            "workload": "A",
            "threads": 16,
            "workers": 2,
            "drivers": 1,
            "records": 1000,
            "operations": 1000,
            "throughput_ops_s": [float(x) for _, x in rows],
            "status": "ok",
            "start_time": [datetime(2026, 11, 22, 18, minute, tzinfo=UTC) for minute in minutes or range(len(rows))],
        }
    )
    return select_runs(Tables(runs=TABLES["runs"].conform(runs)))


def test_a_difference_without_an_account_is_told_with_the_reason() -> None:
    selection = selection_of(text=[100, 101, 99], binary=[150, 151, 149])
    study = comparison_panels(selection)
    (one,) = study.comparisons
    assert one.sides is not None
    other, base = one.sides
    sizes = other, base.with_columns(records=pl.Series([1000, 2000, 1000]))
    accounts, unexplained = attribute_differences([replace(one, sides=sizes)], Tables(), USUAL_QUESTION)
    assert accounts == []
    assert [*map(str, unexplained)] == [
        "No account of where the difference of binary comes from: the runs of usual set-up differ in records (1000 and "
        "2000)."
    ]
    with_tables = Tables(runs=selection.runs)
    _, unexplained = attribute_differences(study.comparisons, with_tables, USUAL_QUESTION)
    assert [*map(str, unexplained)] == [
        "No account of where the difference of binary comes from: statements were not traced in two or more runs of "
        "each side."
    ]


def test_runs_of_one_set_up_are_shown_and_nothing_is_said_to_be_incomparable(recorded: Tables) -> None:
    study = comparison_panels(select_runs(recorded, "w2-t16-*"))
    assert [*map(str, state_comparisons(study))] == [
        "All runs have the same set-up, usual set-up; there is nothing to compare."
    ]
    assert study.ratios.is_empty()
    assert dict(study.means.select("operation", "n").iter_rows()) == {"INSERT": 5, "SELECT": 5}


def test_a_finding_carries_the_numbers_of_its_sentence() -> None:
    found = state_comparisons(comparison_panels(selection_of(text=[100, 101, 99], binary=[150, 151, 149])))
    stated = tabulate_findings(found).filter(kind="decided")
    assert stated.select("subject", "base", "n", "verdict").rows() == [("binary", "usual set-up", 3, "faster")]
    (ratio, low, high) = stated.select("estimate", "low", "high").row(0)
    assert f"is {ratio:.2f} times as fast as with the usual set-up ({low:.2f} to {high:.2f})" in stated["sentence"][0]
