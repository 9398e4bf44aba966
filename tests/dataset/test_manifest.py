from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from citus_analysis.dataset.manifest import DerivedState, Manifest, ParquetPart, SourceState, lock_dataset
from citus_analysis.errors import DatasetError


def source(name: str, key: str = "k") -> SourceState:
    parts = (ParquetPart("runs", f"runs/resource=V3/{name}-{key}.parquet", 3),)
    return SourceState(name, "V3", f"{name}.log", f"/x/{name}.log", key, "h", 7, identity={"node": "1"}, parts=parts)


def derived(key: str) -> DerivedState:
    return DerivedState("V3", "runs", key, (ParquetPart("runs", "runs/resource=V3/runs.parquet", 1),))


def test_what_is_committed_is_read_back(tmp_path: Path) -> None:
    manifest = Manifest.load(tmp_path)
    assert not manifest.exists
    manifest.commit(source("a"), derived("1"))
    manifest.commit(source("b"))
    read = Manifest.load(tmp_path)
    assert read.exists
    assert (read.sources, read.derived) == (manifest.sources, manifest.derived)
    assert [part.path for part in read.parts()] == [
        "runs/resource=V3/a-k.parquet",
        "runs/resource=V3/b-k.parquet",
        "runs/resource=V3/runs.parquet",
    ]


def test_the_last_state_of_a_source_counts(tmp_path: Path) -> None:
    manifest = Manifest.load(tmp_path)
    manifest.commit(source("a", "old"))
    manifest.commit(source("a", "new"), source("b"))
    manifest.commit(gone=["b"])
    assert Manifest.load(tmp_path).sources == {"a": source("a", "new")}


def test_cut_anywhere_the_manifest_holds_whole_commits(tmp_path: Path) -> None:
    manifest = Manifest.load(tmp_path)
    before: list[dict[str, SourceState]] = [{}]
    for name in ("a", "b"):
        manifest.commit(source(name), source(f"{name}2"))
        before.append(dict(manifest.sources))
    whole = manifest.path.read_bytes()
    for length in range(len(whole)):
        manifest.path.write_bytes(whole[:length])
        cut = Manifest.load(tmp_path)
        assert cut.sources in before
        cut.commit(source("c"))
        assert Manifest.load(tmp_path).sources == cut.sources
        assert "c" in cut.sources


def test_an_unchanged_manifest_is_read_once(tmp_path: Path) -> None:
    nothing = Manifest.load(tmp_path)
    Manifest.load(tmp_path).commit(source("a"))
    first = nothing.reload()
    assert first is not nothing
    assert list(first.sources) == ["a"]
    assert first.reload() is first
    Manifest.load(tmp_path).commit(source("b"))
    assert list(first.reload().sources) == ["a", "b"]


def test_held_commits_are_one(tmp_path: Path) -> None:
    manifest = Manifest.load(tmp_path)
    manifest.hold()
    manifest.commit(source("a"))
    manifest.commit(source("b"))
    assert set(manifest.sources) == {"a", "b"}
    assert not Manifest.load(tmp_path).exists
    manifest.release()
    assert set(Manifest.load(tmp_path).sources) == {"a", "b"}
    assert len(manifest.path.read_bytes().splitlines()) == 2


def test_names_beyond_utf8_survive(tmp_path: Path) -> None:
    manifest = Manifest.load(tmp_path)
    odd = SourceState("a", "V3", "gr\\xfc.log", "/x/gr\udcfc.log", "k", "h", 7)
    manifest.commit(odd)
    assert Manifest.load(tmp_path).sources == {"a": odd}


def test_compacting_keeps_the_state_and_loses_the_past(tmp_path: Path) -> None:
    manifest = Manifest.load(tmp_path)
    for number in range(40):
        manifest.commit(source("a", str(number)), derived(str(number)))
    long = manifest.path.stat().st_size
    manifest.compact()
    assert manifest.path.stat().st_size < long / 10
    manifest.commit(source("b"))
    read = Manifest.load(tmp_path)
    assert read.sources == {"a": source("a", "39"), "b": source("b")}
    assert read.derived == {("V3", "runs"): derived("39")}


OF_VERSION_1 = '{"dataset": "citus_analysis", "version": 1}\n'
DERIVED = '{"resource": "V3", "name": "runs", "state_key": "k", "parts": []}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"dataset": "citus_analysis", "version": 99}\n', "was not written by this version (ingest into a new"),
        ("[1, 2]\n", "was not written by this version"),
        ('{"dataset": "citus_analysis", "version": 1}\nnonsense\n[]\n', "line 2: is damaged"),
        ('{"dataset": "citus_analysis", "version": 1}\n[{"source_id": "a", "parts": []}]\n', "line 2: is damaged"),
        ('{"dataset": "citus_analysis", "version": 1}\n{"a": 1}\n', "line 2: is damaged"),
        (f'{OF_VERSION_1}[{DERIVED[:-1]}, "state_key": 7}}]\n', "line 2: is damaged"),
        (f"{OF_VERSION_1}[{DERIVED.replace('[]', '[[1, 2, 3]]')}]\n", "line 2: is damaged"),
        (f"{OF_VERSION_1}[{DERIVED.replace('[]', '[[1, 2, 3, 4, 5, 6, 7]]')}]\n", "line 2: is damaged"),
    ],
)
def test_a_manifest_of_another_kind_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "_manifest.jsonl").write_text(text)
    with pytest.raises(DatasetError) as caught:
        Manifest.load(tmp_path)
    assert message in str(caught.value)


HOLD = """
import sys, pathlib
from citus_analysis.dataset.manifest import lock_dataset
with lock_dataset(pathlib.Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_only_one_process_writes_and_the_lock_dies_with_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(DatasetError, match="another ingest is writing"), lock_dataset(tmp_path):
            pass
        other.kill()
        other.wait()
    with lock_dataset(tmp_path):
        pass


@pytest.mark.parametrize(
    "path", ["../precious.parquet", "runs/resource=V3/../../../precious.parquet", "/precious.parquet"]
)
def test_a_part_outside_the_dataset_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="leads out of the dataset"):
        ParquetPart("runs", path, 1)
