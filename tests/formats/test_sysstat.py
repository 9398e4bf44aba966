"""Texts of sar, mpstat and pidstat, recorded in several locales, across midnight and a restart."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from citus_analysis.formats import Content, Format, detect_format, mpstat, pidstat, sar
from citus_analysis.formats.parsing import lines as _lines
from tests.formats.sampling import DATA, Read, read, read_bytes

SYSSTAT = DATA / "sysstat"
FORMATS: dict[str, Format] = {"sar": sar.FORMAT, "mpstat": mpstat.FORMAT, "pidstat": pidstat.FORMAT}
TEXTS = sorted(SYSSTAT.glob("*.out"))
LOCALES = ("C", "de_DE", "en_US", "fr_FR", "ja_JP")


def second(day: int, hour: int, minute: int, at: int) -> datetime:
    return datetime(2026, 11, day, hour, minute, at, tzinfo=UTC)


@pytest.mark.parametrize("locale", LOCALES[1:])
def test_all_locales_give_equal_rows(locale: str) -> None:
    plain, other = (read(sar.FORMAT, SYSSTAT / f"sar-f-{name}.out") for name in ("C", locale))
    for table in sar.FORMAT.tables:
        assert_frame_equal(plain.rows(table), other.rows(table))
        assert plain[table].height > 0


@pytest.mark.parametrize("locale", ["en_IN", "ko_KR", "th_TH"])
def test_times_of_rarer_locales_are_those_of_the_others(locale: str) -> None:
    """A zone behind AM or PM, blanks within times, and years of the Buddhist era."""
    plain, other = (SYSSTAT / f"sar-un-{name}.out" for name in ("C", locale))
    assert detect_format(Content(other)) is sar.FORMAT
    for table in ("cpu_samples", "net_samples"):
        assert_frame_equal(read(sar.FORMAT, plain).rows(table), read(sar.FORMAT, other).rows(table))
        assert read(sar.FORMAT, plain)[table].height > 0


def test_a_restart_begins_a_new_part() -> None:
    cpu = read(sar.FORMAT, SYSSTAT / "sar-f-C.out")["cpu_samples"]
    assert cpu["sample"].to_list() == [0, 1, 2, 3, 4]
    assert cpu["sample_time"].to_list() == [second(22, 22, 5, at) for at in range(5)]
    assert cpu["since_boot"].any() is False
    first = cpu.row(0, named=True)
    # %sys 27.36 + %irq 0.00 + %soft 1.00
    assert (first["user_percent"], first["system_percent"], first["softirq_percent"]) == (71.14, 28.36, 1.0)


def test_rows_of_one_moment_have_one_sample() -> None:
    found = read(sar.FORMAT, SYSSTAT / "sar-f-C.out")
    vm = found["vm_samples"].filter(sample=0)
    assert vm.height == 6
    joined = vm.select(pl.exclude("since_boot").drop_nulls().first()).row(0, named=True)
    assert (joined["free_kb"], joined["available_kb"], joined["runnable"], joined["load_15"]) == (
        7063220,
        22426704,
        8,
        6.02,
    )
    assert (joined["blocks_in_per_s"], joined["forks_per_s"], joined["faults_per_s"]) == (9093.07, 10.89, 7976.24)
    pressure = found["pressure_samples"].filter(sample=0)
    assert pressure.select("pressure", "scope", "avg10_percent", "stalled_percent").rows() == [
        ("cpu", "some", 80.29, 79.42),
        ("io", "some", 28.47, 43.83),
        ("io", "full", 0.0, 0.21),
        ("memory", "some", 0.0, 0.0),
        ("memory", "full", 0.0, 0.0),
    ]
    devices = found["device_samples"].filter(sample=0)
    assert devices.select("device", "is_group", "transfers_per_s", "utilization_percent").rows() == [
        ("all", True, 3543.56, None),
        ("vda", None, 3536.63, 53.07),
    ]


def test_days_are_counted_across_midnight() -> None:
    found = read(sar.FORMAT, SYSSTAT / "sar-live-midnight.out")
    for table in ("cpu_samples", "device_samples"):
        assert found[table]["sample_time"].to_list() == [second(22, 0, 0, at) for at in range(4)]
    cpus = found["cpu_samples"]
    zoned = read(sar.FORMAT, SYSSTAT / "sar-live-midnight.out", timezone="Europe/Berlin")["cpu_samples"]
    assert (cpus["sample_time"] - zoned["sample_time"]).unique().to_list() == [timedelta(hours=1)]


def test_a_report_without_interval_averages_since_boot() -> None:
    for name in ("mpstat-boot", "pidstat-boot", "pidstat-h-boot"):
        format_ = FORMATS[name.split("-")[0]]
        path = SYSSTAT / f"{name}.out"
        table = format_.tables[0]
        assert read(format_, path)[table]["since_boot"].all()
        assert not read(format_, path, first_report="interval")[table]["since_boot"].any()
    for name in ("mpstat-P", "mpstat-us", "pidstat-urdw", "pidstat-h-us", "pidstat-hH", "pidstat-t-de"):
        format_ = FORMATS[name.split("-")[0]]
        assert not read(format_, SYSSTAT / f"{name}.out")[format_.tables[0]]["since_boot"].any()


def test_processes_and_their_threads() -> None:
    rows = read(pidstat.FORMAT, SYSSTAT / "pidstat-t-de.out")["process_samples"]
    assert rows.select("sample", "pid", "thread", "command", "system_percent").head(2).rows() == [
        (0, 11743, None, "dd", 49.0),
        (0, None, 11743, "dd", 48.0),
    ]
    named = read(pidstat.FORMAT, SYSSTAT / "pidstat-boot.out")["process_samples"]
    assert named["user"].unique().to_list() == ["root"]


def test_one_line_for_each_process() -> None:
    rows = read(pidstat.FORMAT, SYSSTAT / "pidstat-h-us.out")["process_samples"]
    assert rows["sample_time"].unique(maintain_order=True).to_list() == [second(22, 22, 33, at) for at in (27, 28, 29)]
    first = rows.row(1, named=True)
    assert first["command"] == "dd if=/dev/zero of=/var/tmp/junk bs=64k count=100000 oflag=dsync status=none"
    assert (first["write_kb_s"], first["voluntary_switches_per_s"], first["resident_kb"]) == (48324.0, 3018.0, 1884)
    epochs = read(pidstat.FORMAT, SYSSTAT / "pidstat-hH.out", timezone="Asia/Tokyo")["process_samples"]
    assert epochs["sample_time"][0] == second(22, 22, 33, 27)


def test_what_the_kernel_does_not_tell_is_null(tmp_path: Path) -> None:
    text = (
        (SYSSTAT / "pidstat-urdw.out")
        .read_bytes()
        .replace(b"  48324.00", b"     -1.00")
        .replace(b" 0.00      0.00      0.00       0  dd", b"-1.00     -1.00     -1.00       0  dd")
    )
    rows = read_bytes(pidstat.FORMAT, tmp_path, text)["process_samples"]
    assert rows["read_kb_s"].drop_nulls().min() == 0.0
    assert rows.filter(pl.col("read_kb_s").is_null() & pl.col("io_delay_ticks").is_not_null()).height > 0


@pytest.mark.sharded(4)
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_small_blocks_give_the_same_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a block holds, the state of those before it is enough."""
    format_ = FORMATS[path.name.split("-")[0]]
    whole = read(format_, path)
    data = path.read_bytes()
    size = 1500
    monkeypatch.setattr(_lines, "BLOCK_BYTES", 16)

    def blocks(_: Content) -> list[object]:
        from citus_analysis.formats.deliveries.content import Block

        return [Block(at, data[at : at + size], len(data[at : at + size])) for at in range(0, len(data), size)]

    monkeypatch.setattr(Content, "blocks", blocks)
    pieces: Read = read(format_, path)
    for table in format_.tables:
        # Whether a file of pidstat -h has one report only is decided by its first block.
        facts = pl.exclude("since_boot" if path.name.startswith("pidstat-h") else "")
        assert_frame_equal(pieces[table].select(facts), whole[table].select(facts))
    assert pieces.parsed_bytes == whole.parsed_bytes


def test_damaged_lines_are_rejected_with_reasons(tmp_path: Path) -> None:
    text = (SYSSTAT / "sar-iso.out").read_text()
    lines = text.splitlines(keepends=True)
    row = next(number for number, line in enumerate(lines) if " all " in line)
    lines[row] = lines[row].replace("all", "all   1.00")
    lines[row + 1] = lines[row + 1].replace("0.00", "0.0x", 1)
    lines.insert(row + 2, "sar: cannot open file\n")
    rejects = read_bytes(sar.FORMAT, tmp_path, "".join([*lines, "22:05:09  all"]).encode()).rejects
    assert rejects["reason"].to_list() == [
        "the header announces 7 columns",
        "not a number, or out of its column's range",
        "not a line of this tool",
        "the file ends inside this line",
    ]


def test_an_impossible_date_leaves_times_null(tmp_path: Path) -> None:
    text = (SYSSTAT / "sar-iso.out").read_bytes().replace(b"2026-11-22", b"2026-19-72")
    found = read_bytes(sar.FORMAT, tmp_path, text)
    assert found["cpu_samples"]["sample_time"].null_count() == found["cpu_samples"].height == 5
