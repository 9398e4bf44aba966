"""What an ingest says of files that nobody knows, and of what the files lack."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from citus_analysis.cli import commands
from citus_analysis.dataset import ingest, open_dataset
from tests.conftest import Tree
from tests.dataset.tiny_formats import client
from tests.recordings import RECORDED as _ALL

RECORDED = _ALL / "w2-t16-insert"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.mark.usefixtures("tiny_formats")
def test_files_that_are_not_recognised_are_named_with_the_reason(tree: Tree, out: Path) -> None:
    strange = {f"V3/notes{number}.txt": "hello\n" for number in range(5)}
    root = tree(
        {
            **strange,
            "V3/empty.log": "",
            "V3/image.bin": b"\x89PNG\0\0",
            "V3/image.dat": b"\x01\0\0",
            "V3/a.log": client(1.0),
        }
    )
    summary = ingest(root, out)
    assert summary.unrecognised == 8
    assert dict(summary.unrecognised_files) == {
        **dict.fromkeys(strange, "no format knows such text; it begins with 'hello'"),
        "V3/empty.log": "it is empty",
        "V3/image.bin": "it is a picture: give text",
        "V3/image.dat": "it is binary",
    }
    assert summary.remarks[0] == "V3/empty.log: not recognised: it is empty"
    assert summary.remarks[-1] == "... and 3 more that were not recognised (all: --json)"
    done = CliRunner().invoke(commands, ["ingest", str(root), "--out", str(out), "--json"], catch_exceptions=False)
    assert {"path": "V3/image.dat", "reason": "it is binary"} in json.loads(done.stdout)["unrecognised_files"]
    assert len(json.loads(done.stdout)["unrecognised_files"]) == 8
    assert "V3/image.dat: not recognised: it is binary\n" in done.stderr


@pytest.mark.usefixtures("tiny_formats")
def test_files_that_state_facts_are_none_of_them(tree: Tree, out: Path) -> None:
    root = tree(
        {
            "first.txt": client(10.0),
            "runs.csv": "file,phase,workload,threads,iteration,resource\nfirst.txt,run,C,16,1,lab\n",
            "identity.yml": "files:\n  - {pattern: 'first.txt', meta: {system: citus}}\n",
            "other/runs.csv": "a,b\n1,2\n",
        }
    )
    summary = ingest(root, out)
    assert summary.unrecognised_files == (("other/runs.csv", "no format knows such text; it begins with 'a,b'"),)
    assert "1 not recognised" in str(summary)


@pytest.mark.usefixtures("tiny_formats")
def test_facts_stated_above_what_was_given_are_said_not_to_be_used(tree: Tree, out: Path) -> None:
    root = tree(
        {
            "lab/first.txt": client(10.0),
            "identity.yml": "files:\n  - {pattern: '{resource}/first.txt', meta: {system: citus, phase: run}}\n",
            "runs.csv": "file,threads\nother/first.txt,3\n",
        }
    )
    (hint,) = ingest(root / "lab", out).hints
    assert hint == (
        f"{root}/identity.yml names files in {root}/lab and is not used, because it lies above it "
        f"(ingest {root}, or put the file into {root}/lab)"
    )
    assert ingest(root, out.with_name("whole")).hints == ()
    (root / "identity.yml").write_text("files: [{unlike: ours}]")
    assert ingest(root / "lab", out).hints == ()


def test_a_flat_tree_is_told_what_it_lacks_for_traces(tmp_path: Path, out: Path) -> None:
    root = tmp_path / "flat"
    root.mkdir()
    for path in RECORDED.glob("pglogs/PGLOG-*-1.log.zst"):
        shutil.copy(path, root)
    summary = ingest(root, out)
    assert summary.exit_code == 0
    (hint,) = summary.hints
    assert hint.startswith("flat: 988 remote tasks found no statement of a worker: ")
    assert "add pg_dist_node.csv" in hint
    assert hint in summary.remarks
    shutil.copy(RECORDED / "pg_dist_node.csv", root)
    summary = ingest(root, out)
    assert summary.hints == ()
    assert open_dataset(out).match_quality()["exact"].sum() == 988


def test_logs_whose_names_do_not_tell_the_node_need_it_stated(tmp_path: Path, out: Path) -> None:
    root = tmp_path / "flat"
    root.mkdir()
    settings = {"resource": "lab", "log_line_prefix": "%m [%p] [%v] : [%l-1] %q[app=%a] "}
    names = {"0": "coordinator", "1": "first", "2": "second"}
    for node, name in names.items():
        shutil.copy(RECORDED / f"pglogs/PGLOG-{node}-1.log.zst", root / f"{name}.log.zst")
    shutil.copy(RECORDED / "pg_dist_node.csv", root)
    summary = ingest(root, out, meta=settings, format="pglog")
    (hint,) = summary.hints
    assert "--meta node=N" in hint
    assert "pg_dist_node.csv" not in hint
    for node, name in names.items():
        summary = ingest(root / f"{name}.log.zst", out, meta={**settings, "node": node}, format="pglog")
    assert summary.hints == ()
    assert open_dataset(out).match_quality()["exact"].sum() == 988


_BANNER = "Linux 6.1.0 (host) \t11/28/26 \t_x86_64_\t(8 CPU)\n\n"
_WITHOUT_RESULTS = {
    "sadf.xml": ('<?xml version="1.0" encoding="UTF-8"?>\n<sysstat\nxmlns="x">', "sar's samples in XML"),
    "sadf.svg": (
        '<?xml version="1.0"?>\n<!DOCTYPE svg PUBLIC "x">\n<svg xmlns="y">\n<text x="0">Linux 6.1.0 (host)',
        "a graph of sar",
    ),
    "sadf.txt": ("host\t10\t2026-11-28 13:20:19 UTC\tall\t%usr\t2.15\n", "sar's samples for scripts"),
    "sa28": ("\x96\xd5!u\0", "a data file of sar"),
    "cifs.txt": (
        f"{_BANNER}Filesystem   rB/s   wB/s    rops/s    wops/s   fo/s   fc/s   fd/s\n",
        "the samples of cifsiostat",
    ),
    "iostat.txt": (_BANNER, "without samples"),
    "results.csv": ("threads,tps\n", "is the header of a table ('threads,tps') without any row"),
}


def test_files_without_results_say_why(tmp_path: Path, out: Path) -> None:
    for name, (text, _) in _WITHOUT_RESULTS.items():
        (tmp_path / name).write_bytes(text.encode("latin1"))
    (tmp_path / "plan.txt").write_text(" QUERY PLAN \n------------\n(0 rows)\n\n")
    (tmp_path / "vmstat.out").write_text(
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
    )
    (tmp_path / "pgbench.log").write_text("pgbench (15.4)\nstarting vacuum...end.\n")
    summary = ingest([path for path in tmp_path.iterdir() if path.is_file()], out)
    reasons = dict(summary.unrecognised_files)
    assert [name for name, (_, reason) in _WITHOUT_RESULTS.items() if reason not in reasons[name]] == []
    assert len(reasons) == len(_WITHOUT_RESULTS)
    said = "empty lines, psql's heading, rules, number of rows and `Time:`"
    assert [line for line in summary.remarks if "without any result" in line] == [
        f"plan.txt: read as explain, without any result: nothing but {said}",
        "vmstat.out: read as vmstat, without any result: nothing but title and header lines, empty lines, comments of "
        "ExaWatcher",
    ]
    status = open_dataset(out).table("runs")["status_reason"].to_list()
    assert status == ["no final summary: the client ended early"]
