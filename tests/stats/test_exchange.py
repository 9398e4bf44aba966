"""Comparisons in other tools' formats: read by the real benchstat, by an XML parser, as JSON and as Markdown."""

import json
import os
import re
import shutil
import statistics
import subprocess
from pathlib import Path
from xml.etree import ElementTree as Xml

import polars as pl
import pytest

from citus_analysis.dataset import Dataset
from citus_analysis.errors import UnknownNameError, UsageError
from citus_analysis.stats import compare_runs, gate
from citus_analysis.stats.exchange import render_comparison, render_gate
from citus_analysis.stats.run_comparisons import RunComparison

ONLY = {"workload": "C", "threads": 16}


@pytest.fixture(scope="module")
def found(recorded_dataset: Dataset) -> RunComparison:
    """Two and four workers against one, on recorded runs."""
    return compare_runs(recorded_dataset, by="workers", only=ONLY, pool=["drivers"])


def benchstat() -> str:
    """Go's tool on the PATH, or where `go install` puts it."""
    folders = [os.environ.get("GOBIN", ""), str(Path.home() / "go" / "bin")]
    path = shutil.which("benchstat") or shutil.which("benchstat", path=os.pathsep.join(filter(None, folders)))
    if path is None:
        pytest.skip("needs benchstat; go install golang.org/x/perf/cmd/benchstat@latest")
    return path


def test_benchstat_reads_the_runs_and_agrees(found: RunComparison, tmp_path: Path) -> None:
    file = tmp_path / "runs.txt"
    file.write_text(render_comparison(found, "benchstat"))
    ended = subprocess.run(
        [benchstat(), "-col", "/workers", "-format", "csv", str(file)], capture_output=True, text=True, check=True
    )
    rows = [line.split(",") for line in ended.stdout.splitlines() if "workload=C" in line]
    (row,) = rows
    one = next(c for c in found if c.label_a == "2")
    # The tool prints the change of medians and the Mann-Whitney p-value, which stands beside our own test, too.
    tested = next(cell for cell in row if cell.startswith("p="))
    assert tested == f"p={one.p_mann_whitney:.3f} n={one.mean_b.n}+{one.mean_a.n}"
    change = next(cell for cell in row if cell.endswith("%") and cell.startswith(("-", "+")))
    lines = file.read_text().splitlines()
    values = {w: [float(line.split()[-2]) for line in lines if f"/workers={w} " in line] for w in (1, 2)}
    medians = [statistics.median(values[w]) for w in (1, 2)]
    assert float(change[:-1]) == pytest.approx((medians[1] / medians[0] - 1) * 100, abs=0.01)
    assert "Unit" not in ended.stderr


def test_go_format_has_one_line_for_each_run_and_no_spaces_in_names(found: RunComparison) -> None:
    first, *lines = render_comparison(found, "benchstat").splitlines()
    assert first == "Unit ops/s better=higher"
    assert len(lines) == sum({c.label_b: c.mean_b.n for c in found}.values()) + sum(c.mean_a.n for c in found)
    assert all(re.fullmatch(r"BenchmarkRuns/\S+ 1 [\d.e-]+ ops/s", line) for line in lines)


def test_times_are_seconds_and_lower_is_better() -> None:
    runs = pl.DataFrame({"resource": ["w2-16"] * 2 + ["w4 a/b"] * 2, "p99_us": [1500.0, 1600.0, 900.0, 1000.0]})
    lines = render_comparison(compare_runs(runs, "p99_us", "resource"), "benchstat").splitlines()
    assert lines[0] == "Unit p99-sec better=lower"
    # `-16` at the end would be a number of processors; a slash would begin another key.
    assert lines[1] == "BenchmarkRuns/resource=w2-16-1 1 0.0015 p99-sec"
    assert lines[3].startswith("BenchmarkRuns/resource=w4_a_b 1 ")


