"""Figures of traces: one statement in detail, sums over statements, and their parts over time and by percentile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import plotly.graph_objects as go
import polars as pl

from citus_analysis.core.frames import Frame
from citus_analysis.errors import UnknownNameError
from citus_analysis.plots.theme import (
    COLOURS,
    GREY,
    PART_COLOURS,
    add_bars,
    add_points,
    convert_with_columns,
    groups,
    ink_on,
    new_figure,
    text,
)
from citus_analysis.spans.composition import COMPONENT_WORDS, COMPONENTS, compose
from citus_analysis.spans.distribution import compute_percentiles_over_time, sum_statement_times
from citus_analysis.spans.span_layout import lay_out
from citus_analysis.spans.tail import TailProfile
from citus_analysis.texts.words import pluralize
from citus_analysis.units import US_PER_MS

#: Part of T -> its name in legends and its colour, the same in every figure.
PARTS: Final = {
    name: (COMPONENT_WORDS[name], PART_COLOURS[part])
    for name, part in zip(COMPONENTS, ("parse", "bind", "connect", "parent", "child", "between"), strict=True)
}

#: Columns of table `statements` that give the parts of T.
_PARTS_OF_T: Final = (
    *("failed", "total_us", "wait_us", "child_us", "parse_us"),
    *("bind_us", "execute_us", "between_us", "connect_us"),
)
#: Columns of table `spans` that place a span and name it.
_SPAN: Final = (
    *("trace_id", "span_id", "parent_span_id", "kind", "name", "node", "pid"),
    *("start_time", "end_time", "duration_us", "shard_id", "match", "source_id", "byte_offset"),
)

#: Levels of a flame above its parts: kinds of statements, and places of execution.
_WHOLE: Final = "#4b5563"
_PLACE: Final = "#3b5b7a"
#: Shown wherever statements whose T contains the commit appear beside statements whose T does not.
COMMIT_NOTE: Final = "T of remote writes contains the commit's WAL flush, T of local ones ends before it"

_KIND_COLOURS: Final = {
    "statement": GREY,
    "phase": PART_COLOURS["parent"],
    # The part of a task outside its execution is the time between parent and child.
    "task": PART_COLOURS["between"],
    "remote": PART_COLOURS["child"],
    "local": PART_COLOURS["local"],
    "connect": PART_COLOURS["connect"],
}
#: Kinds of spans -> their names in legends, in the words of the other figures.
_KIND_WORDS: Final = {
    "phase": "on the parent",
    "task": "task: child and between",
    "remote": "child",
    "connect": "connection set-up",
}


#: What is shown of the span under the mouse.
_OF_SPAN: Final = (
    "%{customdata[4]}<br>%{customdata[0]:,.0f} µs, match %{customdata[1]}<br>"
    "node %{customdata[2]}, byte %{customdata[3]} of its log<extra></extra>"
)


def plot_waterfall(spans: Frame, trace_id: int, *, title: str = "") -> go.Figure:
    """One statement: its phases, tasks and executions over time.

    A remote execution is drawn in the middle of its task, because its time is known to a millisecond only, and on
    another clock.

    Args:
        spans: rows of table `spans`.
        trace_id: the trace to show.
        title: title of the figure.

    Raises:
        UnknownNameError: no span has this trace_id.
    """
    placed = waterfall_rows(spans, trace_id)
    figure = new_figure(title or "One statement", x="time_ms", height=120 + 26 * placed.height)
    for kind, part in groups(placed, "kind"):
        facts = part.select("duration_us", "match", "node", "byte_offset", "label").rows()
        base, x = ((part[name] / US_PER_MS).to_list() for name in ("offset_us", "length_us"))
        shown = {"base": base, "customdata": facts, "orientation": "h"}
        y, colour = part["label"].to_list(), _KIND_COLOURS[kind]
        add_bars(figure, x, y, _KIND_WORDS.get(kind, kind), colour, _OF_SPAN, **shown)
    labels = placed["label"].to_list()
    figure.update_yaxes(categoryorder="array", categoryarray=labels[::-1], title=None, tickmode="array")
    figure.update_yaxes(tickvals=labels, ticktext=_short_labels(placed))
    return figure.update_layout(barmode="overlay", bargap=0.25)


def _short_labels(placed: pl.DataFrame) -> list[str]:
    """Short names of the spans of a waterfall; several tasks are distinguished by their shards."""
    several = placed.filter(kind="task").height > 1
    labels = []
    for kind, name, label, shard in placed.select("kind", "name", "label", "shard_id").iter_rows():
        words = {"statement": str(name).upper(), "remote": "child", "connect": "connection set-up"}.get(kind, str(name))
        indent = "\u2003" * (len(label) - len(label.lstrip("\u2003")))
        labels.append(f"{indent}{text(words)}{f' {shard}' if several and shard is not None else ''}")
    return labels


def waterfall_rows(spans: Frame, trace_id: int) -> pl.DataFrame:
    """The spans of one statement in the order of a waterfall, depth first.

    Args:
        spans: rows of table `spans`.
        trace_id: the trace to show.

    Returns:
        The spans with `label` (indented, unique), `offset_us` since the statement began and `length_us`; `begin` and
        `end` are microseconds since 1970 on the parent's clock, if that is known.

    Raises:
        UnknownNameError: no span has this trace_id.
    """
    frame = convert_with_columns(spans, "spans", *_SPAN).filter(pl.col("trace_id") == trace_id)
    if frame.is_empty():
        raise UnknownNameError("trace", str(trace_id), ())
    return _in_tree_order(_remotes_within_tasks(lay_out(frame)))


def _remotes_within_tasks(placed: pl.DataFrame) -> pl.DataFrame:
    centre = (pl.col("begin") + pl.col("end")) / 2
    tasks = placed.filter(pl.col("kind") == "task").select(parent_span_id="span_id", middle=centre)
    shift = pl.when(pl.col("kind") == "remote").then(pl.col("middle") - centre)
    moved = placed.join(tasks, on="parent_span_id", how="left").with_columns(shift=shift)
    # The phases of a remote execution move with it.
    owner = moved.filter(pl.col("shift").is_not_null()).select(parent_span_id="span_id", owner_shift="shift")
    together = pl.coalesce("shift", "owner_shift").fill_null(0.0)
    return moved.join(owner, on="parent_span_id", how="left").with_columns(pl.col("begin", "end") + together)


def _in_tree_order(placed: pl.DataFrame) -> pl.DataFrame:
    """Depth first, children in order of time, with an indented label that is unique per span."""
    by_time = placed.sort("begin", "byte_offset")
    known = set(placed["span_id"])
    children: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
    for place, (span, parent) in enumerate(by_time.select("span_id", "parent_span_id").iter_rows()):
        children[parent if parent in known else None].append((place, span))

    def below(parent: int | None, depth: int) -> Iterator[tuple[int, int]]:
        for place, span in children[parent]:
            yield place, depth
            yield from below(span, depth + 1)

    places, depths = zip(*below(None, 0), strict=True)
    ordered = by_time[list(places)]
    length = (pl.col("end") - pl.col("begin")).clip(lower_bound=0.0)
    offset = pl.col("begin") - pl.col("begin").min()
    return ordered.with_columns(label=pl.Series(_labels(ordered, depths)), offset_us=offset, length_us=length)


def _labels(ordered: pl.DataFrame, depths: Sequence[int]) -> list[str]:
    """The label of each span, made unique by invisible characters, because Plotly merges bars of equal labels."""
    labels: list[str] = []
    for depth, (kind, name, shard) in zip(depths, ordered.select("kind", "name", "shard_id").iter_rows(), strict=True):
        words = name if kind in ("phase", "task", "connect") else f"{kind} {name}"
        of_shard = "" if shard is None else f" on shard {shard}"
        labels.append("\u2003" * depth + text(words) + of_shard + "\u200b" * len(labels))
    return labels


def plot_flame(statements: Frame, *, title: str = "") -> go.Figure:
    """Sums of the time of all statements: by kind, then by place of execution, then by part of T.

    Args:
        statements: rows of table `statements`.
        title: title of the figure.
    """
    sums = sum_statement_times(
        convert_with_columns(statements, "statements", "statement_kind", "executed", *_PARTS_OF_T)
    )
    figure = new_figure(title or "Time of all statements", height=460)
    if sums.height:
        ids, labels, parents, values, colours = (list(column) for column in zip(*_flame_parts(sums), strict=True))
        figure.add_icicle(
            ids=ids,
            labels=labels,
            parents=parents,
            values=[value / US_PER_MS for value in values],
            branchvalues="total",
            marker={"colors": colours},
            leaf={"opacity": 1},
            textfont={"color": [ink_on(colour) for colour in colours]},
            hovertemplate="%{label}<br>%{value:,.1f} ms in all<br>%{percentParent:.1%} of its parent<extra></extra>",
        )
    # Names that do not fit are hidden, not shrunk; pointing at a part shows its name.
    return figure.update_layout(uniformtext={"minsize": 10, "mode": "hide"})


def _flame_parts(sums: pl.DataFrame) -> Iterator[tuple[str, str, str, float, str]]:
    """Id, label, id of what it is part of, time and colour of each part."""
    for kind, part in groups(sums, "statement_kind"):
        yield kind, kind.upper(), "", float(part["total_us"].sum()), _WHOLE
        for row in part.iter_rows(named=True):
            place = f"{kind}/{row['executed']}"
            yield place, text(f"{row['executed']} ({row['n']})"), kind, row["total_us"], _PLACE
            for name, (label, colour) in PARTS.items():
                if row[name] > 0:
                    yield f"{place}/{name}", label, place, row[name], colour


def plot_heat_map(statements: Frame, *, percentile: float = 95.0, bins: int = 60, title: str = "") -> go.Figure:
    """A percentile of T over time and node.

    Args:
        statements: rows of table `statements` of one run; several runs would stretch the axis of time.
        percentile: the percentile, between 0 and 100.
        bins: number of intervals of time.
        title: title of the figure.
    """
    frame = convert_with_columns(statements, "statements", "node", "executed", "end_time", "total_us")
    binned = compute_percentiles_over_time(frame, percentile=percentile, bins=bins)
    figure = new_figure(title or f"p{percentile:g} of T over time and node", x="elapsed_s", y="node")
    if binned.is_empty():
        return figure
    figure.add_heatmap(
        x=binned["elapsed_s"].to_list(),
        y=[text(node) for node in binned["node"]],
        z=binned["value_ms"].log(10).round(4).to_list(),
        customdata=binned.select(pl.col("value_ms").round(4), "n").rows(),
        colorscale="Cividis",
        colorbar={"title": {"text": "T [ms]"}, "thickness": 12, **_decades(binned["value_ms"])},
        hovertemplate="node %{y}, %{x:.1f} s<br>%{customdata[0]:,.2f} ms (n = %{customdata[1]})<extra></extra>",
    )
    height = 170 + 16 * binned["node"].n_unique()
    return figure.update_yaxes(type="category", autorange="reversed").update_layout(height=max(260, height))


def _decades(values: pl.Series) -> dict[str, list[float] | list[str]]:
    powers = values.log(10).to_numpy()
    decades = range(int(np.floor(powers.min())), int(np.ceil(powers.max())) + 1)
    ticks = [factor * 10.0**power for power in decades for factor in (1, 2, 5)]
    return {"tickvals": np.log10(ticks).tolist(), "ticktext": [f"{tick:,g}" for tick in ticks]}


def plot_percentile_profile(profile: Frame, *, title: str = "") -> go.Figure:
    """The composition of T at each percentile.

    Args:
        profile: result of :func:`citus_analysis.spans.compute_percentile_profile` for one group.
        title: title of the figure.
    """
    frame = convert_with_columns(profile, "profile", "percentile", "near", "total_us", *COMPONENTS).sort("percentile")
    at = [f"p{percentile:g}" for percentile in frame["percentile"]]
    figure = new_figure(title or "Composition of T by percentile", x="percentile", y="mean_time_ms")
    return _stack(figure, at, frame)


def plot_profile(
    statements: Frame, *, by: Sequence[str] = ("statement_kind", "executed"), title: str = ""
) -> go.Figure:
    """Mean composition of T per group of statements.

    Args:
        statements: rows of table `statements`.
        by: columns to group by.
        title: title of the figure.
    """
    needed = ("executed", "includes_commit", *_PARTS_OF_T, *by)
    composed = compose(convert_with_columns(statements, "statements", *needed))
    means = composed.group_by(list(by)).agg(pl.len().alias("n"), pl.col("total_us", *COMPONENTS).mean()).sort(by)
    names = [text(" ".join(str(value) for value in row)) for row in means.select(by).rows()]
    figure = new_figure(title or "Mean composition of T", y="mean_time_ms")
    if composed["includes_commit"].drop_nulls().n_unique() > 1:
        figure.update_layout(title_subtitle_text=COMMIT_NOTE)
    return _stack(figure, names, means)


def _stack(figure: go.Figure, at: list[str], frame: pl.DataFrame) -> go.Figure:
    counts = frame["near" if "near" in frame.columns else "n"].to_list()
    for column, (name, colour) in PARTS.items():
        y, said = (frame[column] / US_PER_MS).round(5).to_list(), f"{name}: %{{y:,.3~r}} ms (n = %{{customdata}})"
        add_bars(figure, at, y, name, colour, f"{said}<extra>%{{x}}</extra>", customdata=counts)
    return figure.update_layout(barmode="stack")


def plot_tail(profile: TailProfile, *, most: int = 12, title: str = "") -> go.Figure:
    """Share of each level among the slowest statements and among the rest, the smallest p-values on top.

    Args:
        profile: result of :func:`citus_analysis.spans.tail_profile`.
        most: number of levels shown.
        title: title of the figure.
    """
    shown = profile.factors.head(most)
    names = [text(f"{factor}: {level}") for factor, level in shown.select("factor", "level").rows()]
    shares = f"Slowest {profile.n_tail} of {pluralize(profile.n, 'statement')}"
    figure = new_figure(title or shares, x="share_percent", height=140 + 28 * len(names))
    for column, name, colour in (("rest_share", "the rest", GREY), ("tail_share", "slowest", COLOURS[1])):
        facts = {"customdata": shown.select("lift", "p_value").rows(), "marker": {"color": colour, "size": 10}}
        lift = "lift %{customdata[0]:.2f}, corrected p = %{customdata[1]:.2g}"
        said = f"%{{y}}<br>%{{x:.1f}} % of {name}<br>{lift}<extra></extra>"
        add_points(figure, (shown[column] * 100).to_list(), names, name, "markers", said, **facts)
    return figure.update_yaxes(categoryorder="array", categoryarray=names[::-1], title=None)
