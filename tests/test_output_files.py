"""A result appears when it is complete, and never takes the place of what is no regular file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from citus_analysis.core.output_files import is_replaced, open_output, put_in_place


def test_a_file_is_as_it_was_until_the_block_ends_well(tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_bytes(b"before")
    with pytest.raises(ZeroDivisionError), open_output(path) as out:  # noqa: PT012 - the block is what is tested
        out.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"before"
    with open_output(path) as out:
        out.write(b"after")
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_that_leads_nowhere_makes_the_file_it_names(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    with open_output(link) as out:
        out.write(b"x")
    assert (link.is_symlink(), (tmp_path / "target").read_bytes()) == (True, b"x")


def test_finished_files_are_put_behind_links_and_into_devices(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"before")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "null").symlink_to(os.devnull)
    for name in ("link", "null", "new"):
        finished = tmp_path / "finished"
        finished.write_bytes(b"after")
        put_in_place(finished, tmp_path / name)
        assert not finished.exists()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == (tmp_path / "new").read_bytes() == b"after"
    assert (tmp_path / "null").is_char_device()


def test_a_finished_file_goes_to_another_file_system(tmp_path: Path) -> None:
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second file system")
    target = elsewhere / f"citus-analysis-{os.getpid()}"
    try:
        (tmp_path / "link").symlink_to(target)
        (tmp_path / "finished").write_bytes(b"after")
        put_in_place(tmp_path / "finished", tmp_path / "link")
        assert target.read_bytes() == b"after"
    finally:
        target.unlink(missing_ok=True)


OWN_OUTPUT = """
import sys
from citus_analysis.core.output_files import open_output
print("before", flush=True)
with open_output("/dev/stdout") as out:
    out.write(b"written\\n")
print("after")
"""


def test_our_own_output_goes_on_where_it_was(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", OWN_OUTPUT], stdout=out, check=True)
    assert (tmp_path / "out").read_text(encoding="utf-8") == "before\nwritten\nafter\n"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert not is_replaced(tmp_path)
    with pytest.raises(IsADirectoryError), open_output(tmp_path):
        pass
