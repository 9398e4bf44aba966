"""Names of metrics, our own and those that other people print."""

import pytest

from citus_analysis.texts.metric_names import Metric, parse_metric, parse_percentile


@pytest.mark.parametrize(
    ("name", "unit", "stem", "dimension", "factor"),
    [
        ("throughput_ops_s", None, "throughput", "rate", 1),
        ("TPS (μ)", None, "throughput", "rate", 1),
        ("tps", None, "throughput", "rate", 1),
        ("mean", "ops/s", "throughput", "rate", 1),
        ("mean", None, "mean", "", 1),
        ("Std. Dev. (σ)", None, "sigma", "", 1),
        ("sigma_ops_s", None, "sigma", "rate", 1),
        ("throughput_std", None, "sigma", "rate", 1),
        ("client_latency_sd_ms", None, "sigma", "time", 1e-3),
        ("latency_ci_low_us", None, "interval_low", "time", 1e-6),
        ("ci_high", None, "interval_high", "", 1),
        ("latency_avg_ms", None, "latency", "time", 1e-3),
        ("latency", "µs", "latency", "time", 1e-6),
        ("YCSB latency (ms)", None, "client_latency", "time", 1e-3),
        ("99th pctl. (ms)", None, "latency_p99", "time", 1e-3),
        ("95th percentile latency (us)", None, "latency_p95", "time", 1e-6),
        ("p999_us", None, "latency_p999", "time", 1e-6),
        ("p99_latency_ms", None, "latency_p99", "time", 1e-3),
        ("server_latency_p50_ms", None, "server_latency_p50", "time", 1e-3),
        ("runtime_ms", None, "runtime", "time", 1e-3),
        ("duration_s", None, "runtime", "time", 1),
        ("cpu (%)", None, "cpu", "percent", 1),
        ("write_with_proxy_mb_s", None, "write_with_proxy", "data_rate", 1e6),
        ("link_gbit_s", None, "link", "data_rate", 1.25e8),
        ("snapshots_per_s", None, "snapshots_per_s", "", 1),
        ("clients", None, "connections", "", 1),
        # headers of BenchBase and YCSB
        ("Throughput (requests/second)", None, "throughput", "rate", 1),
        ("Average Latency (millisecond)", None, "latency", "time", 1e-3),
        ("99th Percentile Latency (microsecond)", None, "latency_p99", "time", 1e-6),
        ("Latency Distribution.95th Percentile Latency (microseconds)", None, "latency_p95", "time", 1e-6),
        ("Latency Distribution.Average Latency (microseconds)", None, "latency", "time", 1e-6),
        ("terminals", None, "connections", "", 1),
        ("[OVERALL].Throughput(ops/sec)", None, "throughput", "rate", 1),
        ("[OVERALL].RunTime(ms)", None, "runtime", "time", 1e-3),
        ("[READ].99thPercentileLatency(us)", None, "read_p99", "time", 1e-6),
        ("AverageLatency(us)", None, "latency", "time", 1e-6),
        ("workers", None, "workers", "", 1),
        # units that are printed, not spelt
        ("latency (µs)", None, "latency", "time", 1e-6),
        ("latency [μs]", None, "latency", "time", 1e-6),
        ("p99.9 (ms)", None, "latency_p999", "time", 1e-3),
        ("95% latency (ms)", None, "latency_p95", "time", 1e-3),
        ("req/s", None, "throughput", "rate", 1),
        ("rows/s", None, "throughput", "rate", 1),
        ("reads/s", None, "reads", "rate", 1),
        ("Throughput (kops/s)", None, "throughput", "rate", 1e3),
        ("throughput (k)", None, "throughput", "rate", 1e3),
        ("write MB/s", None, "write", "data_rate", 1e6),
        ("disk_iops", None, "disk_iops", "rate", 1),
        ("max tps", None, "throughput_max", "rate", 1),
        ("tps_min", None, "throughput_min", "", 1),
        ("95% CI low", None, "interval_low", "", 1),
        ("stddev tps", None, "sigma", "rate", 1),
        ("[READ].AverageLatency(us)", None, "read_latency", "time", 1e-6),
        ("tps ±", None, "plus_minus", "", 1),
    ],
)
def test_names(name: str, unit: str | None, stem: str, dimension: str, factor: float) -> None:
    assert parse_metric(name, unit) == Metric(stem, dimension, factor)


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        ("latency_p50", ("latency", 50.0)),
        ("server_latency_p9999", ("server_latency", 99.99)),
        ("latency", None),
        ("pool_p", None),
    ],
)
def test_percentiles(stem: str, expected: tuple[str, float] | None) -> None:
    assert parse_percentile(stem) == expected
