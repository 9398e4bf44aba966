"""What no sampler prints: lines without end, other encodings, compressed and empty files."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from citus_analysis.formats import Content, Format, Hints, iostat, perf_report, perf_script, perf_stat, vmstat
from citus_analysis.formats.deliveries.content import Block
from citus_analysis.formats.parsing import lines as _lines
from tests.formats.sampling import DATA, PERF, read, read_bytes

RECORDED: tuple[tuple[Format, Path], ...] = (
    (iostat.FORMAT, DATA / "iostat-xt-us.out"),
    (vmstat.FORMAT, DATA / "vmstat-t-utc.out"),
    (perf_report.FORMAT, PERF / "report-nochildren-g.txt"),
    (perf_script.FORMAT, PERF / "script-nog.txt"),
    (perf_stat.FORMAT, PERF / "stat-interval.txt"),
)
cases = pytest.mark.parametrize(("format_", "path"), RECORDED, ids=[format_.name for format_, _ in RECORDED])


@cases
def test_line_without_end_in_the_middle(format_: Format, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = path.read_bytes()
    middle = data.index(b"\n", len(data) // 2) + 1
    length = 2**30

    def blocks(content: Content) -> Iterator[Block]:
        yield Block(0, data[:middle], middle)
        yield Block(middle, b"x" * 4096, length, oversized=True)
        yield Block(middle + length, data[middle:], len(data) - middle)

    monkeypatch.setattr(Content, "blocks", blocks)
    pieces = list(format_.parse(Content(path), Hints()))
    accounted = sum(piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes for piece in pieces)
    assert accounted == len(data) + length
    long = [
        row for piece in pieces for row in piece.frame("rejects").iter_rows(named=True) if row["byte_length"] == length
    ]
    assert [(row["byte_offset"], row["reason"]) for row in long] == [(middle, "line too long")]
    assert any(len(batch) for piece in pieces for batch in piece.tables.values())


@cases
def test_compressed_files_are_the_same(format_: Format, path: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    plain, unpacked = read(format_, path), read(format_, packed)
    assert all(unpacked[name].equals(plain[name]) for name in format_.tables)


@cases
def test_other_encodings_are_rejected_in_parts_at_most(format_: Format, path: Path, tmp_path: Path) -> None:
    latin = path.read_bytes().replace(b"\n", b"\n\xe9t\xe9\n", 1)
    assert read_bytes(format_, tmp_path, latin).rejects.height <= 1
    read_bytes(format_, tmp_path, path.read_text().encode("utf-16"))


@cases
def test_windows_line_ends_change_nothing(format_: Format, path: Path, tmp_path: Path) -> None:
    plain, windows = read(format_, path), read_bytes(format_, tmp_path, path.read_bytes().replace(b"\n", b"\r\n"))
    assert windows.rejects.is_empty()
    assert all(windows.rows(name).equals(plain.rows(name)) for name in format_.tables)


@cases
def test_empty_file_has_no_rows(format_: Format, path: Path, tmp_path: Path) -> None:
    assert format_.detect(path.name, b"") == 0.0
    assert all(frame.is_empty() for frame in read_bytes(format_, tmp_path, b"").tables.values())


def test_a_report_without_end_does_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    first = (DATA / "iostat-xt-us.out").read_bytes().split(b"\n\n\n")[0] + b"\n"
    row = first.splitlines(keepends=True)[-1]

    def blocks(content: Content) -> Iterator[Block]:
        offset = 0
        for data in (first, *[row * 10] * 50):
            yield Block(offset, data, len(data))
            offset += len(data)

    monkeypatch.setattr(Content, "blocks", blocks)
    monkeypatch.setattr(_lines, "BLOCK_BYTES", 5 * len(row))
    pieces = list(iostat.FORMAT.parse(Content(DATA / "iostat-xt-us.out"), Hints()))
    sizes = [piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes for piece in pieces]
    assert sum(sizes) == len(first) + 500 * len(row)
    assert max(sizes) < 30 * len(row)
