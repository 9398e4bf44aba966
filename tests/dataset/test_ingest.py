from __future__ import annotations

import gzip
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from citus_analysis.dataset import Dataset, IngestSummary, Progress, ingest, open_dataset
from citus_analysis.dataset.digests import hash_file_content
from citus_analysis.dataset.manifest import ParquetPart, lock_dataset
from citus_analysis.dataset.records import consume_records
from citus_analysis.errors import DatasetError, InputError, UnknownNameError, UsageError
from citus_analysis.formats import Content, Format, Hints, Parsed
from citus_analysis.formats.parsing.recognition import Recognised, recognise_sources
from citus_analysis.spans.sessions import SessionStore
from tests.conftest import Tree
from tests.dataset.tiny_formats import TinyLog, client, log

pytestmark = pytest.mark.usefixtures("tiny_formats")

FIRST = "V3/load-A-t16-r600-w1-d1-i1"
SECOND = "V3/load-A-t16-r600-w1-d1-i2"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


def sources(out: Path) -> dict[str, dict[str, object]]:
    return {row["path"]: row for row in open_dataset(out).sources().to_dicts()}


def test_a_studys_tree_becomes_a_dataset(tree: Tree, study: dict[str, str], out: Path) -> None:
    summary = ingest(tree(study), out, jobs=2)
    assert (summary.files, summary.read, summary.unchanged, summary.exit_code) == (9, 9, 0, 0)
    dataset = open_dataset(out)
    assert dataset.tables() == {"sources": 9, "settings": 3, "runs": 2, "clients": 4, "log_events": 8}
    assert summary.rows == dataset.tables()
    runs = dataset.runs().sort("iteration").select("run_id", "throughput_ops_s", "monitored", "system", "status")
    assert runs.rows() == [(FIRST, 100.0, True, "citus", "ok"), (SECOND, 200.0, True, "citus", "ok")]
    events = dataset.log_events().select("node", "iteration", "run_id", "pid").unique().sort("iteration", "node")
    assert events.rows() == [("0", 1, FIRST, 77), ("1", 1, FIRST, 77), ("0", 2, SECOND, 77), ("1", 2, SECOND, 77)]


def test_every_byte_of_every_source_is_accounted_for(tree: Tree, study: dict[str, str], out: Path) -> None:
    ingest(tree({**study, "V3/pglogs/PGLOG-3-1.log": log(2000, bad=3)}), out)
    for row in open_dataset(out).sources().to_dicts():
        assert row["parsed_bytes"] + row["noise_bytes"] + row["rejected_bytes"] == row["content_bytes"] == row["bytes"]


def test_the_second_pass_reads_nothing(tree: Tree, study: dict[str, str], out: Path) -> None:
    root = tree(study)
    ingest(root, out)
    before = contents(out), open_dataset(out).content_hash
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    summary = ingest(root, out)
    assert (summary.read, summary.unchanged, summary.derived) == (0, 9, 0)
    assert str(summary).startswith("9 files: 0 read, 9 unchanged; ")
    assert (contents(out), open_dataset(out).content_hash) == before
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")} == times


