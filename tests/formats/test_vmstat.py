from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from citus_analysis.errors import FormatError, UnknownNameError
from citus_analysis.formats import Content
from citus_analysis.formats.vmstat import FORMAT
from tests.formats.sampling import CORPUS, DATA, REALWORLD, read, read_bytes
from tests.shards import count_examples

SAMPLED = sorted(p for p in DATA.glob("vmstat-*") if p.name not in {"vmstat-d.out", "vmstat-s.out"})


#: Of recordings whose abbreviation other zones use, too.
ZONES = {"vmstat-t-ist.out": "Asia/Kolkata", "vmstat-t-pst.out": "America/Los_Angeles"}


@pytest.mark.parametrize("path", SAMPLED, ids=lambda path: path.name)
def test_recordings_read_without_rejects(path: Path) -> None:
    assert FORMAT.detect("unhelpful-name", path.read_bytes()) == 0.95
    result = read(FORMAT, path, **({"timezone": ZONES[path.name]} if path.name in ZONES else {}))
    assert result.rejects.is_empty()
    assert result["vm_samples"].height == result["cpu_samples"].height > 0
    shares = result["cpu_samples"].select(pl.sum_horizontal(pl.selectors.ends_with("_percent"))).to_series()
    # Whole percents of five or six shares.
    assert shares.is_between(97, 103).all()


def test_default_columns() -> None:
    result = read(FORMAT, DATA / "vmstat-default.out")
    first = result["vm_samples"].row(1, named=True)
    line = (DATA / "vmstat-default.out").read_text().splitlines()[3].split()
    names = ["runnable", "blocked", "swapped_kb", "free_kb", "buffer_kb", "cache_kb", "swap_in_kb_s", "swap_out_kb_s"]
    names += ["blocks_in_per_s", "blocks_out_per_s", "interrupts_per_s", "context_switches_per_s"]
    assert [first[name] for name in names] == [float(word) for word in line[:12]]
    cpu = result["cpu_samples"].row(1, named=True)
    names = ["user_percent", "system_percent", "idle_percent", "iowait_percent", "steal_percent"]
    assert [cpu[name] for name in names] == [float(word) for word in line[12:17]]
    assert cpu["nice_percent"] is None
    assert cpu["sampler"] == "vmstat"


def test_first_line_averages_since_boot_unless_told_otherwise() -> None:
    assert read(FORMAT, DATA / "vmstat-default.out")["vm_samples"].filter("since_boot")["sample"].to_list() == [0]
    assert not read(FORMAT, DATA / "vmstat-y.out", first_report="interval")["cpu_samples"]["since_boot"].any()


def test_header_that_names_utc_decides_the_zone() -> None:
    for options in ({}, {"timezone": "Asia/Tokyo"}):
        times = read(FORMAT, DATA / "vmstat-t-utc.out", **options)["vm_samples"]["sample_time"]
        assert times[0] == datetime(2026, 11, 20, 21, 4, 34, tzinfo=UTC)


def test_abbreviation_with_one_meaning_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "vmstat.out"
    path.write_bytes((DATA / "vmstat-t-pst.out").read_bytes().replace(b"PST", b"PDT"))
    assert read(FORMAT, path)["vm_samples"]["sample_time"][0] == datetime(2026, 11, 21, 9, 2, 27, tzinfo=UTC)


@pytest.mark.parametrize(("name", "zone"), ZONES.items())
def test_abbreviation_with_several_meanings_needs_the_option(name: str, zone: str) -> None:
    with pytest.raises(FormatError, match="timezone="):
        read(FORMAT, DATA / name)
    times = read(FORMAT, DATA / name, timezone=zone)["vm_samples"]["sample_time"]
    assert times[0] == datetime(2026, 11, 21, 10, 2, 27, tzinfo=UTC)


def test_wide_active_and_guest_columns() -> None:
    row = read(FORMAT, DATA / "vmstat-awt.out")["vm_samples"].row(0, named=True)
    assert (row["inactive_kb"], row["active_kb"], row["buffer_kb"], row["guest_percent"]) == (643488, 762660, None, 0.0)


