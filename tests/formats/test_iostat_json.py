from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from citus_analysis.formats import Content, Hints
from citus_analysis.formats.iostat import FORMAT as TEXT
from citus_analysis.formats.iostat_json import FORMAT
from citus_analysis.formats.parsing import json_records as json_reports
from tests.formats.sampling import CORPUS, DATA, REALWORLD, read, read_bytes
from tests.shards import count_examples

DOCUMENT = DATA / "iostat-o-json.json"


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.name)
def test_recordings_are_recognised(path: Path) -> None:
    assert FORMAT.detect("unhelpful-name", path.read_bytes()) == 0.95
    assert TEXT.detect("unhelpful-name", path.read_bytes()) == 0.0


def test_json_and_text_of_the_same_seconds_agree() -> None:
    """Two iostat processes sampled the same machine; their intervals are a few milliseconds apart."""
    json, text = read(FORMAT, DOCUMENT), read(TEXT, DATA / "iostat-xt-iso.out")
    both = json["cpu_samples"].join(text["cpu_samples"], on="sample_time", suffix="_text")
    assert both.height == 12
    assert both["since_boot"].equals(both["since_boot_text"])
    first = both.row(0, named=True)
    assert all(first[c] == first[f"{c}_text"] for c in ("user_percent", "system_percent", "idle_percent"))
    steady = both.slice(1)
    assert (steady["user_percent"] - steady["user_percent_text"]).abs().max() < 2.0  # type: ignore[operator]  # scalar
    devices = json["device_samples"].join(text["device_samples"], on=["sample_time", "device"], suffix="_text")
    assert devices.height == 12
    assert (devices["reads_per_s"] - devices["reads_per_s_text"]).abs().median() == 0.0
    assert devices["await_ms"][0] == pytest.approx(devices["await_ms_text"][0], abs=1e-9)


def test_document_between_reports_is_complete_so_far() -> None:
    result = read(FORMAT, DATA / "iostat-being-written.json")
    assert result["cpu_samples"]["since_boot"].to_list() == [True, False, False, False]
    assert result.rejects.is_empty()


def test_document_of_a_killed_process_keeps_its_reports() -> None:
    result = read(FORMAT, DATA / "iostat-killed.json")
    assert result["device_samples"]["sample"].to_list() == [0, 1, 2]
    assert result.rejects.is_empty()


@settings(max_examples=count_examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, DOCUMENT.stat().st_size))
def test_every_prefix_yields_the_reports_it_completes(tmp_path: Path, cut: int) -> None:
    text = DOCUMENT.read_bytes()[:cut]
    closed = text.count(b"\n\t\t\t\t}")
    result = read_bytes(FORMAT, tmp_path, text)
    assert result["cpu_samples"].height == result["device_samples"].height == closed
    assert result.rejects.height <= 1


def test_option_y_leaves_an_empty_line() -> None:
    assert read(FORMAT, DATA / "iostat-y.json")["cpu_samples"]["since_boot"].to_list() == [False, False]
    assert read(FORMAT, DOCUMENT)["cpu_samples"]["since_boot"].sum() == 1
    assert read(FORMAT, DOCUMENT, first_report="interval")["cpu_samples"]["since_boot"].sum() == 0
    assert read(FORMAT, DATA / "iostat-y.json", first_report="since_boot")["device_samples"]["since_boot"].sum() == 1


def test_iso_times_with_offset() -> None:
    times = read(FORMAT, DATA / "iostat-iso-berlin.json")["cpu_samples"]["sample_time"]
    assert times[0] == datetime(2026, 11, 21, 10, 2, 27, tzinfo=UTC)


