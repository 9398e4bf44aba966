"""Evidence that one side alone has makes no term: nodes without a log, other clients, other thresholds, settings."""

import fnmatch
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.attribution import Explanation
from citus_analysis.attribution.correlated_changes import collect_node_measures
from citus_analysis.attribution.decomposition import ClosedLoop, compute_throughput_terms, decompose
from citus_analysis.attribution.observed import estimate_independent_batches
from citus_analysis.core.frames import TableSource
from citus_analysis.errors import InsufficientDataError
from citus_analysis.runs.setting_changes import describe_compared_settings, find_setting_changes

FAULTS = Path(__file__).parents[1] / "data" / "faults" / "usual-disks"


def explain_without(folder: Path, fault: str, removed: dict[str, str]) -> Explanation:
    """The account of a fault, without the files of sides (set-ups) whose names match a pattern."""
    for resource in (resource for one in ("base", fault) for resource in FAULTS.glob(f"{one}-w4*")):
        pattern = next((p for side, p in removed.items() if resource.name.startswith(f"{side}-w4")), "")
        for file in (file for file in resource.rglob("*") if file.is_file()):
            place = file.relative_to(resource)
            if not fnmatch.fnmatch(place.as_posix(), pattern):
                target = folder / "raw" / resource.name / place
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(file)
    shutil.copy(FAULTS / "identity.yml", folder / "raw")
    ca.ingest(folder / "raw", folder / "dataset", jobs=1)
    return ca.why(ca.open_dataset(folder / "dataset"), "set_up=base", f"set_up={fault}")


@pytest.mark.sharded(2)
@pytest.mark.parametrize("side", ["base", "slow-disk"])
def test_a_node_without_a_log_on_one_side_is_cut_on_both(tmp_path: Path, side: str) -> None:
    """The disk of node 3 was slow: without its log, the wait for it is named, and nothing seems to have moved."""
    found = explain_without(tmp_path, "slow-disk", {side: "pglogs/PGLOG-3.*"})
    assert [(one.effect, one.segment, one.node) for one in found.named] == [("node", "unseen_us", "3")]
    assert f"{side} has no log of node 3" in found.warnings
    assert found.terms["estimate_us"].sum() == pytest.approx(found.difference_us, rel=1e-9)


class WithoutLog:
    """A dataset without records of a node's log that lie in a period."""

    def __init__(self, dataset: ca.Dataset, node: str, since: datetime, until: datetime) -> None:
        self._dataset = dataset
        self._lost = (pl.col("node").cast(pl.String) == node) & pl.col("log_time").is_between(since, until)

    def table(self, name: str) -> pl.DataFrame:
        rows = self._dataset.table(name)
        # What the node logged later is in another file.
        return rows.remove(self._lost).with_columns(source_id=pl.lit("later")) if name == "log_events" else rows


def test_a_missing_log_is_not_a_log_without_events(tmp_path: Path) -> None:
    """Checkpoints are counted in runs of which a node's log is there; others have no number, not 0."""
    shutil.copytree(FAULTS / "base-w4-t8-mix", tmp_path / "raw" / "base-w4-t8-mix")
    shutil.copy(FAULTS / "identity.yml", tmp_path / "raw")
    ca.ingest(tmp_path / "raw", tmp_path / "dataset", jobs=1)
    dataset = ca.open_dataset(tmp_path / "dataset")
    runs = dataset.table("runs").filter(phase="run").sort("start_time")
    first, following = runs.rows(named=True)[:2]

    def count_checkpoints(source: TableSource) -> pl.DataFrame:
        return collect_node_measures(source, runs).filter(measure="checkpoints_per_min").sort("run_id", "node")

    whole = count_checkpoints(dataset)
    node = whole["node"][0]
    # There were some in the last run only.
    assert whole.height == whole["node"].n_unique() * runs.height
    assert whole.filter(pl.col("value") > 0)["run_id"].unique().to_list() == [runs["run_id"][-1]]
    # What is logged soon after the end of a run belongs to it.
    lost = WithoutLog(dataset, node, datetime(2000, 1, 1, tzinfo=UTC), following["start_time"] - timedelta(seconds=30))
    remaining = whole.remove((pl.col("node") == node) & (pl.col("run_id") == first["run_id"]))
    assert count_checkpoints(lost).equals(remaining)


def test_the_slowest_node_of_several_is_no_other_place() -> None:
    """Statements on two shards wait for the slower node, which is another one afterwards: nothing has moved."""
    kinds, places = np.array([0, 0]), np.array([0, 0])
    base = np.array([0.5, 0.5]), np.array([[5.0], [5.0]])
    other = np.array([0.1, 0.9]), np.array([[1.0], [90.0]])
    as_places, as_one = decompose(kinds, base, other), decompose(kinds, base, other, places)
    assert as_one.total == pytest.approx(as_places.total) == pytest.approx(81)
    assert abs(as_places.place.sum()) > 10
    assert not as_one.place.any()
    assert not as_one.mix.any()
    assert as_one.times.ravel().tolist() == pytest.approx([-4, 85])


def test_a_term_below_its_rounding_is_zero() -> None:
    runs = np.full(3, 8.0)
    loops = [ClosedLoop(runs, 8 / us * 1e6, us) for us in (np.array([1000.0, 1010.0, 990.0]), np.array([1500.0] * 3))]
    found = compute_throughput_terms(loops, np.full(3, 1 / 3), np.full(3, 1 / 3), np.array([500.0]))
    assert found[1] == found[2] == 0.0


def settings_of(**values: str) -> pl.DataFrame:
    named = {name.replace("__", "."): value for name, value in values.items()}
    return pl.DataFrame({"name": list(named), "value": list(named.values())}, {"name": pl.String, "value": pl.String})


def test_a_setting_of_one_node_or_role_differs() -> None:
    base = settings_of(settings__fsync="on", non_default_settings__all__port="1", role_settings__app__work_mem="4MB")
    other = settings_of(
        settings__fsync="on",
        non_default_settings__all__port="2",
        non_default_settings__1__enable_indexscan="off",
        role_settings__app__work_mem="8MB",
    )
    assert find_setting_changes(base, other).rows() == [
        ("enable_indexscan on node 1", "default", "off"),
        ("work_mem of role app", "4MB", "8MB"),
    ]
    only_stated = settings_of(settings__fsync="on")
    assert find_setting_changes(only_stated, other).is_empty()
    assert describe_compared_settings(only_stated, other) == "the 1 that both sides recorded; others were not compared"


@pytest.mark.parametrize(("correlation", "worth"), [(0.0, 10.0), (0.995, 0.0)])
def test_logs_that_vary_slowly_are_worth_fewer_batches_or_refused(correlation: float, worth: float) -> None:
    random = np.random.default_rng(7)
    level = np.zeros(2000)
    for i in range(1, level.size):
        level[i] = correlation * level[i - 1] + random.normal() * (1 - correlation**2) ** 0.5
    rows = pl.DataFrame({"start_time": np.arange(level.size), "total_us": 300 * np.exp(0.4 * level)})
    if worth:
        assert estimate_independent_batches(rows, "the log") == worth
    else:
        with pytest.raises(InsufficientDataError, match="depend on each other"):
            estimate_independent_batches(rows, "the log")
