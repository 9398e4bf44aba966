from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from citus_analysis.errors import UnknownNameError
from citus_analysis.formats import Content
from citus_analysis.formats.iostat import FORMAT
from tests.formats.sampling import CORPUS, DATA, REALWORLD, Read, read, read_bytes
from tests.shards import count_examples, take_part

TEXTS = sorted(path for path in DATA.glob("iostat-*") if path.suffix != ".json")

#: Column layouts that no current version prints, with the numbers of sysstat's own documentation style.
SYSSTAT_9 = """\
Linux 2.6.32-358.el6.x86_64 (toy) \t01/03/2015 \t_x86_64_\t(24 CPU)

Time: 11:59:58 PM
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           0.03    0.00    0.08    0.00    0.00   99.88

Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz avgqu-sz   await  svctm  %util
sdb               0.01     8.06    0.03    0.25     4.00    30.00   248.73     0.02   86.45   3.85   0.11

Time: 12:00:03 AM
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          50.10    0.00   27.72    0.89    0.00   21.29

Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz avgqu-sz   await  svctm  %util
sdb               0.00     4.00    0.00    6.00     0.00    80.00    13.33     0.23   38.87   3.20   1.92
"""

PBENCH = "distributed-system-analysis__pbench__agent_tool-scripts_postprocess_samples_iostat"

GERMAN = """\
Linux 6.1.0-18-amd64 (knoten) \t05.06.2026 \t_x86_64_\t(2 CPU)

05.06.2026 21:10:57
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          23,78    0,00   11,26    0,37    0,15   64,45

Device             tps    kB_read/s    kB_wrtn/s    kB_dscd/s    kB_read    kB_wrtn    kB_dscd
sda               8,59       222,14        57,08         0,00    1597749     410544          0


"""


def rows(result: Read, table: str, *columns: str) -> list[tuple[object, ...]]:
    return result[table].select(columns).rows()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_recordings_read_without_rejects(path: Path) -> None:
    assert FORMAT.detect(path.name, path.read_bytes()) == 0.95
    result = read(FORMAT, path)
    assert result.rejects.is_empty()
    assert result["cpu_samples"].height + result["device_samples"].height > 0


def test_extended_report_with_times() -> None:
    result = read(FORMAT, DATA / "iostat-xt-us.out")
    cpu, device = result["cpu_samples"], result["device_samples"]
    assert cpu["sample"].to_list() == device["sample"].to_list() == list(range(cpu.height))
    assert cpu["sample_time"][0] == datetime(2026, 11, 20, 21, 3, 43, tzinfo=UTC)
    assert cpu["sample_time"].diff().drop_nulls().dt.total_seconds().unique().to_list() == [1]
    assert cpu["since_boot"].to_list() == [True] + [False] * (cpu.height - 1)
    shares = cpu.select(pl.sum_horizontal(pl.selectors.ends_with("_percent"))).to_series()
    assert shares.is_between(99.9, 100.1).all()
    assert device["device"].unique().to_list() == ["vda"]
    assert not device["is_group"].any()


def test_time_line_is_no_device() -> None:
    devices = read(FORMAT, DATA / "iostat-xtm-pretty.out")["device_samples"]
    assert devices["device"].to_list() == ["vda", "vda"]
    assert not read(FORMAT, DATA / "iostat-ct.out")["device_samples"].height


def test_two_empty_lines_behind_the_banner_prove_that_y_left_the_first_report_out() -> None:
    assert not read(FORMAT, DATA / "iostat-xt-y2.out")["cpu_samples"]["since_boot"].any()
    assert not read(FORMAT, DATA / "iostat-d-y.out")["device_samples"]["since_boot"].any()


@pytest.mark.parametrize(("choice", "first"), [("since_boot", True), ("interval", False)])
def test_option_overrules_the_evidence_of_the_first_report(choice: str, first: bool) -> None:
    for name in ("iostat-xt-y2.out", "iostat-xt-iso.out"):
        assert read(FORMAT, DATA / name, first_report=choice)["cpu_samples"]["since_boot"][0] is first


def test_option_first_report_must_be_known() -> None:
    with pytest.raises(UnknownNameError, match="since_boot"):
        read(FORMAT, DATA / "iostat-ct.out", first_report="yes")


def test_combined_await_is_weighted_by_requests() -> None:
    device = read(FORMAT, DATA / "iostat-xt-iso.out")["device_samples"].row(0, named=True)
    # 108.32 reads at 1.35 ms, 516.65 writes at 0.08 ms, 12.73 discards at 0.10 ms.
    assert device["await_ms"] == pytest.approx(0.2961, abs=1e-3)
    printed = read(FORMAT, DATA / "iostat-xs.out")["device_samples"].row(0, named=True)
    assert printed["await_ms"] is not None
    assert printed["total_kb_s"] is not None
    assert printed["merges_per_s"] is not None