def test_stamps_of_a_wrapper_are_the_sample_times() -> None:
    times = read(FORMAT, DATA / "vmstat-stamped.log")["vm_samples"]["sample_time"]
    assert times.null_count() == 0
    assert times.is_sorted()


def test_repeated_headers_are_noise(tmp_path: Path) -> None:
    text = (DATA / "vmstat-default.out").read_bytes()
    result = read_bytes(FORMAT, tmp_path, text + text)
    assert result["vm_samples"]["sample"].to_list() == list(range(42))
    assert result["vm_samples"]["since_boot"].sum() == 1


def test_unit_of_memory_columns_is_an_option(tmp_path: Path) -> None:
    kilobytes = read(FORMAT, DATA / "vmstat-default.out")["vm_samples"]
    megabytes = read(FORMAT, DATA / "vmstat-default.out", vmstat_unit="M")["vm_samples"]
    assert (megabytes["free_kb"] == kilobytes["free_kb"] * 1024).all()
    assert megabytes["swap_in_kb_s"].equals(kilobytes["swap_in_kb_s"])
    with pytest.raises(UnknownNameError, match="vmstat_unit"):
        read(FORMAT, DATA / "vmstat-default.out", vmstat_unit="G")


@pytest.mark.parametrize(("name", "option"), [("vmstat-d.out", "-d"), ("vmstat-s.out", "-s")])
def test_counters_are_recognised_and_rejected(name: str, option: str) -> None:
    assert FORMAT.detect(name, (DATA / name).read_bytes()) == 0.9
    result = read(FORMAT, DATA / name)
    assert result["vm_samples"].is_empty()
    assert result.rejects["reason"].to_list() == [f"vmstat {option} prints counters since boot, not samples"]


def test_damaged_lines_are_rejected_alone(tmp_path: Path) -> None:
    lines = (DATA / "vmstat-t-utc.out").read_bytes().splitlines(keepends=True)
    lines[4] = b"vmstat: write error\n"
    lines[6] = lines[6].replace(b"0", b"x", 1)
    result = read_bytes(FORMAT, tmp_path, b"".join(lines)[:-2])
    assert result["vm_samples"].height == 17
    assert result.rejects["reason"].to_list() == [
        "the header announces 17 numbers and a time",
        "not a number",
        "the file ends inside this line",
    ]


def test_blocks_cut_anywhere_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(FORMAT, DATA / "vmstat-t-utc.out")
    blocks = Content.blocks
    monkeypatch.setattr(Content, "blocks", lambda self: blocks(self, 333))
    cut = read(FORMAT, DATA / "vmstat-t-utc.out")
    assert cut["vm_samples"].equals(whole["vm_samples"])
    assert cut["cpu_samples"].equals(whole["cpu_samples"])


@settings(max_examples=count_examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_never_breaks_the_byte_account(tmp_path: Path, data: st.DataObject) -> None:
    text = bytearray((DATA / "vmstat-awt.out").read_bytes())
    for position in data.draw(st.lists(st.integers(0, len(text) - 1), max_size=8)):
        text[position] = data.draw(st.integers(0, 255))
    read_bytes(FORMAT, tmp_path, bytes(text[: data.draw(st.integers(0, len(text)))]))


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\x00" * 500], ids=["empty", "blank", "nul"])
def test_what_is_not_vmstat_is_not_claimed(data: bytes) -> None:
    assert FORMAT.detect("vmstat-0-1.out", data) == 0.0


@pytest.mark.skipif(not CORPUS.exists(), reason="needs the whole recorded corpus")
def test_recordings_of_the_corpus() -> None:
    paths = sorted(CORPUS.glob("*/general/vmstat*"))
    assert len(paths) == 107
    for path in paths:
        result = read(FORMAT, path)
        assert result.rejects.is_empty()
        timed = path.read_text().startswith("procs") and "timestamp" in path.read_text()[:200]
        assert result["vm_samples"]["sample_time"].null_count() == (0 if timed else result["vm_samples"].height)


@pytest.mark.realworld
@pytest.mark.skipif(not REALWORLD.exists(), reason="needs recordings made by others")
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("gregs1104__pgbench-tools__regress_vmstat.log", 13),
        ("kellyjonbrazil__jc__centos-7.7_vmstat-a.out", 1),
        ("kellyjonbrazil__jc__centos-7.7_vmstat-at-5-10.out", 4),
        ("kellyjonbrazil__jc__centos-7.7_vmstat-awt.out", 1),
        ("kellyjonbrazil__jc__generic_vmstat-extra-wide.out", 1),
        ("kellyjonbrazil__jc__ubuntu-18.04_vmstat-1-long.out", 37),
    ],
)
def test_recordings_of_others(name: str, rows: int) -> None:
    result = read(FORMAT, REALWORLD / "vmstat" / name)
    assert result.rejects.is_empty()
    assert result["vm_samples"].height == rows


