from __future__ import annotations

from pathlib import Path

import pytest

from citus_analysis.dataset.identity import Facts, Labels, split_facts
from citus_analysis.dataset.resource_folders import Identifier
from citus_analysis.dataset.walk import walk
from citus_analysis.errors import InputError
from tests.conftest import Tree

PATTERNS = """
files:
  - pattern: "{resource}/{workload}-{threads}threads-run{iteration}.log"
    meta: {phase: run, system: citus}
  - pattern: "**/node{node}/*.log"
    meta: {timezone: Europe/Berlin}
"""


def facts(root: Path, name: str) -> Facts:
    return Labels(root).facts(root / name)


def test_patterns_name_facts(tree: Tree) -> None:
    root = tree({"identity.yml": PATTERNS})
    expected = {"resource": "V3", "workload": "C", "threads": 16, "iteration": 2, "phase": "run", "system": "citus"}
    assert facts(root, "V3/C-16threads-run2.log") == expected
    assert facts(root, "V3/C-16threads-run2.log.gz") == expected
    assert facts(root, "a/b/node1/postgres.log") == {"node": "1", "timezone": "Europe/Berlin"}
    assert facts(root, "node1/postgres.log") == {"node": "1", "timezone": "Europe/Berlin"}
    assert facts(root, "elsewhere.log") == {}


def test_a_fact_that_stands_twice_in_a_pattern_must_be_the_same_twice(tree: Tree) -> None:
    root = tree({"identity.yml": 'files: [{pattern: "{resource}/{resource}.log"}]'})
    assert facts(root, "a/a.log") == {"resource": "a"}
    assert facts(root, "a/b.log") == {}


def test_characters_of_a_pattern_mean_themselves(tree: Tree) -> None:
    root = tree({"identity.yml": 'files: [{pattern: "run.{iteration}(1)+.log"}]'})
    assert facts(root, "run.7(1)+.log") == {"iteration": 7}
    assert facts(root, "runx7(1)+.log") == {}


def test_the_nearest_file_wins_and_rows_win_over_patterns(tree: Tree) -> None:
    root = tree(
        {
            "identity.yml": 'files: [{pattern: "**/*.log", meta: {threads: 1, workload: far}}]',
            "in/identity.yml": 'files: [{pattern: "*.log", meta: {threads: 2}}]',
            "in/runs.csv": "file,threads\na.log,3\n",
            "runs.csv": "file,threads,iteration\nin/a.log,4,5\nin/b.log,,6\n",
        }
    )
    assert facts(root, "in/a.log") == {"threads": 3, "iteration": 5}
    assert facts(root, "in/b.log") == {"threads": 2, "iteration": 6}
    assert facts(root, "c.log") == {"threads": 1, "workload": "far"}


def test_label_files_above_the_root_do_not_count(tree: Tree) -> None:
    root = tree({"runs.csv": "file,threads\nin/a.log,4\n"})
    assert Labels(root / "in").facts(root / "in" / "a.log") == {}


def test_another_tools_runs_csv_is_left_alone(tree: Tree) -> None:
    root = tree({"runs.csv": "run,thread count,throughput\n1,4,100\n"})
    assert facts(root, "a.log") == {}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("runs.csv", "file,thread\na.log,4\n", "runs.csv: line 2: no fact (runs.csv) is named 'thread'"),
        ("runs.csv", "file,threads\na.log,4\nb.log,x\n", "runs.csv: line 3: threads must be a whole number"),
        ("runs.csv", "file,threads\na.log,4,5\n", "runs.csv: line 2: has more cells than the header"),
        ("identity.yml", "files: [", "identity.yml: line 2: not YAML"),
        ("identity.yml", "[" * 100_000, "identity.yml: line 1: nested more than 32 levels deep (see docs/datasets.md)"),
        ("identity.yml", "- a\n", "identity.yml: top level:"),
        ("identity.yml", "files: [{patern: x}]", "identity.yml: files.0.pattern: field required"),
        ("identity.yml", "files: [{pattern: x, metta: {}}]", "identity.yml: files.0.metta: extra inputs"),
        ("identity.yml", "files: [{pattern: '{threds}'}]", "identity.yml: files[0].pattern: {threds} is no fact"),
        ("identity.yml", "files: [{pattern: x, meta: {phase: q}}]", "files[0].meta: phase must be load or run"),
    ],
)
def test_a_malformed_label_file_says_where(tree: Tree, name: str, text: str, message: str) -> None:
    root = tree({name: text})
    with pytest.raises(InputError) as caught:
        facts(root, "a.log")
    assert message in str(caught.value)


def test_any_other_name_is_a_factor_of_the_set_up(tree: Tree) -> None:
    pattern = "cpu{cpus}-mem{memory_gb}/run{iteration}.log"
    root = tree({"identity.yml": f"files: [{{pattern: '{pattern}', meta: {{host_kind: docker, phase: run}}}}]"})
    expected = {"iteration": 3, "phase": "run", "set_up": "host_kind=docker, cpus=4, memory_gb=16"}
    assert facts(root, "cpu4-mem16/run3.log") == expected


def test_split_facts() -> None:
    assert split_facts({"threads": 4, "timezone": "UTC"}) == ({"threads": 4}, {"timezone": "UTC"})


CONFIG = """
resource: V3
system: postgresql
facts: {set_up: laptop, phase: load, workload: A, threads: 8, workers: 0}
"""


def identified(root: Path, name: str) -> Facts:
    (found,) = [found for found in walk([root]).files if found.relative == name]
    return Identifier({}).identify(found).identity.to_dict()


def test_the_facts_of_a_description_hold_for_every_file_whatever_it_is_called(tree: Tree) -> None:
    common = {"resource": "V3", "system": "postgresql", "set_up": "laptop", "workers": 0}
    run = {**common, "phase": "load", "workload": "A", "threads": 8}
    root = tree(
        {
            "odd/config.yml": CONFIG,
            "odd/pglogs/PGLOG-1-2.log": "",
            # The description knows better than a name.
            "odd/YCSB/raw/load_B_16_60000_3_2_V3_1_0.log": "",
            "odd/notes.txt": "",
            "odd/client.out": "",
            "odd/runs.csv": "file,iteration,threads\nclient.out,4,9\n",
        }
    )
    assert identified(root, "odd/pglogs/PGLOG-1-2.log") == {**run, "node": "1", "iteration": 2}
    client = identified(root, "odd/YCSB/raw/load_B_16_60000_3_2_V3_1_0.log")
    assert client == {**run, "records": 60000, "iteration": 3, "drivers": 1, "part": 0, "role": "main"}
    assert identified(root, "odd/notes.txt") == common  # about the resource: no iteration, no run
    assert identified(root, "odd/client.out") == {**run, "iteration": 4, "threads": 9}


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("facts: [1]", "is not a mapping"),
        ("facts: {threads: [1, 2]}", "is not a mapping"),
        ("facts: {thread: 1}", "no fact"),
        ("facts: {threads: many}", "threads must be a whole number"),
    ],
)
def test_facts_that_cannot_be_are_named_with_their_file(tree: Tree, block: str, problem: str) -> None:
    root = tree({"V3/config.yml": f"{block}\n", "V3/pglogs/PGLOG-1-2.log": ""})
    with pytest.raises(InputError, match=problem) as raised:
        identified(root, "V3/pglogs/PGLOG-1-2.log")
    assert str(raised.value).startswith(f"{root}/V3/config.yml: field 'facts':")
