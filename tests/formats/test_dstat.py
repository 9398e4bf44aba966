"""CSV of dool and dstat."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from citus_analysis.formats.dstat import FORMAT
from tests.formats.sampling import DATA, REALWORLD, read, read_bytes

DSTAT = DATA / "dstat"


def test_samples_of_dool() -> None:
    found = read(FORMAT, DSTAT / "dool.csv")
    cpu = found["cpu_samples"]
    assert cpu["sample_time"].to_list() == [datetime(2026, 11, 22, 22, 7, at, tzinfo=UTC) for at in range(40, 44)]
    assert cpu["since_boot"].to_list() == [True, False, False, False]
    assert cpu.select("sampler", "user_percent", "system_percent", "idle_percent").row(1) == ("dool", 75.0, 15.0, 9.5)
    devices = found["device_samples"].filter(sample=1)
    assert devices.select("device", "is_group", "read_kb_s", "write_kb_s", "reads_per_s").rows() == [
        ("total", True, 384.0, 1152.0, 11.0),
        ("vda", None, 384.0, 1152.0, 11.0),
    ]
    assert found["net_samples"].filter(sample=1)["interface"].to_list() == ["eth0", "lo"]
    vm = found["vm_samples"].row(1, named=True)
    assert (vm["used_kb"], vm["runnable"], vm["forks_per_s"]) == (round(3685883904 / 1024), 8, 36.0)
    assert (vm["interrupts_per_s"], vm["context_switches_per_s"], vm["swapped_kb"]) == (877.0, 13419.0, 0)


def test_seconds_since_1970_and_no_times() -> None:
    epochs = read(FORMAT, DSTAT / "dool-T.csv", first_report="interval")["cpu_samples"]
    assert epochs["sample_time"][0] == datetime(2026, 11, 22, 22, 7, 43, 709000, tzinfo=UTC)
    assert not epochs["since_boot"].any()
    untimed = read(FORMAT, DSTAT / "dool-a.csv")
    assert untimed["cpu_samples"]["sample_time"].null_count() == 2
    # The total counts where no single interface is printed.
    assert untimed["net_samples"]["interface"].unique().to_list() == ["total"]


def test_runs_that_follow_each_other_and_new_year(tmp_path: Path) -> None:
    first = (DSTAT / "dool.csv").read_bytes()
    second = first.replace(b"Nov-22 22:07:43", b"Jan-01 00:00:01").replace(b"dool 1.3.4", b"Dstat 0.8.0")
    cpu = read_bytes(FORMAT, tmp_path, first + second)["cpu_samples"]
    assert cpu["sample"].to_list() == list(range(8))
    assert cpu["since_boot"].to_list() == [True, False, False, False] * 2
    assert cpu["sampler"].to_list() == ["dool"] * 4 + ["dstat"] * 4
    assert cpu["sample_time"][7] == datetime(2027, 1, 1, 0, 0, 1, tzinfo=UTC)
    # dstat prints the day first.
    dayfirst = read_bytes(FORMAT, tmp_path, first.replace(b"Nov-22", b"22-11"))["cpu_samples"]
    assert dayfirst["sample_time"].to_list() == cpu["sample_time"].head(4).to_list()


def test_single_cpus(tmp_path: Path) -> None:
    data = (DSTAT / "dool-T.csv").read_bytes().replace(b'"total cpu usage"', b'"cpu3 usage"')
    cores = read_bytes(FORMAT, tmp_path, data)["core_samples"]
    assert cores.select("cpu", "user_percent").rows() == [(3, 61.649), (3, 80.5)]


def test_damaged_lines_are_rejected(tmp_path: Path) -> None:
    data = (DSTAT / "dool-T.csv").read_bytes()
    found = read_bytes(FORMAT, tmp_path, data + b"1795385265.7,1,2\n1795385266.7,x,1,1,0,0\nKilled\n17953")
    assert found.rejects["reason"].to_list() == [
        "the header announces 6 columns",
        "not a number, or out of its column's range",
        "not a line of dstat",
        "the file ends inside this line",
    ]


@pytest.mark.realworld
@pytest.mark.skipif(not REALWORLD.exists(), reason="files of other people are not here")
def test_a_run_of_pcp_dstat() -> None:
    (path,) = (REALWORLD / "dstat").iterdir()
    found = read(FORMAT, path)
    assert found.rejects.is_empty()
    assert found["cpu_samples"].height == 383
    assert found["cpu_samples"]["softirq_percent"][0] == 1.267
