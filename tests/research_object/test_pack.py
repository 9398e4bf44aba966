"""A packed dataset is computed again with the same rows and verdicts, and whatever changed in it is named."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from rocrate.rocrate import ROCrate

import citus_analysis as ca
from citus_analysis.cli import main
from citus_analysis.core import extras
from citus_analysis.dataset.manifest import Manifest
from citus_analysis.errors import DatasetError, InputError, UsageError
from citus_analysis.research_object import PackResult
from citus_analysis.research_object.packing import build_data_package
from citus_analysis.runner.experiment import load_experiment
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.schedule import begin
from citus_analysis.schema import OUTSIDE_DATASET, TABLES
from tests.recordings import ROOT

pytestmark = pytest.mark.usefixtures("kept_kernels")

RECORDING = ROOT / "data" / "recorded-faults" / "w2-lock-load"


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(RECORDING, tmp_path_factory.mktemp("raw") / RECORDING.name))


@pytest.fixture(scope="module")
def dataset(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dataset") / "ds"
    ca.ingest(raw, out, meta={"workload": "Z"})
    return out


@pytest.fixture(scope="module")
def packed(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> PackResult:
    folder = tmp_path_factory.mktemp("packed")
    claims = folder / "claims.yml"
    claims.write_text(
        "- claim: postgresql://bench:s3cret@node/db answers quickly\n"
        "  source: notes\n  place: line 1\n  form: mean throughput_ops_s, at least 1\n",
        encoding="utf-8",
    )
    wheel = folder / "citus_analysis-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    return ca.pack(dataset, folder / "object", reports=["server"], claims=claims, wheels=[wheel])


@pytest.fixture
def copy(packed: PackResult, tmp_path: Path) -> Path:
    return Path(shutil.copytree(packed.folder, tmp_path / "moved"))


def run_verify(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The exit code of `verify`, and what it prints on both outputs."""
    with pytest.raises(SystemExit) as ended:
        main(["verify", *map(str, arguments)])
    printed = capsys.readouterr()
    return int(str(ended.value.code)), printed.out, printed.err