def test_rows_and_files_do_not_depend_on_jobs(
    tree: Tree, study: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree({**study, "V3/pglogs/PGLOG-3-1.log": log(*range(2000, 5000), bad=2)})
    ingest(root, tmp_path / "one", jobs=1)
    monkeypatch.setattr("citus_analysis.dataset.ingestion.BIG_BYTES", 10_000)
    ingest(root, tmp_path / "four", jobs=4)
    assert contents(tmp_path / "one") == contents(tmp_path / "four")
    assert open_dataset(tmp_path / "one").content_hash == open_dataset(tmp_path / "four").content_hash


def test_only_what_changed_is_read_again(tree: Tree, study: dict[str, str], out: Path) -> None:
    ingest(tree(study), out)
    name = "V3/pglogs/PGLOG-1-2.log"
    summary = ingest(tree({name: log(2000, 2001, 2002)}), out)
    assert (summary.read, summary.unchanged, summary.derived) == (1, 8, 2)
    assert open_dataset(out).log_events().height == 9
    assert sources(out)[name]["rows"] == 3
    files = [path.name.split("-")[0] for path in out.glob("log_events/*/*.parquet")]
    assert len(files) == len(set(files)) == 4


def test_touching_a_file_does_not_change_it(tree: Tree, study: dict[str, str], out: Path) -> None:
    root = tree(study)
    ingest(root, out)
    for path in root.rglob("*.log"):
        os.utime(path, (1, 1))
    assert ingest(root, out).read == 0


def test_a_newer_parser_reads_its_files_again(
    tree: Tree, study: dict[str, str], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(study)
    ingest(root, out)
    monkeypatch.setattr(TinyLog, "version", 2)
    summary = ingest(root, out)
    assert (summary.read, summary.unchanged) == (4, 5)
    assert sources(out)["V3/pglogs/PGLOG-0-1.log"]["parser_version"] == 2


def test_derived_tables_of_other_resources_are_left_alone(tree: Tree, study: dict[str, str], out: Path) -> None:
    other = {name.replace("V3", "V4"): text.replace("V3", "V4") for name, text in study.items()}
    ingest(tree({**study, **other}), out)
    kept = {path: path.stat().st_mtime_ns for path in out.rglob("resource=V4/*.parquet")}
    summary = ingest(tree({"V3/YCSB/raw/load_A_16_600_1_1_V3_1_0.log": client(150.0)}), out)
    assert summary.derived == 2
    assert {path: path.stat().st_mtime_ns for path in out.rglob("resource=V4/*.parquet")} == kept
    assert open_dataset(out).runs().filter(run_id=FIRST)["throughput_ops_s"].to_list() == [150.0]


def test_a_bad_file_among_good_ones(tree: Tree, study: dict[str, str], out: Path) -> None:
    bad = "V3/YCSB/raw/load_A_16_600_3_1_V3_1_0.log"
    summary = ingest(tree({**study, bad: "#tiny-client\ndamaged\n"}), out)
    assert (summary.exit_code, summary.failed, summary.read) == (1, 1, 10)
    assert summary.messages == (f"{bad}: line 2: is damaged",)
    dataset = open_dataset(out)
    assert dataset.rejects().select("byte_offset", "byte_length", "reason").rows() == [(0, 21, "line 2: is damaged")]
    status = dict(dataset.runs().select("iteration", "status").iter_rows())
    assert status == {1: "ok", 2: "ok", 3: "failed"}
    again = ingest(tree({}), out)
    assert (again.exit_code, again.read, again.messages) == (1, 0, summary.messages)


def test_rejected_lines_are_counted_and_named(tree: Tree, study: dict[str, str], out: Path) -> None:
    summary = ingest(tree({**study, "V3/pglogs/PGLOG-3-1.log": log(2000, bad=2)}), out)
    assert (summary.exit_code, summary.rejected, summary.failed) == (1, 2, 0)
    assert summary.messages == ("V3/pglogs/PGLOG-3-1.log: 2 parts rejected, first at byte 31: is bad",)
    assert open_dataset(out).rejects()["excerpt"].to_list() == ["bad line\n"] * 2


@pytest.mark.parametrize("marker", ["", "crash"])
def test_a_defect_of_a_format_costs_its_file_only(tree: Tree, study: dict[str, str], out: Path, marker: str) -> None:
    summary = ingest(tree({**study, "V3/x.txt": f"#tiny-forgetful\n{marker}\n"}), out)
    reason = (
        "format tiny_forgetful failed: ZeroDivisionError: oops"
        if marker
        else "format tiny_forgetful accounts for 13 of 17 bytes"
    )
    assert (summary.exit_code, summary.messages) == (1, (f"V3/x.txt: {reason}",))
    row = sources(out)["V3/x.txt"]
    assert row["parsed_bytes"] + row["rejected_bytes"] == row["content_bytes"]  # type: ignore[operator]  # dict of objects
    assert open_dataset(out).runs().height == 2


def test_unknown_files_are_listed(tree: Tree, study: dict[str, str], out: Path) -> None:
    summary = ingest(tree({**study, "V3/notes.md": "text", "V3/blob": b"\0\1\xff", "V3/empty": ""}), out)
    assert (summary.exit_code, summary.unrecognised, summary.read) == (0, 3, 9)
    assert {name for name, row in sources(out).items() if row["format"] is None} == {
        "V3/notes.md",
        "V3/blob",
        "V3/empty",
    }


@pytest.mark.parametrize("files", [{}, {"a.md": "text"}])
def test_nothing_usable(tree: Tree, out: Path, files: dict[str, str | bytes]) -> None:
    with pytest.raises(InputError, match=r"holds no files|no format recognises it"):
        ingest(tree(files), out)
    assert not out.exists()


def test_all_files_unreadable_is_no_success(tree: Tree, out: Path) -> None:
    assert ingest(tree({"a.log": "#tiny-client\ndamaged\n"}), out).exit_code == 3


def test_what_cannot_be_looked_at_is_reported(tree: Tree, out: Path) -> None:
    root = tree({"lab/a.txt": log(1)})
    (root / "lab" / "gone.txt").symlink_to(root / "nowhere")
    summary = ingest(root, out)
    assert (summary.files, summary.read, summary.failed, summary.exit_code) == (2, 1, 1, 1)
    assert summary.messages == ("lab/gone.txt: cannot be read: No such file or directory",)


def test_strict_leaves_the_dataset_as_it_was(tree: Tree, study: dict[str, str], out: Path) -> None:
    root = tree(study)
    ingest(root, out)
    before, manifest = contents(out), (out / "_manifest.jsonl").read_bytes()
    root = tree({"V3/pglogs/PGLOG-0-1.log": log(1, 2, 3), "V3/pglogs/PGLOG-3-1.log": log(2000, bad=2)})
    with pytest.raises(InputError, match=re.escape("2 parts rejected, first at byte 31: is bad")):
        ingest(root, out, strict=True)
    assert (contents(out), (out / "_manifest.jsonl").read_bytes()) == (before, manifest)
    (root / "V3/pglogs/PGLOG-3-1.log").unlink()
    assert ingest(root, out, strict=True).read == 1
    assert open_dataset(out).log_events().height == 9


def test_strict_into_a_new_folder(tree: Tree, study: dict[str, str], out: Path) -> None:
    assert ingest(tree(study), out, strict=True).exit_code == 0
    assert open_dataset(out).runs().height == 2


def test_the_same_resource_from_above_or_from_within(tree: Tree, study: dict[str, str], out: Path) -> None:
    root = tree(study)
    ingest(root, out)
    for source in (root / "V3", root / "V3" / "pglogs", root / "V3" / "YCSB" / "raw", root / "V3" / "config.yml"):
        summary = ingest(source, out)
        assert summary.read == 0
        assert summary.unchanged == summary.files > 0
    assert open_dataset(out).sources().height == 9


def test_snapshots_and_plans_are_of_the_resource_above_them(tree: Tree, out: Path) -> None:
    root = tree({"w2/snapshots/pg_stat_wal-0-1.csv": log(1), "w2/explain/count.txt": log(2), "x/explain/a/b": log(3)})
    for source in (root / "w2" / "snapshots", root / "w2" / "explain", root / "w2"):
        ingest(source, out)
        assert set(open_dataset(out).sources()["resource"]) == {"w2"}
    assert ingest(root / "w2", out).unchanged == 2
    # Other programs use these names as well, for whole trees.
    ingest(root / "x" / "explain", out)
    assert set(open_dataset(out).sources()["resource"]) == {"w2", "a"}


def test_a_moved_tree_is_the_same(tree: Tree, study: dict[str, str], out: Path, tmp_path: Path) -> None:
    ingest(tree(study), out)
    shutil.move(tmp_path / "src", tmp_path / "elsewhere")
    assert ingest(tmp_path / "elsewhere", out).unchanged == 9
    assert open_dataset(out).log_text(open_dataset(out).log_events().head(1)).to_list() == ["2000 77 duration 0.5"]


def test_a_tree_that_is_reached_by_a_link_is_no_copy_of_itself(
    tree: Tree, study: dict[str, str], out: Path, tmp_path: Path
) -> None:
    ingest(tree(study), out)
    before = open_dataset(out).log_events()
    (tmp_path / "link").symlink_to(tmp_path / "src")
    again = ingest(tmp_path / "link", out)
    assert (again.unchanged, again.duplicates) == (9, 0)
    assert open_dataset(out).log_events().equals(before)
    assert before.height


def test_files_are_recognised_anew_once_when_formats_changed(
    tree: Tree, study: dict[str, str], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, looked, detect = tree(study), [], recognise_sources

    def counted(content: Content, forced: Format | None, prefix: str | None) -> list[Recognised]:
        looked.append(content.path)
        return detect(content, forced, prefix)

    monkeypatch.setattr("citus_analysis.dataset.recognise.recognise_sources", counted)
    ingest(root, out)
    assert len(looked) == 9
    for module in ("read_source", "ingestion"):
        monkeypatch.setattr(f"citus_analysis.dataset.{module}.hash_format_registry", lambda: "another")
    for times in (2, 2):
        lines = (out / "_manifest.jsonl").read_bytes().count(b"\n")
        assert ingest(root, out).unchanged == 9
        assert len(looked) == times * 9
        # All of them are one commit.
        assert (out / "_manifest.jsonl").read_bytes().count(b"\n") <= lines + 2
    assert open_dataset(out).sources().height == 9


def test_a_renamed_file_replaces_itself(tree: Tree, study: dict[str, str], out: Path) -> None:
    root = tree(study)
    ingest(root, out)
    old = root / "V3/pglogs/PGLOG-1-2.log"
    old.rename(old.with_name("PGLOG-5-2.log"))
    ingest(root, out)
    assert sorted(open_dataset(out).log_events()["node"].unique()) == ["0", "1", "5"]
    assert open_dataset(out).log_events().height == 8


def test_rows_of_vanished_files_stay(tree: Tree, study: dict[str, str], out: Path) -> None:
    root = tree(study)
    ingest(root, out)
    (root / "V3/pglogs/PGLOG-1-2.log").unlink()
    summary = ingest(root, out)
    assert (summary.files, summary.unchanged, summary.exit_code) == (8, 8, 0)
    assert open_dataset(out).log_events().height == 8


def test_a_copy_counts_once(tree: Tree, study: dict[str, str], out: Path) -> None:
    name = "V3/YCSB/raw/load_A_16_600_1_1_V3_1_0.log"
    root = tree({**study, f"V3/backup/{Path(name).name}": study[name], "V3/pglogs/copy/PGLOG-0-1.log": log(2000, 3001)})
    summary = ingest(root, out)
    assert (summary.duplicates, summary.exit_code) == (2, 0)
    assert open_dataset(out).runs().filter(run_id=FIRST).select("throughput_ops_s", "status").row(0) == (100.0, "ok")
    assert sources(out)[f"V3/backup/{Path(name).name}"]["note"] == f"same content as {name}"
    assert open_dataset(out).log_events().height == 8


def test_a_compressed_copy_beside_the_file_counts_once(tree: Tree, study: dict[str, str], out: Path) -> None:
    name = "V3/YCSB/raw/load_A_16_600_1_1_V3_1_0.log"
    summary = ingest(tree({**study, f"{name}.gz": gzip.compress(study[name].encode())}), out)
    assert (summary.duplicates, summary.exit_code) == (1, 0)
    assert sources(out)[f"{name}.gz"]["note"] == f"same content as {name}"
    assert open_dataset(out).runs()["throughput_ops_s"].to_list() == [100.0, 200.0]


def test_two_files_that_claim_to_be_one_load_generator(tree: Tree, study: dict[str, str], out: Path) -> None:
    name = "load_A_16_600_1_1_V3_1_0.log"
    root = tree({**study, f"V3/YCSB/old/{name}": client(55.0)})
    summary = ingest(root, out)
    assert (summary.conflicts, summary.exit_code) == (1, 1)
    assert summary.messages == (
        f"V3/YCSB/raw/{name}: claims to be the same load generator of {FIRST} as V3/YCSB/old/{name}"
        " (remove one, or state `part` in a runs.csv)",
    )
    tree({"V3/YCSB/old/runs.csv": f"file,part\n{name},1\n"})
    assert ingest(root, out).exit_code == 0
    assert open_dataset(out).runs().filter(run_id=FIRST)["throughput_ops_s"].to_list() == [155.0]


def test_a_copy_takes_over_when_the_original_goes(tree: Tree, study: dict[str, str], out: Path) -> None:
    root = tree({**study, "V3/pglogs/x/PGLOG-0-1.log": log(2000, 3001)})
    ingest(root, out)
    (root / "V3/pglogs/PGLOG-0-1.log").unlink()
    ingest(root, out)
    assert open_dataset(out).log_events().height == 8
    assert ingest(root, out).read == 0


def test_same_names_in_two_folders_of_one_resource(tree: Tree, out: Path) -> None:
    root = tree({"a/x.log": log(1), "b/x.log": log(2)})
    ingest([root / "a" / "x.log", root / "b" / "x.log"], out, meta={"resource": "V3"})
    assert open_dataset(out).log_events().height == 2


def test_same_names_one_after_the_other(tree: Tree, out: Path) -> None:
    root = tree({"a/x.log": log(1), "b/x.log": log(2)})
    ingest(root / "a", out, meta={"resource": "V3"})
    ingest(root / "b", out, meta={"resource": "V3"})
    assert open_dataset(out).log_events().height == 2
    assert ingest(root / "a", out, meta={"resource": "V3"}).unchanged == 1


def test_identity_by_meta(tree: Tree, study: dict[str, str], out: Path) -> None:
    root = tree(study)
    ingest(root, out, meta={"resource": "renamed", "system": "aurora"})
    assert open_dataset(out).runs().select("resource", "system").unique().rows() == [("renamed", "aurora")]
    ingest(root, out)
    assert open_dataset(out).runs()["resource"].unique().to_list() == ["V3"]
    assert {path.name for path in out.glob("log_events/*") if any(path.iterdir())} == {"resource=V3"}


def test_identity_by_files_beside(tree: Tree, out: Path) -> None:
    root = tree(
        {
            "runs.csv": "file,phase,workload,threads,iteration,resource\nfirst.txt,run,C,16,1,lab\n",
            "identity.yml": 'files: [{pattern: "deep/{node}.txt", meta: {resource: lab, iteration: 1}}]',
            "first.txt": client(),
            "deep/db1.txt": log(2000),
        }
    )
    ingest(root, out)
    run = open_dataset(out).runs().row(0, named=True)
    assert (run["run_id"], run["phase"], run["threads"]) == ("lab/run-C-t16-i1", "run", 16)
    event = open_dataset(out).log_events().row(0, named=True)
    assert (event["node"], event["run_id"], event["resource"]) == ("db1", "lab/run-C-t16-i1", "lab")


def test_a_flat_heap_of_client_logs_is_sorted_by_the_names(tree: Tree, out: Path) -> None:
    names = [f"load_A_16_600_1_1_{resource}_1_0.log" for resource in ("V3", "m5_x-large")]
    ingest(tree(dict.fromkeys(names, client())), out)
    assert sorted(open_dataset(out).runs()["resource"]) == ["V3", "m5_x-large"]


def test_a_run_whose_only_client_left_nothing_failed(tree: Tree, study: dict[str, str], out: Path) -> None:
    name = "V3/YCSB/raw/load_A_16_600_1_1_V3_1_0.log"
    logs = {path: text for path, text in study.items() if "YCSB" not in path}
    ingest(tree({**logs, name: "#tiny-client\ndamaged\n"}), out)
    runs = open_dataset(out).runs().select(pl.col("run_id", "status", "status_reason").cast(pl.String))
    assert runs.rows() == [(FIRST, "failed", "no log of 1 of 1 main clients")]


def test_a_client_that_names_no_run_is_its_own(tree: Tree, out: Path) -> None:
    ingest(tree({"lab/bench/c8.out": client(1.0), "lab/bench/c16.out": client(2.0)}), out)
    assert sorted(open_dataset(out).runs()["run_id"]) == ["lab/bench/c16", "lab/bench/c8"]


def test_rows_of_a_shared_log_are_told_apart_by_time(tree: Tree, out: Path) -> None:
    files = {
        "V3/YCSB/raw/load_A_4_600_1_1_V3_1_0.log": client(start_ms=100_000, end_ms=110_000),
        "V3/YCSB/raw/load_A_8_600_1_1_V3_1_0.log": client(start_ms=200_000, end_ms=210_000),
        "V3/pglogs/PGLOG-0-1.log": log(50_000, 105_000, 205_000),
    }
    root = tree(files)
    ingest(root, out)
    four, eight = "V3/load-A-t4-r600-w1-d1-i1", "V3/load-A-t8-r600-w1-d1-i1"
    assert open_dataset(out).log_events()["run_id"].to_list() == [None, four, eight]
    # A third run changes what is known about the log's rows, though not the log.
    tree({"V3/YCSB/raw/load_A_2_600_1_1_V3_1_0.log": client(start_ms=40_000, end_ms=60_000)})
    ingest(root, out)
    assert open_dataset(out).log_events()["run_id"].to_list() == ["V3/load-A-t2-r600-w1-d1-i1", four, eight]


def test_compressed_files(tree: Tree, study: dict[str, str], out: Path) -> None:
    packed = {f"{name}.gz": gzip.compress(text.encode()) for name, text in study.items() if name.endswith(".log")}
    ingest(tree({**packed, "V3/config.yml": study["V3/config.yml"]}), out)
    assert open_dataset(out).runs().height == 2
    row = sources(out)["V3/pglogs/PGLOG-0-1.log.gz"]
    assert (row["compression"], row["content_bytes"], row["node"]) == ("gzip", 52, "0")


def test_a_damaged_compressed_file_keeps_the_lines_before_the_damage(
    tree: Tree, study: dict[str, str], out: Path
) -> None:
    packed = gzip.compress(log(*range(2000, 9000)).encode())
    summary = ingest(tree({**study, "V3/pglogs/PGLOG-3-1.log.gz": packed[:-2000]}), out)
    assert (summary.exit_code, summary.failed) == (1, 1)
    assert "the compressed file is cut off" in summary.messages[0]
    assert 1000 < open_dataset(out).log_events().filter(node="3").height < 7000
    row = sources(out)["V3/pglogs/PGLOG-3-1.log.gz"]
    assert row["parsed_bytes"] + row["noise_bytes"] + row["rejected_bytes"] == row["content_bytes"]  # type: ignore[operator]  # dict of objects


def test_a_file_that_changes_while_it_is_read_is_not_taken(
    tree: Tree, study: dict[str, str], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(study)
    growing = root / "V3/pglogs/PGLOG-0-1.log"
    parse = TinyLog.parse

    def parse_and_grow(self: TinyLog, content: Content, hints: Hints) -> Iterator[Parsed]:
        if content.path == growing:
            with growing.open("a") as file:
                file.write("2500 77 duration 0.5\n")
        return parse(self, content, hints)

    monkeypatch.setattr(TinyLog, "parse", parse_and_grow)
    summary = ingest(root, out)
    assert summary.messages == ("V3/pglogs/PGLOG-0-1.log: changed while it was read",)
    assert (summary.exit_code, summary.failed) == (1, 1)
    monkeypatch.setattr(TinyLog, "parse", parse)
    assert ingest(root, out).exit_code == 0
    assert open_dataset(out).log_events().height == 9


def test_a_file_that_can_no_longer_be_read_keeps_its_rows(
    tree: Tree, study: dict[str, str], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(study)
    ingest(root, out)

    def closed(path: Path) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("citus_analysis.dataset.recognise.hash_file_content", closed)
    with pytest.raises(InputError, match="Permission denied"):
        ingest(root, out)
    assert open_dataset(out).runs().height == 2


def test_an_unreadable_file_is_listed_with_the_reason(
    tree: Tree, study: dict[str, str], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sometimes(path: Path) -> str:
        if path.name == "PGLOG-0-1.log":
            raise PermissionError(13, "Permission denied")
        return hash_file_content(path)

    monkeypatch.setattr("citus_analysis.dataset.recognise.hash_file_content", sometimes)
    summary = ingest(tree(study), out)
    assert (summary.exit_code, summary.failed) == (1, 1)
    assert summary.messages == ("V3/pglogs/PGLOG-0-1.log: cannot be read: Permission denied",)
    assert sources(out)["V3/pglogs/PGLOG-0-1.log"]["note"] == "cannot be read: Permission denied"


def test_format_is_forced_but_for_what_describes_the_resource(tree: Tree, study: dict[str, str], out: Path) -> None:
    text = log(2000).replace("#tiny-log\n", "")
    root = tree({"V3/config.yml": study["V3/config.yml"], "V3/odd.txt": text})
    ingest(root, out, format="tiny_log")
    assert open_dataset(out).log_events().height == 1
    assert open_dataset(out).settings().height == 3


def test_wrong_usage(tree: Tree, study: dict[str, str], out: Path) -> None:
    root = tree(study)
    with pytest.raises(UsageError, match="jobs must be at least 1, not 0"):
        ingest(root, out, jobs=0)
    with pytest.raises(UnknownNameError, match="no format is named 'ycbs'"):
        ingest(root, out, format="ycbs")
    with pytest.raises(UnknownNameError, match="did you mean 'resource'"):
        ingest(root, out, meta={"resourse": "x"})


def test_a_folder_that_holds_something_else_is_left_alone(tree: Tree, study: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("x")
    with pytest.raises(DatasetError, match=re.escape("is not a dataset, yet holds chapter.tex")):
        ingest(tree(study), tmp_path / "thesis")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


def test_two_ingests_at_once(tree: Tree, study: dict[str, str], out: Path) -> None:
    root = tree(study)
    ingest(root, out)
    with lock_dataset(out), pytest.raises(DatasetError, match="another ingest is writing to this dataset"):
        ingest(root, out)


def test_files_removed_from_a_dataset_are_made_again(tree: Tree, study: dict[str, str], out: Path) -> None:
    root = tree(study)
    ingest(root, out)
    before = contents(out)
    for path in [*out.glob("log_events/*/*.parquet"), *out.glob("runs/*/*.parquet")]:
        path.unlink()
    # Readers have a name of their own for these files; other tools get theirs back.
    assert open_dataset(out).log_events().height == 8
    assert ingest(root, out).read == 0
    assert contents(out) == before
    for path in [*out.glob("log_events/*/*.parquet"), *out.glob("_files/*/*/*.part")]:
        path.unlink()
    with pytest.raises(DatasetError, match="a file of the dataset is missing"):
        open_dataset(out)
    assert ingest(root, out).read == 4
    assert contents(out) == before


def test_progress_reaches_its_end_in_every_stage(tree: Tree, study: dict[str, str], out: Path) -> None:
    seen: list[Progress] = []
    ingest(tree(study), out, progress=seen.append)
    last = {progress.stage: progress for progress in seen}
    assert list(last) == ["scan", "read", "derive"]
    assert all(progress.done == progress.total > 0 for progress in last.values())


def test_stopping_leaves_a_dataset_that_opens(tree: Tree, study: dict[str, str], out: Path) -> None:
    root = tree(study)

    def interrupt(progress: Progress) -> None:
        if progress.stage == "derive":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(root, out, progress=interrupt)
    assert open_dataset(out).clients().height == 4
    summary = ingest(root, out)
    assert (summary.read, summary.unchanged) == (0, 9)
    assert open_dataset(out).runs().height == 2


def test_names_that_are_not_utf8(tree: Tree, out: Path) -> None:
    root = tree({"lab/ok.txt": log(1)})
    Path(os.fsdecode(os.fsencode(root) + b"/lab/gr\xfc\xdf.txt")).write_text(log(2000))
    ingest(root, out)
    dataset = open_dataset(out)
    assert sorted(dataset.sources()["path"]) == ["lab/gr\\xfc\\xdf.txt", "lab/ok.txt"]
    assert sorted(dataset.log_text(dataset.log_events())) == ["1 77 duration 0.5", "2000 77 duration 0.5"]
    assert ingest(root, out).unchanged == 2


def test_the_content_hash_tells_contents_apart(tree: Tree, study: dict[str, str], tmp_path: Path) -> None:
    root = tree(study)
    hashes = set[str]()
    for number in range(2):
        ingest(root, tmp_path / str(number))
        hashes.add(open_dataset(tmp_path / str(number)).content_hash)
    assert len(hashes) == 1
    tree({"V3/pglogs/PGLOG-0-1.log": log(2001)})
    ingest(root, tmp_path / "0")
    assert open_dataset(tmp_path / "0").content_hash not in hashes


def test_hints_come_from_the_configuration(tree: Tree, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, dict[str, str]] = {}
    parse = TinyLog.parse

    def spy(self: TinyLog, content: Content, hints: Hints) -> Iterator[Parsed]:
        seen[hints.name] = dict(hints.options)
        return parse(self, content, hints)

    monkeypatch.setattr(TinyLog, "parse", spy)
    config = "settings: {log_line_prefix: '%m ', log_timezone: Europe/Berlin}\n"
    root = tree({"V3/config.yml": config, "V3/pglogs/PGLOG-0-1.log": log(1), "V4/pglogs/PGLOG-0-2.log": log(1)})
    ingest(root, out)
    assert seen == {
        "PGLOG-0-1.log": {"log_line_prefix": "%m ", "timezone": "Europe/Berlin"},
        "PGLOG-0-2.log": {},
    }
    tree({"V3/config.yml": config.replace("Berlin", "Paris")})
    assert ingest(root, out).read == 2
    # Not the configuration, which reads no times.
    assert ingest(root, out, meta={"timezone": "UTC"}).read == 2
    assert seen["PGLOG-0-1.log"]["timezone"] == "UTC"


def test_the_summary_is_data(tree: Tree, study: dict[str, str], out: Path) -> None:
    summary = ingest(tree(study), out)
    assert isinstance(summary, IngestSummary)
    stored = summary.to_dict()
    assert stored["exit_code"] == 0
    assert stored["rows"] == dict(summary.rows)
    assert summary.rows["runs"] == 2


def test_the_sources_table_on_disk_says_the_same(tree: Tree, study: dict[str, str], out: Path) -> None:
    ingest(tree({**study, "V3/notes.md": "x"}), out)
    dataset: Dataset = open_dataset(out)
    on_disk = pl.read_parquet(out / "sources", hive_partitioning=True)
    columns = ["path", "format", "bytes", "content_hash", "rows"]
    assert on_disk.select(columns).rows() == dataset.sources().select(columns).rows()


def test_traces_of_an_iteration_read_its_files_alone(
    tree: Tree, study: dict[str, str], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files times iterations would be read otherwise, which is the square of thousands."""
    read: list[int] = []

    def counted(parts: Sequence[ParquetPart], *rest: Any, **options: Any) -> SessionStore:
        read.append(len(parts))
        return consume_records(parts, *rest, **options)

    monkeypatch.setattr("citus_analysis.dataset.records.consume_records", counted)
    ingest(tree({**study, "V3/unnumbered.log": log(5)}), out)
    # Two logs of each iteration, and one that may hold records of either.
    assert read == [3, 3]
