"""Existing files get a place in a tree; no name leads out of it."""

from pathlib import Path, PurePosixPath

import pytest

from citus_analysis.errors import InputError, RunnerError, UsageError
from citus_analysis.runner import embedded, run_experiment
from citus_analysis.runner.execute import RunLifecycle
from citus_analysis.runner.experiment import parse_experiment
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.measure import publish
from citus_analysis.runner.plan import make_plan
from citus_analysis.runner.programs import ServerPrograms
from citus_analysis.runner.schedule import Ledger

EXPERIMENT = {"name": "x", "matrix": {"workloads": ["c"]}}


def adopt(out: Path, *files: dict[str, str]) -> tuple[str, ...]:
    target = {"kind": "files", "files": list(files)}
    return run_experiment(parse_experiment({**EXPERIMENT, "target": target}), out).verified


def everything(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_files_are_copied_and_labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("first.log").write_text("one")
    entry = {"path": "first.log", "resource": "V3", "phase": "run", "workload": "C"}
    assert adopt(Path("out"), entry) == ("V3/first.log",)
    assert (tmp_path / "out/V3/first.log").read_text() == "one"
    assert (tmp_path / "out/V3/runs.csv").read_text() == "file,phase,workload\nfirst.log,run,C\n"


@pytest.mark.parametrize(
    ("resource", "problem"),
    [
        ("../../../escape", "contains '/'"),
        ("..", "which is another folder"),
        (".", "which is another folder"),
        ("/tmp/escape", "contains '/'"),
        ("V3/../../escape", "contains '/'"),
        ("a\\b", "contains"),
        ("a\0b", "contains"),
        (".runner", "hidden"),
        ("x" * 300, "300 bytes long"),
    ],
)
def test_a_resource_that_leaves_the_folder_is_refused_before_anything_is_written(
    tmp_path: Path, resource: str, problem: str
) -> None:
    good, bad = tmp_path / "good.log", tmp_path / "bad.log"
    good.write_text("one")
    bad.write_text("two")
    with pytest.raises(UsageError, match=problem) as raised:
        adopt(
            tmp_path / "deep" / "out",
            {"path": str(good), "resource": "V3"},
            {"path": str(bad), "resource": resource},
        )
    assert str(raised.value).startswith("target.files, entry 2: resource")
    assert everything(tmp_path) == {"good.log", "bad.log"}


def test_a_file_would_overwrite_the_labels(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("")
    with pytest.raises(UsageError, match=r"two files would be copied to V3/runs\.csv"):
        adopt(tmp_path / "out", {"path": str(tmp_path / "runs.csv"), "resource": "V3"})


def test_the_name_of_a_node_is_part_of_file_names() -> None:
    target = {"kind": "cluster", "nodes": [{"host": "h", "name": "../../escape"}]}
    with pytest.raises(InputError, match="becomes part of file names, but contains '/'"):
        parse_experiment({**EXPERIMENT, "target": target})


def test_nothing_is_published_or_removed_outside_the_tree(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("keep")
    (tmp_path / "tree").mkdir()
    with pytest.raises(RunnerError, match="is outside the folder"):
        publish({PurePosixPath("../precious.txt"): precious}, tmp_path / "tree")
    run = make_plan(parse_experiment(EXPERIMENT))[0]
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(run.run_id, "publishing", files=["../precious.txt"])
    lifecycle = RunLifecycle(tmp_path / "tree", tmp_path / "attempts", journal, None, Ledger())  # type: ignore[arg-type] # not used
    with pytest.raises(RunnerError, match="is outside the folder"):
        lifecycle.carry_out(run)
    assert precious.read_text() == "keep"


def test_only_folders_of_ours_are_removed(tmp_path: Path) -> None:
    servers, home, ours = (tmp_path / name for name in ("servers", "home", "citus-analysis-1"))
    for place in (home, ours):
        servers.mkdir()
        place.mkdir()
        (place / "file").write_text("")
        (servers / "elsewhere.txt").write_text(str(place))
        embedded._remove_servers(ServerPrograms(tmp_path, 18), servers)
    assert everything(tmp_path) == {"home", "home/file"}
