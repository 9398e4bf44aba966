"""The GitHub Action of the repository: its steps as GitHub runs them, on real commands; only `gh` is a stand-in."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from citus_analysis.cli.subcommands.gate import command
from tests.documentation.blocks import ROOT, blocks_of
from tests.documentation.test_as_typed import newcomers

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
EXPRESSION = re.compile(r"\$\{\{ *(.+?) *\}\}")
WRITTEN = next(block.text for block in blocks_of(ROOT / "docs" / "ci.md") if block.language == "python")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of docs/ci.md, and a `gh` that keeps what it is called with."""
    folder = tmp_path_factory.mktemp("action")
    subprocess.run([sys.executable, "-c", WRITTEN], cwd=folder, check=True)
    shutil.copytree(folder / "before", folder / "again")
    shutil.copytree(folder / "before", folder / "few", ignore=shutil.ignore_patterns("*_[2-5]_0_select*"))
    (folder / "bin").mkdir()
    (folder / "bin" / "gh").write_text('#!/bin/sh\necho "gh $*" >> calls.txt\n')
    (folder / "bin" / "gh").chmod(0o755)
    return folder


def act(files: Path, folder: Path, **given: str) -> tuple[int, dict[str, str], str]:
    """Run all steps but the installation: the last exit code, the outputs, and the summary."""
    inputs = {name: str(value.get("default", "")) for name, value in ACTION["inputs"].items()} | given
    known = {f"inputs.{name}": value for name, value in inputs.items()}
    known |= {"github.event.pull_request.html_url": "https://example.org/pull/1", "github.token": "secret"}
    path = os.pathsep.join([str(files / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    places = {"GITHUB_OUTPUT": folder / "output", "GITHUB_STEP_SUMMARY": folder / "summary", "RUNNER_TEMP": folder}
    for place in ("output", "summary"):
        (folder / place).write_text("")
    code = 0
    for step in list(STEPS.values())[1:]:
        values = {name: _filled(text, known) for name, text in step.get("env", {}).items()}
        environment = newcomers(PATH=path, **{name: str(value) for name, value in places.items()}, **values)
        # As GitHub runs a step of a composite action with `shell: bash`.
        words = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
        code = subprocess.run(words, cwd=files, env=environment, capture_output=True, check=False).returncode
        if code:
            break
        found = dict(line.split("=", 1) for line in (folder / "output").read_text().splitlines())
        known |= {f"steps.judge.outputs.{name}": value for name, value in found.items()}
    outputs = dict(line.split("=", 1) for line in (folder / "output").read_text().splitlines())
    return code, outputs, (folder / "summary").read_text(encoding="utf-8")


def _filled(text: str, known: dict[str, str]) -> str:
    return EXPRESSION.sub(lambda match: known[match[1]], text)


@pytest.mark.sharded(2)
@pytest.mark.parametrize(
    ("candidate", "baseline", "more", "code", "verdict"),
    [
        ("again", "before", {}, 0, "passed"),
        ("after", "before", {}, 1, "failed"),
        ("few", "before", {}, 4, "undecided"),
        ("few", "before", {"fail-if-undecided": "false"}, 0, "undecided"),
        ("after", "before", {"margin": "0.2", "metric": "throughput_ops_s"}, 0, "passed"),
    ],
)
def test_verdicts_become_exit_codes_and_a_comment(
    files: Path, tmp_path: Path, candidate: str, baseline: str, more: dict[str, str], code: int, verdict: str
) -> None:
    (files / "calls.txt").write_text("")
    ended, outputs, summary = act(files, tmp_path, candidate=candidate, baseline=baseline, **more)
    assert (ended, outputs["verdict"]) == (code, verdict)
    assert summary == Path(outputs["report"]).read_text(encoding="utf-8")
    assert "| configuration | candidate | baseline |" in summary
    assert (
        files / "calls.txt"
    ).read_text() == f"gh pr comment https://example.org/pull/1 --body-file {outputs['report']}\n"


def test_inputs_that_cannot_be_compared_fail_the_job(files: Path, tmp_path: Path) -> None:
    code, outputs, _ = act(files, tmp_path, candidate="nowhere", baseline="before")
    assert (code, outputs["verdict"]) == (3, "nothing to compare")
    code, outputs, _ = act(files, tmp_path, candidate="before", baseline="before")
    assert (code, outputs) == (2, {})  # the candidate is its own baseline


def test_values_reach_scripts_as_variables_only() -> None:
    """An expression within a script would be code that a pull request could write."""
    assert not [name for name, step in STEPS.items() if EXPRESSION.search(step["run"])]


def test_its_options_are_those_of_the_command() -> None:
    options = {option for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"--(?:baseline|margin|metric|format)\b", STEPS["judge"]["run"])) <= options
    assert "pip" in STEPS["install"]["run"]
