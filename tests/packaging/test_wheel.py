"""The wheel in an empty environment, outside the repository: reports, audit and an experiment, as after pip install."""

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import hatch_build
from tests.documentation.blocks import ROOT
from tests.documentation.test_as_typed import base_python, newcomers
from tests.recordings import RECORDED

pytestmark = pytest.mark.readme


def test_platforms_of_wheels_have_targets() -> None:
    assert {name.split("_")[0] for name in hatch_build.TARGETS} == {"manylinux", "musllinux", "macosx"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel for this platform."""
    return _built(tmp_path_factory.mktemp("dist"))


def _built(folder: Path, **environment: str) -> Path:
    builder = ["uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), "--python", sys.executable]
    if not shutil.which("uv"):
        builder = [base_python(), "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder)]
    subprocess.run([*builder, str(ROOT)], check=True, env=newcomers() | environment)
    (made,) = folder.glob("*.whl")
    return made


def test_what_the_wheel_holds(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("__init__.pyi", "py.typed", "_shipped/notebooks/profile.ipynb", "_shipped/experiments/laptop.yml"):
        assert f"citus_analysis/{wanted}" in names
    # All that is no Python: front end of the explorer, templates and scripts of reports, words of formats.
    listed = subprocess.run(["git", "ls-files", "citus_analysis"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(listed.stdout.split()) <= set(names)
    assert "citus_analysis/explorer/front_end/explorer.js" in names
    assert [name for name in names if "_scanner." in name]
    assert [name for name in names if "/_fields." in name]
    assert not [name for name in names if name.startswith(("tests/", "docs/"))]
    assert wheel.stat().st_size < 3e6


def test_the_wheel_works_elsewhere(wheel: Path, tmp_path: Path) -> None:
    programs = tmp_path / "venv" / "bin"
    _typed([base_python(), "-m", "venv", str(tmp_path / "venv")], tmp_path)
    _typed([str(programs / "pip"), "install", "--quiet", "--disable-pip-version-check", str(wheel)], tmp_path)
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
    assert "citus-analysis[runner]" in _typed([command, "doctor"], tmp_path)


def test_the_wheel_without_compiled_code_warns_and_works(tmp_path: Path) -> None:
    """What the package requires is taken from here: only the wheel itself is in question."""
    wheel = _built(tmp_path / "dist", CITUS_ANALYSIS_WHEEL=hatch_build.PURE)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if "_scanner" in name or "/_fields." in name]
    programs = tmp_path / "venv" / "bin"
    _typed([base_python(), "-m", "venv", str(tmp_path / "venv")], tmp_path)
    _typed([str(programs / "pip"), "install", "--quiet", "--no-deps", "--no-index", str(wheel)], tmp_path)
    (own,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (own / "required.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    command = str(programs / "citus-analysis")
    said = _typed([command, "ingest", str(RECORDED / "w2-t4-insert"), "--out", "ds"], tmp_path)
    assert said.count("warning: server logs are read by Python, which takes about") == 1
    counted = _typed([command, "sql", "ds", "SELECT count(*) AS n FROM spans WHERE match = 'exact'"], tmp_path)
    assert "9100" in counted
    _typed([command, "report", "profile", "--dataset", "ds", "--out", "pages"], tmp_path)
    assert "13 red" in _typed([command, "audit"], tmp_path)
    assert "Python takes about" in _typed([command, "doctor"], tmp_path)


def _typed(words: list[str], folder: Path, code: int = 0) -> str:
    environment = newcomers()
    environment.pop("PYTHONPATH", None)
    ended = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == code, f"{words}\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}"
    return ended.stdout + ended.stderr