def test_damage_rejects_the_rest_and_keeps_what_came_before(tmp_path: Path) -> None:
    text = DOCUMENT.read_bytes()
    position = text.index(b'"disk"', len(text) // 2)
    result = read_bytes(FORMAT, tmp_path, text[:position] + b"{ token=s3cret !" + text[position:])
    assert 0 < result["cpu_samples"].height < 12
    assert result.rejects["reason"].to_list() == ["not JSON from here on"]
    assert "s3cret" not in result.rejects["excerpt"][0]


def test_blocks_cut_anywhere_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(FORMAT, DOCUMENT)
    for size in (200, 777):
        monkeypatch.setattr(json_reports, "_BLOCK_BYTES", size)
        assert read(FORMAT, DOCUMENT)["device_samples"].equals(whole["device_samples"])


def test_names_beyond_ascii(tmp_path: Path) -> None:
    result = read_bytes(FORMAT, tmp_path, DOCUMENT.read_bytes().replace(b'"vda"', '"größe"'.encode()))
    assert result["device_samples"]["device"].unique().to_list() == ["größe"]


def test_empty_and_foreign_content(tmp_path: Path) -> None:
    assert read_bytes(FORMAT, tmp_path, b"")["cpu_samples"].is_empty()
    assert FORMAT.detect("iostat.json", b"") == 0.0
    assert FORMAT.detect("iostat.json", b'{"sysstat": {"hosts": [{"statistics": [{"cpu-load": []}]}]}}') == 0.0


def test_content_is_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Content, "read", lambda *_: pytest.fail("the whole file was read at once"))
    pieces = list(FORMAT.parse(Content(DOCUMENT), Hints()))
    assert pl.concat([piece.frame("cpu_samples") for piece in pieces if piece.tables]).height == 12


@pytest.mark.skipif(not CORPUS.exists(), reason="needs the whole recorded corpus")
def test_recordings_of_the_corpus() -> None:
    paths = sorted(CORPUS.glob("*/general/*.json"))
    assert len(paths) == 2
    for path in paths:
        result = read(FORMAT, path)
        assert result.rejects.is_empty()
        assert result["device_samples"]["sample"].to_list() == list(range(12))


@pytest.mark.realworld
@pytest.mark.skipif(not REALWORLD.exists(), reason="needs recordings made by others")
def test_recordings_of_others() -> None:
    sysstat = read(FORMAT, REALWORLD / "iostat" / "sysstat__sysstat__tests_expected.iostat-x-p-ALL-JSON")
    text = read(TEXT, REALWORLD / "iostat" / "sysstat__sysstat__tests_expected.iostat-x-p-ALL")
    shared = [c for c in sysstat["device_samples"].columns if c not in {"is_group", "await_ms", "byte_offset"}]
    assert sysstat["device_samples"].select(shared).equals(text["device_samples"].select(shared))
    assert sysstat.rows("cpu_samples").equals(text.rows("cpu_samples"))
    name = "GoogleCloudPlatform__PerfKitBenchmarker__tests_data_iostat_output.json"
    perfkit = read(FORMAT, REALWORLD / "iostat" / name)["cpu_samples"]
    assert perfkit["sample_time"][0] == datetime(2024, 3, 15, 0, 53, 14, tzinfo=UTC)


def test_a_groups_name_has_no_blank(tmp_path: Path) -> None:
    disks = '[{"disk_device": "vda", "tps": 1}, {"disk_device": " disks", "tps": 2}]'
    text = f'{{"sysstat": {{"hosts": [{{"statistics": [\n{{"disk": {disks}}}\n]}}]}}}}\n'
    rows = read_bytes(FORMAT, tmp_path, text.encode())["device_samples"]
    assert rows.select("device", "is_group", "transfers_per_s").rows() == [("vda", None, 1.0), ("disks", True, 2.0)]


@pytest.mark.parametrize("number", ["1e999", "9" * 400, "9" * 30_000, "NaN", "-Infinity"])
def test_a_report_with_a_number_that_is_none_is_rejected(tmp_path: Path, number: str) -> None:
    bad = f'{{"avg-cpu": {{"user": {number}}}}}'
    reports = f'{{"avg-cpu": {{"user": 1}}}},{bad},{{"avg-cpu": {{"user": 3}}}}'
    text = f'{{"sysstat": {{"hosts": [{{"statistics": [\n{reports}\n]}}]}}}}\n'
    result = read_bytes(FORMAT, tmp_path, text.encode())
    assert result["cpu_samples"]["user_percent"].to_list() == [1.0, 3.0]
    assert result.rejects["byte_length"].to_list() == [len(bad)]
