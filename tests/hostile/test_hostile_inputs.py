"""Inputs made to break what reads them: each ends in 10 seconds of CPU time and 512 MiB, with one clear answer."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import citus_analysis as ca
from citus_analysis.cli import main
from tests.recordings import ROOT

CPU_LIMIT_S = 10
#: Of the process, of which 200 MiB are the libraries.
MEMORY_LIMIT_BYTES = 512 * 2**20
LOG = b"2026-11-20 21:26:34.324 UTC [7] [3/1] : [1-1] [app=psql] LOG:  checkpoint starting: time\n"
#: Runs a command from a small process: the memory of the process that starts it counts as the command's own.
MEASURE = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
sys.stdout.buffer.write(done.stdout + b"\\n")
measured = {"code": done.returncode, "cpu_s": used.ru_utime + used.ru_stime, "memory_bytes": used.ru_maxrss * 1024}
print(json.dumps(measured))
"""
RECORDING = ROOT / "data" / "recorded-faults" / "w2-lock-load"


def run_within_limits(*arguments: object) -> tuple[int, str]:
    """Exit code and output of a command that must stay within the limits."""
    command = [sys.executable, "-m", "citus_analysis", *map(str, arguments)]
    done = subprocess.run([sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, check=False)
    *lines, measured = done.stdout.splitlines(keepends=True)
    output, used = "".join(lines), json.loads(measured)
    assert used["cpu_s"] < CPU_LIMIT_S, output
    assert used["memory_bytes"] < MEMORY_LIMIT_BYTES, output
    return used["code"], output


def bomb_of_aliases(folder: Path) -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 20))
    (folder / "settings.yml").write_text(f"password: x\nl0: &l0 [a]\n{levels}", encoding="utf-8")


def deep_json(folder: Path) -> None:
    text = '{"password": ' * 5_000 + "1" + "}" * 5_000
    (folder / "settings.json").write_text(text, encoding="utf-8")


def many_empty_lists(folder: Path) -> None:
    (folder / "settings.json").write_text('{"password": [' + "[]," * 12_000_000 + "1]}", encoding="utf-8")


def nested_zips(folder: Path) -> None:
    data = LOG
    for depth in range(600):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            # A time whose two bytes leave the line of the log by itself.
            member = zipfile.ZipInfo("inner.zip" if depth else "a.log", (2026, 11, 28, 6, 6, 31))
            archive.writestr(member, data)
        data = out.getvalue()
    (folder / "results.zip").write_bytes(data)


def nested_tars(folder: Path) -> None:
    name, data = "PGLOG-0-1.log", LOG
    for _ in range(3):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        name, data = "inner.tar", out.getvalue()
    (folder / "results.tar").write_bytes(data)


def nested_folders(folder: Path) -> None:
    place = os.open(folder, os.O_RDONLY)
    for _ in range(1_900):
        os.mkdir("a", dir_fd=place)
        inner = os.open("a", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)


def nested_members(folder: Path) -> None:
    with tarfile.open(folder / "results.tar", "w") as archive:
        for name in ("a/" * 1_900 + "x.log", "n" * 256 + ".log", "pglogs/PGLOG-0-1.log"):
            member = tarfile.TarInfo(name)
            member.size = len(LOG)
            archive.addfile(member, io.BytesIO(LOG))


def sparse_log(folder: Path) -> None:
    with (folder / "PGLOG-0-1.log").open("wb") as file:
        file.truncate(4 * 2**30)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + LOG)


#: Input -> a word of the answer of `inspect`; None where it says no more than that the file is not recognised.
INSPECTED: dict[Callable[[Path], None], str] = {
    nested_zips: "an archive in an archive in an archive",
    nested_tars: "an archive in an archive in an archive",
    nested_folders: "is nested more than 100 folders deep",
    nested_members: "File name too long",
    sparse_log: "not recognised",
    deep_json: "not recognised",
}
#: Input -> why `pack` leaves it out.
LEFT_OUT = {
    bomb_of_aliases: "cannot be checked: expands to more than 100,000 values",
    deep_json: "cannot be checked: nested more than 100 levels deep",
    many_empty_lists: "cannot be checked: more than 4,000,000 values",
    nested_zips: "is an archive in an archive in an archive",
    nested_members: "is nested more than 100 folders deep, and is not unpacked",
}


@pytest.mark.parametrize(("make", "said"), INSPECTED.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_it_is_inspected(make: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    make(folder)
    code, output = run_within_limits("inspect", folder)
    assert code in {0, 1, 3}, output
    assert said in output
    # Deeper than what the clean-up of temporary folders can remove.
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.mark.sharded(2)
@pytest.mark.parametrize(("make", "said"), LEFT_OUT.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_it_is_left_out_of_a_pack(make: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "PGLOG-0-1.log").write_bytes(LOG)
    make(folder)
    code, output = run_within_limits("pack", folder, "--out", tmp_path / "object", "--reports", "none")
    assert code in {0, 1}, output
    assert said in output
    assert (tmp_path / "object" / "raw" / "raw" / "PGLOG-0-1.log").read_bytes() == LOG


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack of files with hostile names, which is honest."""
    raw = tmp_path_factory.mktemp("hostile") / "raw"
    raw.mkdir()
    for name in ("a\nb.log", "a\u0085b.log", "a\u2028b.log", "a\\b.log", "a\rb.log"):
        (raw / name).write_bytes(LOG.replace(b"[7]", f"[{len(name) + ord(name[1])}]".encode()))
    return ca.pack(raw, raw.parent / "object", reports="none").folder


def test_hostile_names_are_verified(packed: Path) -> None:
    assert ca.verify(packed).problems == ()
    done = subprocess.run(["sha256sum", "--quiet", "-c", "manifest-sha256.txt"], cwd=packed, check=False)
    assert done.returncode == 0


def link_to_folder(folder: Path) -> str:
    (folder / "raw" / "raw" / "more").symlink_to("/usr")
    return "raw/raw/more: is a link, which was not packed"


def dangling_link(folder: Path) -> str:
    (folder / "raw" / "raw" / "x.log").symlink_to("/no/such/file")
    return "raw/raw/x.log: is a link, which was not packed"


def named_pipe(folder: Path) -> str:
    os.mkfifo(folder / "raw" / "x.log")
    return "raw/x.log: is no regular file, which was not packed"


def unstated_table(folder: Path) -> str:
    checks = json.loads((folder / "checks.json").read_text(encoding="utf-8"))
    del checks["tables"]["log_events"]
    (folder / "checks.json").write_text(json.dumps(checks), encoding="utf-8")
    return "table log_events: checks.json does not state its rows"


@pytest.mark.parametrize("tamper", [link_to_folder, dangling_link, named_pipe, unstated_table])
def test_a_tampered_pack_is_refused(
    tamper: Callable[[Path], str], packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "object"
    subprocess.run(["cp", "-a", packed, folder], check=True)
    said = tamper(folder)
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(folder)])
    assert ended.value.code in {1, 3}
    assert said in "".join(capsys.readouterr())


def test_checks_of_a_pack_that_are_nested_without_end_are_refused(packed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "object"
    subprocess.run(["cp", "-a", packed, folder], check=True)
    (folder / "checks.json").write_text("[" * 200_000, encoding="utf-8")
    code, output = run_within_limits("verify", folder)
    assert code == 3
    assert "checks.json: is damaged" in output
