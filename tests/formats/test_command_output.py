"""Outputs of tools behind the runner's heading: numbers are read where the heading says that they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from citus_analysis.errors import FormatError
from citus_analysis.formats.command_output import FORMAT, Heading, NumberPattern, find_pattern_problem
from tests.formats.sampling import Read, read_bytes

RECORDED = Path(__file__).parents[1] / "data" / "commands"
HEADING = Heading(
    "tool",
    4,
    summary={"operations_done": "done ([0-9,]+)", "runtime_s": "took ([0-9.]+) s", "failed_operations": "bad ([0-9]+)"},
    interval=r"at (?P<elapsed_s>[0-9]+): (?P<throughput_ops_s>[0-9.]+)",
    metrics=[NumberPattern("p95 ([0-9.]+)", "95thPercentileLatency", "ORDER", "ms")],
)


def parsed(tmp_path: Path, text: str, heading: Heading = HEADING) -> Read:
    data = heading.line() + text.encode()
    assert FORMAT.detect("out.log", data) == 1.0
    return read_bytes(FORMAT, tmp_path, data)


def test_sysbench_as_recorded(tmp_path: Path) -> None:
    result = read_bytes(FORMAT, tmp_path, (RECORDED / "sysbench-1.0.20.log").read_bytes())
    [client] = result["clients"].rows(named=True)
    expected = {
        "tool": "sysbench",
        "threads": 2,
        "time_limit_s": 3.0,
        "throughput_ops_s": 12.64,
        "operations_done": 39,
        "failed_operations": 0,
        "runtime_ms": 3085.0,
        "completed": True,
    }
    assert {name: client[name] for name in expected} == expected
    assert result["client_series"].select("elapsed_s", "throughput_ops_s").rows() == [(1, 15.92), (2, 10.04), (3, 11.0)]
    latencies = dict(result["client_metrics"].filter(section="TRANSACTION").select("metric", "value").rows())
    assert latencies.keys() == {"MinLatency", "AverageLatency", "MaxLatency", "95thPercentileLatency"}
    assert latencies["MinLatency"] <= latencies["AverageLatency"] <= latencies["MaxLatency"]


def test_go_tpc_as_recorded_counts_over_kinds_of_transactions(tmp_path: Path) -> None:
    result = read_bytes(FORMAT, tmp_path, (RECORDED / "go-tpc-1.0.12.log").read_bytes())
    [client] = result["clients"].rows(named=True)
    assert client["operations_done"] == 11 + 149 + 12 + 142 + 13
    assert client["failed_operations"] == 0
    assert client["throughput_ops_s"] == pytest.approx(4000.3 / 60)


def test_what_is_not_told_is_computed(tmp_path: Path) -> None:
    result = parsed(tmp_path, "hello\ndone 1,000\ndone 500\ntook 3.0 s\np95 12.5\nbye\n")
    [client] = result["clients"].rows(named=True)
    assert (client["throughput_ops_s"], client["operations_done"], client["failed_operations"]) == (500.0, 1500, 0)
    assert result["client_metrics"].filter(metric="95thPercentileLatency")["value"].to_list() == [12.5]
    by_rate = Heading("tool", 1, summary={"throughput_ops_min": "([0-9]+) per minute", "runtime_ms": "([0-9]+) ms"})
    [client] = parsed(tmp_path, "600 per minute\n2000 ms\n", by_rate)["clients"].rows(named=True)
    assert (client["throughput_ops_s"], client["operations_done"], client["runtime_ms"]) == (10.0, 20, 2000.0)


def test_without_a_summary_the_client_is_not_complete(tmp_path: Path) -> None:
    result = parsed(tmp_path, "at 1: 10.5\nFATAL: no more memory\n")
    [client] = result["clients"].rows(named=True)
    assert (client["completed"], client["throughput_ops_s"], client["failed_operations"]) == (False, None, None)
    assert result["client_series"]["throughput_ops_s"].to_list() == [10.5]


def test_a_number_that_is_cut_is_not_read(tmp_path: Path) -> None:
    result = parsed(tmp_path, "took 3.0 s\ndone 12")
    assert result["clients"]["operations_done"].to_list() == [None]
    assert result.rejects["reason"].to_list() == ["the file ends inside this line"]


def test_the_heading_itself_holds_no_numbers(tmp_path: Path) -> None:
    heading = Heading("tool", 4, command_line="tool --done 7", summary={"throughput_ops_s": "--done ([0-9]+)"})
    assert parsed(tmp_path, "", heading)["clients"]["completed"].to_list() == [False]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"citus-analysis command {\n", "cannot be read"),
        (b'citus-analysis command {"tool": "t"}\n', "cannot be read"),
        (b'citus-analysis command {"tool": "t", "threads": 1, "summary": []}\n', "cannot be read"),
        (b'citus-analysis command {"tool": "t", "threads": 1, "summary": {"speed": "(x)"}}\n', "'speed'"),
        (
            b'citus-analysis command {"tool": "t", "threads": 1, "summary": {"runtime_s": "("}}\n',
            "not a regular expression",
        ),
        (b'citus-analysis command {"tool": "t", "threads": 1, "interval": "(x)"}\n', "no group named elapsed_s"),
    ],
)
def test_a_heading_that_cannot_be_used_is_refused(tmp_path: Path, line: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        read_bytes(FORMAT, tmp_path, line + b"10 per second\n")


def test_expressions_that_could_take_for_ever_are_refused_or_fast() -> None:
    assert find_pattern_problem("(a+)+$") is None  # linear in Rust
    assert "look-around" in (find_pattern_problem(r"(?=a)([0-9]+)") or "")
