"""`run --pairs`: a known change found on a real server, the course of a session, its file, and refusals."""

import json
from pathlib import Path

import pytest

from citus_analysis.cli import main
from citus_analysis.errors import InputError, UnknownNameError, UsageError
from citus_analysis.runner import paired_session
from citus_analysis.runner.experiment import Experiment, parse_experiment
from citus_analysis.runner.paired_session import measure_pairs

COMMITS = """\
name: commits
target: {kind: embedded}
driver: {kind: pgbench}
matrix: {workloads: [load], threads: [2], records: [1000], monitored: [false]}
limits: {duration_s: 1}
warmup_s: 0
"""


def typed(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def experiment(**matrix: object) -> Experiment:
    driver = {"kind": "pgbench"}
    return parse_experiment({"name": "x", "driver": driver, "matrix": {"workloads": ["c"], "threads": [4], **matrix}})


def rates(monkeypatch: pytest.MonkeyPatch, change: float) -> list[str]:
    """Runs take no time, and those of the change have another throughput; their names in order."""
    made: list[str] = []

    def run(one: Experiment, resource: str, tree: Path, watch: object, *, replace_table: bool) -> float:
        made.append(tree.name)
        return (change if tree.name == "change" else 100.0) * (1 + 0.001 * (len(made) % 3))

    monkeypatch.setattr(paired_session, "_run", run)
    monkeypatch.setattr(paired_session, "begin", lambda *_, **__: None)
    return made


def test_a_session_stops_with_its_verdict_and_measures_the_base_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rates(monkeypatch, 90)
    changed = experiment().model_copy(update={"seed": 7})
    result = measure_pairs(experiment(), changed, tmp_path, 20, seed=1)
    assert (result.verdict, result.pairs, result.exit_code) == ("slower", 6, 1)
    assert made[6:8] == ["base", "base"]
    assert made.count("change") == 6
    assert result.again is not None
    lines = (tmp_path / "pairs.csv").read_text(encoding="utf-8").splitlines()
    assert {line.split(",")[1] for line in lines[1:]} == {"base", "change"}
    assert {line.partition(",")[0] for line in lines[1:]} == {"x-w0-t4-c"}
    assert measure_pairs(experiment(), changed, tmp_path, 20).pairs == 6
    assert len(made) == 14


def test_a_session_without_a_change_goes_on_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = rates(monkeypatch, 100)
    assert measure_pairs(experiment(), experiment(), tmp_path, 2).pairs == 2
    result = measure_pairs(experiment(), experiment(), tmp_path, 12)
    assert (result.verdict, result.exit_code, result.again) == ("equivalent", 0, None)
    assert len(made) == 2 * result.pairs


def test_one_configuration_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates(monkeypatch, 90)
    several = experiment(threads=[4, 8])
    with pytest.raises(UsageError, match=r"the experiment has 2 \(name one as CELL: x-w0-t4-c, x-w0-t8-c\)"):
        measure_pairs(several, several, tmp_path, 2)
    with pytest.raises(UnknownNameError, match="x-w0-t4-c"):
        measure_pairs(several, several, tmp_path, 2, cell="x-w0-t5-c")
    with pytest.raises(UsageError, match="other configurations"):
        measure_pairs(several, experiment(), tmp_path, 2, cell="x-w0-t4-c")
    assert measure_pairs(several, several, tmp_path, 1, cell="x-w0-t4-c").pairs == 1
    assert measure_pairs(several, several, tmp_path, 2, cell="x-w0-t8-c").pairs == 2
    assert measure_pairs(several, several, tmp_path, 1, cell="x-w0-t4-c").pairs == 1


def test_the_plan_and_the_checks_are_of_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("commits.yml").write_text(COMMITS, encoding="utf-8")
    change = ["--change", "target.settings.synchronous_commit=off"]
    assert typed("run", "commits.yml", "--pairs", "7", *change, "--dry-run", "--json") == 0
    printed = capsys.readouterr()
    assert [(row["side"], row["most_runs"]) for row in json.loads(printed.out)] == [("base", 11), ("change", 7)]
    assert "at most 7 pairs: at least 18 s, from warmup_s" in printed.err
    assert typed("run", "commits.yml", "--pairs", "7", "--change", "driver={kind: ycsb, home: nowhere}", "--check") == 3
    assert "failed   client programs" in capsys.readouterr().out
    assert typed("run", "commits.yml", "--change", "seed=3", "--check") == 2


RATED = {"set_up": ["two-phase/schema.sql"], "rate_ops_s": 5, "scripts": [{"builtin": "select-only"}]}


@pytest.mark.parametrize(
    "driver",
    [
        {"kind": "pgbench", "workloads": {"own": RATED}},
        {"kind": "ycsb", "home": "ycsb", "properties": {"target": 5}},
    ],
)
def test_a_load_with_a_fixed_rate_is_refused(driver: dict[str, object], tmp_path: Path) -> None:
    workload = "own" if driver["kind"] == "pgbench" else "c"
    one = parse_experiment({"name": "x", "driver": driver, "matrix": {"workloads": [workload], "threads": [4]}})
    with pytest.raises(UsageError, match="the load has a fixed rate"):
        measure_pairs(one, one, tmp_path, 2)


def test_a_damaged_list_is_refused(tmp_path: Path) -> None:
    for damaged in ("cell,first,second,first_ops_s,second_ops_s\nx,base,ch", "first\n1\n"):
        (tmp_path / "pairs.csv").write_text(damaged, encoding="utf-8")
        with pytest.raises(InputError, match="is no list of pairs"):
            measure_pairs(experiment(), experiment(), tmp_path, 2)


def test_a_known_change_is_found_on_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("commits.yml").write_text(COMMITS, encoding="utf-8")
    change = ["--change", "target.settings.synchronous_commit=off"]
    assert typed("run", "commits.yml", "--pairs", "1", *change, "--out", "session", "--json") == 4
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["pairs"]) == ("undecided", 1)
    assert found["ratio"] > 1.05
    assert typed("ingest", "session", "--out", "dataset") == 0
    # What stands is not taken for the verdict of another change.
    other = ["--change", "target.settings.fsync=off"]
    assert typed("run", "commits.yml", "--pairs", "1", *other, "--out", "session") == 2
    assert "session/change: holds another experiment: target.settings" in capsys.readouterr().err
    assert typed("run", "commits.yml", "--pairs", "1", "--more", "1", "--out", "session") == 2
    assert typed("run", "commits.yml", *change, "--out", "other") == 2
    assert "--change belongs to --pairs" in capsys.readouterr().err
