"""A disk that is full leaves each source as it was or as it is now, and says so in one line.

The system's limit on the size of a file stands for the disk: the same calls of the same libraries fail at the same
places, wherever tests run. Every size is tried from nothing to enough, so that each kind of file is once the first
that does not fit.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.dataset.manifest import Manifest
from citus_analysis.errors import DatasetError
from tests.conftest import Tree
from tests.dataset.forking import forking
from tests.dataset.tiny_formats import client, log

PROGRAM = """
import json, resource
from citus_analysis.cli import main
for line in sys.stdin:
    root, out, limit = line.split()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
        try:
            main(["ingest", root, "--out", out, "--jobs", "2"])
        except SystemExit as ended:
            sys.stderr.flush()
            os._exit(ended.code)
    os.close(write)
    said = os.fdopen(read).read()
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said]), flush=True)
"""
ONE_LINE = re.compile(r"error: (?P<path>[^:]+): (?P<place>[^:]+): cannot be written: File too large \(make room .*\)\n")


@dataclass
class Disk:
    """Ingests of processes that may write files of a limited size."""

    parent: subprocess.Popen[str]

    def ingest(self, root: Path, out: Path, limit: int) -> tuple[int, str]:
        """Exit code and what was said on stderr."""
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        self.parent.stdin.write(f"{root} {out} {limit}\n")
        self.parent.stdin.flush()
        code, said = json.loads(self.parent.stdout.readline())
        return code, said


@pytest.fixture(scope="module")
def disk() -> Iterator[Disk]:
    with forking(PROGRAM) as parent:
        yield Disk(parent)


def study(rows: int) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {"V3/config.yml": "resource: V3\nworkers: 1\n"}
    for iteration in (1, 2):
        files[f"V3/YCSB/raw/load_A_16_600_{iteration}_1_V3_1_0.log"] = client(100.0 * rows, rows)
        for node in range(3):
            files[f"V3/pglogs/PGLOG-{node}-{iteration}.log"] = log(*range(2000 + node, 2000 + node + rows))
    return files


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.parquet")}


def remove(path: Path) -> None:
    """Both names of a file."""
    table, partition, name = path.parts[-3:]
    (path.parents[2] / "_files" / table / partition / name).with_suffix(".part").unlink()
    path.unlink()


def kind_of(said: str, out: Path) -> str:
    """What did not fit: `rows`, a derivation, or the manifest."""
    match = ONE_LINE.fullmatch(said)
    assert match is not None, said
    assert match["path"].startswith(str(out))
    return "manifest" if match["path"].endswith("_manifest.jsonl") else match["place"].split(" ")[0]


LIMITS = (0, 40, 1000, *range(4000, 20_000, 2000), 30_000)
ROOM = 2**40


@pytest.mark.filterwarnings("ignore::citus_analysis.errors.OutdatedDatasetWarning")
@pytest.mark.usefixtures("tiny_formats")
def test_each_source_is_as_it_was_or_as_it_is_now(tree: Tree, tmp_path: Path, disk: Disk) -> None:
    ingest(tree(study(40)), tmp_path / "base")
    root = tree(study(60))
    ingest(root, tmp_path / "fresh")
    seen = set[str]()
    for limit in LIMITS:
        out = tmp_path / f"out-{limit}"
        shutil.copytree(tmp_path / "base", out)
        code, said = disk.ingest(root, out, limit)
        dataset = open_dataset(out)
        rows = dataset.log_events().group_by("source_id").len()["len"].to_list()
        assert len(rows) == 6
        assert set(rows) <= {40, 60}
        assert dataset.runs().height == 2
        assert set(contents(out)) == {part.path for part in Manifest.load(out).parts()}
        if code == 0:
            assert (set(rows), said) == ({60}, "")
        else:
            assert code == 3
            seen.add(kind_of(said, out))
        assert disk.ingest(root, out, ROOM) == (0, "")
        assert contents(out) == contents(tmp_path / "fresh")
    assert code == 0, "the largest limit is not enough"
    assert seen == {"rows", "manifest"}


@pytest.mark.usefixtures("tiny_formats")
def test_derived_tables_that_do_not_fit(tree: Tree, tmp_path: Path, disk: Disk) -> None:
    root, out = tree({"V3/YCSB/raw/load_A_16_600_1_1_V3_1_0.log": client(10.0)}), tmp_path / "out"
    ingest(root, out)
    before = contents(out)
    for path in [*out.glob("runs/*/*.parquet"), *out.glob("sources/*/*.parquet")]:
        remove(path)
    code, said = disk.ingest(root, out, 4000)
    assert (code, kind_of(said, out)) in {(3, "runs"), (3, "sources")}
    assert disk.ingest(root, out, ROOM) == (0, "")
    assert contents(out) == before


@pytest.mark.usefixtures("tiny_formats")
def test_the_first_ingest(tree: Tree, tmp_path: Path, disk: Disk) -> None:
    root = tree(study(50))
    ingest(root, tmp_path / "fresh")
    seen = set[str]()
    for limit in LIMITS[::2]:
        out = tmp_path / f"out-{limit}"
        code, said = disk.ingest(root, out, limit)
        if code:
            assert code == 3
            seen.add(kind_of(said, out))
        assert disk.ingest(root, out, ROOM) == (0, "")
        assert contents(out) == contents(tmp_path / "fresh")
    assert "rows" in seen


@pytest.mark.usefixtures("tiny_formats")
def test_a_manifest_that_cannot_even_begin(tree: Tree, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are in place before the first line names them: the folder is a dataset's all the same."""
    root = tree(study(5))
    with monkeypatch.context() as patch:
        patch.setattr("citus_analysis.dataset.manifest._write_through", no_room)
        with pytest.raises(DatasetError, match=r"_manifest.jsonl: byte 0: cannot be written: No space left on device"):
            ingest(root, out)
    assert contents(out) == {}
    assert ingest(root, out).exit_code == 0


@pytest.mark.usefixtures("tiny_formats")
def test_a_manifest_that_cannot_be_made_shorter_stays_long(
    tree: Tree, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(tree(study(5)), out)
    manifest = Manifest.load(out)
    for state in list(manifest.sources.values()) * 8:
        manifest.commit(state)
    long = manifest.path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("citus_analysis.dataset.manifest._write_through", no_room)
        manifest.compact()
    assert manifest.path.read_bytes() == long
    manifest.compact()
    assert manifest.path.stat().st_size < len(long)
    assert Manifest.load(out).sources == manifest.sources
    assert not list(out.glob("*.new"))


def no_room(*_arguments: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"
