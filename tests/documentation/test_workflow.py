"""The workflow of docs/ci.md: each of its commands, with small stand-ins for what is no part of this package."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from citus_analysis.dataset import ingest
from tests.documentation.blocks import ROOT, blocks_of
from tests.documentation.test_as_typed import newcomers

PAGE = list(blocks_of(ROOT / "docs" / "ci.md"))
BASELINE = "/srv/benchmarks/main"
#: `run` gives two runs that are far apart, and with `--more` those after the change; GitHub's client keeps the comment.
PROGRAMS = {
    "citus-analysis": """#!/bin/sh
[ "$1" = run ] || exec "$REAL" "$@"
echo "$@" >> calls.txt
made=select/YCSB/raw
mkdir -p tree/$made
case "$*" in
*--more*) cp after/$made/* tree/$made ;;
*) cp after/$made/*_1_0_select* before/$made/*_2_0_select* tree/$made ;;
esac
""",
    "gh": '#!/bin/sh\necho "gh $*" >> calls.txt\n',
}


def steps() -> list[str]:
    (workflow,) = [yaml.safe_load(block.text) for block in PAGE if block.text.startswith("name: benchmark")]
    return [step["run"] for step in workflow["jobs"]["gate"]["steps"] if "run" in step]


def test_it_installs_this_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert steps()[0] == f"pip install {project['name']}"


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
def test_an_undecided_gate_takes_the_missing_runs_and_the_job_fails(tmp_path: Path) -> None:
    written = next(block.text for block in PAGE if block.language == "python")
    subprocess.run([sys.executable, "-c", written], cwd=tmp_path, check=True)
    ingest([tmp_path / "before"], tmp_path / "main")
    (tmp_path / "bin").mkdir()
    for name, text in PROGRAMS.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    own = Path(sys.executable).parent
    path = os.pathsep.join([str(tmp_path / "bin"), str(own), os.environ["PATH"]])
    environment = newcomers(PATH=path, REAL=str(own / "citus-analysis"))
    codes = []
    for step in steps()[1:]:
        # As GitHub runs a step: bash that ends with the first command that fails.
        words = ["bash", "-e", "-o", "pipefail", "-c", step.replace(BASELINE, "main")]
        ended = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        codes.append(ended.returncode)
    assert codes == [0, 0, 1, 0], ended.stderr
    first, more, comment = (tmp_path / "calls.txt").read_text().splitlines()
    assert first == "run experiments/nightly.yml --out tree"
    assert more.startswith("run experiments/nightly.yml select --more ")
    assert comment == "gh pr comment --body-file comment.md"
    assert "worse" in (tmp_path / "comment.md").read_text(encoding="utf-8")
    assert 'failures="1"' in (tmp_path / "gate.xml").read_text(encoding="utf-8")
