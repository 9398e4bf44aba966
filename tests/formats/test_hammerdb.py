"""Files that HammerDB 4.12 wrote against PostgreSQL 15; expected values were read off them by eye."""

from pathlib import Path

import polars as pl
import pytest

from citus_analysis.formats import Content, Hints, detect_format, format_named
from tests.formats.clients import SAMPLES

RECORDED = SAMPLES / "hammerdb"


def parsed(path: Path) -> dict[str, pl.DataFrame]:
    pieces = list(format_named("hammerdb").parse(Content(path), Hints(path.name)))
    accounted = sum(piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes for piece in pieces)
    assert accounted == path.stat().st_size
    tables = ("clients", "client_metrics", "client_series", "client_errors", "rejects")
    return {table: pl.concat([piece.frame(table) for piece in pieces]) for table in tables}


def values(tables: dict[str, pl.DataFrame], section: str) -> dict[str, float]:
    return dict(tables["client_metrics"].filter(pl.col("section") == section).select("metric", "value").iter_rows())


@pytest.mark.parametrize("path", sorted(RECORDED.iterdir()), ids=lambda path: path.stem)
def test_every_file_is_recognised_and_none_of_it_rejected(path: Path) -> None:
    found = detect_format(Content(path))
    assert found is not None
    assert found.name == "hammerdb"
    assert parsed(path)["rejects"].rows() == []


def test_nopm_and_tpm_keep_their_names() -> None:
    tables = parsed(RECORDED / "4.12-console.log")
    told = values(tables, "OVERALL")
    assert (told["NOPM"], told["TPM"], told["timed test"], told["ramp-up"]) == (20569, 249483, 1, 0)
    client = tables["clients"].row(0, named=True)
    assert client["throughput_ops_s"] == pytest.approx(249483 / 60)
    assert (client["threads"], client["runtime_ms"], client["completed"]) == (1, 60_000, True)
    assert client["operations_done"] is None


def test_the_counter_is_the_series() -> None:
    series = parsed(RECORDED / "4.12-console.log")["client_series"]
    assert (series["throughput_ops_s"] * 60).round().to_list()[:3] == [0, 17640, 45408]
    assert series["elapsed_s"].null_count() == series.height


def test_the_time_profile_gives_latencies_and_says_what_they_include() -> None:
    tables = parsed(RECORDED / "4.12-hdbxtprofile.log")
    orders = values(tables, "NEWORD")
    assert (orders["CALLS"], orders["AVG"], orders["P99"]) == (20579, 1.32, 9.569)
    units = dict(tables["client_metrics"].filter(pl.col("section") == "NEWORD").select("metric", "unit").iter_rows())
    assert (units["AVG"], units["SD"]) == ("ms", "us")
    told = values(tables, "OVERALL")
    assert told["time profile includes ramp-up"] == 1
    assert told["virtual user 2: NEWORD P95"] == 5.038
    assert tables["clients"].is_empty()


def test_percentiles_of_version_6_are_marked_as_sampled(tmp_path: Path) -> None:
    newer = tmp_path / "hdbxtprofile.log"
    text = (RECORDED / "4.12-hdbxtprofile.log").read_text(encoding="utf-8")
    newer.write_text(text.replace("\tP50: ", "\tP75: 0.600ms\tP50: "), encoding="utf-8")
    tables = parsed(newer)
    assert values(tables, "OVERALL")["percentiles from a reservoir"] == 1
    deviation = tables["client_metrics"].filter(pl.col("metric") == "SD")
    assert deviation["unit"].unique().to_list() == ["ms"]


def test_a_summary_that_counts_users_twice_is_not_believed(tmp_path: Path) -> None:
    twice = tmp_path / "hdbxtprofile.log"
    before, mark, after = (RECORDED / "4.12-hdbxtprofile.log").read_text(encoding="utf-8").partition(">>>>> SUMMARY")
    twice.write_text(before + mark + after.replace("CALLS: 20579", "CALLS: 41158"), encoding="utf-8")
    orders = values(parsed(twice), "NEWORD")
    assert (orders["CALLS"], orders["CALLS as summed by HammerDB"]) == (20579, 41158)


def test_failing_procedures_are_errors() -> None:
    tables = parsed(RECORDED / "4.12-failing.log")
    assert tables["client_errors"]["count"].sum() == 41
    assert values(tables, "OVERALL")["NOPM"] == 0


def test_passwords_of_the_console_are_not_stored(tmp_path: Path) -> None:
    told = tmp_path / "hammerdb.log"
    line = "Changed tpcc:pg_pass from tpcc to s3cr3t-word for PostgreSQL\n"
    told.write_text(line + (RECORDED / "4.12-console.log").read_text(encoding="utf-8"), encoding="utf-8")
    assert not any("s3cr3t-word" in str(frame.rows()) for frame in parsed(told).values())


def test_a_run_without_a_result_is_not_complete(tmp_path: Path) -> None:
    cut = tmp_path / "hammerdb.log"
    cut.write_text((RECORDED / "4.12-console.log").read_text(encoding="utf-8").partition("Vuser 1:1 ...,")[0])
    assert parsed(cut)["clients"]["completed"].to_list() == [False]
