"""Every source taken from one side in turn: what only the other side shows becomes neither a term nor a change."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Final

import polars as pl
import pytest
import zstandard

import citus_analysis as ca
from citus_analysis.attribution import Explanation
from citus_analysis.attribution.observed import compute_statement_times
from citus_analysis.dataset import Dataset
from citus_analysis.runs.setting_changes import find_setting_changes
from tests.conftest import read_once

FAULTS = Path(__file__).parents[1] / "data" / "faults"
BASE = "base-w4-t8-mix"
#: Source -> the tables that hold nothing else, and which of their rows are of it.
REMOVED: Final[Mapping[str, Mapping[str, pl.Expr]]] = {
    "all samplers": dict.fromkeys(
        ("cpu_samples", "vm_samples", "device_samples", "pressure_samples", "throttle_samples"), pl.lit(value=True)
    ),
    "iostat": {
        "cpu_samples": pl.col("sampler").cast(pl.String) == "iostat",
        "device_samples": pl.lit(value=True),
    },
    "vmstat": {
        "cpu_samples": pl.col("sampler").cast(pl.String) == "vmstat",
        "vm_samples": pl.lit(value=True),
    },
    "pressure": {"pressure_samples": pl.lit(value=True)},
    "sessions": {"activity_samples": pl.lit(value=True)},
    "two of three samples of sessions": {"activity_samples": pl.col("sample") % 3 != 0},
    "sessions of a node": {"activity_samples": pl.col("node").cast(pl.String) == "2"},
    "counters": {"server_counters": pl.lit(value=True)},
    "counters of a node": {"server_counters": pl.col("node").cast(pl.String) == "2"},
    "server settings": {"settings": pl.col("name").str.starts_with("settings.")},
    "all settings": {"settings": pl.lit(value=True)},
    "progress of clients": {"client_series": pl.lit(value=True)},
    "the sampled client": {
        "clients": pl.col("role").cast(pl.String) == "monitor",
        "operation_latencies": pl.col("role").cast(pl.String) == "monitor",
    },
    "addresses of nodes": {"nodes": pl.lit(value=True)},
    "checkpoints": {"checkpoints": pl.lit(value=True)},
}


class Without:
    """A dataset without rows of a source, which were of one resource."""

    def __init__(self, dataset: Dataset, removed: Mapping[str, pl.Expr]) -> None:
        self._dataset, self._removed = dataset, removed

    def table(self, name: str) -> pl.DataFrame:
        rows = self._dataset.table(name)
        if name == "runs" and "clients" in self._removed:
            rows = rows.with_columns(monitored=pl.col("monitored") & (pl.col("resource") != BASE))
        mine = pl.col("resource").cast(pl.String) == BASE
        return rows.remove(mine & self._removed[name].fill_null(value=False)) if name in self._removed else rows


@pytest.fixture(scope="module")
def usual(user_cache: Path) -> Dataset:
    return ca.open_dataset(read_once(FAULTS / "usual-disks", user_cache))


def name_measures(found: Explanation) -> set[tuple[str, str]]:
    return {(one.node, one.measure) for one in found.correlated_changes}


@pytest.fixture(scope="module")
def explain_whole(usual: Dataset) -> Callable[[str, str], Explanation]:
    """The account with all sources, made once for all tests."""
    return cache(partial(ca.why, usual))


@pytest.mark.sharded(8)
@pytest.mark.parametrize("source", REMOVED)
def test_what_one_side_shows_is_no_change_of_the_other(
    usual: Dataset, explain_whole: Callable[[str, str], Explanation], source: str
) -> None:
    """Without a fault nothing is named; with one, no more than with all sources."""
    lacking = Without(usual, REMOVED[source])
    same = "set_up=again", "set_up=base"
    slower = "set_up=base", "set_up=slow-disk"
    for whole, found in (
        (explain_whole(*same), ca.why(usual, *same, other_source=lacking, labels=("again", "base"))),
        (explain_whole(*slower), ca.why(lacking, *slower, other_source=usual, labels=("base", "slow-disk"))),
    ):
        assert [(one.effect, one.segment, one.node) for one in found.named] == [
            (one.effect, one.segment, one.node) for one in whole.named
        ]
        assert found.changes["name"].to_list() == whole.changes["name"].to_list()
        assert name_measures(found) <= name_measures(whole)
        assert found.skew.filter("decided").height <= whole.skew.filter("decided").height


def unpack_logs(folder: Path, edit: Callable[[str], str], left_out: str = "") -> Dataset:
    """The base with its server logs edited, or without one of them."""
    for file in (file for file in (FAULTS / "usual-disks" / BASE).rglob("*") if file.is_file()):
        place = folder / "raw" / BASE / file.relative_to(FAULTS / "usual-disks" / BASE)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not file.name.startswith("PGLOG-"):
            place.symlink_to(file)
        elif file.name != left_out:
            with zstandard.open(file, "rt", encoding="utf-8") as packed:
                place.with_suffix("").write_text(edit(packed.read()), encoding="utf-8")
    shutil.copy(FAULTS / "usual-disks" / "identity.yml", folder / "raw")
    ca.ingest(folder / "raw", folder / "dataset")
    return ca.open_dataset(folder / "dataset")


def wait_for_children(dataset: Dataset, set_up: str, parents: list[str]) -> float:
    """Time (µs) that statements of the nodes waited for children, in an operation of any node."""
    runs = dataset.table("runs").filter(pl.col("set_up") == set_up, pl.col("phase").cast(pl.String) == "run")
    inside = pl.col("run_id").is_in(runs["run_id"].implode())
    timed = compute_statement_times(
        dataset.table("statements").lazy().filter(inside), dataset.table("spans").lazy().filter(inside)
    ).collect()
    waited = timed.filter(pl.col("node").cast(pl.String).is_in(parents))
    return float(waited.select(pl.sum_horizontal("between_us", "commit_us", "child_us", "unseen_us").sum()).item()) / (
        timed.height
    )


def test_terms_of_nodes_with_logs_keep_their_size_without_the_log_of_another(usual: Dataset, tmp_path: Path) -> None:
    """Statements that a node without a log received are not replaced by those of the others."""
    lacking = unpack_logs(tmp_path, str, left_out="PGLOG-1.log.zst")
    found = ca.why(lacking, "set_up=base", "set_up=pool", other_source=usual, labels=("base", "pool"))
    waiting = found.terms.filter(pl.col("segment").is_in(["between_us", "commit_us", "child_us", "unseen_us"]))
    others = ["2", "3", "4"]
    expected = wait_for_children(usual, "pool", others) - wait_for_children(usual, "base", others)
    assert waiting["estimate_us"].sum() == pytest.approx(expected, rel=0.1)
    assert found.terms["estimate_us"].sum() == pytest.approx(found.difference_us, rel=1e-9)
    assert "nodes that clients used" not in found.changes["name"]


def log_durations_with_texts(text: str) -> str:
    """A log as log_min_duration_statement = 0 writes it: duration and text are one record, shards are not named."""
    begun: dict[str, str] = {}
    kept = []
    for line in text.splitlines(keepends=True):
        pid = line.partition("[")[2].partition("]")[0]
        if found := re.search(r"LOG:  (execute [^\n]*)", line):
            begun[pid] = found[1]
        elif re.search(r"LOG:  duration: [0-9.]+ ms\n", line):
            if pid in begun:
                kept.append(line.rstrip("\n") + f"  {begun.pop(pid)}\n")
        elif "task execution" in line:
            kept.append(line)
    return "".join(kept)


def test_places_that_one_side_does_not_show_are_not_compared(usual: Dataset, tmp_path: Path) -> None:
    """`pool` opens a connection for each task, and executes nothing elsewhere than before."""
    lacking = unpack_logs(tmp_path, log_durations_with_texts)
    found = ca.why(lacking, "set_up=base", "set_up=pool", other_source=usual, labels=("base", "pool"))
    assert {one.effect for one in found.named}.isdisjoint({"place", "mix"})
    assert {one.segment for one in found.named if one.effect == "segment"} <= {"whole_us"}
    assert any("not show where they ran" in note for note in found.warnings)
    assert found.skew.filter("decided").is_empty()


def test_settings_that_one_side_did_not_record_are_no_change() -> None:
    stated = pl.DataFrame({"name": ["settings.fsync", "shard_count"], "value": ["on", "8"]})
    assert find_setting_changes(stated.filter(name="shard_count"), stated).is_empty()
