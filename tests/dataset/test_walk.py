from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from citus_analysis.dataset.walk import FoundFile, display, walk
from citus_analysis.errors import InputError
from tests.conftest import Tree


def names(files: list[FoundFile]) -> list[str]:
    return [found.relative for found in files]


def test_all_files_in_a_stable_order_but_hidden_ones(tree: Tree) -> None:
    root = tree({"b.log": "", "a/z.log": "1", "a.log/inner.log": "2", ".hidden": "", ".git/config": "", "a/.x": ""})
    assert names(walk([root]).files) == ["a.log/inner.log", "a/z.log", "b.log"]


def test_a_source_may_be_a_file(tree: Tree) -> None:
    root = tree({"a/b.log": "12"})
    (found,) = walk([root / "a" / "b.log"]).files
    assert (found.relative, found.bytes, found.named, found.root) == ("b.log", 2, True, root / "a")


def test_overlapping_sources_list_a_file_once(tree: Tree) -> None:
    root = tree({"a/b.log": "", "c.log": ""})
    assert names(walk([root, root / "a", root / "c.log", root]).files) == ["a/b.log", "c.log"]


def test_loops_of_links_end(tree: Tree) -> None:
    root = tree({"a/b.log": ""})
    (root / "a" / "up").symlink_to(root)
    (root / "self").symlink_to(root / "self")
    found = walk([root])
    assert names(found.files) == ["a/b.log"]
    assert found.problems == [("self", "cannot be read: Too many levels of symbolic links")]


def test_a_linked_file_keeps_its_own_name(tree: Tree) -> None:
    root = tree({"z.log": "", "folder/b.log": ""})
    (root / "a.log").symlink_to(root / "z.log")
    (root / "alias").symlink_to(root / "folder")
    assert names(walk([root]).files) == ["folder/b.log", "z.log"]


def test_links_out_of_the_tree_are_followed(tree: Tree, tmp_path: Path) -> None:
    root = tree({"a.log": ""})
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "b.log").write_bytes(b"")
    (root / "linked").symlink_to(tmp_path / "outside")
    assert names(walk([root]).files) == ["a.log", "linked/b.log"]


def test_special_files_and_dangling_links_are_reported(tree: Tree) -> None:
    root = tree({"a.log": ""})
    os.mkfifo(root / "pipe")
    (root / "dangling").symlink_to(root / "nowhere")
    found = walk([root])
    assert names(found.files) == ["a.log"]
    assert found.problems == [
        ("dangling", "cannot be read: No such file or directory"),
        ("pipe", "is not a regular file"),
    ]


def test_names_that_are_not_utf8(tree: Tree) -> None:
    root = tree({})
    Path(os.fsdecode(os.fsencode(root) + b"/gr\xfc\xdfe.log")).write_bytes(b"")
    assert names(walk([root]).files) == ["gr\\xfc\\xdfe.log"]


def test_datasets_are_not_sources(tree: Tree) -> None:
    root = tree({"a.log": "", "out/_manifest.jsonl": "", "out/runs/resource=a/x.parquet": ""})
    assert names(walk([root]).files) == ["a.log"]


def test_a_source_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape("cannot be read: No such file or directory (check the path")):
        walk([tmp_path / "nowhere"])


def test_a_folder_that_cannot_be_read_is_reported(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree({"a.log": "", "closed/b.log": ""})
    listed = Path.iterdir

    def iterdir(folder: Path) -> object:
        if folder.name == "closed":
            raise PermissionError(13, "Permission denied")
        return listed(folder)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    found = walk([root])
    assert names(found.files) == ["a.log"]
    assert found.problems == [("closed", "cannot be read: Permission denied")]


def test_display_is_always_encodable() -> None:
    display(Path(os.fsdecode(b"\xff\xfe"))).encode("utf-8")