def test_no_requests_no_combined_await() -> None:
    device = read(FORMAT, DATA / "iostat-xth-human.out")["device_samples"]
    idle = device.filter(pl.sum_horizontal("reads_per_s", "writes_per_s", "discards_per_s") == 0)
    assert idle.height > 0
    assert idle["await_ms"].null_count() == idle.height


def test_megabytes_and_sectors_become_kilobytes() -> None:
    kilobytes = read(FORMAT, DATA / "iostat-d-blocks.out")["device_samples"].row(0, named=True)
    text = (DATA / "iostat-d-blocks.out").read_text().splitlines()
    blocks = next(line.split() for line in text if line.startswith("vda"))
    assert kilobytes["read_kb_s"] == pytest.approx(float(blocks[2]) / 2)
    megabytes = read(FORMAT, DATA / "iostat-dm.out")["device_samples"].row(0, named=True)
    line = next(x.split() for x in (DATA / "iostat-dm.out").read_text().splitlines() if x.startswith("vda"))
    assert megabytes["write_kb_s"] == pytest.approx(float(line[3]) * 1024)


def test_human_readable_sizes_say_their_own_unit() -> None:
    device = read(FORMAT, DATA / "iostat-xth-human.out")["device_samples"].row(0, named=True)
    assert (device["read_kb_s"], device["write_kb_s"], device["discard_kb_s"]) == (1.5 * 1024, 2.5 * 1024, 890.8)
    assert (device["read_request_kb"], device["read_merge_percent"]) == (27.3, 15.2)
    cpu = read(FORMAT, DATA / "iostat-xth-human.out")["cpu_samples"].row(0, named=True)
    assert cpu["idle_percent"] == 82.3


def test_pretty_blocks_are_one_row_per_device() -> None:
    devices = read(FORMAT, DATA / "iostat-xtm-pretty.out")["device_samples"]
    assert devices["sample"].to_list() == [0, 1]
    first = devices.row(0, named=True)
    assert (first["reads_per_s"], first["writes_per_s"], first["discards_per_s"]) == (56.27, 24.73, 51.68)
    assert (first["read_kb_s"], first["utilization_percent"]) == (1.5 * 1024, 1.57)


def test_compact_layout_equals_the_wide_one() -> None:
    compact = read(FORMAT, DATA / "iostat-x-compact.out")["device_samples"]
    assert compact.height == 2
    assert compact["device"].unique().to_list() == ["vda"]
    assert compact["utilization_percent"].null_count() == 0


def test_groups_are_marked() -> None:
    devices = read(FORMAT, DATA / "iostat-g.out")["device_samples"]
    assert devices.select("device", "is_group").rows() == [("vda", False), ("both", True)] * 2


def test_cpu_only_and_device_only() -> None:
    assert read(FORMAT, DATA / "iostat-ct.out")["device_samples"].is_empty()
    device_only = read(FORMAT, DATA / "iostat-dm.out")
    assert device_only["cpu_samples"].is_empty()
    assert device_only["device_samples"]["sample"].to_list() == [0, 1]


def test_without_times_there_are_none_unless_a_wrapper_stamped_the_lines() -> None:
    assert read(FORMAT, DATA / "iostat-xs.out")["cpu_samples"]["sample_time"].null_count() == 2
    stamped = read(FORMAT, DATA / "iostat-x-stamped.log")
    assert stamped["cpu_samples"]["sample_time"].null_count() == 0
    assert stamped["device_samples"]["device"].to_list() == ["vda", "vda"]


def test_iso_times_carry_their_offset(tmp_path: Path) -> None:
    text = (DATA / "iostat-xt-iso.out").read_bytes()
    utc = read_bytes(FORMAT, tmp_path, text)["cpu_samples"]["sample_time"]
    east = read_bytes(FORMAT, tmp_path, text.replace(b"+0000", b"+0200"))["cpu_samples"]["sample_time"]
    assert utc[0] == datetime(2026, 11, 20, 21, 11, 24, tzinfo=UTC)
    assert (utc - east).dt.total_hours().unique().to_list() == [2]
    assert read_bytes(FORMAT, tmp_path, text, timezone="Asia/Tokyo")["cpu_samples"]["sample_time"].equals(utc)


