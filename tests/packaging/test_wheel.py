"""The wheel in an empty environment, outside the repository: reports, audit and an experiment, as after pip install."""

import dataclasses
import re
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

import hatch_build
from tests.documentation.blocks import ROOT, blocks_run_by
from tests.documentation.test_as_typed import base_python, newcomers, run_block
from tests.recordings import RECORDED

# One process of a parallel run makes the wheel and its environment, and uses them in all tests.
pytestmark = [pytest.mark.readme, pytest.mark.xdist_group("wheel")]


def test_platforms_of_wheels_have_targets() -> None:
    assert {name.split("_")[0] for name in hatch_build.TARGETS} == {"manylinux", "musllinux", "macosx"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel for this platform."""
    folder = tmp_path_factory.mktemp("dist")
    builder = ["uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), "--python", base_python()]
    if not shutil.which("uv"):
        builder = [base_python(), "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder)]
    subprocess.run([*builder, str(ROOT)], check=True, env=newcomers())
    (made,) = folder.glob("*.whl")
    return made


def test_what_the_wheel_holds(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "__init__.pyi",
        "py.typed",
        "_shipped/notebooks/profile.ipynb",
        "_shipped/experiments/laptop.yml",
        "_shipped/glossary/glossary.md",
    ):
        assert f"citus_analysis/{wanted}" in names
    # All that is no Python: front end of the explorer, templates and scripts of reports, words of formats.
    listed = subprocess.run(["git", "ls-files", "citus_analysis"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(listed.stdout.split()) <= set(names)
    assert "citus_analysis/explorer/front_end/explorer.js" in names
    assert [name for name in names if "_scanner." in name]
    assert [name for name in names if "/_fields." in name]
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]
    assert wheel.stat().st_size < 3e6


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an empty environment in which the wheel was installed as docs/install.md says."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    _typed([base_python(), "-m", "venv", str(folder)], folder.parent)
    (block,) = blocks_run_by(__file__)
    (named,) = re.findall(r"citus_analysis-\S+\.whl", block.text)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert named in {f"citus_analysis-{version}-py3-none-{platform}.whl" for platform in hatch_build.TARGETS}
    # The wheel made here has the tag of this machine alone.
    typed = dataclasses.replace(block, text=block.text.replace(named, wheel.name))
    run_block(typed, wheel.parent, newcomers(PIP_QUIET="1"), folder / "bin")
    return folder / "bin"


def test_the_wheel_works_elsewhere(programs: Path, tmp_path: Path) -> None:
    command = str(programs / "citus-analysis")
    _typed([command, "ingest", str(RECORDED / "w2-t4-insert"), "--out", "ds"], tmp_path)
    _typed([command, "report", "profile", "--dataset", "ds", "--out", "pages"], tmp_path)
    assert (tmp_path / "pages" / "profile.html").is_file()
    assert "13 red" in _typed([command, "audit"], tmp_path)
    small = ["--set", "matrix.threads=[1]", "--set", "iterations=1"]
    _typed([command, "run", "laptop", "--out", "runs", *small], tmp_path)
    assert len(list((tmp_path / "runs").glob("laptop-*/config.yml"))) == 2
    missing = _typed([str(programs / "python"), "-c", "import jupyterlab"], tmp_path, code=1)
    assert "ModuleNotFoundError" in missing
    assert "citus-analysis[notebook]" in _typed([command, "doctor"], tmp_path)


def _typed(words: list[str], folder: Path, code: int = 0) -> str:
    environment = newcomers()
    environment.pop("PYTHONPATH", None)
    ended = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == code, f"{words}\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}"
    return ended.stdout + ended.stderr
