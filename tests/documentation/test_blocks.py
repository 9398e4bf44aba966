"""Every block of README.md and docs/ that somebody could type is run by a test, or says why not."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

import citus_analysis
from citus_analysis.dataset.identity import Labels
from citus_analysis.runner.experiment import parse_experiment
from tests.documentation.blocks import (
    PAGES,
    ROOT,
    Block,
    as_script,
    blocks_of,
    blocks_run_by,
    commands_of,
    plain_words_of,
)

BLOCKS = [block for page in PAGES for block in blocks_of(page)]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_is_run_or_says_why_not(block: Block) -> None:
    typed = block.language in ("bash", "python")
    assert typed or not block.looks_typed, f"{block}: holds commands: fence it as bash or python"
    assert typed or block.reason is block.runner is None, f"{block}: only commands need the marker"
    assert block.reason is None or len(block.reason.split()) >= 3, f"{block}: says no reason"


def test_only_one_block_is_run_by_nobody() -> None:
    unrun = [(block.page, block.reason) for block in BLOCKS if block.reason]
    assert unrun == [("docs/scale.md", "needs a Kubernetes cluster")]


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.runner], ids=str)
def test_the_file_that_runs_a_block_does_so(block: Block) -> None:
    assert block.runner is not None
    text = (ROOT / block.runner).read_text(encoding="utf-8")
    if block.runner.endswith(".py"):
        assert "blocks_run_by(__file__)" in text
        assert block in blocks_run_by(str(ROOT / block.runner))
        return
    # Continuous integration makes a target, or a test that `make test` runs.
    for command in commands_of(block):
        test = re.fullmatch(r"\.venv/bin/python -m pytest (tests/\S+\.py)", command)
        assert (ROOT / test[1]).exists() if test else re.search(rf"{command}$", text, re.MULTILINE), command


def test_the_readme_is_run() -> None:
    blocks = [block for block in BLOCKS if block.page == "README.md"]
    assert [block.language for block in blocks if block.runs] == ["bash", "bash", "python"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("true  # fine\nfalse\necho not reached\n", "false"),
        ("false && true\necho not reached\n", "false && true"),
        ("false | true\necho not reached\n", "false | true"),
        ("sh -c \\\n  'exit 3'\necho not reached\n", "sh -c 'exit 3'"),
    ],
)
def test_the_first_command_that_fails_ends_a_block(text: str, words: str) -> None:
    script = as_script(Block("page.md", 7, "bash", text, None))
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "not reached" not in ended.stdout
    assert ended.stderr.startswith(f"page.md:7: {words}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "citus-analysis why a --base 'x|y' -p k=v  # z\n",
            [["citus-analysis", "why", "a", "--base", "x|y", "-p", "k=v"]],
        ),
        ("citus-analysis audit > found.txt\n", None),
        ("citus-analysis audit || test $? -eq 1\n", None),
        ("citus-analysis sql ds 'SELECT 1'\nmkdir x\n", None),
    ],
)
def test_commands_that_need_no_shell_are_known(text: str, words: list[list[str]] | None) -> None:
    assert plain_words_of(Block("page.md", 7, "bash", text, None)) == words


def test_a_marker_belongs_to_the_block_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.documentation.blocks.ROOT", tmp_path)
    page = tmp_path / "page.md"
    marked = "<!-- not run: needs a cluster -->\n```bash\nmake x\n```\n"
    page.write_text(f"{marked}\n```bash\nmake y\n```\n\n```\nmake z\n```\n")
    first, second, third = blocks_of(page)
    assert (first.line, first.reason, first.runs) == (2, "needs a cluster", False)
    assert (second.line, second.reason, second.runs) == (6, None, True)
    assert (third.runs, third.looks_typed) == (False, True)


def test_experiments_that_are_shown_are_valid() -> None:
    shown = [block.text for block in BLOCKS if (block.page, block.language) == ("docs/experiments.md", "yaml")]
    names = ["laptop", "two-drivers", "transfers", "sysbench-reads"]
    assert [parse_experiment(yaml.safe_load(text)).name for text in shown] == names


def test_label_files_that_are_shown_are_valid(tmp_path: Path) -> None:
    shown = [block.text for block in BLOCKS if block.page == "docs/datasets.md"]
    (tmp_path / "identity.yml").write_text(next(text for text in shown if text.startswith("files:")))
    (tmp_path / "runs.csv").write_text(next(text for text in shown if text.startswith("file,")))
    labels = Labels(tmp_path)
    assert labels.facts(tmp_path / "V3/C-16threads-run2.log")["threads"] == 16
    assert labels.facts(tmp_path / "results/second.log")["iteration"] == 2


def test_what_the_readme_makes_is_ignored() -> None:
    """Outputs in the source tree are no part of it, whatever suffix their names got."""
    typed = [(ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/five-minutes.md")]
    outputs = set(re.findall(r"--out (\S+)", "".join(typed)))
    assert {"ds", "ds2", "runs", "reports", "reports2", "reports-log", "traces.json"} <= outputs
    made = [f"{name}/x.ipynb" if "." not in name else name for name in outputs | {"ds3", "runs-2"}]
    made.append(".venv-3.13/pyvenv.cfg")
    call = ["git", "check-ignore", "--no-index", *made]
    ignored = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    assert sorted(ignored) == sorted(made)
    kept = subprocess.run([*call[:3], "reports/README.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert kept.returncode == 1


#: Functions of SQL, types and programs of others that the pages name, a class of plug-ins, and a result's method.
FOREIGN = {
    "StartMarker",
    "checks",
    "now",
    "numeric",
    "varchar",
    "set_config",
    "benchadapt.BenchmarkResult",
    "pyarrow.parquet.read_table",
}


def test_the_functions_that_pages_name_exist_for_readers() -> None:
    # Once: `relative_scaling(k, x)`, which no reader can import.
    namespaces = [citus_analysis, *(getattr(citus_analysis, name) for name in dir(citus_analysis))]
    known = {name for space in namespaces for name in dir(space)}
    # Names are loaded when they are first used.
    members = [getattr(space, name) for space in namespaces for name in dir(space)]
    known |= {name for one in members if isinstance(one, type) for name in dir(one)}
    for page in PAGES:
        prose = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
        named = set(re.findall(r"`([A-Za-z_][A-Za-z0-9_.]*)\(", prose)) - FOREIGN
        assert {name for name in named if name.split(".")[-1] not in known} == set(), page