def test_timezone_of_times_without_offset() -> None:
    utc = read(FORMAT, DATA / "iostat-xt-us.out")["cpu_samples"]["sample_time"]
    berlin = read(FORMAT, DATA / "iostat-xt-us.out", timezone="Europe/Berlin")["cpu_samples"]["sample_time"]
    assert (utc - berlin).dt.total_hours().unique().to_list() == [1]


def test_old_layout_counts_sectors_and_goes_past_midnight(tmp_path: Path) -> None:
    result = read_bytes(FORMAT, tmp_path, SYSSTAT_9.encode())
    assert rows(result, "cpu_samples", "sample_time", "since_boot") == [
        (datetime(2015, 1, 3, 23, 59, 58, tzinfo=UTC), True),
        (datetime(2015, 1, 4, 0, 0, 3, tzinfo=UTC), False),
    ]
    columns = ("read_kb_s", "write_kb_s", "request_kb", "await_ms", "service_ms", "queue_length")
    assert rows(result, "device_samples", *columns) == [
        (2.0, 15.0, 124.365, 86.45, 3.85, 0.02),
        (0.0, 40.0, 6.665, 38.87, 3.2, 0.23),
    ]
    assert result.rejects.is_empty()


def test_decimal_commas_and_dotted_dates(tmp_path: Path) -> None:
    result = read_bytes(FORMAT, tmp_path, GERMAN.encode())
    assert rows(result, "cpu_samples", "sample_time", "user_percent") == [
        (datetime(2026, 6, 5, 21, 10, 57, tzinfo=UTC), 23.78)
    ]
    assert rows(result, "device_samples", "transfers_per_s", "read_kb_s") == [(8.59, 222.14)]


def test_runs_appended_to_one_file_each_have_a_first_report(tmp_path: Path) -> None:
    twice = (DATA / "iostat-xt-iso.out").read_bytes() + (DATA / "iostat-xt-y2.out").read_bytes()
    cpu = read_bytes(FORMAT, tmp_path, twice + (DATA / "iostat-xt-us.out").read_bytes())["cpu_samples"]
    first = read(FORMAT, DATA / "iostat-xt-iso.out")["cpu_samples"].height
    second = read(FORMAT, DATA / "iostat-xt-y2.out")["cpu_samples"].height
    assert cpu.filter("since_boot")["sample"].to_list() == [0, first + second]
    assert cpu["sample"].to_list() == list(range(cpu.height))


def test_line_that_the_file_ends_in_is_rejected(tmp_path: Path) -> None:
    text = (DATA / "iostat-xt-us.out").read_bytes().rstrip(b"\n")
    result = read_bytes(FORMAT, tmp_path, text[:-3])
    assert result.rejects["reason"].to_list() == ["the file ends inside this line"]


def test_crlf_and_foreign_lines(tmp_path: Path) -> None:
    text = (DATA / "iostat-xt-us.out").read_bytes().replace(b"\n", b"\r\n")
    plain = read(FORMAT, DATA / "iostat-xt-us.out")
    result = read_bytes(FORMAT, tmp_path, text)
    assert result.rows("device_samples").equals(plain.rows("device_samples"))
    noisy = text.replace(b"avg-cpu", b"password=s3cret\xff gone\r\navg-cpu", 1)
    result = read_bytes(FORMAT, tmp_path, noisy)
    assert result.rows("device_samples").equals(plain.rows("device_samples"))
    assert result.rejects["excerpt"].to_list() == ["password=***"]


def test_chunks_cut_anywhere_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(FORMAT, DATA / "iostat-xt-us.out")
    blocks = Content.blocks
    for size in (900, 1777, 4096):
        monkeypatch.setattr(Content, "blocks", lambda self, size=size: blocks(self, size))
        cut = read(FORMAT, DATA / "iostat-xt-us.out")
        assert cut["cpu_samples"].equals(whole["cpu_samples"])
        assert cut["device_samples"].equals(whole["device_samples"])


@settings(max_examples=count_examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_never_breaks_the_byte_account(tmp_path: Path, data: st.DataObject) -> None:
    text = bytearray((DATA / "iostat-xth-human.out").read_bytes())
    for position in data.draw(st.lists(st.integers(0, len(text) - 1), max_size=8)):
        text[position] = data.draw(st.integers(0, 255))
    read_bytes(FORMAT, tmp_path, bytes(text[: data.draw(st.integers(0, len(text)))]))


@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b"\x00" * 500, b"avg-cpu:  %user\n"], ids=["empty", "blank", "nul", "cut"]
)
def test_what_is_not_iostat_is_not_claimed(tmp_path: Path, data: bytes) -> None:
    assert FORMAT.detect("worker-0-1.out", data) == 0.0
    assert read_bytes(FORMAT, tmp_path, data)["cpu_samples"].is_empty()


