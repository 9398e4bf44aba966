"""Figures of server logs draw the numbers of their tables, and escape what came from a log."""

from datetime import UTC, datetime, timedelta

import polars as pl

from citus_analysis.plots.server_figures import plot_counts_over_time, plot_measure_over_time, plot_shares

TIMES = [datetime(2026, 3, 1, 10, tzinfo=UTC) + timedelta(hours=hour) for hour in range(3)]


def test_each_sender_and_measure_is_a_line() -> None:
    rows = {"time": TIMES * 2, "sent_by": ["client"] * 3 + ["another node"] * 3, "mean_ms": [1.0, 2, 3, 4, 5, 6]}
    frame = pl.DataFrame(rows).with_columns(p95_ms=pl.col("mean_ms") * 10)
    figure = plot_measure_over_time(frame, ["mean_ms", "p95_ms"])
    drawn = {trace.name: list(trace.y) for trace in figure.data}
    assert drawn["client: mean [ms]"] == [1.0, 2, 3]
    assert drawn["another node: p95 [ms]"] == [40.0, 50, 60]
    assert figure.layout.yaxis.title.text == "mean [ms]"


def test_counts_are_stacked_by_group() -> None:
    frame = pl.DataFrame({"time": TIMES[:2], "severity": ["ERROR", "<b>"], "errors": [3, 4]})
    figure = plot_counts_over_time(frame, "errors", by="severity", words="records")
    assert [(trace.name, list(trace.y)) for trace in figure.data] == [("ERROR", [3]), ("&lt;b&gt;", [4])]
    assert (figure.layout.barmode, figure.layout.yaxis.title.text) == ("stack", "records")


def test_statements_stand_above_their_bars_as_text() -> None:
    frame = pl.DataFrame(
        {
            "text": ["SELECT '<script>'", None, "x" * 100],
            "statement_kind": ["select", "insert", "other"],
            "sent_by": ["client", "client", "another node"],
            "total_s": [3.0, 2.0, 1.0],
            "share_percent": [60.0, 40.0, 100.0],
        }
    )
    figure = plot_shares(frame, most=3)
    assert [list(trace.x) for trace in figure.data] == [[3.0, 2.0], [1.0]]
    words = [annotation.text for annotation in figure.layout.annotations]
    assert words[0] == "1. SELECT '&lt;script&gt;'"
    assert words[1] == "2. (insert without its text)"
    assert len(words[2]) < 60
    assert words[2].endswith("…")


def test_figures_of_nothing_are_empty() -> None:
    nothing = pl.DataFrame(schema={"time": pl.Datetime("us", "UTC"), "by": pl.String, "n": pl.Int64})
    assert len(plot_counts_over_time(nothing, "n", by="by").data) == 0
    columns = {"text": pl.String, "statement_kind": pl.String, "sent_by": pl.String}
    empty = pl.DataFrame(schema=columns | {"total_s": pl.Float64, "share_percent": pl.Float64})
    assert len(plot_shares(empty).data) == 0
