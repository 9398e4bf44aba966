"""Frames come back in the kind in which tables were passed: pandas in, pandas out; Arrow in, Arrow out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import ModuleType

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from citus_analysis import bottleneck, plans, scaling, spans, stats
from citus_analysis.bottleneck.connection_counts import connection_balance, connections_over_time
from citus_analysis.bottleneck.evidence.node_loads import shard_skew
from citus_analysis.bottleneck.evidence.variance import separators, variance_of
from citus_analysis.bottleneck.evidence.waits import client_sessions, session_waits
from citus_analysis.bottleneck.profiles import cpu_share_by_object, symbols_of_stacks, top_symbols
from citus_analysis.bottleneck.program_loads import program_loads
from citus_analysis.bottleneck.samples_in_runs import align_to_runs, one_source
from citus_analysis.bottleneck.stacks import stack_tree
from citus_analysis.bottleneck.study import CONFIGURATION
from citus_analysis.bottleneck.timeline import cpu_over_time, throttling_over_time
from citus_analysis.bottleneck.utilization import resource_utilization
from citus_analysis.core.frames import Frame
from citus_analysis.dataset import Dataset
from citus_analysis.plans.measured_nodes import measure_nodes
from citus_analysis.plans.tasks import measure_tasks, task_skew
from citus_analysis.published import audit, audit_runs, judge_claims, published, published_systems
from citus_analysis.published._overview import measured_rates, new_orders, published_numbers, rates_not_measured
from citus_analysis.published._summaries import published_summaries
from citus_analysis.scaling.queueing.laws import little_runs
from citus_analysis.scaling.queueing.resource_demands import first_to_saturate, load_bounds
from citus_analysis.spans.analyse.beside_clients import in_milliseconds
from citus_analysis.spans.analyse.composition import fan_out_profile, percentile_profile
from citus_analysis.spans.analyse.tail import autovacuum_intervals
from citus_analysis.spans.analyse.time_cells import percentiles_over_time, summed_time
from citus_analysis.stats.configurations import list_configurations
from citus_analysis.stats.run_means import runs_with_metric
from tests.formats.plan_files import table_of

Kind = Callable[[pl.DataFrame], Frame]
Call = Callable[[Dataset, Kind], object]
RESOURCE = "w2-t4-insert"


def table(dataset: Dataset, name: str) -> pl.DataFrame:
    frame = dataset.table(name)
    return frame.filter(pl.col("resource") == RESOURCE) if name in ("log_events", "nodes", "statements") else frame


DEMANDS = pl.DataFrame(
    {name: ["w2"] for name in CONFIGURATION}
    | {"threads": [4], "node": ["1"], "demand": ["CPU time"], "bound_ops_s": [900.0], "throughput_ops_s": [500.0]}
)
CONNECTIONS = pl.DataFrame(
    {
        "run_id": ["r"] * 4,
        "iteration": [1] * 4,
        "resource": ["w2"] * 4,
        "elapsed_s": [1.0, 1.0, 2.0, 2.0],
        "node": ["1", "2"] * 2,
    }
    | {"client": [8, 8, 9, 7], "internal": [1, 2, 1, 2]}
)
#: Each public function that takes frames and gives frames, on the recordings.
CALLS: dict[str, Call] = {
    "compare_runs": lambda d, k: stats.compare_runs(k(d.runs())),
    "latency_percentiles": lambda d, k: stats.latency_percentiles(k(d.client_histogram().filter(resource=RESOURCE))),
    "run_precision": lambda d, k: stats.run_precision(
        k(d.runs().drop_nulls("throughput_ops_s")), ["resource", "phase"]
    ),
    "runs_with_metric": lambda d, k: runs_with_metric(k(d.runs()), "throughput_ops_s"),
    "summarise_runs": lambda d, k: stats.summarise_runs(k(d.runs())),
    "list_configurations": lambda d, k: list_configurations(k(d.runs())),
    "autovacuum_intervals": lambda d, k: autovacuum_intervals(k(table(d, "log_events"))),
    "build_traces": lambda d, k: spans.build_traces(k(table(d, "log_events")), k(table(d, "nodes"))),
    "coarse_profile": lambda d, k: spans.coarse_profile(k(d.statements())),
    "log_line_profile": lambda d, k: spans.log_line_profile(k(table(d, "log_events"))),
    "percentile_profile": lambda d, k: percentile_profile(k(d.statements())),
    "fan_out_profile": lambda d, k: fan_out_profile(k(d.statements())),
    "critical_path": lambda d, k: spans.critical_path(k(d.spans().head(1000))),
    "tail_profile": lambda d, k: spans.tail_profile(k(d.statements()), k(d.spans()), checkpoints=k(d.checkpoints())),
    "little_runs": lambda d, k: little_runs({"runs": k(d.runs()), "operation_latencies": k(d.operation_latencies())}),
    "scale_runs": lambda d, k: scaling.scale_runs(k(d.runs()), resamples=20, models=["linear"]),
    "align_to_runs": lambda d, k: align_to_runs(k(d.cpu_samples()), k(d.runs())),
    "one_source": lambda d, k: one_source(k(d.cpu_samples()), ["run_id", "node"]),
    "program_loads": lambda d, k: program_loads(k(table(d, "process_samples")), k(d.runs())),
    "cpu_over_time": lambda d, k: cpu_over_time(k(d.cpu_samples()), k(d.runs())),
    "resource_utilization": lambda d, k: resource_utilization(k(d.cpu_samples()), k(d.device_samples())),
    "top_symbols": lambda d, k: top_symbols(k(d.perf_symbols())),
    "cpu_share_by_object": lambda d, k: cpu_share_by_object(k(d.perf_symbols())),
    "symbols_of_stacks": lambda d, k: symbols_of_stacks(k(d.perf_stacks())),
    "mean_symbols": lambda d, k: bottleneck.mean_symbols(k(d.perf_symbols())),
    "stack_tree": lambda d, k: stack_tree(k(d.perf_stacks()), k(d.perf_symbols())),
    "connections_over_time": lambda d, k: connections_over_time(k(d.activity_samples()), k(d.runs())),
    "connection_balance": lambda _, k: connection_balance(k(CONNECTIONS)),
    "client_sessions": lambda d, k: client_sessions(k(d.activity_samples()), k(d.runs())),
    "session_waits": lambda d, k: session_waits(k(client_sessions(d.activity_samples(), d.runs())), k(d.nodes())),
    "variance_of": lambda d, k: variance_of(k(d.statements()), k(d.runs()), ["resource"]),
    "separators": lambda d, k: separators(k(table(d, "statements")), k(d.checkpoints()), k(d.runs()), ["resource"]),
    "shard_skew": lambda d, k: shard_skew(k(d.statements()), k(d.runs())),
    "throttling_over_time": lambda d, k: throttling_over_time(k(d.throttle_samples()), k(d.runs())),
    "summed_time": lambda d, k: summed_time(k(d.statements())),
    "percentiles_over_time": lambda d, k: percentiles_over_time(k(d.statements())),
    "time_histogram": lambda d, k: spans.time_histogram(k(d.statements().with_columns(series="resource"))),
    "measure_nodes": lambda _, k: measure_nodes(k(table_of("scan.txt"))),
    "measure_tasks": lambda _, k: measure_tasks(k(table_of("scan.txt"))),
    "task_skew": lambda _, k: task_skew(k(table_of("scan.txt"))),
    "tasks_beside_traces": lambda d, k: plans.tasks_beside_traces(k(table_of("scan.txt")), k(d.spans().head(100))),
    "in_milliseconds": lambda d, k: in_milliseconds(k(d.statements().select("total_us"))),
    "measured_rates": lambda _, k: measured_rates(k(published("thesis")), k(audit().findings)),
    "rates_not_measured": lambda _, k: rates_not_measured(k(published("thesis")), k(audit().findings)),
    "configuration_costs": lambda d, k: scaling.configuration_costs(
        k(d.runs().with_columns(operation=pl.lit("x"), cpu_per_node=pl.lit("0.1"))), k(d.nodes())
    ),
    "load_bounds": lambda _, k: load_bounds(k(DEMANDS)),
    "first_to_saturate": lambda _, k: first_to_saturate(k(DEMANDS)),
    "audit": lambda d, k: audit(k(d.runs().select("threads", "throughput_ops_s"))),
    "audit_runs": lambda d, k: audit_runs(k(d.runs())),
    "judge_claims": lambda d, k: judge_claims(k(d.runs())),
    "published_numbers": lambda _, k: published_numbers(k(published("thesis"))),
    "new_orders": lambda d, k: new_orders(k(d.table("client_metrics").head(100)), k(published("hammerdb_talk"))),
    "published_systems": lambda _, k: published_systems(k(published("thesis"))),
    "published_summaries": lambda _, k: published_summaries(k(published("thesis", "5.7"))),
}
#: pandas' own integers cannot be null, and identifiers of spans are not exact as floats.
KINDS: dict[type, Kind] = {
    pd.DataFrame: lambda frame: frame.to_pandas(use_pyarrow_extension_array=True),
    pa.Table: pl.DataFrame.to_arrow,
}


def frames_in(result: object) -> Iterator[pl.DataFrame | pd.DataFrame | pa.Table]:
    """The frames of a result: itself, in a tuple, or in the attributes of a result object."""
    if isinstance(result, pl.DataFrame | pd.DataFrame | pa.Table):
        yield result
    elif isinstance(result, tuple):
        for value in result:
            yield from frames_in(value)
    elif is_dataclass(result):
        for one in fields(result):
            yield from frames_in(getattr(result, one.name))


@pytest.mark.parametrize("kind", KINDS, ids=["pandas", "arrow"])
@pytest.mark.parametrize("name", CALLS)
def test_frames_come_back_in_the_callers_kind(recorded_dataset: Dataset, name: str, kind: type) -> None:
    expected = list(frames_in(CALLS[name](recorded_dataset, lambda frame: frame)))
    result = CALLS[name](recorded_dataset, KINDS[kind])
    found = list(frames_in(result))
    assert expected
    assert all(type(frame) is pl.DataFrame for frame in expected)
    assert [type(frame) for frame in found] == [kind] * len(expected)
    assert [frame.shape for frame in found] == [frame.shape for frame in expected]
    # What a result says of itself does not depend on the kind of its frames.
    assert str(result)


def functions_of_frames(package: ModuleType) -> set[str]:
    """Public functions that take and give frames, by their annotations."""
    results = ("DataFrame", "Traces", "TailProfile", "RunComparison", "ScalingStudy", "AuditResult", "JudgedClaims")
    found = set()
    for name in package.__all__:
        signature = str(inspect.signature(function)) if inspect.isfunction(function := getattr(package, name)) else ""
        given, _, result = signature.rpartition(" -> ")
        if ("Frame" in given or "Audited" in given) and any(word in result for word in results):
            found.add(name)
    return found


PACKAGES = ("stats", "spans", "scaling", "bottleneck", "plans", "published")
#: Their name says the kind they give, they take a selection of runs, or they are steps of the ingest, which hand polars
#: frames to one another; or they give frames one by one.
OTHERS = {"as_polars", "group_sessions", "latency_by_load", "trace_iteration", "reproduced"}


def test_no_function_of_frames_is_left_out() -> None:
    public = set[str]().union(*(functions_of_frames(import_module(f"citus_analysis.{name}")) for name in PACKAGES))
    assert public - OTHERS <= set(CALLS)
