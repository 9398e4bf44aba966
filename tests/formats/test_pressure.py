"""Dumps of /proc/pressure that were taken by hand on Linux 6.18, and what no recording holds."""

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, Hints, detect_format, pressure
from citus_analysis.formats.deliveries.content import Block
from tests.formats.sampling import DATA, read, read_bytes

FORMAT = pressure.FORMAT
RECORDED = sorted((DATA / "pressure").iterdir())
ALL = [(name, scope) for name in ("cpu", "io", "memory") for scope in ("some", "full")]


def value(scope: str, total: int) -> str:
    return f"{scope} avg10=1.50 avg60=0.25 avg300=0.00 total={total}\n"


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recordings_are_read_whole(path: Path) -> None:
    assert detect_format(Content(path)) is FORMAT
    found = read(FORMAT, path)
    assert found.rejects.is_empty()
    rows = found["pressure_samples"]
    every = [("io", "some"), ("io", "full")] if path.stem == "io" else ALL
    samples = {"cat": 1, "io": 2, "tail-date": 2}.get(path.stem, 3)
    assert rows.select("pressure", "scope").rows() == every * samples
    assert rows["sample"].to_list() == [number for number in range(samples) for _ in every]
    assert rows["sample_time"].null_count() == (rows.height if path.stem == "cat" else 0)


def test_shares_are_those_of_the_time_between_samples(tmp_path: Path) -> None:
    text = (
        f"2026-03-01 12:00:00+01\n{value('some', 10)}{value('full', 0)}2026-03-01T11:00:02Z\n{value('some', 500_010)}"
    )
    path = tmp_path / "memory.txt"
    path.write_text(text)
    rows = read(FORMAT, path)["pressure_samples"]
    assert rows.select("sample", "pressure", "scope", "stalled_percent").rows() == [
        (0, "memory", "some", None),
        (0, "memory", "full", None),
        (1, "memory", "some", 25.0),
    ]
    assert rows["sample_time"][0] == datetime(2026, 3, 1, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "zone", "expected"),
    [
        ("Mon Nov 23 04:26:37 PM UTC 2026", {}, 16),
        ("Mon 23 Nov 17:26:37 CET 2026", {}, 16),
        ("Thu  5 Nov 16:26:37 +02 2026", {}, 14),
        ("Mon 23 Nov 2026 12:26:37 AM GMT", {}, 0),
        ("== Mon Nov 23 11:26:37 AM EST 2026 ==", {"timezone": "America/New_York"}, 16),
    ],
)
def test_times_of_date_are_read_in_english(line: str, zone: dict[str, str], expected: int, tmp_path: Path) -> None:
    rows = read_bytes(FORMAT, tmp_path, f"{line}\n{value('some', 1)}".encode(), **zone)["pressure_samples"]
    (time,) = rows["sample_time"]
    assert (time.hour, time.minute, time.second) == (expected, 26, 37)


def test_zones_with_several_meanings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="America/New_York, Australia/Sydney"):
        read_bytes(FORMAT, tmp_path, f"Mon Nov 23 11:26:37 AM EST 2026\n{value('some', 1)}".encode())


def test_the_second_full_in_a_row_is_that_of_interrupts(tmp_path: Path) -> None:
    # Linux 6.1 and later with CONFIG_IRQ_TIME_ACCOUNTING; the first kernels with pressure have no `full` of the CPU.
    once = "".join(value(scope, 1) for scope in ("some", "some", "full", "full", "some", "full"))
    rows = read_bytes(FORMAT, tmp_path, (once * 2).encode())["pressure_samples"]
    one = [("cpu", "some"), ("io", "some"), ("io", "full"), ("irq", "full"), ("memory", "some"), ("memory", "full")]
    assert rows.select("pressure", "scope").rows() == one * 2
    assert rows["sample"].to_list() == [0] * 6 + [1] * 6


@pytest.mark.sharded(3)
@pytest.mark.parametrize(
    "name", ["cat-date", "cat-date-us", "grep-stamped", "named-epoch", "grep-epoch", "tail-date", "irq"]
)
def test_blocks_may_end_behind_any_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = DATA / "pressure" / f"{name}.out"
    if name == "irq":
        path = tmp_path / "cut.out"
        path.write_text("".join(value(scope, 1) for scope in ("some", "full", "some", "full", "full", "some") * 2))
    whole = read(FORMAT, path)["pressure_samples"]
    lines, blocks, offset = path.read_bytes().splitlines(keepends=True), [], 0
    for line in lines:
        blocks.append(Block(offset, line, len(line)))
        offset += len(line)
    monkeypatch.setattr(pressure, "split_into_blocks", lambda *_: iter(blocks))
    pieces = list(FORMAT.parse(Content(path), Hints(path.name)))
    assert_frame_equal(pl.concat(piece.frame("pressure_samples") for piece in pieces), whole)


def test_other_lines_are_rejected_and_other_files_not_claimed(tmp_path: Path) -> None:
    found = read_bytes(FORMAT, tmp_path, f"{value('some', 1)}hello\n{value('full', 1)}some avg10=1.".encode())
    assert found.rejects["reason"].to_list() == [
        "neither pressure as the kernel writes it nor a time",
        "the file ends inside this line",
    ]
    assert FORMAT.detect("x", f"sampled 2026-03-01 12:00:00\n/proc/pressure/cpu:{value('some', 1)}".encode()) == 0
    assert FORMAT.detect("x", f"loadavg 1 2 3\n{value('some', 1)}".encode()) == 0
