"""Where files lie, what they are called and what becomes of them meanwhile costs their own rows at most."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.dataset import ingestion as ingestion_module
from citus_analysis.errors import InputError, UsageError
from citus_analysis.texts.words import make_printable
from tests.conftest import ROOT, Tree
from tests.dataset.tiny_formats import log

pytestmark = pytest.mark.usefixtures("tiny_formats")
LOG = {"V3/pglogs/PGLOG-0-1.log": log(1, 2)}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def heights(out: Path) -> tuple[int, int]:
    dataset = open_dataset(out)
    return dataset.log_events().height, int(dataset.sql("SELECT count(*) AS n FROM log_events")["n"][0])


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may look into folders named `locked`; tests may run as a user for whom permissions do not count."""
    stat = Path.stat

    def refused(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if "locked" in path.parts[:-1] or (follow_symlinks and os.path.islink(path)):  # noqa: PTH114 - pathlib calls this function
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", refused)


@pytest.mark.usefixtures("locked")
def test_a_link_into_a_folder_that_may_not_be_entered(tree: Tree, out: Path, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir()
    root = tree(LOG)
    (root / "V3/link").symlink_to(tmp_path / "locked/inner")
    summary = ingest(root, out)
    assert (summary.exit_code, summary.read, summary.failed) == (1, 1, 1)
    assert summary.messages == ("V3/link: cannot be read: Permission denied",)
    assert heights(out) == (2, 2)


@pytest.mark.parametrize("moment", ["recognise", "read"])
def test_a_file_that_vanishes_meanwhile(tree: Tree, out: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    root = tree({**LOG, "V3/pglogs/PGLOG-1-1.log": log(3), "V3/pglogs/PGLOG-2-1.log": log(4)})
    name = {"recognise": "walk_outlined_paths", "read": "_recognise_files"}[moment]
    step = getattr(ingestion_module, name)

    def then_vanish(*arguments: object) -> object:
        result = step(*arguments)
        (root / "V3/pglogs/PGLOG-1-1.log").unlink()
        return result

    monkeypatch.setattr(ingestion_module, name, then_vanish)
    summary = ingest(root, out)
    assert (summary.exit_code, summary.read, summary.failed) == (1, 2, 1)
    assert [line for line in summary.messages if "PGLOG-1-1.log" in line] == list(summary.messages)
    assert heights(out) == (3, 3)


@pytest.mark.sharded(3)
@pytest.mark.parametrize("resource", ["名" * 36, "größe", "..", "../../escape", "a=b", "50%", "con", "x\x01y"])
def test_any_name_of_a_resource_has_a_place_inside(tree: Tree, out: Path, tmp_path: Path, resource: str) -> None:
    summary = ingest(tree(LOG), out, meta={"resource": resource})
    assert (summary.exit_code, heights(out)) == (0, (2, 2))
    name = make_printable(resource)  # control characters are shown, never stored
    assert open_dataset(out).log_events()["resource"].unique().to_list() == [name]
    assert open_dataset(out).sql("SELECT DISTINCT resource FROM sources").rows() == [(name,)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "src"]


@pytest.mark.parametrize("resource", ["名" * 90, "x" * 300])
def test_a_name_that_no_file_system_takes_costs_its_files_only(tree: Tree, out: Path, resource: str) -> None:
    root = tree({**LOG, "V4/pglogs/PGLOG-0-1.log": log(3), "V4/config.yml": f"resource: {resource}\n"})
    summary = ingest(root, out)
    assert (summary.exit_code, summary.read, summary.failed) == (1, 1, 2)
    assert all(line.startswith("V4/") and "too long" in line and "--meta resource" in line for line in summary.messages)
    assert heights(out) == (2, 2)


def test_the_output_inside_a_source_is_refused(
    tree: Tree, study: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(study)
    monkeypatch.chdir(root)
    for out in (root / "out", Path("out"), Path("V3/deep/out")):
        with pytest.raises(UsageError, match=r"out: lies inside .*which is to be read \(name a folder beside it"):
            ingest(".", out)
    assert not list(root.rglob("out"))


def test_a_dataset_is_no_source_of_itself(tree: Tree, out: Path) -> None:
    ingest(tree(LOG), out)
    with pytest.raises(UsageError, match=r"is the dataset .* itself"):
        ingest(out, out)
    with pytest.raises(UsageError, match="lies inside the dataset"):
        ingest(next(out.glob("log_events/*/*.parquet")), out)
    with pytest.raises(UsageError, match=r"is the dataset .* itself"):
        ingest([tree(LOG), out], out)
    with pytest.raises(InputError, match=r"is a dataset already \(name the raw files"):
        ingest(out, out.parent / "other")


@pytest.mark.sharded(3)
@pytest.mark.parametrize("above", ["x=y", "resource=other", "a=1/resource=V9/b=2"])
def test_folders_above_that_look_like_partitions(
    tree: Tree, study: dict[str, str], tmp_path: Path, above: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / above / "out"
    root = tree({**study, "W=4/pglogs/PGLOG-0-1.log": log(5)})
    assert ingest(root, out).exit_code == 0
    monkeypatch.chdir(tmp_path / above)
    dataset = open_dataset("out")
    assert sorted(dataset.log_events()["resource"].unique()) == ["V3", "W=4"]
    assert dataset.runs().height == dataset.sql("SELECT * FROM runs").height == 2
    counted = dataset.sql("SELECT resource, count(*) AS n FROM log_events GROUP BY ALL ORDER BY ALL").rows()
    assert counted == [("V3", 8), ("W=4", 1)]
    plain = tmp_path / "plain"
    ingest(root, plain)
    for name in dataset.tables():
        assert dataset.table(name).equals(open_dataset(plain).table(name))
        assert dataset.sql(f"SELECT * FROM {name}").equals(open_dataset(plain).sql(f"SELECT * FROM {name}"))
    assert ingest(root, out).read == 0


def test_rows_of_a_table_of_any_age_below_such_a_folder(tree: Tree, study: dict[str, str], tmp_path: Path) -> None:
    from tests.dataset.test_older import make_older

    out = tmp_path / "x=y/out"
    ingest(tree({**study, "V4/pglogs/PGLOG-0-1.log": log(5)}), out)
    make_older(out, "log_events", "duration_us", slice(0, 1))
    counted = open_dataset(out).sql("SELECT resource, count(*) AS n FROM log_events GROUP BY ALL ORDER BY ALL").rows()
    assert counted == [("V3", 8), ("V4", 1)]


def test_sql_of_a_dataset_that_cannot_be_read_exits_3(tree: Tree, out: Path) -> None:
    ingest(tree(LOG), out)
    path = next(out.glob("log_events/*/*.parquet"))
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.write_bytes(data)
    command = [sys.executable, "-m", "citus_analysis", "sql", str(out), "SELECT count(*) FROM log_events"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (3, "")
    assert path.stem in done.stderr
    assert done.stderr.count("\n") == 1
