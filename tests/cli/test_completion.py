"""Scripts that complete commands in shells."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
