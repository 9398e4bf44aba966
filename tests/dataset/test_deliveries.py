"""Files as people have them, through a whole ingest: rows, places, accounts, and what is said about them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.errors import InputError
from tests.conftest import Tree
from tests.formats.deliveries import packing
from tests.formats.deliveries.wrapping import DELIVERIES, OF_HOSTS, plain_texts

SERVER, PGBENCH = plain_texts()["server.log"], plain_texts()["pgbench.out"]
#: Columns that say where a row is from.
PLACES = ("source_id", "resource", "run_id", "iteration", "node", "role", "part", "byte_offset", "byte_length")
#: Those that lead to other records.
LINKS = ("record_byte_offset",)


def read(tree: Tree, files: Mapping[str, bytes], out: Path, **options: object) -> Dataset:
    """A dataset of some files."""
    ingest(tree(files), out, **options)  # type: ignore[arg-type] # those of one test
    return open_dataset(out)


def rows(dataset: Dataset, path: str, table: str = "log_events") -> pl.DataFrame:
    """The rows of one source, in order, without what says where they are from."""
    (source,) = dataset.sources().filter(pl.col("path") == path)["source_id"]
    own = dataset.table(table).filter(pl.col("source_id") == source)
    ordered = own.sort("byte_offset", maintain_order=True) if "byte_offset" in own.columns else own
    return ordered.drop(*PLACES, *LINKS, strict=False)


WRAPPED = (
    *("compose", "docker_json", "cri in parts", "cloud_sql_array", "cloud_sql_lines, shuffled", "utf-16 LE with BOM"),
    *("Fabric under ts", "gitlab_ci in parts", "journal json", "azure_diagnostics", "gh run view"),
)


@pytest.mark.sharded(4)
@pytest.mark.parametrize("name", WRAPPED)
def test_the_rows_of_a_delivered_log_are_those_of_the_log(tree: Tree, tmp_path: Path, name: str) -> None:
    files = {"other/delivered.log": DELIVERIES[name](SERVER)}
    # Apart: of a log and its delivered copy in one dataset, one counts.
    plain = read(tree, {"plain/server.log": SERVER}, tmp_path / "plain")
    (tmp_path / "src" / "plain" / "server.log").unlink()
    dataset = read(tree, files, tmp_path / "out")
    sources = dataset.sources().filter(pl.col("path") == "other/delivered.log")
    delivered = sources.row(by_predicate=pl.col("path") == "other/delivered.log", named=True)
    assert delivered["delivery"]
    assert delivered["content_bytes"] == len(files["other/delivered.log"])
    assert delivered["parsed_bytes"] + delivered["noise_bytes"] == delivered["content_bytes"]
    assert_frame_equal(rows(dataset, "other/delivered.log"), rows(plain, plain.sources()["path"][0]))
    for path in sources["path"]:
        (source,) = sources.filter(pl.col("path") == path)["source_id"]
        events = dataset.table("log_events").filter(pl.col("source_id") == source)
        assert all(text in SERVER.decode() for text in dataset.log_text(events))


def test_the_series_of_a_delivered_load_generator_is_read(tree: Tree, tmp_path: Path) -> None:
    plain = rows(read(tree, {"pgbench.out": PGBENCH}, tmp_path / "plain"), "pgbench.out", "client_series")
    files = {"pgbench.out": DELIVERIES["docker_json"](PGBENCH)}
    delivered = rows(read(tree, files, tmp_path / "out"), "pgbench.out", "client_series")
    assert delivered.height > 0
    assert_frame_equal(delivered, plain)


def test_offsets_lead_to_the_lines_of_the_file(tree: Tree, tmp_path: Path) -> None:
    data = DELIVERIES["compose -t"](SERVER)
    dataset = read(tree, {"compose.log": data}, tmp_path / "out")
    events = dataset.table("log_events").filter(pl.col("kind") == "duration").sort("byte_offset")
    assert events.height > 3
    for row in events.iter_rows(named=True):
        record = data[row["byte_offset"] :][: row["byte_length"]]
        assert record.startswith(b"db-1")
        assert b"duration: " in record.split(b"\n", 1)[0]


def test_containers_of_one_file_are_sources(tree: Tree, tmp_path: Path) -> None:
    texts = {"db-1": SERVER, "bench-1": PGBENCH, "web-1": b"GET / 200\nGET /a 404\n"}
    data = OF_HOSTS["compose"](texts)
    dataset = read(tree, {"all.log": data}, tmp_path / "out")
    sources = dataset.sources().sort("path")
    assert sources["path"].to_list() == ["all.log#bench-1", "all.log#db-1", "all.log#web-1"]
    assert sources["format"].to_list() == ["pgbench", "pglog", None]
    assert sources["node"].to_list()[1] == "db-1"
    assert sources["bytes"].sum() == len(data)
    assert ingest(tree({}), tmp_path / "out").read == 0


def test_each_output_of_a_sweep_is_a_run(tree: Tree, tmp_path: Path) -> None:
    clients = (1, 4, 16)
    reports = [re.sub(rb"number of clients: [0-9]+", b"number of clients: %d" % count, PGBENCH) for count in clients]
    named = zip(clients, reports, strict=True)
    sweep = b"".join(b"=== clients %d\n" % count + report + b"\nreal\t1m0.1s\n" for count, report in named)
    dataset = read(tree, {"sweep.log": sweep}, tmp_path / "out")
    assert dataset.runs().sort("threads")["threads"].to_list() == list(clients)
    assert set(dataset.runs()["status"]) == {"ok"}
    sources = dataset.sources().sort("path")
    assert sources["path"].to_list() == ["sweep.log#1", "sweep.log#2", "sweep.log#3"]
    assert sources["rejected"].sum() == 0
    assert sources["bytes"].sum() == len(sweep)


def test_stamps_place_runs_in_time(tree: Tree, tmp_path: Path) -> None:
    data = DELIVERIES["kubectl --timestamps"](PGBENCH)
    (run,) = read(tree, {"run.log": data}, tmp_path / "out").runs().iter_rows(named=True)
    assert run["end_time"].isoformat().startswith("2026-11-25T16:53:")
    assert (run["end_time"] - run["start_time"]).total_seconds() == pytest.approx(run["runtime_ms"] / 1000, abs=0.001)


def test_the_time_of_an_export_stands_for_one_that_the_log_lacks(tree: Tree, tmp_path: Path) -> None:
    payload = "[8]: [1-1] db=a,user=b LOG:  duration: 1.000 ms  statement: SELECT 1"
    entries = [{"textPayload": payload, "timestamp": f"2020-05-02T13:00:2{n}.382318Z"} for n in range(3)]
    data = b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)
    events = read(tree, {"cloud.json": data}, tmp_path / "out").table("log_events").sort("byte_offset")
    assert [time.isoformat() for time in events["log_time"]] == [
        f"2020-05-02T13:00:2{n}.382318+00:00" for n in range(3)
    ]
    assert set(events["pid"]) == {8}
    assert set(events["duration_us"]) == {1000.0}


ARCHIVES = {
    "results.tar": packing.tar,
    "results.tar.gz": lambda members: packing.tar(members, ".gz"),
    "results.tar.xz": lambda members: packing.tar(members, ".xz"),
    "results.tar.zst": lambda members: packing.tar(members, ".zst"),
    "results.tar.lz4": lambda members: packing.tar(members, ".lz4"),
    "results.tbz2": lambda members: packing.tar(members, ".bz2"),
    "results.zip": packing.zipped,
    "packed.tgz": packing.tar_of_compressed,
}


@pytest.mark.sharded(4)
@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_a_folder(tree: Tree, tmp_path: Path, name: str) -> None:
    members = {"run1/server.log": SERVER, "run1/pgbench.out": PGBENCH}
    root = tree({name: ARCHIVES[name](members), **{f"folder/{member}": data for member, data in members.items()}})
    packed, unpacked = tmp_path / "packed", tmp_path / "unpacked"
    assert ingest(root / name, packed).exit_code == 0
    assert ingest(root / "folder", unpacked).exit_code == 0
    found = open_dataset(packed).sources().sort("path")
    ending = ".gz" if name == "packed.tgz" else ""
    assert found["path"].to_list() == [f"{name}/run1/pgbench.out{ending}", f"{name}/run1/server.log{ending}"]
    for table in ("log_events", "clients", "client_series"):
        own, same = open_dataset(packed).table(table), open_dataset(unpacked).table(table)
        assert_frame_equal(own.drop("source_id", "resource", "run_id"), same.drop("source_id", "resource", "run_id"))
    events = open_dataset(packed).table("log_events")
    assert all(text in SERVER.decode() for text in open_dataset(packed).log_text(events))
    assert ingest(root / name, packed).read == 0


@pytest.mark.parametrize("nested", [packing.zip_in_tar, lambda members: packing.tar_in_tar(members, 2)])
def test_an_archive_in_an_archive_is_unpacked(
    tree: Tree, tmp_path: Path, nested: Callable[[Mapping[str, bytes]], bytes]
) -> None:
    data = nested({"server.log": SERVER})
    sources = read(tree, {"all.tar": data}, tmp_path / "out").sources()
    assert sources["format"].to_list() == ["pglog"]
    assert sources["path"][0].endswith("/server.log")


def test_members_that_are_not_unpacked_are_named(tree: Tree, tmp_path: Path) -> None:
    root = tree(
        {
            "links.tar": packing.tar_with_special_members(SERVER),
            "names.tar": packing.tar(packing.hostile_names(SERVER)),
            "secret.zip": packing.encrypted_zip(SERVER),
            "cut.tar.gz": packing.truncated(packing.tar({"a.log": SERVER * 40, "b.log": SERVER * 40}, ".gz")),
        }
    )
    summary = ingest(root, tmp_path / "out")
    assert summary.exit_code == 1
    said = "\n".join(summary.messages)
    assert "links.tar/run1/link.log: is a link, and is not unpacked" in said
    assert "links.tar/run1/zero.log: is no regular file, and is not unpacked" in said
    assert "names.tar/../up.log: has a name that leads out of the archive" in said
    assert "secret.zip/server.log: is encrypted" in said
    assert "cut.tar.gz: is damaged" in said
    assert not list(root.parent.glob("up*.log"))
    paths = open_dataset(tmp_path / "out").sources()["path"].to_list()
    assert "links.tar/run1/server.log" in paths


def test_a_bomb_is_refused(tree: Tree, tmp_path: Path) -> None:
    root = tree({"bomb.tar.gz": packing.bomb(600 * 2**20), "server.log": SERVER})
    summary = ingest(root, tmp_path / "out")
    assert any("unpacks to more than 250 times its size" in message for message in summary.messages)


def test_what_is_said_of_a_file_that_is_not_read(tree: Tree, tmp_path: Path) -> None:
    text = b"[db1] out: pgbench (15.2)\n[db1] out: starting vacuum...end.\nsomething else\n" + b"prose\n" * 20
    with pytest.raises(InputError, match=r"looks like pgbench after '\[db1\] out: ' \(line 1: .*\), but line 3"):
        ingest(tree({"notes.txt": text}), tmp_path / "out")


def test_rows_do_not_depend_on_the_number_of_threads(tree: Tree, tmp_path: Path) -> None:
    files = {
        f"{number}/{name.replace('/', '-')}.log": wrap(SERVER if number % 2 else PGBENCH)
        for number, (name, wrap) in enumerate(DELIVERIES.items())
        if number % 5 == 0
    }
    root = tree(files)
    for jobs in (1, 3):
        ingest(root, tmp_path / str(jobs), jobs=jobs)
    one, three = open_dataset(tmp_path / "1"), open_dataset(tmp_path / "3")
    assert one.content_hash == three.content_hash
