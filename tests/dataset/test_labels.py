from __future__ import annotations

from pathlib import Path

import pytest

from citus_analysis.dataset.labels import Labels, split_facts
from citus_analysis.errors import InputError
from tests.conftest import Tree

PATTERNS = """
files:
  - pattern: "{resource}/{workload}-{threads}threads-run{iteration}.log"
    meta: {phase: run, system: citus}
  - pattern: "**/node{node}/*.log"
    meta: {timezone: Europe/Berlin}
"""


def facts(root: Path, name: str) -> dict[str, object]:
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


def test_split_facts() -> None:
    assert split_facts({"threads": 4, "timezone": "UTC"}) == ({"threads": 4}, {"timezone": "UTC"})
