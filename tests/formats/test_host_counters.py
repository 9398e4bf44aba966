"""Counters of a host: a recording, differences, and counters that went back."""

from pathlib import Path

import pytest

from citus_analysis.formats import host_counters
from tests.formats.sampling import ROOT, read, read_bytes

FORMAT = host_counters.FORMAT
RECORDED = ROOT / "tests" / "data" / "snapshots" / "host-linux-6.18.out"


def sample(second: int, *lines: str) -> str:
    return f"sampled 2026-03-01 12:00:{second:02}.500000000\n" + "".join(f"{line}\n" for line in lines)


def net(received: int, sent: int) -> str:
    return f"/proc/net/dev:  eth0: {received} 7 0 0 0 0 0 0 {sent} 9 0 0 0 0 0 0"


def test_a_recording() -> None:
    found = read(FORMAT, RECORDED)
    assert found.rejects.is_empty()
    assert found["net_samples"]["interface"].unique(maintain_order=True).to_list() == ["lo", "ifb0", "ifb1", "eth0"]
    pressure = found["pressure_samples"]
    cpu = pressure.filter(pressure["pressure"] == "cpu", pressure["scope"] == "some")
    assert cpu["stalled_percent"].null_count() == 1  # the first has nothing before it
    # Over a second, tasks cannot be stalled for much longer than that.
    assert cpu["stalled_percent"].drop_nulls().is_between(1, 110).all()
    loopback = found["net_samples"].filter(found["net_samples"]["interface"] == "lo").drop_nulls("receive_kb_s")
    assert loopback["receive_kb_s"].to_list() == loopback["transmit_kb_s"].to_list()
    assert (loopback["receive_kb_s"] > 0).any()
    assert found["throttle_samples"]["throttled_periods"].to_list() == [None, 0, 0, 0]


def test_rates_are_per_second_and_shares_of_the_time(tmp_path: Path) -> None:
    text = sample(0, net(0, 0), "/proc/pressure/io:full avg10=1.50 avg60=0.00 avg300=0.00 total=1000000")
    text += sample(2, net(4096, 1024), "/proc/pressure/io:full avg10=2.00 avg60=0.00 avg300=0.00 total=2000000")
    found = read_bytes(FORMAT, tmp_path, text.encode())
    assert found["net_samples"].select("receive_kb_s", "transmit_kb_s", "receive_packets_per_s").rows() == [
        (None, None, None),
        (2.0, 0.5, 0.0),
    ]
    assert found["pressure_samples"].select("scope", "avg10_percent", "stalled_percent").rows() == [
        ("full", 1.5, None),
        ("full", 2.0, 50.0),
    ]


def test_nothing_is_subtracted_where_a_counter_went_back(tmp_path: Path) -> None:
    found = read_bytes(FORMAT, tmp_path, (sample(0, net(9000, 9000)) + sample(1, net(10, 9500))).encode())
    assert found["net_samples"].select("receive_kb_s").to_series().to_list() == [None, None]
    assert found["net_samples"]["transmit_kb_s"].to_list() == [None, pytest.approx(500 / 1024)]


@pytest.mark.parametrize(
    ("path", "lines", "throttled"),
    [
        ("/sys/fs/cgroup/cpu.stat", ("throttled_usec {}",), 25.0),
        ("/sys/fs/cgroup/cpu/cpu.stat", ("throttled_time {}000",), 25.0),
    ],
)
def test_both_versions_of_control_groups(tmp_path: Path, path: str, lines: tuple[str, ...], throttled: float) -> None:
    def group(periods: int, held: int, throttled_us: int) -> list[str]:
        counters = [f"nr_periods {periods}", f"nr_throttled {held}", *(line.format(throttled_us) for line in lines)]
        return [f"{path}:{counter}" for counter in counters]

    text = sample(0, *group(100, 5, 1_000_000)) + sample(2, *group(120, 11, 1_500_000))
    row = read_bytes(FORMAT, tmp_path, text.encode())["throttle_samples"].row(1, named=True)
    assert (row["control_group"], row["periods"], row["throttled_periods"]) == (path, 20, 6)
    assert row["throttled_percent"] == throttled


def test_what_is_not_there_is_noise_and_what_is_strange_is_rejected(tmp_path: Path) -> None:
    text = (
        "absent: /proc/pressure\n"
        + sample(0, net(1, 1), "/proc/net/dev: eth0: 1 2", "hello")
        + "sampled 2026-03-01 12:"
    )
    found = read_bytes(FORMAT, tmp_path, text.encode())
    assert found["net_samples"].height == 1
    assert found.rejects["reason"].to_list() == [
        "not as the kernel writes it",
        "not a line of a sampled file",
        "the file ends inside this line",
    ]


def test_other_files_are_no_samples() -> None:
    assert FORMAT.detect("x.out", b"sampled 2026-03-01 12:00:00\nnothing of the kernel\n") == 0
    assert FORMAT.detect("x.out", b"/proc/net/dev: eth0: 1\n") == 0
