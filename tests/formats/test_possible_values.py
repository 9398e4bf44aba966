"""Values that cannot be are kept as printed, flagged with their line, and enter no mean."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.bottleneck import mean_symbols
from citus_analysis.bottleneck.resources import compute_resource_utilization
from citus_analysis.bottleneck.samples import null_out_of_range_values
from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.formats import Content, detect_format
from citus_analysis.published import audit_runs
from citus_analysis.published.run_checks import collect_audited_tables, find_out_of_range_samples
from citus_analysis.schema import TABLES
from tests.formats.printed_samples import PRINTERS
from tests.formats.sampling import DATA, Read, read

CASES = Path(__file__).parents[1] / "data" / "cases"
SHARES = "user_percent, nice_percent, system_percent, iowait_percent, steal_percent, idle_percent"
#: Case -> rows of a table that are doubtful: sample, columns, beginning of the line.
FLAGGED = {
    "66-iostat-overflow/iostat.log": (
        "device_samples",
        [(1, "reads_per_s, read_kb_s, utilization_percent", "sdf"), (2, "writes_per_s", "sdd")],
    ),
    "66-iostat-overflow/tps.log": ("device_samples", [(0, "transfers_per_s", "dm-4")]),
    "71-dstat-negative/dstat.csv": ("device_samples", [(1, "read_kb_s, write_kb_s", "2.5,0.5")]),
    "94-overflow-in-report/io-1.log": (
        "device_samples",
        [(3, "reads_per_s, read_kb_s, utilization_percent", "sdf")],
    ),
    "96-sar-all-zero/sar.txt": ("cpu_samples", [(1, SHARES, "09:52:01        all")]),
    "96r-sar-zero-in-report/sar-1.log": (
        "cpu_samples",
        [(1, SHARES, "06:00:20 PM     all"), (3, SHARES, "06:00:40 PM     all")],
    ),
}

#: All recordings of samplers but those whose times are refused without a zone.
SAMPLED = sorted(p for p in DATA.rglob("*") if p.is_file() and p.stem not in ("vmstat-t-ist", "vmstat-t-pst"))


def whole(path: Path) -> Read:
    found = detect_format(Content(path))
    assert found is not None
    return read(found, path)


@pytest.mark.parametrize(("name", "table", "expected"), [(name, *rows) for name, rows in FLAGGED.items()])
def test_what_cannot_be_is_flagged_with_its_line(
    name: str, table: str, expected: Sequence[tuple[int, str, str]]
) -> None:
    data = (CASES / name).read_bytes()
    flagged = whole(CASES / name)[table].filter(pl.col("doubtful").is_not_null())
    rows = zip(flagged.select("sample", "doubtful", "byte_offset").iter_rows(), expected, strict=True)
    for (sample, columns, offset), (number, named, begin) in rows:
        assert (sample, columns) == (number, named)
        assert data[offset:].startswith(begin.encode())


def test_values_are_kept_as_printed() -> None:
    rows = whole(CASES / "66-iostat-overflow" / "iostat.log")["device_samples"]
    assert rows.filter(sample=1, device="sdf").select("reads_per_s", "utilization_percent").row(0) == (
        2**63,
        214748364.7,
    )
    sound = null_out_of_range_values(rows).filter(sample=1, device="sdf")
    assert sound.select("reads_per_s", "utilization_percent", "writes_per_s").row(0) == (None, None, 0.0)


@pytest.mark.parametrize("printer", PRINTERS)
@pytest.mark.parametrize("seed", range(5))
def test_generated_samples(printer: str, seed: int, tmp_path: Path) -> None:
    """Exactly the samples that cannot be are flagged, at the offsets of their lines."""
    printed = PRINTERS[printer](seed)
    path = tmp_path / "sample.log"
    path.write_text(printed.text)
    found = whole(path)
    assert found.rejects.is_empty()
    flagged = {
        name: rows["byte_offset"].to_list()
        for name in found.tables
        if (rows := found[name].filter(pl.col("doubtful").is_not_null())).height
    }
    assert flagged == printed.doubtful


@pytest.mark.parametrize("printer", PRINTERS)
@pytest.mark.parametrize("seed", range(5))
def test_rounding_is_no_doubt(printer: str, seed: int, tmp_path: Path) -> None:
    path = tmp_path / "sample.log"
    path.write_text(PRINTERS[printer](seed, broken=False).text)
    found = whole(path)
    assert all(found[name]["doubtful"].null_count() == found[name].height for name in found.tables)


@pytest.mark.sharded(4)
@pytest.mark.parametrize("path", SAMPLED, ids=lambda path: path.name)
def test_offsets_of_recorded_samples_lead_to_their_lines(path: Path) -> None:
    """A line of a device, an interface or a process contains its name."""
    found = detect_format(Content(path))
    if found is None:
        return
    data = Content(path).read(2**26)
    tables = read(found, path)
    for name in (name for name in found.tables if "doubtful" in TABLES[name]):
        rows = tables[name]
        named = next((key for key in ("device", "interface", "command") if key in rows.columns), None)
        for offset, item in rows.select("byte_offset", pl.col(named) if named else pl.lit("")).iter_rows():
            assert 0 <= offset < len(data)
            assert offset == 0 or data[offset - 1 : offset] in (b"\n", b" ", b"\t", b"{", b"[", b","), (name, offset)
            if item and data[offset : offset + 1] != b"{" and found.name not in ("dstat", "sar", "sadf_csv"):
                end = data.find(b"\n", offset)
                assert item.encode() in (data[offset:end] if end >= 0 else data[offset:])


def test_no_mean_contains_them(tmp_path: Path) -> None:
    """The CPUs were busy 4 % of the time; the counter of a device that went back changes no mean."""
    for case, part, name, busy in (
        ("96r-sar-zero-in-report", "cpu", "cpu", 4.0),
        ("94-overflow-in-report", "device", "sdf", 20.1),
    ):
        ingest(CASES / case, tmp_path / case)
        tables = open_dataset(tmp_path / case)
        used = compute_resource_utilization(tables.cpu_samples(), tables.device_samples(), tables.runs())
        found = used.filter(component=part, name=name).row(0, named=True)
        assert found["mean_percent"] == pytest.approx(busy)
        assert (found["requests_per_s"] or 150.0) == pytest.approx(150.0)


def test_audit_names_their_lines(tmp_path: Path) -> None:
    ingest(CASES / "94-overflow-in-report", tmp_path / "dataset")
    dataset = open_dataset(tmp_path / "dataset")
    assert find_out_of_range_samples(dataset).select("path", "byte_offset", "samples").rows() == [("io-1.log", 2780, 1)]
    finding = audit_runs(**collect_audited_tables(dataset)).details.filter(check="possible_values").row(0, named=True)
    assert (finding["severity"], finding["expected"]) == (
        "amber",
        "reads_per_s 0 to 2,000,000,000; read_kb_s 0 to 1,000,000,000; utilization_percent 0 to 100",
    )
    assert "byte 2780 of io-1.log" in finding["stated"]


def test_shares_of_perf_that_cannot_be_enter_no_profile(tmp_path: Path) -> None:
    text = "# Samples: 10 of event 'cycles'\n#\n# Overhead  Command   Shared Object  Symbol\n"
    text += "# ........  ........  .............  ........\n#\n"
    text += "   450.00%  postgres  postgres       [.] broken\n    50.00%  postgres  postgres       [.] work\n"
    path = tmp_path / "report.txt"
    path.write_text(text)
    symbols = whole(path)["perf_symbols"]
    assert symbols["doubtful"].to_list() == ["self_percent", None]
    assert text[symbols["byte_offset"][0] :].startswith("   450.00%")
    placed = symbols.with_columns(resource=pl.lit("r"), run_id=pl.lit("r/1"), node=pl.lit("0"), source_id=pl.lit("s"))
    assert mean_symbols(placed)["symbol"].to_list() == ["work"]


def test_the_await_of_devices_that_only_print_transfers_is_a_mean(tmp_path: Path) -> None:
    """sar -d prints transfers and their await, but neither reads nor writes."""
    head = "Linux 6.1.0 (host) \t01/02/2026 \t_x86_64_\t(2 CPU)\n\n"
    head += "10:00:00          DEV       tps     rkB/s     wkB/s   areq-sz    aqu-sz     await     %util\n"
    rows = "10:00:01          sda     10.00    100.00      0.00     10.00      0.10      2.00     10.00\n"
    rows += "10:00:02          sda     30.00    300.00      0.00     10.00      0.10      4.00     30.00\n"
    (tmp_path / "sar.txt").write_text(head + rows)
    found = whole(tmp_path / "sar.txt")
    placed = [
        found[name].with_columns(resource=pl.lit("r"), run_id=pl.lit("r/1"), node=pl.lit("0"), source_id=pl.lit("s"))
        for name in ("cpu_samples", "device_samples")
    ]
    assert compute_resource_utilization(*placed).select("await_ms", "requests_per_s").row(0) == (3.5, 20.0)


def test_numbers_of_json_that_no_column_holds_are_said(tmp_path: Path) -> None:
    """sadf -j of a memory counter that wrapped; the other numbers of the object are kept."""
    text = '{"sysstat": {"hosts": [{"nodename": "h", "file-date": "2026-01-02", "statistics": [\n'
    text += '{"timestamp": {"date": "2026-01-02", "time": "10:00:01", "utc": 1, "interval": 1},\n'
    text += ' "memory": {"memfree": 18446744073709551615, "memused": 5, "buffers": -1, "cached": 7}}]}]}}\n'
    path = tmp_path / "sadf.json"
    path.write_text(text)
    row = whole(path)["vm_samples"].row(0, named=True)
    assert (row["free_kb"], row["used_kb"], row["buffer_kb"], row["cache_kb"]) == (None, 5, -1, 7)
    assert (row["doubtful"], row["byte_offset"]) == ("free_kb, buffer_kb", text.index('{"timestamp"'))
