"""Details of single statements: spans over nodes, clocks, concurrent activity, and the records of the raw logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from citus_analysis.dataset import Dataset
from citus_analysis.errors import DatasetError
from citus_analysis.plots.trace_figures import waterfall_rows

#: A JSON object.
Document = dict[str, object]

#: Times in logs are whole milliseconds.
_RESOLUTION_US: Final = 1_000
_SPAN: Final = ("label", "kind", "node", "offset_us", "length_us", "duration_us", "match", "source_id", "byte_offset")
_PLACE: Final = ("source_id", "byte_offset")


def statement_documents(dataset: Dataset, trace_ids: Sequence[int]) -> dict[int, Document]:
    """Details of some statements as JSON values; the log files are read once for all of them.

    Args:
        dataset: an opened dataset.
        trace_ids: statements of its table `statements`; those without spans are left out.

    Returns:
        trace_id -> `spans`, `clocks`, `under_way`, `records`, `problem` and the calls that return the same rows.

    Raises:
        DatasetError: a file of the dataset is missing or damaged.
    """
    spans = dataset.scan("spans").filter(pl.col("trace_id").is_in(list(trace_ids))).collect()
    records, problem = _places(dataset, spans), ""
    try:
        records = records.with_columns(text=dataset.log_text(records))
    except DatasetError as error:
        records, problem = records.clear().with_columns(text=pl.lit("")), str(error)
    clocks = dataset.scan("clock_offsets").collect()
    others = {"checkpoint": _checkpoints(dataset), "lock wait": _lock_waits(dataset), "plan": _plans(dataset)}
    found: dict[int, Document] = {}
    for trace, mine in spans.partition_by("trace_id", as_dict=True, maintain_order=True).items():
        number = int(trace[0])
        rows = waterfall_rows(mine, number)
        offsets = _offsets_of(clocks, mine)
        found[number] = {
            "spans": _with_bounds(rows, mine, offsets).to_dicts(),
            "clocks": [_clock_sentence(row) for row in offsets.to_dicts()],
            "under_way": [one for what, rows in others.items() for one in _under_way(rows, mine, what)],
            "records": records.filter(pl.col("trace_id") == number).select("node", *_PLACE, "text").to_dicts(),
            "problem": problem,
            "sql": f"SELECT * FROM spans WHERE trace_id = {number} ORDER BY start_time, span_id",  # noqa: S608 - a number
            "call": f"ca.plots.plot_waterfall(ds.spans(), {number})",
            "record_call": f"ca.explorer.statement_records(ds, [{number}])",
        }
    return found


def statement_records(dataset: Dataset, trace_ids: Sequence[int]) -> pl.DataFrame:
    """The records of the raw logs that the sessions of some statements wrote while these ran, with secrets redacted.

    Args:
        dataset: an opened dataset.
        trace_ids: statements of its table `statements`.

    Returns:
        `trace_id`, `node`, `source_id`, `byte_offset`, `byte_length` and `text`, in the order of the logs.

    Raises:
        DatasetError: a source was moved or removed, or changed since it was read.
    """
    records = _places(dataset, dataset.scan("spans").filter(pl.col("trace_id").is_in(list(trace_ids))).collect())
    return records.with_columns(text=dataset.log_text(records))


def _places(dataset: Dataset, spans: pl.DataFrame) -> pl.DataFrame:
    """Places of the records of these spans' sessions."""
    began = pl.col("start_time").min() - pl.duration(microseconds=_RESOLUTION_US)
    sessions = spans.drop_nulls("source_id").group_by("trace_id", "source_id", "node", "pid")
    ended = sessions.agg(since=began, last=pl.col("byte_offset").max())
    sources, pids = ended["source_id"].unique().to_list(), ended["pid"].unique().to_list()
    ours = pl.col("source_id").is_in(sources) & pl.col("pid").is_in(pids)
    logged = dataset.scan("log_events").filter(ours).select(*_PLACE, "byte_length", "pid", "log_time").collect()
    return (
        ended.join(logged, on=["source_id", "pid"], how="inner")
        .filter((pl.col("log_time") >= pl.col("since")) & (pl.col("byte_offset") <= pl.col("last")))
        .select("trace_id", "node", *_PLACE, "byte_length")
        .sort("trace_id", "node", *_PLACE)
    )


