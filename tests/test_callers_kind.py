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
from citus_analysis.bottleneck.balance import compute_shard_skew
from citus_analysis.bottleneck.profiles import (
    compute_cpu_share_by_object,
    derive_symbols_from_stacks,
    select_top_symbols,
    stack_tree,
)
from citus_analysis.bottleneck.resources import (
    compute_connection_balance,
    compute_resource_utilization,
    count_connections_over_time,
    sum_program_loads,
)
from citus_analysis.bottleneck.samples import (
    align_to_runs,
    select_cpu_over_time,
    select_one_source,
    select_throttling_over_time,
)
from citus_analysis.bottleneck.study import CONFIGURATION
from citus_analysis.bottleneck.variance import decompose_time_variance, find_separating_properties
from citus_analysis.bottleneck.waits import compute_session_waits, select_client_sessions
from citus_analysis.core.frames import Frame
from citus_analysis.dataset import Dataset
from citus_analysis.plans.study import compute_task_skew, measure_nodes, measure_tasks
from citus_analysis.published import audit, audit_runs, judge_claims, published, published_systems
from citus_analysis.published.study import (
    combine_new_orders,
    list_published_numbers,
    select_measured_rates,
    select_unmeasured_rates,
)
from citus_analysis.published.summaries import summarise_published_rows
from citus_analysis.scaling.demands import find_first_to_saturate, load_bounds
from citus_analysis.scaling.queueing import apply_littles_law_to_runs
from citus_analysis.spans.composition import compute_fan_out_profile, compute_percentile_profile
from citus_analysis.spans.distribution import compute_percentiles_over_time, sum_statement_times
from citus_analysis.spans.profile import convert_us_to_ms
from citus_analysis.spans.tail import find_autovacuum_intervals
from citus_analysis.stats.run_means import list_configurations
from citus_analysis.stats.studied_runs import select_runs_with_metric
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
    "runs_with_metric": lambda d, k: select_runs_with_metric(k(d.runs()), "throughput_ops_s"),
    "summarise_runs": lambda d, k: stats.summarise_runs(k(d.runs())),
    "list_configurations": lambda d, k: list_configurations(k(d.runs())),
    "autovacuum_intervals": lambda d, k: find_autovacuum_intervals(k(table(d, "log_events"))),
    "build_traces": lambda d, k: spans.build_traces(k(table(d, "log_events")), k(table(d, "nodes"))),
    "coarse_profile": lambda d, k: spans.coarse_profile(k(d.statements())),
    "log_line_profile": lambda d, k: spans.log_line_profile(k(table(d, "log_events"))),
    "percentile_profile": lambda d, k: compute_percentile_profile(k(d.statements())),
    "fan_out_profile": lambda d, k: compute_fan_out_profile(k(d.statements())),
    "critical_path": lambda d, k: spans.critical_path(k(d.spans().head(1000))),
    "tail_profile": lambda d, k: spans.tail_profile(k(d.statements()), k(d.spans()), checkpoints=k(d.checkpoints())),
    "little_runs": lambda d, k: apply_littles_law_to_runs(
        {"runs": k(d.runs()), "operation_latencies": k(d.operation_latencies())}
    ),
    "scale_runs": lambda d, k: scaling.scale_runs(k(d.runs()), resamples=20, models=["linear"]),
    "align_to_runs": lambda d, k: align_to_runs(k(d.cpu_samples()), k(d.runs())),
    "one_source": lambda d, k: select_one_source(k(d.cpu_samples()), ["run_id", "node"]),
    "program_loads": lambda d, k: sum_program_loads(k(table(d, "process_samples")), k(d.runs())),
    "cpu_over_time": lambda d, k: select_cpu_over_time(k(d.cpu_samples()), k(d.runs())),
    "resource_utilization": lambda d, k: compute_resource_utilization(k(d.cpu_samples()), k(d.device_samples())),
    "top_symbols": lambda d, k: select_top_symbols(k(d.perf_symbols())),
    "cpu_share_by_object": lambda d, k: compute_cpu_share_by_object(k(d.perf_symbols())),
    "symbols_of_stacks": lambda d, k: derive_symbols_from_stacks(k(d.perf_stacks())),
    "mean_symbols": lambda d, k: bottleneck.mean_symbols(k(d.perf_symbols())),
    "stack_tree": lambda d, k: stack_tree(k(d.perf_stacks()), k(d.perf_symbols())),
    "connections_over_time": lambda d, k: count_connections_over_time(k(d.activity_samples()), k(d.runs())),
    "connection_balance": lambda _, k: compute_connection_balance(k(CONNECTIONS)),
    "client_sessions": lambda d, k: select_client_sessions(k(d.activity_samples()), k(d.runs())),
    "session_waits": lambda d, k: compute_session_waits(
        k(select_client_sessions(d.activity_samples(), d.runs())), k(d.nodes())
    ),
    "variance_of": lambda d, k: decompose_time_variance(k(d.statements()), k(d.runs()), ["resource"]),
    "separators": lambda d, k: find_separating_properties(
        k(table(d, "statements")), k(d.checkpoints()), k(d.runs()), ["resource"]
    ),
    "shard_skew": lambda d, k: compute_shard_skew(k(d.statements()), k(d.runs())),
    "throttling_over_time": lambda d, k: select_throttling_over_time(k(d.throttle_samples()), k(d.runs())),
    "summed_time": lambda d, k: sum_statement_times(k(d.statements())),
    "percentiles_over_time": lambda d, k: compute_percentiles_over_time(k(d.statements())),
    "time_histogram": lambda d, k: spans.time_histogram(k(d.statements().with_columns(series="resource"))),
    "measure_nodes": lambda _, k: measure_nodes(k(table_of("scan.txt"))),
    "measure_tasks": lambda _, k: measure_tasks(k(table_of("scan.txt"))),
    "task_skew": lambda _, k: compute_task_skew(k(table_of("scan.txt"))),
    "compare_tasks_with_traces": lambda d, k: plans.compare_tasks_with_traces(
        k(table_of("scan.txt")), k(d.spans().head(100))
    ),
    "in_milliseconds": lambda d, k: convert_us_to_ms(k(d.statements().select("total_us"))),
    "measured_rates": lambda _, k: select_measured_rates(k(published("thesis")), k(audit().findings)),
    "rates_not_measured": lambda _, k: select_unmeasured_rates(k(published("thesis")), k(audit().findings)),
    "configuration_costs": lambda d, k: scaling.configuration_costs(
        k(d.runs().with_columns(operation=pl.lit("x"), cpu_per_node=pl.lit("0.1"))), k(d.nodes())
    ),
    "load_bounds": lambda _, k: load_bounds(k(DEMANDS)),
    "first_to_saturate": lambda _, k: find_first_to_saturate(k(DEMANDS)),
    "audit": lambda d, k: audit(k(d.runs().select("threads", "throughput_ops_s"))),
    "audit_runs": lambda d, k: audit_runs(k(d.runs())),
    "judge_claims": lambda d, k: judge_claims(k(d.runs())),
    "published_numbers": lambda _, k: list_published_numbers(k(published("thesis"))),
    "new_orders": lambda d, k: combine_new_orders(
        k(d.table("client_metrics").head(100)), k(published("hammerdb_talk"))
    ),
    "published_systems": lambda _, k: published_systems(k(published("thesis"))),
    "published_summaries": lambda _, k: summarise_published_rows(k(published("thesis", "5.7"))),
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


@pytest.mark.sharded(2)
@pytest.mark.parametrize("name", CALLS)
def test_frames_come_back_in_the_callers_kind(recorded_dataset: Dataset, name: str) -> None:
    expected = list(frames_in(CALLS[name](recorded_dataset, lambda frame: frame)))
    assert expected
    assert all(type(frame) is pl.DataFrame for frame in expected)
    for kind, convert in KINDS.items():
        result = CALLS[name](recorded_dataset, convert)
        found = list(frames_in(result))
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
