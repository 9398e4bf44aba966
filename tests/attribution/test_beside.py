"""What stands beside an account: functions and plans that differ are named, and nothing without a difference."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.attribution.explanation import explain
from citus_analysis.attribution.function_changes import ALL_FUNCTIONS, compare_weighted_counts, stack_changes
from citus_analysis.attribution.observed import observe_runs
from citus_analysis.attribution.plan_differences import compare_plans
from citus_analysis.dataset import Dataset
from citus_analysis.plots.perf_figures import plot_stack_changes
from citus_analysis.runs.selection import select_runs
from tests.conftest import read_once
from tests.documentation.blocks import blocks_run_by
from tests.documentation.test_as_typed import call_block

PROFILED = Path(__file__).parents[1] / "data" / "faults" / "profiled"
#: Functions of a sequential scan, which an index made unnecessary.
OF_SCAN = {"heapgetpage", "heap_getnextslot", "HeapTupleSatisfiesVisibility", "ExecStoreBufferHeapTuple"}
COUNT = "SELECT count(*), sum(v) FROM items WHERE part = ?"


@pytest.fixture(scope="module")
def profiled(user_cache: Path) -> Dataset:
    return ca.open_dataset(read_once(PROFILED, user_cache))


def test_functions_of_the_scan_take_more_cpu(profiled: Dataset) -> None:
    found = ca.why(profiled, "set_up=base|again", "set_up=no-index")
    assert found.stacks is not None
    assert (found.stacks.unit, found.stacks.event, found.stacks.recordings) == ("µs", "cpu-clock", (8, 4))
    sure = found.stacks.functions.filter("decided")
    assert OF_SCAN >= set(sure["function"]) >= {"heapgetpage", "heap_getnextslot"}
    assert (sure["low"] > 0).all()
    assert any("heapgetpage 5" in text and "an association, not a cause" in text for text in found.sentences)


def test_widths_of_a_tree_are_the_time_of_the_other_side(profiled: Dataset) -> None:
    stacks = ca.why(profiled, "set_up=base|again", "set_up=no-index").stacks
    assert stacks is not None
    total = stacks.functions.filter(function=ALL_FUNCTIONS)
    roots = stacks.tree.filter(depth=0)
    for side in ("base", "other"):
        assert roots[side].sum() == pytest.approx(total[side].item(), rel=1e-6)
    callers = stacks.tree.select(caller_id="frame_id", above="other")
    inside = (
        stacks.tree.join(callers, on="caller_id").group_by("caller_id").agg(pl.col("other").sum(), pl.first("above"))
    )
    assert (inside["other"] <= inside["above"] + 1e-9).all()
    assert {"heap_hot_search_buffer", "heap_page_prune_opt"} & set(stacks.gone["frame"])


def test_the_figure_is_as_wide_as_the_other_side_and_red_for_more(profiled: Dataset) -> None:
    stacks = ca.why(profiled, "set_up=base|again", "set_up=no-index").stacks
    assert stacks is not None
    (icicle,) = plot_stack_changes(stacks.tree, unit=stacks.unit, base="A", other="B").data
    assert sum(icicle.values) == pytest.approx(stacks.tree.filter(depth=0)["other"].sum(), rel=1e-3)
    assert icicle.labels[0].startswith("all: A 1,389, B 1,702 µs of CPU time per operation")
    scale = icicle.marker
    assert (scale.cmin, scale.colorscale[0][1]) == (-scale.cmax, "#2166ac")
    assert "µs of CPU time per operation" in scale.colorbar.title.text
    colours = dict(zip(icicle.labels, scale.colors, strict=True))
    assert colours["heapgetpage"] > 10 > 0 > colours["recently_deleted"]


def test_the_plan_of_the_statement_changed(profiled: Dataset) -> None:
    found = ca.why(profiled, "set_up=base|again", "set_up=no-index")
    assert found.plans is not None
    changed = found.plans.statements.filter("changed")
    assert changed["statement"].to_list() == [COUNT]
    row = changed.row(0, named=True)
    assert row["before"] == "Bitmap Heap Scan on items, Bitmap Index Scan using items_part_idx"
    assert row["after"] == "Seq Scan on items"
    assert (row["base_rows"], row["other_rows"]) == (100, 50_000)
    assert row["other_ms"] > 10 * row["base_ms"]
    assert any(f"{COUNT} has another plan" in text for text in found.sentences)
    hashes = set(profiled.table("statements")["statement_fingerprint"].cast(pl.String))
    assert row["fingerprint"] in hashes


def test_equal_sides_name_no_function_and_no_plan(profiled: Dataset) -> None:
    """The base against itself, and divisions of its runs at random."""
    random = np.random.default_rng(5)
    runs = select_runs(profiled).runs.filter(pl.col("set_up").is_in(["base", "again"]))
    named = 0
    for _ in range(20):
        order = random.permutation(runs.height)
        half = runs.height // 2
        sides = observe_runs((profiled, profiled), (runs[order[:half]], runs[order[half:]]), ("A", "B"))
        stacks, plans = stack_changes(sides, level=0.95), compare_plans(sides, level=0.95)
        assert stacks is not None
        assert plans is not None
        assert not plans.statements["changed"].any()
        named += stacks.functions["decided"].any()
    assert named <= 1


def test_shares_are_compared_where_nothing_says_that_whole_runs_were_recorded(profiled: Dataset) -> None:
    nothing = profiled.table("settings").clear()

    class Less:
        def table(self, name: str) -> pl.DataFrame:
            return nothing if name == "settings" else profiled.table(name)

    runs = select_runs(profiled).runs
    base, other = (runs.filter(pl.col("set_up").is_in(names)) for names in (["base", "again"], ["no-index"]))
    found = explain(observe_runs((Less(), Less()), (base, other), ("base", "no-index")))
    assert found.stacks is not None
    assert found.stacks.unit == "%"
    assert set(found.stacks.functions.filter("decided")["function"]) & OF_SCAN
    assert found.stacks.tree.filter(depth=0)["other"].sum() == pytest.approx(100)
    assert any("points of percent more of them" in text and "by their share" in text for text in found.sentences)


def test_only_nodes_that_perf_recorded_in_all_runs_are_compared(profiled: Dataset) -> None:
    """As if each run had been on two nodes, and one of them had been recorded in one run less."""
    stacks = profiled.table("perf_stacks")
    less = stacks.filter(~pl.col("run_id").str.ends_with("-i1") | pl.col("resource").str.starts_with("base"))
    two = pl.concat([stacks.with_columns(node=pl.lit("0")), less.with_columns(node=pl.lit("1"))])

    class Two:
        def table(self, name: str) -> pl.DataFrame:
            return two if name == "perf_stacks" else profiled.table(name)

    runs = select_runs(profiled).runs
    base, other = (runs.filter(set_up=name) for name in ("base", "no-index"))
    found = stack_changes(observe_runs((Two(), Two()), (base, other), ("base", "no-index")), level=0.95)
    whole = stack_changes(observe_runs((profiled, profiled), (base, other), ("base", "no-index")), level=0.95)
    assert found is not None
    assert whole is not None
    assert found.notes == (
        "perf recorded these nodes in all runs: 0 and 1 of base; 0 of no-index; what others took is not compared",
    )
    mine, all_of_it = (one.functions.filter(function=ALL_FUNCTIONS).row(0, named=True) for one in (found, whole))
    assert mine["base"] == pytest.approx(2 * all_of_it["base"])
    assert mine["other"] == pytest.approx(all_of_it["other"])


def test_one_recording_on_each_side_decides_nothing(profiled: Dataset) -> None:
    """Both sides need two traced runs; the stacks of all but one are taken away."""
    first = profiled.table("perf_stacks").filter(pl.col("run_id").str.ends_with("-i1"))

    class Less:
        def table(self, name: str) -> pl.DataFrame:
            return first if name == "perf_stacks" else profiled.table(name)

    runs = select_runs(profiled).runs
    base, other = (runs.filter(set_up=name) for name in ("base", "no-index"))
    found = explain(observe_runs((Less(), Less()), (base, other), ("base", "no-index")))
    assert found.stacks is not None
    assert found.stacks.recordings == (1, 1)
    assert not found.stacks.functions["decided"].any()
    assert any("do not contain how runs of a set-up differ" in text for text in found.sentences)


def test_runs_that_were_recorded_on_different_nodes_are_not_compared(profiled: Dataset) -> None:
    apart = profiled.table("perf_stacks").with_columns(node="run_id")

    class Apart:
        def table(self, name: str) -> pl.DataFrame:
            return apart if name == "perf_stacks" else profiled.table(name)

    runs = select_runs(profiled).runs
    base, other = (runs.filter(set_up=name) for name in ("base", "no-index"))
    found = explain(observe_runs((Apart(), Apart()), (base, other), ("base", "no-index")))
    assert found.stacks is not None
    assert found.stacks.functions.is_empty()
    assert any("none of base; none of no-index" in text for text in found.sentences)


@pytest.mark.parametrize("kept", ["base-w0-t4-mix", "none"])
def test_a_side_without_perf_is_one_sentence_or_none(profiled: Dataset, kept: str) -> None:
    mine = profiled.table("perf_stacks").filter(pl.col("resource") == kept)

    class Less:
        def table(self, name: str) -> pl.DataFrame:
            return mine if name == "perf_stacks" else profiled.table(name)

    runs = select_runs(profiled).runs
    base, other = (runs.filter(set_up=name) for name in ("base", "no-index"))
    found = explain(observe_runs((Less(), Less()), (base, other), ("base", "no-index")))
    assert any("Perf recorded no stacks of no-index" in text for text in found.sentences) == (kept != "none")
    assert not any("By perf's samples" in text for text in found.sentences)


@pytest.mark.parametrize("runs", [(3, 3), (5, 5), (6, 3), (1, 4)])
@pytest.mark.parametrize(("together", "alone"), [(0.0, 0.0), (0.15, 0.0), (0.05, 0.1)])
def test_functions_that_do_not_differ_are_named_in_a_twentieth(
    runs: tuple[int, int], together: float, alone: float
) -> None:
    """Counts of 60 functions, with a spread of all functions of a run and one of each function."""
    random = np.random.default_rng(7)
    rounds, named = 200, 0
    for _ in range(rounds):
        means = np.minimum(random.pareto(1.0, 60) * 20 + 5, 2000)
        pair = [random.poisson(_spread(random, means, n, together, alone)).astype(float) for n in runs]
        named += bool(compare_weighted_counts(pair, pair, 0.95)["decided"].any())
    # Three standard errors above 5 %.
    assert named / rounds <= 0.05 + 3 * (0.05 * 0.95 / rounds) ** 0.5


def _spread(random: np.random.Generator, means: np.ndarray, runs: int, together: float, alone: float) -> np.ndarray:
    of_runs = together * random.standard_normal(runs)[None]
    return means[:, None] * np.exp(of_runs + alone * random.standard_normal((means.size, runs)))


def test_a_known_shift_is_found_and_covered() -> None:
    random = np.random.default_rng(8)
    found, covered, rounds = 0, 0, 100
    for _ in range(rounds):
        means = np.minimum(random.pareto(1.0, 60) * 20 + 5, 2000)
        shifted = means + 300 * (np.arange(60) == 0)
        # A sample stands for 2 µs.
        counts = [random.poisson(_spread(random, one, 3, 0.03, 0.03)).astype(float) for one in (means, shifted)]
        row = compare_weighted_counts([2 * one for one in counts], counts, 0.95)
        found += bool(row["decided"][0])
        covered += row["low"][0] <= 600 <= row["high"][0]
    assert found >= 95
    assert covered >= 95


@pytest.mark.usefixtures("kept_kernels")
def test_the_command_of_the_page_as_typed(profiled: Dataset, user_cache: Path, tmp_path: Path) -> None:
    """It finds what it reads in the folder of the report, as when it is typed a second time."""
    (block,) = blocks_run_by(__file__)
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "dataset").symlink_to(profiled.path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "data").symlink_to(PROFILED.parents[1])
    call_block(block, tmp_path, XDG_CACHE_HOME=str(user_cache))
    page = (tmp_path / "reports" / "why.html").read_text(encoding="utf-8")
    assert "differential flame graph" in page
    assert f"{COUNT} has another plan" in page
    assert {"stacks.csv", "functions.csv", "plans.csv", "plan_nodes.csv", "gone.csv"} <= {
        one.name for one in (tmp_path / "reports").rglob("*.csv")
    }


def test_the_account_as_json_holds_what_stands_beside(profiled: Dataset) -> None:
    found = json.loads(json.dumps(ca.why(profiled, "set_up=base", "set_up=no-index").to_dict()))
    assert {"function", "difference", "low", "high", "base_samples"} <= set(found["functions"][0])
    assert found["plans"][0]["changed"]
