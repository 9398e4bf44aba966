"""Runs with an injected fault: the account names what was done, where it was done, and names nothing without one."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.attribution import Explanation
from citus_analysis.attribution.explanation import explain
from citus_analysis.attribution.observed import observe_runs
from citus_analysis.cli import main
from citus_analysis.dataset import Dataset
from citus_analysis.errors import InsufficientDataError, UsageError
from citus_analysis.explorer import Exploration, StatementSelection
from citus_analysis.runs.selection import select_runs
from tests.conftest import read_once
from tests.documentation.blocks import blocks_run_by
from tests.documentation.test_as_typed import call_block
from tests.shards import take_part

FAULTS = Path(__file__).parents[1] / "data" / "faults"
BASE = "set_up=base|again"


Why = Callable[[str, str], Explanation]


class Found(NamedTuple):
    """What is expected of the largest cause, and of the share (%) that no traced statement explains."""

    unexplained: int
    effect: str
    segments: tuple[str, ...] = ()
    node: str = ""


#: Fault -> what is unexplained, its effect, and where it was injected.
NAMED = {
    "cpu-hog": Found(14, "node", (), "2"),
    "lock-holder": Found(-4, "node", ("child_us",), "2"),
    "slow-disk": Found(9, "node", ("commit_us",), "3"),
    "network": Found(-3, "node", ("between_us", "commit_us"), "4"),
    "no-index": Found(-1, "segment", ("child_us",)),
    "more-counts": Found(6, "mix"),
    "pool": Found(-7, "segment", ("connect_us", "between_us")),
}
STATED = (Path(__file__).parents[2] / "docs" / "why.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def usual(user_cache: Path) -> Dataset:
    return ca.open_dataset(read_once(FAULTS / "usual-disks", user_cache))


@pytest.fixture(scope="module")
def delayed(user_cache: Path) -> Dataset:
    return ca.open_dataset(read_once(FAULTS / "delayed-disks", user_cache))


@pytest.fixture(scope="module")
def why(usual: Dataset) -> Why:
    """The account of two sides, made once for all tests."""
    return cache(partial(ca.why, usual))


@pytest.mark.parametrize("fault", NAMED)
def test_the_injected_fault_is_named_first(why: Why, fault: str) -> None:
    found = why(BASE, f"set_up={fault}")
    expected = NAMED[fault]
    assert found.decided
    first = found.named[0]
    assert first.effect == expected.effect
    assert not expected.segments or first.segment in expected.segments
    assert first.node == expected.node
    assert f"node {expected.node}" in found.sentences[1] or not expected.node
    assert round(100 * found.unexplained_us / found.difference_us) == expected.unexplained
    assert f"| {expected.unexplained} % |" in STATED


def test_commits_that_need_not_wait_are_named(delayed: Dataset) -> None:
    found = ca.why(delayed, BASE, "set_up=async-commit")
    assert found.comparison.verdict == "faster"
    assert (found.named[0].effect, found.named[0].segment) == ("segment", "commit_us")
    assert found.named[0].statement_kind == "update"
    assert found.changes.rows() == [("synchronous_commit", "on", "off")]


def test_twice_the_shards_cost_time_between_parents_and_children(why: Why) -> None:
    """Three runs do not suffice to be sure of the part; it is the largest all the same."""
    found = why(BASE, "set_up=shards")
    assert found.decided
    assert (found.causes[0].effect, found.causes[0].segment) == ("segment", "between_us")
    assert found.causes[0].statement_kind == "select"
    assert ("shard_count", "8", "16") in found.changes.rows()


@pytest.mark.parametrize("fault", [*NAMED, "again", "shards", "unbalanced"])
def test_terms_add_up_to_the_difference(why: Why, fault: str) -> None:
    found = why("set_up=base" if fault == "again" else BASE, f"set_up={fault}")
    assert found.terms["estimate_us"].sum() == pytest.approx(found.difference_us, rel=1e-9, abs=1e-6)
    assert sum(cause.estimate_us for cause in found.causes) == pytest.approx(found.difference_us, rel=1e-9, abs=1e-6)
    assert found.to_dict()["difference_us"] == found.difference_us


def test_equal_sides_are_not_explained(usual: Dataset, delayed: Dataset) -> None:
    """The base against itself, and 40 divisions of its runs at random."""
    random = np.random.default_rng(5)
    divisions = []
    for dataset, rounds in ((usual, 30), (delayed, 10)):
        assert not ca.why(dataset, "set_up=base", "set_up=again").named
        runs = select_runs(dataset).runs.filter(pl.col("set_up").is_in(["base", "again"]))
        divisions += [(dataset, runs[random.permutation(runs.height)]) for _ in range(rounds)]
    some = take_part(divisions)
    named = uneven = 0
    for dataset, runs in some:
        half = runs.height // 2
        found = explain(observe_runs((dataset, dataset), (runs[:half], runs[half:]), ("A", "B")))
        named += bool(found.named)
        uneven += bool(found.skew["decided"].any())
    assert named <= len(some) / 20
    assert uneven <= len(some) / 10


def test_what_moved_beside_is_found_on_its_node(why: Why) -> None:
    locked = {(one.node, one.measure) for one in why(BASE, "set_up=lock-holder").correlated_changes}
    scanned = {(one.node, one.measure) for one in why(BASE, "set_up=no-index").correlated_changes}
    assert ("2", "lock_wait_sessions") in locked
    uneven = why(BASE, "set_up=lock-holder").skew.filter("decided")
    assert uneven.select("of", "over").rows() == [("time", "shards"), ("time", "nodes")]
    assert uneven["other_busiest_percent"][1] > 80
    assert ("2", "tuples_read_per_operation") in scanned
    assert not any(measure == "lock_wait_sessions" for _, measure in scanned)


def test_an_example_leads_to_the_line_of_its_log(usual: Dataset, why: Why) -> None:
    examples = why(BASE, "set_up=slow-disk").examples
    assert examples["child_node"].to_list() == ["3", "3", "3"]
    named = examples.join(usual.table("sources").select("source_id", file="path"), on="file")
    assert all("duration: " in text for text in usual.log_text(named))


@pytest.mark.parametrize(("fault", "filters"), [("slow-disk", {"kind": "update", "child": "3"}), ("no-index", {})])
def test_a_part_leads_to_the_statements_that_carry_it(
    usual: Dataset, why: Why, fault: str, filters: dict[str, str]
) -> None:
    found = why(BASE, f"set_up={fault}").named[0].top_contributors
    assert found is not None
    assert (found.side, fault) == ("other", str(found.selection["run"]).partition("-w4")[0])
    assert filters.items() <= found.selection.items()
    selected = Exploration(usual).selected(StatementSelection.of(found.selection))
    assert found.statements <= selected.height <= found.statements * 1.05
    assert 0.8 <= found.share < 0.9
    assert selected.filter(pl.col("total_us") < float(str(found.selection["fastest_us"]))).is_empty()


def test_statements_that_took_longer_before_are_those_of_the_base(delayed: Dataset) -> None:
    top_contributors = ca.why(delayed, BASE, "set_up=async-commit").named[0].top_contributors
    assert top_contributors is not None
    assert (top_contributors.side, top_contributors.selection["kind"]) == ("base", "update")


def test_what_no_traced_statement_covers_has_none(why: Why) -> None:
    found = why(BASE, "set_up=unbalanced")
    assert (found.causes[0].effect, found.causes[0].top_contributors, found.carried) == ("untraced", None, ())
    assert found.changes.rows() == [("nodes that clients used", "1, 2, 3 and 4", "0")]
    assert ("0", "client_connections") in {(one.node, one.measure) for one in found.correlated_changes}


def test_pages_of_the_statements_are_written(
    usual: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["why", str(usual.path), "--base", BASE, "--other", "set_up=slow-disk", "--out", str(tmp_path / "pages")])
    assert ended.value.code == 0
    printed = capsys.readouterr()
    assert "ca.explorer.StatementSelection(run='slow-disk-w4-t8-mix/" in printed.out
    assert "part-1.html: Between parent and child (commit included) on node 3 (UPDATE): " in printed.err
    page = (tmp_path / "pages" / "part-1.html").read_text(encoding="utf-8")
    assert 50_000 < len(page) < 1_000_000
    assert "UPDATE items" in page


@pytest.mark.usefixtures("kept_kernels")
def test_the_commands_of_the_page_as_typed(usual: Dataset, user_cache: Path, tmp_path: Path) -> None:
    """They find what they read, in the cache and in the folder of the report, as when they are typed a second time."""
    (block,) = blocks_run_by(__file__)
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "dataset").symlink_to(usual.path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "data").symlink_to(FAULTS.parent)
    call_block(block, tmp_path, XDG_CACHE_HOME=str(user_cache))
    page = (tmp_path / "reports" / "why.html").read_text(encoding="utf-8")
    assert "between parent and child on node 4" in page
    assert "UPDATE items" in (tmp_path / "pages" / "part-1.html").read_text(encoding="utf-8")


def test_the_command_prints_the_finding_and_the_parts(usual: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["why", str(usual.path), "--base", BASE, "--other", "set_up=network"])
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert ended.value.code == 0
    assert "times as slow as" in first
    assert "on node 4" in second


def test_windows_of_logs_are_compared_without_runs(usual: Dataset) -> None:
    """The time of one run of each: batches of it stand in for runs."""
    runs = usual.runs().filter(iteration=1).sort("set_up").filter(pl.col("set_up").is_in(["base", "pool"]))
    windows = [
        f"{begin.isoformat()}..{end.isoformat()}"
        for begin, end in runs.select("measured_from", "measured_until").iter_rows()
    ]
    found = ca.why(usual, *windows)
    assert found.comparison.verdict == "slower"
    assert found.terms["estimate_us"].sum() == pytest.approx(found.difference_us, rel=1e-9)
    assert "10 batches against 10" in found.sentences[0]
    assert any("no runs" in note for note in found.warnings)


@pytest.mark.parametrize(
    ("base", "other", "only", "error", "words"),
    [
        ("", "", {}, UsageError, "both sides are the same"),
        ("set_up=base", "set_up=network", {"iteration": 1}, InsufficientDataError, "two or more on each side"),
        ("*", "set_up=network", {}, UsageError, "differ in workload"),
    ],
)
def test_sides_that_allow_no_account_are_refused(
    usual: Dataset, base: str, other: str, only: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ca.why(usual, base, other, only=only)