def change_a_byte(path: Path, at: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_it_is_reproduced_elsewhere(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_verify(capsys, copy, "--json")
    found = json.loads(out)
    assert (code, found["problems"], found["reproduced"]) == (0, [], True)
    assert len(found["checked"]) == 3
    assert found["versions"] == []


def test_facts_that_were_stated_are_kept(packed: PackResult) -> None:
    checks = json.loads((packed.folder / "checks.json").read_text(encoding="utf-8"))
    assert checks["ingests"] == [{"sources": ["w2-lock-load"], "stated": {"workload": "Z"}}]
    opened = ca.open_dataset(packed.folder / "dataset")
    assert opened.runs()["workload"].cast(pl.String).unique().to_list() == ["Z"]
    assert checks["verdicts"].keys() == {
        *("audit", "claims", "compare by set_up", "compare by system", "compare by workers"),
    }
    (claim,) = checks["verdicts"]["claims"]["claims"]
    assert claim["judged_by"] == "runs"


def test_a_wheel_is_found_by_the_first_command(packed: PackResult) -> None:
    assert (packed.folder / "software" / "citus_analysis-0.1.0-py3-none-any.whl").read_bytes() == b"a wheel"
    readme = (packed.folder / "README.md").read_text(encoding="utf-8")
    assert "pip install -r requirements.lock --find-links software\n" in readme


def test_what_was_hidden_is_said(packed: PackResult) -> None:
    assert {one.name.rpartition("/")[2].partition("_")[0]: one.masked for one in packed.raw} == {
        "load": 2,
        "monitor": 2,
    }
    # The files that hold a secret are longer, and their offsets others; the rows of the rest are the same.
    (note,) = packed.notes
    assert "log_events" not in note
    assert "raw/w2-lock-load/YCSB/raw/load_A" in (packed.folder / "README.md").read_text(encoding="utf-8")
    assert "s3cret" not in (packed.folder / "claims.yml").read_text(encoding="utf-8")


def test_a_file_that_holds_no_claims_is_refused(raw: Path, tmp_path: Path) -> None:
    (tmp_path / "claims.yml").write_text("- claim: it is fast\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"claims\.yml"):
        ca.pack(raw, tmp_path / "object", reports="none", claims=tmp_path / "claims.yml")
    assert not (tmp_path / "object").exists()


def test_the_same_files_give_the_same_folder(packed: PackResult, raw: Path, tmp_path: Path) -> None:
    shutil.copytree(raw, tmp_path / "other" / raw.name)
    ca.ingest(tmp_path / "other" / raw.name, tmp_path / "ds", meta={"workload": "Z"})
    claims = packed.folder.parent / "claims.yml"
    again = ca.pack(
        tmp_path / "ds",
        tmp_path / "object",
        reports=["server"],
        claims=claims,
        wheels=packed.folder.parent.glob("*.whl"),
    )
    assert hashes(again.folder) == hashes(packed.folder)


def hashes(folder: Path) -> list[str]:
    return (folder / "manifest-sha256.txt").read_text(encoding="utf-8").splitlines()


def test_nothing_names_a_place_or_a_host(packed: PackResult, raw: Path) -> None:
    for path in packed.folder.rglob("*"):
        assert not path.is_file() or str(raw.parent).encode() not in path.read_bytes(), path
        assert not path.is_file() or str(packed.folder.parent).encode() not in path.read_bytes(), path
        assert not path.name.startswith((".unfinished", "_lock", "_files"))
    assert list(packed.folder.parent.glob(".unfinished*")) == []


@pytest.mark.parametrize(
    "name", ["raw/w2-lock-load/config.yml", "dataset/runs/*/*.parquet", "reports/server.html", "README.md"]
)
def test_a_changed_byte_is_named(copy: Path, name: str) -> None:
    path = next(copy.glob(name))
    change_a_byte(path)
    verified = ca.verify(copy)
    assert verified.exit_code == 1
    assert f"{path.relative_to(copy).as_posix()}: changed since it was packed" in verified.problems


def test_missing_and_further_files_are_named(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "raw" / "w2-lock-load" / "general" / "worker-0-1.out.zst").unlink()
    (copy / "raw" / "x.txt").write_text("x", encoding="utf-8")
    code, out, _ = run_verify(capsys, copy)
    assert code == 1
    assert "raw/w2-lock-load/general/worker-0-1.out.zst: is missing" in out
    assert "raw/x.txt: was not packed" in out
    assert "table cpu_samples: " in out
    assert out.splitlines()[-1].startswith("differs (")


def test_other_rows_and_verdicts_are_named(copy: Path) -> None:
    checks = json.loads((copy / "checks.json").read_text(encoding="utf-8"))
    checks["tables"]["runs"] = "1 rows 0"
    checks["verdicts"]["audit"]["verdict"] = "blue"
    (copy / "checks.json").write_text(json.dumps(checks), encoding="utf-8")
    environment = json.loads((copy / "environment.json").read_text(encoding="utf-8"))
    environment["packages"]["numpy"] = "0.1"
    (copy / "environment.json").write_text(json.dumps(environment), encoding="utf-8")
    verified = ca.verify(copy)
    assert "dataset/runs: has other rows than checks.json states" in verified.problems
    assert "verdict: audit: differs from the one computed anew" in verified.problems
    assert verified.versions[0].startswith("numpy ")
    assert verified.versions[0].endswith(" instead of 0.1")


def test_another_folder_is_no_pack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run_verify(capsys, tmp_path)
    assert code == 3
    assert "is no packed dataset" in error
    assert "citus-analysis pack" in error


def test_a_damaged_list_of_checks_is_named(copy: Path) -> None:
    (copy / "checks.json").write_text("{", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"checks\.json: is damaged"):
        ca.verify(copy)


def test_a_folder_with_files_is_refused(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(UsageError, match=r"not empty .name another --out"):
        ca.pack(dataset, tmp_path)


def test_missing_raw_files_are_asked_for(tmp_path: Path) -> None:
    moved = Path(shutil.copytree(RECORDING, tmp_path / "before" / RECORDING.name))
    ca.ingest(moved, tmp_path / "ds")
    moved.rename(tmp_path / RECORDING.name)
    with pytest.raises(InputError, match=r"raw files are missing, the first of them .* .say where they are: --raw"):
        ca.pack(tmp_path / "ds", tmp_path / "object", reports="none")
    assert not list(tmp_path.glob(".unfinished*"))
    packed = ca.pack(tmp_path / "ds", tmp_path / "object", reports="none", raw=tmp_path / RECORDING.name)
    assert packed.files > 20


def test_large_files_leave_their_hash(raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pack", str(raw), "--out", str(tmp_path / "o"), "--raw-limit", "4KB", "--reports", "none", "--json"])
    assert ended.value.code == 0
    left_out = json.loads(capsys.readouterr().out)["left_out"]
    assert {one["reason"] for one in left_out} == {"is larger than the limit"}
    assert all(one["bytes"] > 4096 for one in left_out)
    assert not (tmp_path / "o" / "raw" / left_out[0]["file"]).exists()
    assert "left out (is larger than the limit)" in (tmp_path / "o" / "README.md").read_text(encoding="utf-8")


def test_an_archive_becomes_its_folder(raw: Path, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    shutil.make_archive(str(tmp_path / "raw" / "results"), "gztar", raw.parent, raw.name)
    ca.ingest(tmp_path / "raw", tmp_path / "ds")
    packed = ca.pack(tmp_path / "ds", tmp_path / "object", reports="none")
    assert (packed.folder / "raw" / "raw" / "results" / raw.name / "config.yml").is_file()
    assert ca.verify(packed.folder).problems == ()


def test_a_missing_package_is_said(dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'citus-analysis\[pack\]'"):
        ca.pack(dataset, tmp_path / "object")


def test_the_crate_names_files_and_processes(packed: PackResult) -> None:
    crate = ROCrate(packed.folder)
    actions = {entity.id: entity for entity in crate.get_entities() if entity.type == "CreateAction"}
    assert actions.keys() == {"#ingest", "#check", "#report-server"}
    assert actions["#ingest"]["instrument"]["softwareVersion"] == "0.1.0"
    assert [result.id for result in actions["#ingest"]["result"]] == ["dataset/"]
    named = {entity.id for entity in crate.get_entities() if entity.type == "File"}
    there = {path.relative_to(packed.folder).as_posix() for path in packed.folder.rglob("*") if path.is_file()}
    written_last = {"manifest-sha256.txt", "ro-crate-metadata.json"}
    assert {name for name in there if not name.startswith("dataset/")} - written_last <= named


def test_the_descriptor_is_the_schema_of_the_files(packed: PackResult) -> None:
    document = json.loads((packed.folder / "tables.json").read_text(encoding="utf-8"))
    kinds = {"int32": "integer", "int64": "integer", "uint64": "integer", "double": "number", "bool": "boolean"}
    for resource in document["resources"]:
        fields = {field["name"]: field for field in resource["schema"]["fields"]}
        for name in resource["path"]:
            for column in pq.read_schema(packed.folder / name):
                kind = str(column.type)
                expected = "datetime" if kind.startswith("timestamp") else kinds.get(kind, "string")
                assert fields[column.name]["type"] == expected, (resource["name"], column)
                unit = (column.metadata or {}).get(b"unit")
                assert fields[column.name].get("unit") == (unit and unit.decode())
        assert fields.keys() == set(TABLES[resource["name"]].names())


def test_every_table_can_be_described() -> None:
    names = TABLES.keys() - OUTSIDE_DATASET
    resources = build_data_package({name: [f"{name}.parquet"] for name in names}, dict(TABLES))["resources"]
    assert isinstance(resources, list)
    assert len(resources) == len(names)


IOSTAT = ROOT / "tests" / "data" / "deliveries" / "rsyslog" / "iostat.out"


def two_hosts(folder: Path) -> list[Path]:
    """Two folders of one file each, which do not say whose they are."""
    hosts = [folder / "first", folder / "second"]
    for host in hosts:
        (host / "samples").mkdir(parents=True)
        shutil.copy(IOSTAT, host / "samples" / f"{host.name}.out")
    return hosts


def test_options_of_each_ingest_are_repeated(tmp_path: Path) -> None:
    first, second = two_hosts(tmp_path / "raw")
    single = tmp_path / "raw" / "files"
    single.mkdir()
    for name in ("a.out", "b.out"):
        shutil.copy(IOSTAT, single / name)
    ca.ingest(first, tmp_path / "ds", meta={"resource": "w2", "node": "1", "timezone": "Asia/Tokyo"})
    ca.ingest(second, tmp_path / "ds", meta={"resource": "w2", "node": "2"}, format="iostat")
    for name, node in (("a.out", "3"), ("b.out", "4")):
        ca.ingest(single / name, tmp_path / "ds", meta={"resource": "w2", "node": node})
    packed = ca.pack(tmp_path / "ds", tmp_path / "object", reports="none")
    assert packed.notes == ()
    checks = json.loads((packed.folder / "checks.json").read_text(encoding="utf-8"))
    assert {tuple(one["sources"]): one["stated"].get("node") for one in checks["ingests"]} == {
        ("first",): "1",
        ("second",): "2",
        ("files/a.out",): "3",
        ("files/b.out",): "4",
    }
    assert [one["stated"].get("format") for one in checks["ingests"]].count("iostat") == 1
    nodes = ca.open_dataset(packed.folder / "dataset").table("device_samples")["node"].unique()
    assert sorted(nodes) == ["1", "2", "3", "4"]
    verified = ca.verify(packed.folder)
    assert verified.problems == ()


def test_options_that_cannot_be_repeated_are_refused(tmp_path: Path) -> None:
    first, second = two_hosts(tmp_path / "raw")
    ca.ingest(tmp_path / "raw", tmp_path / "ds", meta={"node": "1"})
    shutil.move(first / "samples", tmp_path / "kept")
    ca.ingest(tmp_path / "raw", tmp_path / "ds", meta={"node": "2"})
    shutil.move(tmp_path / "kept", first / "samples")
    with pytest.raises(InputError, match="had other --meta or --format than files beside it"):
        ca.pack(tmp_path / "ds", tmp_path / "object", reports="none")
    ca.ingest(second, tmp_path / "secret", meta={"set_up": "password=s3cret"})
    with pytest.raises(InputError, match="a --meta that holds a secret"):
        ca.pack(tmp_path / "secret", tmp_path / "object", reports="none")


def test_options_that_an_older_version_forgot_are_asked_for(tmp_path: Path) -> None:
    _, second = two_hosts(tmp_path / "raw")
    ca.ingest(second, tmp_path / "ds", meta={"node": "2"})
    manifest = Manifest.load(tmp_path / "ds")
    manifest.commit(*(replace(state, stated=None) for state in manifest.sources.values()))
    with pytest.raises(InputError, match="an older version made it"):
        ca.pack(tmp_path / "ds", tmp_path / "object", reports="none")
    ca.ingest(second, tmp_path / "ds", meta={"node": "2"})
    assert ca.pack(tmp_path / "ds", tmp_path / "object", reports="none").notes == ()


def test_files_outside_of_a_pack_are_not_read(copy: Path) -> None:
    checks = json.loads((copy / "checks.json").read_text(encoding="utf-8"))
    checks["ingests"][0]["sources"] = ["../../elsewhere"]
    (copy / "checks.json").write_text(json.dumps(checks), encoding="utf-8")
    assert any("is damaged" in problem for problem in ca.verify(copy).problems)


def test_the_experiment_is_added(raw: Path, tmp_path: Path) -> None:
    tree = tmp_path / "out"
    shutil.copytree(raw, tree / raw.name)
    experiment = load_experiment("laptop")
    begin(Journal(tree / ".runner" / "journal.jsonl"), experiment, tree, resume=False)
    for source in (tree, tree / raw.name):
        packed = ca.pack(source, tmp_path / f"object of {source.name}", reports="none")
        (file,) = (packed.folder / "experiments").iterdir()
        assert file.name == f"{source.name}.yml"
        assert load_experiment(file) == experiment
        assert not any(".runner" in path.name for path in packed.folder.rglob("*"))
