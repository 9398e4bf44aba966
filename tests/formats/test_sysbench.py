"""Reports that sysbench 1.0.20 and 1.1.0 wrote against PostgreSQL 15; expected values were read off them by eye."""

from pathlib import Path

import polars as pl
import pytest

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, Hints, format_named
from citus_analysis.formats.sysbench import FORMAT
from tests.formats.clients import SAMPLES

RECORDED = SAMPLES / "sysbench"


def parsed(path: Path) -> dict[str, pl.DataFrame]:
    pieces = list(format_named("sysbench").parse(Content(path), Hints(path.name)))
    accounted = sum(piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes for piece in pieces)
    assert accounted == path.stat().st_size
    tables = ("clients", "client_metrics", "client_series", "client_histogram", "client_errors", "rejects")
    return {table: pl.concat([piece.frame(table) for piece in pieces]) for table in tables}


def latencies(tables: dict[str, pl.DataFrame], section: str) -> dict[str, float]:
    return dict(tables["client_metrics"].filter(pl.col("section") == section).select("metric", "value").iter_rows())


def test_counts_are_those_the_tool_printed() -> None:
    client = parsed(RECORDED / "1.0.20-histogram-p99.log")["clients"].row(0, named=True)
    assert (client["tool_version"], client["threads"], client["completed"]) == ("1.0.20", 4, True)
    assert (client["operations_done"], client["failed_operations"]) == (2062, 10)
    assert client["runtime_ms"] == pytest.approx(4506.6)
    assert client["throughput_ops_s"] == pytest.approx(457.51, rel=1e-3)
    assert client["script"] == "SQL 14/4/2"


def test_the_percentile_is_the_one_that_was_asked_for() -> None:
    tables = parsed(RECORDED / "1.0.20-histogram-p99.log")
    measured = latencies(tables, "transactions")
    assert (measured["99th percentile"], measured["avg"], measured["transactions"]) == (13.95, 8.71, 2062)
    assert "95th percentile" not in measured
    assert tables["client_series"]["p99_us"].to_list() == [15550, 9560, 12750, 9390]
    without = latencies(parsed(RECORDED / "1.0.20-no-percentile.log"), "transactions")
    assert not [name for name in without if "percentile" in name]


def test_the_histogram_counts_every_transaction_and_bounds_the_percentile() -> None:
    histogram = parsed(RECORDED / "1.0.20-histogram-p99.log")["client_histogram"].sort("bucket_low_us")
    assert histogram["count"].sum() == 2062
    reached = histogram.filter(pl.col("count").cum_sum() >= int(0.99 * 2062)).row(0, named=True)
    assert reached["bucket_low_us"] < 13_950 < reached["bucket_high_us"]


def test_a_percentile_at_the_end_of_the_histogram_is_a_lower_bound(tmp_path: Path) -> None:
    capped = tmp_path / "capped.log"
    text = (RECORDED / "1.0.20-histogram-p99.log").read_text(encoding="utf-8")
    capped.write_text(text.replace("99th percentile:                       13.95", "99th percentile:     100000.00"))
    measured = latencies(parsed(capped), "transactions")
    assert measured["99th percentile or more"] == 100_000
    assert "99th percentile" not in measured


def test_checkpoints_reset_the_counters_so_they_are_added() -> None:
    tables = parsed(RECORDED / "1.0.20-rate-checkpoints.log")
    client = tables["clients"].row(0, named=True)
    assert client["operations_done"] == 376 + 198
    assert client["throughput_ops_s"] == pytest.approx((376 + 198) / 3.0101)
    assert (client["rate_limited"], client["target_ops_s"]) == (True, 200.0)
    assert latencies(tables, "transactions until 2 s")["95th percentile"] == 33.12
    assert latencies(tables, "transactions to the end")["95th percentile"] == 18.61
    assert "transactions" not in tables["client_metrics"]["section"]


def test_version_1_1_states_the_time_elsewhere_and_without_the_warm_up() -> None:
    tables = parsed(RECORDED / "1.1.0-rate-checkpoints.log")
    client = tables["clients"].row(0, named=True)
    assert (client["tool_version"], client["operations_done"], client["runtime_ms"]) == ("1.1.0", 93 + 203, 6027)
    metrics = tables["client_metrics"]
    assert metrics.filter(metric="events/s (eps)")["value"].to_list() == [46.5173, 50.4111]
    assert metrics.filter(metric="Warmup time")["value"].to_list() == [1.0]
    histogram = parsed(RECORDED / "1.1.0-histogram-p99.log")["client_histogram"]
    assert (histogram["section"].unique().to_list(), histogram["count"].sum()) == (["transactions"], 4726)


def test_a_run_that_could_not_connect_is_not_complete_and_says_why() -> None:
    tables = parsed(RECORDED / "1.0.20-no-server.log")
    client = tables["clients"].row(0, named=True)
    assert (client["completed"], client["operations_done"], client["failed_operations"]) == (False, None, None)
    assert tables["client_errors"]["count"].to_list() == [4, 4, 1]


@pytest.mark.parametrize(("name", "rate"), [("json-cumulative", 143.15), ("csv", 144.78)])
def test_a_hook_may_print_the_whole_report(name: str, rate: float) -> None:
    tables = parsed(RECORDED / f"1.0.20-{name}.log")
    client = tables["clients"].row(0, named=True)
    assert (client["throughput_ops_s"], client["runtime_ms"], client["operations_done"]) == (rate, 3000, None)
    assert client["completed"]
    assert tables["client_series"]["elapsed_s"].to_list() == [1, 2, 3]


def test_preparing_tables_is_no_run() -> None:
    assert parsed(RECORDED / "1.0.20-prepare.log")["clients"].is_empty()


def test_a_test_without_sql_counts_events() -> None:
    tables = parsed(RECORDED / "1.0.20-cpu.log")
    assert tables["clients"]["operations_done"].to_list() == [1555]
    assert tables["clients"]["script"].to_list() == [None]
    assert latencies(tables, "events")["total number of events"] == 1555


@pytest.mark.parametrize(
    "sign", ["Running memory speed test with the following options:", "Extra file open flags: (none)"]
)
def test_a_test_of_memory_or_files_is_refused_in_words(sign: str, tmp_path: Path) -> None:
    path = tmp_path / "memory.txt"
    path.write_text(
        f"sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n\n{sign}\n  block size: 1KiB\n", encoding="utf-8"
    )
    assert FORMAT.detect(path.name, path.read_bytes()) == 0.95
    with pytest.raises(FormatError, match="memory or files, which runs no statements, is not read"):
        list(FORMAT.parse(Content(path), Hints(path.name)))


def test_a_second_report_and_foreign_lines_are_rejected(tmp_path: Path) -> None:
    both = tmp_path / "both.log"
    one = (RECORDED / "1.0.20-cpu.log").read_bytes()
    both.write_bytes(one + b"Segmentation fault\n" + one)
    rejects = parsed(both)["rejects"]
    assert rejects["byte_length"].to_list() == [len(b"Segmentation fault\n"), len(one)]
    assert parsed(both)["clients"]["operations_done"].to_list() == [1555]
