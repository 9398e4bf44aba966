"""What must not change the traces: order of rows, log rotation, other iterations, the kind of frame."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from citus_analysis.core.frames import convert_to_polars
from citus_analysis.schema import TABLES
from citus_analysis.spans import build_traces, coarse_profile
from tests.spans.recordings import Recording, load, pairs_with_keys, traces_of


@pytest.fixture(scope="module")
def recording() -> Recording:
    return load("w2-t4-insert")


def test_the_order_of_rows_does_not_matter(recording: Recording) -> None:
    shuffled = build_traces(recording.log_events.sample(fraction=1.0, shuffle=True, seed=1), recording.nodes)
    expected = traces_of("w2-t4-insert")
    assert_frame_equal(shuffled.statements, expected.statements)
    assert_frame_equal(shuffled.spans, expected.spans)


def test_a_rotated_log_is_one_log(recording: Recording) -> None:
    """Node 1's log as two files, cut between two records."""
    half = pl.col("byte_offset").median().over("source_id")
    later = (pl.col("node") == "1") & (pl.col("byte_offset") >= half)
    begin = pl.col("byte_offset").filter(later).min()
    rotated = recording.log_events.with_columns(
        source_id=pl.when(later).then(pl.lit("A later file")).otherwise("source_id"),
        byte_offset=pl.when(later).then(pl.col("byte_offset") - begin).otherwise("byte_offset"),
    )
    traces = build_traces(rotated, recording.nodes)
    assert traces.match_quality["exact"].sum() == 988
    assert traces.match_quality["warning"].null_count() == 2
    expected = traces_of("w2-t4-insert").statements
    assert sorted(traces.statements["total_us"]) == sorted(expected["total_us"])


def test_iterations_and_resources_do_not_mix(recording: Recording) -> None:
    again = recording.log_events.with_columns(
        iteration=pl.lit(2, pl.Int32), source_id=pl.format("{}-again", "source_id")
    )
    other = again.with_columns(resource=pl.lit("other"), source_id=pl.format("{}-other", "source_id"))
    nodes = pl.concat([recording.nodes, recording.nodes.with_columns(resource=pl.lit("other"))])
    traces = build_traces(pl.concat([recording.log_events, again, other]), nodes)
    assert traces.match_quality.group_by("resource", "iteration").agg(pl.col("exact").sum()).sort(
        "resource", "iteration"
    ).rows() == [("other", 2, 988), ("w2-t4-insert", 1, 988), ("w2-t4-insert", 2, 988)]
    assert traces.spans["span_id"].n_unique() == traces.spans.height


def test_rows_of_nodes_that_state_no_number_or_no_name_change_nothing(recording: Recording) -> None:
    """Some extracts of the catalogue lack the nodeid, and some rows of others name no node of the study."""
    unnumbered = recording.nodes.with_columns(nodeid=pl.lit(None, recording.nodes.schema["nodeid"]))
    unnamed = recording.nodes.with_columns(node=pl.lit(None, pl.String), host=pl.lit(None, pl.String))
    traces = build_traces(recording.log_events, pl.concat([unnumbered, unnamed, recording.nodes]))
    expected = traces_of("w2-t4-insert")
    assert_frame_equal(traces.match_quality, expected.match_quality)
    assert_frame_equal(traces.statements, expected.statements)
    assert_frame_equal(traces.spans, expected.spans)


def test_without_line_numbers_pairs_are_right_but_order_does_not_prove_them(recording: Recording) -> None:
    """A `log_line_prefix` without `%l`: nothing shows that a session is complete, so only contents prove pairs."""
    for known, match in ((recording, "exact"), (recording.without_values(), "inferred")):
        traces = build_traces(known.log_events.with_columns(session_line=pl.lit(None, pl.Int64)), known.nodes)
        pairs = pairs_with_keys(traces, recording)
        assert pairs.height == 988
        assert set(pairs["match"]) == {match}
        assert (pairs["parent_key"] == pairs["child_key"]).all()


def test_a_missing_log_leaves_tasks_unmatched(recording: Recording) -> None:
    traces = build_traces(recording.log_events.filter(pl.col("node") == "1"), recording.nodes)
    row = traces.match_quality.filter(pl.col("parent_node") == "1").row(0, named=True)
    assert (row["tasks"], row["unmatched_tasks"], row["match_rate"]) == (487, 487, 0.0)
    remote = traces.statements.filter(pl.col("executed") == "remote")
    assert set(remote["match"]) == {"unmatched"}
    assert remote["wait_us"].null_count() == 0
    assert remote["child_us"].null_count() == remote.height


def test_tables_are_those_of_the_schema() -> None:
    traces = traces_of("w2-all-e")
    for name in ("statements", "spans", "match_quality", "clock_offsets"):
        assert getattr(traces, name).schema == TABLES[name].polars_schema()


def test_profiles_take_any_frame() -> None:
    statements = traces_of("w2-t4-insert").statements
    expected = coarse_profile(statements)["mean_us"].to_list()
    assert convert_to_polars(coarse_profile(statements.to_arrow()))["mean_us"].to_list() == pytest.approx(expected)
    assert convert_to_polars(coarse_profile(statements.to_pandas()))["mean_us"].to_list() == pytest.approx(expected)
