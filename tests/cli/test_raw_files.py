"""Raw files where a command needs a dataset: they are read first, into a folder that is named and used again."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from citus_analysis.cli import main as command_line
from tests.dataset.study.outputs import write_pgbench
from tests.recordings import RECORDED


def main(arguments: list[str]) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        command_line(arguments)
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "citus-analysis" / "read"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for version, clients, repeat in ((v, c, r) for v in (15, 16) for c in (4, 16) for r in (1, 2, 3)):
        write_pgbench(tmp_path / f"results/pg{version}_c{clients}_r{repeat}.log", clients, 100 * version + repeat)
    return tmp_path / "results"


def test_the_files_are_read_once(runs: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = (
        (["compare", str(runs), "--by", "set_up"], "pg16"),
        (["scale", str(runs), "--x", "threads"], "family=pg15"),
        (["runs", str(runs)], "4 configurations, 12 runs"),
        (["sql", str(runs), "SELECT count(*) AS runs FROM runs"], "12"),
    )
    for number, (command, shown) in enumerate(commands):
        main(command)
        out, errors = capsys.readouterr()
        assert shown in out
        assert ("12 read, 0 unchanged" if number == 0 else "0 read, 12 unchanged") in errors
        (folder,) = cache.iterdir()
        assert f"read into {folder}: " in errors
    (runs / "pg16_c16_r3.log").unlink()
    write_pgbench(runs / "pg16_c16_r4.log", 16, 1700)
    main(["runs", str(runs)])
    out, errors = capsys.readouterr()
    # A run whose file is gone is not among the runs of these files.
    assert "4 configurations, 12 runs" in out
    assert "12 read, 0 unchanged" in errors


def test_files_are_the_same_through_a_link(
    runs: Path, tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to(runs.parent)
    for place, said in ((runs, "12 read, 0 unchanged"), *[(tmp_path / "link" / runs.name, "0 read, 12 unchanged")] * 2):
        main(["runs", str(place)])
        out, errors = capsys.readouterr()
        assert "4 configurations, 12 runs" in out
        assert said in errors


def test_a_gate_judges_two_folders_of_raw_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, rate in (("old", 1000), ("new", 800)):
        for repeat in range(1, 6):
            write_pgbench(tmp_path / name / f"r{repeat}.log", 8, rate + repeat)
    assert main(["gate", str(tmp_path / "new"), "--baseline", str(tmp_path / "old")]) == 1
    assert "1 worse" in capsys.readouterr().out


@pytest.mark.usefixtures("kept_kernels")
def test_a_report_keeps_what_it_read_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = sorted((RECORDED / "w2-t4-insert" / "pglogs").glob("PGLOG-[12]-1.log.zst"))
    out = tmp_path / "reports"
    assert main(["report", "server", *map(str, logs), "--out", str(out), "--no-html"]) == 0
    assert f"read into {out / 'dataset'}: 2 files: 2 read" in capsys.readouterr().err
    assert (out / "server.ipynb").exists()
    assert main(["report", "server", str(logs[0]), "--out", str(out), "--no-html"]) == 2
    assert "PGLOG-2-1.log.zst is part of, which is not among the files given now" in capsys.readouterr().err
    assert main(["report", "server", str(out / "dataset"), "--out", str(out), "--no-html"]) == 0
    assert "read into" not in capsys.readouterr().err


def test_what_nobody_used_for_a_month_is_removed(runs: Path, cache: Path, tmp_path: Path) -> None:
    main(["runs", str(runs)])
    (mine,) = cache.iterdir()
    long_ago = time.time() - 31 * 86_400
    os.utime(mine, (long_ago, long_ago))
    write_pgbench(tmp_path / "others/run1.log", 4, 100)
    main(["runs", str(tmp_path / "others")])
    (left,) = cache.iterdir()
    assert left.name.startswith("others-")


def test_files_that_cannot_be_read_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("buy milk\n")
    assert main(["runs", str(tmp_path / "notes.txt")]) == 3
    assert "no format recognises it" in capsys.readouterr().err


def test_files_without_a_command_lead_to_commands(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(runs)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "   12 pgbench, such as pg15_c16_r1.log"
    assert len(lines) <= 10
    commands = [line.partition("citus-analysis ")[2] for line in lines if "citus-analysis " in line]
    assert commands == [
        f"compare {runs} --by set_up",
        f"scale {runs} --x threads",
        f"report all {runs} --out reports",
        f"ingest {runs} --out dataset",
        f"inspect {runs}",
    ]
    assert main(commands[0].split()) == 0


@pytest.mark.parametrize(
    ("threads", "repeats", "curve"), [((4, 8), 1, False), ((4, 8), 2, True), ((4, 8, 16), 1, True)]
)
def test_a_curve_is_suggested_of_enough_runs_that_are_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], threads: tuple[int, ...], repeats: int, curve: bool
) -> None:
    for count in threads:
        for repeat in range(repeats):
            write_pgbench(tmp_path / f"runs/c{count}_r{repeat + 1}.log", count, 100 * count + repeat)
    assert main([str(tmp_path / "runs")]) == 0
    assert ("scale" in capsys.readouterr().out) == curve


def test_a_stated_factor_of_numbers_leads_to_its_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for cpus in (2, 4, 8):
        for repeat in (1, 2, 3):
            write_pgbench(tmp_path / f"runs/box-{cpus}vc/try{repeat}.log", 16, 190 * cpus + repeat)
    (tmp_path / "runs/identity.yml").write_text('files:\n  - pattern: "box-{cpus}vc/try{iteration}.log"\n')
    assert main([str(tmp_path / "runs")]) == 0
    lines = capsys.readouterr().out.splitlines()
    (curve,) = [line.partition("citus-analysis ")[2] for line in lines if "scale" in line]
    assert curve.endswith("--x cpus")
    assert main(curve.split()) == 0
    assert "throughput grows from 2 to 8 cpus: faster" in capsys.readouterr().out


def test_logs_without_a_command_lead_to_their_page(capsys: pytest.CaptureFixture[str]) -> None:
    log = next((RECORDED / "w2-t4-insert" / "pglogs").glob("PGLOG-1-1.log.zst"))
    assert main([str(log)]) == 0
    assert f"1 server log: citus-analysis report server {log} --out reports" in capsys.readouterr().out


def test_what_is_suggested_from_within_a_folder_works_there(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(runs)
    assert main(["."]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "the tables: citus-analysis ingest . --out ../dataset" in lines
    assert main(["ingest", ".", "--out", "../dataset"]) == 0
