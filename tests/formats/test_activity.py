"""Snapshots of pg_stat_activity: recordings of two versions, what others write, and what is no snapshot."""

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.errors import FormatError
from citus_analysis.formats import activity
from tests.formats.sampling import ROOT, Read, read, read_bytes

DATA = ROOT / "tests" / "data" / "snapshots"
HEADER = b"sample_time,pid,state,wait_event_type,wait_event,query\n"


def of(file: Path) -> pl.DataFrame:
    return read(activity.FORMAT, file)["activity_samples"]


def of_bytes(folder: Path, data: bytes, **options: str) -> Read:
    return read_bytes(activity.FORMAT, folder, data, **options)


def test_a_recording_of_citus() -> None:
    samples = of(DATA / "activity-citus-12.1-pg15.csv")
    assert samples.height == 66
    assert samples["sample"].unique().to_list() == [0, 1, 2, 3]
    child = samples.filter(pl.col("application").cast(pl.String).str.starts_with("citus_internal"))
    # A child carries its parent's session: node id and pid.
    assert child["gpid"].null_count() == 0
    assert set(child["gpid"] // 10**10) <= {1, 2, 3, 4}
    mine = samples.filter(~pl.col("worker_query").fill_null(value=True))
    mine = mine.drop_nulls("gpid")  # Citus has given some sessions none yet
    assert mine.height == 9
    assert (mine["gpid"] % 10**10).to_list() == mine["pid"].to_list()
    assert "WALSync" in samples["wait_event"].cast(pl.String).to_list()


def test_a_recording_of_postgresql_18() -> None:
    samples = of(DATA / "activity-pg18.csv")
    first = samples.row(0, named=True)
    assert first["sample_time"] == datetime(2026, 11, 22, 14, 29, 11, 153267, tzinfo=UTC)
    assert (first["pid"], first["state"], first["application"], first["user"]) == (26138, "idle", "pgbench", "postgres")
    background = samples.filter(pl.col("state").is_null())["backend_type"].cast(pl.String).unique()
    assert {"checkpointer", "walwriter", "io worker"} <= set(background)
    assert samples["gpid"].null_count() == samples.height


def test_texts_of_queries_are_not_kept_whatever_stands_in_them(tmp_path: Path) -> None:
    rows = (
        b'2026-03-01 12:00:00+01,7,active,,,"SELECT ""a"",\n  \'secret-of-mine\'"\n2026-03-01 12:00:01+01,7,idle,,,\n'
    )
    found = of_bytes(tmp_path, HEADER + rows)
    samples = found["activity_samples"]
    assert samples["sample_time"].dt.strftime("%T").to_list() == ["11:00:00", "11:00:01"]
    assert samples["sample"].to_list() == [0, 1]
    assert "secret-of-mine" not in str(samples.rows())
    assert found.rejects.is_empty()


def test_a_header_that_watch_repeats_is_noise(tmp_path: Path) -> None:
    found = of_bytes(tmp_path, (HEADER + b"2026-03-01 12:00:00+00,7,active,IO,WALSync,x\n\n") * 3)
    assert found["activity_samples"].height == 3
    assert found.noise_bytes == 3 * (len(HEADER) + 1)


def test_times_without_an_offset_are_of_the_zone_that_is_stated(tmp_path: Path) -> None:
    row = HEADER + b"2026-07-01 12:00:00,7,active,,,\n"
    assert of_bytes(tmp_path, row)["activity_samples"]["sample_time"][0].hour == 12
    assert of_bytes(tmp_path, row, timezone="Europe/Berlin")["activity_samples"]["sample_time"][0].hour == 10


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"yesterday,7,active,,,\n", "sample_time cannot be read"),
        (b"2026-03-01 12:00:00+00,,active,,,\n", "pid is empty"),
        (b"2026-03-01 12:00:00+00,99999999999,active,,,\n", "pid cannot be read"),
        (b"2026-03-01 12:00:00+00,7,active\n", "the header announces 6 fields"),
        (b"2026-03-01 12:00:00+00,7,active,,,", "the file ends inside this line"),
    ],
)
def test_a_record_that_cannot_be_read_is_rejected_alone(tmp_path: Path, row: bytes, reason: str) -> None:
    good = b"2026-03-01 12:00:00+00,8,idle,,,\n"
    found = of_bytes(tmp_path, HEADER + good + row)
    assert found["activity_samples"]["pid"].to_list() == [8]
    assert found.rejects.select("byte_offset", "reason").rows() == [(len(HEADER + good), reason)]


def test_other_files_are_not_snapshots(tmp_path: Path) -> None:
    assert activity.FORMAT.detect("x.csv", b"pid,state\n1,a\n") == 0
    assert activity.FORMAT.detect("x.csv", b"time,pid,command\n") == 0
    with pytest.raises(FormatError, match="lacks pid"):
        of_bytes(tmp_path, b"a,b\n1,2\n")
