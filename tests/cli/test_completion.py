"""Scripts that complete commands in shells."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from citus_analysis.cli import commands

PROGRAM = Path(sys.executable).with_name("citus-analysis")


#: Shell -> what loads the script and completes `citus-analysis report profile -p open` in it, and what that prints. The
#: parts of bash and zsh that need a terminal print what they are asked for.
ASKED = {
    "bash": (
        """
        compopt() { printf "%s " compopt "$@"; }
        eval "$(citus-analysis completion bash)"
        COMP_WORDS=(citus-analysis report profile -p open) COMP_CWORD=4
        _citus_analysis_completion citus-analysis
        echo "${COMPREPLY[@]}"
        """,
        "compopt -o nospace opened=\n",
    ),
    "zsh": (
        """
        compdef() { }
        _describe() { print -r -- "${(P)3%%:*}" "${(qq)@[4,-1]}" }
        eval "$(citus-analysis completion zsh)"
        words=(citus-analysis report profile -p open) CURRENT=5
        _citus_analysis_completion
        """,
        "opened= '-U' '-S' ''\n",
    ),
    "fish": (
        """
        citus-analysis completion fish | source
        complete -C "citus-analysis report profile -p open" | string split -f 1 \\t
        """,
        "opened=\n",
    ),
}


@pytest.mark.parametrize("shell", [shell for shell in ASKED if shell == "bash" or shutil.which(shell)])
def test_a_shell_completes_the_name_of_a_parameter_and_no_blank_follows(shell: str, tmp_path: Path) -> None:
    script, expected = ASKED[shell]
    places = {"PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    options = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}
    done = subprocess.run(
        [shell, options[shell], "-c", script], env=os.environ | places, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == (expected, "")


@pytest.mark.parametrize(("shell", "word"), [("bash", "nospace"), ("zsh", "suffix=(-S '')"), ("fish", "complete")])
def test_the_script_of_a_shell(shell: str, word: str) -> None:
    said = CliRunner().invoke(commands, ["completion", shell]).stdout
    assert word in said
    assert "_CITUS_ANALYSIS_COMPLETE" in said


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