def test_a_file_of_exawatcher(tmp_path: Path) -> None:
    """Comments, a time of day before each line, and a tab at line ends; a second header does not end the file."""
    data = (DATA.parent / "cases" / "70-vmstat-exawatcher").glob("*")
    text = next(data).read_bytes()
    result = read_bytes(FORMAT, tmp_path, text + text)
    assert FORMAT.detect("host.dat", text) > 0.9
    assert result.rejects.is_empty()
    assert result["vm_samples"]["runnable"].to_list() == [36, 34, 48, 38] * 2
    assert result["cpu_samples"]["user_percent"].to_list() == [32, 33, 45, 43] * 2
    assert result["vm_samples"]["sample_time"].null_count() == 8


def test_guests_are_time_of_users(tmp_path: Path) -> None:
    """vmstat with a column of guests leaves them out of `us`."""
    head = "procs -----------memory---------- ---swap-- -----io---- -system-- -------cpu-------\n"
    head += " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st gu\n"
    row = " 1  0      0 812345  20480 512000    0    0     5    12  100  200 10  5 25  0  0 60\n"
    result = read_bytes(FORMAT, tmp_path, (head + row).encode())
    assert result["cpu_samples"].select("user_percent", "idle_percent", "doubtful").row(0) == (70.0, 25.0, None)
    assert result["vm_samples"]["guest_percent"].to_list() == [60.0]


HEADER = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----{} -----timestamp-----\n"
NAMES = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st{}\n"
VALUES = " 1  0      0 100000   2000  30000    0    0     1     2  300  400 10  5 85  0  0{}\n"


@settings(max_examples=count_examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), lengths=st.lists(st.integers(1, 70), min_size=1, max_size=5), timed=st.booleans())
def test_first_lines_of_appended_runs_average_since_boot(
    tmp_path: Path, data: st.DataObject, lengths: list[int], timed: bool
) -> None:
    """Without times, a run of 21, 42 ... lines cannot be told from a repeated header: such lengths are timed here."""
    timed = timed or any(length % 21 == 0 for length in lengths)
    text, firsts, written, clock = "", [], 0, datetime(2026, 11, 20, tzinfo=UTC)
    for length in lengths:
        firsts.append(written)
        repeated = data.draw(st.booleans())
        for line in range(length):
            if line == 0 or (repeated and line % 21 == 0):
                text += HEADER.format("") + NAMES.format("                 UTC" if timed else "")
            text += VALUES.format(f" {clock:%Y-%m-%d %H:%M:%S}" if timed else "")
            clock += timedelta(seconds=5)
        written += length
        clock += timedelta(seconds=data.draw(st.sampled_from([-5, 40, 3600])))
    found = read_bytes(FORMAT, tmp_path, text.encode())
    assert found["vm_samples"].height == written
    assert found["vm_samples"].filter("since_boot")["sample"].to_list() == firsts
    assert found["cpu_samples"].filter("since_boot")["sample"].to_list() == firsts
