"""The commands compare and scale on recorded runs."""

import json
import shutil
from pathlib import Path

import pytest

import citus_analysis as ca
from citus_analysis import cli
from citus_analysis.dataset import ingest
from tests.recordings import RECORDED

RESOURCES = ("w1-t16-insert", "w2-t16-insert", "w4-t16-insert", "w2-fail-stop-insert")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The load generators' output of four resources, one of which failed."""
    folder = tmp_path_factory.mktemp("statistics")
    for name in RESOURCES:
        shutil.copytree(RECORDED / name / "YCSB", folder / "raw" / name / "YCSB")
        shutil.copy(RECORDED / name / "config.yml", folder / "raw" / name)
    ingest(folder / "raw", folder / "dataset", jobs=1)
    return folder / "dataset"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        cli.main(list(arguments))
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


def test_compare_prints_a_verdict_per_level(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "compare", str(dataset), "--by", "workers", "--metric", "throughput_ops_s")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("throughput [operations/s]")
    assert [line.split()[:3] for line in lines[2:5]] == [["1", "(base)", "3"], ["2", "5", "4,032"], ["4", "3", "4,391"]]
    assert "slower" in lines[3]
    assert "note: 1 run left out: status failed" in out


def test_compare_json_is_one_document(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compare", str(dataset), "--by", "resource", "--within", "phase", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert [(c["b"], c["a"]) for c in document["comparisons"]] == [
        ("w1-t16-insert", "w2-t16-insert"),
        ("w1-t16-insert", "w4-t16-insert"),
    ]
    first = document["comparisons"][0]
    assert first["verdict"] == "slower"
    assert first["ratio_low"] < first["ratio"] < first["ratio_high"] < 1
    assert document["strata"] == ["phase"]


def test_runs_lists_each_configuration_with_the_status_of_its_runs(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "runs", str(dataset))
    assert code == 0
    common, head, *lines, total = out.splitlines()
    assert common.startswith("system=citus  phase=load  workload=A")
    assert head.split() == ["family", "workers", "runs", "ok", "failed", "throughput", "interval"]
    assert lines[1].split()[2:] == ["2", "5", "5", "0", "4,032", "[3,363,", "4,835]"]
    assert lines[3].split() == ["fail-stop", "2", "1", "0", "1"]
    assert total.startswith("4 configurations, 12 runs")


def test_runs_json_has_the_means_of_compare(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(run(capsys, "runs", str(dataset), "--json")[1])
    compared = json.loads(run(capsys, "compare", str(dataset), "--by", "workers", "--json")[1])
    assert sum(one["runs"] for one in listed) == len(ca.open_dataset(dataset).runs())
    means = {one["workers"]: one["throughput_ops_s"] for one in listed if one["ok"]}
    (first, *_) = compared["comparisons"]
    assert first["mean_a"] == means[int(first["a"])]


def test_the_library_call_is_the_command(dataset: Path) -> None:
    result = ca.compare(ca.open_dataset(dataset), by="workers", metric="throughput_ops_s")
    assert (result.comparisons[0].label_a, result.comparisons[0].verdict) == ("2", "slower")


def test_latencies_count_downwards(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "compare", str(dataset), "--by", "workers", "--metric", "p99_us", "--json")
    assert {(c["ratio"] > 1, c["verdict"]) for c in json.loads(out)["comparisons"]} <= {
        (True, "slower"),
        (True, "inconclusive"),
    }


def test_scale_states_that_throughput_falls(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "scale", str(dataset), "--x", "workers", "--json")
    assert code == 0
    (curve,) = json.loads(out)["curves"]
    assert [point["workers"] for point in curve["points"]] == [1, 2, 4]
    assert [point["n"] for point in curve["points"]] == [3, 5, 3]
    assert curve["growth"]["verdict"] == "slower"
    assert {model["model"] for model in curve["models"]} == {"linear", "amdahl", "gustafson", "usl"}
    _, text, _ = run(capsys, "scale", str(dataset))
    assert "throughput falls from 1 to 4 workers" in text


def test_wrong_names_and_values_are_usage_errors(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "compare", str(dataset), "--by", "worker")
    assert (code, err.count("\n")) == (2, 1)
    assert "did you mean 'workers'" in err
    code, _, err = run(capsys, "compare", str(dataset), "--only", "phase")
    assert code == 2
    assert "write --only COLUMN=VALUE" in err
    code, _, err = run(capsys, "scale", str(dataset), "--only", "phase=run")
    assert code == 1
    assert "no run has phase=run" in err
    code, _, err = run(capsys, "scale", str(dataset.parent / "absent"))
    assert code == 3
