"""Scripts that complete commands in shells."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from citus_analysis.cli import commands

PROGRAM = Path(sys.executable).with_name("citus-analysis")


@pytest.mark.parametrize(("shell", "word"), [("bash", "complete"), ("zsh", "#compdef"), ("fish", "complete")])
def test_the_script_of_a_shell(shell: str, word: str) -> None:
    said = subprocess.run([PROGRAM, "completion", shell], capture_output=True, text=True, check=True).stdout
    assert word in said
    assert "_CITUS_ANALYSIS_COMPLETE" in said


def test_the_program_completes_commands() -> None:
    asked = {"_CITUS_ANALYSIS_COMPLETE": "bash_complete", "COMP_WORDS": "citus-analysis rep", "COMP_CWORD": "1"}
    said = subprocess.run([PROGRAM], env=os.environ | asked, capture_output=True, text=True, check=False).stdout
    assert said.split() == ["plain,report"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("report prof", [("plain", "profile")]),
        ("report profile -p open", [("plain", "opened=")]),
        ("report nothing -p open", []),
        ("run lapt", [("plain", "laptop")]),
        ("run ./my", [("file", "./my")]),
        ("sql da", [("dir", "da")]),
        ("ingest logs --out da", [("dir", "da")]),
        ("ingest lo", [("file", "lo")]),
        ("gate a --baseline b", [("dir", "b")]),
    ],
)
def test_places_reports_parameters_and_experiments_are_completed(typed: str, expected: list[tuple[str, str]]) -> None:
    *before, incomplete = typed.split()
    completing = ShellComplete(commands, {}, "citus-analysis", "_CITUS_ANALYSIS_COMPLETE")
    found = completing.get_completions(before, incomplete)
    assert [(one.type, one.value) for one in found] == expected
