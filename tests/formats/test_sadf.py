"""CSV and JSON of sysstat hold what its texts hold."""

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from citus_analysis.formats import (
    Content,
    detect_format,
    mpstat,
    mpstat_json,
    pidstat,
    pidstat_json,
    sadf_csv,
    sadf_json,
    sar,
)
from tests.formats.sampling import DATA, REALWORLD, read, read_bytes

SYSSTAT = DATA / "sysstat"


@pytest.mark.parametrize("path", sorted([*SYSSTAT.glob("*.csv"), *SYSSTAT.glob("*.json")]), ids=lambda path: path.name)
def test_recordings_are_recognised(path: Path) -> None:
    found = detect_format(Content(path))
    assert found is not None
    assert found.name == f"{path.name.split('.')[0].split('-')[0]}_{path.suffix[1:]}"


def test_csv_and_text_of_one_file_give_equal_rows() -> None:
    csv, text = read(sadf_csv.FORMAT, SYSSTAT / "sadf-d.csv"), read(sar.FORMAT, SYSSTAT / "sar-f-C.out")
    assert csv.rejects.is_empty()
    for table in sar.FORMAT.tables:
        assert_frame_equal(csv.rows(table), text.rows(table))


def test_json_and_text_of_one_file_give_equal_rows() -> None:
    """JSON puts the two reports on memory together, and orders others by moment."""
    json, text = read(sadf_json.FORMAT, SYSSTAT / "sadf.json"), read(sar.FORMAT, SYSSTAT / "sar-f-C.out")
    assert json.rejects.is_empty()
    for table in set(sar.FORMAT.tables) - {"vm_samples"}:
        assert_frame_equal(json.rows(table), text.rows(table), check_row_order=False)
    values = pl.exclude("sample", "sample_time", "since_boot").drop_nulls().first()
    moments = [found.rows("vm_samples").group_by("sample").agg(values).sort("sample") for found in (json, text)]
    assert_frame_equal(*moments)


@pytest.mark.parametrize("name", ["sadf-dU.csv", "sadf-dt.csv", "sadf-t.json"])
def test_times_as_utc_as_seconds_and_local(name: str) -> None:
    format_ = sadf_json.FORMAT if name.endswith("json") else sadf_csv.FORMAT
    cpu = read(format_, SYSSTAT / name)["cpu_samples"]
    assert cpu["sample_time"].to_list() == [datetime(2026, 11, 22, 22, 5, at, tzinfo=UTC) for at in range(5)]
    zoned = read(format_, SYSSTAT / name, timezone="Asia/Kolkata")["cpu_samples"]
    shifted = (cpu["sample_time"] - zoned["sample_time"]).dt.total_minutes().unique().to_list()
    assert shifted == ([0] if name == "sadf-dU.csv" else [330])


def test_joined_reports_are_rejected_with_a_way_out() -> None:
    found = read(sadf_csv.FORMAT, SYSSTAT / "sadf-dh.csv")
    assert found["cpu_samples"].is_empty()
    assert found.rejects["reason"].unique().to_list() == [
        "sadf -h puts several reports into one line without naming their items; run sadf without -h"
    ]


def test_mpstat_in_json() -> None:
    found = read(mpstat_json.FORMAT, SYSSTAT / "mpstat.json")
    assert found["core_samples"].select("sample", "cpu").rows() == [(n, cpu) for n in range(3) for cpu in range(2)]
    assert found["vm_samples"]["interrupts_per_s"].len() == 3
    assert not found["cpu_samples"]["since_boot"].any()
    text = read(mpstat.FORMAT, SYSSTAT / "mpstat-us.out")
    assert text["cpu_samples"].columns == found["cpu_samples"].columns
    assert (text["cpu_samples"]["idle_percent"] - found["cpu_samples"]["idle_percent"]).abs().max() <= 5.0  # type: ignore[operator]  # scalar


def test_mpstat_in_json_across_midnight(tmp_path: Path) -> None:
    data = (SYSSTAT / "mpstat.json").read_bytes()
    for at, name in ((27, b"23:59:59"), (28, b"00:00:00"), (29, b"00:00:01")):
        data = data.replace(b"22:33:%02d" % at, name)
    times = read_bytes(mpstat_json.FORMAT, tmp_path, data)["cpu_samples"]["sample_time"]
    assert times.dt.strftime("%d %T").to_list() == ["22 23:59:59", "23 00:00:00", "23 00:00:01"]


def test_pidstat_in_json() -> None:
    rows = read(pidstat_json.FORMAT, SYSSTAT / "pidstat.json")["process_samples"]
    assert rows.height == 2 * 2 * 4  # samples, processes and kinds of reports
    dd = rows.filter(command="dd", sample=0)
    assert dd["cpu_percent"].drop_nulls().to_list() == [10.0]
    assert dd["resident_kb"].drop_nulls().to_list() == [1608]
    assert dd.select("pid", "user").unique().rows() == [(15638, "0")]
    threads = read(pidstat_json.FORMAT, SYSSTAT / "pidstat-t.json")["process_samples"].filter(sample=1)
    assert threads.select("pid", "thread").rows() == 2 * [(15639, None), (None, 15639), (None, 15824), (None, 15825)]
    assert threads["user"].unique().to_list() == ["root"]
    assert read(pidstat.FORMAT, SYSSTAT / "pidstat-urdw.out")["process_samples"].schema == rows.schema


def test_a_document_that_was_cut_keeps_its_samples(tmp_path: Path) -> None:
    data = (SYSSTAT / "sadf.json").read_bytes()
    found = read_bytes(sadf_json.FORMAT, tmp_path, data[: len(data) // 2])
    assert found["cpu_samples"]["sample"].to_list() == [0, 1]
    assert found.rejects["reason"].to_list() == ["the file ends inside this report"]


@pytest.mark.realworld
@pytest.mark.skipif(not REALWORLD.exists(), reason="files of other people are not here")
def test_files_of_other_people() -> None:
    text = read(mpstat.FORMAT, REALWORLD / "mpstat" / "sysstat__sysstat__tests_expected.mpstat-A")
    json = read(mpstat_json.FORMAT, REALWORLD / "mpstat" / "sysstat__sysstat__tests_expected.mpstat-A-JSON")
    both = [found.rows("core_samples").filter(sample=0).drop("since_boot") for found in (text, json)]
    assert_frame_equal(*both)
    csv = read(sadf_csv.FORMAT, REALWORLD / "sar" / "sysstat__sysstat__tests_expected.sadf-d")
    assert csv.rejects.is_empty()
    assert csv["pressure_samples"].height == 25
