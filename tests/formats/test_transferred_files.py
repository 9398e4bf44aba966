"""Files that an editor, another system or `cat` has passed through: the same rows, whatever was added on the way."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from citus_analysis.formats import Content, Hints, Parsed, detect_format, format_named

#: Formats of this package but for those of server logs, which have tests of their own.
NAMES = sorted(
    {"iostat", "iostat_json", "vmstat", "ycsb", "go_ycsb", "pgbench", "pgbench_log", "perf_report", "perf_script"}
    | {"perf_stat", "pg_dist_node", "pg_dist_shard", "run_outcomes", "command_output"}
)
PASSED: dict[str, Callable[[bytes], bytes]] = {
    "byte order mark": lambda data: codecs.BOM_UTF8 + data,
    "line ends of Windows": lambda data: data.replace(b"\n", b"\r\n"),
}


def pieces_of(path: Path, name: str, data: bytes) -> Sequence[Parsed]:
    path.write_bytes(data)
    pieces = list(format_named(name).parse(Content(path), Hints(path.name)))
    assert sum(p.parsed_bytes + p.noise_bytes + p.rejected_bytes for p in pieces) == len(data)
    return pieces


def rows_of(pieces: Sequence[Parsed]) -> list[tuple[object, ...]]:
    """All rows of all tables but for what tells where they stood."""
    return [
        (table, *row)
        for piece in pieces
        for table in sorted(piece.tables)
        for row in piece.frame(table).select(c for c in piece.frame(table).columns if "byte" not in c).rows()
    ]


@pytest.mark.sharded(4)
@pytest.mark.parametrize("passed", PASSED)
@pytest.mark.parametrize("name", NAMES)
def test_the_rows_are_the_same(
    tmp_path: Path, name: str, passed: str, seed_texts: Mapping[str, Sequence[bytes]]
) -> None:
    path = tmp_path / "a.log"
    # A beginning that was cut off before anything telling is no file of the format.
    some = [data for data in seed_texts[name] if format_named(name).detect("a.log", data) > 0]
    for data in {some[0], some[len(some) // 2], some[-1]}:
        expected = pieces_of(path, name, data)
        known = detect_format(Content(path))
        changed = pieces_of(path, name, PASSED[passed](data))
        assert str(rows_of(changed)) == str(rows_of(expected))
        assert [p.frame("rejects").height for p in changed] == [p.frame("rejects").height for p in expected]
        assert detect_format(Content(path)) is known


@pytest.mark.parametrize("name", ["iostat", "vmstat", "perf_report", "perf_stat", "perf_script", "iostat_json"])
def test_an_empty_file_has_no_rows(tmp_path: Path, name: str) -> None:
    assert rows_of(pieces_of(tmp_path / "a.log", name, b"")) == []


@pytest.mark.parametrize("name", ["ycsb", "go_ycsb", "pgbench"])
def test_a_second_run_behind_the_first_is_rejected(
    tmp_path: Path, name: str, seed_texts: Mapping[str, Sequence[bytes]]
) -> None:
    [data, *_] = [
        data
        for data in seed_texts[name]
        if b"Command line: " in data or b"transaction type: " in data or b"proper" in data
    ]
    expected = pieces_of(tmp_path / "a.log", name, data)
    twice = pieces_of(tmp_path / "a.log", name, data + data)
    assert str(rows_of(twice)) == str(rows_of(expected))
    assert sum(p.rejected_bytes for p in twice) > 0.5 * len(data)