@pytest.mark.skipif(not CORPUS.exists(), reason="needs the whole recorded corpus")
def test_every_recording_of_the_corpus_has_one_sample_per_interval() -> None:
    paths = sorted(CORPUS.glob("*/general/worker*.out"))
    assert len(paths) == 111
    for path in take_part(paths):
        result = read(FORMAT, path)
        cpu, device = result["cpu_samples"], result["device_samples"]
        assert result.rejects.is_empty(), path
        assert cpu["sample"].to_list() == device["sample"].to_list() == list(range(cpu.height)), path
        step = 2 if "y2" in path.name else 1
        assert (cpu["sample_time"][-1] - cpu["sample_time"][0]).total_seconds() == step * (cpu.height - 1), path
        assert cpu["since_boot"].sum() == (0 if "y2" in path.name else 1), path


@pytest.mark.realworld
@pytest.mark.skipif(not REALWORLD.exists(), reason="needs recordings made by others")
@pytest.mark.parametrize(
    ("name", "cpu", "devices"),
    [
        (f"{PBENCH}-0_iostat-stdout.txt", 4, 36),
        (f"{PBENCH}-3_iostat-stdout.txt", 391, 4235),
        ("gregs1104__pgbench-tools__regress_480_iostat.log", 601, 3606),
        ("gregs1104__pgbench-tools__regress_iostat.log", 13, 104),
        ("kellyjonbrazil__jc__centos-7.7_iostat-mx.out", 1, 3),
        ("kellyjonbrazil__jc__ubuntu-18.04_iostat-1.out", 3, 60),
        ("kellyjonbrazil__jc__ubuntu-20.10_iostat-mx.out", 1, 14),
        ("sysstat__sysstat__tests_expected.iostat-N", 0, 22),
        ("sysstat__sysstat__tests_expected.iostat-cciss", 2, 2),
        ("sysstat__sysstat__tests_expected.iostat-compact", 2, 10),
        ("sysstat__sysstat__tests_expected.iostat-ct", 2, 0),
        ("sysstat__sysstat__tests_expected.iostat-ev", 0, 16),
        ("sysstat__sysstat__tests_expected.iostat-g", 0, 12),
        ("sysstat__sysstat__tests_expected.iostat-jID", 0, 22),
        ("sysstat__sysstat__tests_expected.iostat-pretty", 0, 43),
        ("sysstat__sysstat__tests_expected.iostat-sigint", 7, 37),
        ("sysstat__sysstat__tests_expected.iostat-x-pretty", 1, 5),
        ("sysstat__sysstat__tests_expected.iostat-xs", 3, 16),
    ],
)
def test_recordings_of_others(name: str, cpu: int, devices: int) -> None:
    result = read(FORMAT, REALWORLD / "iostat" / name)
    assert result.rejects.is_empty()
    assert (result["cpu_samples"].height, result["device_samples"].height) == (cpu, devices)


@pytest.mark.parametrize(
    ("banner", "layout"),
    [
        ("%m/%d/%Y", "%m/%d/%Y %I:%M:%S %p"),
        ("%m/%d/%Y", "%m/%d/%Y %H:%M:%S"),
        ("%d/%m/%y", "%d/%m/%y %H:%M:%S"),
        ("%d/%m/%Y", "%d/%m/%Y %H:%M:%S"),
        ("%d.%m.%Y", "%d.%m.%Y %H:%M:%S"),
        ("%d.%m.%Y", "%d.%m.%Y %H.%M.%S"),
        ("%d-%m-%y", "%d-%m-%y %H:%M:%S"),
        ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S"),
        ("%m/%d/%Y", "Time: %I:%M:%S %p"),
        ("%m/%d/%Y", "Time: %H:%M:%S"),
    ],
)
def test_every_locale_prints_the_same_moments(tmp_path: Path, banner: str, layout: str) -> None:
    text = (DATA / "iostat-xt-us.out").read_text()
    plain = read(FORMAT, DATA / "iostat-xt-us.out")
    times = plain["cpu_samples"]["sample_time"].to_list()
    for time in times:
        text = text.replace(f"\n{time:%m/%d/%y %H:%M:%S}\n", f"\n{time.strftime(layout)}\n")
    text = text.replace("\t11/20/26 ", f"\t{times[0].strftime(banner)} ")
    result = read_bytes(FORMAT, tmp_path, text.encode())
    assert result.rows("cpu_samples").equals(plain.rows("cpu_samples"))
    assert result.rows("device_samples").equals(plain.rows("device_samples"))
