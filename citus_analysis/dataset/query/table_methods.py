"""One method per table, so that editors complete `dataset.runs()`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import polars as pl

from citus_analysis.schema import TABLES


def _of_table(name: str) -> Callable[[Shorthands], pl.DataFrame]:
    def rows(dataset: Shorthands) -> pl.DataFrame:
        return dataset.scan(name).collect()

    rows.__name__, rows.__doc__ = name, TABLES[name].meaning
    return rows


class Shorthands:
    """Methods of which `dataset.NAME()` is the same as `dataset.table("NAME")`."""

    @abstractmethod
    def scan(self, name: str) -> pl.LazyFrame:
        """A table as a lazy frame."""

    sources = _of_table("sources")
    rejects = _of_table("rejects")
    nodes = _of_table("nodes")
    shards = _of_table("shards")
    settings = _of_table("settings")
    runs = _of_table("runs")
    operation_latencies = _of_table("operation_latencies")
    clients = _of_table("clients")
    client_metrics = _of_table("client_metrics")
    client_series = _of_table("client_series")
    client_histogram = _of_table("client_histogram")
    client_latencies = _of_table("client_latencies")
    client_errors = _of_table("client_errors")
    log_events = _of_table("log_events")
    checkpoints = _of_table("checkpoints")
    spans = _of_table("spans")
    statements = _of_table("statements")
    match_quality = _of_table("match_quality")
    clock_offsets = _of_table("clock_offsets")
    activity_samples = _of_table("activity_samples")
    server_counters = _of_table("server_counters")
    pressure_samples = _of_table("pressure_samples")
    net_samples = _of_table("net_samples")
    throttle_samples = _of_table("throttle_samples")
    cpu_samples = _of_table("cpu_samples")
    core_samples = _of_table("core_samples")
    device_samples = _of_table("device_samples")
    pooler_events = _of_table("pooler_events")
    pooler_samples = _of_table("pooler_samples")
    stated_runs = _of_table("stated_runs")
    vm_samples = _of_table("vm_samples")
    process_samples = _of_table("process_samples")
    perf_symbols = _of_table("perf_symbols")
    perf_stacks = _of_table("perf_stacks")
    perf_counters = _of_table("perf_counters")
    outcomes = _of_table("outcomes")
    plans = _of_table("plans")
    plan_nodes = _of_table("plan_nodes")
