"""Experiment files: what is wrong is said with the field's name; secrets have no place in them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from citus_analysis.core.shipped_files import find_shipped_folder
from citus_analysis.errors import InputError, UnknownNameError, UsageError
from citus_analysis.runner.experiment import (
    ClusterTarget,
    EmbeddedTarget,
    YcsbDriver,
    build_experiment_schema,
    load_experiment,
    parse_experiment,
)
from citus_analysis.runner.plan import make_plan

MINIMAL: dict[str, Any] = {"name": "x", "matrix": {"workloads": ["c"]}}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "a b"}, "name"),
        ({"matrix": {"workloads": ["g"]}}, "matrix.workloads"),
        ({"matrix": {"workloads": ["c"], "threads": [0]}}, "matrix.threads.0"),
        ({"matrix": {"workloads": ["c"], "threads": {"run": [4, 0]}}}, "matrix.threads.run.1"),
        ({"matrix": {"workloads": ["c"], "thread": [1]}}, "matrix.thread"),
        ({"iterations": 0}, "iterations"),
        ({"target": {"kind": "moon"}}, "target"),
        ({"target": {"kind": "cluster", "nodes": []}}, "target.cluster.nodes"),
        ({"monitor": {"share": 2}}, "monitor.share"),
        ({"order": "random"}, "order"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_experiment({**MINIMAL, **change}, path="x.yml")
    assert str(raised.value).startswith(f"x.yml: field '{field}':")
    assert raised.value.exit_code == 3


def test_more_load_generators_than_threads_are_refused() -> None:
    with pytest.raises(InputError, match="fewer threads than drivers"):
        parse_experiment({"name": "x", "matrix": {"workloads": ["c"], "threads": [1], "drivers": [2]}})


@pytest.mark.parametrize(
    "driver",
    [
        {"kind": "ycsb", "home": "y", "properties": {"db.passwd": "s3cret"}},
        {"kind": "ycsb", "home": "y", "properties": {"db.url": "jdbc:postgresql://u:s3cret@h/d"}},
    ],
)
def test_secrets_are_refused_and_not_repeated(driver: dict[str, Any]) -> None:
    with pytest.raises(InputError) as raised:
        parse_experiment({**MINIMAL, "driver": driver})
    assert "s3cret" not in str(raised.value)
    assert "PGPASS" in str(raised.value)


def test_an_unknown_name_suggests_shipped_experiments() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'laptop'"):
        load_experiment("laptp")


@pytest.mark.parametrize("text", ["- a\n- b\n", "name: [\n", "\x00"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "broken.yml"
    file.write_text(text)
    with pytest.raises(InputError, match=r"broken\.yml"):
        load_experiment(file)


@pytest.mark.parametrize("file", sorted(find_shipped_folder("experiments").glob("*.yml")), ids=lambda file: file.stem)
def test_shipped_experiments_are_valid_and_plan(file: Path) -> None:
    experiment = load_experiment(file.stem)
    assert experiment.name == file.stem
    assert make_plan(experiment)


def test_the_schema_describes_every_field_for_editors() -> None:
    schema = json.loads(json.dumps(build_experiment_schema()))
    assert {"name", "target", "driver", "matrix", "stop"} <= schema["properties"].keys()
    assert schema["additionalProperties"] is False


def test_the_documentation_describes_every_field() -> None:
    text = (Path(__file__).parents[2] / "docs" / "experiment-fields.md").read_text(encoding="utf-8")
    schema = json.loads(json.dumps(build_experiment_schema()))
    for part in (schema, *schema["$defs"].values()):
        for name, field in part["properties"].items():
            assert name == "kind" or f"| `{name}` |" in text
            assert name == "kind" or field["description"].rstrip(".") in text


@pytest.mark.parametrize("workload", ["d", "e"])
def test_ycsb_clients_that_insert_run_alone(workload: str) -> None:
    matrix = {"workloads": [workload], "threads": [2], "drivers": [2]}
    with pytest.raises(InputError, match=r"need drivers: \[1\]"):
        parse_experiment({"name": "x", "driver": {"kind": "ycsb", "home": "y"}, "matrix": matrix})


def test_folders_are_absolute_from_the_moment_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    driver = {"kind": "ycsb", "home": "ycsb-0.17.0"}
    experiment = parse_experiment({**MINIMAL, "driver": driver, "target": {"kind": "embedded", "postgres": "bin"}})
    assert isinstance(experiment.driver, YcsbDriver)
    assert isinstance(experiment.target, EmbeddedTarget)
    assert experiment.driver.home == tmp_path / "ycsb-0.17.0"
    assert experiment.target.postgres == str(tmp_path / "bin")
    assert parse_experiment(MINIMAL).target == EmbeddedTarget()  # `wheel` is no folder


def test_a_monitor_that_no_run_uses_is_refused() -> None:
    with pytest.raises(InputError, match=r"set matrix\.monitored: \[true\]"):
        parse_experiment({**MINIMAL, "monitor": {"share": 0.01}})
    stated = {"workloads": ["c"], "monitored": [False]}
    assert parse_experiment({"name": "x", "matrix": stated, "monitor": {"share": 0.01}}).monitor.share == 0.01


def test_a_description_may_speak_of_secrets() -> None:
    text = "md5 against scram: password: stored hashed, secret = none"
    assert parse_experiment({**MINIMAL, "description": text}).description == text


def test_values_of_the_command_line_replace_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "x.yml"
    file.write_text("{name: x, matrix: {workloads: [c], threads: [1]}, target: {kind: cluster, nodes: [{host: old}]}}")
    changes = {
        "matrix.threads": "[4, 8]",
        "matrix.settings.citus.max_cached_conns_per_worker": "[1]",
        "target.nodes.0.host": "10.0.0.7",
        "limits.duration_s": "5",
    }
    experiment = load_experiment(file, changes)
    assert experiment.matrix.threads == [4, 8]
    assert experiment.matrix.settings == {"citus.max_cached_conns_per_worker": [1]}
    assert isinstance(experiment.target, ClusterTarget)
    assert experiment.target.nodes[0].host == "10.0.0.7"
    assert experiment.limits.duration_s == 5
    with pytest.raises(InputError, match=r"matrix\.thread'"):
        load_experiment(file, {"matrix.thread": "[4]"})


@pytest.mark.parametrize("place", ["target.nodes.1.host", "target.nodes.first.host", "name.first", "matrix..threads"])
def test_a_place_that_the_file_does_not_have_is_named(tmp_path: Path, place: str) -> None:
    file = tmp_path / "x.yml"
    file.write_text("{name: x, matrix: {workloads: [c]}, target: {kind: cluster, nodes: [{host: old}]}}")
    with pytest.raises(UsageError, match=re.escape(repr(place))):
        load_experiment(file, {place: "1"})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"matrix": {"workloads": ["c"], "threads": {"load": [1]}}}, "no value for workload c; add c: or run:"),
        ({"matrix": {"workloads": ["c"], "threads": {"run": [1], "g": [1]}}}, "'g' is neither a workload nor"),
        ({"matrix": {"workloads": ["c"], "threads": {"run": [1]}, "drivers": [2]}}, "fewer threads than drivers"),
        ({"target": {"growth": "rebalance"}}, "needs runs ordered by size"),
        ({"target": {"growth": "rebalance", "shards_per_worker": 2}, "order": "study"}, "makes no new ones"),
        ({"target": {"shard_count": 2, "shards_per_worker": 2}}, "exclude each other"),
    ],
)
def test_options_that_contradict_each_other_are_refused(changes: dict[str, Any], problem: str) -> None:
    target = {"kind": "cluster", "nodes": [{"host": "c"}], **changes.pop("target", {})}
    with pytest.raises(InputError, match=problem):
        parse_experiment({**MINIMAL, "target": target, **changes})
