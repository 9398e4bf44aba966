"""The command check: exit codes, lines, JSON, raw files, a dataset."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from citus_analysis import cli
from tests.documentation.blocks import ROOT
from tests.documentation.test_as_typed import newcomers

RAW = ROOT / "data" / "recorded" / "citus-w8-t32-c" / "YCSB"
FORM = "count runs, workers 8"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    page = tmp_path / "page.md"
    page.write_text(f"It has <!-- ca: {FORM} -->4<!-- /ca --> runs\n")
    return page


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        cli.main(["check", *map(str, arguments)])
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


def test_a_wrong_number_ends_with_1_until_it_is_written(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On raw files, which are read once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, out, err = run(capsys, page, "--dataset", RAW)
    assert (code, out.splitlines()) == (
        1,
        [
            f"{page}:1: last digit: printed: 4, right: 5; the value is 5",
            "1 bound number in 1 document: 1 last digit",
        ],
    )
    assert "read into" in err
    code, out, _ = run(capsys, page, "--dataset", RAW, "--write")
    assert (code, out.splitlines()) == (0, [f"{page}: written", "1 bound number in 1 document: 1 right"])
    code, out, _ = run(capsys, page, "--dataset", RAW, "--json")
    found = json.loads(out)["numbers"]
    assert (code, found[0]["status"], found[0]["line"], found[0]["form"]) == (0, "right", 1, FORM)


def test_suggestions_are_printed(demonstration_path: Path, page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page.write_text("It went from 790 operations/s to more.\n")
    code, out, _ = run(capsys, page, "--dataset", demonstration_path, "--suggest")
    assert code == 0
    assert out.splitlines()[:2] == [
        f"{page}:1: 790 operations/s: one value fits",
        "    <!-- ca: mean throughput_ops_s, workers 1, workload C -->790<!-- /ca -->",
    ]
    assert page.read_text() == "It went from 790 operations/s to more.\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--suggest",), 2, "--suggest looks for values of a dataset"),
        (("--suggest", "--write"), 2, "exclude each other"),
        (("none.md",), 3, "there is no such document"),
        ((), 1, "no dataset was given"),
    ],
)
def test_wrong_calls_are_named(
    page: Path, arguments: tuple[str, ...], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended, out, err = run(capsys, page, *arguments)
    assert ended == code
    assert words in out + err


def test_the_hook_of_pre_commit_is_the_command(page: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    program, *words = hook["entry"].split()
    assert (program, hook["language"]) == ("citus-analysis", "python")
    with pytest.raises(SystemExit) as end:
        cli.main([*words, str(page)])
    assert end.value.code == 1


@pytest.mark.parametrize(("number", "code"), [("5", 0), ("4", 1)])
def test_the_action_checks_documents_by_raw_files(page: Path, tmp_path: Path, number: str, code: int) -> None:
    page.write_text(page.read_text().replace("-->4<", f"-->{number}<"))
    action = yaml.safe_load((ROOT / ".github/actions/check-documents/action.yml").read_text(encoding="utf-8"))
    step = next(one for one in action["runs"]["steps"] if one["name"] == "check")
    assert set(step["env"]) == {"DOCUMENTS", "DATASET"}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    places = {"PYTHONPATH": str(ROOT), "RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    environment = newcomers(PATH=path, DOCUMENTS="page.md", DATASET=str(RAW), XDG_CACHE_HOME=str(tmp_path), **places)
    words = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
    assert subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=False).returncode == code
    assert ("last digit" in (tmp_path / "summary").read_text()) == bool(code)
