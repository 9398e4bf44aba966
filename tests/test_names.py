"""A name becomes exactly one part of a path, which every reader of hive partitions turns back into the name."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.texts.names import MOST_NAME_BYTES, find_file_name_problem, partition_folder

ESCAPES = ["..", ".", "", "a/b", "../../../escape", "/etc", "a\\b", "a\0b", "line\nend", "\x1b[31m", "\u2028"]


@pytest.mark.parametrize("name", ESCAPES)
def test_names_that_leave_the_folder_or_cannot_be_shown_are_no_file_names(name: str) -> None:
    assert find_file_name_problem(name) is not None


@pytest.mark.parametrize("name", ["w2-t16", "größe", "名" * 36, "a b", "x" * MOST_NAME_BYTES])
def test_other_names_are(name: str) -> None:
    assert find_file_name_problem(name) is None


def test_length_counts_in_bytes() -> None:
    assert find_file_name_problem("名" * 85) is None
    assert find_file_name_problem("名" * 86) == "is 258 bytes long; names of files have at most 255"


@given(name=st.text(max_size=25))
def test_a_partition_is_one_part_of_a_path_and_reads_back(name: str) -> None:
    folder = partition_folder("resource", name)
    assert find_file_name_problem(folder) is None
    assert Path("table", folder, "x").parts == ("table", folder, "x")
    assert unquote(folder.removeprefix("resource=")) == name
    assert not set("*?[]{}") & set(folder)


@pytest.mark.parametrize(("name", "problem"), [("x" * 247, "too long"), ("名" * 90, "too long"), ("\udcff", "text")])
def test_a_partition_that_cannot_be_a_folder(name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        partition_folder("resource", name)


def test_a_partition_that_just_fits_can_be_made(tmp_path: Path) -> None:
    (tmp_path / partition_folder("resource", "名" * 36)).mkdir()
    (tmp_path / partition_folder("resource", "x" * 246)).mkdir()
    assert len(list(tmp_path.iterdir())) == 2
