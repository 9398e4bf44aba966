"""`inspect` shows what files are and how a study is designed, and writes nothing but what is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from citus_analysis.cli import main
from citus_analysis.dataset import inspect
from tests.dataset.study.outputs import write_pgbench


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for version in (15, 16):
        for repeat in (1, 2):
            write_pgbench(tmp_path / "tree" / f"pg{version}_c4_r{repeat}.log", 4, 1000)
    (tmp_path / "tree" / "notes.md").write_text("# measured in May\n")
    return tmp_path / "tree"


def test_the_design_is_shown_with_reasons(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(["inspect", str(tree)], capsys)
    assert code == 0
    assert "The design: 4 runs in 2 cells" in out
    assert "the word 'r' beside it" in out
    assert "pg15, pg16" in out
    assert "notes.md: not recognised" in out
    assert {path.name for path in tree.parent.iterdir()} == {"tree"}


def test_json_has_each_file_and_cell(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = said(["inspect", str(tree), "--json"], capsys)
    found = json.loads(out)
    assert [cell["set_up"] for cell in found["cells"]] == ["pg15", "pg16"]
    assert {file["format"] for file in found["files"]} == {"pgbench", None}
    assert found["unexplained"] == ["pg15", "pg16"]


def test_a_description_is_written_once(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tree / "identity.yml"
    assert said(["inspect", str(tree), "--write", str(target)], capsys)[0] == 0
    kept = target.read_text()
    assert kept == "files:\n- pattern: '{set_up}_c{threads}_r{iteration}.log'\n  meta: {}\n"
    _, again, _ = said(["inspect", str(tree)], capsys)
    assert "The design: 4 runs in 2 cells" in again
    code, _, err = said(["inspect", str(tree), "--write", str(target)], capsys)
    assert code == 2
    assert "exists already" in err
    assert target.read_text() == kept


@pytest.mark.parametrize(
    ("names", "patterns"),
    [
        ([f"cpu{c}-mem{m}/run{i}.log" for c in (2, 4) for m in (4, 16) for i in (1, 2, 3)], 1),
        ([f"2pc-par-{p}-c{c}.log" for c in (100, 200) for p in (1, 2, 3)], 6),
        ([f"config_{n}/run-{i}.log" for n in range(1, 5) for i in (1, 2)], 4),
    ],
)
def test_a_written_description_gives_the_same_design(tmp_path: Path, names: list[str], patterns: int) -> None:
    for number, name in enumerate(names):
        write_pgbench(tmp_path / name, 8, 1000 * (len(name) + number // 2))
    found = inspect(tmp_path)
    text = found.identity_yml()
    (tmp_path / "identity.yml").write_text(text)
    assert text.count("pattern:") <= patterns
    assert inspect(tmp_path).cells == found.cells


def test_a_description_that_cannot_be_written_is_named(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(["inspect", str(tree), "--write", str(tree / "nowhere" / "identity.yml")], capsys)
    assert code == 2
    assert "identity.yml: cannot be written" in err


def test_a_folder_without_files_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(["inspect", str(tmp_path)], capsys)
    assert code == 3
    assert "holds no files" in err
