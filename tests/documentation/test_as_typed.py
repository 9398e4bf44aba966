"""README.md and docs/, typed by a newcomer: every command as written, in order, in a fresh clone.

The README takes minutes (it sets up an environment and runs an experiment): its test is chosen by `make readme`, which
`.ci/run` calls on one of several versions of Python, by turns. Of the other pages, `make test` types each second one.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from citus_analysis.cli import main
from tests.documentation.blocks import PAGES, ROOT, Block, as_script, blocks_of, blocks_run_by, plain_words_of

README, *DOCS = PAGES
#: What a `make` above this test, or the CI, hands down; a newcomer's shell has none of it.
INHERITED = frozenset(
    {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VENV", "VIRTUAL_ENV", "NEWCOMERS_PYTHON"}
    | {"NO_SKIPS", "MAY_SKIP", "SHARD", "DEMONSTRATION"}
    | {"PYTEST_ADDOPTS", "PYTEST_XDIST_AUTO_NUM_WORKERS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"}
    | {"PYTEST_XDIST_TESTRUNUID", "PYTEST_CURRENT_TEST"}
)
#: All of the tests are run by .ci/run itself; here `make test` is to find its way among what the README makes.
TYPED_TESTS = "tests/test_reference.py tests/test_layers.py tests/documentation/test_blocks.py"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The source tree as it would be committed now, a repository of its own."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    folder = tmp_path / "clone"
    for name in filter(None, names):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    author = ["-c", "user.name=reader", "-c", "user.email=reader@localhost"]
    for words in (["init", "-q"], ["add", "-A"], [*author, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


@pytest.mark.readme
def test_the_readme(clone: Path) -> None:
    # What the type checker knows of the same files spares it a minute.
    known = {"PYTEST_ADDOPTS": TYPED_TESTS, "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache")}
    environment = newcomers(PYTHON=base_python(), **known)
    for block in blocks_of(README):
        if block.runs:
            run_block(block, clone, environment, clone / ".venv" / "bin")
    # What the first page behind it makes, then what others do with that; figures are shown to nobody.
    for block in sorted(blocks_run_by(__file__), key=lambda block: block.page != "docs/five-minutes.md"):
        run_block(block, clone, environment | {"PLOTLY_RENDERER": "json"}, clone / ".venv" / "bin")
    for name in ("ds/_manifest.jsonl", "traces.json", "runs/laptop-w0-t8-c/config.yml", "ds2/_manifest.jsonl"):
        assert (clone / name).is_file(), name
    for folder in ("reports", "reports2"):
        pages = sorted((clone / folder).glob("*.html"))
        assert {page.stem for page in pages} >= {"index", "scalability", "comparison", "profile"}
        assert [problem for page in pages for problem in dead_links(page)] == []
    status = subprocess.run(["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True)
    assert status.stdout == "", "what the README makes is not ignored"
    # What the README made is neither checked nor collected; the type checker reads the folders that it names.
    again = subprocess.run(
        ["make", "lint", "pytest"], cwd=clone, env=environment, capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stdout[-4000:] + again.stderr[-4000:]


@pytest.mark.sharded(2)
@pytest.mark.usefixtures("kept_kernels")
@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_the_blocks_of_a_page(page: Path, tmp_path: Path) -> None:
    typed = [block for block in blocks_of(page) if block.runs]
    for language, blocks in groupby(typed, key=lambda block: block.language):
        if language == "python":
            run_python_blocks(list(blocks), tmp_path)
        else:
            for block in blocks:
                call_block(block, tmp_path)


#: Each block in a main module of its own: none sees what another has imported or named.
EACH = """
import json, sys, types
for place, text in json.loads(sys.argv[1]):
    sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(text, place, "exec"), vars(sys.modules["__main__"]))
"""


def run_python_blocks(blocks: Sequence[Block], folder: Path) -> None:
    """Run blocks of Python that follow each other in one process, which imports the package once."""
    given = json.dumps([(str(block), block.text) for block in blocks])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ended = subprocess.run(
        [sys.executable, "-W", "error::SyntaxWarning", "-c", EACH, given],
        cwd=folder,
        env=newcomers(PATH=path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout[-4000:]}{ended.stderr[-4000:]}"


def newcomers(**variables: str) -> dict[str, str]:
    """The environment of a newcomer's shell."""
    return {name: value for name, value in os.environ.items() if name not in INHERITED} | variables


def base_python() -> str:
    """The interpreter that a newcomer has: as the environment names it, or the one this environment was made from."""
    own = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.environ.get("NEWCOMERS_PYTHON") or str(own)


def run_block(block: Block, folder: Path, environment: dict[str, str], programs: Path) -> None:
    """Run a block, by bash or by the Python among the programs, and fail with its last words where it fails."""
    shell = ["bash", "-c", as_script(block)]
    # In the shell of a reader who got this far, `source .venv/bin/activate` was typed.
    python = [str(programs / "python"), "-W", "error::SyntaxWarning", "-c", block.text]
    path = os.pathsep.join([str(programs), environment["PATH"]])
    ended = subprocess.run(
        shell if block.language == "bash" else python,
        cwd=folder,
        env=environment | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"{block}\n{ended.stdout[-4000:]}{ended.stderr[-4000:]}"


def call_block(block: Block, folder: Path, **variables: str) -> None:
    """Run a block of commands of ours in this process, which has imported them; one that needs a shell by bash."""
    typed = plain_words_of(block)
    if typed is None:
        run_block(block, folder, newcomers(**variables), Path(sys.executable).parent)
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in variables.items():
            patch.setenv(name, value)
        for words in typed:
            with pytest.raises(SystemExit) as ended:
                main(words[1:])
            assert ended.value.code == 0, f"{block}: {shlex.join(words)}: exit code {ended.value.code}"


class Links(HTMLParser):
    """Collects what a page refers to, and the places in it that can be referred to."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            if value and ((tag == "a" and name == "href") or name == "src"):
                self.targets.append(value)


def dead_links(page: Path) -> list[str]:
    """Links of a page to files that are not there, and to places that the page has not."""
    links = Links()
    links.feed(page.read_text(encoding="utf-8"))
    dead = []
    for target in links.targets:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        lost = not (page.parent / unquote(parts.path)).exists() if parts.path else parts.fragment not in links.places
        dead += [f"{page.name}: {target}"] if lost else []
    return dead


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a b.csv").write_text("")
    page = tmp_path / "page.html"
    page.write_text(
        '<h2 id="top">x</h2><a href="#top">1</a><a href="#gone">2</a><a href="data/a%20b.csv">3</a>'
        '<a href="data/gone.csv">4</a><a href="https://example.org/x">5</a><img src="data:image/png;base64,AA">'
    )
    assert dead_links(page) == ["page.html: #gone", "page.html: data/gone.csv"]