def test_junit_counts_failures_and_skips(found: RunComparison) -> None:
    suite = Xml.fromstring(render_comparison(found, "junit"))
    assert int(suite.attrib["tests"]) == len(found) == len(suite.findall("testcase"))
    assert (
        int(suite.attrib["failures"]) == sum(c.verdict == "slower" for c in found) == len(suite.findall(".//failure"))
    )
    assert int(suite.attrib["skipped"]) == sum(c.verdict == "inconclusive" for c in found)


def test_github_action_benchmark_has_the_means_with_their_intervals(found: RunComparison) -> None:
    entries = json.loads(render_comparison(found, "github-action-benchmark"))
    assert [entry["value"] for entry in entries] == pytest.approx(
        [next(iter(found)).mean_b.estimate, *(c.mean_a.estimate for c in found)]
    )
    assert {tuple(entry) for entry in entries} == {("name", "unit", "value", "range", "extra")}


def test_bencher_has_the_means_with_their_intervals(found: RunComparison) -> None:
    results = json.loads(render_comparison(found, "bencher"))
    measures = [measure for result in results.values() for measure in result.items()]
    assert {name for name, _ in measures} == {"throughput"}
    means = [next(iter(found)).mean_b.estimate, *(c.mean_a.estimate for c in found)]
    assert [metric["value"] for _, metric in measures] == pytest.approx(means)
    assert all(metric["lower_value"] < metric["value"] < metric["upper_value"] for _, metric in measures)
    runs = pl.DataFrame({"system": ["x"] * 2 + ["y"] * 2, "mean_us": [1.0, 1.0, 2.0, 2.5]})
    latencies = json.loads(render_comparison(compare_runs(runs, "mean_us"), "bencher"))
    assert latencies["system=x"]["latency"]["value"] == pytest.approx(1000)


def test_conbench_has_the_values_of_all_runs(found: RunComparison) -> None:
    results = json.loads(render_comparison(found, "conbench"))
    sides = [next(iter(found)).mean_b.n, *(c.mean_a.n for c in found)]
    assert [len(result["stats"]["data"]) for result in results] == sides
    assert {result["stats"]["unit"] for result in results} == {"i/s"}
    assert {result["batch_id"] for result in results} == {results[0]["run_id"]}
    assert {result["tags"]["name"] for result in results} == {"throughput_ops_s"}
    assert len({json.dumps(result["tags"]) for result in results}) == len(results)
    runs = pl.DataFrame({"system": ["x"] * 2 + ["y"] * 2, "p99_us": [1500.0, 1600, 900, 1000]})
    (first, _) = json.loads(render_comparison(compare_runs(runs, "p99_us"), "conbench"))
    assert (first["stats"]["unit"], first["stats"]["data"]) == ("s", pytest.approx([0.0015, 0.0016]))
    counted = runs.rename({"p99_us": "failed_operations"})
    with pytest.raises(UsageError, match="no unit for failed_operations"):
        render_comparison(compare_runs(counted, "failed_operations"), "conbench")


def test_markdown_escapes_what_a_name_could_mean() -> None:
    runs = pl.DataFrame({"system": ["<b>x|y</b>"] * 2 + ["@all"] * 2, "throughput_ops_s": [10.0, 11.0, 20.0, 21.0]})
    text = render_comparison(compare_runs(runs), "markdown")
    assert "faster" in text or "slower" in text
    assert r"\<b\>x\|y\</b\>" in text
    assert r"\@all" in text
    (row,) = [line for line in text.splitlines() if r"\@all" in line]
    assert len(re.findall(r"(?<!\\)\|", row)) == 7


def test_an_unknown_format_is_named(found: RunComparison) -> None:
    with pytest.raises(UnknownNameError, match="benchstat"):
        render_comparison(found, "benchstats")
    runs = pl.DataFrame({"throughput_ops_s": [10.0, 11.0]})
    with pytest.raises(UnknownNameError, match="junit"):
        render_gate(gate(runs, runs), "benchstat")