def _offsets_of(clocks: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Bounds of the clocks of the statement's nodes against that of its parent."""
    root = spans.filter(pl.col("kind") == "statement").head(1)
    run, iteration = root["run_id"].first(), root["iteration"].first()
    same = pl.col("run_id").eq_missing(run) & pl.col("iteration").eq_missing(iteration)
    nodes = spans["node"].unique().to_list()
    between = (pl.col("parent_node") == root["node"].first()) & pl.col("child_node").is_in(nodes)
    return clocks.filter(same & between).sort("child_node")


def _with_bounds(rows: pl.DataFrame, spans: pl.DataFrame, offsets: pl.DataFrame) -> pl.DataFrame:
    """Rows with `low_us` and `high_us`: the earliest begin and latest end of a remote execution, by its own clock."""
    raw = spans.filter(pl.col("kind") == "remote").select(
        "span_id", own_begin=pl.col("start_time").dt.epoch("us"), own_end=pl.col("end_time").dt.epoch("us")
    )
    bounds = offsets.select(node="child_node", low="offset_low_us", high="offset_high_us")
    tasks = rows.filter(pl.col("kind") == "task").select(
        parent_span_id="span_id", task_from="offset_us", task_to=pl.col("offset_us") + pl.col("length_us")
    )
    origin = rows["begin"].min()
    joined = rows.join(raw, on="span_id", how="left", maintain_order="left")
    joined = joined.join(bounds, on="node", how="left", maintain_order="left")
    joined = joined.join(tasks, on="parent_span_id", how="left", maintain_order="left")
    earliest = pl.col("own_begin") - pl.col("high") - _RESOLUTION_US - origin
    remote = pl.when(pl.col("own_begin").is_not_null())
    latest = pl.col("own_end") - pl.col("low") + _RESOLUTION_US - origin
    return joined.with_columns(
        low_us=pl.max_horizontal(earliest, "task_from").clip(None, pl.col("offset_us")),
        high_us=pl.min_horizontal(latest, "task_to").clip(pl.col("offset_us") + pl.col("length_us")),
    ).select(*_SPAN, low_us=remote.then("low_us"), high_us=remote.then("high_us"))


def _clock_sentence(row: Mapping[str, object]) -> str:
    low, high = row["offset_low_us"], row["offset_high_us"]
    return (
        f"clock of node {row['child_node']} minus clock of node {row['parent_node']}: "
        f"between {low:,.0f} and {high:,.0f} µs ({row['pairs']:,} pairs; {row['method']})"
    )


_STRETCH: Final = (*_PLACE, "resource", "iteration", "node", "pid", "start_time", "end_time", "text")


def _checkpoints(dataset: Dataset) -> pl.DataFrame:
    """Stretches of checkpoints, which belong to no session."""
    checkpoints = dataset.scan("checkpoints").collect()
    text = pl.format("{}, {} buffers", "reason", "buffers_written")
    return checkpoints.with_columns(text=text, pid=pl.lit(None, pl.Int32)).select(_STRETCH)


def _plans(dataset: Dataset) -> pl.DataFrame:
    """Executions whose plan auto_explain logged, from their begin to the record of the plan."""
    plans, nodes = dataset.scan("plans"), dataset.scan("plan_nodes").filter(pl.col("parent").is_null())
    first = nodes.select("source_id", "plan", topmost=pl.col("node_type").cast(pl.String))
    logged = dataset.scan("log_events").select(*_PLACE, "pid", "duration_us", end_time="log_time")
    began = pl.col("end_time") - pl.duration(microseconds=pl.col("duration_us").cast(pl.Int64))
    text = pl.format("{}, nodes: {}", pl.col("topmost").fill_null("plan"), "nodes")
    found = plans.join(first, on=["source_id", "plan"], how="left").join(logged, on=_PLACE, how="inner")
    return found.drop_nulls("duration_us").with_columns(start_time=began, text=text).select(_STRETCH).collect()


def _lock_waits(dataset: Dataset) -> pl.DataFrame:
    """Stretches of waiting for locks, from the records of `log_lock_waits`."""
    waits = dataset.scan("log_events").filter(pl.col("kind") == "lock_wait")
    began = pl.col("log_time") - pl.duration(microseconds=pl.col("duration_us").fill_null(0.0).cast(pl.Int64))
    columns = (*_PLACE, "resource", "iteration", "node", "pid")
    stretches = waits.select(*columns, start_time=began, end_time="log_time", text="message").collect()
    # A wait is reported when it is noticed and again when it ends: the last record has its whole length.
    lock = pl.col("text").str.extract(r"(\S+ on .*?) after ")
    same = [pl.col("node"), pl.col("pid"), lock, pl.col("start_time").dt.round("10ms")]
    last = pl.struct("end_time", "byte_offset") == pl.struct("end_time", "byte_offset").last().over(same)
    return stretches.sort("end_time", *_PLACE).filter(last)


def _under_way(others: pl.DataFrame, spans: pl.DataFrame, what: str) -> list[Document]:
    """Other activity on the statement's nodes while it ran, by each node's clock; plans of its own sessions only."""
    one = spans.filter(pl.col("kind") == "statement").row(0, named=True)
    since, until = spans["start_time"].min(), spans["end_time"].max()
    here = pl.col("resource").eq_missing(one["resource"]) & pl.col("iteration").eq_missing(one["iteration"])
    overlaps = (pl.col("start_time") <= until) & (pl.col("end_time") >= since)
    mine = others.filter(here & overlaps & pl.col("node").is_in(spans["node"].unique().to_list()))
    ours = spans.select("node", "pid").unique().with_columns(own=pl.lit(value=True))
    mine = mine.join(ours, on=["node", "pid"], how="left").with_columns(pl.col("own").fill_null(value=False))
    mine = mine.filter("own") if what == "plan" else mine
    since_us = (pl.col("start_time") - one["start_time"]).dt.total_microseconds()
    length = (pl.col("end_time") - pl.col("start_time")).dt.total_microseconds()
    columns = {"offset_us": since_us, "length_us": length, "text": pl.col("text"), "what": pl.lit(what)}
    ordered = mine.sort("own", "start_time", *_PLACE, descending=[True, False, False, False])
    return ordered.select("node", *_PLACE, "own", **columns).to_dicts()
