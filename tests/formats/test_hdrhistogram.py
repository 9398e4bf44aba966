"""A log that the Python library of HdrHistogram wrote, its tags added; expected values are that library's own."""

import base64
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.errors import FormatError, UnknownNameError
from citus_analysis.formats import Content, Hints, detect_format, format_named
from tests.formats.clients import SAMPLES

RECORDED = SAMPLES / "hdrhistogram" / "tagged.hlog"


def parsed(path: Path, **options: str) -> dict[str, pl.DataFrame]:
    pieces = list(format_named("hdrhistogram").parse(Content(path), Hints(path.name, options)))
    accounted = sum(piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes for piece in pieces)
    assert accounted == len(Content(path).read(2**20))
    tables = ("client_histogram", "client_series", "rejects")
    return {table: pl.concat([piece.frame(table) for piece in pieces]) for table in tables}


def value_at(histogram: pl.DataFrame, quantile: float) -> float:
    rank = round(quantile * int(histogram["count"].sum()))
    ordered = histogram.sort("bucket_low_us").filter(pl.col("count").cum_sum() >= rank)
    return float(ordered["bucket_high_us"][0]) - 1


@pytest.mark.parametrize(
    ("tag", "median", "p99", "largest"), [("READ", 1073, 7527, 26895), ("INSERT", 2953, 17807, 62367)]
)
def test_intervals_merge_to_what_the_library_counts(tag: str, median: int, p99: int, largest: int) -> None:
    found = detect_format(Content(RECORDED))
    assert found is not None
    assert found.name == "hdrhistogram"
    histogram = parsed(RECORDED)["client_histogram"].filter(pl.col("section") == tag)
    assert histogram["count"].sum() == 2600
    assert (value_at(histogram, 0.5), value_at(histogram, 0.99), value_at(histogram, 1)) == (median, p99, largest)


@pytest.mark.parametrize("path", sorted(RECORDED.parent.glob("[12].*")), ids=lambda path: path.name)
def test_older_encodings_give_what_the_library_counted(path: Path) -> None:
    """Written by HdrHistogram 1.2.1 (V0) and 2.1.4 (V1) of Java, with counts of 8, 4 and 2 bytes."""
    tables = parsed(path)
    assert tables["rejects"].is_empty()
    series = tables["client_series"]
    assert series["operations"].to_list() == [1000, 2000, 3000]
    # Version 2 of the library gives the upper edge of a percentile's bucket, version 1 the lower one.
    upper = [2539, 2095, 2335]
    assert series["p99_us"].to_list() == upper
    largest = tables["client_histogram"].sort("bucket_low_us").row(-1, named=True)
    assert (largest["bucket_low_us"], largest["bucket_high_us"], largest["count"]) == (101376, 101888, 1)


def test_whether_latencies_are_corrected_is_a_column(tmp_path: Path) -> None:
    intended = tmp_path / "Intended-READ.hdr"
    intended.write_bytes((RECORDED.parent / "2.1.4-compressed.hlog").read_bytes())
    assert parsed(intended)["client_histogram"]["corrected"].unique().to_list() == [True]
    for stated, column in ((None, None), ("raw", False), ("corrected", True)):
        tables = parsed(RECORDED, **({} if stated is None else {"hdr_correction": stated}))
        assert tables["client_histogram"]["corrected"].unique().to_list() == [column]
        assert tables["client_series"]["corrected"].unique().to_list() == [column]


def test_each_interval_is_a_row_of_the_series() -> None:
    series = parsed(RECORDED)["client_series"]
    assert series["section"].to_list() == ["READ", "INSERT"] * 4
    assert series["operations"].to_list() == [500, 500, 600, 600, 700, 700, 800, 800]
    assert series["throughput_ops_s"].to_list()[0] == pytest.approx(500 / 0.999)


def test_corrected_latencies_have_sections_of_their_own_and_units_are_stated() -> None:
    corrected = parsed(RECORDED, hdr_correction="corrected", hdr_unit="ms")["client_histogram"]
    assert corrected["section"].unique().sort().to_list() == ["Intended-INSERT", "Intended-READ"]
    raw = parsed(RECORDED)["client_histogram"]
    assert corrected["bucket_high_us"].max() == pytest.approx(1000 * raw["bucket_high_us"].to_numpy().max())
    with pytest.raises(UnknownNameError):
        parsed(RECORDED, hdr_unit="minutes")


def test_without_a_tag_the_file_names_the_section(tmp_path: Path) -> None:
    plain = tmp_path / "READ.hdr"
    plain.write_text(RECORDED.read_text(encoding="utf-8").replace("Tag=READ,", "").replace("Tag=INSERT,", ""))
    assert parsed(plain)["client_histogram"]["section"].unique().to_list() == ["READ"]


def test_histograms_that_cannot_be_decoded_are_rejected(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.hlog"
    # The cookie of V1, compressed, and nothing that could be inflated.
    other = "HIST" + base64.b64encode(b"\x1c\x84\x93\x02" + bytes(44)).decode()
    lines = RECORDED.read_text(encoding="utf-8") + f"4.0,1.0,0.1,{other}\nTag=READ,5.0,1.0,0.1,HISTAAAA\n"
    damaged.write_text(lines)
    tables = parsed(damaged)
    assert tables["rejects"]["reason"].unique().to_list() == ["its histogram cannot be decoded"]
    assert tables["client_histogram"]["count"].sum() == 5200


def test_another_text_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "x.hlog"
    other.write_text("hello\n")
    with pytest.raises(FormatError):
        parsed(other)
