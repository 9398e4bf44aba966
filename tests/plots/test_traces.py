"""Figures of traces show the numbers of the tables."""

import polars as pl
import pytest

from citus_analysis.errors import UnknownNameError
from citus_analysis.plots import plot_profile, plot_waterfall
from citus_analysis.plots.trace_figures import plot_flame, plot_heat_map, plot_percentile_profile, plot_tail
from citus_analysis.spans import tail_profile
from citus_analysis.spans.composition import compute_percentile_profile
from tests.spans.recordings import traces_of

RESOURCE = "w2-t4-insert"


def test_waterfall_shows_every_span_inside_its_parent() -> None:
    traces = traces_of("w2-all-e")
    scan = traces.statements.filter(pl.col("executed") == "multi_shard")["trace_id"][5]
    figure = plot_waterfall(traces.spans, scan)
    bars = {
        label.replace("\u200b", ""): (base, base + length)
        for trace in figure.data
        for label, base, length in zip(trace.y, trace.base, trace.x, strict=True)
    }
    assert len(bars) == traces.spans.filter(pl.col("trace_id") == scan).height == 13
    assert any("connect" in label for label in bars), "the scan opened a connection"
    whole, execute = bars["statement select"], bars["\u2003execute"]
    assert whole[0] <= execute[0] <= execute[1] <= whole[1] + 1e-6
    for shard in (102008, 102009, 102010, 102011):
        task, remote = (
            bars[f"\u2003\u2003task on shard {shard}"],
            bars[f"\u2003\u2003\u2003remote select on shard {shard}"],
        )
        assert execute[0] <= task[0] <= task[1] <= execute[1] + 1e-6
        assert task[0] <= remote[0] <= remote[1] <= task[1]


def test_waterfall_of_an_unknown_trace() -> None:
    with pytest.raises(UnknownNameError):
        plot_waterfall(traces_of("w2-all-e").spans, 1)


def test_flame_adds_up() -> None:
    statements = traces_of(RESOURCE).statements
    (icicle,) = plot_flame(statements).data
    value = dict(zip(icicle.ids, icicle.values, strict=True))
    inserts = statements.filter(pl.col("executed").is_not_null())
    assert value["insert"] == pytest.approx(inserts["total_us"].sum() / 1000)
    parts = [value[i] for i in value if i.startswith("insert/remote/")]
    assert sum(parts) == pytest.approx(value["insert/remote"])
    assert "between" in icicle.labels
    assert not {"latency", "network and queue"} & set(icicle.labels)


def test_heat_map_has_one_row_per_node() -> None:
    (heat,) = plot_heat_map(traces_of(RESOURCE).statements, bins=10).data
    assert set(heat.y) == {"1", "2"}
    assert sum(n for _, n in heat.customdata) == 2000


def test_profiles_stack_the_parts_of_t() -> None:
    statements = traces_of(RESOURCE).statements
    profile = compute_percentile_profile(statements).filter(pl.col("executed") == "remote")
    sums = [sum(column) for column in zip(*(bar.y for bar in plot_percentile_profile(profile).data), strict=True)]
    assert sums == pytest.approx((profile.sort("percentile")["total_us"] / 1000).to_list(), rel=1e-3)
    figure = plot_profile(statements)
    assert list(figure.data[0].x) == ["insert local", "insert remote"]
    assert "commit" in figure.layout.title.subtitle.text


def test_tail_shows_shares() -> None:
    traces = traces_of(RESOURCE)
    profile = tail_profile(traces.statements, traces.spans)
    figure = plot_tail(profile, most=4)
    assert [trace.name for trace in figure.data] == ["the rest", "slowest"]
    assert all(0 <= share <= 100 for trace in figure.data for share in trace.x)
