"""Logs that begin late or end early: no pair is called exact wrongly, and what is still there is found."""

import polars as pl
import pytest

from citus_analysis.spans import build_traces
from citus_analysis.texts.words import pluralize
from tests.spans.recordings import Cut, Recording, load, pairs_with_keys, traces_of

RECORDS = ["source_id", "byte_offset", "child_source", "child_offset"]


def moved(pairs: pl.DataFrame, cut: Cut, whole: Recording) -> pl.DataFrame:
    """Pairs of a cut recording with their records' offsets in the whole one."""
    begins = {source: cut.kept(source.split("-")[1], len(log))[0] for source, log in whole.logs.items()}
    return pairs.with_columns(
        pl.col("byte_offset") + pl.col("source_id").replace_strict(begins, return_dtype=pl.Int64),
        pl.col("child_offset") + pl.col("child_source").replace_strict(begins, return_dtype=pl.Int64),
    )


def still_there(pairs: pl.DataFrame, cut: Cut, whole: Recording) -> pl.DataFrame:
    """Pairs of the whole recording of which both records are left whole."""
    spans = {source: cut.kept(source.split("-")[1], len(log)) for source, log in whole.logs.items()}
    ends = whole.log_events.select("source_id", "byte_offset", end=pl.col("byte_offset") + pl.col("byte_length"))
    kept = ends.filter(
        pl.col("byte_offset") >= pl.col("source_id").replace_strict({s: low for s, (low, _) in spans.items()}),
        pl.col("end") <= pl.col("source_id").replace_strict({s: high for s, (_, high) in spans.items()}),
    )
    return pairs.join(kept, on=["source_id", "byte_offset"], how="semi").join(
        kept, left_on=["child_source", "child_offset"], right_on=["source_id", "byte_offset"], how="semi"
    )


@pytest.mark.sharded(3)
@pytest.mark.parametrize("third", ["first", "last"])
@pytest.mark.parametrize("node", ["1", "2"])
@pytest.mark.parametrize(
    "resource", ["w2-t4-insert", "w2-binary-t16-select", "w2-all-e", "w2-txn-update", "w4-t4-insert"]
)
def test_a_third_of_one_log_is_missing(resource: str, node: str, third: str) -> None:
    recalled, expected = recall(resource, Cut(node, third))
    assert recalled > 0.99 * expected > 50


@pytest.mark.parametrize("third", ["first", "last"])
@pytest.mark.parametrize("node", ["0", "1", "2"])
def test_short_sessions_with_many_shards(node: str, third: str) -> None:
    """A script of 35 ms: clocks that no pair tells are told by a third node, or by all children of a parent at once."""
    recalled, expected = recall("w2-multishard", Cut(node, third))
    assert recalled == expected >= 38


def recall(resource: str, cut: Cut) -> tuple[int, int]:
    """How many pairs are found of those still there; none may be wrong."""
    whole = load(resource)
    complete = pairs_with_keys(traces_of(resource), whole)
    found = moved(pairs_with_keys(traces_of(resource, None, cut), load(resource, None, cut)), cut, whole)
    assert found.join(complete, on=RECORDS, how="anti").height == 0
    expected = still_there(complete, cut, whole)
    return expected.join(found, on=RECORDS, how="semi").height, expected.height


def test_what_a_cut_leaves_unsure_is_said() -> None:
    recording = load("w2-t4-insert", None, Cut("2", "first"))
    quality = build_traces(*recording.tables()).match_quality
    assert quality.select(pl.sum("exact", "by_order", "inferred")).row(0) == (682, 0, 0)
    quality = build_traces(*recording.without_values().tables()).match_quality
    assert quality["exact"].sum() == 0
    assert quality["inferred"].sum() > 600
    assert quality["warning"].str.contains("inferred").all()


def test_children_beyond_the_end_of_a_log_leave_tasks_unmatched() -> None:
    quality = traces_of("w2-t4-insert", None, Cut("2", "last")).match_quality
    row = quality.filter(pl.col("child_node") == "2").row(0, named=True)
    assert (row["inferred"], row["unmatched_children"]) == (0, 0)
    assert row["exact"] + row["unmatched_tasks"] == 487
    assert f"{pluralize(row['unmatched_tasks'], 'task')} without a child in the log of node 2" in row["warning"]
